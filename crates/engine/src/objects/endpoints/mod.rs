//! Endpoints: routes that accept events or return rows, declared in SQL.
//!
//! A declaration is compiled once ([`compile`]) and found by path ([`routes`]). A request's texts and body become values of
//! the parameters' types and are checked against their conditions ([`input`]). An endpoint that accepts events builds one
//! from the values ([`event_builder`], in the form of [`shape`]). The event is appended like any other, with those of
//! concurrent requests ([`group_commit`]). An endpoint that returns rows forms the key of a view, and reads and writes out
//! its row ([`select`]). No request parses SQL or runs a statement. The catalog stores the declarations. Knows nothing of
//! HTTP but the names of methods and the statuses.

mod compile;
mod counts;
mod ddl;
mod event_builder;
mod group_commit;
mod input;
mod routes;
mod running;
mod select;
mod shape;
mod show;

pub use compile::{Endpoint, EndpointPlace};
pub use counts::EndpointCounts;
pub(crate) use ddl::DropEndpoint;
pub use input::EndpointInput;
pub use routes::EndpointRoute;
pub(crate) use routes::Endpoints;
pub use running::{EndpointAnswer, EndpointError, EndpointLimits};

use crate::EngineError;

/// A declaration that cannot be followed.
fn unfit(message: String, hint: &'static str) -> EngineError {
    EngineError::EndpointUnfit { message, hint }
}
