//! Measures how many events a second one core checks against declared columns.
//!
//! The events are smart-home events of six fields (some 130 bytes), all of them good. They are checked with and without a
//! condition. For comparison, the same events are decoded only, and converted to inferred columns.

#![allow(clippy::unwrap_used, missing_docs, reason = "a benchmark")]

use std::fmt::Write;

use bytes::Bytes;
use divan::{Bencher, counter::ItemsCount};
use swiftwater_event::{CheckLimits, DecodePlan, Decoder, EventBatch, Path, Type, Want, check_block};
use swiftwater_lang::{Dialect, ParseOptions, ddl::Ddl, parse_ddl};
use swiftwater_live::columns::{ColumnsScratch, InferredColumns, StreamColumns};

const EVENTS: usize = 8192;

const COLUMNS: &str = "house_id INT NOT NULL, metro_area STRING NOT NULL, state STRING, device_id INT, \
                       power_reading FLOAT, is_peak BOOLEAN";

fn main() {
    divan::main();
}

/// Events with values that differ from one to the next, made the same way each time.
fn batch() -> EventBatch {
    const METROS: [(&str, &str); 4] = [
        ("Seattle", "Washington"),
        ("San Francisco", "California"),
        ("Boston", "Massachusetts"),
        ("Denver", "Colorado"),
    ];
    let mut state = 0x2545_f491_4f6c_dd1du64;
    let mut random = move |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let mut text = String::new();
    for _ in 0..EVENTS {
        let (metro, home) = METROS[random(4) as usize];
        let (house, device, peak) = (1 + random(21), 1 + random(7), random(2) == 0);
        let power = random(1 << 24) as f32 / (1 << 24) as f32 * (1 + random(10)) as f32 * 100.0;
        writeln!(
            text,
            "{{\"house_id\":{house},\"metro_area\":\"{metro}\",\"state\":\"{home}\",\"device_id\":{device},\
             \"power_reading\":{power},\"is_peak\":{peak}}}"
        )
        .unwrap();
    }
    let batch = check_block(text.into(), &CheckLimits::default(), 1).batch;
    assert_eq!(batch.len(), EVENTS);
    batch
}

fn columns(items: &str) -> StreamColumns {
    let text = format!("CREATE STREAM s ({items})");
    let ddl = parse_ddl(&text, &ParseOptions::new(Dialect::Native, 0)).unwrap();
    let Some(Ddl::CreateStream(stream)) = ddl else { panic!("{text}") };
    StreamColumns::new(&stream).unwrap()
}

fn accept(bencher: Bencher<'_, '_>, items: &str) {
    let (batch, columns, mut scratch) = (batch(), columns(items), ColumnsScratch::default());
    bencher.counter(ItemsCount::new(EVENTS)).bench_local(|| {
        let accepted = columns.accept(&batch, 0, &mut scratch);
        assert!(accepted.rejected.is_empty() && accepted.text_needed.is_none());
        accepted
    });
}

#[divan::bench]
fn check_block_alone(bencher: Bencher<'_, '_>) {
    let bytes: Bytes = batch().bytes().clone();
    bencher
        .counter(ItemsCount::new(EVENTS))
        .bench_local(|| check_block(bytes.clone(), &CheckLimits::default(), 1).batch.len());
}

#[divan::bench]
fn decode_alone(bencher: Bencher<'_, '_>) {
    let fields = [
        ("house_id", Type::INTEGER),
        ("metro_area", Type::STRING),
        ("state", Type::STRING),
        ("device_id", Type::INTEGER),
        ("power_reading", Type::FLOAT),
        ("is_peak", Type::BOOLEAN),
    ];
    let plan = DecodePlan::new(fields.map(|(name, ty)| Want { path: Path::field(name), ty }));
    let (batch, mut decoder) = (batch(), Decoder::new());
    bencher.counter(ItemsCount::new(EVENTS)).bench_local(|| decoder.decode(&batch, &plan));
}

#[divan::bench]
fn accept_declared(bencher: Bencher<'_, '_>) {
    accept(bencher, COLUMNS);
}

#[divan::bench]
fn accept_with_a_condition(bencher: Bencher<'_, '_>) {
    accept(bencher, &format!("{COLUMNS}, CHECK (power_reading >= 0)"));
}

#[divan::bench]
fn accept_inferred(bencher: Bencher<'_, '_>) {
    let (batch, mut scratch) = (batch(), ColumnsScratch::default());
    let first = InferredColumns::new(Vec::new(), 100).accept(&batch, &mut scratch);
    let columns = first.grown.unwrap();
    bencher.counter(ItemsCount::new(EVENTS)).bench_local(|| {
        let inferred = columns.accept(&batch, &mut scratch);
        assert!(inferred.grown.is_none());
        inferred
    });
}
