//! Lookup joins: joins the events of queries and views with rows of views and tables by key.
//!
//! A query's names are resolved when it is planned ([`sources`]). Its step requests rows when it has events. Views answer
//! from memory and disk ([`view_rows`]); tables are in memory ([`tables`]). A view that joins waits until the joined objects
//! count all earlier events ([`freshness`]).

mod freshness;
mod sources;
mod tables;
mod view_rows;

pub(crate) use freshness::{Awaited, WaitError};
pub(crate) use sources::Sources;
pub(crate) use tables::{JoinedTable, TableError};
