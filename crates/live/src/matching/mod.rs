//! Finding the queries that an event concerns.

pub(crate) mod filter;

mod bloom_filter;
mod condition;
mod contents;
mod ended;
mod entry;
mod find;
mod index;
mod index_segment;
mod interval_index;
mod literals;
mod number;
mod pattern;
mod points;
mod posting;
mod statistics;
mod table;

use std::cmp::Ordering;

use swiftwater_event::Value;
use swiftwater_lang::Dialect;

pub(crate) use entry::{CountsRows, Entry, body_is_late};
pub use find::is_sampled;
pub(crate) use find::{Finder, MatchInput, Matched, mistyped_rows};
pub use index::{Index, Matching, QueryNumber, Rebuild, Rebuilt, Replaced};
pub(crate) use index_segment::Access;
pub(crate) use points::prefetch;
pub(crate) use statistics::sampled_rows;

/// The order of texts: by UTF-8 byte, or by UTF-16 unit.
fn order_text(left: &str, right: &str, utf16: bool) -> Ordering {
    let dialect = if utf16 { Dialect::Bullet } else { Dialect::Native };
    crate::expr::compare(&Value::String(left), &Value::String(right), dialect).unwrap_or(Ordering::Equal)
}
