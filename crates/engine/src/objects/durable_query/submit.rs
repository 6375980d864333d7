//! Submits and ends durable queries, and resumes them after a restart.

use std::sync::Arc;

use swiftwater_catalog::{
    Change, ObjectKind,
    kind::durable_query::{DurableQueryEntry, DurableQueryStep, Ended, QueryCheckpoint},
};
use swiftwater_event::{Millis, StreamName};
use swiftwater_lang::{Dialect, ddl::Ddl};

use super::{
    checkpoint::rows_suffice_for,
    plan::{Plan, PlannedAction},
};
use crate::{
    Detached, EndReason, EngineError, Principal, QueryForm, QueryId, SubmitOptions,
    durable::{
        history::History,
        stored_stream::{FOLLOWER, StoredStream},
    },
    shared::Shared,
    supervisor::TaskKind,
};
use swiftwater_runtime::parts::{Fleeting, QueryHandle, ResumePoints, Stream};

impl Shared {
    /// See [`crate::Engine::submit_detached`].
    pub(crate) async fn submit_detached(
        self: &Arc<Self>,
        principal: &Principal,
        text: &str,
        options: SubmitOptions,
    ) -> Result<Detached, EngineError> {
        let options = SubmitOptions { detach: true, ..options };
        let now = self.clock.now();
        let mut wanted = self.runtime.wanted(text, &options, now)?;
        let warnings = self.runtime.warnings(text, &options, now, &wanted.stream)?;
        wanted.warnings = warnings.clone().into();
        let found = self.stored(&wanted.stream).map(|(history, stored)| (Arc::clone(history), stored));
        let why = match &found {
            _ if options.dialect == Dialect::Bullet => Some(Fleeting::Bullet),
            _ if options.times => Some(Fleeting::Times),
            _ if options.remote.is_some() => Some(Fleeting::Unstored),
            None => Some(Fleeting::Unstored),
            _ if wanted.joined.is_some() => Some(Fleeting::Joined),
            Some((history, _)) => {
                let standing = history.with_catalog(|catalog| catalog.durable_queries().standing());
                (standing >= self.config.detached_durable_max).then_some(Fleeting::TooMany)
            }
        };
        let (history, stored) = match (found, why) {
            (Some(found), None) => found,
            (_, why) => {
                drop(wanted);
                let why = why.unwrap_or(Fleeting::Unstored);
                return Ok(self.runtime.submit_fleeting(principal, text, options, why)?);
            }
        };
        // Before it is written down: any number of clients that ask at once stay within the limit.
        let place = self.reserve()?;
        let source = self.stream(&wanted.stream)?;
        let resumes = wanted.resumes(&self.config, &options);
        let declared = Ddl::CreateStream(stored.declared().create.clone()).to_string();
        let about = (text, options.form == QueryForm::Json, &*options.parameters);
        let (handle, entry) = history.with_follower(self, (&source, &stored), None, |follower, plan| {
            // No event comes between.
            let (first, _) = source.mark(now);
            let following =
                ResumePoints::new(Arc::clone(&follower.stream), resumes, first, QueryCheckpoint::default());
            let handle = Arc::new(self.durable_handle(&wanted, &stored.name, None, following));
            let times = (now, wanted.ends());
            let id = handle.meta.id.to_string();
            let entry =
                DurableQueryEntry::new((id, &principal.name), (stored.id.0, declared), about, first, times);
            plan.add(&handle, (first, now), PlannedAction::Begin(Box::new((wanted, options.clone()))), false);
            (handle, entry)
        });
        let recorded = history.record(Change::Detached(DurableQueryStep::Began(Box::new(entry)))).await;
        let Some(follower) = history.follower(&stored.name) else {
            return Err(EngineError::not_found(ObjectKind::Stream, stored.name.as_str()));
        };
        match recorded {
            Ok(_) => place.fill(&handle),
            Err(_) => drop(place),
        }
        follower.plan.lock().confirm(&handle, recorded.is_ok());
        follower.wake();
        recorded?;
        self.count_submitted();
        Ok(Detached { id: handle.meta.id, fleeting: None, warnings })
    }

    /// Ends a durable query that stands: it sees the events appended before this call. False where it has ended.
    pub(crate) fn end_durable(
        &self,
        handle: &Arc<QueryHandle>,
        reason: EndReason,
    ) -> Result<bool, EngineError> {
        let Some(history) = self.history.get() else { return Ok(false) };
        let Some(follower) = history.follower(&handle.stream) else { return Ok(false) };
        let now = self.clock.now();
        let offset = {
            let mut plan = follower.plan.lock();
            let Some(following) = handle.following.as_ref().filter(|_| plan.has(handle)) else {
                return Ok(false);
            };
            if following.ended.get().is_some() {
                return Ok(false);
            }
            let (offset, _) = follower.source.mark(now);
            plan.add(handle, (offset, now), PlannedAction::End(reason.clone()), false);
            offset
        };
        let step = DurableQueryStep::Ended {
            query: handle.meta.id.to_string().into(),
            ended: Ended { at: now, offset, reason: reason.clone() },
        };
        let (done, wait) = std::sync::mpsc::channel();
        let (writer, handle) = (Arc::clone(history), Arc::clone(handle));
        history.supervisor.spawn(TaskKind::Reader, async move {
            let written = writer.record(Change::Detached(step)).await;
            if written.is_ok() {
                let _ = handle.following.as_ref().map(|following| following.ended.set(now));
            }
            follower.plan.lock().confirm(&handle, written.is_ok());
            follower.wake();
            let _ = done.send(written);
        });
        let most = std::time::Duration::from_millis(self.config.query_end_wait_ms.max(1));
        match wait.recv_timeout(most) {
            Ok(written) => written.map(|()| true),
            // It is being written down.
            Err(_) => Ok(true),
        }
    }
}

/// The way a query of the catalog was submitted, without the types of its stream.
fn options_of(entry: &DurableQueryEntry) -> SubmitOptions {
    SubmitOptions {
        detach: true,
        form: if entry.is_json { QueryForm::Json } else { QueryForm::Bql },
        parameters: entry.parameters(),
        ..SubmitOptions::default()
    }
}

impl History {
    /// Resumes the durable queries of the catalog, before callers get the engine.
    pub(crate) fn start_followers(self: &Arc<Self>, shared: &Arc<Shared>) {
        let entries: Vec<DurableQueryEntry> =
            self.with_catalog(|catalog| catalog.durable_queries().all().cloned().collect());
        let streams: Vec<(u32, StreamName)> = self.with_catalog(|catalog| {
            catalog.streams().map(|(name, entry)| (entry.id, name.clone())).collect()
        });
        for (id, name) in streams {
            let mut of_stream: Vec<&DurableQueryEntry> =
                entries.iter().filter(|entry| entry.stream == id).collect();
            // Their numbers are to grow in the order in which they begin.
            of_stream.sort_by_key(|entry| entry.first_needed());
            let Some(needed) = of_stream.first().map(|entry| entry.first_needed()) else { continue };
            let Some(stored) = self.stored(&name) else { continue };
            let Ok(source) = shared.stream(&name) else { continue };
            self.with_follower(shared, (&source, &stored), Some(needed), |follower, plan| {
                follower.stream.is_again.store(true, std::sync::atomic::Ordering::Relaxed);
                for entry in &of_stream {
                    // Nothing comes that would have been before what was told.
                    source.mark(entry.noted.time);
                    entry.ended.iter().for_each(|ended| _ = source.mark(ended.at));
                    self.restore_query(shared, (entry, &stored), &follower.stream, plan);
                }
            });
        }
    }

    fn restore_query(
        self: &Arc<Self>,
        shared: &Arc<Shared>,
        (entry, stored): (&DurableQueryEntry, &StoredStream),
        stream: &Arc<Stream>,
        plan: &mut Plan,
    ) {
        let now = self.clock.now();
        let kept = shared.config.detached_kept_ms;
        let Ok(id) = entry.id.parse::<QueryId>() else { return };
        if entry.ended.as_ref().is_some_and(|ended| ended.at.saturating_add_unsigned(kept) <= now) {
            return self.record_forgotten(id);
        }
        let mut options = options_of(entry);
        let declared = match swiftwater_catalog::read(&entry.declared) {
            Ok(Ddl::CreateStream(create)) => create,
            _ => stored.declared().create.clone(),
        };
        options.schema = declared.is_declared().then(|| Arc::new(declared.schema()));
        let mut fault = None;
        let wanted = shared.runtime.wanted(&entry.text, &options, entry.received).or_else(|error| {
            fault = Some(error.to_string());
            let any =
                format!("SELECT * FROM STREAM(\"{}\", MAX, TIME)", stored.name.as_str().replace('"', "\"\""));
            shared
                .runtime
                .wanted(&any, &SubmitOptions::default(), entry.received)
                .map(|any| any.called(&entry.text))
        });
        let wanted = match wanted {
            Ok(wanted) => wanted.ending(entry.ends),
            Err(error) => {
                tracing::error!(query = &*entry.id, %error, "a durable query cannot continue");
                return;
            }
        };
        let resumes = wanted.resumes(&shared.config, &options);
        let following = ResumePoints::new(Arc::clone(stream), resumes, entry.first, entry.noted);
        if let Some(ended) = &entry.ended {
            let _ = following.ended.set(ended.at);
        }
        let needed = entry.first_needed();
        let fault =
            fault.or_else(|| unavailable_events(stored, needed, rows_suffice_for(&wanted, &declared)));
        let handle = Arc::new(shared.durable_handle(&wanted, &stored.name, Some(id), following));
        if let Some(why) = fault {
            shared.fail_before(&handle, stream, why);
            return;
        }
        let mut queries = shared.queries.write();
        queries.insert(id, Arc::clone(&handle));
        drop(queries);
        let at: Millis = entry.received;
        plan.add(&handle, (needed, at), PlannedAction::Begin(Box::new((wanted, options))), true);
        let Some(ended) = &entry.ended else { return };
        let at = match ended.reason {
            // These come again by themselves, with the event or the time that they came with.
            EndReason::Limit | EndReason::Duration => return,
            // The time at which the failure was found is no time of the events.
            EndReason::Failed(_) | EndReason::RateLimited(_) => entry.received,
            _ => ended.at,
        };
        plan.add(&handle, (ended.offset.max(needed), at), PlannedAction::End(ended.reason.clone()), true);
    }
}

/// The reason why a durable query cannot continue: the log no longer has all events from an offset on that it needs,
/// and the rows of the table do not suffice.
fn unavailable_events(stored: &StoredStream, needed: u64, rows_suffice: bool) -> Option<String> {
    let is_lost = stored.view_lacks_up_to(FOLLOWER).is_some_and(|first| needed < first);
    (is_lost && !rows_suffice).then(|| {
        format!(
            "the log no longer has the events from offset {needed} on that it needs, and the rows of the table lack fields \
             that it reads (`data.detached_log_bytes_max`)"
        )
    })
}
