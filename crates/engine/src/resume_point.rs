//! What is to be known of a durable query for it to go on after a restart: where in its stream, with what.
//!
//! A durable query follows the synced events of its stream in a stream of its own, which others that are durable share. What it
//! had counted is made again by going through its events with their arrivals, from a [`ResumePoint`] on, where it held nothing of the
//! events before: the start of a window by arrival, or for what gives each match as it comes, any place. What depends on all
//! events of its life begins with the first.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, OnceLock},
};

use serde::{Deserialize, Serialize};
use swiftwater_event::Millis;
use swiftwater_live::{Collector, Resumes};

use crate::{
    stream::{Stream, lock},
    subscriber_queue::{Frontier, Numbering},
};

/// A place in the life of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct ResumePoint {
    /// The number of the last emit before it.
    pub(crate) number: u64,
    /// Events before it arrived before this, those after it then or later.
    pub(crate) at: Millis,
    /// The offset of the first event after it.
    pub(crate) offset: u64,
    /// Emits and records before it.
    pub(crate) emits: u64,
    pub(crate) records: u64,
    /// Of the events before it, what is counted of them.
    pub(crate) matched: u64,
    pub(crate) mistyped: u64,
    pub(crate) expression_errors: u64,
    /// Of the errors, those in making the emits before it.
    pub(crate) result_errors: u64,
}

/// How far a durable query is, as that is written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Noted {
    /// Emits up to this number need not be made again.
    pub(crate) gone: u64,
    /// Those up to this number were read or lost.
    pub(crate) read: u64,
    /// Records lost.
    pub(crate) dropped: u64,
    /// Time had come so far.
    pub(crate) time: Millis,
    /// From where on its events are needed; none: from the first on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) from: Option<ResumePoint>,
    /// How much it had given out when the last of the emits was that need not be made again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) given: Option<ResumePoint>,
}

impl Noted {
    pub(crate) fn frontier(&self) -> Frontier {
        Frontier { gone: self.gone, read: self.read, dropped: self.dropped }
    }
}

/// A durable query that stands.
#[derive(Debug)]
pub(crate) struct ResumePoints {
    /// The stream that it stands on, which has the synced events of its stream.
    pub(crate) stream: Arc<Stream>,
    resumes: Resumes,
    pub(crate) numbering: Numbering,
    /// The first event that it sees.
    pub(crate) first: u64,
    /// What it goes on from.
    pub(crate) from: Noted,
    points: Mutex<VecDeque<ResumePoint>>,
    /// Up to where emits were not to be made again at each of the last times that this was asked, the first of them first.
    gone: Mutex<VecDeque<u64>>,
    /// When it ended, where that is written down.
    pub(crate) ended: OnceLock<Millis>,
}

/// The most points that are remembered; beyond, every second one is forgotten.
const POINTS_MAX: usize = 8192;

/// What was handed to a reader can be made again until so many times later it is written down how far the query is: who was
/// handed it may not have got it when the server is killed.
const NOTES_BEHIND: usize = 10;

impl ResumePoints {
    pub(crate) fn new(
        stream: Arc<Stream>,
        (resumes, numbering): (Resumes, Numbering),
        first: u64,
        from: Noted,
    ) -> ResumePoints {
        let points = [from.given, from.from].into_iter().flatten().collect::<Vec<_>>();
        let mut points: VecDeque<ResumePoint> = points.into();
        points.make_contiguous().sort_by_key(|point| point.number);
        let gone = Mutex::new([from.gone].into());
        let (points, ended) = (Mutex::new(points), OnceLock::new());
        ResumePoints { stream, resumes, numbering, first, from, points, gone, ended }
    }

    /// The first event that it needs.
    pub(crate) fn needs_from(&self) -> u64 {
        self.from.from.map_or(self.first, |point| point.offset.max(self.first))
    }

    /// Whether it can go on from any place.
    pub(crate) fn goes_on_anywhere(&self) -> bool {
        self.resumes == Resumes::ByRecords
    }

    /// An emit was given out, behind which this is.
    pub(crate) fn passed(&self, point: ResumePoint) {
        if self.resumes == Resumes::Never {
            return;
        }
        let mut points = lock(&self.points);
        if points.len() >= POINTS_MAX && self.resumes == Resumes::ByRecords {
            let mut keeps = false;
            points.retain(|_| {
                keeps = !keeps;
                keeps
            });
        }
        if points.back().is_some_and(|last| last.number == point.number && last.offset >= point.offset) {
            return;
        }
        // Of places behind one emit the last is as good as any.
        if self.resumes == Resumes::ByRecords && points.back().is_some_and(|last| last.number == point.number)
        {
            points.pop_back();
        }
        points.push_back(point);
    }

    /// How far it is, when its reader is at `frontier`.
    pub(crate) fn note(&self, frontier: Frontier, collector: Option<&Collector>, time: Millis) -> Noted {
        let mut points = lock(&self.points);
        let Frontier { mut gone, read, dropped } = frontier;
        {
            let mut earlier = lock(&self.gone);
            earlier.push_back(gone);
            if earlier.len() > NOTES_BEHIND {
                earlier.pop_front();
            }
            gone = earlier.front().map_or(gone, |earlier| gone.min(*earlier));
        }
        let before = points.iter().rev().find(|point| point.number <= gone).copied();
        let (from, given) = match (self.resumes, before, collector) {
            (Resumes::ByRecords, before, _) => (before, before),
            (Resumes::ByWindows, Some(given), Some(collector)) => {
                // What is made again begins with a whole window.
                gone = given.number;
                let needed = collector.needs_after(given.number);
                (points.iter().rev().find(|point| point.at <= needed).copied(), Some(given))
            }
            _ => (None, None),
        };
        if self.resumes != Resumes::Never && given.is_none() {
            gone = 0;
        }
        let keeps = from.map_or(0, |from| from.number);
        while points.get(1).is_some_and(|second| second.number <= keeps) {
            points.pop_front();
        }
        Noted { gone, read, dropped, time, from, given }
    }
}
