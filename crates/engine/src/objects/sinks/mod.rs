//! Sinks: deliver the closed windows of views, the changes of views, or the events of streams.
//!
//! A sink of a view reads its data on disk: a part of one window at a time, or of the changes of one commit
//! ([`crate::objects::views`]). A sink of events reads its stream ([`event_reader`]), and makes rows by a query ([`event_query`]).
//! A sink delivers to a stream as events, to a table as rows, to the end of a file, to a topic of
//! Kafka as messages, or to a webhook. Neither a closed window nor the changes of a commit nor the events of planned
//! offsets ever change, so a delivery that is repeated after a crash has the same rows. Its number lets a stream, a table, a topic or a webhook deduplicate it; a file is
//! truncated to its delivered length. The catalog, and so the log, records the progress of each sink. Nothing waits for a sink: it buffers only the
//! rows of one delivery, and takes none of the view's locks. Alerts deliver by the same means ([`deliver`], [`retry`]).
//! Limits: `sinks.*` of the settings.

mod ddl;
mod deliver;
mod event_query;
mod event_reader;
mod event_source;
mod group_commit;
pub(crate) mod kafka;
mod retry;
mod row_schema;
mod rows;
mod show;
mod task;

pub(crate) use ddl::DropSink;
pub(crate) use deliver::{DeliverError, Delivery};
pub(crate) use retry::Retry;
pub(crate) use task::SinkTasks;
