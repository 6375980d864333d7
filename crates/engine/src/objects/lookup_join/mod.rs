//! What the events of queries and views are joined with: the rows of views and tables by key.
//!
//! A query's names are looked up when it is planned ([`sources`]); its step asks for rows when it has events: of views, which
//! answer from memory and disk ([`view_rows`]), and of tables, which are held in memory ([`tables`]). Who joins in a view waits
//! until what is joined counts all that was there before ([`freshness`]).

mod freshness;
mod sources;
mod tables;
mod view_rows;

pub(crate) use freshness::{Awaited, WaitError};
pub(crate) use sources::Sources;
pub(crate) use tables::{JoinedTable, TableError};
