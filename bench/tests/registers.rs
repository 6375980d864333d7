//! Measures the gain of the widest registers, as a ratio of times in one run. Callgrind, which counts the instructions of
//! the rest (`instructions.rs`), does not know AVX-512.
//!
//! It requires a release build and a machine with AVX-512; elsewhere it reports that it is skipped.

#![allow(clippy::unwrap_used, clippy::print_stderr, clippy::disallowed_methods, reason = "a test")]

use std::{hint::black_box, time::Instant};

use swiftwater_event::{CheckLimits, EventBatch, check_block, measure::StructuralPass};
use swiftwater_testkit::published::PublishedEvents;

/// The factor by which AVX-512 must be faster than AVX2, at least: with the grammar checked, and without.
const LEAST: [f64; 2] = [2.0, 1.15];
const ROUNDS: usize = 15;

fn batches() -> Vec<EventBatch> {
    let mut events = PublishedEvents::new(3, 0, 0.0);
    let batch = |_| {
        let mut text = Vec::new();
        events.write(140, &mut text);
        check_block(text.into(), &CheckLimits::default(), 1).batch
    };
    (0..16).map(batch).collect()
}

/// The shortest of some times, each of all batches, in seconds.
fn shortest(work: &mut dyn FnMut(&EventBatch), batches: &[EventBatch], so_far: f64) -> f64 {
    let start = Instant::now();
    batches.iter().for_each(work);
    so_far.min(start.elapsed().as_secs_f64())
}

#[test]
fn the_widest_registers_are_faster_than_the_next() {
    let passes: Vec<StructuralPass> = StructuralPass::all().collect();
    let found = |name: &str| passes.iter().find(|pass| pass.name() == name).copied();
    let (false, Some(wide), Some(narrow)) = (cfg!(debug_assertions), found("avx512"), found("avx2")) else {
        eprintln!("skipped: registers: no release build, or no AVX-512");
        return;
    };
    let batches = batches();
    let mut seconds = [[f64::INFINITY; 2]; 2];
    for _ in 0..ROUNDS {
        for (pass, [check, bits]) in [wide, narrow].into_iter().zip(&mut seconds) {
            let mut read = |batch: &EventBatch| {
                black_box(pass.check(batch));
            };
            *check = shortest(&mut read, &batches, *check);
            let mut mark = |batch: &EventBatch| {
                black_box(pass.bits(batch));
            };
            *bits = shortest(&mut mark, &batches, *bits);
        }
    }
    let [wide, narrow] = seconds;
    let gains = [narrow[0] / wide[0], narrow[1] / wide[1]];
    eprintln!("AVX-512 beside AVX2: {:.2} times as fast with the check, {:.2} without", gains[0], gains[1]);
    assert!(gains.iter().zip(LEAST).all(|(gain, least)| *gain >= least), "{gains:?}, not {LEAST:?}");
}
