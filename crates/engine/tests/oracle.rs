//! The engine's answers against those of an independent evaluator over the same events, for any number of shards and
//! any cut of the input.

use std::{ops::ControlFlow, sync::Arc};

use bytes::Bytes;
use serde_json::{Map, Value as Json};
use swiftwater_engine::{Emit, EngineConfig, InputOptions, InputSource, run_input};
use swiftwater_event::{CheckLimits, SystemClock};
use swiftwater_lang::{Dialect, ParseOptions, parse};
use swiftwater_testkit::{MixedEvents, QueryTexts, fewest, oracle};

fn options(shards: usize) -> InputOptions {
    InputOptions {
        config: EngineConfig { shards, ..EngineConfig::default() },
        check: CheckLimits::default(),
        dialect: Dialect::Native,
        schema: None,
        time_field: None,
        times: false,
    }
}

/// A reader that gives a few bytes at a time.
struct Dribble {
    bytes: Vec<u8>,
    at: usize,
    step: usize,
}

impl std::io::Read for Dribble {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.step.min(buffer.len()).min(self.bytes.len() - self.at);
        buffer[..count].copy_from_slice(&self.bytes[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }
}

fn answer(source: InputSource, query: &str, shards: usize) -> Vec<Map<String, Json>> {
    let mut records = Vec::new();
    let mut take = |emit: Emit| {
        for line in emit.records.text.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
            let Json::Object(record) = serde_json::from_slice(line).expect("a record is JSON") else {
                panic!("a record is an object")
            };
            records.push(record);
        }
        ControlFlow::Continue(())
    };
    let summary =
        run_input(source, query, &options(shards), Arc::new(SystemClock::new()), &mut |_| {}, &mut take)
            .unwrap_or_else(|error| panic!("{query}: {error}"));
    assert_eq!(summary.rejected, 0);
    records
}

fn check(query: &str, events: &[String], shards: usize, step: usize) -> Result<(), String> {
    let plan = parse(query, &ParseOptions::new(Dialect::Native, 0))
        .map_err(|errors| format!("{query}: {errors}"))?;
    let Ok(expected) = oracle::answer(&plan.query, &oracle::read(events)) else { return Ok(()) };
    let text: Vec<u8> = events.iter().flat_map(|event| event.bytes().chain([b'\n'])).collect();
    let whole = answer(InputSource::Bytes(Bytes::from(text.clone())), query, shards);
    expected.check(&whole).map_err(|error| format!("{query}\n{error}"))?;
    let pieces = answer(InputSource::Reader(Box::new(Dribble { bytes: text, at: 0, step })), query, shards);
    expected.check(&pieces).map_err(|error| format!("in pieces: {query}\n{error}"))
}

#[test]
fn answers_are_those_of_the_oracle() {
    for seed in 0..400 {
        let events = MixedEvents::new(seed).events(60);
        let query = QueryTexts::new(seed).query();
        let (shards, step) = (1 + seed as usize % 3, 1 + (seed as usize * 37) % 500);
        if check(&query, &events, shards, step).is_err() {
            let few = fewest(&events, |events| check(&query, events, shards, step).is_err());
            panic!("seed {seed}: {:?}\nevents:\n{}", check(&query, &few, shards, step), few.join("\n"));
        }
    }
}

/// A reader that gives some text, and then nothing for as long as somebody holds the other end.
struct Waiting {
    text: Option<Vec<u8>>,
    end: std::sync::mpsc::Receiver<()>,
}

impl std::io::Read for Waiting {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let Some(text) = self.text.take() else {
            let _ = self.end.recv();
            return Ok(0);
        };
        buffer[..text.len()].copy_from_slice(&text);
        Ok(text.len())
    }
}

#[test]
fn an_input_that_pauses_is_answered_so_far_and_limit_ends_it() {
    let (end, pause) = std::sync::mpsc::channel();
    let text = b"{\"a\":1}\n{\"a\":2}\n{\"a\":3}\n".to_vec();
    let source = InputSource::Reader(Box::new(Waiting { text: Some(text), end: pause }));
    let records = answer(source, "SELECT a FROM STREAM() LIMIT 2", 2);
    assert_eq!(records.len(), 2);
    drop(end);
}
