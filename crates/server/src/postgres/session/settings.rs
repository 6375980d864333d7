//! The settings of a client's session: `statement_timeout`, `swiftwater.distributed`, and the time zone, which is UTC; all others
//! are accepted and ignored.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use swiftwater_lang::ddl::parse_duration_ms;
use swiftwater_sql::{Distributed, Sql, SqlError};
use tokio::task::JoinHandle;

use super::{Failed, time_zone};

const STATEMENT_TIMEOUT: &str = "statement_timeout";
const DISTRIBUTED: &str = "swiftwater.distributed";
/// Interval at which a statement is told to end if its time is up before it can be.
const AGAIN: Duration = Duration::from_millis(10);
/// Range of such a time in PostgreSQL: milliseconds of 31 bits.
const TIMEOUT_MS_MAX: u64 = i32::MAX as u64;

/// Settings of a session.
#[derive(Default)]
pub(super) struct Settings {
    /// The timeout in milliseconds, 0 for none.
    timeout_ms: u64,
    /// The client's initial value, which RESET restores.
    first_ms: u64,
    /// The value after the transaction.
    behind_transaction_ms: Option<u64>,
    /// Whether statements run on several machines.
    pub(super) distributed: Distributed,
    /// Its value after the transaction.
    behind_transaction_distributed: Option<Distributed>,
    /// A warning for the client once it is connected.
    pub(super) warning: Option<String>,
}

impl Settings {
    /// Takes a setting that a client sends when it connects; `options` has arguments, some of the form `-c name=value`.
    pub(super) fn begin(&mut self, name: &str, value: &str) -> Result<(), Box<Failed>> {
        let given = |argument: &str| -> Option<(String, String)> {
            let (name, value) = argument.split_once('=')?;
            Some((name.replace('-', "_"), value.to_owned()))
        };
        let given: Vec<(String, String)> = match name {
            "options" => {
                let arguments = value.split_whitespace();
                let arguments = arguments.map(|argument| match argument.strip_prefix("--") {
                    Some(long) => long,
                    None => argument.strip_prefix("-c").unwrap_or(argument),
                });
                arguments.filter_map(given).collect()
            }
            _ => vec![(name.to_owned(), value.to_owned())],
        };
        for (name, value) in given {
            if is_timeout(&name) {
                self.timeout_ms = milliseconds(&value)?;
                self.first_ms = self.timeout_ms;
            } else if is_distributed(&name) {
                self.distributed = distributed(&value)?;
            } else if time_zone::is_setting(&name) {
                self.warning = time_zone::begin(&value)?;
            }
        }
        Ok(())
    }

    /// `SET [SESSION | LOCAL] name {= | TO} value`.
    pub(super) fn set(&mut self, text: &str, in_transaction: bool) -> Result<(), Box<Failed>> {
        if let Some(zone) = time_zone::requested_zone(text) {
            return time_zone::set(&zone);
        }
        let text = text.replacen('=', " = ", 1);
        let mut words = text.split_whitespace().skip(1).peekable();
        let is_local = words.peek().is_some_and(|word| word.eq_ignore_ascii_case("LOCAL"));
        let name =
            words.find(|word| !["LOCAL", "SESSION"].iter().any(|scope| word.eq_ignore_ascii_case(scope)));
        let is_distributed = name.is_some_and(is_distributed);
        if !is_distributed && !name.is_some_and(is_timeout) {
            return Ok(());
        }
        let equals = words.next().unwrap_or_default();
        let value = words.collect::<Vec<_>>().join(" ");
        if !(equals == "=" || equals.eq_ignore_ascii_case("TO")) || value.is_empty() {
            let (name, forms) = match is_distributed {
                true => (DISTRIBUTED, "Values are: auto, never, always."),
                false => (STATEMENT_TIMEOUT, FORMS),
            };
            let failed = Failed::new("42601", format!("expected `SET {name} = …`"));
            return Err(Box::new(failed.hint(forms)));
        }
        if is_distributed {
            let set = distributed(&value)?;
            match (is_local, in_transaction) {
                (true, true) => {
                    self.behind_transaction_distributed.get_or_insert(self.distributed);
                    self.distributed = set;
                }
                (true, false) => {}
                (false, _) => {
                    self.behind_transaction_distributed = None;
                    self.distributed = set;
                }
            }
            return Ok(());
        }
        let ms = match value.eq_ignore_ascii_case("DEFAULT") {
            true => self.first_ms,
            false => milliseconds(&value)?,
        };
        match (is_local, in_transaction) {
            (true, true) => {
                self.behind_transaction_ms.get_or_insert(self.timeout_ms);
                self.timeout_ms = ms;
            }
            // Without a transaction there is nothing that it would hold for.
            (true, false) => {}
            (false, _) => {
                self.behind_transaction_ms = None;
                self.timeout_ms = ms;
            }
        }
        Ok(())
    }

    /// `RESET name`, `RESET ALL`, `DISCARD ALL`.
    pub(super) fn reset(&mut self, name: &str) {
        if name.eq_ignore_ascii_case("ALL") || is_timeout(name) {
            self.timeout_ms = self.first_ms;
            self.behind_transaction_ms = None;
        }
        if name.eq_ignore_ascii_case("ALL") || is_distributed(name) {
            self.distributed = Distributed::Auto;
            self.behind_transaction_distributed = None;
        }
    }

    pub(super) fn end_transaction(&mut self) {
        if let Some(ms) = self.behind_transaction_ms.take() {
            self.timeout_ms = ms;
        }
        if let Some(distributed) = self.behind_transaction_distributed.take() {
            self.distributed = distributed;
        }
    }

    /// The name, as PostgreSQL spells it, and the value of one that `SHOW` asks for.
    pub(super) fn shown(&self, name: &str) -> Option<(&'static str, String)> {
        if is_distributed(name) {
            return Some((DISTRIBUTED, self.distributed.word().to_owned()));
        }
        is_timeout(name).then(|| (STATEMENT_TIMEOUT, spelled(self.timeout_ms)))
    }

    /// Ends the run of that name when its time is up, unless what is given is dropped before.
    pub(super) fn timer(&self, sql: &Arc<Sql>, id: &str) -> Option<Timer> {
        let ms = Some(self.timeout_ms).filter(|ms| *ms > 0)?;
        let is_up = Arc::new(AtomicBool::new(false));
        let (sql, id, tell) = (Arc::clone(sql), id.to_owned(), Arc::clone(&is_up));
        let task = tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(ms)).await;
            tell.store(true, Ordering::Release);
            while !sql.cancel(&id) {
                tokio::time::sleep(AGAIN).await;
            }
        });
        Some(Timer { task, is_up, ms })
    }
}

/// The time of a statement that runs.
pub(super) struct Timer {
    task: JoinHandle<()>,
    is_up: Arc<AtomicBool>,
    ms: u64,
}

impl Timer {
    /// The failure of a statement, or that its time was up.
    pub(super) fn statement_failure(timer: Option<&Timer>, error: SqlError, text: String) -> Failed {
        match timer.filter(|timer| timer.is_up.load(Ordering::Acquire)) {
            Some(timer) => {
                let what =
                    format!("the statement took longer than {STATEMENT_TIMEOUT}, {}", spelled(timer.ms));
                Failed::new("57014", what)
            }
            None => Failed { error, text },
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

const FORMS: &str = "Milliseconds, or a number and a unit: 500, '500ms', '30s', '5min'; 0 for none.";

/// The value of a text, which may be quoted.
fn distributed(text: &str) -> Result<Distributed, Box<Failed>> {
    let word = text.trim_matches(['\'', '"', ';', ' ']);
    Distributed::of_word(word).map_err(|error| Box::new(Failed { error, text: text.to_owned() }))
}

fn is_distributed(name: &str) -> bool {
    name.trim_matches('"').eq_ignore_ascii_case(DISTRIBUTED)
}

fn is_timeout(name: &str) -> bool {
    name.trim_matches('"').eq_ignore_ascii_case(STATEMENT_TIMEOUT)
}

fn milliseconds(value: &str) -> Result<u64, Box<Failed>> {
    let value = value.trim().trim_matches('\'').trim();
    let ms = value.parse().ok().or_else(|| parse_duration_ms(value));
    ms.filter(|ms| *ms <= TIMEOUT_MS_MAX).ok_or_else(|| {
        let failed = Failed::new("22023", format!("`{value}` is not a valid value of {STATEMENT_TIMEOUT}"));
        Box::new(failed.hint(FORMS))
    })
}

/// The text that PostgreSQL shows: in the largest unit without a remainder.
fn spelled(ms: u64) -> String {
    let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s")];
    match units.into_iter().find(|(size, _)| ms.is_multiple_of(*size)) {
        _ if ms == 0 => "0".to_owned(),
        Some((size, unit)) => format!("{}{unit}", ms / size),
        None => format!("{ms}ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(settings: &Settings) -> String {
        settings.shown("STATEMENT_TIMEOUT").map(|(_, value)| value).unwrap_or_default()
    }

    #[test]
    fn time_of_a_statement_is_set_and_shown_as_postgresql_does() {
        let mut settings = Settings::default();
        assert_eq!(shown(&settings), "0");
        for (text, value) in [
            ("SET statement_timeout = 1500", "1500ms"),
            ("set STATEMENT_TIMEOUT to '30s'", "30s"),
            ("SET SESSION statement_timeout='5 min'", "5min"),
            ("SET statement_timeout=7200000", "2h"),
            ("SET search_path = public", "2h"),
            ("SET LOCAL statement_timeout = 5", "2h"),
            ("SET statement_timeout TO DEFAULT", "0"),
        ] {
            settings.set(text, false).map_err(|failed| failed.error).unwrap();
            assert_eq!(shown(&settings), value, "{text}");
        }
        for text in [
            "SET statement_timeout = 'soon'",
            "SET statement_timeout = -1",
            "SET statement_timeout = 2147483648",
            "SET statement_timeout",
            "SET statement_timeout 5",
        ] {
            assert!(settings.set(text, false).is_err(), "{text}");
        }
        assert_eq!(shown(&settings), "0");
    }

    #[test]
    fn local_ends_with_the_transaction_and_reset_goes_back_to_the_beginning() {
        let mut settings = Settings::default();
        let mut begin = |name, value| settings.begin(name, value).map_err(|failed| failed.error);
        begin("user", "anyone").unwrap();
        begin("options", "-c geqo=off -c statement_timeout=4s --statement-timeout=3s").unwrap();
        begin("options", "-cgeqo=off").unwrap();
        assert!(begin("statement_timeout", "x").is_err());
        assert_eq!(shown(&settings), "3s");
        let mut set = |text: &str| {
            settings.set(text, true).map_err(|failed| failed.error).unwrap();
            shown(&settings)
        };
        assert_eq!(set("SET statement_timeout = 1"), "1ms");
        assert_eq!(set("SET LOCAL statement_timeout = 2"), "2ms");
        assert_eq!(set("SET LOCAL statement_timeout = 3"), "3ms");
        settings.end_transaction();
        assert_eq!(shown(&settings), "1ms");
        settings.end_transaction();
        settings.reset("search_path");
        assert_eq!(shown(&settings), "1ms");
        settings.reset("ALL");
        assert_eq!(shown(&settings), "3s");
    }
}
