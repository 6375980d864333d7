//! Resume points: the position in its stream, and the state, from which a durable query resumes after a restart.
//!
//! A durable query follows the synced events of its stream in a separate stream, which all durable queries over that stream
//! share. A replay of the events with their arrivals rebuilds its counts. The replay starts at a [`ResumePoint`] at which
//! the query has no state of earlier events. This is the start of a window by arrival or, for a query that emits each match
//! as it comes, any position. A query whose result depends on its whole input is replayed from its first event.

use std::{
    collections::VecDeque,
    sync::{Arc, OnceLock},
};

use swiftwater_catalog::kind::durable_query::{QueryCheckpoint, ResumePoint};
use swiftwater_event::Millis;
use swiftwater_live::{Collector, ResumeGranularity};

use crate::lock_order::{OrderedMutex, level};
use crate::{
    stream::Stream,
    subscriber_queue::{Frontier, Numbering},
};

/// The progress of the reader of a query, as a checkpoint has it.
pub(crate) fn frontier(checkpoint: &QueryCheckpoint) -> Frontier {
    Frontier { gone: checkpoint.gone, read: checkpoint.read, dropped: checkpoint.dropped }
}

/// A durable query that stands.
#[derive(Debug)]
pub struct ResumePoints {
    /// The stream that it stands on, which has the synced events of its stream.
    pub(crate) stream: Arc<Stream>,
    resumes: ResumeGranularity,
    pub(crate) numbering: Numbering,
    /// The first event that it sees.
    pub first: u64,
    /// The point from which it resumes.
    pub from: QueryCheckpoint,
    points: OrderedMutex<VecDeque<ResumePoint>, level::ResumePoints>,
    /// The numbers up to which emits were not to be repeated, at each of the last calls, the oldest one first.
    gone: OrderedMutex<VecDeque<u64>>,
    /// Its recorded end, if it has ended.
    pub ended: OnceLock<Millis>,
}

/// The most points that are remembered; beyond, every second one is forgotten.
const POINTS_MAX: usize = 8192;

/// Number of progress records for which an emit that a reader was handed can be made again: the reader may not have got it
/// when the server is killed.
const NOTES_BEHIND: usize = 10;

impl ResumePoints {
    /// The points of a query that resumes at the granularity `resumes`, sees the events from `first` on, and resumes from `from`.
    pub fn new(
        stream: Arc<Stream>,
        (resumes, numbering): (ResumeGranularity, Numbering),
        first: u64,
        from: QueryCheckpoint,
    ) -> ResumePoints {
        let points = [from.given, from.from].into_iter().flatten().collect::<Vec<_>>();
        let mut points: VecDeque<ResumePoint> = points.into();
        points.make_contiguous().sort_by_key(|point| point.number);
        let gone = OrderedMutex::new([from.gone].into());
        let (points, ended) = (OrderedMutex::new(points), OnceLock::new());
        ResumePoints { stream, resumes, numbering, first, from, points, gone, ended }
    }

    /// The first event that it needs.
    pub fn first_needed(&self) -> u64 {
        self.from.from.map_or(self.first, |point| point.offset.max(self.first))
    }

    /// True if it can go on from any place.
    pub(crate) fn resumes_anywhere(&self) -> bool {
        self.resumes == ResumeGranularity::ByRecords
    }

    /// An emit was given out, behind which this is.
    pub(crate) fn passed(&self, point: ResumePoint) {
        if self.resumes == ResumeGranularity::Never {
            return;
        }
        let mut points = self.points.lock();
        if points.len() >= POINTS_MAX && self.resumes == ResumeGranularity::ByRecords {
            let mut keeps = false;
            points.retain(|_| {
                keeps = !keeps;
                keeps
            });
        }
        if points.back().is_some_and(|last| last.number == point.number && last.offset >= point.offset) {
            return;
        }
        // The last of several places after one emit is sufficient.
        if self.resumes == ResumeGranularity::ByRecords
            && points.back().is_some_and(|last| last.number == point.number)
        {
            points.pop_back();
        }
        points.push_back(point);
    }

    /// Its progress, when its reader is at `frontier`.
    pub(crate) fn checkpoint(
        &self,
        frontier: Frontier,
        collector: Option<&Collector>,
        time: Millis,
    ) -> QueryCheckpoint {
        let mut points = self.points.lock();
        let Frontier { mut gone, read, dropped } = frontier;
        {
            let mut earlier = self.gone.lock();
            earlier.push_back(gone);
            if earlier.len() > NOTES_BEHIND {
                earlier.pop_front();
            }
            gone = earlier.front().map_or(gone, |earlier| gone.min(*earlier));
        }
        let before = points.iter().rev().find(|point| point.number <= gone).copied();
        let (from, given) = match (self.resumes, before, collector) {
            (ResumeGranularity::ByRecords, before, _) => (before, before),
            (ResumeGranularity::ByWindows, Some(given), Some(collector)) => {
                // The repeated emits begin with a whole window.
                gone = given.number;
                let needed = collector.needs_after(given.number);
                (points.iter().rev().find(|point| point.at <= needed).copied(), Some(given))
            }
            _ => (None, None),
        };
        if self.resumes != ResumeGranularity::Never && given.is_none() {
            gone = 0;
        }
        let keeps = from.map_or(0, |from| from.number);
        while points.get(1).is_some_and(|second| second.number <= keeps) {
            points.pop_front();
        }
        QueryCheckpoint { gone, read, dropped, time, from, given }
    }
}
