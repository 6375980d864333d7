//! Backfills views with events that the log no longer has.
//!
//! The view reads the stream's table until few events remain. Then the log retains new events for the view, and the table
//! supplies the remaining gap. So no event is missing and none comes twice. A view that counts its stream's earlier events
//! starts in the same way (`WITH (backfill = true)`).

use std::sync::Weak;

use swiftwater_event::EventBatch;
use swiftwater_lang::{QueryErrors, ddl::CreateStream};
use swiftwater_sql::SqlError;

use super::{query_error, rebuild::EventsGone, view::View};
use crate::{
    EngineError, RuntimeError,
    durable::{
        backfill::{NullFields, PAST_EVENTS, column_within_list, first_past, past_events},
        history::History,
    },
};

/// Number of remaining events below which the log retains the following ones.
const NEAR_EVENTS: u64 = 1_000_000;

/// The reason why a view does not get the events that it lacks.
#[derive(Debug, thiserror::Error)]
pub(super) enum BackfillError {
    #[error("the stream's table cannot be read")]
    Sql(#[from] SqlError),
    #[error("the stream's table is closed")]
    Closed,
    #[error("the engine is still starting")]
    Starting,
    #[error(transparent)]
    Gone(#[from] EventsGone),
}

impl History {
    /// The next events that a view lacks, and the offset after them; none when the log has all the rest. `kept` is the offset
    /// from which on the log keeps events for the view.
    pub(super) async fn past_of(
        &self,
        view: &View,
        kept: &mut Option<u64>,
    ) -> Result<Option<(Vec<EventBatch>, u64)>, BackfillError> {
        let (stored, position) = (&view.stored, view.at().position);
        if kept.is_none() && stored.next().saturating_sub(position) <= NEAR_EVENTS {
            *kept = Some(stored.add_view(view.id(), self.config.feed_bytes_max));
        }
        if kept.is_some_and(|kept| position >= kept) {
            return Ok(None);
        }
        let end = kept.unwrap_or_else(|| stored.next());
        let until = end.min(position.saturating_add(PAST_EVENTS));
        let shared = self.engine.get().and_then(Weak::upgrade).ok_or(BackfillError::Starting)?;
        let sql = shared.sql.get().ok_or(BackfillError::Starting)?;
        let table = stored.opened().await;
        let mut progress = table.progress();
        stored.request_flush(until);
        progress
            .wait_for(|progress| progress.appended.0 >= until)
            .await
            .map_err(|_| BackfillError::Closed)?;
        let events = past_events(sql, stored, (position, until), NullFields::Written).await?;
        let found: u64 = events.iter().map(|batch| batch.len() as u64).sum();
        if view.is_rebuilding() && found < until - position {
            // It counted them once.
            return Err(EventsGone { offsets: position..until, found }.into());
        }
        // If no events are left here, the next ones are searched.
        let until = match events.is_empty() {
            true => first_past(sql, stored, (until, end)).await?.unwrap_or(end),
            false => until,
        };
        Ok(Some((events, until)))
    }
}

/// Fails if the rows of a stream cannot be made its events again.
pub(super) fn check_past(stream: &CreateStream) -> Result<(), EngineError> {
    match column_within_list(stream) {
        None => Ok(()),
        Some(column) => {
            let message = format!(
                "`backfill` cannot make events from rows, because column `{}` is inside a list",
                column.name
            );
            Err(EngineError::Runtime(RuntimeError::Query(QueryErrors(vec![query_error(message)]))))
        }
    }
}
