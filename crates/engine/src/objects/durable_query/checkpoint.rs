//! Records how far durable queries are, and which part of the log they need.
//!
//! The record includes the time up to which windows were reported. No event of a later start arrives before that time.

use std::sync::Arc;

use swiftwater_catalog::{Change, kind::durable_query::DurableQueryStep};
use swiftwater_event::{Path, Type};
use swiftwater_lang::ddl::CreateStream;
use swiftwater_log::LogPosition;

use super::follower::Follower;
use crate::durable::{
    history::{History, causes},
    stored_stream::FOLLOWER,
};
use swiftwater_runtime::parts::WantedQuery;

impl History {
    /// Records changed progress of the queries, and releases the part of the log that they no longer need.
    pub(super) async fn checkpoint_queries(&self, follower: &Arc<Follower>) {
        let (changed, needed, position) = {
            let mut plan = follower.plan.lock();
            let plan = &mut *plan;
            follower.stream.with_checkpoints(|checkpoint_of| {
                let mut changed = Vec::new();
                // Planned steps may need them, too.
                let mut needed = plan.position;
                for step in &plan.steps {
                    needed =
                        needed.min(step.query.following.as_ref().map_or(u64::MAX, |of| of.first_needed()));
                }
                for query in &plan.standing {
                    let Some(following) = &query.following else { continue };
                    let id: Box<str> = query.meta.id.to_string().into();
                    let Some(mut noted) = checkpoint_of(query.number, plan.time) else {
                        let noted = plan.noted.get(&id).unwrap_or(&following.from);
                        needed = needed.min(noted.from.map_or(following.first, |point| point.offset));
                        continue;
                    };
                    needed = needed.min(noted.from.map_or(following.first, |point| point.offset));
                    let before = plan.noted.get(&id).unwrap_or(&following.from);
                    // A change of time alone is not worth a record.
                    let time = std::mem::replace(&mut noted.time, before.time);
                    if noted != *before {
                        noted.time = time;
                        plan.noted.insert(id.clone(), noted);
                        changed.push((id, noted));
                    }
                }
                (changed, needed, plan.position)
            })
        };
        if !changed.is_empty() {
            let recorded = self.record(Change::Detached(DurableQueryStep::Noted(changed.clone()))).await;
            if let Err(error) = recorded {
                tracing::debug!(
                    error = causes(&error),
                    "the progress of durable queries could not be written"
                );
                changed.iter().for_each(|(id, _)| _ = follower.plan.lock().noted.remove(id));
                return;
            }
        }
        let appended = self.log.horizons().appended.0;
        // A log that may have little is not to be filled.
        let kept = self.config.detached_log_bytes_max.min(self.config.log_bytes_max / 2);
        let floor = LogPosition(appended.saturating_sub(kept));
        follower.stored.retain_for(FOLLOWER, (needed, position), floor);
    }
}

/// True if the rows of a stream's table tell of its events all that a query asks of them.
pub(super) fn rows_suffice_for(wanted: &WantedQuery, stream: &CreateStream) -> bool {
    let Some(paths) = &wanted.paths else { return false };
    let is_told = |(path, ty): &(Path, Type)| {
        stream.columns.iter().any(|column| {
            column.event_path() == *path
                && column.default.is_none()
                && column.ty == *ty
                && matches!(ty, Type::Primitive(_))
        })
    };
    paths.iter().all(is_told)
}
