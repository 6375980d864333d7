//! The order in which messages of several partitions become events of a stream with a `WATERMARK`.
//!
//! A message's *peak* is the latest event time of its partition up to and with it. Messages are taken by peak, then by
//! partition, then by offset. So the latest event time of the whole stream before a message is
//!
//! - that of its own partition, if the message is behind it: the message is late by the watermark of its own partition;
//! - at most the message's own time otherwise: no window that has the message is closed.
//!
//! The one watermark of the stream thus decides about each message as that of its partition would, and passes an instant when
//! those of all partitions have. The order depends on no speed of reading. It is that of the stream, so a restart, a view and a
//! backfill have it too, and nothing else of it is kept: what a restart has still to read has at least the peak of all that was
//! taken, by which the same follows.
//!
//! A partition without a message at hand holds up messages with a greater peak than its own, until it is *idle*: for so long no
//! message of it has come. Messages of a partition that was idle may be late by the others.
//!
//! A time further ahead of the clock than `max_ahead` has no effect, as in queries; a message whose time is about to be no longer so
//! far ahead waits for that, so that its arrival cannot decide otherwise. Knows no Kafka and reads no clock.
//! After the choice of the next record in Kafka Streams (KIP-353) and the alignment of watermarks in Flink (FLIP-182).

use std::collections::{BTreeMap, VecDeque};

use swiftwater_event::Millis;
use swiftwater_live::NO_TIME;

/// A message is given its arrival within this time after it was chosen, in milliseconds.
const ARRIVES_WITHIN_MS: i64 = 10_000;

/// The messages that wait, by partition.
#[derive(Debug)]
pub(super) struct PartitionOrder {
    partitions: BTreeMap<u32, Queue>,
    idle_after_ms: u64,
    max_ahead_ms: Option<u64>,
}

#[derive(Debug)]
struct Queue {
    /// The event time of each message; [`NO_TIME`] where it has none.
    times: VecDeque<Millis>,
    /// The peak of the last message that was taken; [`NO_TIME`] before the first.
    peak: Millis,
    /// The time at which its last message came, or reading began.
    heard: Millis,
}

/// The next thing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// So many messages of this partition are next.
    Take(u32, usize),
    /// Nothing before this time, unless messages come.
    WaitUntil(Millis),
    /// Nothing waits.
    Nothing,
}

/// The least peak that the next message of a partition can have, and when that message may be taken.
#[derive(Debug, Clone, Copy)]
enum Next {
    Now(Millis),
    From(Millis, Millis),
}

impl Next {
    fn peak(self) -> Millis {
        match self {
            Next::Now(peak) | Next::From(peak, _) => peak,
        }
    }
}

impl PartitionOrder {
    /// An order of no partitions so far.
    pub(super) fn new(idle_after_ms: u64, max_ahead_ms: Option<u64>) -> PartitionOrder {
        PartitionOrder { partitions: BTreeMap::new(), idle_after_ms, max_ahead_ms }
    }

    /// A partition is read from now on; without effect if it is read already.
    pub(super) fn begin(&mut self, partition: u32, now: Millis) {
        let queue = || Queue { times: VecDeque::new(), peak: NO_TIME, heard: now };
        self.partitions.entry(partition).or_insert_with(queue);
    }

    /// Messages of a partition have come, with these event times.
    pub(super) fn push(&mut self, partition: u32, times: impl IntoIterator<Item = Millis>, now: Millis) {
        self.begin(partition, now);
        if let Some(queue) = self.partitions.get_mut(&partition) {
            queue.heard = queue.heard.max(now);
            queue.times.extend(times);
        }
    }

    /// The next messages: those of one partition that come before all that others have or may still get.
    pub(super) fn next(&self, now: Millis) -> Turn {
        if self.partitions.values().all(|queue| queue.times.is_empty()) {
            return Turn::Nothing;
        }
        let mut nexts: Vec<(Millis, u32, Next)> = self
            .partitions
            .iter()
            .filter_map(|(partition, queue)| {
                let next = self.next_of(queue, now)?;
                Some((next.peak(), *partition, next))
            })
            .collect();
        nexts.sort_unstable_by_key(|(peak, partition, _)| (*peak, *partition));
        let Some((_, partition, next)) = nexts.first().copied() else { return Turn::Nothing };
        match next {
            Next::From(_, at) => Turn::WaitUntil(at),
            Next::Now(_) => {
                let before = nexts.get(1).map(|(peak, partition, _)| (*peak, *partition));
                Turn::Take(partition, self.run(partition, before, now))
            }
        }
    }

    /// The first messages of a partition were taken, when [`PartitionOrder::next`] was asked at `now`.
    pub(super) fn taken(&mut self, partition: u32, count: usize, now: Millis) {
        let Some(queue) = self.partitions.get(&partition) else { return };
        let peak =
            queue.times.iter().take(count).fold(queue.peak, |peak, time| self.peak_with(peak, *time, now));
        if let Some(queue) = self.partitions.get_mut(&partition) {
            queue.times.drain(..count.min(queue.times.len()));
            queue.peak = peak;
        }
    }

    /// The number of messages of a partition before the first of all others.
    fn run(&self, partition: u32, before: Option<(Millis, u32)>, now: Millis) -> usize {
        let Some(queue) = self.partitions.get(&partition) else { return 0 };
        let mut peak = queue.peak;
        let is_of_run = |time: &&Millis| {
            peak = self.peak_with(peak, **time, now);
            !self.is_undecided(**time, now) && before.is_none_or(|before| (peak, partition) < before)
        };
        queue.times.iter().take_while(is_of_run).count()
    }

    /// The next message of a partition; none if it is idle.
    fn next_of(&self, queue: &Queue, now: Millis) -> Option<Next> {
        match queue.times.front() {
            Some(time) if self.is_undecided(*time, now) => {
                let decided = time.saturating_sub_unsigned(self.max_ahead_ms.unwrap_or(0));
                Some(Next::From(queue.peak.max(*time), decided))
            }
            Some(time) => Some(Next::Now(self.peak_with(queue.peak, *time, now))),
            None => {
                let idle_from = queue.heard.saturating_add_unsigned(self.idle_after_ms);
                (now < idle_from).then_some(Next::From(queue.peak, idle_from))
            }
        }
    }

    /// The peak with one more message.
    fn peak_with(&self, peak: Millis, time: Millis, now: Millis) -> Millis {
        let limit = self.max_ahead_ms.map(|most| now.saturating_add_unsigned(most));
        match limit {
            Some(limit) if time > limit.saturating_add(ARRIVES_WITHIN_MS) => peak,
            _ => peak.max(time),
        }
    }

    /// True if a time is too far ahead, and may be no longer so when its message arrives.
    fn is_undecided(&self, time: Millis, now: Millis) -> bool {
        let limit = self.max_ahead_ms.map(|most| now.saturating_add_unsigned(most));
        limit.is_some_and(|limit| time > limit && time <= limit.saturating_add(ARRIVES_WITHIN_MS))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use swiftwater_testkit::Rng;

    use super::*;

    /// A message of a test: partition, place in it, event time.
    type Message = (u32, usize, Millis);

    /// Takes all messages in the order; they come in portions by chance.
    fn ordered(partitions: &[Vec<Millis>], from: &[usize], most: usize, rng: &mut Rng) -> Vec<Message> {
        let mut order = PartitionOrder::new(1_000, None);
        let mut came: Vec<usize> = from.to_vec();
        let mut taken: Vec<usize> = from.to_vec();
        let mut out = Vec::new();
        // Idle ones hold up nothing: all have ended then.
        let mut now = 0;
        (0..partitions.len()).for_each(|partition| order.begin(partition as u32, now));
        while out.len() < most {
            match order.next(now) {
                Turn::Take(partition, count) => {
                    let count = 1 + rng.below(count);
                    order.taken(partition, count, now);
                    let place = &mut taken[partition as usize];
                    let times = &partitions[partition as usize];
                    out.extend((*place..*place + count).map(|place| (partition, place, times[place])));
                    *place += count;
                }
                _ => {
                    let left: Vec<usize> =
                        (0..partitions.len()).filter(|one| came[*one] < partitions[*one].len()).collect();
                    if left.is_empty() {
                        if order.next(now) == Turn::Nothing {
                            break;
                        }
                        now += 1_000;
                        continue;
                    }
                    let one = left[rng.below(left.len())];
                    let count = 1 + rng.below(partitions[one].len() - came[one]);
                    order.push(
                        one as u32,
                        partitions[one][came[one]..came[one] + count].iter().copied(),
                        now,
                    );
                    came[one] += count;
                }
            }
        }
        out.truncate(most);
        out
    }

    fn messages() -> impl Strategy<Value = Vec<Vec<Millis>>> {
        let time = prop_oneof![9 => 0i64..40, 1 => Just(NO_TIME)];
        prop::collection::vec(prop::collection::vec(time, 1..12), 1..5)
    }

    proptest! {
        /// All partitions end with a time behind all others, as none is idle before then.
        #[test]
        fn watermark_of_the_stream_decides_as_that_of_the_partition_would(
            mut partitions in messages(), seeds in prop::collection::vec(any::<u64>(), 4),
        ) {
            partitions.iter_mut().for_each(|times| times.push(1_000));
            let count: usize = partitions.iter().map(Vec::len).sum();
            let begin = vec![0; partitions.len()];
            let first = ordered(&partitions, &begin, usize::MAX, &mut Rng::new(seeds[0]));
            prop_assert_eq!(first.len(), count);
            for seed in seeds {
                let mut rng = Rng::new(seed);
                prop_assert_eq!(&ordered(&partitions, &begin, usize::MAX, &mut rng), &first);
                // A restart knows only which messages were taken.
                let mut all = ordered(&partitions, &begin, rng.below(count), &mut rng);
                let mut from = begin.clone();
                all.iter().for_each(|(partition, ..)| from[*partition as usize] += 1);
                all.extend(ordered(&partitions, &from, usize::MAX, &mut rng));
                let mut stream = NO_TIME;
                let mut own = vec![NO_TIME; partitions.len()];
                for (partition, place, time) in all {
                    let own = &mut own[partition as usize];
                    if time != NO_TIME {
                        if time <= *own {
                            prop_assert_eq!(stream, *own, "{} of {}", place, partition);
                        } else {
                            prop_assert!(stream <= time, "{} of {}: {} > {}", place, partition, stream, time);
                        }
                    }
                    *own = time.max(*own);
                    stream = time.max(stream);
                }
            }
        }
    }

    #[test]
    fn partition_without_messages_holds_up_others_until_it_is_idle() {
        let mut order = PartitionOrder::new(1_000, None);
        order.begin(0, 0);
        order.begin(1, 0);
        order.push(0, [10, 5, 20], 400);
        assert_eq!(order.next(999), Turn::WaitUntil(1_000));
        assert_eq!(order.next(1_000), Turn::Take(0, 3));
        order.push(1, [12], 1_100);
        // Those before it, then itself.
        assert_eq!(order.next(1_100), Turn::Take(0, 2));
        order.taken(0, 2, 1_100);
        assert_eq!(order.next(1_100), Turn::Take(1, 1));
        order.taken(1, 1, 1_100);
        // Its next message is at 12 or behind.
        assert_eq!(order.next(1_100), Turn::WaitUntil(2_100));
        order.push(0, [1], 1_200);
        assert_eq!(order.next(2_100), Turn::Take(0, 2));
        order.taken(0, 2, 2_100);
        assert_eq!(order.next(2_100), Turn::Nothing);
    }

    #[test]
    fn late_messages_are_held_up_by_nobody_who_is_further() {
        let mut order = PartitionOrder::new(1_000, None);
        order.push(0, [10], 0);
        order.push(1, [20, 11, 12, 30], 0);
        assert_eq!(order.next(0), Turn::Take(0, 1));
        order.taken(0, 1, 0);
        assert_eq!(order.next(0), Turn::WaitUntil(1_000));
        order.push(0, [25], 0);
        assert_eq!(order.next(0), Turn::Take(1, 3));
    }

    #[test]
    fn time_too_far_ahead_has_no_effect_and_one_that_is_nearly_waits() {
        let mut order = PartitionOrder::new(1_000, Some(100));
        order.push(0, [1_000_000, 50, 10_100], 0);
        order.push(1, [60], 0);
        assert_eq!(order.next(0), Turn::Take(0, 2));
        order.taken(0, 2, 0);
        assert_eq!(order.next(0), Turn::Take(1, 1));
        order.taken(1, 1, 0);
        order.push(1, [20_000, 70], 0);
        // 10 s later it is no longer too far ahead, whatever arrives meanwhile.
        assert_eq!(order.next(0), Turn::Take(1, 2));
        order.taken(1, 2, 0);
        order.push(1, [80], 0);
        assert_eq!(order.next(0), Turn::Take(1, 1));
        order.taken(1, 1, 0);
        assert_eq!(order.next(9_999), Turn::WaitUntil(10_000));
        assert_eq!(order.next(10_000), Turn::Take(0, 1));
    }
}
