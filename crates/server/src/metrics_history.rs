//! Samples the metrics once a second, and shows those of the last minutes.
//!
//! The sample has what is cheap: nothing that grows with the number of streams or queries is read each second.
//! The busiest [`STREAMS_MAX`] streams are sampled; they are chosen once a minute, or each second while there are few.

use std::{
    cmp::Reverse,
    collections::{HashMap, HashSet},
    io::Write,
    sync::Arc,
    time::Duration,
};

use axum::{
    extract::State,
    http::{StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use serde_json::{Map, Value};
use swiftwater_event::{Millis, StreamName};
use tokio::sync::{Semaphore, mpsc};

use crate::{
    body::heavy,
    metrics::{
        Family,
        recorder::{INTERVAL_MS, Reading, Recording},
    },
    parameters::Parameters,
    problem::Problem,
    server::{Phase, Shared},
    wire::write_time,
};

/// Streams that have series of their own.
pub(crate) const STREAMS_MAX: usize = 200;
/// The busiest streams are chosen once in so many samples.
const CHOICE_SAMPLES: u32 = 60;

/// The answers that are made at once.
static READERS: Semaphore = Semaphore::const_new(1);

/// Starts to sample, if the metrics are remembered; ends with the server.
pub(crate) fn serve(shared: &Arc<Shared>, alive: &mpsc::Sender<()>) {
    if !shared.recorder.is_on() {
        return;
    }
    let (shared, alive) = (Arc::clone(shared), alive.clone());
    tokio::spawn(async move {
        let mut busiest = BusiestStreams::default();
        loop {
            let now = heavy(usize::MAX, || sample(&shared, &mut busiest));
            tokio::select! {
                () = tokio::time::sleep(until_next(now)) => {}
                () = shared.reached(Phase::Closing) => break,
            }
        }
        drop(alive);
    });
}

/// Returns the time of the sample.
fn sample(shared: &Shared, busiest: &mut BusiestStreams) -> Millis {
    let streams = busiest.choose(|| shared.engine.event_counts());
    let families: Vec<Family> = shared.sampled_families(streams);
    let now = shared.engine.clock().now();
    shared.recorder.record(now, families);
    now
}

/// The time to the middle of the next second: the sample of a second is not missed because a timer is some milliseconds off.
fn until_next(now: Millis) -> Duration {
    let half = INTERVAL_MS / 2;
    Duration::from_millis((INTERVAL_MS - (now - half).rem_euclid(INTERVAL_MS)).unsigned_abs())
}

/// The streams that are sampled.
#[derive(Debug, Default)]
struct BusiestStreams {
    chosen: Vec<StreamName>,
    /// The number of events of all streams at the last choice.
    counts: HashMap<StreamName, u64>,
    samples: u32,
}

impl BusiestStreams {
    /// The streams with the most events since the last choice. One that was chosen gives way only to one with more than twice
    /// as many: series that come and go take up the room of others.
    fn choose(&mut self, counts: impl FnOnce() -> Vec<(StreamName, u64)>) -> &[StreamName] {
        let is_due = self.samples == 0 || self.counts.len() <= STREAMS_MAX;
        self.samples = (self.samples + 1) % CHOICE_SAMPLES;
        if is_due {
            let counts = counts();
            let chosen: HashSet<&StreamName> = self.chosen.iter().collect();
            let new = |name: &StreamName, count: u64| {
                let new = count.saturating_sub(self.counts.get(name).copied().unwrap_or(0));
                if chosen.contains(name) { new.saturating_mul(2) + 10 } else { new }
            };
            let mut streams: Vec<(u64, u64, &StreamName)> =
                counts.iter().map(|(name, count)| (new(name, *count), *count, name)).collect();
            streams.sort_by_key(|(new, all, name)| (Reverse(*new), Reverse(*all), *name));
            self.chosen = streams.into_iter().take(STREAMS_MAX).map(|(_, _, name)| name.clone()).collect();
            self.counts = counts.into_iter().collect();
        }
        &self.chosen
    }
}

/// `GET /v1/metrics/history`.
pub(crate) async fn show(State(shared): State<Arc<Shared>>, uri: Uri) -> Result<Response, Problem> {
    let parameters = Parameters::parse(uri.query(), &["prefix", "name"])?;
    let names: Option<Vec<&str>> = parameters.get("name").map(|names| names.split(',').collect());
    let prefix = parameters.get("prefix");
    let is_wanted = |name: &str| match (prefix, &names) {
        (None, None) => true,
        _ => {
            prefix.is_some_and(|prefix| name.starts_with(prefix))
                || names.as_ref().is_some_and(|names| names.contains(&name))
        }
    };
    // Held until the text is there: it may be large, and is made of as much memory again.
    let turn = READERS.acquire().await;
    let text =
        heavy(usize::MAX, || history_json(shared.engine.clock().now(), &shared.recorder.read(is_wanted)));
    drop(turn);
    Ok((StatusCode::OK, [(header::CONTENT_TYPE, "application/json")], text).into_response())
}

fn history_json(now: Millis, reading: &Reading) -> Vec<u8> {
    let mut out = b"{\"now\":".to_vec();
    write_time(now, &mut out);
    out.extend_from_slice(format!(",\"interval_ms\":{INTERVAL_MS},\"from\":").as_bytes());
    match reading.from {
        Some(from) => write_time(from, &mut out),
        None => out.extend_from_slice(b"null"),
    }
    out.extend_from_slice(b",\"families\":[");
    for (place, series) in reading.series.iter().enumerate() {
        if place > 0 {
            out.push(b',');
        }
        write_series(series, &mut out);
    }
    out.extend_from_slice(format!("],\"left_out\":{}}}\n", reading.left_out).as_bytes());
    out
}

fn write_series(series: &Recording, out: &mut Vec<u8>) {
    let labels: Map<String, Value> =
        series.labels.iter().map(|(label, value)| ((*label).to_owned(), value.as_str().into())).collect();
    let kind = if series.is_counter { "counter" } else { "gauge" };
    let (name, labels) = (&series.name, Value::Object(labels));
    write!(out, "{{\"name\":\"{name}\",\"labels\":{labels},\"type\":\"{kind}\",\"values\":[")
        .expect("memory takes every text");
    for (place, value) in series.values.iter().enumerate() {
        if place > 0 {
            out.push(b',');
        }
        match value.is_finite() {
            true => write!(out, "{value}").expect("memory takes every text"),
            false => out.extend_from_slice(b"null"),
        }
    }
    out.extend_from_slice(b"]}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_taken_in_the_middle_of_each_second() {
        let next = |now: Millis| now + until_next(now).as_millis() as i64;
        assert_eq!([0, 400, 499, 500, 501, 999].map(next), [500, 500, 500, 1500, 1500, 1500]);
    }

    #[test]
    fn busiest_streams_are_those_with_the_most_new_events() {
        let name = |number: usize| StreamName::new(&format!("s{number:04}")).unwrap();
        let mut busiest = BusiestStreams::default();
        let few = |counts: &[u64]| counts.iter().enumerate().map(|(at, count)| (name(at), *count)).collect();
        assert_eq!(busiest.choose(|| few(&[1, 5])), [name(1), name(0)]);
        assert_eq!(busiest.choose(|| few(&[9, 5, 11])), [name(0), name(2), name(1)]);
        let many =
            |add: u64| (0..300).map(|at| (name(at), 300 - at as u64 + add * u64::from(at == 299))).collect();
        assert_eq!(busiest.choose(|| many(0)).len(), STREAMS_MAX);
        assert!(!busiest.choose(|| panic!("not this time")).contains(&name(299)));
        for _ in 4..CHOICE_SAMPLES {
            busiest.choose(|| panic!("not this time"));
        }
        // It has not twice as many as the others, then it has.
        assert!(!busiest.choose(|| many(10)).contains(&name(299)));
        for _ in 1..CHOICE_SAMPLES {
            busiest.choose(|| panic!("not this time"));
        }
        let chosen = busiest.choose(|| many(21));
        assert_eq!((chosen.len(), &chosen[..2]), (STREAMS_MAX, &[name(299), name(0)][..]));
    }

    #[test]
    fn history_is_written_as_json() {
        let series = Recording {
            name: "e_total".to_owned(),
            labels: vec![("stream", "a\"b".to_owned())],
            is_counter: true,
            values: vec![f64::NAN, 1.0, 2.5, f64::INFINITY, 1e15],
        };
        let reading = Reading { from: Some(1_000), series: vec![series], left_out: 2 };
        let value: Value = serde_json::from_slice(&history_json(5_500, &reading)).unwrap();
        let expected = serde_json::json!({
            "now": "1970-01-01T00:00:05.500Z",
            "interval_ms": 1000,
            "from": "1970-01-01T00:00:01.000Z",
            "families": [{
                "name": "e_total",
                "labels": {"stream": "a\"b"},
                "type": "counter",
                "values": [null, 1, 2.5, null, 1_000_000_000_000_000u64],
            }],
            "left_out": 2,
        });
        assert_eq!(value, expected);
    }
}
