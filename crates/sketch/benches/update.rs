//! Measures updates per second of each sketch.
//!
//! Each is compared with a bare loop over the sketch of Apache DataSketches that it contains, for 50, 10000 and a million
//! different values.

use datasketches::{
    frequencies::FrequentItemsSketch,
    hash::value::raw_bytes,
    kll::{KllFloat, KllSketch},
    theta::ThetaSketchBuilder,
};
use divan::{Bencher, black_box, counter::ItemsCount};
use swiftwater_sketch::{Distinct, Frequent, Quantiles};

fn main() {
    divan::main();
}

const UPDATES: u64 = 1_000_000;

/// Numbers of distinct values.
const COUNTS: [u64; 3] = [50, 10_000, 1_000_000];

/// Keys as groups and combinations have them: a tag, a length, a text.
fn keys(count: u64) -> Vec<Vec<u8>> {
    (0..UPDATES).map(|number| format!("\u{5}\u{d}\0\0\0user-{:08}", number % count).into_bytes()).collect()
}

fn numbers(count: u64) -> Vec<f64> {
    (0..UPDATES)
        .map(|number| (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as f64 % count as f64)
        .collect()
}

#[divan::bench(args = COUNTS)]
fn distinct_here(bencher: Bencher<'_, '_>, count: u64) {
    let keys = keys(count);
    bencher.counter(ItemsCount::new(UPDATES)).bench_local(|| {
        let mut sketch = Distinct::new(16384);
        sketch.update_many(keys.iter().map(Vec::as_slice));
        black_box(sketch)
    });
}

#[divan::bench(args = COUNTS)]
fn distinct_bare(bencher: Bencher<'_, '_>, count: u64) {
    let keys = keys(count);
    bencher.counter(ItemsCount::new(UPDATES)).bench_local(|| {
        let mut sketch = ThetaSketchBuilder::default().lg_k(14).build().expect("a sketch");
        keys.iter().for_each(|key| sketch.update(raw_bytes::from_slice(key)));
        black_box(sketch)
    });
}

#[divan::bench(args = COUNTS)]
fn quantiles_here(bencher: Bencher<'_, '_>, count: u64) {
    let numbers = numbers(count);
    bencher.counter(ItemsCount::new(UPDATES)).bench_local(|| {
        let mut sketch = Quantiles::new(2048);
        sketch.update_many(numbers.iter().copied());
        black_box(sketch)
    });
}

#[divan::bench(args = COUNTS)]
fn quantiles_bare(bencher: Bencher<'_, '_>, count: u64) {
    let numbers = numbers(count);
    bencher.counter(ItemsCount::new(UPDATES)).bench_local(|| {
        let mut sketch = KllSketch::new(2048).expect("a sketch");
        for number in &numbers {
            sketch.update(KllFloat::<f64>::new(*number).expect("a number"));
        }
        black_box(sketch)
    });
}

#[divan::bench(args = COUNTS)]
fn frequent_here(bencher: Bencher<'_, '_>, count: u64) {
    let keys = keys(count);
    bencher.counter(ItemsCount::new(UPDATES)).bench_local(|| {
        let mut sketch = Frequent::new(1024);
        sketch.update_many(keys.iter().map(Vec::as_slice));
        black_box(sketch)
    });
}

#[divan::bench(args = COUNTS)]
fn frequent_bare(bencher: Bencher<'_, '_>, count: u64) {
    let keys = keys(count);
    bencher.counter(ItemsCount::new(UPDATES)).bench_local(|| {
        let mut sketch = FrequentItemsSketch::<Vec<u8>>::new(1024).expect("a sketch");
        keys.iter().for_each(|key| sketch.update_ref(&key[..]));
        black_box(sketch)
    });
}
