//! Runs SQL over stored data, by DataFusion.
//!
//! [`Sql::run`] takes a text of statements and returns the answer of the last one, as a stream of record batches. The
//! trait [`Tables`] provides the tables and receives the rows, so this room knows nothing of streams, logs or Delta. It
//! owns DataFusion: dialects, names, limits, errors with places, and the formats of answers. Limits: [`SqlOptions`]; each
//! has a default, and exceeding it is an error of kind [`ErrorKind::Limit`].

mod admission;
mod aggregate_call;
mod answer;
mod array_text;
mod bounded_dialect;
mod cancellation;
mod column_roles;
mod contradictions;
mod copy;
mod copy_in;
mod correlation;
mod date_comparisons;
mod dictionary_group_by;
mod distinct_from;
mod distinct_rewrite;
#[cfg(feature = "distributed")]
mod distributed;
mod duplicate_columns;
mod error;
mod first_batch_barrier;
pub mod forms;
mod function_help;
mod generated_table;
mod grouping;
mod guarded;
mod guarded_windows;
mod ignored;
mod information;
mod json_functions;
mod key_condition;
mod large_results;
mod map_keys;
mod meaning;
mod membership;
mod memory;
mod names;
mod one_row_first;
mod options;
mod partitioned;
mod plan_size;
mod planning_watched;
mod postgres;
mod progress;
mod run;
mod search;
mod session;
mod set;
mod short_string_compare;
mod sliced;
mod spill_rules;
mod spread;
mod sql;
mod standard_forms;
mod stoppable;
mod storable;
mod sums;
mod tables;
mod text;
mod types;
mod unique_keys;
mod walk;
mod watched;
mod whole;
mod wire_copy;
mod without_constants;
mod words;
mod write;

pub use aggregate_call::{AggregateCall, AggregateFunction};
pub use answer::{Answer, Command, shutting_down};
pub use array_text::array_elements;
pub use column_roles::ColumnRole;
pub use copy_in::CopyIn;
#[cfg(feature = "distributed")]
pub use distributed::{DistributionOptions, StoredFiles};
pub use error::{ErrorKind, Place, SqlError, state};
pub use function_help::{SqlFunction, SqlFunctionKind};
pub use generated_table::{RowGenerator, ScanRequest, generated_table, rows_at_hand, rows_between};
pub use key_condition::{KeyCondition, KeyLiteral};
pub use meaning::is_utc;
pub use names::{not_all_known, not_known};
pub use options::{Dialect, Distributed, OtherStatements, Parameter, RunMode, RunOptions, SqlOptions};
pub use postgres::{postgres_setting, postgres_type_name};
pub use progress::{Progress, ProgressReading, ScannedSources, TaskReading};
pub use search::index_query;
pub use sql::{DistributionReading, Running, Sql};
pub use tables::{At, TableKind, Tables};
pub use text::is_complete;
pub use types::type_name;
pub use watched::{count_allocated, count_freed};
pub use wire_copy::{CopyForm, WireCopy};
pub use write::can_be_inserted;

/// Types that an implementation of [`Tables`] needs, so that it need not name DataFusion itself.
pub use arrow::{datatypes::SchemaRef, record_batch::RecordBatch};
pub use datafusion::{catalog::TableProvider, execution::SendableRecordBatchStream, logical_expr::Expr};
/// Types that an implementation of [`StoredFiles`] needs.
#[cfg(feature = "distributed")]
pub use datafusion::{
    common::Result as PlanResult, datasource::physical_plan::FileScanConfig,
    execution::runtime_env::RuntimeEnv,
};
