//! Property tests of the sketches.
//!
//! Any split and any order of merging returns the same answers while they are exact, and answers within the stated bounds
//! beyond. Images decode as the original, and no bytes make decoding panic.

use std::collections::{HashMap, HashSet};

use proptest::prelude::*;
use swiftwater_sketch::{Distinct, Frequent, Quantiles, SketchSizes, hash_of_bytes, sample_figures};

/// Seeded chance, SplitMix64.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// Deals values to parts, makes a sketch of each, and merges these in any order and shape.
fn split_and_merged<T>(
    count: u64,
    seed: u64,
    new: impl Fn() -> T,
    mut update: impl FnMut(&mut T, u64),
    mut merge: impl FnMut(&mut T, &T),
) -> T {
    let mut chance = Chance(seed);
    let mut parts: Vec<T> = (0..1 + chance.below(8)).map(|_| new()).collect();
    for value in 0..count {
        let part = chance.below(parts.len() as u64) as usize;
        update(&mut parts[part], value);
    }
    while parts.len() > 1 {
        let from = chance.below(parts.len() as u64) as usize;
        let from = parts.swap_remove(from);
        let to = chance.below(parts.len() as u64) as usize;
        merge(&mut parts[to], &from);
    }
    parts.pop().expect("one is left")
}

fn distinct_of(count: u64, entries: u32, seed: u64, modulus: u64) -> Distinct {
    split_and_merged(
        count,
        seed,
        || Distinct::new(entries),
        |sketch, value| sketch.update(&(value % modulus).to_le_bytes()),
        |ours, theirs| ours.merge(theirs),
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn distinct_values_are_the_same_for_every_split(
        count in 0u64..6_000, modulus in 1u64..6_000, seeds: [u64; 2], entries in prop::sample::select(vec![32, 256, 1024]),
    ) {
        let [one, other] = seeds.map(|seed| distinct_of(count, entries, seed, modulus));
        // Estimates too, to the last bit.
        prop_assert_eq!(one.evaluate(), other.evaluate());
        prop_assert_eq!(one.is_estimated(), other.is_estimated());
        prop_assert_eq!(one.figures().bounds, other.figures().bounds);
        let true_count = count.min(modulus);
        prop_assert_eq!(one.is_estimated(), true_count > u64::from(entries));
        if !one.is_estimated() {
            prop_assert_eq!(one.evaluate(), true_count as f64);
        }
        let image = one.serialize();
        let read = Distinct::deserialize(&image).expect("an image is read back");
        prop_assert_eq!(read.evaluate(), one.evaluate());
        prop_assert_eq!(one.clone().evaluate(), one.evaluate());
    }

    #[test]
    fn merged_sketches_take_in_more(count in 0u64..3_000, more in 0u64..3_000, seed: u64) {
        let mut sketch = distinct_of(count, 256, seed, u64::MAX);
        (count..count + more).for_each(|value| sketch.update(&value.to_le_bytes()));
        prop_assert_eq!(sketch.evaluate(), distinct_of(count + more, 256, !seed, u64::MAX).evaluate());
    }

    #[test]
    fn quantiles_are_the_same_for_every_split_while_exact(numbers in prop::collection::vec(-50i32..50, 0..200), seed: u64) {
        let sketch = split_and_merged(
            numbers.len() as u64,
            seed,
            || Quantiles::new(200),
            |sketch, place| sketch.update(f64::from(numbers[place as usize])),
            |ours, theirs| ours.merge(theirs),
        );
        prop_assert!(!sketch.is_estimated());
        let mut sorted: Vec<f64> = numbers.iter().map(|&number| f64::from(number)).collect();
        sorted.sort_unstable_by(f64::total_cmp);
        let view = sketch.evaluate();
        for point in [-51.0, -1.0, 0.0, 0.5, 49.0, 60.0] {
            prop_assert_eq!(view.below(point), sorted.iter().filter(|&&number| number < point).count() as u64);
        }
        for share in [0.0, 0.1, 0.5, 0.99, 1.0] {
            let place = ((share * sorted.len() as f64) as usize).min(sorted.len().saturating_sub(1));
            prop_assert_eq!(view.quantile(share), sorted.get(place).copied());
        }
        prop_assert_eq!(sketch.least(), sorted.first().copied());
        prop_assert_eq!(sketch.greatest(), sorted.last().copied());
        let read = Quantiles::deserialize(&sketch.serialize()).expect("an image is read back");
        prop_assert_eq!(read.evaluate().quantile(0.3), view.quantile(0.3));
    }

    #[test]
    fn frequent_values_are_bounded_for_every_split(
        values in prop::collection::vec(0u64..300, 0..3_000), entries in prop::sample::select(vec![8, 64, 1024]), seed: u64,
    ) {
        // A few values come very often.
        let value_at = |place: u64| match values[place as usize] {
            common @ 0..100 => common % 3,
            rare => rare,
        };
        let sketch = split_and_merged(
            values.len() as u64,
            seed,
            || Frequent::new(entries),
            |sketch, place| sketch.update(&value_at(place).to_le_bytes()),
            |ours, theirs| ours.merge(theirs),
        );
        let mut counts: HashMap<Vec<u8>, u64> = HashMap::new();
        for place in 0..values.len() as u64 {
            *counts.entry(value_at(place).to_le_bytes().to_vec()).or_default() += 1;
        }
        for sketch in [&sketch, &Frequent::deserialize(&sketch.serialize()).expect("an image is read back")] {
            prop_assert_eq!(sketch.values_count(), values.len() as u64);
            prop_assert_eq!(sketch.is_estimated(), sketch.error() > 0);
            let found = sketch.evaluate(usize::MAX, 0);
            for item in &found {
                let count = counts[&item.value];
                prop_assert!(item.least <= count && count <= item.count && item.count <= item.least + sketch.error());
            }
            let known: HashSet<&Vec<u8>> = found.iter().map(|item| &item.value).collect();
            for (value, count) in &counts {
                prop_assert!(known.contains(value) || *count <= sketch.error());
            }
            if counts.len() <= entries as usize * 3 / 4 {
                prop_assert!(!sketch.is_estimated() && known.len() == counts.len());
            }
            prop_assert!(found.is_sorted_by_key(|item| std::cmp::Reverse(item.count)));
        }
    }

    #[test]
    fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..200), kind in prop::sample::select(vec![b'd', b'q', b'f'])) {
        let mut image = vec![1, kind];
        image.extend(bytes);
        let _ = (Distinct::deserialize(&image), Quantiles::deserialize(&image), Frequent::deserialize(&image));
    }

    #[test]
    fn damaged_images_are_read(count in 0u64..3_000, place: prop::sample::Index, byte: u8, cut: prop::sample::Index) {
        let mut images = [distinct_of(count, 64, 1, u64::MAX).serialize(), Vec::new(), Vec::new()];
        let (mut quantiles, mut frequent) = (Quantiles::new(64), Frequent::new(64));
        for value in 0..count {
            quantiles.update(value as f64);
            frequent.update(&value.to_le_bytes());
        }
        images[1] = quantiles.serialize();
        images[2] = frequent.serialize();
        for mut image in images {
            let at = place.index(image.len());
            image[at] = byte;
            for image in [&image[..], &image[..cut.index(image.len())]] {
                // A sketch read from damaged bytes must be usable, with any content.
                if let Ok(mut read) = Distinct::deserialize(image) {
                    read.update(b"x");
                    read.merge(&read.clone());
                    assert!(read.evaluate() >= 0.0 && read.figures().theta > 0.0);
                }
                if let Ok(mut read) = Quantiles::deserialize(image) {
                    read.update(1.0);
                    read.evaluate().quantile(0.5);
                }
                if let Ok(mut read) = Frequent::deserialize(image) {
                    read.update(b"x");
                    read.evaluate(10, 0);
                }
            }
        }
    }
}

#[test]
fn nothing_is_allocated_while_nothing_came() {
    let sizes = SketchSizes::default();
    assert_eq!(Distinct::new(sizes.distinct_entries).bytes(), 0);
    assert_eq!(Quantiles::new(sizes.quantile_k).bytes(), 0);
    assert_eq!(Frequent::new(sizes.top_entries).bytes(), 0);
}

#[test]
fn little_is_taken_up_while_little_came() {
    let (mut distinct, mut quantiles, mut frequent) =
        (Distinct::new(16384), Quantiles::new(2048), Frequent::new(1024));
    for value in 0u64..4 {
        distinct.update(&value.to_le_bytes());
        quantiles.update(value as f64);
        frequent.update(&value.to_le_bytes());
    }
    assert!(distinct.bytes() <= 64 && quantiles.bytes() <= 64, "{} {}", distinct.bytes(), quantiles.bytes());
    assert!(frequent.bytes() <= 512, "{}", frequent.bytes());
}

#[test]
fn default_sizes_are_exact_as_far_as_they_say() {
    let (mut distinct, mut quantiles, mut frequent) =
        (Distinct::new(16384), Quantiles::new(2048), Frequent::new(1024));
    (0u64..16384).for_each(|value| distinct.update(&value.to_le_bytes()));
    (0..2048).for_each(|value| quantiles.update(f64::from(value)));
    (0u64..768).for_each(|value| frequent.update(&value.to_le_bytes()));
    assert_eq!((distinct.evaluate(), distinct.is_estimated()), (16384.0, false));
    assert_eq!((quantiles.evaluate().quantile(0.5), quantiles.is_estimated()), (Some(1024.0), false));
    assert_eq!((frequent.distinct_count(), frequent.is_estimated()), (768, false));
    distinct.update(b"one more");
    assert!(distinct.is_estimated());
    let [(low, high), ..] = distinct.figures().bounds;
    assert!(low < 16385.0 && 16385.0 < high);
}

#[test]
fn a_million_distinct_values_are_counted_within_bounds() {
    let sketch = distinct_of(1_000_000, 16384, 7, u64::MAX);
    let figures = sketch.figures();
    let (low, high) = figures.bounds[2];
    assert!(low < 1e6 && 1e6 < high, "{figures:?}");
    assert!((high - low) / 1e6 < 0.05, "{figures:?}");
    assert!(figures.bytes < 1 << 20, "{figures:?}");
}

#[test]
fn a_million_numbers_have_their_ranks_within_bounds() {
    let mut chance = Chance(11);
    let mut numbers: Vec<f64> = (0..1_000_000).map(|_| (chance.below(1 << 40) as f64).sqrt()).collect();
    let sketch = split_and_merged(
        numbers.len() as u64,
        5,
        || Quantiles::new(2048),
        |sketch, place| sketch.update(numbers[place as usize]),
        |ours, theirs| ours.merge(theirs),
    );
    numbers.sort_unstable_by(f64::total_cmp);
    let (view, error) = (sketch.evaluate(), sketch.rank_error());
    assert!(sketch.is_estimated() && (0.0005..0.005).contains(&error), "{error}");
    assert_eq!((sketch.least(), sketch.greatest()), (numbers.first().copied(), numbers.last().copied()));
    for percent in 1..100 {
        let share = f64::from(percent) / 100.0;
        let value = view.quantile(share).expect("there are numbers");
        let rank = numbers.partition_point(|&number| number < value) as f64 / 1e6;
        // Coins are tossed: 99 of 100 ranks are within one error, and none of so few is off by three.
        assert!((rank - share).abs() < 3.0 * error, "{percent} %: {rank}, error {error}");
        let below = view.below(numbers[percent as usize * 10_000]) as f64 / 1e6;
        assert!((below - share).abs() < 3.0 * error, "{percent} %: {below}, error {error}");
    }
    let read = Quantiles::deserialize(&sketch.serialize()).expect("an image is read back");
    assert_eq!(read.evaluate().quantile(0.25), view.quantile(0.25));
    assert!(sketch.bytes() < 1 << 20);
}

#[test]
fn numbers_without_rank_are_passed_over() {
    let mut sketch = Quantiles::new(8);
    sketch.update_many([f64::NAN, f64::INFINITY, 1.0, f64::NEG_INFINITY, f64::NAN]);
    assert_eq!(sketch.count(), 3);
    assert_eq!(sketch.evaluate().quantile(0.5), Some(1.0));
    assert_eq!(Quantiles::new(8).evaluate().quantile(0.5), None);
    (0..100).for_each(|_| sketch.update(f64::NAN));
    assert!(!sketch.is_estimated());
}

#[test]
fn frequent_values_of_a_million_are_found() {
    let mut chance = Chance(3);
    let sketch = split_and_merged(
        1_000_000,
        9,
        || Frequent::new(1024),
        |sketch, place| {
            let value = if place % 4 == 0 { place / 4 % 10 } else { 10 + chance.below(1 << 40) };
            sketch.update(&value.to_le_bytes());
        },
        |ours, theirs| ours.merge(theirs),
    );
    let top = sketch.evaluate(10, 20_000);
    let found: HashSet<u64> =
        top.iter().map(|item| u64::from_le_bytes(item.value[..].try_into().expect("8 bytes"))).collect();
    assert_eq!(found, (0..10).collect());
    assert!(sketch.is_estimated() && sketch.error() < 3_500, "{}", sketch.error());
}

#[test]
fn a_sample_says_how_many_there_are() {
    let mut hashes: Vec<u64> = (0u64..10_000).map(|value| hash_of_bytes(&value.to_le_bytes())).collect();
    hashes.sort_unstable();
    let figures = sample_figures(&hashes[..512], Some(hashes[512]), 0);
    let (low, high) = figures.bounds[2];
    assert!(low < 10_000.0 && 10_000.0 < high && (high - low) < 4_000.0, "{figures:?}");
    assert!((figures.theta - 0.0512).abs() < 0.01, "{figures:?}");
    let all = sample_figures(&hashes[..512], None, 0);
    assert_eq!((all.theta, all.estimate, all.bounds[0]), (1.0, 512.0, (512.0, 512.0)));
}
