//! The declaration of a sink (`CREATE SINK`): the target of a view's closed windows, of its changes, or of the events of a
//! stream.
//!
//! ```text
//! CREATE SINK [IF NOT EXISTS] name FROM source INTO target [WITH (option = value, …)]
//!   source = view | CHANGES OF view | (SELECT item, … FROM STREAM(stream) [WHERE condition])
//!   target = STREAM name | TABLE name | FILE 'path' | WEBHOOK 'http(s)://…' | KAFKA (option = value, …)
//! DROP SINK [IF EXISTS] name          SHOW SINKS          SHOW CREATE SINK name          DESCRIBE SINK name
//! ```

use std::fmt;

use swiftwater_event::StreamName;

use super::{
    kafka_target::KafkaTarget,
    options::{DurationText, Value, named, parse_duration_ms},
    print::{when, write_name, write_options, write_quoted},
};

/// `CREATE SINK`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateSink {
    /// Its name, by the rules of streams' names.
    pub name: Box<str>,
    /// `IF NOT EXISTS`: an existing one is no error.
    pub if_not_exists: bool,
    /// The rows that it delivers.
    pub source: SinkSource,
    /// The target.
    pub target: SinkTarget,
    /// `WITH (…)`.
    pub options: SinkOptions,
}

/// The rows that a sink delivers.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SinkSource {
    /// The closed windows of a view.
    Windows(Box<str>),
    /// The rows of a view that change, each as it is then.
    Changes(Box<str>),
    /// A row for each event of a stream that a query selects.
    Events(Box<SinkQuery>),
}

/// A query over single events of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SinkQuery {
    /// The stream.
    pub stream: StreamName,
    /// The query, as it is written: what it means depends on the stream's columns.
    pub text: Box<str>,
}

/// The target of a sink.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SinkTarget {
    /// A stream: an event a row.
    Stream(Box<str>),
    /// A table of SQL's.
    Table(Box<str>),
    /// A file that grows, below the directory that the settings name.
    File(Box<str>),
    /// A URL that rows are posted to.
    Webhook(Box<str>),
    /// A topic of Kafka: a message a row.
    Kafka(Box<KafkaTarget>),
}

/// The way rows are written into a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SinkFormat {
    /// A JSON object a line.
    Ndjson,
    /// Comma-separated values, the names in the first line.
    Csv,
}

/// The options that are set; `None` for those that are not.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct SinkOptions {
    /// The format of a file.
    pub format: Option<SinkFormat>,
    /// The most rows that are delivered at once; of one window always.
    pub batch_rows: Option<u32>,
    /// Number of further attempts of a failed delivery before it goes to `dead_letter`; not set: without limit.
    pub retries: Option<u32>,
    /// The stream that takes what cannot be delivered.
    pub dead_letter: Option<Box<str>>,
    /// The time a webhook may take to answer, in milliseconds.
    pub timeout_ms: Option<u64>,
    /// Headers of a webhook's requests, a `Name: value` a line.
    pub headers: Option<Box<str>>,
}

/// The options by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SinkOption {
    /// `format = ndjson|csv`.
    Format,
    /// `batch_rows = 1000`.
    BatchRows,
    /// `retries = 10`.
    Retries,
    /// `dead_letter = stream`.
    DeadLetter,
    /// `timeout = '10 seconds'`.
    Timeout,
    /// `headers = 'Authorization: …'`.
    Headers,
}

/// The most rows of a delivery that can be asked for.
const BATCH_ROWS_MAX: u64 = 100_000;

impl SinkOption {
    /// All of them, in the order in which they are printed.
    pub const ALL: [SinkOption; 6] = [
        SinkOption::Format,
        SinkOption::BatchRows,
        SinkOption::Retries,
        SinkOption::DeadLetter,
        SinkOption::Timeout,
        SinkOption::Headers,
    ];

    /// The option's name.
    pub fn text(self) -> &'static str {
        match self {
            SinkOption::Format => "format",
            SinkOption::BatchRows => "batch_rows",
            SinkOption::Retries => "retries",
            SinkOption::DeadLetter => "dead_letter",
            SinkOption::Timeout => "timeout",
            SinkOption::Headers => "headers",
        }
    }

    /// The option of a name, in any letter case; the error is a hint.
    pub(crate) fn of(name: &str) -> Result<SinkOption, String> {
        named(&Self::ALL, Self::text, name)
    }

    /// The values that it accepts, for messages.
    fn accepted_values(self) -> &'static str {
        match self {
            SinkOption::Format => "ndjson or csv",
            SinkOption::BatchRows => "a number from 1 to 100000",
            SinkOption::Retries => "a whole number from 0",
            SinkOption::DeadLetter => "the name of a stream",
            SinkOption::Timeout => "a time such as '10 seconds', at most an hour",
            SinkOption::Headers => "lines of `Name: value` in ASCII",
        }
    }
}

impl SinkOptions {
    /// Sets one; the error has the allowed values.
    pub(crate) fn set(&mut self, option: SinkOption, value: &Value) -> Result<(), String> {
        self.set_known(option, value)
            .ok_or_else(|| format!("`{}` must be {}", option.text(), option.accepted_values()))
    }

    fn set_known(&mut self, option: SinkOption, value: &Value) -> Option<()> {
        match (option, value) {
            (SinkOption::Format, Value::Text(text)) if text.eq_ignore_ascii_case("ndjson") => {
                self.format = Some(SinkFormat::Ndjson);
            }
            (SinkOption::Format, Value::Text(text)) if text.eq_ignore_ascii_case("csv") => {
                self.format = Some(SinkFormat::Csv);
            }
            (SinkOption::BatchRows, Value::Number(rows @ 1..=BATCH_ROWS_MAX)) => {
                self.batch_rows = Some(*rows as u32);
            }
            (SinkOption::Retries, Value::Number(retries)) => {
                self.retries = Some(u32::try_from(*retries).ok()?);
            }
            (SinkOption::DeadLetter, Value::Text(name)) => {
                StreamName::new(name).ok()?;
                self.dead_letter = Some(name.clone());
            }
            (SinkOption::Timeout, Value::Text(text)) => {
                self.timeout_ms = Some(parse_duration_ms(text).filter(|ms| (1..=3_600_000).contains(ms))?);
            }
            (SinkOption::Headers, Value::Text(text)) => {
                if header_lines(text).any(|line| line.is_none()) {
                    return None;
                }
                self.headers = Some(text.clone());
            }
            _ => return None,
        }
        Some(())
    }

    /// The headers of a webhook's requests.
    pub fn header_lines(&self) -> impl Iterator<Item = (&str, &str)> {
        self.headers.iter().flat_map(|text| header_lines(text).flatten())
    }

    /// The options that are set, with their values as written.
    pub(super) fn settings(&self) -> impl Iterator<Item = (SinkOption, String)> + '_ {
        let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
        SinkOption::ALL.into_iter().filter_map(move |option| {
            let value = match option {
                SinkOption::Format => match self.format? {
                    SinkFormat::Ndjson => "ndjson".to_owned(),
                    SinkFormat::Csv => "csv".to_owned(),
                },
                SinkOption::BatchRows => self.batch_rows?.to_string(),
                SinkOption::Retries => self.retries?.to_string(),
                SinkOption::DeadLetter => quoted(self.dead_letter.as_ref()?),
                SinkOption::Timeout => quoted(&DurationText(self.timeout_ms?).to_string()),
                SinkOption::Headers => quoted(self.headers.as_ref()?),
            };
            Some((option, value))
        })
    }

    /// The first option that a target does not use.
    pub(crate) fn unused(&self, target: &SinkTarget) -> Option<SinkOption> {
        let is_file = matches!(target, SinkTarget::File(_));
        let is_webhook = matches!(target, SinkTarget::Webhook(_));
        let unused = [
            (self.format.is_some() && !is_file, SinkOption::Format),
            (self.timeout_ms.is_some() && !is_webhook, SinkOption::Timeout),
            (self.headers.is_some() && !is_webhook, SinkOption::Headers),
        ];
        unused.into_iter().find(|(is, _)| *is).map(|(_, option)| option)
    }
}

/// Names and values; none where a line is no header.
pub(super) fn header_lines(text: &str) -> impl Iterator<Item = Option<(&str, &str)>> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.map(|line| {
        let (name, value) = line.split_once(':')?;
        let is_name = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
        let is_value = |c: char| (' '..='~').contains(&c) || c == '\t';
        let is_header = !name.is_empty() && name.chars().all(is_name) && value.chars().all(is_value);
        is_header.then(|| (name, value.trim()))
    })
}

impl CreateSink {
    /// The view whose rows it delivers, if it delivers those of one.
    pub fn view(&self) -> Option<&str> {
        match &self.source {
            SinkSource::Windows(view) | SinkSource::Changes(view) => Some(view),
            SinkSource::Events(_) => None,
        }
    }

    /// True if it delivers the changes of a view.
    pub fn is_of_changes(&self) -> bool {
        matches!(self.source, SinkSource::Changes(_))
    }

    /// The query over events whose rows it delivers, if there is one.
    pub fn query(&self) -> Option<&SinkQuery> {
        match &self.source {
            SinkSource::Events(query) => Some(query),
            SinkSource::Windows(_) | SinkSource::Changes(_) => None,
        }
    }

    /// The streams that it may write to: its target, and that which takes what cannot be delivered.
    pub fn streams(&self) -> impl Iterator<Item = &str> {
        let target = match &self.target {
            SinkTarget::Stream(name) => Some(&**name),
            _ => None,
        };
        target.into_iter().chain(self.options.dead_letter.as_deref())
    }

    /// The table that it writes to, if its target is one.
    pub fn table(&self) -> Option<&str> {
        match &self.target {
            SinkTarget::Table(name) => Some(name),
            _ => None,
        }
    }
}

impl SinkTarget {
    /// The name of its kind.
    pub fn kind(&self) -> &'static str {
        match self {
            SinkTarget::Stream(_) => "stream",
            SinkTarget::Table(_) => "table",
            SinkTarget::File(_) => "file",
            SinkTarget::Webhook(_) => "webhook",
            SinkTarget::Kafka(_) => "kafka",
        }
    }

    /// The name, path, address or topic of the target.
    pub fn text(&self) -> &str {
        match self {
            SinkTarget::Stream(text)
            | SinkTarget::Table(text)
            | SinkTarget::File(text)
            | SinkTarget::Webhook(text) => text,
            SinkTarget::Kafka(target) => &target.topic,
        }
    }
}

impl fmt::Display for SinkTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.kind().to_uppercase())?;
        match self {
            SinkTarget::Stream(name) | SinkTarget::Table(name) => write_name(f, name),
            SinkTarget::File(text) | SinkTarget::Webhook(text) => write_quoted(f, text, '\''),
            SinkTarget::Kafka(target) => target.fmt(f),
        }
    }
}

impl fmt::Display for CreateSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CREATE SINK {}", when(self.if_not_exists, "IF NOT EXISTS "))?;
        write_name(f, &self.name)?;
        write!(f, " FROM {}", when(self.is_of_changes(), "CHANGES OF "))?;
        match &self.source {
            SinkSource::Windows(view) | SinkSource::Changes(view) => write_name(f, view)?,
            SinkSource::Events(query) => write!(f, "({})", query.text)?,
        }
        write!(f, " INTO {}", self.target)?;
        if self.options == SinkOptions::default() {
            return Ok(());
        }
        f.write_str(" WITH (")?;
        write_options(f, self.options.settings().map(|(option, value)| (option.text(), value)))?;
        f.write_str(")")
    }
}

#[cfg(test)]
mod tests {
    use crate::ddl::tests::normal_form_or_fault as shown;

    #[test]
    fn sinks_read_as_they_are_printed() {
        for text in [
            "CREATE SINK s FROM r INTO STREAM t",
            "CREATE SINK IF NOT EXISTS s FROM r INTO TABLE \"a b\" WITH (batch_rows = 500)",
            "CREATE SINK s FROM r INTO FILE 'out/r.csv' WITH (format = csv)",
            "CREATE SINK s FROM r INTO WEBHOOK 'https://example.com/in' WITH (retries = 5, dead_letter = 'lost', \
             timeout = '10 seconds', headers = 'Authorization: Bearer it''s\nX-A: b')",
            "CREATE SINK s FROM CHANGES OF r INTO STREAM t",
            "CREATE SINK s FROM CHANGES OF of INTO WEBHOOK 'http://x/' WITH (batch_rows = 7, timeout = '1 minute')",
            "CREATE SINK s FROM CHANGES OF r INTO FILE 'x'",
            "CREATE SINK s FROM changes INTO FILE 'x'",
            "CREATE SINK s FROM (SELECT a, b * 2 AS c FROM STREAM(t) WHERE a > 1) INTO STREAM u",
            "CREATE SINK IF NOT EXISTS s FROM (SELECT * FROM STREAM(\"a-b\")) INTO TABLE x WITH (batch_rows = 7)",
            "CREATE SINK s FROM (SELECT t.a, (b) AS \")\" FROM STREAM(t) AS t WHERE a IN (1, (2)) OR b = ')') INTO \
             KAFKA (topic = 'x', key = 'a')",
            "DROP SINK IF EXISTS s",
            "SHOW SINKS",
            "SHOW CREATE SINK s",
            "DESCRIBE SINK s",
        ] {
            assert_eq!(shown(text), text);
        }
        assert_eq!(
            shown("create sink s from r into file '/x' with (FORMAT = NDJSON)"),
            "CREATE SINK s FROM r INTO FILE '/x' WITH (format = ndjson)"
        );
    }

    #[test]
    fn what_is_no_sink() {
        for (text, fault) in [
            ("CREATE SINK s INTO STREAM t", "1:15: expected FROM, found `INTO`"),
            (
                "CREATE SINK s FROM r INTO t",
                "1:27: expected STREAM, TABLE, FILE, WEBHOOK or KAFKA, found `t`",
            ),
            ("CREATE SINK s FROM r INTO FILE f", "1:32: expected a path in quotes, found `f`"),
            (
                "CREATE SINK s FROM r INTO WEBHOOK 'ftp://x'",
                "1:35: a webhook's address must begin with http:// or https://",
            ),
            (
                "CREATE SINK s FROM r INTO STREAM t WITH (format = csv)",
                "1:51: a stream has no option `format`",
            ),
            (
                "CREATE SINK s FROM r INTO STREAM t WITH (retries = 5)",
                "1:52: `retries` needs `dead_letter`, the stream for rows that cannot be delivered",
            ),
            (
                "CREATE SINK s FROM r INTO WEBHOOK 'http://x' WITH (headers = 'no')",
                "1:62: `headers` must be lines of `Name: value` in ASCII",
            ),
            (
                "CREATE SINK s FROM CHANGES OF r INTO TABLE t",
                "1:44: a table as the target of changes is not supported yet",
            ),
            (
                "CREATE SINK s FROM CHANGES OF r INTO FILE 'x' WITH (format = csv)",
                "1:62: changes are written as lines of JSON: they have no `format`",
            ),
            ("ALTER SINK s", "1:7: a sink cannot be altered"),
        ] {
            assert_eq!(shown(text), fault, "{text}");
        }
    }

    #[test]
    fn queries_that_have_no_row_for_each_event_are_refused() {
        for (query, fault) in [
            ("SELECT a FROM STREAM()", "1:21: a sink needs the name of its stream"),
            ("SELECT a FROM STREAM(t, 1000, TIME)", "1:21: a sink has no end, so its stream has no duration"),
            ("SELECT a FROM (SELECT a FROM STREAM(t))", "1:21: a sink delivers one query over a stream"),
            ("SELECT a FROM v", "1:35: expected STREAM(…), found `v`"),
            ("SELECT DISTINCT a FROM STREAM(t)", "1:28: DISTINCT does not have a row for each event"),
            ("SELECT a FROM STREAM(t) GROUP BY a", "1:45: GROUP BY does not have a row for each event"),
            ("SELECT COUNT(*) FROM STREAM(t)", "1:28: an aggregate does not have a row for each event"),
            (
                "SELECT a + SUM(b) AS c FROM STREAM(t)",
                "1:32: an aggregate does not have a row for each event",
            ),
            ("SELECT a FROM STREAM(t) HAVING a > 1", "1:45: HAVING does not have a row for each event"),
            (
                "SELECT a FROM STREAM(t) WINDOWING TUMBLING(1000, TIME)",
                "1:45: WINDOWING does not have a row for each event",
            ),
            ("SELECT a FROM STREAM(t) ORDER BY a", "1:54: the rows of a sink are in the order of the events"),
            ("SELECT a FROM STREAM(t) LIMIT 5", "1:21: a sink has no end, so its query has no LIMIT"),
            ("SELECT a FROM STREAM(t) SAMPLE 0.5", "1:21: a sink with SAMPLE is not supported yet"),
            (
                "SELECT x FROM STREAM(t) LATERAL VIEW EXPLODE(a) AS x",
                "1:58: EXPLODE in the query of a sink is not supported yet",
            ),
            (
                "SELECT EXPLODE(a) AS x FROM STREAM(t)",
                "1:28: EXPLODE in the query of a sink is not supported yet",
            ),
            (
                "SELECT a FROM STREAM(t) JOIN v ON t.a = v.a",
                "1:45: a join in the query of a sink is not supported yet",
            ),
            ("", "1:21: expected SELECT, found `)`"),
            ("SELECT a FROM STREAM(t) WHERE a >", "1:54: expected an expression, found `)`"),
        ] {
            let text = format!("CREATE SINK s FROM ({query}) INTO STREAM u");
            assert_eq!(shown(&text), fault, "{text}");
        }
        assert_eq!(
            shown("CREATE SINK s FROM CHANGES OF (SELECT a FROM STREAM(t)) INTO STREAM u"),
            "1:31: the events of a stream have no changes"
        );
        assert_eq!(
            shown("CREATE SINK s FROM (SELECT a FROM STREAM(t) INTO STREAM u"),
            "1:45: expected `)`, found `INTO`"
        );
    }
}
