//! Remembers the metrics of the last minutes: one number a second for each series.
//!
//! A series is a family's name with labels. Labels whose values are not bounded have no series here, and a histogram has its
//! sum and its count; one without labels has its buckets too. Knows no clock and no server. Memory: at most [`SERIES_MAX`]
//! series, each with 8 bytes a second.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, PoisonError},
};

use swiftwater_event::Millis;

use super::{Family, Kind, Number, bounds_seconds};

/// Milliseconds between two values.
pub(crate) const INTERVAL_MS: i64 = 1_000;
/// Series at once; further ones are left out and counted.
const SERIES_MAX: usize = 4_096;
/// Labels with few values. The streams are chosen by the caller.
const LABELS: [&str; 8] = ["method", "owner", "route", "shard", "stage", "status", "stream", "transport"];
/// Series that have ended are looked for once in so many seconds.
const SWEEP_TICKS: i64 = 60;

/// The values of the last `ticks_max` seconds.
#[derive(Debug)]
pub(crate) struct Recorder {
    ticks_max: i64,
    recorded: Mutex<Recorded>,
}

#[derive(Debug, Default)]
struct Recorded {
    /// The seconds of the first and of the last values; seconds are counted from 1970 on.
    span: Option<(i64, i64)>,
    series: HashMap<Key, Series>,
    /// Series that found no room in the last second.
    left_out: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    family: &'static str,
    /// The end of the name of a histogram's series.
    suffix: &'static str,
    labels: Vec<(&'static str, String)>,
}

#[derive(Debug)]
struct Series {
    is_counter: bool,
    /// The second of the first value.
    begin: i64,
    /// NaN for a second without a value.
    values: VecDeque<f64>,
}

/// A series over all seconds of a [`Reading`].
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Recording {
    pub(crate) name: String,
    pub(crate) labels: Vec<(&'static str, String)>,
    pub(crate) is_counter: bool,
    /// One a second, from the reading's first on; NaN where there is none.
    pub(crate) values: Vec<f64>,
}

/// The remembered values.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    /// The time of the first values; none if there are none.
    pub(crate) from: Option<Millis>,
    /// By name and labels.
    pub(crate) series: Vec<Recording>,
    pub(crate) left_out: usize,
}

impl Recorder {
    /// One that remembers so much; nothing for 0.
    pub(crate) fn new(history_ms: u64) -> Recorder {
        let ticks_max = i64::try_from(history_ms).unwrap_or(i64::MAX) / INTERVAL_MS;
        Recorder { ticks_max, recorded: Mutex::default() }
    }

    /// True if it remembers anything.
    pub(crate) fn is_on(&self) -> bool {
        self.ticks_max > 0
    }

    /// Remembers the numbers of this moment. Of two moments in one second, the later one counts; a moment before the last
    /// one is passed over.
    pub(crate) fn record(&self, now: Millis, families: Vec<Family>) {
        let tick = now.div_euclid(INTERVAL_MS);
        let mut recorded = self.lock();
        let (first, last) = recorded.span.unwrap_or((tick, tick));
        if tick < last {
            return;
        }
        recorded.left_out = 0;
        for family in families {
            for sample in family.samples {
                if sample.labels.iter().all(|(label, _)| LABELS.contains(label)) {
                    recorded.add(
                        tick,
                        self.ticks_max,
                        (family.name, family.kind),
                        sample.labels,
                        sample.number,
                    );
                }
            }
        }
        let oldest = tick - self.ticks_max + 1;
        recorded.span = Some((first.max(oldest), tick));
        if tick % SWEEP_TICKS == 0 || tick - last >= SWEEP_TICKS {
            recorded.series.retain(|_, series| series.end() > oldest);
        }
    }

    /// The series whose families `is_wanted` names.
    pub(crate) fn read(&self, is_wanted: impl Fn(&str) -> bool) -> Reading {
        let recorded = self.lock();
        let Some((first, last)) = recorded.span else { return Reading::default() };
        let there = recorded.series.iter().filter(|(_, series)| series.end() > first);
        let named = there.map(|(key, series)| (format!("{}{}", key.family, key.suffix), key, series));
        let mut series: Vec<Recording> = named
            .filter(|(name, ..)| is_wanted(name))
            .map(|(name, key, series)| Recording {
                name,
                labels: key.labels.clone(),
                is_counter: series.is_counter,
                values: (first..=last).map(|tick| series.value(tick)).collect(),
            })
            .collect();
        let left_out = recorded.left_out;
        drop(recorded);
        series.sort_by(|a, b| (&a.name, &a.labels).cmp(&(&b.name, &b.labels)));
        Reading { from: Some(first * INTERVAL_MS), series, left_out }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Recorded> {
        self.recorded.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Recorded {
    fn add(
        &mut self,
        tick: i64,
        ticks_max: i64,
        (family, kind): (&'static str, Kind),
        labels: Vec<(&'static str, String)>,
        number: Number,
    ) {
        let is_counter = kind != Kind::Gauge;
        let mut add = |suffix: &'static str, labels: Vec<(&'static str, String)>, value: f64| {
            self.add_value(tick, ticks_max, Key { family, suffix, labels }, is_counter, value);
        };
        match number {
            Number::Whole(number) => add("", labels, number as f64),
            Number::Real(number) => add("", labels, number),
            Number::Seconds { counts, sum } => {
                if labels.is_empty() {
                    let mut total = 0;
                    for (count, bound) in counts.iter().zip(bounds_seconds()) {
                        total += count;
                        add("_bucket", vec![("le", bound.to_string())], total as f64);
                    }
                }
                add("_sum", labels.clone(), sum);
                add("_count", labels, counts.iter().sum::<u64>() as f64);
            }
        }
    }

    fn add_value(&mut self, tick: i64, ticks_max: i64, key: Key, is_counter: bool, value: f64) {
        if let Some(series) = self.series.get_mut(&key) {
            series.add(tick, ticks_max, value);
        } else if self.series.len() < SERIES_MAX {
            self.series.insert(key, Series { is_counter, begin: tick, values: VecDeque::from([value]) });
        } else {
            self.left_out += 1;
        }
    }
}

impl Series {
    /// The second after the last value.
    fn end(&self) -> i64 {
        self.begin + self.values.len() as i64
    }

    fn value(&self, tick: i64) -> f64 {
        let place = usize::try_from(tick - self.begin).ok();
        place.and_then(|place| self.values.get(place)).copied().unwrap_or(f64::NAN)
    }

    /// Adds the value of a second that is not before that of the last one.
    fn add(&mut self, tick: i64, ticks_max: i64, value: f64) {
        if tick - self.end() >= ticks_max {
            self.values.clear();
            self.begin = tick;
        }
        if tick < self.end() {
            self.values.pop_back();
        }
        while self.end() < tick {
            self.values.push_back(f64::NAN);
        }
        self.values.push_back(value);
        while self.values.len() as i64 > ticks_max {
            self.values.pop_front();
            self.begin += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Sample;

    fn family(name: &'static str, kind: Kind, samples: Vec<(Vec<(&'static str, &str)>, Number)>) -> Family {
        let samples = samples.into_iter().map(|(labels, number)| Sample {
            labels: labels.into_iter().map(|(label, value)| (label, value.to_owned())).collect(),
            number,
        });
        Family { name, help: "", kind, samples: samples.collect() }
    }

    fn gauge(value: u64) -> Vec<Family> {
        vec![family("g", Kind::Gauge, vec![(vec![], value.into())])]
    }

    /// The values as text; `-` for none.
    fn shown(reading: &Reading) -> Vec<String> {
        let value = |value: &f64| if value.is_nan() { "-".to_owned() } else { value.to_string() };
        let series = reading.series.iter();
        series
            .map(|series| {
                let labels: Vec<String> =
                    series.labels.iter().map(|(label, value)| format!("{label}={value}")).collect();
                let values: Vec<String> = series.values.iter().map(value).collect();
                format!("{}{{{}}} {}", series.name, labels.join(","), values.join(" "))
            })
            .collect()
    }

    #[test]
    fn each_second_has_a_value_and_a_missed_one_none() {
        let recorder = Recorder::new(5_500);
        assert!(recorder.read(|_| true).from.is_none());
        recorder.record(10_100, gauge(1));
        recorder.record(11_900, gauge(2));
        recorder.record(11_950, gauge(3));
        recorder.record(13_000, gauge(4));
        // The past does not change.
        recorder.record(12_000, gauge(9));
        let reading = recorder.read(|_| true);
        assert_eq!((reading.from, shown(&reading)), (Some(10_000), vec!["g{} 1 3 - 4".to_owned()]));
        recorder.record(16_000, gauge(7));
        let reading = recorder.read(|_| true);
        assert_eq!((reading.from, shown(&reading)), (Some(12_000), vec!["g{} - 4 - - 7".to_owned()]));
        recorder.record(1_000_000, gauge(8));
        let reading = recorder.read(|_| true);
        assert_eq!((reading.from, shown(&reading)), (Some(996_000), vec!["g{} - - - - 8".to_owned()]));
    }

    #[test]
    fn series_that_appears_later_or_ends_has_no_values_there() {
        let recorder = Recorder::new(60_000);
        let streams = |names: &[&'static str]| {
            let samples = names.iter().map(|name| (vec![("stream", *name)], Number::Whole(1)));
            vec![family("e_total", Kind::Counter, samples.collect())]
        };
        recorder.record(0, streams(&["b"]));
        recorder.record(1_000, streams(&["b", "a"]));
        recorder.record(2_000, streams(&["a"]));
        let reading = recorder.read(|name| name == "e_total");
        assert_eq!(shown(&reading), ["e_total{stream=a} - 1 1", "e_total{stream=b} 1 1 -"]);
        assert!(reading.series[0].is_counter);
        assert!(recorder.read(|name| name == "e").series.is_empty());
        // Once all its values are too old, it is gone.
        for second in 3..=61 {
            recorder.record(second * 1_000, streams(&["a"]));
        }
        assert_eq!(recorder.read(|_| true).series.len(), 1);
        recorder.record(120_000, streams(&["a"]));
        assert_eq!(recorder.lock().series.len(), 1);
    }

    #[test]
    fn series_are_bounded() {
        let recorder = Recorder::new(2_000);
        let names: Vec<String> = (0..SERIES_MAX + 3).map(|name| name.to_string()).collect();
        let samples = || names.iter().map(|name| (vec![("stream", name.as_str())], Number::Real(0.5)));
        recorder.record(0, vec![family("g", Kind::Gauge, samples().collect())]);
        recorder.record(1_000, vec![family("g", Kind::Gauge, samples().collect())]);
        let reading = recorder.read(|_| true);
        assert_eq!((reading.series.len(), reading.left_out), (SERIES_MAX, 3));
        assert!(reading.series.iter().all(|series| series.values == [0.5, 0.5]));
    }

    #[test]
    fn histograms_are_sums_and_counts_and_unbounded_labels_are_left_out() {
        let mut counts = [0; 17];
        (counts[0], counts[16]) = (1, 2);
        let seconds = || Number::Seconds { counts, sum: 1.5 };
        let recorder = Recorder::new(60_000);
        recorder.record(
            0,
            vec![
                family("h_seconds", Kind::Histogram, vec![(vec![("route", "/")], seconds())]),
                family("j", Kind::Gauge, vec![(vec![("job", "x")], 1.into())]),
                family("w_seconds", Kind::Histogram, vec![(vec![], seconds())]),
            ],
        );
        let reading = recorder.read(|name| !name.ends_with("_bucket"));
        let expected = [
            "h_seconds_count{route=/} 3",
            "h_seconds_sum{route=/} 1.5",
            "w_seconds_count{} 3",
            "w_seconds_sum{} 1.5",
        ];
        assert_eq!(shown(&reading), expected);
        let buckets = recorder.read(|name| name.ends_with("_bucket"));
        assert_eq!(buckets.series.len(), 16);
        assert_eq!(shown(&buckets)[0], "w_seconds_bucket{le=0.00005} 1");
    }

    #[test]
    fn without_history_nothing_is_on() {
        assert!(!Recorder::new(0).is_on());
        assert!(!Recorder::new(999).is_on());
        assert!(Recorder::new(1_000).is_on());
    }
}
