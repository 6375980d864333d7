//! Events and what can be said of one without knowing who asks: its bytes, its times, its position, the paths and
//! types of its values, and the decoder that turns the asked-for paths of many events into Arrow columns.
//!
//! This room knows nothing of queries, streams' owners, threads or the wire. Everything above it takes an
//! [`EventBatch`] as proof that structure and UTF-8 of every event in it were checked, whoever asks or not.

mod path;
mod types;
mod value;

mod batch;
mod check;
mod columns;
mod plan;

mod clock;
mod decode;
mod name;
mod position;

pub use batch::{EventBatch, EventBatchBuilder, EventMeta};
pub use check::{CheckLimits, Checked, Checker, Rejection};
pub use clock::{Clock, Millis, SystemClock};
pub use columns::{Column, Decoded, KIND_COUNT, Kind};
pub use decode::Decoder;
pub use name::{NameError, StreamName};
pub use path::{Path, PathError, Step};
pub use plan::{DecodePlan, Want, WantId};
pub use position::{Offset, Position};
pub use types::{Primitive, TimeUnit, Type, TypeError};
pub use value::Value;
