//! Measures how many bytes a second one core checks and decodes.
//!
//! The events are flat and have 92 fields (62 short strings, 4 longs, 23 small maps, 3 small lists of maps; 1.85 KB
//! each).

#![allow(clippy::unwrap_used, missing_docs, reason = "a benchmark")]

use std::fmt::Write;

use bytes::Bytes;
use divan::{Bencher, counter::BytesCount};
use swiftwater_event::{CheckLimits, DecodePlan, Decoder, EventBatch, Path, Type, Want, check_block};

const EVENTS: usize = 1000;

fn main() {
    divan::main();
}

/// Events with values that differ from one to the next, made the same way each time.
fn text() -> Bytes {
    let mut state = 0x2545_f491_4f6c_dd1du64;
    let mut random = move |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let mut text = String::new();
    for _ in 0..EVENTS {
        text.push('{');
        for field in 0..62 {
            let len = random(9) as usize;
            let value = &format!("{:016x}", random(u64::MAX))[..len];
            write!(text, "\"str_{field}\":\"{value}\",").unwrap();
        }
        for field in 0..4 {
            write!(text, "\"long_{field}\":{},", random(1 << 40)).unwrap();
        }
        for field in 0..23 {
            write!(text, "\"map_{field}\":{{\"k\":\"{}\",\"v\":\"{}\"}},", random(99), random(999)).unwrap();
        }
        for field in 0..3 {
            let comma = if field < 2 { "," } else { "}\n" };
            write!(
                text,
                "\"list_{field}\":[{{\"a\":\"{}\"}},{{\"a\":\"{}\"}}]{comma}",
                random(99),
                random(99)
            )
            .unwrap();
        }
    }
    text.into()
}

fn batch() -> EventBatch {
    let checked = check_block(text(), &CheckLimits::default(), 1);
    assert_eq!((checked.rejected, checked.batch.len()), (0, EVENTS));
    checked.batch
}

#[divan::bench]
fn check(bencher: Bencher<'_, '_>) {
    let text = text();
    bencher
        .counter(BytesCount::new(text.len()))
        .bench_local(|| check_block(text.clone(), &CheckLimits::default(), 1).batch.len());
}

#[divan::bench(args = [1, 2, 4, 5, 20, 50])]
fn decode_strings(bencher: Bencher<'_, '_>, paths: usize) {
    run(bencher, (0..paths).map(|n| (format!("str_{n}"), Type::STRING)));
}

#[divan::bench]
fn select_few(bencher: Bencher<'_, '_>) {
    let batch = batch();
    bencher.counter(BytesCount::new(batch.bytes().len())).bench_local(|| {
        let mut few = swiftwater_event::EventBatchBuilder::default();
        (0..batch.len()).for_each(|row| few.push(&batch, row));
        few.finish()
    });
}

#[divan::bench(args = [1, 50])]
fn decode_any(bencher: Bencher<'_, '_>, paths: usize) {
    run(bencher, (0..paths).map(|n| (format!("str_{n}"), Type::Any)));
}

#[divan::bench]
fn decode_longs_and_map_parts(bencher: Bencher<'_, '_>) {
    let longs = (0..4).map(|n| (format!("long_{n}"), Type::LONG));
    run(bencher, longs.chain((0..4).map(|n| (format!("map_{n}.v"), Type::STRING))));
}

fn run(bencher: Bencher<'_, '_>, wants: impl Iterator<Item = (String, Type)>) {
    let batch = batch();
    let plan = DecodePlan::new(wants.map(|(path, ty)| Want { path: Path::parse(&path).unwrap(), ty }));
    let mut decoder = Decoder::new();
    bencher.counter(BytesCount::new(batch.bytes().len())).bench_local(|| decoder.decode(&batch, &plan));
}
