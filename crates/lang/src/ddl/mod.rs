//! The DDL statements that declare streams, views, jobs and endpoints, as plain data.
//!
//! ```text
//! CREATE STREAM [IF NOT EXISTS] name [(item, …)] [FROM KAFKA (…)] [WITH (option = value, …)]        FROM KAFKA: [`kafka`]
//!   item   = column type [PATH 'a.b'] [NOT NULL] [DEFAULT constant|NOW] [[CONSTRAINT name] CHECK (condition)]…
//!          | [CONSTRAINT name] CHECK (condition)
//!          | WATERMARK FOR column AS column [- INTERVAL 'n units'] [MAX AHEAD INTERVAL 'n units' | MAX AHEAD NONE]
//!            [IDLE AFTER INTERVAL 'n units']
//! ALTER STREAM [IF EXISTS] name change, …
//!   change = ADD [COLUMN] [IF NOT EXISTS] column type …
//!          | ALTER [COLUMN] column [SET DATA] TYPE type | SET DEFAULT constant|NOW | DROP DEFAULT | DROP NOT NULL
//!          | SET (option = value, …) | RESET (option, …) | PAUSE | RESUME | SET KAFKA (option = value, …)
//! ALTER STREAM [IF EXISTS] name SKIP PARTITION number TO offset        [`kafka`]
//! DROP STREAM [IF EXISTS] name
//! CREATE MATERIALIZED VIEW [IF NOT EXISTS] name [DELETE WHEN condition] [WITH (option = value, …)] AS query
//! DROP [MATERIALIZED] VIEW [IF EXISTS] name
//! CREATE JOB [IF NOT EXISTS] name SCHEDULE 'cron' [WITH (option = value, …)] AS sql | AS $$sql; sql$$
//! ALTER JOB name ENABLE | DISABLE | SET SCHEDULE 'cron' | SET (option = value, …) | RESET (option, …)
//! DROP JOB [IF EXISTS] name          RUN JOB name
//! CREATE SINK, DROP SINK: [`sink`]          CREATE ALERT, DROP ALERT: [`alert`]
//! CREATE JOIN, DROP JOIN: [`join`]
//! CREATE, ALTER, DROP SEARCH INDEX: [`search_index`]
//! CREATE, DROP, SHOW SAVED: [`saved`]
//! CREATE ENDPOINT …: [`endpoint`] has the grammar        DROP ENDPOINT [IF EXISTS] GET|POST 'path'
//! SHOW STREAMS | PARTITIONS | VIEWS | SINKS | JOINS | TABLES | JOBS | ENDPOINTS
//! SHOW CREATE STREAM|VIEW|SINK|JOIN name       SHOW CREATE ENDPOINT GET|POST 'path'
//! DESCRIBE [STREAM|VIEW|TABLE|JOB|SINK|JOIN] name       DESCRIBE ENDPOINT GET|POST 'path'
//! ```
//!
//! [`crate::parse_ddl`] parses them. Their `Display` is a normal form that parses as the same statement; a catalog stores
//! statements in this form. Conditions and defaults remain text here, because their meaning depends on the types of the
//! columns: [`CreateStream::conditions`] and [`Constant::expr`] plan them. Knows nothing of which streams exist. Limits:
//! [`COLUMNS_MAX`] columns, names of [`NAME_BYTES_MAX`] bytes.

mod alert;
mod alter;
pub mod endpoint;
mod job;
mod join;
mod kafka;
mod kafka_format;
mod kafka_target;
mod options;
pub(crate) mod print;
mod saved;
pub(crate) mod search_index;
mod sink;
pub(crate) mod split;
#[cfg(test)]
mod tests;
mod view;

use swiftwater_event::{Path, StreamName, Type};

pub(crate) use self::options::named as named_option;
pub use self::{
    alert::{AlertOption, AlertOptions, AlertSource, AlertTarget, CreateAlert},
    alter::AlterError,
    endpoint::{
        Answer, CreateEndpoint, ElseClause, EndpointAction, EndpointColumn, EndpointMethod, EndpointName,
        EndpointOption, EndpointOptions, ErrorForm, OtherFields, PARAMETERS_MAX, Parameter, ParameterCheck,
        ParameterPlace, PathTemplate, Refusal, RowSource, Segment,
    },
    job::{CreateJob, JobChange, JobOption, JobOptions},
    join::CreateJoin,
    kafka::{
        KAFKA_CONNECTION_DEFAULT, KafkaField, KafkaIsolation, KafkaOption, KafkaOptions, KafkaSource,
        KafkaStart, OnGap, OnTombstone, SkipPartition, SourcePartitioner,
    },
    kafka_format::{KafkaFormat, KafkaSchemas},
    kafka_target::{KafkaDelivery, KafkaPartitioner, KafkaTarget, KafkaTargetOption},
    options::{
        Ack, OnBadEvent, PartitionBy, StreamOption, StreamOptions, Value, parse_duration_ms, parse_size_bytes,
    },
    print::type_text,
    saved::{CreateSaved, SAVED_COMMENT_BYTES_MAX, SavedKind, SavedName},
    search_index::{
        AlterSearchIndex, CreateSearchIndex, DefinitionError, RebuildBound, RebuildSearchIndex,
        SearchIndexChange, kind_text,
    },
    sink::{CreateSink, SinkFormat, SinkOption, SinkOptions, SinkQuery, SinkSource, SinkTarget},
    split::{StatementText, placeholders, split_statements},
    view::{CreateView, ViewOption, ViewOptions},
};
use crate::{Dialect, ParseOptions, QueryErrors, Schema, TimeBounds, plan::Expr};

/// The most columns that a stream can declare.
pub const COLUMNS_MAX: usize = 2048;

/// The longest name of a column, in bytes of UTF-8.
pub const NAME_BYTES_MAX: usize = 255;

/// Columns of stored streams that are no fields of events: an event's offset, when it arrived, and its text where the other
/// columns do not say it whole; and where files are told apart by time, their day and hour. No column that is declared or found
/// can have one of these names, in whatever letter case.
pub const SYSTEM_COLUMNS: [&str; 5] = ["_offset", "_time", "_event", "_day", "_hour"];

/// The reason why a column cannot have this name; `None`: it can. Tables are written in a format that has rules
/// for it.
pub fn column_name_fault(name: &str) -> Option<&'static str> {
    if name.is_empty() {
        return Some("it is empty");
    }
    if name.len() > NAME_BYTES_MAX {
        return Some("it is longer than 255 bytes");
    }
    if SYSTEM_COLUMNS.iter().any(|system| system.eq_ignore_ascii_case(name)) {
        return Some("stored streams reserve this name for a column of the server");
    }
    let is_refused = |c: char| c.is_control() || matches!(c, ' ' | ',' | ';' | '{' | '}' | '(' | ')' | '=');
    name.chars().any(is_refused).then_some("it cannot contain a space, a control character or one of ,;{}()=")
}

/// One statement.
#[derive(Debug, Clone, PartialEq)]
pub enum Ddl {
    /// `CREATE STREAM`.
    CreateStream(CreateStream),
    /// `ALTER STREAM`.
    AlterStream(AlterStream),
    /// `ALTER STREAM … SKIP PARTITION`.
    SkipPartition(SkipPartition),
    /// `DROP STREAM`.
    DropStream {
        /// The name.
        name: StreamName,
        /// `IF EXISTS`: a missing one is no error.
        if_exists: bool,
    },
    /// `CREATE MATERIALIZED VIEW`.
    CreateView(CreateView),
    /// `DROP VIEW`.
    DropView {
        /// The name.
        name: Box<str>,
        /// `IF EXISTS`: a missing one is no error.
        if_exists: bool,
    },
    /// `CREATE ALERT`.
    CreateAlert(CreateAlert),
    /// `DROP ALERT`.
    DropAlert {
        /// The name.
        name: Box<str>,
        /// `IF EXISTS`: a missing one is no error.
        if_exists: bool,
    },
    /// `CREATE SINK`.
    CreateSink(CreateSink),
    /// `DROP SINK`.
    DropSink {
        /// The name.
        name: Box<str>,
        /// `IF EXISTS`: a missing one is no error.
        if_exists: bool,
    },
    /// `CREATE JOIN`.
    CreateJoin(CreateJoin),
    /// `DROP JOIN`.
    DropJoin {
        /// The name.
        name: Box<str>,
        /// `IF EXISTS`: a missing one is no error.
        if_exists: bool,
    },
    /// `CREATE JOB`.
    CreateJob(CreateJob),
    /// `ALTER JOB`.
    AlterJob {
        /// The name.
        name: Box<str>,
        /// The change.
        change: JobChange,
    },
    /// `DROP JOB`.
    DropJob {
        /// The name.
        name: Box<str>,
        /// `IF EXISTS`: a missing one is no error.
        if_exists: bool,
    },
    /// `RUN JOB`: now, whatever its schedule says.
    RunJob {
        /// The name.
        name: Box<str>,
    },
    /// `CREATE ENDPOINT`.
    CreateEndpoint(CreateEndpoint),
    /// `DROP ENDPOINT`.
    DropEndpoint {
        /// The name.
        name: EndpointName,
        /// `IF EXISTS`: a missing one is no error.
        if_exists: bool,
    },
    /// `DESCRIBE ENDPOINT`.
    DescribeEndpoint {
        /// The name.
        name: EndpointName,
    },
    /// `CREATE SEARCH INDEX`.
    CreateSearchIndex(CreateSearchIndex),
    /// `ALTER SEARCH INDEX`.
    AlterSearchIndex(AlterSearchIndex),
    /// `ALTER SEARCH INDEX … REBUILD`.
    RebuildSearchIndex(RebuildSearchIndex),
    /// `DROP SEARCH INDEX`.
    DropSearchIndex {
        /// The stream or table that it is of.
        table: Box<str>,
        /// `IF EXISTS`: a missing one is no error.
        if_exists: bool,
    },
    /// `DESCRIBE SEARCH INDEX`.
    DescribeSearchIndex {
        /// The stream or table that it is of.
        table: Box<str>,
    },
    /// `CREATE SAVED`.
    CreateSaved(CreateSaved),
    /// `DROP SAVED`.
    DropSaved {
        /// Kind and name.
        name: SavedName,
        /// `IF EXISTS`: a missing one is no error.
        if_exists: bool,
    },
    /// `SHOW`.
    Show(Show),
    /// `DESCRIBE`.
    Describe {
        /// The kind of object, if stated.
        kind: Option<DdlObjectKind>,
        /// The name as it is written, without its quotes.
        name: Box<str>,
    },
}

/// The kinds of objects that can be listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Show {
    /// All streams.
    Streams,
    /// All views.
    Views,
    /// All partitions of the topics that streams read.
    Partitions,
    /// All nodes of the cluster.
    Nodes,
    /// All alerts.
    Alerts,
    /// All that SQL can read.
    Tables,
    /// All jobs.
    Jobs,
    /// The statement that makes a stream as it is now.
    CreateStream(StreamName),
    /// The statement that makes a view.
    CreateView(Box<str>),
    /// The statement that makes an alert.
    CreateAlert(Box<str>),
    /// All endpoints.
    Endpoints,
    /// The statement that makes an endpoint.
    CreateEndpoint(EndpointName),
    /// All sinks.
    Sinks,
    /// The statement that makes a sink.
    CreateSink(Box<str>),
    /// All joins.
    Joins,
    /// The statement that makes a join.
    CreateJoin(Box<str>),
    /// All search indexes.
    SearchIndexes,
    /// The statement that makes the search index of a stream or table.
    CreateSearchIndex(Box<str>),
    /// All saved objects of a kind.
    Saved(SavedKind),
    /// The statement that makes a saved object.
    CreateSaved(SavedName),
}

/// Kinds of what has a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DdlObjectKind {
    /// A stream.
    Stream,
    /// A view.
    View,
    /// An alert.
    Alert,
    /// A relation that SQL can read.
    Table,
    /// A job.
    Job,
    /// An endpoint.
    Endpoint,
    /// A sink.
    Sink,
    /// A join.
    Join,
    /// A search index.
    SearchIndex,
}

/// `CREATE STREAM`: all that is declared of a stream.
#[derive(Debug, Clone, PartialEq)]
pub struct CreateStream {
    /// Its name.
    pub name: StreamName,
    /// `IF NOT EXISTS`: an existing one is no error.
    pub if_not_exists: bool,
    /// Its columns in order; none for a stream whose columns are not declared.
    pub columns: Vec<ColumnDef>,
    /// Conditions over several columns. Those of a single column stand with it.
    pub checks: Vec<Check>,
    /// The watermark: the allowed lateness of events.
    pub watermark: Option<Watermark>,
    /// `FROM KAFKA (…)`: the topic that it reads.
    pub source: Option<KafkaSource>,
    /// `WITH (…)`.
    pub options: StreamOptions,
}

/// One declared column.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnDef {
    /// Its name; no two of a stream are equal in whatever letter case.
    pub name: Box<str>,
    /// Its type; [`Type::Any`], written JSON, takes whatever there is and holds it as JSON text.
    pub ty: Type,
    /// The path of the value in the event; `None`: the field with the column's name.
    pub path: Option<Path>,
    /// An event without it, and without a default for it, is bad.
    pub not_null: bool,
    /// The value that replaces a missing one or a null.
    pub default: Option<DefaultValue>,
    /// An event for which one of these is false is bad; where it is null, it is not.
    pub checks: Vec<Check>,
}

/// The replacement of a missing value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DefaultValue {
    /// `NOW`: when the event arrived.
    Now,
    /// A constant expression.
    Constant(Constant),
}

/// A constant expression, as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Constant {
    /// The text, which is known to be sound.
    pub text: Box<str>,
}

/// `CHECK (…)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// `CONSTRAINT name`.
    pub name: Option<Box<str>>,
    /// The condition, a text which is known to be sound.
    pub text: Box<str>,
}

/// `WATERMARK FOR column AS column - INTERVAL …`: the latest time of all events so far, less the lateness, is the time
/// up to which the stream is taken to be complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watermark {
    /// A declared column: a TIMESTAMP, or a LONG of milliseconds since 1970.
    pub column: Box<str>,
    /// The lateness in milliseconds.
    pub lateness_ms: u64,
    /// `MAX AHEAD`: an event whose time is further ahead of its arrival does not move the watermark and belongs to no
    /// window. In milliseconds; none: any number.
    pub max_ahead_ms: Option<u64>,
    /// `IDLE AFTER`: the time without an event after which event time advances with the clock. In milliseconds; none: never. Of a
    /// stream over a topic it is that of a partition: [`CreateStream::time_bounds`].
    pub idle_after_ms: Option<u64>,
}

/// Maximum distance of an event's time ahead of its arrival if a declaration does not state it: an hour.
pub const MAX_AHEAD_MS_DEFAULT: u64 = 3_600_000;

/// The time without a message after which a partition of a topic holds up no others, if a declaration does not state it.
pub const KAFKA_IDLE_AFTER_MS_DEFAULT: u64 = 30_000;

/// The minimum of `IDLE AFTER`, as events of one second may be matched in one batch.
pub const IDLE_AFTER_MS_MIN: u64 = 1000;

/// `ALTER STREAM`; the changes hold together or not at all.
#[derive(Debug, Clone, PartialEq)]
pub struct AlterStream {
    /// The name.
    pub name: StreamName,
    /// `IF EXISTS`: a missing one is no error.
    pub if_exists: bool,
    /// The changes in order; at least one.
    pub changes: Vec<StreamChange>,
}

/// One change of a stream.
#[derive(Debug, Clone, PartialEq)]
pub enum StreamChange {
    /// `ADD COLUMN`.
    AddColumn {
        /// The column; its conditions name no other.
        column: ColumnDef,
        /// `IF NOT EXISTS`: an existing one is no error.
        if_not_exists: bool,
    },
    /// `ALTER COLUMN … TYPE`: to a type that holds all that the present one does.
    ColumnType {
        /// The column.
        column: Box<str>,
        /// Its new type.
        ty: Type,
    },
    /// `ALTER COLUMN … SET DEFAULT`, or DROP DEFAULT.
    ColumnDefault {
        /// The column.
        column: Box<str>,
        /// The new default.
        default: Option<DefaultValue>,
    },
    /// `ALTER COLUMN … DROP NOT NULL`.
    DropNotNull {
        /// The column.
        column: Box<str>,
    },
    /// `SET (…)`: those options that are named.
    Set(StreamOptions),
    /// `RESET (…)`: back to their defaults.
    Reset(Vec<StreamOption>),
    /// `PAUSE`, or `RESUME`: its topic is not read, or is read again.
    Pause(bool),
    /// `SET KAFKA (…)`: those options of its source that are named.
    SetKafka(KafkaOptions),
}

/// A condition of a stream, planned.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    /// Its name or its text, for messages.
    pub label: Box<str>,
    /// The one column that it stands with.
    pub column: Option<usize>,
    /// A condition over the columns: the first step of each path is a column's name, wherever its value lies in the event.
    pub expr: Expr,
}

impl CreateStream {
    /// True if columns are declared.
    pub fn is_declared(&self) -> bool {
        !self.columns.is_empty()
    }

    /// True if events are kept: a declared stream is stored and another is not, unless it says so.
    pub fn is_stored(&self) -> bool {
        self.options.store.unwrap_or(self.is_declared())
    }

    /// The place of a column: by its exact name, else in whatever letter case.
    pub fn column(&self, name: &str) -> Option<usize> {
        let exact = self.columns.iter().position(|column| *column.name == *name);
        let folded = || name.to_lowercase();
        exact.or_else(|| self.columns.iter().position(|column| column.name.to_lowercase() == folded()))
    }

    /// The knowledge of a live query about the stream's events: the columns' types, the paths of their values, and the
    /// allowed lateness.
    pub fn schema(&self) -> Schema {
        let types = self.columns.iter().map(|column| (column.name.clone(), column.ty.clone()));
        let paths =
            self.columns.iter().filter_map(|column| Some((column.name.clone(), column.path.clone()?)));
        let schema = Schema::new(types).with_paths(paths);
        match (&self.watermark, self.time_bounds()) {
            (Some(watermark), Some(bounds)) => schema.with_watermark(watermark.column.clone(), bounds),
            _ => schema,
        }
    }

    /// The bounds of its watermark, as queries have them. `IDLE AFTER` of a stream over a topic is for the reader of the topic alone: a
    /// stream to which nothing was appended may have been far behind its topic.
    pub fn time_bounds(&self) -> Option<TimeBounds> {
        let Watermark { lateness_ms, max_ahead_ms, idle_after_ms, .. } = *self.watermark.as_ref()?;
        let idle_after_ms = idle_after_ms.filter(|_| self.source.is_none());
        Some(TimeBounds { lateness_ms, max_ahead_ms, idle_after_ms })
    }

    /// All conditions, those of columns first, each planned against the types of the columns.
    pub fn conditions(&self) -> Result<Vec<Condition>, QueryErrors> {
        let of_columns = self.columns.iter().enumerate();
        let of_columns = of_columns
            .flat_map(|(place, column)| column.checks.iter().map(move |check| (Some(place), check)));
        let all = of_columns.chain(self.checks.iter().map(|check| (None, check)));
        let schema = Schema::new(self.columns.iter().map(|column| (column.name.clone(), column.ty.clone())));
        let options = ParseOptions { schema: Some(&schema), ..ParseOptions::new(Dialect::Native, 0) };
        all.map(|(column, check)| {
            let expr = crate::parse_expression(&check.text, &options)?;
            Ok(Condition { label: check.label(), column, expr })
        })
        .collect()
    }
}

impl ColumnDef {
    /// A column of a name and type, which may be null.
    pub fn new(name: impl Into<Box<str>>, ty: Type) -> ColumnDef {
        ColumnDef { name: name.into(), ty, path: None, not_null: false, default: None, checks: Vec::new() }
    }

    /// The path of its value in an event.
    pub fn event_path(&self) -> Path {
        self.path.clone().unwrap_or_else(|| Path::field(self.name.clone()))
    }
}

impl Constant {
    /// The constant, planned.
    pub fn expr(&self) -> Result<Expr, QueryErrors> {
        crate::parse_expression(&self.text, &ParseOptions::new(Dialect::Native, 0))
    }
}

impl Check {
    fn label(&self) -> Box<str> {
        self.name.clone().unwrap_or_else(|| self.text.clone())
    }
}
