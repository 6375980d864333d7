//! Expressions over the rows of a decoded batch, or over the slots of aggregated rows.
//!
//! A [`Program`] is compiled once from a [`plan::Expr`] and run over a whole batch at a time: each operator runs over
//! all its rows before the operator above it, so that the choice of operator is made once per batch and not once per
//! row. Buffers come from a [`Scratch`] and go back to it; what text and containers are made lies in the caller's
//! arena; nothing else is allocated.
//!
//! A value that cannot be had is an error of its row, never of the batch: [`Value::Error`] in the Bullet dialect, where
//! it goes up through all operators as an exception would; null and a count ([`EvalCounts`]) in the native one.
//! `AND`, `OR`, `IF`, `CASE` and `COALESCE` run later operands on those rows only that are still undecided, so no
//! error is counted of an operand that nobody needed.
//!
//! Knows nothing of queries, windows or groups. The rules of types are those of `reference/bullet.md` sections 3 to 5
//! and 15, but for what [`Dialect`] sets apart.
//!
//! [`plan::Expr`]: swiftwater_lang::plan::Expr
//! [`Dialect`]: swiftwater_lang::Dialect
//! [`Value::Error`]: swiftwater_event::Value::Error

mod program;
mod wants;

mod compile;
mod predicate;
mod scratch;
mod value_node;

mod arithmetic;
mod cast;
mod compare;
mod containers;
mod java_type;
mod membership;
mod text;
mod text_match;

mod java;
mod like;
mod pattern;
mod time;
mod time_pattern;

mod group_key;
mod order;
mod ordered_key;

#[cfg(test)]
mod tests_support;

pub use cast::cast_to_double;
pub use compare::compare;
pub use compile::CompileError;
pub(crate) use compile::mirrored;
pub(crate) use containers::native_size;
pub(crate) use group_key::encode_whole;
pub use group_key::{decode_group_value, encode_group_value};
pub(crate) use java::hash_map_order;
pub use java::{java_hash, java_text, parse_java_double, push_java_double, push_java_float};
pub(crate) use java_type::has_container_type;
pub(crate) use membership::native_has_key;
pub use order::{KeyOrder, total_order};
pub use ordered_key::{ORDERED_KINDS, decode_ordered_value, encode_ordered_value};
pub(crate) use pattern::{java_pattern_as_regex, linear_regex};
pub(crate) use program::want_values;
pub use program::{EvalCounts, Program, Rows};
pub use scratch::Scratch;
pub use time::{parse_rfc3339_micros, push_rfc3339};
pub use wants::Wants;
