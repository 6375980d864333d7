//! BQL: text in, plan or errors out.
//!
//! One parser and one planner serve all dialects; a dialect is a small table of settings ([`Dialect`]). This room
//! knows paths and types of `event`, and nothing of how a plan is run.

mod dialect;
pub mod plan;
mod schema;
mod error;

pub use dialect::Dialect;
pub use error::{QueryError, QueryErrors};
pub use schema::{Schema, SchemaError};
