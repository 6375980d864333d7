//! Bullet's dialect: the same answer for any number of shards and any cut of the input.
//!
//! That these answers are Bullet's is held against Bullet's own; here the texts are random, and the witness is one
//! shard that sees the whole input at once.

use bytes::Bytes;
use swiftwater_engine::InputSource;
use swiftwater_event::Path;
use swiftwater_lang::{Dialect, ParseOptions, parse};
use swiftwater_testkit::{QueryTexts, Wide, fewest, oracle::GotEmit};

use crate::{
    cases::{Timed, seeds, show, timed_events},
    input::{Dribble, answer, options},
};

/// What of the language Bullet has too.
const WIDE: Wide =
    Wide { views: true, sketches: true, outer: true, windows: true, event_time: false, sessions: false };

fn check(text: &str, events: &[Timed], shards: usize, step: usize) -> Result<(), String> {
    let options = |shards| {
        let mut options = options(shards, Some(Path::field("at")));
        options.dialect = Dialect::Bullet;
        options
    };
    let bytes: Vec<u8> = events.iter().flat_map(|(_, event)| event.bytes().chain([b'\n'])).collect();
    let source = || InputSource::Bytes(Bytes::from(bytes.clone()));
    // What tells only of the end comes with the last window, where that closes there.
    let told = |mut emits: Vec<GotEmit>| {
        emits.retain(|(window, records)| window.is_some() || !records.is_empty());
        emits
    };
    let expected = answer(source(), text, &options(1)).map(told);
    let reader = Dribble { bytes: bytes.clone(), at: 0, step };
    let pieces = answer(InputSource::Reader(Box::new(reader)), text, &options(shards)).map(told);
    if pieces == expected {
        return Ok(());
    }
    Err(format!("one shard answers\n{expected:?}\n{shards} answer\n{pieces:?}"))
}

#[test]
fn bullet_answers_do_not_depend_on_shards_or_cuts() {
    let mut asked = 0;
    for seed in seeds(1500) {
        let text = QueryTexts::new(seed).wide(WIDE);
        if parse(&text, &ParseOptions::new(Dialect::Bullet, 0)).is_err() {
            continue;
        }
        asked += 1;
        let events = timed_events(seed, 0, 60);
        let (shards, step) = (1 + seed as usize % 3, 1 + (seed as usize * 37) % 500);
        if check(&text, &events, shards, step).is_err() {
            let few = fewest(&events, |events| check(&text, events, shards, step).is_err());
            let why = check(&text, &few, shards, step).err().unwrap_or_else(|| "not always".to_owned());
            let events: Vec<&str> = few.iter().map(|(_, event)| &**event).collect();
            panic!("seed {seed}: {text}\n{why}\nevents:\n{}", events.join("\n"));
        }
    }
    show(&format!("{asked} of Bullet's queries do not depend on shards"));
    assert!(asked > 0, "none of the texts is Bullet's");
}
