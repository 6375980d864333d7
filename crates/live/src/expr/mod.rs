//! Compiles and evaluates expressions over the rows of a decoded batch, or over the slots of aggregated rows.
//!
//! A [`Program`] is compiled once from a [`plan::Expr`] and evaluated over a whole batch at a time. Each operator runs
//! over all its rows before its parent does. The choice of operator is thus made once per batch and not once per row.
//! Buffers come from a [`Scratch`] and return to it. New texts and containers are allocated in the caller's arena.
//! Nothing else is allocated.
//!
//! A value that does not exist, or an operation that fails, is an error of its row, never of the batch. In the Bullet
//! dialect it is [`Value::Error`], which propagates through all operators as an exception would. In the native dialect it
//! is null and a count ([`EvalCounts`]). `AND`, `OR`, `IF`, `CASE` and `COALESCE` evaluate later operands on undecided
//! rows only, so an operand that no row needs counts no error.
//!
//! Knows nothing of queries, windows or groups. The type rules are those of `reference/bullet.md` sections 3 to 5 and 15,
//! except for the differences that [`Dialect`] lists.
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
pub(crate) use program::requested_values;
pub use program::{EvalCounts, Program, Rows};
pub use scratch::Scratch;
pub use time::{parse_rfc3339_micros, push_rfc3339};
pub use wants::Wants;
