//! Reads settings from the file, the environment and flags, in this order, and reports all errors in them.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use toml::de::{DeTable, DeValue};

use super::{Fault, KEYS, Key, Kind, Origin, Settings, SettingsError, Value, flags::SettingFlags};

/// The settings file that is read where none is named and it is there.
pub(crate) const FILE_NAME: &str = "swiftwater.toml";

/// The sources of settings.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    /// A file that has to be there.
    pub(crate) file: Option<PathBuf>,
    /// A file that is read if it is there and `file` is none.
    pub(crate) file_if_there: Option<PathBuf>,
    /// Environment variables.
    pub(crate) environment: Vec<(String, String)>,
    /// Flags.
    pub(crate) flags: SettingFlags,
}

/// Settings, and where each was found.
#[derive(Debug)]
pub(crate) struct Loaded {
    /// The settings in effect.
    pub(crate) settings: Settings,
    /// The origin of each of [`KEYS`].
    pub(crate) origins: Vec<Origin>,
}

/// Settings in the environment; what `tracing` programs read, too.
pub(crate) fn environment() -> Vec<(String, String)> {
    let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        Some((name.into_string().ok()?, value.to_string_lossy().into_owned()))
    };
    let mut all: Vec<_> = std::env::vars_os().filter_map(text).collect();
    all.sort();
    let log = all.iter().find(|(name, _)| name == "RUST_LOG").map(|(_, filter)| filter.clone());
    let log =
        log.filter(|filter| !filter.is_empty()).map(|filter| ("SWIFTWATER_LOG__FILTER".to_owned(), filter));
    // First, so that the setting's own name wins.
    log.into_iter().chain(all).collect()
}

/// Reads and checks settings.
pub(crate) fn load(sources: &Sources) -> Result<Loaded, SettingsError> {
    let mut reading = Reading {
        loaded: Loaded { settings: Settings::default(), origins: vec![Origin::Default; KEYS.len()] },
        faults: Vec::new(),
    };
    reading.file(sources);
    for (name, text) in &sources.environment {
        reading.variable(name, text);
    }
    for (name, text) in &sources.flags.0 {
        let at = KEYS.iter().position(|key| key.name == *name).expect("flags are made from KEYS");
        reading.text(at, text, Origin::Flag(format!("--{}", KEYS[at].flag())));
    }
    #[cfg(feature = "history")]
    reading.loaded.settings.kafka.check(&mut reading.faults);
    if reading.faults.is_empty() { Ok(reading.loaded) } else { Err(SettingsError(reading.faults)) }
}

struct Reading {
    loaded: Loaded,
    faults: Vec<Fault>,
}

impl Reading {
    fn file(&mut self, sources: &Sources) {
        let (path, required) = match (&sources.file, &sources.file_if_there) {
            (Some(path), _) => (path, true),
            (None, Some(path)) => (path, false),
            (None, None) => return,
        };
        match fs::read_to_string(path) {
            Ok(text) => self.file_text(path, &text),
            Err(error) if error.kind() == io::ErrorKind::NotFound && !required => {}
            Err(error) => {
                let origin = Origin::File { path: path.clone(), line: 1 };
                self.fault(origin, format!("the file cannot be read: {error}"));
            }
        }
    }

    fn file_text(&mut self, path: &Path, text: &str) {
        let line_of =
            |at: usize| text.as_bytes()[..at.min(text.len())].iter().filter(|b| **b == b'\n').count() + 1;
        let origin = |at: usize| Origin::File { path: path.to_owned(), line: line_of(at) };
        let (table, errors) = DeTable::parse_recoverable(text);
        for error in errors {
            let at = error.span().map_or(0, |span| span.start);
            self.fault(origin(at), error.message().to_owned());
        }
        for (section, content) in table.get_ref() {
            let known: Vec<_> =
                KEYS.iter().filter(|key| key.section() == section.get_ref().as_ref()).collect();
            let at = section.span().start;
            #[cfg(feature = "history")]
            if section.get_ref().as_ref() == super::kafka::SECTION {
                let kafka = &mut self.loaded.settings.kafka;
                kafka.read_section(content.get_ref(), at, &origin, &mut self.faults);
                continue;
            }
            if known.is_empty() {
                let sections =
                    sections().map(|section| format!("[{section}]")).collect::<Vec<_>>().join(", ");
                self.fault(
                    origin(at),
                    format!("unknown section or setting `{}`; sections are {sections}", section.get_ref()),
                );
                continue;
            }
            let DeValue::Table(content) = content.get_ref() else {
                self.fault(
                    origin(at),
                    format!("`{0}` is a section: write [{0}] and its settings below", section.get_ref()),
                );
                continue;
            };
            for (field, value) in content {
                let name = format!("{}.{}", section.get_ref(), field.get_ref());
                let origin = origin(field.span().start);
                match KEYS.iter().position(|key| key.name == name) {
                    Some(at) => self.value(at, value.get_ref(), origin),
                    None => self.fault(origin, unknown(&name, |key| key.name.to_owned())),
                }
            }
        }
    }

    fn variable(&mut self, name: &str, text: &str) {
        // Variables without `__` are none of ours: SWIFTWATER_SERVER, SWIFTWATER_LOG.
        if !name.starts_with("SWIFTWATER_") || !name.contains("__") {
            return;
        }
        #[cfg(feature = "history")]
        if self.loaded.settings.kafka.read_variable(name, text, &mut self.faults) {
            return;
        }
        let origin = Origin::Environment(name.to_owned());
        match KEYS.iter().position(|key| key.variable() == name) {
            Some(at) => self.text(at, text, origin),
            None => self.fault(origin, unknown(name, Key::variable)),
        }
    }

    fn text(&mut self, at: usize, text: &str, origin: Origin) {
        match KEYS[at].parse(text) {
            Ok(value) => self.put(at, value, origin),
            Err(why) => self.refuse(at, &format!("\"{text}\""), &why, origin),
        }
    }

    fn value(&mut self, at: usize, value: &DeValue<'_>, origin: Origin) {
        let key = &KEYS[at];
        let parsed = match value {
            DeValue::String(text) => match key.kind {
                // `"5"` is no number to TOML, so it is none here either; "5s" is how durations are written.
                Kind::Count(..) => checked(key, Value::Text(text.to_string())),
                // One text is as good as a list of one.
                Kind::List(_) => checked(key, Value::List(vec![text.to_string()])),
                _ => key.parse(text),
            },
            DeValue::Array(items) => {
                let texts: Option<Vec<_>> =
                    items.iter().map(|item| item.get_ref().as_str().map(str::to_owned)).collect();
                match texts {
                    Some(texts) => checked(key, Value::List(texts)),
                    None => Err("not a list of texts".to_owned()),
                }
            }
            DeValue::Integer(number) => match u64::from_str_radix(number.as_str(), number.radix()) {
                Ok(number) => checked(key, Value::Number(number)),
                Err(_) => Err("out of range".to_owned()),
            },
            _ => Err("not a value that a setting can have".to_owned()),
        };
        match parsed {
            Ok(value) => self.put(at, value, origin),
            Err(why) => self.refuse(at, &shown(value), &why, origin),
        }
    }

    fn put(&mut self, at: usize, value: Value, origin: Origin) {
        (KEYS[at].set)(&mut self.loaded.settings, value);
        self.loaded.origins[at] = origin;
    }

    fn refuse(&mut self, at: usize, value: &str, why: &str, origin: Origin) {
        let key = &KEYS[at];
        let allowed = key.allowed();
        let allowed = if allowed.is_empty() { allowed } else { format!("; allowed: {allowed}") };
        self.fault(origin, format!("`{}` = {value}: {why}{allowed}", key.name));
    }

    fn fault(&mut self, origin: Origin, message: String) {
        self.faults.push(Fault { origin, message });
    }
}

/// The sections, in order.
pub(super) fn sections() -> impl Iterator<Item = &'static str> {
    let mut last = "";
    KEYS.iter().map(Key::section).filter(move |section| std::mem::replace(&mut last, section) != *section)
}

fn checked(key: &Key, value: Value) -> Result<Value, String> {
    key.check(&value).map(|()| value)
}

fn shown(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!("\"{text}\""),
        DeValue::Integer(number) => number.to_string(),
        DeValue::Float(number) => number.to_string(),
        DeValue::Boolean(flag) => flag.to_string(),
        DeValue::Datetime(time) => time.to_string(),
        DeValue::Array(_) => "[…]".to_owned(),
        DeValue::Table(_) => "{…}".to_owned(),
    }
}

fn unknown(name: &str, written: impl Fn(&Key) -> String) -> String {
    let nearest = KEYS.iter().map(&written).min_by_key(|known| distance(name, known));
    match nearest.filter(|known| distance(name, known) <= 1 + name.len() / 4) {
        Some(known) => format!("unknown setting `{name}`; did you mean `{known}`?"),
        None => format!("unknown setting `{name}`; `swiftwater serve --print-config` lists all settings"),
    }
}

/// Levenshtein's distance, in bytes.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, left) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, right) in b.bytes().enumerate() {
            let replaced = diagonal + usize::from(left != right);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}
