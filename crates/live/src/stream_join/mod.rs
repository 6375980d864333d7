//! Joins: pairs of events of two streams that have equal keys and happened within some time of one another.
//!
//! Events are taken one after another, in the order of the log, which both streams share. Each stream has a watermark: the latest
//! time of its events so far, less its lateness. An event that is behind its stream's watermark when it is taken is late and
//! joins nothing. Any other is paired with those events of the other stream that were taken before it, and is kept for those
//! that come after, until the other stream's watermark says that none is to come any more ([`step`]). So two events
//! are a pair exactly if neither was late, whatever is let go of when, and it is told once: when the later one is taken.
//! What is kept lies behind [`Kept`], in memory or elsewhere: this room does no I/O.
//!
//! What each event's key and time are, and what a pair is made into, is a [`JoinQuery`].

mod query;
mod step;

pub use query::{JoinEvent, JoinQuery};
pub use step::{Apart, JoinPair, JoinPlace, JoinProgress, Kept, Match, SIDES, step};
