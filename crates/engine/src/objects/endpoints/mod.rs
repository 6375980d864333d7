//! Endpoints: routes that take events in or give rows out, declared in SQL.
//!
//! What is declared is compiled once ([`compile`]) and found by path ([`routes`]). A request's texts and body become values
//! of the parameters' types, held against their conditions ([`input`]); of these an event is made, which goes the way of all
//! events ([`event_builder`], in the form of [`shape`]) with those that come at the same time ([`group_commit`]), or the key of a view,
//! whose row is looked at and shown ([`select`]). No SQL is read and no statement run for a request. Declarations lie in the catalog. Knows nothing of HTTP but methods' names and statuses.

mod compile;
mod counts;
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
pub use input::EndpointInput;
pub use routes::EndpointRoute;
pub(crate) use routes::Endpoints;
pub use running::{EndpointAnswer, EndpointError, EndpointLimits};

use crate::EngineError;

/// A declaration that cannot be followed.
fn unfit(message: String, hint: &'static str) -> EngineError {
    EngineError::EndpointUnfit { message, hint }
}
