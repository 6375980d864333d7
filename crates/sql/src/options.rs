//! Limits of all statements, and the options of one run of statements.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::{SqlError, Tables};

/// Limits and places that hold for all statements.
#[derive(Debug, Clone)]
pub struct SqlOptions {
    /// Memory that one statement may hold in its operators, in bytes; sorts, groups and joins beyond it go to disk.
    pub memory_bytes_max: usize,
    /// Directory of spilled files; none: the system's directory for temporary files. It is made when it is missing.
    pub spill_directory: Option<PathBuf>,
    /// Bytes that all statements together may spill at once; beyond it a statement fails.
    pub spill_bytes_max: u64,
    /// Threads that work on statements, and partitions of one; 0: as many as the machine has cores.
    pub threads: usize,
    /// Statements that run at once; others wait for their turn.
    pub statements_max: usize,
    /// Statements of one client that run at once; 0: three quarters of `statements_max`.
    pub statements_max_per_client: usize,
    /// Statements that wait; more are refused. One client may have half as many.
    pub statements_waiting_max: usize,
    /// Time limit of a run of statements that waits for its turn; none: no limit.
    pub duration_max: Option<Duration>,
    /// Time that a statement waits for its reader to take rows before it fails; none: no limit.
    pub unread_max: Option<Duration>,
    /// Length of the text of a run of statements, in bytes.
    pub text_bytes_max: usize,
    /// Statements in one text.
    pub statements_per_text_max: usize,
    /// Rows of a record batch between operators.
    pub batch_rows: usize,
    /// Directories under which `COPY … TO` may write; a relative target lies under the first. None: it is refused.
    pub output_roots: Vec<PathBuf>,
    /// Other machines for statements; none: all run here.
    #[cfg(feature = "distributed")]
    pub distribution: Option<crate::DistributionOptions>,
}

impl Default for SqlOptions {
    fn default() -> SqlOptions {
        SqlOptions {
            memory_bytes_max: 1 << 30,
            spill_directory: None,
            spill_bytes_max: 64 << 30,
            threads: 0,
            statements_max: 8,
            statements_max_per_client: 0,
            statements_waiting_max: 256,
            duration_max: None,
            unread_max: Some(Duration::from_secs(60)),
            text_bytes_max: 1 << 20,
            statements_per_text_max: 1000,
            batch_rows: 8192,
            output_roots: Vec::new(),
            #[cfg(feature = "distributed")]
            distribution: None,
        }
    }
}

/// The dialect of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Dialect {
    /// DataFusion's SQL; names keep their case: exact match first, else whatever the case if that is unique.
    #[default]
    Native,
    /// The dialect of published scripts for Hive and Spark: "x" is text, names are in backticks, a join
    /// without a condition is a cross join, the target of an INSERT is made by the first.
    Spark,
}

/// Whether a statement runs on several machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Distributed {
    /// If it reads enough, and there are workers.
    #[default]
    Auto,
    /// On this node alone.
    Never,
    /// However little it reads, if there are workers.
    Always,
}

/// The effects that a run of statements may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum RunMode {
    /// Whatever its statements say.
    #[default]
    Run,
    /// Read alone: a statement that changes something is refused.
    ReadOnly,
    /// Nothing: queries are planned, over the tables that are there now, and have columns and no rows. Statements that change
    /// something are parsed; the tables that they change are not looked up.
    Plan,
}

/// A value for `$1`, `$2`, ….
#[derive(Debug, Clone, PartialEq)]
pub enum Parameter {
    /// NULL of whatever type is wanted.
    Null,
    /// A boolean.
    Boolean(bool),
    /// A whole number.
    Long(i64),
    /// A floating-point number.
    Double(f64),
    /// Text; becomes a date, a number or a time where one is wanted.
    Text(String),
    /// A decimal: its digits, and how many of them stand behind the point.
    Decimal(i128, i8),
    /// Bytes.
    Binary(Vec<u8>),
    /// Days since 1970.
    Date(i32),
    /// Microseconds since midnight.
    Time(i64),
    /// Microseconds since 1970.
    Timestamp {
        /// The number of microseconds.
        micros: i64,
        /// True if it is an instant in UTC, false if it is a local time.
        is_utc: bool,
    },
    /// A length of time, in the parts that calendars make different: `ts - $1`.
    Interval {
        /// Months.
        months: i32,
        /// Days.
        days: i32,
        /// Nanoseconds.
        nanos: i64,
    },
    /// Values of one type, and nulls.
    List(Vec<Parameter>),
}

/// Statements that are not DataFusion's but the engine's: `CREATE STREAM`, `SHOW STREAMS` and their like.
#[async_trait]
pub trait OtherStatements: Send + Sync + 'static {
    /// Returns true if it accepts a statement that begins with these words, in upper case, at most the first six.
    fn takes(&self, words: &[&str]) -> bool;

    /// Checks one as far as that needs no change of anything.
    fn check(&self, text: &str) -> Result<(), SqlError>;

    /// Runs one; what it tells are rows, or none.
    async fn run(&self, text: &str) -> Result<Option<arrow::record_batch::RecordBatch>, SqlError>;
}

/// Options of one run of statements.
#[derive(Clone, Default)]
pub struct RunOptions {
    /// Dialect of the text.
    pub dialect: Dialect,
    /// Values for `$1`, `$2`, … in every statement of the text.
    pub parameters: Vec<Parameter>,
    /// Receiver of the statements that are not for DataFusion; none: they are refused.
    pub others: Option<Arc<dyn OtherStatements>>,
    /// Source of tables and destination of rows, instead of those of all statements.
    pub tables: Option<Arc<dyn Tables>>,
    /// Address of the client; none: the server's own. One client never has all places.
    pub client: Option<IpAddr>,
    /// True if it waits for no turn: the caller limits the number of such runs, and their time.
    pub has_turn: bool,
    /// A name for [`Sql::cancel`](crate::Sql::cancel) and [`Sql::running`](crate::Sql::running); one is made if none is given.
    pub id: Option<String>,
    /// Shorter than [`SqlOptions::duration_max`], if given.
    pub duration_max: Option<Duration>,
    /// Rows of the answer beyond which it ends with an error.
    pub rows_max: Option<u64>,
    /// Whether it runs on several machines.
    pub distributed: Distributed,
    /// The effects that it may have.
    pub mode: RunMode,
}
