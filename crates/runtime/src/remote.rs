//! Streams whose events are matched elsewhere, by the workers of a cluster. Their results come as steps and slices, and their
//! time is the one up to which the workers are done: no clock of this process closes a window.
//!
//! Queries that need events are on a stream of their own ([`Stream::of_events`]), which is fed with what the workers send, and whose time is
//! that of the events, too.
//!
//! Such a stream belongs to the room above, which passes on results ([`Shared::accept_remote`]) and then the time
//! ([`Shared::advance_remote`]). Queries stand on it as on others; a query's window at its end that is not over is not answered, as the
//! workers hold parts of it.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use swiftwater_event::{Millis, StreamName};
use swiftwater_live::{Partial, QueryNumber, QueryStep};

use crate::{
    EndReason,
    coverage::{Coverage, RemoteState},
    lock_order::OrderedMutex,
    panic_guard::guarded,
    query::fan_out::set_due_sooner,
    shared::Shared,
    stream::Stream,
};

/// The results of a query that a worker sent.
#[derive(Debug)]
pub struct RemoteResult {
    /// Records and counts, with the query's number in this process.
    pub step: QueryStep,
    /// Groups.
    pub slices: Vec<Partial>,
}

impl Stream {
    /// A stream whose events are matched elsewhere.
    pub fn remote(name: StreamName, coverage: Arc<dyn Coverage>) -> Stream {
        Stream::of_events(name, coverage, 0)
    }

    /// A stream that others send events of, for so many shards: its time is told ([`Shared::advance_remote`]).
    pub fn of_events(name: StreamName, coverage: Arc<dyn Coverage>, shards: usize) -> Stream {
        let remote =
            RemoteState { time: AtomicI64::new(Millis::MIN), coverage, ended: OrderedMutex::default() };
        let mut stream = Stream::new(name, shards);
        stream.remote = Some(remote);
        stream
    }

    /// True if others hold parts of windows that are not over.
    pub(crate) fn is_in_parts(&self) -> bool {
        self.remote.is_some() && self.shards.is_empty()
    }

    /// The time of a stream whose events are matched elsewhere.
    pub(crate) fn remote_time(&self) -> Option<Millis> {
        self.remote.as_ref().map(|remote| remote.time.load(Ordering::Acquire))
    }

    /// The knowledge of the partitions that results have; none where its events are matched here.
    pub(crate) fn coverage(&self) -> Option<&dyn Coverage> {
        self.remote.as_ref().map(|remote| &*remote.coverage)
    }
}

impl Shared {
    /// Takes results of the queries of a remote stream. Those of queries that have ended are dropped.
    pub fn accept_remote(&self, stream: &Stream, results: Vec<RemoteResult>) {
        let mut merge = stream.merge.lock();
        let merge = &mut *merge;
        let context = self.context(stream, merge.position);
        let mut out = Vec::new();
        for RemoteResult { mut step, slices } in results {
            let Some(running) = merge.running.get_mut(&step.number).filter(|running| !running.is_ending)
            else {
                continue;
            };
            step.grown_bytes = slices.iter().map(|slice| slice.groups.bytes() as i64).sum();
            let ending = guarded("results of a worker could not be processed", || {
                let ending = self.accept_step(running, step, 0, &mut out, &context);
                running.accept_slices(slices);
                ending
            })
            .unwrap_or_else(Some);
            if let Some(reason) = ending {
                running.is_ending = true;
                self.ask_to_end(running.handle.meta.id, reason);
            } else {
                set_due_sooner(&mut merge.agenda, running);
            }
        }
        stream.set_next_due(merge);
    }

    /// Closes the windows of a remote stream that are over at this time, and ends the queries whose duration is.
    pub fn advance_remote(&self, stream: &Stream, time: Millis) {
        let Some(remote) = &stream.remote else { return };
        if remote.time.fetch_max(time, Ordering::AcqRel) < time {
            self.tick_stream(stream, time);
        }
    }

    /// Ends the queries of a remote stream, or only the one with this number.
    pub fn fail_remote(&self, stream: &Stream, only: Option<QueryNumber>, why: &str) {
        let standing: Vec<_> = {
            let merge = stream.merge.lock();
            let wanted = merge.running.iter().filter(|(number, _)| only.is_none_or(|only| only == **number));
            wanted.map(|(_, running)| running.handle.meta.id).collect()
        };
        for id in standing {
            self.end(&id, EndReason::Failed(why.to_owned()));
        }
    }

    /// Takes out the numbers of the queries of a remote stream that have ended since the last call; true for those that ended as the engine
    /// does.
    pub fn take_ended_remote(&self, stream: &Stream) -> Vec<(QueryNumber, bool)> {
        stream.remote.as_ref().map_or_else(Vec::new, |remote| std::mem::take(&mut *remote.ended.lock()))
    }
}
