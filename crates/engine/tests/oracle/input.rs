//! Tests one query over an input that ends.

use std::{ops::ControlFlow, sync::Arc};

use bytes::Bytes;
use swiftwater_engine::{EngineConfig, InputOptions, InputSource, run_input};
use swiftwater_event::{CheckLimits, Path};
use swiftwater_lang::{
    Dialect, ParseOptions, parse,
    plan::{Query, Window},
};
use swiftwater_testkit::{
    QueryTexts, TestClock, fewest,
    oracle::{self, Emits, QueryLifetime, ReceivedEmit},
};

use crate::cases::{Timed, WIDE, got, seeds, show, timed_events};

pub(crate) fn options(shards: usize, time_field: Option<Path>) -> InputOptions {
    InputOptions {
        config: EngineConfig { shards, ..EngineConfig::default() },
        check: CheckLimits::default(),
        dialect: Dialect::Native,
        schema: None,
        types: None,
        parameters: Vec::new(),
        time_field,
        times: false,
        ..InputOptions::default()
    }
}

/// A reader that gives a few bytes at a time.
pub(crate) struct Dribble {
    pub(crate) bytes: Vec<u8>,
    pub(crate) at: usize,
    pub(crate) step: usize,
}

impl std::io::Read for Dribble {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.step.min(buffer.len()).min(self.bytes.len() - self.at);
        buffer[..count].copy_from_slice(&self.bytes[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }
}

pub(crate) fn answer(
    source: InputSource,
    text: &str,
    options: &InputOptions,
) -> Result<Vec<ReceivedEmit>, String> {
    let mut emits = Vec::new();
    let mut take = |emit| {
        emits.push(got(&emit));
        ControlFlow::Continue(())
    };
    let clock = Arc::new(TestClock::at(0));
    let summary = run_input(source, text, options, clock, &mut |_| {}, &mut take)
        .map_err(|error| format!("it is refused: {error}"))?;
    assert_eq!(summary.rejected, 0);
    Ok(emits)
}

/// The query planned, where the language has all of it; and what it should emit, where the oracle knows it.
fn expected(text: &str, events: &[Timed]) -> Option<(Query, Emits)> {
    let plan = parse(text, &ParseOptions::new(Dialect::Native, 0)).ok()?.query;
    let last = events.last().map_or(0, |(at, _)| *at);
    let life = QueryLifetime { start: 0, end: last, emits_empty: false };
    let texts: Vec<&str> = events.iter().map(|(_, text)| &**text).collect();
    let events: Vec<_> = events.iter().map(|(at, _)| *at).zip(oracle::read(&texts)).collect();
    let emits = oracle::emits(&plan, life, &events).ok()?;
    Some((plan, emits))
}

fn check(text: &str, events: &[Timed], shards: usize, step: usize) -> Result<bool, String> {
    let Some((plan, expected)) = expected(text, events) else { return Ok(false) };
    // Without windows time does not matter, nor whether there is any.
    let has_time = plan.window != Window::None || step.is_multiple_of(2);
    let options = options(shards, has_time.then(|| Path::field("at")));
    let bytes: Vec<u8> = events.iter().flat_map(|(_, event)| event.bytes().chain([b'\n'])).collect();
    let whole = answer(InputSource::Bytes(Bytes::from(bytes.clone())), text, &options)?;
    expected.check(&whole).map_err(|error| error.to_string())?;
    let pieces = answer(InputSource::Reader(Box::new(Dribble { bytes, at: 0, step })), text, &options)?;
    expected.check(&pieces).map_err(|error| format!("in pieces: {error}"))?;
    Ok(true)
}

fn check_many(short: u64, known_of_ten: u64, mut text_of: impl FnMut(&mut QueryTexts) -> String) {
    let (mut done, mut differing) = (0, Vec::new());
    for seed in seeds(short) {
        let events = timed_events(seed, 0, 60);
        let text = text_of(&mut QueryTexts::new(seed));
        let (shards, step) = (1 + seed as usize % 3, 1 + (seed as usize * 37) % 500);
        match check(&text, &events, shards, step) {
            Ok(known) => done += u64::from(known),
            Err(_) => {
                let few = fewest(&events, |events| check(&text, events, shards, step).is_err());
                let why = check(&text, &few, shards, step).expect_err("it fails");
                let events: Vec<&str> = few.iter().map(|(_, event)| &**event).collect();
                let events = events.join("\n");
                differing.push(format!("seed {seed}, {shards} shards: {text}\n{why}\nevents:\n{events}"));
                if differing.len() == 10 {
                    break;
                }
            }
        }
    }
    show(&format!("{done} queries over inputs were as they should be"));
    assert!(differing.is_empty(), "{}", differing.join("\n\n"));
    let asked = seeds(short).count() as u64;
    assert!(done * 10 >= asked * known_of_ten, "only {done} of {asked} queries could be compared");
}

#[test]
fn answers_are_those_of_the_oracle() {
    check_many(300, 9, QueryTexts::query);
}

#[test]
fn answers_of_the_whole_language_are_those_of_the_oracle() {
    check_many(800, 9, |texts| texts.wide(WIDE));
}
