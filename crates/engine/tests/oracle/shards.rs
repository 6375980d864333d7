//! Tests that the answer is the same for any number of shards and any cut of the input, where the oracle does not know the
//! answer. These are queries in Bullet's dialect, and event times without limits.
//!
//! Other tests compare Bullet's dialect with Bullet's own answers. Here the queries are random, and the reference is one
//! shard that sees the whole input at once.

use bytes::Bytes;
use swiftwater_engine::InputSource;
use swiftwater_event::Path;
use swiftwater_lang::{Dialect, ParseOptions, parse};
use swiftwater_testkit::{LanguageFeatures, MixedEvents, QueryTexts, Rng, fewest, oracle::ReceivedEmit};

use crate::{
    cases::{Timed, WIDE, seeds, show, timed_events},
    input::{Dribble, answer, options},
};

/// Features of the language that Bullet has, too.
const BULLET: LanguageFeatures = LanguageFeatures {
    views: true,
    sketches: true,
    outer: true,
    windows: true,
    event_time: false,
    sessions: false,
};

fn check(dialect: Dialect, text: &str, events: &[Timed], shards: usize, step: usize) -> Result<(), String> {
    let options = |shards| {
        let mut options = options(shards, Some(Path::field("at")));
        options.dialect = dialect;
        options
    };
    // An emit that only reports the end comes with the last window, if that closes there.
    let told = |mut emits: Vec<ReceivedEmit>| {
        emits.retain(|(window, records)| window.is_some() || !records.is_empty());
        if emits.iter().all(|(window, _)| window.is_none()) {
            // Without windows rows come in as many emits as there are batches.
            let records = emits.into_iter().flat_map(|(_, records)| records).collect();
            return vec![(None, records)];
        }
        emits
    };
    let bytes: Vec<u8> = events.iter().flat_map(|(_, event)| event.bytes().chain([b'\n'])).collect();
    let whole = InputSource::Bytes(Bytes::from(bytes.clone()));
    let expected = answer(whole, text, &options(1)).map(told);
    let reader = Dribble { bytes, at: 0, step };
    let pieces = answer(InputSource::Reader(Box::new(reader)), text, &options(shards)).map(told);
    if pieces == expected {
        return Ok(());
    }
    Err(format!("one shard answers\n{expected:?}\n{shards} answer\n{pieces:?}"))
}

fn check_many(
    dialect: Dialect,
    wide: LanguageFeatures,
    short: u64,
    mut events: impl FnMut(u64) -> Vec<Timed>,
) {
    let mut asked = 0;
    for seed in seeds(short) {
        let text = QueryTexts::new(seed).wide(wide);
        if parse(&text, &ParseOptions::new(dialect, 0)).is_err() {
            continue;
        }
        asked += 1;
        let events = events(seed);
        let (shards, step) = (1 + seed as usize % 3, 1 + (seed as usize * 37) % 500);
        if check(dialect, &text, &events, shards, step).is_err() {
            let few = fewest(&events, |events| check(dialect, &text, events, shards, step).is_err());
            let why = check(dialect, &text, &few, shards, step);
            let why = why.err().unwrap_or_else(|| "it does not always fail".to_owned());
            let events: Vec<&str> = few.iter().map(|(_, event)| &**event).collect();
            panic!("seed {seed}: {text}\n{why}\nevents:\n{}", events.join("\n"));
        }
    }
    show(&format!("{asked} queries do not depend on shards"));
    assert!(asked > 0, "none of the texts is of this dialect");
}

#[test]
fn bullet_answers_do_not_depend_on_shards_or_cuts() {
    check_many(Dialect::Bullet, BULLET, 1500, |seed| timed_events(seed, 0, 60));
}

#[test]
fn events_own_times_may_lie_anywhere() {
    let wide = LanguageFeatures { views: false, sketches: false, outer: false, ..WIDE };
    check_many(Dialect::Native, wide, 300, |seed| {
        let mut rng = Rng::new(seed);
        let mut mixed = MixedEvents::new(seed);
        let ends = [i64::MIN, i64::MIN + 1, -1_000_000, -1, 0, 1, 1_700_000_000_000, i64::MAX - 1, i64::MAX];
        let event = |at: i64| {
            // Text can say only years of four digits.
            let near = rng.pick(&ends).saturating_add(rng.below(3000) as i64 - 1500);
            let event = mixed.event();
            (at * 10, format!("{{\"at\":{},\"ts\":{near},{}", at * 10, &event.replacen('{', "", 1)))
        };
        (0..30)
            .map(event)
            .filter(|(_, text)| serde_json::from_str::<serde_json::Value>(text).is_ok())
            .collect()
    });
}
