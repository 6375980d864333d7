//! Events: their bytes, times and positions, the paths and types of their values, and the decoder.
//!
//! The decoder turns the requested paths of many events into Arrow columns.
//!
//! This room knows nothing of queries, streams' owners, threads or the wire. To everything above it, an [`EventBatch`]
//! proves that the structure and UTF-8 of every event in it were checked.

mod path;
mod types;
mod value;

mod grammar;
mod scan;
mod structure;

mod backoff;
mod batch;
mod causes;
mod check;
mod cut;
mod skip;

mod columns;
mod plan;
mod seek;

mod build;
mod decode;
mod layout;
mod number;
mod order;
mod text;
mod time;
mod views;
mod walk;
mod whole;

pub mod measure;

mod clock;
mod did_you_mean;
mod name;
mod position;

pub use backoff::Backoff;
pub use batch::{EventBatch, EventBatchBuilder, EventMeta};
pub use causes::causes;
pub use check::{CheckLimits, Checked, Checker, Origin, RefusedText, Rejection, check_block};
pub use clock::{Clock, Millis, SystemClock};
pub use columns::{Column, Decoded, KIND_COUNT, Kind, Tagged, Values};
pub use cut::{first_cut, last_cut};
pub use decode::Decoder;
pub use did_you_mean::did_you_mean;
pub use name::{NameError, StreamName};
pub use path::{Path, PathError, Step};
pub use plan::{DecodePlan, Want, WantId};
pub use position::{Offset, Position};
pub use time::{from_rfc3339, from_rfc3339_with_zone, rfc3339};
pub use types::{Primitive, TimeUnit, Type, TypeError};
pub use value::{Value, event_fields, parse_value, write_json};
