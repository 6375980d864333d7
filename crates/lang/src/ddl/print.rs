//! Prints DDL statements in their normal form, which parses as the same statement.

use std::fmt::{self, Display, Write};

use swiftwater_event::{Path, Step, Type};

use super::{
    AlterStream, Check, ColumnDef, CreateJob, CreateStream, CreateView, Ddl, DdlObjectKind, DefaultValue,
    JobChange, JobOptions, SavedName, Show, SkipPartition, StreamChange, StreamOptions,
    options::DurationText, split_statements,
};
use crate::{keyword::Keyword, lexer::is_word};

/// Words that mean something where a column's or a stream's name may stand.
const WORDS: [&str; 11] = [
    "WATERMARK",
    "CHECK",
    "CONSTRAINT",
    "IF",
    "COLUMN",
    "WITH",
    "PATH",
    "TYPE",
    "PRIMARY",
    "UNIQUE",
    "FOREIGN",
];

/// A name as it is written: in quotes, unless it is a plain word without a meaning.
pub(crate) fn write_name(f: &mut dyn Write, name: &str) -> fmt::Result {
    let has_meaning =
        || Keyword::of(name).is_some() || WORDS.iter().any(|word| word.eq_ignore_ascii_case(name));
    if is_word(name) && !has_meaning() {
        return f.write_str(name);
    }
    write_quoted(f, name, '"')
}

pub(crate) fn name_text(name: &str) -> String {
    let mut text = String::new();
    // Writing to a String does not fail.
    let _ = write_name(&mut text, name);
    text
}

pub(super) fn write_quoted(f: &mut dyn Write, text: &str, quote: char) -> fmt::Result {
    f.write_char(quote)?;
    for c in text.chars() {
        if c == quote {
            f.write_char(quote)?;
        }
        f.write_char(c)?;
    }
    f.write_char(quote)
}

pub(super) fn when(condition: bool, text: &str) -> &str {
    if condition { text } else { "" }
}

impl Display for Ddl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let if_exists = |if_exists: &bool| when(*if_exists, "IF EXISTS ");
        match self {
            Ddl::CreateStream(create) => create.fmt(f),
            Ddl::AlterStream(alter) => alter.fmt(f),
            Ddl::SkipPartition(skip) => skip.fmt(f),
            Ddl::DropStream { name, if_exists: optional } => {
                write!(f, "DROP STREAM {}", if_exists(optional))?;
                write_name(f, name.as_str())
            }
            Ddl::CreateView(create) => create.fmt(f),
            Ddl::DropView { name, if_exists: optional } => {
                write!(f, "DROP VIEW {}", if_exists(optional))?;
                write_name(f, name)
            }
            Ddl::CreateAlert(create) => create.fmt(f),
            Ddl::DropAlert { name, if_exists: optional } => {
                write!(f, "DROP ALERT {}", if_exists(optional))?;
                write_name(f, name)
            }
            Ddl::CreateSink(create) => create.fmt(f),
            Ddl::DropSink { name, if_exists: optional } => {
                write!(f, "DROP SINK {}", if_exists(optional))?;
                write_name(f, name)
            }
            Ddl::CreateJoin(create) => create.fmt(f),
            Ddl::DropJoin { name, if_exists: optional } => {
                write!(f, "DROP JOIN {}", if_exists(optional))?;
                write_name(f, name)
            }
            Ddl::CreateJob(create) => create.fmt(f),
            Ddl::AlterJob { name, change } => {
                f.write_str("ALTER JOB ")?;
                write_name(f, name)?;
                match change {
                    JobChange::Enable => f.write_str(" ENABLE"),
                    JobChange::Disable => f.write_str(" DISABLE"),
                    JobChange::Schedule(schedule) => {
                        f.write_str(" SET SCHEDULE ")?;
                        write_quoted(f, schedule, '\'')
                    }
                    JobChange::Set(options) => write!(f, " SET ({options})"),
                    JobChange::Reset(options) => {
                        let names: Vec<_> = options.iter().map(|option| option.text()).collect();
                        write!(f, " RESET ({})", names.join(", "))
                    }
                }
            }
            Ddl::DropJob { name, if_exists: optional } => {
                write!(f, "DROP JOB {}", if_exists(optional))?;
                write_name(f, name)
            }
            Ddl::RunJob { name } => {
                f.write_str("RUN JOB ")?;
                write_name(f, name)
            }
            Ddl::CreateEndpoint(create) => create.fmt(f),
            Ddl::DropEndpoint { name, if_exists: optional } => {
                write!(f, "DROP ENDPOINT {}{name}", if_exists(optional))
            }
            Ddl::DescribeEndpoint { name } => write!(f, "DESCRIBE ENDPOINT {name}"),
            Ddl::CreateSearchIndex(create) => create.fmt(f),
            Ddl::AlterSearchIndex(alter) => alter.fmt(f),
            Ddl::RebuildSearchIndex(rebuild) => rebuild.fmt(f),
            Ddl::DropSearchIndex { table, if_exists: optional } => {
                write!(f, "DROP SEARCH INDEX {}ON {}", if_exists(optional), name_text(table))
            }
            Ddl::DescribeSearchIndex { table } => {
                write!(f, "DESCRIBE SEARCH INDEX ON {}", name_text(table))
            }
            Ddl::CreateSaved(create) => create.fmt(f),
            Ddl::DropSaved { name: SavedName { kind, name }, if_exists: optional } => {
                write!(f, "DROP SAVED {} {}{}", kind.word(), if_exists(optional), name_text(name))
            }
            Ddl::Show(Show::Saved(kind)) => write!(f, "SHOW SAVED {}", kind.plural()),
            Ddl::Show(Show::CreateSaved(name)) => write!(f, "SHOW CREATE SAVED {name}"),
            Ddl::Show(Show::SearchIndexes) => f.write_str("SHOW SEARCH INDEXES"),
            Ddl::Show(Show::CreateSearchIndex(table)) => {
                write!(f, "SHOW CREATE SEARCH INDEX ON {}", name_text(table))
            }
            Ddl::Show(Show::Endpoints) => f.write_str("SHOW ENDPOINTS"),
            Ddl::Show(Show::CreateEndpoint(name)) => write!(f, "SHOW CREATE ENDPOINT {name}"),
            Ddl::Show(Show::Streams) => f.write_str("SHOW STREAMS"),
            Ddl::Show(Show::Partitions) => f.write_str("SHOW PARTITIONS"),
            Ddl::Show(Show::Views) => f.write_str("SHOW VIEWS"),
            Ddl::Show(Show::Alerts) => f.write_str("SHOW ALERTS"),
            Ddl::Show(Show::CreateAlert(name)) => {
                f.write_str("SHOW CREATE ALERT ")?;
                write_name(f, name)
            }
            Ddl::Show(Show::CreateView(name)) => {
                f.write_str("SHOW CREATE VIEW ")?;
                write_name(f, name)
            }
            Ddl::Show(Show::Nodes) => f.write_str("SHOW NODES"),
            Ddl::Show(Show::Sinks) => f.write_str("SHOW SINKS"),
            Ddl::Show(Show::CreateSink(name)) => {
                f.write_str("SHOW CREATE SINK ")?;
                write_name(f, name)
            }
            Ddl::Show(Show::Joins) => f.write_str("SHOW JOINS"),
            Ddl::Show(Show::CreateJoin(name)) => {
                f.write_str("SHOW CREATE JOIN ")?;
                write_name(f, name)
            }
            Ddl::Show(Show::Tables) => f.write_str("SHOW TABLES"),
            Ddl::Show(Show::Jobs) => f.write_str("SHOW JOBS"),
            Ddl::Show(Show::CreateStream(name)) => {
                f.write_str("SHOW CREATE STREAM ")?;
                write_name(f, name.as_str())
            }
            Ddl::Describe { kind, name } => {
                f.write_str(match kind {
                    None => "DESCRIBE ",
                    Some(DdlObjectKind::Stream) => "DESCRIBE STREAM ",
                    Some(DdlObjectKind::View) => "DESCRIBE VIEW ",
                    Some(DdlObjectKind::Alert) => "DESCRIBE ALERT ",
                    Some(DdlObjectKind::Table) => "DESCRIBE TABLE ",
                    Some(DdlObjectKind::Job) => "DESCRIBE JOB ",
                    // They are named otherwise, by statements of their own.
                    Some(DdlObjectKind::Endpoint) => "DESCRIBE ENDPOINT ",
                    Some(DdlObjectKind::SearchIndex) => "DESCRIBE SEARCH INDEX ON ",
                    Some(DdlObjectKind::Sink) => "DESCRIBE SINK ",
                    Some(DdlObjectKind::Join) => "DESCRIBE JOIN ",
                })?;
                // A kind's own word would be taken for the kind.
                match (kind, &**name) {
                    (None, word) if is_kind(word) => write_quoted(f, word, '"'),
                    (_, name) => write_name(f, name),
                }
            }
        }
    }
}

fn is_kind(word: &str) -> bool {
    ["STREAM", "VIEW", "ALERT", "TABLE", "JOB", "SINK", "JOIN"]
        .iter()
        .any(|kind| kind.eq_ignore_ascii_case(word))
}

impl Display for CreateStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CREATE STREAM {}", when(self.if_not_exists, "IF NOT EXISTS "))?;
        write_name(f, self.name.as_str())?;
        let mut items = Vec::new();
        for column in &self.columns {
            items.push(column.to_string());
        }
        for check in &self.checks {
            items.push(check.to_string());
        }
        if let Some(watermark) = &self.watermark {
            let column = name_text(&watermark.column);
            let mut text = format!("WATERMARK FOR {column} AS {column}");
            if watermark.lateness_ms > 0 {
                write!(text, " - INTERVAL '{}'", DurationText(watermark.lateness_ms))?;
            }
            match watermark.max_ahead_ms {
                Some(most) => write!(text, " MAX AHEAD INTERVAL '{}'", DurationText(most))?,
                None => text.push_str(" MAX AHEAD NONE"),
            }
            if let Some(idle) = watermark.idle_after_ms {
                write!(text, " IDLE AFTER INTERVAL '{}'", DurationText(idle))?;
            }
            items.push(text);
        }
        if !items.is_empty() {
            write!(f, " (\n  {}\n)", items.join(",\n  "))?;
        }
        if let Some(source) = &self.source {
            write!(f, " {source}")?;
        }
        if self.options != StreamOptions::default() {
            write!(f, " WITH ({})", self.options)?;
        }
        Ok(())
    }
}

impl Display for StreamOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_options(f, self.settings().map(|(option, value)| (option.text(), value)))
    }
}

impl Display for JobOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_options(f, self.settings().map(|(option, value)| (option.text(), value)))
    }
}

pub(super) fn write_options(
    f: &mut fmt::Formatter<'_>,
    settings: impl Iterator<Item = (&'static str, String)>,
) -> fmt::Result {
    for (at, (option, value)) in settings.enumerate() {
        write!(f, "{}{option} = {value}", when(at > 0, ", "))?;
    }
    Ok(())
}

impl Display for ColumnDef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_name(f, &self.name)?;
        write!(f, " {}", TypeText(&self.ty))?;
        if let Some(path) = &self.path {
            f.write_str(" PATH ")?;
            write_quoted(f, &path_text(path), '\'')?;
        }
        f.write_str(when(self.not_null, " NOT NULL"))?;
        if let Some(default) = &self.default {
            write!(f, " DEFAULT {default}")?;
        }
        self.checks.iter().try_for_each(|check| write!(f, " {check}"))
    }
}

impl Display for DefaultValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DefaultValue::Now => f.write_str("NOW"),
            DefaultValue::Constant(constant) => f.write_str(&constant.text),
        }
    }
}

impl Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = &self.name {
            f.write_str("CONSTRAINT ")?;
            write_name(f, name)?;
            f.write_str(" ")?;
        }
        write!(f, "CHECK ({})", self.text)
    }
}

/// A column's type as it is declared.
pub fn type_text(ty: &Type) -> String {
    TypeText(ty).to_string()
}

/// A column's type: what holds anything is JSON here.
pub(super) struct TypeText<'a>(pub(super) &'a Type);

impl Display for TypeText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Type::Any => f.write_str("JSON"),
            ty => ty.fmt(f),
        }
    }
}

/// A path as [`Path::parse`] reads it, whatever its keys are.
pub(super) fn path_text(path: &Path) -> String {
    let mut text = String::new();
    for (at, step) in path.steps().iter().enumerate() {
        match step {
            Step::Index(index) => text.push_str(&format!("[{index}]")),
            Step::Key(key) if is_word(key) => {
                text.push_str(when(at > 0, "."));
                text.push_str(key);
            }
            Step::Key(key) => text.push_str(&format!("['{}']", key.replace('\'', "''"))),
        }
    }
    text
}

impl Display for AlterStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ALTER STREAM {}", when(self.if_exists, "IF EXISTS "))?;
        write_name(f, self.name.as_str())?;
        for (at, change) in self.changes.iter().enumerate() {
            write!(f, "{} {change}", when(at > 0, ","))?;
        }
        Ok(())
    }
}

impl Display for SkipPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ALTER STREAM {}", when(self.if_exists, "IF EXISTS "))?;
        write_name(f, self.name.as_str())?;
        write!(f, " SKIP PARTITION {} TO {}", self.partition, self.to)
    }
}

impl Display for StreamChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let altered = |f: &mut fmt::Formatter<'_>, column: &str| {
            f.write_str("ALTER COLUMN ")?;
            write_name(f, column)
        };
        match self {
            StreamChange::AddColumn { column, if_not_exists } => {
                write!(f, "ADD COLUMN {}{column}", when(*if_not_exists, "IF NOT EXISTS "))
            }
            StreamChange::ColumnType { column, ty } => {
                altered(f, column)?;
                write!(f, " TYPE {}", TypeText(ty))
            }
            StreamChange::ColumnDefault { column, default } => {
                altered(f, column)?;
                match default {
                    Some(default) => write!(f, " SET DEFAULT {default}"),
                    None => f.write_str(" DROP DEFAULT"),
                }
            }
            StreamChange::DropNotNull { column } => {
                altered(f, column)?;
                f.write_str(" DROP NOT NULL")
            }
            StreamChange::Set(options) => write!(f, "SET ({options})"),
            StreamChange::Reset(options) => {
                let names: Vec<_> = options.iter().map(|option| option.text()).collect();
                write!(f, "RESET ({})", names.join(", "))
            }
            StreamChange::Pause(is_paused) => f.write_str(if *is_paused { "PAUSE" } else { "RESUME" }),
            StreamChange::SetKafka(options) => write!(f, "SET KAFKA ({options})"),
        }
    }
}

impl Display for CreateView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CREATE MATERIALIZED VIEW {}", when(self.if_not_exists, "IF NOT EXISTS "))?;
        write_name(f, &self.name)?;
        if let Some(condition) = &self.delete_when {
            write!(f, "\nDELETE WHEN {condition}")?;
        }
        let settings = self.options.settings().map(|(option, value)| format!("{} = {value}", option.text()));
        let settings: Vec<String> = settings.collect();
        if !settings.is_empty() {
            write!(f, "\nWITH ({})", settings.join(", "))?;
        }
        write!(f, " AS\n{}", self.query)
    }
}

impl Display for CreateJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CREATE JOB {}", when(self.if_not_exists, "IF NOT EXISTS "))?;
        write_name(f, &self.name)?;
        f.write_str(" SCHEDULE ")?;
        write_quoted(f, &self.schedule, '\'')?;
        if self.options != JobOptions::default() {
            write!(f, " WITH ({})", self.options)?;
        }
        // Several statements only fit between these, which then do not stand in them.
        if split_statements(&self.sql).len() > 1 {
            return write!(f, " AS $$\n{}\n$$", self.sql);
        }
        write!(f, " AS\n{}", self.sql)
    }
}
