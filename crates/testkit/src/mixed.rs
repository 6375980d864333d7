//! Generates small events whose fields change kind from one event to the next, from few values, so that groups collide.

use crate::Rng;

/// Numbers as texts: of all kinds and sizes, the same number in several spellings. `-0` is not among them: as a whole
/// number it is 0, which not every reader of JSON agrees to.
pub(crate) const NUMBERS: [&str; 30] = [
    "0",
    "1",
    "1",
    "2",
    "2",
    "3",
    "-1",
    "10",
    "100",
    "1.0",
    "2.0",
    "1e2",
    "1E+2",
    "100.0",
    "-1.5",
    "0.1",
    "0.2",
    "0.3",
    "0.0",
    "-0.0",
    "2.5e-7",
    "1e15",
    "-7",
    "123456789",
    "2147483648",
    "9007199254740993",
    "9007199254740992.0",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
];

/// Texts.
pub(crate) const STRINGS: [&str; 24] = [
    "",
    "a",
    "a",
    "b",
    "b",
    "c",
    "A",
    "ab",
    "abc",
    "1",
    "1.0",
    "true",
    "null",
    " x ",
    "ß",
    "É",
    "é",
    "😀",
    "～",
    "a\"b",
    "line\nend",
    "it's",
    "back\\slash",
    "100%",
];

/// Keys of maps; the second needs quotes in a path.
pub(crate) const KEYS: [&str; 3] = ["k", "k 2", "é"];

/// Fields that hold one value as a rule.
pub(crate) const SCALAR_FIELDS: [&str; 7] = ["a", "b", "c", "n", "s", "t", "x y"];

/// A stream of such events.
///
/// ```
/// let events = swiftwater_testkit::MixedEvents::new(1).events(3);
/// assert!(events.iter().all(|event| event.starts_with('{')));
/// assert_eq!(events, swiftwater_testkit::MixedEvents::new(1).events(3));
/// ```
#[derive(Debug, Clone)]
pub struct MixedEvents {
    rng: Rng,
}

impl MixedEvents {
    /// The same seed gives the same events.
    pub fn new(seed: u64) -> MixedEvents {
        MixedEvents { rng: Rng::new(seed) }
    }

    /// Random texts of so many events, each one JSON object on one line.
    pub fn events(&mut self, count: usize) -> Vec<String> {
        (0..count).map(|_| self.event()).collect()
    }

    /// The next event's text, with this time (milliseconds since 1970) in its field `ts`: as a whole number, now and
    /// then as text, or none at all.
    pub fn event_at(&mut self, millis: i64) -> String {
        let time = match self.rng.below(20) {
            0 => "null".to_owned(),
            1 => self.rng.pick(&["true", "\"x\"", "[1]", "{}", "100", "-1.5", "1e2"]).to_owned(),
            2 | 3 => format!("\"{}\"", rfc3339(millis)),
            4 => format!("{millis}.0"),
            _ => millis.to_string(),
        };
        let event = self.event();
        match event.trim_start_matches('{').trim() {
            "}" => format!("{{\"ts\":{time}}}"),
            rest => format!("{{\"ts\":{time},{rest}"),
        }
    }

    /// The next event's text.
    pub fn event(&mut self) -> String {
        let mut fields = Vec::new();
        for name in SCALAR_FIELDS {
            self.add(&mut fields, name, |events| match name {
                "n" => events.number(),
                "s" => events.string(),
                "t" => events.boolean(),
                _ => events.scalar(),
            });
        }
        self.add(&mut fields, "m", MixedEvents::map);
        self.add(&mut fields, "l", MixedEvents::list);
        self.add(&mut fields, "o", |events| {
            let inner = if events.rng.chance(0.8) {
                format!("{{\"q\":{}}}", events.scalar())
            } else {
                events.scalar()
            };
            format!("{{\"p\":{inner}}}")
        });
        self.add(&mut fields, "v", |events| {
            let maps: Vec<String> = (0..events.rng.below(3)).map(|_| events.map()).collect();
            format!("[{}]", maps.join(","))
        });
        // The last of equal keys counts.
        if self.rng.chance(0.03) && !fields.is_empty() {
            let (name, value) = (self.rng.pick(&SCALAR_FIELDS), self.scalar());
            fields.push((name, value));
        }
        // The order of fields changes now and then; equal keys stay behind one another.
        if self.rng.chance(0.2) {
            fields.sort_by_key(|(name, _)| *name);
        }
        let space = if self.rng.chance(0.2) { " " } else { "" };
        let fields: Vec<String> = fields
            .into_iter()
            .map(|(name, value)| format!("{space}{}{space}:{space}{value}", self.quoted(name)))
            .collect();
        format!("{{{}{space}}}", fields.join(","))
    }

    /// Adds a field: missing, null, of any kind, or as `usual` says.
    fn add(
        &mut self,
        fields: &mut Vec<(&'static str, String)>,
        name: &'static str,
        usual: impl FnOnce(&mut MixedEvents) -> String,
    ) {
        let value = match self.rng.below(20) {
            0 | 1 => return,
            2 => "null".to_owned(),
            3 => self.any(),
            _ => usual(self),
        };
        fields.push((name, value));
    }

    fn any(&mut self) -> String {
        match self.rng.below(6) {
            0 => self.map(),
            1 => self.list(),
            _ => self.scalar(),
        }
    }

    fn scalar(&mut self) -> String {
        match self.rng.below(10) {
            0 => "null".to_owned(),
            1 => self.boolean(),
            2..6 => self.number(),
            _ => self.string(),
        }
    }

    fn boolean(&mut self) -> String {
        self.rng.pick(&["true", "false"]).to_owned()
    }

    fn number(&mut self) -> String {
        self.rng.pick(&NUMBERS).to_owned()
    }

    fn string(&mut self) -> String {
        let text = self.rng.pick(&STRINGS);
        self.quoted(text)
    }

    fn map(&mut self) -> String {
        let mut entries = Vec::new();
        for key in KEYS {
            if self.rng.chance(0.6) {
                let value = if self.rng.chance(0.05) { self.list() } else { self.scalar() };
                entries.push(format!("{}:{value}", self.quoted(key)));
            }
        }
        format!("{{{}}}", entries.join(","))
    }

    fn list(&mut self) -> String {
        let items: Vec<String> = (0..self.rng.below(4)).map(|_| self.scalar()).collect();
        format!("[{}]", items.join(", "))
    }

    /// A JSON string, with more escapes than it needs now and then.
    fn quoted(&mut self, text: &str) -> String {
        let escapes_all = self.rng.chance(0.1);
        let mut quoted = String::from("\"");
        for c in text.chars() {
            match c {
                _ if escapes_all => {
                    let mut units = [0; 2];
                    for unit in c.encode_utf16(&mut units) {
                        quoted.push_str(&format!("\\u{unit:04x}"));
                    }
                }
                '"' => quoted.push_str("\\\""),
                '\\' => quoted.push_str("\\\\"),
                '\n' => quoted.push_str("\\n"),
                _ => quoted.push(c),
            }
        }
        quoted.push('"');
        quoted
    }
}

/// RFC 3339 text, by counting days.
fn rfc3339(millis: i64) -> String {
    let is_leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let (mut day, time) = (millis.div_euclid(86_400_000), millis.rem_euclid(86_400_000));
    let mut year = 1970;
    while day < 0 {
        year -= 1;
        day += 365 + i64::from(is_leap(year));
    }
    while day >= 365 + i64::from(is_leap(year)) {
        day -= 365 + i64::from(is_leap(year));
        year += 1;
    }
    let mut month = 1;
    for length in [31, 28 + i64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if day < length {
            break;
        }
        day -= length;
        month += 1;
    }
    let (hour, minute, second) = (time / 3_600_000, time / 60_000 % 60, time / 1000 % 60);
    format!("{year:04}-{month:02}-{:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", day + 1, time % 1000)
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use serde_json::Value;

    use super::*;

    #[test]
    fn every_field_changes_its_kind() {
        let mut kinds: HashMap<String, HashSet<&str>> = HashMap::new();
        let mut missing: HashMap<&str, usize> = HashMap::new();
        for text in MixedEvents::new(3).events(2000) {
            let event: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
            for (name, value) in event.as_object().unwrap() {
                let kind = match value {
                    Value::Null => "null",
                    Value::Bool(_) => "boolean",
                    Value::Number(number) if number.is_i64() => "long",
                    Value::Number(_) => "double",
                    Value::String(_) => "string",
                    Value::Array(_) => "list",
                    Value::Object(_) => "map",
                };
                kinds.entry(name.clone()).or_default().insert(kind);
            }
            for name in SCALAR_FIELDS.into_iter().filter(|name| event.get(name).is_none()) {
                *missing.entry(name).or_default() += 1;
            }
        }
        assert_eq!(kinds.len(), SCALAR_FIELDS.len() + 4);
        assert!(kinds.values().all(|kinds| kinds.len() == 7), "{kinds:?}");
        assert!(missing.values().all(|count| (100..400).contains(count)), "{missing:?}");
    }

    #[test]
    fn texts_survive_their_escapes() {
        let mut events = MixedEvents::new(4);
        for text in STRINGS.into_iter().cycle().take(500) {
            let quoted = events.quoted(text);
            assert_eq!(serde_json::from_str::<String>(&quoted).unwrap(), text, "{quoted}");
        }
    }
}
