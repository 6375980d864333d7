//! Makes every setting a flag: `--engine.tick-ms 20ms`.

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};

use super::{KEYS, Key, Settings, Value, keys::Kind};

/// The settings given as flags, as text: key and value.
#[derive(Debug, Clone, Default)]
pub(crate) struct SettingFlags(pub(crate) Vec<(&'static str, String)>);

fn argument(key: &'static Key, default: &Value) -> Arg {
    let value_name = match key.kind {
        Kind::Bytes(..) => "SIZE",
        Kind::Millis(..) => "DURATION",
        Kind::Count(..) => "NUMBER",
        Kind::Choice(_) => "WORD",
        Kind::Text(_) => "TEXT",
        Kind::List(_) => "TEXT,…",
    };
    let default = key.toml(default);
    let allowed = key.allowed();
    let allowed = if allowed.is_empty() { allowed } else { format!("; allowed: {allowed}") };
    let first_sentence_end = key.doc.find(". ").unwrap_or(key.doc.len());
    Arg::new(key.name)
        .long(key.flag())
        .alias(key.name)
        .value_name(value_name)
        .help_heading("Settings (as in the settings file)")
        .hide_short_help(true)
        .help(key.doc[..first_sentence_end].trim_end_matches('.').to_owned())
        .long_help(format!("{} [default: {default}{allowed}; environment: {}]", key.doc, key.variable()))
}

impl Args for SettingFlags {
    fn augment_args(command: Command) -> Command {
        let defaults = Settings::default();
        command.args(KEYS.iter().map(|key| argument(key, &(key.get)(&defaults))))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for SettingFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = |key: &'static Key| Some((key.name, matches.get_one::<String>(key.name)?.clone()));
        Ok(SettingFlags(KEYS.iter().filter_map(given).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
