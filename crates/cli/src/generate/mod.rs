//! `swiftwater generate`: events of published workloads, made from a seed, as fast as they can be written.
//!
//! The same seed gives the same events, on every machine. Knows nothing of servers: its output is a file or a pipe.

mod articles;
mod chance;
mod smart_home;

use std::{
    fs::File,
    io::{self, Write},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use anyhow::Context;
use swiftwater_event::Clock;

use self::{articles::Articles, smart_home::SmartHome};
use crate::{
    args::{GenerateArgs, Workload},
    exit::{Failure, Outcome},
};

/// So many bytes are made before they are written.
const BLOCK_BYTES: usize = 1 << 20;
/// With a rate, the most events between two looks at the clock.
const PACED_EVENTS_MAX: u64 = 1000;

/// What makes events of one kind, one after another.
trait Events {
    /// Adds the next event and a line break.
    fn push(&mut self, out: &mut Vec<u8>);
}

/// Runs the command.
pub(crate) fn run(args: &GenerateArgs, clock: Arc<dyn Clock>) -> Outcome {
    let mut smart_home;
    let mut articles;
    let events: &mut dyn Events = match args.workload {
        Workload::SmartHome => {
            smart_home = SmartHome::new(args.seed);
            &mut smart_home
        }
        Workload::Articles => {
            articles = Articles::new(args.seed);
            &mut articles
        }
    };
    let count = args.events;
    match &args.output {
        Some(path) => {
            let told = || format!("cannot write `{}`", path.display());
            let mut file = File::create(path).with_context(told)?;
            write(events, count, args.rate, &*clock, &mut file).with_context(told)?;
        }
        None => {
            write(events, count, args.rate, &*clock, &mut io::stdout().lock()).map_err(Failure::output)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn write(
    events: &mut dyn Events,
    count: u64,
    rate: Option<f64>,
    clock: &dyn Clock,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut block = Vec::with_capacity(BLOCK_BYTES + (64 << 10));
    let began = clock.monotonic_nanos();
    let mut made = 0;
    while made < count {
        // At a rate, some twenty blocks a second.
        let at_once = rate.map_or(u64::MAX, |rate| ((rate / 20.0) as u64).clamp(1, PACED_EVENTS_MAX));
        let until = count.min(made.saturating_add(at_once));
        while made < until && block.len() < BLOCK_BYTES {
            events.push(&mut block);
            made += 1;
        }
        out.write_all(&block)?;
        block.clear();
        if let Some(rate) = rate {
            out.flush()?;
            let due = (made as f64 / rate * 1e9) as u64;
            loop {
                let elapsed = clock.monotonic_nanos().saturating_sub(began);
                if elapsed >= due {
                    break;
                }
                std::thread::park_timeout(Duration::from_nanos(due - elapsed));
            }
        }
    }
    out.flush()
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use serde_json::Value;

    use super::*;

    fn made(mut events: impl Events, count: usize) -> (String, Vec<Value>) {
        let mut out = Vec::new();
        (0..count).for_each(|_| events.push(&mut out));
        let text = String::from_utf8(out).unwrap();
        let events = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        (text, events)
    }

    #[test]
    fn the_same_seed_gives_the_same_events() {
        assert_eq!(made(SmartHome::new(7), 100).0, made(SmartHome::new(7), 100).0);
        assert_ne!(made(SmartHome::new(7), 100).0, made(SmartHome::new(8), 100).0);
        assert_eq!(made(Articles::new(7), 100).0, made(Articles::new(7), 100).0);
        assert_ne!(made(Articles::new(7), 100).0, made(Articles::new(8), 100).0);
    }

    #[test]
    fn smart_home_events_are_as_published() {
        let (text, events) = made(SmartHome::new(1), 20_000);
        let distinct =
            |field: &str| events.iter().map(|event| event[field].to_string()).collect::<HashSet<_>>().len();
        assert_eq!((distinct("metro_area"), distinct("state")), (10, 9));
        assert_eq!((distinct("house_id"), distinct("device_id")), (21, 7));
        assert!(distinct("power_reading") > 19_000);
        let mut state_of: HashMap<String, String> = HashMap::new();
        for event in &events {
            let keys: Vec<_> = event.as_object().unwrap().keys().map(String::as_str).collect();
            assert_eq!(keys.len(), 6, "{keys:?}");
            let state = state_of.entry(event["metro_area"].to_string()).or_insert(event["state"].to_string());
            assert_eq!(*state, event["state"].to_string());
            let power = event["power_reading"].as_f64().unwrap();
            assert!((0.0..1000.0).contains(&power), "{power}");
            assert!((1..=21).contains(&event["house_id"].as_i64().unwrap()));
            assert!(event["is_peak"].is_boolean());
        }
        let high = events.iter().filter(|event| event["power_reading"].as_f64().unwrap() > 950.0).count();
        // One event in ten has the factor 10, and one of these in twenty is above 950.
        assert!((50..150).contains(&high), "{high}");
        let bytes = text.len() / events.len();
        assert!((105..130).contains(&bytes), "{bytes}");
    }

    #[test]
    fn articles_are_as_published() {
        let (text, events) = made(Articles::new(1), 3000);
        let fields = [
            "sha1",
            "title",
            "revision_ts",
            "contributor_username",
            "contributor_id",
            "comment",
            "model",
            "format",
            "text",
            "length",
        ];
        for event in &events {
            let object = event.as_object().unwrap();
            assert!(fields.iter().all(|field| object.contains_key(*field)) && object.len() == fields.len());
            let length = event["text"].as_str().unwrap().chars().count();
            assert_eq!(event["length"].as_u64().unwrap() as usize, length);
            assert!(event["revision_ts"].is_i64() && event["contributor_id"].is_i64());
        }
        let bytes = text.len() / events.len();
        assert!((3200..3800).contains(&bytes), "{bytes}");
        let packed = zstd::bulk::compress(text.as_bytes(), 3).unwrap().len();
        let ratio = text.len() as f64 / packed as f64;
        // English articles shrink to about a third.
        assert!((2.2..3.8).contains(&ratio), "{ratio}");
        let contributors: HashSet<_> = events.iter().map(|event| event["contributor_id"].as_i64()).collect();
        assert!(contributors.len() > 1000 && contributors.len() < 2950, "{}", contributors.len());
    }

    #[test]
    fn as_many_events_are_written_as_were_asked_for() {
        let clock = swiftwater_event::SystemClock::new();
        for (count, rate) in [(0, None), (1, None), (20_000, None), (30, Some(10_000.0))] {
            let mut out = Vec::new();
            write(&mut SmartHome::new(1), count, rate, &clock, &mut out).unwrap();
            assert_eq!(out.iter().filter(|byte| **byte == b'\n').count() as u64, count);
        }
    }
}
