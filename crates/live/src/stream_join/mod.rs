//! Joins two streams: pairs their events that have equal keys and happened within some time of one another.
//!
//! Events are processed one after another, in the order of the log, which both streams share. Each stream has a
//! watermark: the latest time of its events so far, less its lateness. An event that is behind its stream's watermark
//! when it is processed is late and joins nothing. Any other event is paired with the stored events of the other stream,
//! and stored for later ones. The stored event may be evicted when the other stream's watermark shows that no partner can
//! follow ([`step`]). Two events are therefore a pair exactly if neither was late, independent of eviction. A pair is
//! emitted once: when its later event is processed. [`JoinBuffer`] stores the events, in memory or elsewhere: this room does no
//! I/O.
//!
//! A [`JoinQuery`] defines the key and time of each event, and the output of a pair.

mod query;
mod step;

pub use query::{JoinEvent, JoinQuery};
pub use step::{JoinBuffer, JoinPair, JoinPlace, JoinProgress, JoinTimeBounds, Match, SIDES, step};
