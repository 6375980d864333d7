//! The step of a stream join: finds the pairs of each event, and computes from which time on stored events are still
//! needed.

use swiftwater_event::Millis;

use super::JoinEvent;

/// A join has two sides, the left one, 0, and the right one.
pub const SIDES: usize = 2;

/// Bounds on the distance of a pair's events, and the lateness of each side's; microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JoinTimeBounds {
    /// The least time of the right event minus that of the left one.
    pub low: i64,
    /// The greatest.
    pub high: i64,
    /// The lateness of each side's events behind the latest of their stream.
    pub lateness: [i64; SIDES],
    /// The idle time in milliseconds after which a side's event time advances with the arrivals of the other side; none: never.
    pub idle_after_ms: [Option<u64>; SIDES],
}

/// The kept parts of an event: its time, its number in its stream, and its values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Match {
    /// Its time.
    pub time: i64,
    /// Its offset.
    pub number: u64,
    /// The values for pairs.
    pub values: Box<[u8]>,
}

/// Events that are buffered for those of the other side.
pub trait JoinBuffer {
    /// The error of the buffer.
    type Error;

    /// Inserts an event.
    fn insert(&mut self, side: usize, event: &JoinEvent<'_>) -> Result<(), Self::Error>;

    /// Adds the kept events of a side that have a key and a time in `times`, both included, to `out`: in the order of their times
    /// and then their numbers, those behind `after` only, and at most `count`.
    fn find(
        &mut self,
        side: usize,
        key: &[u8],
        times: (i64, i64),
        after: Option<(i64, u64)>,
        count: usize,
        out: &mut Vec<Match>,
    ) -> Result<(), Self::Error>;
}

/// The progress of a join.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct JoinProgress {
    /// The latest event time of each side, advanced by idle periods.
    pub latest: [Option<i64>; SIDES],
    /// The arrival that `latest` belongs to, in milliseconds.
    pub moved: [Option<Millis>; SIDES],
    /// The arrival of each side's last event.
    pub last: [Option<Millis>; SIDES],
    /// Events that were late.
    pub late: u64,
    /// Events whose times were too far ahead of their arrival.
    pub ahead: u64,
    /// Events without a time.
    pub untimed: u64,
    /// Events with a time that were not late and joined nothing whatever came: their key is null or too long, or their side's
    /// condition is not true of them.
    pub passed_over: u64,
}

/// The position within the events of a step at which it continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct JoinPlace {
    /// Number of events that are done.
    pub done: usize,
    /// The last event (time and number) of which the pair with the next event was returned.
    pub after: Option<(i64, u64)>,
}

/// Two events that are a pair: their values, left and right.
pub type JoinPair<'e> = [std::borrow::Cow<'e, [u8]>; SIDES];

/// Matches that are looked for at once.
const FOUND_AT_ONCE: usize = 64;

impl JoinTimeBounds {
    /// The times of the other side's events that are within reach of one, first and last.
    pub fn join_range(&self, side: usize, time: i64) -> (i64, i64) {
        match side {
            0 => (time.saturating_add(self.low), time.saturating_add(self.high)),
            _ => (time.saturating_sub(self.high), time.saturating_sub(self.low)),
        }
    }

    /// Advances the event time of a side that was idle until `until`.
    fn advance_idle(&self, progress: &mut JoinProgress, side: usize, until: Millis) {
        let (Some(idle), Some(last)) = (self.idle_after_ms[side], progress.last[side]) else { return };
        let (Some(latest), Some(moved)) = (progress.latest[side], progress.moved[side]) else { return };
        if until >= last.saturating_add_unsigned(idle) && until > moved {
            let further = until.saturating_sub(moved).saturating_mul(1000);
            progress.latest[side] = Some(latest.saturating_add(further));
            progress.moved[side] = Some(until);
        }
    }

    /// The time before which a side's events are late; none while it had no event.
    pub fn watermark(&self, progress: &JoinProgress, side: usize) -> Option<i64> {
        progress.latest[side].map(|latest| latest.saturating_sub(self.lateness[side]))
    }

    /// The first time of a side's events that may still find others: earlier ones need not be kept.
    pub fn first_needed(&self, progress: &JoinProgress, side: usize) -> Option<i64> {
        let to_come = self.watermark(progress, 1 - side)?;
        // The earliest that is to come of the other side reaches back so far.
        Some(self.join_range(1 - side, to_come).0)
    }
}

/// Takes events, each with its side, in the order of the log, and finds pairs until all are taken, or there are `pairs_max`, or
/// more than `bytes_max` of their values. Each event's pairs come in the order of the other event's time and number. Returns
/// the place at which to continue.
pub fn step<'e, K: JoinBuffer>(
    apart: &JoinTimeBounds,
    (progress, kept): (&mut JoinProgress, &mut K),
    events: &'e [(usize, JoinEvent<'e>)],
    mut place: JoinPlace,
    (pairs_max, bytes_max): (usize, usize),
    pairs: &mut Vec<JoinPair<'e>>,
) -> Result<JoinPlace, K::Error> {
    let (mut found, mut bytes) = (Vec::new(), 0);
    while let Some((side, event)) = events.get(place.done) {
        let side = *side;
        (0..SIDES).for_each(|side| apart.advance_idle(progress, side, event.arrival));
        let Some(time) = event.time else {
            progress.untimed += 1;
            progress.last[side] = Some(event.arrival);
            place = JoinPlace { done: place.done + 1, after: None };
            continue;
        };
        if event.is_ahead {
            progress.ahead += 1;
            progress.last[side] = Some(event.arrival);
            place = JoinPlace { done: place.done + 1, after: None };
            continue;
        }
        let is_late = apart.watermark(progress, side).is_some_and(|watermark| time < watermark);
        if is_late {
            progress.late += 1;
        } else if let Some(key) = &event.key {
            let reach = apart.join_range(side, time);
            loop {
                let room = pairs_max.saturating_sub(pairs.len()).min(FOUND_AT_ONCE);
                if room == 0 || bytes > bytes_max {
                    return Ok(place);
                }
                found.clear();
                kept.find(1 - side, key, reach, place.after, room, &mut found)?;
                let is_all = found.len() < room;
                for Match { time, number, values } in found.drain(..) {
                    place.after = Some((time, number));
                    bytes += event.values.len() + values.len();
                    let (own, other) = (event.values.into(), values.into_vec().into());
                    pairs.push(if side == 0 { [own, other] } else { [other, own] });
                }
                if is_all {
                    break;
                }
            }
            // An event that no later one can meet need not be kept.
            if apart.first_needed(progress, side).is_none_or(|first| time >= first) {
                kept.insert(side, event)?;
            }
        } else {
            progress.passed_over += 1;
        }
        if progress.latest[side] < Some(time) {
            (progress.latest[side], progress.moved[side]) = (Some(time), Some(event.arrival));
        }
        progress.last[side] = Some(event.arrival);
        place = JoinPlace { done: place.done + 1, after: None };
    }
    Ok(place)
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, convert::Infallible};

    use proptest::prelude::*;

    use super::*;

    /// Events by key, time and number.
    type Events = BTreeMap<(Vec<u8>, i64, u64), Box<[u8]>>;

    /// Events by side.
    #[derive(Default)]
    struct MemoryBuffer {
        kept: [Events; SIDES],
        held_most: usize,
    }

    impl MemoryBuffer {
        fn evict(&mut self, apart: &JoinTimeBounds, progress: &JoinProgress) {
            for side in 0..SIDES {
                if let Some(first) = apart.first_needed(progress, side) {
                    self.kept[side].retain(|(_, time, _), _| *time >= first);
                }
            }
            self.held_most = self.held_most.max(self.kept[0].len() + self.kept[1].len());
        }
    }

    impl JoinBuffer for MemoryBuffer {
        type Error = Infallible;

        fn insert(&mut self, side: usize, event: &JoinEvent<'_>) -> Result<(), Infallible> {
            let (key, time) = (event.key.as_deref().unwrap().to_vec(), event.time.unwrap());
            assert!(self.kept[side].insert((key, time, event.number), event.values.into()).is_none());
            Ok(())
        }

        fn find(
            &mut self,
            side: usize,
            key: &[u8],
            times: (i64, i64),
            after: Option<(i64, u64)>,
            count: usize,
            out: &mut Vec<Match>,
        ) -> Result<(), Infallible> {
            let of_key = self.kept[side].iter().filter(|((of, time, number), _)| {
                of == key
                    && (times.0..=times.1).contains(time)
                    && after.is_none_or(|after| (*time, *number) > after)
            });
            out.extend(of_key.take(count).map(|((_, time, number), values)| Match {
                time: *time,
                number: *number,
                values: values.clone(),
            }));
            Ok(())
        }
    }

    /// Side, time, key; what an event's values are is its number.
    type OfferedEvent = (usize, Option<i64>, Option<u8>);

    fn offered_events() -> impl Strategy<Value = Vec<OfferedEvent>> {
        let time = prop_oneof![1 => Just(None), 20 => (-5i64..30).prop_map(Some)];
        let key = prop_oneof![1 => Just(None), 8 => (0u8..3).prop_map(Some)];
        proptest::collection::vec((0..SIDES, time, key), 0..60)
    }

    fn time_bounds() -> impl Strategy<Value = JoinTimeBounds> {
        (-12i64..12, 0i64..12, 0i64..8, 0i64..8).prop_map(|(low, width, left, right)| JoinTimeBounds {
            low,
            high: low + width,
            lateness: [left, right],
            idle_after_ms: [None, None],
        })
    }

    /// Every pair by two loops over the whole history; `is_self`: each event is of both sides, the left one first.
    fn naive(apart: &JoinTimeBounds, told: &[OfferedEvent]) -> Vec<(usize, usize)> {
        let is_late = |at: usize| {
            let (side, time, _) = told[at];
            let before = told[..at].iter().filter(|other| other.0 == side).filter_map(|other| other.1).max();
            before.is_some_and(|latest| time.unwrap() < latest - apart.lateness[side])
        };
        let joins = |at: usize| told[at].1.is_some() && told[at].2.is_some() && !is_late(at);
        let mut pairs = Vec::new();
        for later in 0..told.len() {
            let mut of_later = Vec::new();
            for earlier in 0..later {
                let ((side, time, key), (other_side, other_time, other_key)) = (told[later], told[earlier]);
                if side == other_side || key != other_key || !joins(later) || !joins(earlier) {
                    continue;
                }
                let (time, other_time) = (time.unwrap(), other_time.unwrap());
                let difference = if side == 1 { time - other_time } else { other_time - time };
                if (apart.low..=apart.high).contains(&difference) {
                    of_later.push((other_time, earlier));
                }
            }
            of_later.sort_unstable();
            for (_, earlier) in of_later {
                pairs.push(if told[later].0 == 1 { (earlier, later) } else { (later, earlier) });
            }
        }
        pairs
    }

    /// The pairs that steps find, with the events cut into batches as `cuts` says, and letting go of what is not needed after
    /// each; `pairs_max` at once.
    fn joined_pairs(
        apart: &JoinTimeBounds,
        told: &[OfferedEvent],
        cuts: &[usize],
        most: (usize, usize),
    ) -> (Vec<(usize, usize)>, usize, JoinProgress) {
        let names: Vec<String> = (0..told.len()).map(|at| at.to_string()).collect();
        let event = |at: usize| {
            let (side, time, key) = told[at];
            let key = key.map(|key| vec![key].into());
            (
                side,
                JoinEvent {
                    time,
                    arrival: 0,
                    is_ahead: false,
                    key,
                    number: at as u64,
                    values: names[at].as_bytes(),
                },
            )
        };
        let (mut kept, mut progress, mut pairs) =
            (MemoryBuffer::default(), JoinProgress::default(), Vec::new());
        let mut cuts = cuts.iter().copied().cycle();
        let mut at = 0;
        while at < told.len() {
            let end = (at + cuts.next().unwrap_or(1).max(1)).min(told.len());
            let events: Vec<_> = (at..end).map(event).collect();
            let mut place = JoinPlace::default();
            while place.done < events.len() {
                let mut some = Vec::new();
                place = step(apart, (&mut progress, &mut kept), &events, place, most, &mut some).unwrap();
                let number = |values: &[u8]| std::str::from_utf8(values).unwrap().parse::<usize>().unwrap();
                pairs.extend(some.iter().map(|[left, right]| (number(left), number(right))));
                kept.evict(apart, &progress);
            }
            at = end;
        }
        (pairs, kept.held_most, progress)
    }

    proptest! {
        #[test]
        fn pairs_are_those_of_two_loops_over_the_whole_history(
            apart in time_bounds(),
            told in offered_events(),
            cuts in proptest::collection::vec(1usize..9, 1..6),
            most in (1usize..5, 0usize..9),
        ) {
            let expected = naive(&apart, &told);
            prop_assert_eq!(&joined_pairs(&apart, &told, &cuts, most).0, &expected);
            prop_assert_eq!(&joined_pairs(&apart, &told, &[1000], (1000, 1000)).0, &expected);
        }

        #[test]
        fn every_event_is_counted_once(
            apart in time_bounds(),
            told in offered_events(),
            cuts in proptest::collection::vec(1usize..9, 1..6),
            most in (1usize..5, 0usize..9),
        ) {
            let (_, _, progress) = joined_pairs(&apart, &told, &cuts, most);
            prop_assert_eq!(progress, joined_pairs(&apart, &told, &[1000], (1000, 1000)).2);
            let untimed = told.iter().filter(|event| event.1.is_none()).count() as u64;
            prop_assert_eq!(progress.untimed, untimed);
        }
    }

    #[test]
    fn what_is_kept_does_not_grow_with_the_history() {
        let apart = JoinTimeBounds { low: 0, high: 10, lateness: [5, 5], idle_after_ms: [None, None] };
        let told: Vec<OfferedEvent> = (0..600).map(|at| (at % 2, Some(at as i64), Some(0))).collect();
        let (pairs, held_most, _) = joined_pairs(&apart, &told, &[7], (3, 1000));
        assert_eq!(pairs, naive(&apart, &told));
        assert!(held_most < 60, "{held_most}");
    }

    #[test]
    fn a_side_without_events_goes_on_with_the_arrival_of_the_other_sides() {
        let idle = [Some(1000), None];
        let apart = JoinTimeBounds { low: -5000, high: 5000, lateness: [0, 0], idle_after_ms: idle };
        let event = |side, time, arrival, number| {
            let key = Some(vec![1].into());
            (side, JoinEvent { time: Some(time), arrival, is_ahead: false, key, number, values: b"" })
        };
        let told = [
            event(0, 10_000, 0, 0),
            event(1, 12_000, 999, 1),
            // From here on the left side is where it would be with an event that arrives now.
            event(1, 13_000, 1000, 2),
            event(0, 1_010_000, 1500, 3),
            event(0, 1_510_000, 1500, 4),
            event(1, 1_600_000, 2400, 5),
            event(0, 1_600_000, 2499, 6),
            event(0, 2_508_000, 9000, 7),
        ];
        let late_of = |cut: usize| {
            let (mut kept, mut progress, mut late) =
                (MemoryBuffer::default(), JoinProgress::default(), Vec::new());
            for events in told.chunks(cut) {
                let mut place = JoinPlace::default();
                while place.done < events.len() {
                    let most = (1, 1000);
                    place = step(&apart, (&mut progress, &mut kept), events, place, most, &mut Vec::new())
                        .unwrap();
                    kept.evict(&apart, &progress);
                }
                late.push(progress.late);
            }
            (late, progress)
        };
        let (late, progress) = late_of(1);
        // The fourth would be behind 10,000 + 1500 ms of arrival; the last behind 1,600,000 + 6501 ms.
        assert_eq!(late, [0, 0, 0, 1, 1, 1, 1, 2]);
        assert_eq!(progress.latest, [Some(8_101_000), Some(1_600_000)]);
        assert_eq!(late_of(3).1, progress);
        assert_eq!(late_of(8).1, progress);
    }

    #[test]
    fn an_event_of_a_stream_that_is_joined_with_itself_meets_itself_once() {
        let apart = JoinTimeBounds { low: 0, high: 0, lateness: [0, 0], idle_after_ms: [None, None] };
        // Each event comes as one of the left side, and then as one of the right side.
        let told: Vec<OfferedEvent> =
            vec![(0, Some(3), Some(1)), (1, Some(3), Some(1)), (0, Some(3), Some(1)), (1, Some(3), Some(1))];
        let pairs = joined_pairs(&apart, &told, &[2], (9, 1000)).0;
        assert_eq!(pairs, [(0, 1), (2, 1), (0, 3), (2, 3)]);
    }

    #[test]
    fn an_event_is_late_behind_the_watermark_of_those_before_it_and_not_at_it() {
        let apart = JoinTimeBounds { low: -100, high: 100, lateness: [5, 0], idle_after_ms: [None, None] };
        let told: Vec<OfferedEvent> = vec![
            (0, Some(20), Some(1)),
            (0, Some(15), Some(1)),
            (0, Some(14), Some(1)),
            (1, Some(0), Some(1)),
        ];
        let (pairs, _, progress) = joined_pairs(&apart, &told, &[1], (9, 1000));
        assert_eq!(pairs, [(1, 3), (0, 3)]);
        assert_eq!(progress.late, 1);
    }
}
