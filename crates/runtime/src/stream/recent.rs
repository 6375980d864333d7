//! A sample of the newest events of each stream, in memory, for people who look at a stream.
//!
//! An append asks once a batch whether its stream has a free slot ([`StreamSample::is_due`]: two loads), and copies events
//! only then. A stream has a slot each 20 ms, and may use up to [`SLOTS_SAVED_MAX`] slots that it left free at once: every
//! event of a slow stream is there, and of a fast one about 50 a second, evenly. With more than a hundred streams the slots
//! are longer, so that all streams together copy at most some 5,000 events a second.
//!
//! Memory: at most [`STREAM_BYTES_MAX`] a stream, and the budget for all. When the budget is used up, the largest samples
//! lose their oldest events, down to a level that all can have: a stream with few events keeps them, however busy the others
//! are. Knows no clock, names or queries.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering},
    },
};

use swiftwater_event::{EventBatch, Millis};

use crate::{RecentEvent, lock_order::OrderedMutex};

/// Bytes of one stream's sample.
const STREAM_BYTES_MAX: usize = 256 << 10;
/// Bytes that an event takes besides its text: its entry with the queue's spare room, and what the allocator adds.
const EVENT_OVERHEAD_BYTES: usize = 96;
/// The shortest slot.
const SLOT_MICROS: i64 = 20_000;
/// The least time between two copied events of all streams, on average.
const EVENT_MICROS: i64 = 200;
/// Free slots that are saved.
const SLOTS_SAVED_MAX: i64 = 50;

/// The budget of all samples, and the samples that use it.
#[derive(Debug)]
pub(crate) struct RecentBudget {
    bytes_max: usize,
    used: AtomicUsize,
    slot_micros: AtomicI64,
    /// Those that have had an event.
    samples: OrderedMutex<Vec<Weak<StreamSample>>>,
    is_trimming: AtomicBool,
}

/// The sample of one stream.
#[derive(Debug)]
pub(crate) struct StreamSample {
    budget: Arc<RecentBudget>,
    /// The slots from this time on are free, in microseconds.
    free_from: AtomicI64,
    /// Bytes of the events. It changes under the lock of these.
    bytes: AtomicUsize,
    events: OrderedMutex<Events>,
}

/// Events by ascending offsets.
#[derive(Debug, Default)]
struct Events {
    queue: VecDeque<RecentEvent>,
    /// Events before this offset are forgotten.
    begin: u64,
    is_registered: bool,
}

impl RecentBudget {
    pub(crate) fn new(bytes_max: usize) -> Arc<RecentBudget> {
        Arc::new(RecentBudget {
            bytes_max,
            used: AtomicUsize::new(0),
            slot_micros: AtomicI64::new(SLOT_MICROS),
            samples: OrderedMutex::default(),
            is_trimming: AtomicBool::new(false),
        })
    }

    /// A sample without events.
    pub(crate) fn sample(self: &Arc<Self>) -> Arc<StreamSample> {
        Arc::new(StreamSample {
            budget: Arc::clone(self),
            free_from: AtomicI64::new(i64::MIN),
            bytes: AtomicUsize::new(0),
            events: OrderedMutex::default(),
        })
    }

    /// Bytes in use, and the most that there may be.
    pub(crate) fn used_and_max(&self) -> (u64, u64) {
        (self.used.load(Ordering::Relaxed) as u64, self.bytes_max as u64)
    }

    fn reserve(&self, bytes: usize) -> bool {
        let grown = |used: usize| used.checked_add(bytes).filter(|used| *used <= self.bytes_max);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown).is_ok()
    }

    fn release(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    fn register(&self, sample: &Arc<StreamSample>) {
        let mut samples = self.samples.lock();
        if samples.len() == samples.capacity() {
            samples.retain(|sample| sample.strong_count() > 0);
        }
        samples.push(Arc::downgrade(sample));
        let slot = SLOT_MICROS.max(EVENT_MICROS.saturating_mul(samples.len() as i64));
        self.slot_micros.store(slot, Ordering::Relaxed);
    }

    /// Makes an eighth of the budget free. One thread does; a second one returns at once.
    fn trim(&self) {
        if self.is_trimming.swap(true, Ordering::Acquire) {
            return;
        }
        let samples: Vec<Arc<StreamSample>> = self.samples.lock().iter().filter_map(Weak::upgrade).collect();
        let sizes = samples.iter().map(|sample| sample.bytes.load(Ordering::Relaxed)).collect();
        let level = level(sizes, self.bytes_max - self.bytes_max / 8);
        for sample in samples {
            sample.shrink(level);
        }
        self.is_trimming.store(false, Ordering::Release);
    }
}

/// The largest level such that all sizes, those above it cut down to it, fit into `room`.
fn level(mut sizes: Vec<usize>, room: usize) -> usize {
    sizes.sort_unstable();
    let mut left = room;
    for (at, size) in sizes.iter().enumerate() {
        let share = left / (sizes.len() - at);
        if *size > share {
            return share;
        }
        left -= size;
    }
    usize::MAX
}

impl StreamSample {
    /// True if events of a batch that comes now are copied. Time that goes back by more than what can be saved begins anew.
    pub(crate) fn is_due(&self, now_micros: i64) -> bool {
        let slot = self.budget.slot_micros.load(Ordering::Relaxed);
        let free = now_micros.saturating_sub(self.free_from.load(Ordering::Relaxed));
        !(-slot * SLOTS_SAVED_MAX..slot).contains(&free)
    }

    /// Copies as many events of a batch as there are free slots, evenly. `first` is the offset of its first event.
    pub(crate) fn keep(
        self: &Arc<Self>,
        batch: &EventBatch,
        (first, arrival): (u64, Millis),
        now_micros: i64,
    ) {
        if !self.try_keep(batch, (first, arrival), now_micros) {
            self.budget.trim();
            // Where others have taken the room again, these events are left out.
            self.try_keep(batch, (first, arrival), now_micros);
        }
    }

    /// Returns false if there is no room.
    fn try_keep(
        self: &Arc<Self>,
        batch: &EventBatch,
        (first, arrival): (u64, Millis),
        now_micros: i64,
    ) -> bool {
        let mut events = self.events.lock();
        // Another append may have been faster.
        if !self.is_due(now_micros) || batch.is_empty() {
            return true;
        }
        let slot = self.budget.slot_micros.load(Ordering::Relaxed);
        let free_from = self.free_from.load(Ordering::Relaxed);
        let oldest = now_micros.saturating_sub(slot * SLOTS_SAVED_MAX);
        let free_from = if free_from > now_micros { oldest } else { free_from.max(oldest) };
        let count = (((now_micros - free_from) / slot) as usize).min(batch.len());
        let rows = (0..count).map(|place| place * batch.len() / count);
        let offset = |row: usize| first + row as u64;
        let begin = events.begin;
        let most = STREAM_BYTES_MAX.min(self.budget.bytes_max);
        let mut bytes = 0;
        let rows: Vec<usize> = rows
            .filter(|row| {
                let size = size(batch.span(*row).len());
                let fits = offset(*row) >= begin && bytes + size <= most;
                bytes += if fits { size } else { 0 };
                fits
            })
            .collect();
        self.shrink_events(&mut events, most - bytes);
        if !self.budget.reserve(bytes) {
            return false;
        }
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.free_from.store(free_from + count as i64 * slot, Ordering::Relaxed);
        for row in rows {
            events.add(RecentEvent { arrival, offset: offset(row), event: batch.event(row).into() });
        }
        let is_new = !std::mem::replace(&mut events.is_registered, true);
        drop(events);
        if is_new {
            self.budget.register(self);
        }
        true
    }

    /// The events, oldest first.
    pub(crate) fn events(&self) -> Vec<RecentEvent> {
        self.events.lock().queue.iter().cloned().collect()
    }

    /// Forgets all events before an offset, also those that are still to be copied.
    pub(crate) fn forget(&self, before: u64) {
        let mut events = self.events.lock();
        events.begin = before;
        self.shrink_events(&mut events, 0);
    }

    /// Forgets the oldest events, so that at most `bytes_max` bytes are left.
    fn shrink(&self, bytes_max: usize) {
        if self.bytes.load(Ordering::Relaxed) > bytes_max {
            self.shrink_events(&mut self.events.lock(), bytes_max);
        }
    }

    fn shrink_events(&self, events: &mut Events, bytes_max: usize) {
        let bytes = self.bytes.load(Ordering::Relaxed);
        let mut left = bytes;
        while left > bytes_max
            && let Some(oldest) = events.queue.pop_front()
        {
            left -= size(oldest.event.len());
        }
        if events.queue.is_empty() {
            events.queue = VecDeque::new();
        }
        self.bytes.store(left, Ordering::Relaxed);
        self.budget.release(bytes - left);
    }
}

impl Events {
    fn add(&mut self, event: RecentEvent) {
        match self.queue.back() {
            // Two appends are copied in another order than they came.
            Some(newest) if newest.offset > event.offset => {
                let at = self.queue.partition_point(|other| other.offset < event.offset);
                self.queue.insert(at, event);
            }
            _ => self.queue.push_back(event),
        }
    }
}

impl Drop for StreamSample {
    fn drop(&mut self) {
        self.budget.release(*self.bytes.get_mut());
    }
}

/// Bytes that an event takes.
fn size(text_bytes: usize) -> usize {
    text_bytes + EVENT_OVERHEAD_BYTES
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "what fails here fails a test")]
mod tests {
    use proptest::prelude::*;
    use swiftwater_event::{CheckLimits, check_block};

    use super::*;

    /// So many events, the first with this offset, each with some bytes of padding.
    fn batch(first: u64, events: usize, padding: usize) -> EventBatch {
        let event = |offset: u64| format!("{{\"n\":{offset},\"p\":\"{}\"}}\n", "x".repeat(padding));
        let text: String = (first..first + events as u64).map(event).collect();
        check_block(text.into(), &CheckLimits::default(), 1).batch
    }

    /// A stream, and every event that was ever copied.
    struct Naive {
        sample: Arc<StreamSample>,
        next: u64,
        copied: Vec<(i64, RecentEvent)>,
    }

    impl Naive {
        fn new(budget: &Arc<RecentBudget>) -> Naive {
            Naive { sample: budget.sample(), next: 0, copied: Vec::new() }
        }

        fn append(&mut self, now_micros: i64, events: usize, padding: usize) {
            let batch = batch(self.next, events, padding);
            if self.sample.is_due(now_micros) {
                self.sample.keep(&batch, (self.next, now_micros / 1000), now_micros);
                let before = self.copied.last().map_or(0, |(_, event)| event.offset + 1);
                let new =
                    self.sample.events().into_iter().filter(|event| event.offset >= before.max(self.next));
                self.copied.extend(new.map(|event| (now_micros, event)));
            }
            self.next += events as u64;
        }

        fn bytes(&self) -> usize {
            self.sample.events().iter().map(|event| size(event.event.len())).sum()
        }

        fn check(&self) {
            let events = self.sample.events();
            let copied: Vec<RecentEvent> = self.copied.iter().map(|(_, event)| event.clone()).collect();
            assert!(copied.ends_with(&events), "the newest of what was copied is there");
            assert!(copied.is_sorted_by_key(|event| event.offset));
            for event in &events {
                let text = std::str::from_utf8(&event.event).unwrap();
                assert!(text.starts_with(&format!("{{\"n\":{},", event.offset)), "{text}");
            }
            assert_eq!(self.sample.bytes.load(Ordering::Relaxed), self.bytes());
            assert!(self.bytes() <= STREAM_BYTES_MAX);
        }

        fn offsets(&self) -> Vec<u64> {
            self.sample.events().iter().map(|event| event.offset).collect()
        }
    }

    #[test]
    fn slow_stream_has_every_event_and_a_fast_one_an_even_sample() {
        let budget = RecentBudget::new(1 << 20);
        let mut slow = Naive::new(&budget);
        (0..100).for_each(|at| slow.append(at * SLOT_MICROS, 1, 0));
        assert_eq!(slow.offsets(), (0..100).collect::<Vec<_>>());
        let mut fast = Naive::new(&budget);
        (0..1000).for_each(|at| fast.append(at * 1000, 10, 0));
        // The first ten use slots that were saved; then the first of each 20 ms.
        let offsets = fast.offsets();
        let saved = offsets.partition_point(|offset| *offset < 50);
        assert_eq!(offsets[..saved], (0..50).collect::<Vec<_>>());
        let steps: Vec<u64> = offsets[saved..].windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(steps.iter().all(|step| *step == 200), "{steps:?}");
    }

    #[test]
    fn large_batch_is_sampled_evenly() {
        let budget = RecentBudget::new(1 << 20);
        let mut stream = Naive::new(&budget);
        stream.append(0, 1000, 0);
        assert_eq!(stream.offsets(), (0..50).map(|at| at * 20).collect::<Vec<_>>());
        stream.append(SLOT_MICROS - 1, 1000, 0);
        assert_eq!(stream.offsets().len(), 50);
        stream.append(2 * SLOT_MICROS, 1000, 0);
        assert_eq!(stream.offsets()[50..], [2000, 2500]);
    }

    #[test]
    fn event_that_is_too_large_is_left_out() {
        let budget = RecentBudget::new(1 << 20);
        let mut stream = Naive::new(&budget);
        stream.append(0, 1, STREAM_BYTES_MAX);
        stream.append(1_000_000, 1, STREAM_BYTES_MAX - EVENT_OVERHEAD_BYTES - 20);
        assert_eq!(stream.offsets(), [1]);
        stream.check();
        let tiny = RecentBudget::new(150);
        let mut stream = Naive::new(&tiny);
        stream.append(0, 1, 100);
        stream.append(1_000_000, 1, 10);
        assert_eq!(stream.offsets(), [1]);
        stream.append(2_000_000, 1, 10);
        assert_eq!(stream.offsets(), [2]);
    }

    #[test]
    fn full_budget_takes_from_the_largest() {
        let budget = RecentBudget::new(400_000);
        let mut streams: Vec<Naive> = (0..4).map(|_| Naive::new(&budget)).collect();
        streams[0].append(0, 1, 100);
        for at in 1..1000 {
            streams[1..].iter_mut().for_each(|stream| stream.append(at * SLOT_MICROS, 1, 400));
            assert!(budget.used_and_max().0 <= 400_000);
        }
        assert_eq!(streams[0].offsets(), [0], "a small sample stays");
        let most = streams[1..].iter().map(Naive::bytes).max().unwrap();
        let least = streams[1..].iter().map(Naive::bytes).min().unwrap();
        assert!(least > 90_000 && most < 140_000, "{least} {most}");
        streams.iter().for_each(Naive::check);
        drop(streams);
        assert_eq!(budget.used_and_max().0, 0);
    }

    #[test]
    fn many_streams_copy_seldom() {
        let budget = RecentBudget::new(64 << 20);
        let mut streams: Vec<Naive> = (0..1000).map(|_| Naive::new(&budget)).collect();
        streams.iter_mut().for_each(|stream| stream.append(0, 1, 0));
        let begin = 200_000_000;
        // Whatever was saved is used up.
        streams.iter_mut().for_each(|stream| stream.append(begin, 50, 0));
        let before: usize = streams.iter().map(|stream| stream.copied.len()).sum();
        for at in 1..=200 {
            streams.iter_mut().for_each(|stream| stream.append(begin + at * 5_000, 1, 0));
        }
        let copied = streams.iter().map(|stream| stream.copied.len()).sum::<usize>() - before;
        assert_eq!(copied, 5000);
    }

    #[test]
    fn forgotten_events_do_not_come_back() {
        let budget = RecentBudget::new(1 << 20);
        let sample = budget.sample();
        sample.keep(&batch(0, 3, 0), (0, 0), 0);
        sample.forget(5);
        assert_eq!((sample.events(), budget.used_and_max().0), (Vec::new(), 0));
        // An append that was before is copied after it.
        sample.keep(&batch(3, 4, 0), (3, 0), 0);
        assert_eq!(sample.events().iter().map(|event| event.offset).collect::<Vec<_>>(), [5, 6]);
    }

    #[test]
    fn appends_that_overtake_each_other_are_in_order() {
        let budget = RecentBudget::new(1 << 20);
        let sample = budget.sample();
        sample.keep(&batch(4, 2, 0), (4, 1), 1000);
        sample.keep(&batch(0, 4, 0), (0, 0), 1000);
        let offsets: Vec<u64> = sample.events().iter().map(|event| event.offset).collect();
        assert_eq!(offsets, (0..6).collect::<Vec<_>>());
    }

    #[test]
    fn clock_that_goes_back_far_begins_anew() {
        let budget = RecentBudget::new(1 << 20);
        let mut stream = Naive::new(&budget);
        stream.append(1_000_000_000, 100, 0);
        stream.append(999_999_000, 1, 0);
        assert_eq!(stream.offsets().len(), 50);
        stream.append(0, 1, 0);
        assert_eq!(stream.offsets().last(), Some(&101));
    }

    #[test]
    fn level_is_what_all_can_have() {
        assert_eq!(level(vec![5, 1, 9], 15), usize::MAX);
        assert_eq!(level(vec![5, 1, 9], 14), 8);
        assert_eq!(level(vec![5, 1, 9], 7), 3);
        assert_eq!(level(vec![5, 5], 0), 0);
        assert_eq!(level(vec![], 7), usize::MAX);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn samples_keep_to_their_bounds(
            bytes_max in 1_000usize..300_000,
            appends in proptest::collection::vec((0usize..6, 0i64..90_000, 1usize..120, 0usize..3_000), 1..200),
        ) {
            let budget = RecentBudget::new(bytes_max);
            let mut streams: Vec<Naive> = (0..6).map(|_| Naive::new(&budget)).collect();
            let mut now = 0;
            for (stream, pause, events, padding) in appends {
                now += pause;
                streams[stream].append(now, events, padding);
                let bytes: usize = streams.iter().map(Naive::bytes).sum();
                prop_assert_eq!(budget.used_and_max().0, bytes as u64);
                prop_assert!(bytes <= bytes_max);
            }
            for stream in &streams {
                stream.check();
                // From any copied event on, at most the saved slots and one for each 20 ms were used.
                for (at, (from, _)) in stream.copied.iter().enumerate() {
                    for (more, (until, _)) in stream.copied[at..].iter().enumerate() {
                        prop_assert!(more as i64 <= SLOTS_SAVED_MAX + (until - from) / SLOT_MICROS);
                    }
                }
            }
        }
    }
}
