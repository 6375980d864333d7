//! The statements of streams. The tables of stored streams, and the way of their events, are in [`crate::durable`].

mod ddl;

pub(crate) use ddl::DropStream;
