//! Generates events in the shape of Bullet's published load tests, at memory speed, with planted matches.
//!
//! An event has 92 fields: 62 strings, 4 longs, 23 maps (of strings, doubles, longs, booleans) and 3 lists of maps; about
//! 1,850 bytes. Four of the strings have the form of a UUID, the others are shorter, so that all 92 fit that size.
//!
//! Events are made from templates: one is copied, then its random places are overwritten. All events of a template therefore
//! have one length, and the templates vary. A planted value has the length of the value that it replaces.

use crate::rng::Rng;

/// Strings of an event: `s01` to `s62`.
pub const STRINGS: usize = 62;
/// Longs of an event: `l1` to `l4`.
pub const LONGS: usize = 4;
/// Maps of an event: `m01` to `m23`.
pub const MAPS: usize = 23;
/// Lists of maps of an event: `v1` to `v3`.
pub const LISTS: usize = 3;
/// Queries are spread over the first so many of the strings.
pub const QUERY_FIELDS: usize = 50;
/// The most queries that can be told apart by their values.
pub const QUERIES_MAX: usize = QUERY_FIELDS * VALUES_PER_FIELD;

/// Three characters of [`LETTERS`].
const VALUES_PER_FIELD: usize = 32 * 32 * 32;
/// Planted values begin with this, random ones never hold it: nothing matches by accident.
const PLANTED: u8 = b'Q';
const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
const HEX: &[u8; 16] = b"0123456789abcdef";
const UUID_FIELDS: usize = 4;
const TEMPLATES: usize = 64;

/// The content of a random place.
#[derive(Debug, Clone, Copy)]
enum PlaceholderKind {
    Letters,
    Hex,
    Digits,
}

/// A random place of a template.
#[derive(Debug, Clone, Copy)]
struct Placeholder {
    start: usize,
    len: usize,
    fill: PlaceholderKind,
}

#[derive(Debug, Clone, Default)]
struct Template {
    /// One event and a line break.
    bytes: Vec<u8>,
    slots: Vec<Placeholder>,
    /// Start of the text of each string field.
    strings: Vec<usize>,
    /// Start of the digits of each long.
    longs: Vec<usize>,
    /// Start of the first value of each map; of a fraction, its digits after the point.
    maps: Vec<usize>,
}

/// One event that was just made, to be changed in place.
pub struct EventText<'e> {
    bytes: &'e mut [u8],
    template: &'e Template,
}

impl EventText<'_> {
    /// The first `len` characters of a string field; fields are numbered from 0, and each of the first
    /// [`QUERY_FIELDS`] has [`string_len_of`] characters in all events.
    pub fn string(&mut self, field: usize, len: usize) -> &mut [u8] {
        let at = self.template.strings[field];
        &mut self.bytes[at..at + len]
    }

    /// The digits of a long, `4 * (long + 1)` of them; longs are numbered from 0.
    pub fn long(&mut self, long: usize) -> &mut [u8] {
        let at = self.template.longs[long];
        &mut self.bytes[at..at + 4 * (long + 1)]
    }

    /// The digits of the first value of a map, which has the key `a`; maps are numbered from 0. If `map % 4` is 1,
    /// they are four after `0.`; if it is 2, they are a whole number's five; other maps have no numbers.
    pub fn map(&mut self, map: usize) -> &mut [u8] {
        let at = self.template.maps[map];
        &mut self.bytes[at..at + if map % 4 == 1 { 4 } else { 5 }]
    }
}

/// Characters of each of the first [`QUERY_FIELDS`] string fields.
pub fn string_len_of(field: usize) -> usize {
    if field < UUID_FIELDS { 36 } else { 4 + field % 7 }
}

/// The condition of one query.
#[derive(Debug, Clone)]
struct Planted {
    field: usize,
    value: Vec<u8>,
}

/// A stream of such events, and the queries that some of them match.
///
/// ```
/// use swiftwater_generate::published::PublishedEvents;
///
/// let mut events = PublishedEvents::new(42, 1_000, 0.01);
/// let mut ndjson = Vec::new();
/// events.write(500, &mut ndjson);
/// assert_eq!(events.queries().len(), 1_000);
/// // Query i has matched exactly this many of the events so far:
/// assert!(events.truth().iter().sum::<u64>() < 50);
/// ```
#[derive(Debug, Clone)]
pub struct PublishedEvents {
    rng: Rng,
    templates: Vec<Template>,
    planted: Vec<Planted>,
    match_share: f64,
    truth: Vec<u64>,
}

impl PublishedEvents {
    /// Events of which `match_share` match exactly one of `queries` queries, each as often as the others, and the rest
    /// none. The same arguments give the same events.
    ///
    /// # Panics
    ///
    /// Above [`QUERIES_MAX`] queries.
    pub fn new(seed: u64, queries: usize, match_share: f64) -> PublishedEvents {
        assert!(queries <= QUERIES_MAX, "{queries} queries, at most {QUERIES_MAX} can be told apart");
        let mut rng = Rng::new(seed);
        let templates = (0..TEMPLATES).map(|_| template(&mut rng)).collect();
        let planted = (0..queries).map(|query| planted(query, &mut rng)).collect();
        PublishedEvents { rng, templates, planted, match_share, truth: vec![0; queries] }
    }

    /// The text of each query, in the order of [`PublishedEvents::truth`].
    pub fn queries(&self) -> Vec<String> {
        self.queries_of("")
    }

    /// The queries of [`PublishedEvents::queries`], over a named stream.
    pub fn queries_over(&self, stream: &str) -> Vec<String> {
        self.queries_of(&format!("{stream}, "))
    }

    fn queries_of(&self, stream: &str) -> Vec<String> {
        let text = |planted: &Planted| {
            let (field, value) = (string_name(planted.field), String::from_utf8_lossy(&planted.value));
            format!("SELECT * FROM STREAM({stream}MAX, TIME) WHERE {field} = '{value}'")
        };
        self.planted.iter().map(text).collect()
    }

    /// Number of the events written so far that match each query.
    pub fn truth(&self) -> &[u64] {
        &self.truth
    }

    /// Appends so many events, each on a line.
    pub fn write(&mut self, events: usize, out: &mut Vec<u8>) {
        let planted = std::mem::take(&mut self.planted);
        let mut truth = std::mem::take(&mut self.truth);
        let share = self.match_share;
        self.write_edited(events, out, |event, rng| {
            if !planted.is_empty() && rng.chance(share) {
                let query = rng.below(planted.len());
                let Planted { field, value } = &planted[query];
                event.string(*field, value.len()).copy_from_slice(value);
                truth[query] += 1;
            }
        });
        (self.planted, self.truth) = (planted, truth);
    }

    /// Appends so many events, each on a line, in which nothing is planted but what `edit` writes.
    pub fn write_edited(
        &mut self,
        events: usize,
        out: &mut Vec<u8>,
        mut edit: impl FnMut(&mut EventText<'_>, &mut Rng),
    ) {
        for _ in 0..events {
            let template = &self.templates[self.rng.below(self.templates.len())];
            let start = out.len();
            out.extend_from_slice(&template.bytes);
            let bytes = &mut out[start..];
            for slot in &template.slots {
                fill(&mut bytes[slot.start..slot.start + slot.len], slot.fill, &mut self.rng);
            }
            edit(&mut EventText { bytes, template }, &mut self.rng);
        }
    }
}

#[inline]
fn fill(place: &mut [u8], with: PlaceholderKind, rng: &mut Rng) {
    match with {
        PlaceholderKind::Letters => {
            for chunk in place.chunks_mut(12) {
                let mut bits = rng.bits();
                for byte in chunk {
                    *byte = LETTERS[(bits & 31) as usize];
                    bits >>= 5;
                }
            }
        }
        PlaceholderKind::Hex => {
            for chunk in place.chunks_mut(16) {
                let mut bits = rng.bits();
                for byte in chunk {
                    *byte = HEX[(bits & 15) as usize];
                    bits >>= 4;
                }
            }
        }
        PlaceholderKind::Digits => {
            for chunk in place.chunks_mut(8) {
                let mut bits = rng.bits();
                for byte in chunk {
                    *byte = b'0' + (((bits & 255) * 10) >> 8) as u8;
                    bits >>= 8;
                }
            }
        }
    }
}

fn string_name(field: usize) -> String {
    format!("s{:02}", field + 1)
}

/// Characters of a string field without a query; those of a field with one are the same in all templates.
fn string_len(field: usize, rng: &mut Rng) -> usize {
    if field < QUERY_FIELDS { string_len_of(field) } else { 4 + rng.below(7) }
}

fn planted(query: usize, rng: &mut Rng) -> Planted {
    let field = query % QUERY_FIELDS;
    let mut number = query / QUERY_FIELDS;
    let mut value = vec![PLANTED; string_len(field, rng)];
    for byte in &mut value[1..4] {
        *byte = LETTERS[number % 32];
        number /= 32;
    }
    fill(&mut value[4..], PlaceholderKind::Letters, rng);
    Planted { field, value }
}

impl Template {
    fn text(&mut self, text: &str) {
        self.bytes.extend_from_slice(text.as_bytes());
    }

    fn slot(&mut self, len: usize, fill: PlaceholderKind) {
        self.slots.push(Placeholder { start: self.bytes.len(), len, fill });
        self.bytes.resize(self.bytes.len() + len, b'0');
    }

    fn string(&mut self, len: usize) {
        self.text("\"");
        self.slot(len, PlaceholderKind::Letters);
        self.text("\"");
    }

    /// Writes so many digits; the first is no zero.
    fn long(&mut self, digits: usize, rng: &mut Rng) {
        self.bytes.push(rng.pick(b"123456789"));
        self.slot(digits - 1, PlaceholderKind::Digits);
    }

    fn uuid(&mut self) {
        self.text("\"");
        for (at, len) in [8, 4, 4, 4, 12].into_iter().enumerate() {
            if at > 0 {
                self.text("-");
            }
            self.slot(len, PlaceholderKind::Hex);
        }
        self.text("\"");
    }

    /// `{"a":…,"b":…}`.
    fn map(&mut self, entries: usize, mut value: impl FnMut(&mut Template)) {
        self.text("{");
        for at in 0..entries {
            let key = ["a", "b", "c"][at % 3];
            self.text(&format!("{}\"{key}\":", if at > 0 { "," } else { "" }));
            value(self);
        }
        self.text("}");
    }
}

fn template(rng: &mut Rng) -> Template {
    let mut event = Template::default();
    event.text("{");
    for field in 0..STRINGS {
        event.text(&format!("\"{}\":", string_name(field)));
        event.strings.push(event.bytes.len() + 1);
        if field < UUID_FIELDS {
            event.uuid();
        } else {
            event.string(string_len(field, rng));
        }
        event.text(",");
    }
    for long in 0..LONGS {
        event.text(&format!("\"l{}\":", long + 1));
        event.longs.push(event.bytes.len());
        event.long(4 * (long + 1), rng);
        event.text(",");
    }
    for map in 0..MAPS {
        event.text(&format!("\"m{:02}\":", map + 1));
        // Behind the bracket and the first key; behind `0.` too where the value is a fraction.
        event.maps.push(event.bytes.len() + if map % 4 == 1 { 7 } else { 5 });
        let entries = 1 + rng.below(2);
        match map % 4 {
            0 => event.map(entries, |event| event.string(4)),
            1 => event.map(entries, |event| {
                event.text("0.");
                event.slot(4, PlaceholderKind::Digits);
            }),
            2 => event.map(entries, |event| event.long(5, rng)),
            _ => event.map(entries, |event| event.text(rng.pick(&["true", "false"]))),
        }
        event.text(",");
    }
    for list in 0..LISTS {
        event.text(&format!("\"v{}\":[", list + 1));
        for at in 0..1 + rng.below(2) {
            event.text(if at > 0 { "," } else { "" });
            event.map(2, |event| event.string(4));
        }
        event.text(if list + 1 < LISTS { "]," } else { "]}\n" });
    }
    event
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn events(seed: u64, queries: usize, share: f64, count: usize) -> (PublishedEvents, Vec<u8>) {
        let mut events = PublishedEvents::new(seed, queries, share);
        let mut out = Vec::new();
        events.write(count, &mut out);
        (events, out)
    }

    fn parsed(ndjson: &[u8]) -> Vec<Value> {
        let lines = ndjson.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
        lines.map(|line| serde_json::from_slice(line).unwrap()).collect()
    }

    #[test]
    fn events_have_the_published_shape_and_size() {
        let (_, out) = events(1, 0, 0.0, 2000);
        let mean = out.len() / 2000;
        assert!((1800..1900).contains(&mean), "{mean} bytes an event");
        for event in parsed(&out) {
            let fields = event.as_object().unwrap();
            assert_eq!(fields.len(), 92);
            assert_eq!(fields.values().filter(|value| value.is_string()).count(), STRINGS);
            assert_eq!(fields.values().filter(|value| value.is_i64()).count(), LONGS);
            let maps: Vec<_> = fields.values().filter_map(Value::as_object).collect();
            assert_eq!(maps.len(), MAPS);
            for kind in [Value::is_string, Value::is_f64, Value::is_i64, Value::is_boolean] {
                assert!(maps.iter().filter(|map| map.values().all(kind)).count() >= 5);
            }
            let lists: Vec<_> = fields.values().filter_map(Value::as_array).collect();
            assert_eq!(lists.len(), LISTS);
            assert!(lists.iter().all(|list| list.iter().all(Value::is_object)));
            assert_eq!(
                event["s01"].as_str().unwrap().split('-').map(str::len).collect::<Vec<_>>(),
                [8, 4, 4, 4, 12]
            );
        }
    }

    #[test]
    fn same_seed_gives_same_events() {
        assert_eq!(events(5, 100, 0.1, 50).1, events(5, 100, 0.1, 50).1);
        assert_ne!(events(5, 100, 0.1, 50).1, events(6, 100, 0.1, 50).1);
    }

    #[test]
    fn edits_land_in_their_fields() {
        let mut out = Vec::new();
        PublishedEvents::new(4, 0, 0.0).write_edited(200, &mut out, |event, _| {
            event.string(0, 3).copy_from_slice(b"one");
            event.string(49, string_len_of(49)).fill(b'x');
            event.long(0).copy_from_slice(b"1234");
            event.long(3).copy_from_slice(b"1234567890123456");
            event.map(1).copy_from_slice(b"1250");
            event.map(22).copy_from_slice(b"54321");
        });
        for event in parsed(&out) {
            assert!(event["s01"].as_str().unwrap().starts_with("one"));
            assert_eq!(event["s50"], "x".repeat(string_len_of(49)));
            assert_eq!(
                (event["l1"].as_i64(), event["l4"].as_i64()),
                (Some(1234), Some(1_234_567_890_123_456))
            );
            assert_eq!((event["m02"]["a"].as_f64(), event["m23"]["a"].as_i64()), (Some(0.125), Some(54321)));
        }
    }

    #[test]
    fn truth_is_what_the_events_say() {
        let (generator, out) = events(9, 120, 0.3, 3000);
        let counted: Vec<u64> = {
            let events = parsed(&out);
            let matches = |query: &String| {
                let (_, condition) = query.split_once(" WHERE ").unwrap();
                let (field, value) = condition.split_once(" = ").unwrap();
                events.iter().filter(|event| event[field] == value.trim_matches('\'')).count() as u64
            };
            generator.queries().iter().map(matches).collect()
        };
        assert_eq!(generator.truth(), counted);
        let total: u64 = counted.iter().sum();
        assert!((800..1000).contains(&total), "{total} of 3000 at 30 %");
    }

    #[test]
    fn queries_are_all_different_and_spread_over_fifty_fields() {
        let generator = PublishedEvents::new(3, 20_000, 0.01);
        let queries = generator.queries();
        let distinct: std::collections::HashSet<&String> = queries.iter().collect();
        assert_eq!(distinct.len(), 20_000);
        for field in 0..QUERY_FIELDS {
            let start = format!("SELECT * FROM STREAM(MAX, TIME) WHERE {} = ", string_name(field));
            assert_eq!(queries.iter().filter(|query| query.starts_with(&start)).count(), 400);
        }
        assert!(
            generator.queries_over("load")[0]
                .starts_with("SELECT * FROM STREAM(load, MAX, TIME) WHERE s01 = 'Q")
        );
    }
}
