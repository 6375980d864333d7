//! The progress of the partitions that this node reads. The node commits it with the group: a successor begins there, and all nodes show
//! it.
//!
//! ```text
//! offset of the successor's first message, and the text: FROM TIME TOPIC NEXT REJECTED TOMBSTONES LOST OFFSET DONE [REASON]
//! ```
//!
//! FROM, TIME, OFFSET and DONE are those of its place ([`Place::done`] has the last two), TOPIC is the id of the topic, and REASON is why the partition is not read at present. A text
//! may end behind NEXT.

use std::collections::BTreeMap;

use swiftwater_cluster::Place;
use swiftwater_event::Millis;
use swiftwater_kafka::TopicId;
use swiftwater_runtime::lock_order::OrderedMutex;

/// The bytes of a reason that are committed: brokers take 4096 for all of the text.
const REASON_BYTES_MAX: usize = 1000;

/// A topic, and the number of its partition.
pub(super) type PartitionName = (Box<str>, u32);

/// Messages of a partition that are in no answer, since this node reads it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct LeftOut {
    /// Messages that are no events, or lines of them.
    pub(super) rejected: u64,
    /// Messages without a value.
    pub(super) tombstones: u64,
    /// Messages that were deleted before they were read.
    pub(super) lost: u64,
}

/// The progress of a partition.
#[derive(Debug, Clone)]
pub(super) struct Position {
    /// The place where a successor begins.
    pub(super) place: Place,
    /// The next offset to read.
    pub(super) next: u64,
    pub(super) left_out: LeftOut,
    /// Messages before this offset were counted: a reader that begins anew reads some again.
    pub(super) counted: u64,
    /// The reason why it is not read at present.
    pub(super) waits: Option<String>,
}

/// The progress of this node's partitions.
#[derive(Debug, Default)]
pub(super) struct Positions(OrderedMutex<BTreeMap<PartitionName, Position>>);

impl Positions {
    pub(super) fn all(&self) -> Vec<(PartitionName, Position)> {
        self.0.lock().iter().map(|(name, position)| (name.clone(), position.clone())).collect()
    }

    /// A partition is read from a place on, by this node anew or by a reader that begins anew.
    pub(super) fn begin(&self, topic: &str, partition: u32, place: Place) {
        let begun =
            || Position { place, next: place.offset, left_out: LeftOut::default(), counted: 0, waits: None };
        let mut all = self.0.lock();
        let position = all.entry((topic.into(), partition)).or_insert_with(begun);
        (position.place, position.next, position.waits) = (place, place.offset, None);
    }

    /// Changes the progress of a partition, if this node reads it.
    pub(super) fn update<T>(
        &self,
        topic: &str,
        partition: u32,
        change: impl FnOnce(&mut Position) -> T,
    ) -> Option<T> {
        self.0.lock().get_mut(&(topic.into(), partition)).map(change)
    }

    pub(super) fn remove(&self, topic: &str, partition: u32) {
        self.0.lock().remove(&(topic.into(), partition));
    }
}

impl Position {
    /// The text that is committed for a partition of this topic.
    pub(super) fn text(&self, topic: TopicId) -> String {
        let Position { place, next, left_out: LeftOut { rejected, tombstones, lost }, waits, .. } = self;
        let Place { from, time, done: (offset, done), .. } = place;
        let text = format!("{from} {time} {topic} {next} {rejected} {tombstones} {lost} {offset} {done}");
        match waits {
            Some(why) => format!("{text} {}", &why[..why.floor_char_boundary(REASON_BYTES_MAX)]),
            None => text,
        }
    }
}

/// The progress that a node committed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Committed {
    /// The next offset that it was going to read.
    pub(super) next: u64,
    /// None of an older release.
    pub(super) left_out: Option<LeftOut>,
    /// The reason why it did not read on.
    pub(super) waits: Option<String>,
}

impl Committed {
    /// Reads a text, if it is of this topic.
    pub(super) fn parse(text: &str, topic: TopicId) -> Option<Committed> {
        let mut words = text.splitn(10, ' ').skip(2);
        if words.next()?.parse() != Ok(topic) {
            return None;
        }
        let next = words.next()?.parse().ok()?;
        let mut count = || words.next()?.parse().ok();
        let counts = (count(), count(), count());
        let left_out = match counts {
            (Some(rejected), Some(tombstones), Some(lost)) => Some(LeftOut { rejected, tombstones, lost }),
            _ => None,
        };
        let waits = words.nth(2).map(str::to_owned);
        Some(Committed { next, left_out, waits })
    }
}

/// The place that was committed with a text, if it is of this topic.
pub(super) fn place_of(offset: u64, text: &str, topic: TopicId) -> Option<Place> {
    let mut words = text.split(' ');
    let (from, time) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    if words.next()?.parse() != Ok(topic) {
        return None;
    }
    let mut words = words.skip(4);
    // None of an older release.
    let done = words
        .next()
        .zip(words.next())
        .and_then(|(offset, time)| Some((offset.parse().ok()?, time.parse().ok()?)));
    Some(Place { offset, from, time, done: done.unwrap_or((0, Millis::MIN)) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_read_as_it_was_committed() {
        let (topic, other) = (TopicId(7), TopicId(8));
        let place = Place { offset: 3, from: 10, time: -20, done: (9, 30) };
        let left_out = LeftOut { rejected: 1, tombstones: 2, lost: 3 };
        let position = Position { place, next: 9, left_out, counted: 9, waits: None };
        let read = Committed { next: 9, left_out: Some(left_out), waits: None };
        assert_eq!(Committed::parse(&position.text(topic), topic), Some(read));
        assert_eq!(place_of(3, &position.text(topic), topic), Some(place));
        let waits = Some("no schema 5: é".to_owned());
        let waiting = Position { waits: waits.clone(), ..position.clone() };
        let read = Committed { next: 9, left_out: Some(left_out), waits };
        assert_eq!(Committed::parse(&waiting.text(topic), topic), Some(read));
        let long = Position { waits: Some("é".repeat(5000)), ..position };
        assert!(long.text(topic).len() < 2000);
        assert_eq!(Committed::parse(&long.text(topic), other), None);
        assert_eq!(place_of(3, &long.text(topic), other), None);
        // Of an older release.
        let read = Committed { next: 9, left_out: None, waits: None };
        assert_eq!(Committed::parse(&format!("1 2 {topic} 9"), topic), Some(read));
        let place = Place { time: 2, ..Place::new(3, 1) };
        assert_eq!(place_of(3, &format!("1 2 {topic} 9"), topic), Some(place));
    }
}
