//! Submits queries: compiles a query, makes its shared handle, and adds it to a stream's index.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicBool, AtomicU32, Ordering},
};

use swiftwater_event::{Millis, Path, StreamName, Type};
use swiftwater_lang::{Dialect, plan::Body};
use swiftwater_live::{Collector, CollectorLimits, Fingerprint, ResumeGranularity, SlicePlan, StandingQuery};

use crate::{
    EngineConfig, QueryId, QueryMeta, RuntimeError, SubmitOptions,
    operator::Operator,
    query::active::Running,
    query::handle::QueryHandle,
    query::linger::FOR_GOOD,
    query::resume_point::ResumePoints,
    shared::Shared,
    stream::{Stream, Turn},
    subscriber_queue::{Numbering, Reader, SubscriberQueue},
};

/// A query that may stand.
pub struct WantedQuery {
    pub(crate) query: Arc<StandingQuery>,
    /// The stream that it is over.
    pub stream: StreamName,
    text: Arc<str>,
    printed: Arc<str>,
    pub(crate) meaning: Option<Fingerprint>,
    /// The paths that it reads of the events, with their types; none if it reads whole events.
    pub paths: Option<Box<[(Path, Type)]>>,
    pub(crate) received: Millis,
    ends: Option<Millis>,
    /// The view or table that its events are joined with first.
    pub joined: Option<Box<str>>,
    /// The warnings for its client.
    pub warnings: Box<[String]>,
}

/// The limits of a query's results.
fn limits(config: &EngineConfig, options: &SubmitOptions) -> CollectorLimits {
    CollectorLimits {
        one_answer: options.one_answer,
        answer_rows_default: config.answer_rows_default,
        emits_empty_windows: true,
        times: options.times,
        closes_singly: options.dialect == Dialect::Bullet,
        pattern_partials_max: config.pattern_partials_max,
    }
}

impl WantedQuery {
    /// The way it could go on after a restart, and how its emits are numbered then.
    pub fn resumes(&self, config: &EngineConfig, options: &SubmitOptions) -> (ResumeGranularity, Numbering) {
        let (query, received) = (Arc::clone(&self.query), self.received);
        let collector = Collector::new(query, received, received, limits(config, options));
        let numbering = match collector.emits_immediately() {
            true => Numbering::Records,
            false => Numbering::Emits,
        };
        (collector.resumes(), numbering)
    }

    /// The same with the text of another query, in place of one that cannot be compiled.
    pub fn called(self, text: &str) -> WantedQuery {
        WantedQuery { text: text.into(), printed: text.into(), ..self }
    }

    /// It with the end that it was given when it was asked.
    pub fn ending(self, ends: Option<Millis>) -> WantedQuery {
        WantedQuery { ends, ..self }
    }

    /// End of its duration.
    pub fn ends(&self) -> Option<Millis> {
        self.ends
    }
}

impl Shared {
    /// A compiled query of a stream.
    pub(crate) fn wanted_of(
        &self,
        query: StandingQuery,
        stream: StreamName,
        received: Millis,
        ends: Option<Millis>,
        joined: Option<Box<str>>,
    ) -> WantedQuery {
        let meaning = query.meaning();
        let asks_all = matches!(&query.plan.body, Body::Raw(raw) if raw.star.is_some());
        let paths = query.plan.paths().into_iter().map(|(path, ty)| (path.clone(), ty.clone()));
        let paths = (!asks_all).then(|| paths.collect());
        // A shared plan has no texts of its own.
        let (text, printed) = (Arc::clone(&query.plan.text), Arc::clone(&query.plan.printed));
        let query = Arc::new(self.plan_interner.lock().share(query));
        let warnings = Box::default();
        WantedQuery { query, stream, text, printed, meaning, paths, received, ends, joined, warnings }
    }

    /// A handle for a query that begins on a stream, and its first reader; the caller holds `change` of that.
    pub(crate) fn new_handle(
        &self,
        wanted: &WantedQuery,
        stream: &Arc<Stream>,
        options: &SubmitOptions,
    ) -> (Arc<QueryHandle>, Reader) {
        let number = self.next_number.fetch_add(1, Ordering::Relaxed);
        let given = options.remote.as_ref().map(|remote| remote.id);
        let id = given.unwrap_or_else(|| QueryId::new(wanted.received, number, &self.id_secret));
        let linger_ms = match options.detach {
            true => FOR_GOOD,
            false => u32::try_from(options.linger_ms.min(self.config.linger_ms_max)).unwrap_or(FOR_GOOD - 1),
        };
        let handle = self.handle_of(wanted, &stream.name, (id, number), linger_ms);
        let remote = stream.coverage().map(|_| Arc::clone(stream));
        let handle = QueryHandle { remote, ..handle };
        let reader = handle.mailbox.attach(None, &self.totals.subscriber_bytes);
        (Arc::new(handle), reader)
    }

    /// An identity for a query that is going to begin.
    pub fn new_query_id(&self) -> QueryId {
        let number = self.next_number.fetch_add(1, Ordering::Relaxed);
        QueryId::new(self.clock.now(), number, &self.id_secret)
    }

    /// The handle of a query that is durable, with the id that it has or a new one.
    pub fn durable_handle(
        &self,
        wanted: &WantedQuery,
        stream: &StreamName,
        id: Option<QueryId>,
        following: ResumePoints,
    ) -> QueryHandle {
        // And one for its operator: others get theirs before it begins.
        let number = self.next_number.fetch_add(2, Ordering::Relaxed);
        let id = id.unwrap_or_else(|| QueryId::new(wanted.received, number, &self.id_secret));
        let handle = self.handle_of(wanted, stream, (id, number), FOR_GOOD);
        handle.mailbox.resume(following.numbering, crate::query::resume_point::frontier(&following.from));
        QueryHandle { following: Some(Box::new(following)), ..handle }
    }

    fn handle_of(
        &self,
        wanted: &WantedQuery,
        stream: &StreamName,
        (id, number): (QueryId, u64),
        linger_ms: u32,
    ) -> QueryHandle {
        let is_detached = linger_ms > 0;
        let WantedQuery { query, text, printed, received, ends, .. } = wanted;
        let meta = Arc::new(QueryMeta {
            id,
            printed: if printed == text { Arc::clone(text) } else { Arc::clone(printed) },
            text: Arc::clone(text),
            received: *received,
            sample: query.plan.sample,
            columns: query.column_names(),
        });
        let mailbox = SubscriberQueue::default();
        if is_detached {
            mailbox.retain_read();
        }
        QueryHandle {
            number,
            meta,
            // The stream's own: a name in each query's would be one more text each.
            stream: stream.clone(),
            dialect: query.dialect(),
            ends_at: ends.unwrap_or(Millis::MAX),
            is_detached: AtomicBool::new(is_detached),
            linger_ms: AtomicU32::new(linger_ms),
            is_killed: AtomicBool::new(false),
            mailbox,
            following: None,
            remote: None,
            fleeting: OnceLock::new(),
            warnings: wanted.warnings.clone(),
        }
    }

    /// Sends a new query its warnings at once: it may never have another emit.
    pub(crate) fn emit_warnings(&self, stream: &Stream, handle: &QueryHandle) {
        let mut merge = stream.merge.lock();
        let context = self.context(stream, merge.position);
        if let Some(running) = merge.running.get_mut(&handle.number) {
            let mut nothing = vec![running.nothing(context.now)];
            // A first emit passes no limit.
            let _ = running.emit_results(&mut nothing, None, &context);
        }
    }

    /// Takes a query in among those that stand, or refuses it where there are too many. Counted and inserted under one
    /// lock: any number of clients that ask at once stay within the limit.
    pub(crate) fn admit(&self, handle: &Arc<QueryHandle>) -> Result<(), RuntimeError> {
        let mut queries = self.queries.write();
        self.check_queries(queries.len())?;
        queries.insert(handle.meta.id, Arc::clone(handle));
        Ok(())
    }

    /// Reserves the place of a query that is admitted later, once it is on disk, or refuses it where there are too many.
    pub fn reserve(&self) -> Result<Place<'_>, RuntimeError> {
        let queries = self.queries.write();
        self.check_queries(queries.len())?;
        self.reserved.fetch_add(1, Ordering::Relaxed);
        Ok(Place { shared: self })
    }

    /// An error where so many queries, and those for which a place is reserved, leave no room for one more.
    fn check_queries(&self, queries: usize) -> Result<(), RuntimeError> {
        let standing = queries + self.reserved.load(Ordering::Relaxed);
        if standing >= self.config.queries_max {
            return Err(RuntimeError::too_many_queries(standing, &self.config));
        }
        Ok(())
    }

    /// Starts an admitted query with the next event of a stream. The caller holds `change`.
    pub fn begin(
        &self,
        stream: &Stream,
        handle: &Arc<QueryHandle>,
        wanted: &WantedQuery,
        options: &SubmitOptions,
    ) {
        let WantedQuery { query, meaning, received, .. } = wanted;
        let number = handle.number;
        let limits = limits(&self.config, options);
        let mut running = Running::new(Arc::clone(handle), Arc::clone(query), limits, u64::MAX);
        let shared_with = meaning.as_ref().and_then(|meaning| {
            let cuts = running.work().collector.cuts();
            stream.merge.lock().find_operator(meaning, &cuts)
        });
        let (shared_with, places) = shared_with.unzip();
        // Made before the merge is locked: a large index takes a while. An operator has a number of its own.
        let entry = shared_with.unwrap_or_else(|| match meaning {
            Some(_) if handle.following.is_some() => number + 1,
            Some(_) => self.next_number.fetch_add(1, Ordering::Relaxed),
            None => number,
        });
        let slices = match query.plan.body {
            Body::Raw(_) => Arc::clone(&self.uncut),
            Body::Group(_) => Arc::new(SlicePlan::of(query, *received)),
        };
        let index = shared_with.is_none().then(|| stream.index().with_slices(entry, query, &slices));
        {
            let mut merge = stream.merge.lock();
            running.resume();
            running.due = running.next_due();
            if let Some(due) = running.due {
                merge.agenda.insert((due, number));
            }
            // Before it begins: no shard is to take for it what arrives when it is due.
            stream.set_next_due(&merge);
            let turn = Turn::Begins(number, *received);
            match (meaning, index) {
                (None, Some(index)) => (running.first_offset, _) = stream.turn(turn, Some(index), None),
                (None, None) => {}
                (Some(meaning), index) => {
                    if index.is_some() {
                        let operator = Operator::new(slices, meaning.clone(), query.is_of_single_events());
                        merge.open(entry, operator);
                    }
                    merge.join(stream, (entry, places), &mut running, turn, index);
                }
            }
            if let Some(following) = &handle.following {
                // It has seen those that are not gone through again.
                running.first_offset = following.first;
            }
            merge.running.insert(number, Box::new(running));
        }
        stream.forget_replaced();
    }
}

/// A place among the queries that stand. It is free again when it is dropped.
#[must_use]
pub struct Place<'a> {
    shared: &'a Shared,
}

impl Place<'_> {
    /// Admits the query that it was reserved for.
    pub fn fill(self, handle: &Arc<QueryHandle>) {
        let mut queries = self.shared.queries.write();
        queries.insert(handle.meta.id, Arc::clone(handle));
        // Before the lock is released: nobody counts the query twice, or not at all.
        drop(self);
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.shared.reserved.fetch_sub(1, Ordering::Relaxed);
    }
}
