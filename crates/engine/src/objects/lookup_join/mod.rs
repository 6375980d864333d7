//! Tables that queries and views join their events with. The joins themselves, with tables or views, are in
//! [`crate::objects::views`].

mod tables;

pub(crate) use tables::{JoinedTable, TableError};
