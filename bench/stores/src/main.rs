//! Measures keyed state on disk: the commits and reads of views, in fjall and in RocksDB.
//!
//! There are `KEYS` keys with states of some 30 bytes. Each commit has `CHANGED` random keys and the position, and is
//! durable when it returns, like a commit of a view that takes 600,000 updates a second. Then come reads of random keys,
//! with a cache that holds a part of them. Both have the same cache and the same memory for recent writes; neither
//! compresses. Each runs in a separate process, by turns, so that its memory can be measured.

mod rocks;

use std::{
    env, fs,
    path::Path,
    process::Command,
    time::Instant,
};

use rocks::Rocks;
use swiftwater_views::{ViewStore, ViewStoreOptions};

const KEYS: u64 = 10_000_000;
const CHANGED: u64 = 400_000;
const COMMITS: u64 = 40;
const READS: u64 = 1_000_000;
const CACHE_BYTES: usize = 256 << 20;
const BUFFER_BYTES: usize = 16 << 20;
const VIEW: u32 = 1;

enum Store {
    Fjall(ViewStore),
    Rocks(Rocks),
}

impl Store {
    fn open(name: &str, path: &Path) -> anyhow::Result<Store> {
        Ok(match name {
            "fjall" => Store::Fjall(ViewStore::open(path, ViewStoreOptions { cache_bytes: CACHE_BYTES as u64 })?),
            _ => Store::Rocks(Rocks::open(path, CACHE_BYTES, BUFFER_BYTES)?),
        })
    }

    fn commit(&self, changes: &[([u8; 12], [u8; 30])], position: u64) -> anyhow::Result<()> {
        let changes = changes.iter().map(|(key, state)| (&key[..], &state[..]));
        match self {
            Store::Fjall(store) => Ok(store.commit(VIEW, changes, position)?),
            Store::Rocks(store) => store.commit(changes, position),
        }
    }

    fn get(&self, key: &[u8]) -> anyhow::Result<bool> {
        Ok(match self {
            Store::Fjall(store) => store.get(VIEW, key)?.is_some(),
            Store::Rocks(store) => store.get(key)?.is_some(),
        })
    }
}

/// SplitMix64: the same numbers in each run.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn key(number: u64) -> [u8; 12] {
    let mut key = [0x20; 12];
    key[4..].copy_from_slice(&number.to_be_bytes());
    key
}

fn change(number: u64, seed: &mut u64) -> ([u8; 12], [u8; 30]) {
    let mut state = [0; 30];
    for piece in state.chunks_mut(8) {
        let bytes = (random(seed) % 100_000).to_be_bytes();
        piece.copy_from_slice(&bytes[8 - piece.len()..]);
    }
    (key(number), state)
}

fn disk_bytes(path: &Path) -> u64 {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(meta) if meta.is_dir() => disk_bytes(&entry.path()),
            Ok(meta) => meta.len(),
            Err(_) => 0,
        })
        .sum()
}

fn status(field: &str) -> u64 {
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(field)).unwrap_or_default();
    line.trim_start_matches(':').trim().trim_end_matches(" kB").parse().unwrap_or(0) / 1024
}

fn run(name: &str, dir: &Path) -> anyhow::Result<()> {
    let path = dir.join(name);
    let _ = fs::remove_dir_all(&path);
    let store = Store::open(name, &path)?;
    let mut seed = 7;
    // All keys are there first, as a view's are that has stood for a while.
    let filling = Instant::now();
    for first in (0..KEYS).step_by(CHANGED as usize) {
        let changes: Vec<_> = (first..KEYS.min(first + CHANGED)).map(|key| change(key, &mut seed)).collect();
        store.commit(&changes, first)?;
    }
    let filled = filling.elapsed().as_secs_f64();
    let mut times = Vec::new();
    for position in 0..COMMITS {
        let mut changes: Vec<_> = (0..CHANGED).map(|_| change(random(&mut seed) % KEYS, &mut seed)).collect();
        changes.sort_unstable();
        changes.dedup_by_key(|(key, _)| *key);
        let began = Instant::now();
        store.commit(&changes, KEYS + position)?;
        times.push(began.elapsed().as_secs_f64());
    }
    let sum: f64 = times.iter().sum();
    times.sort_by(f64::total_cmp);
    let began = Instant::now();
    for _ in 0..READS {
        anyhow::ensure!(store.get(&key(random(&mut seed) % KEYS))?, "a key is missing");
    }
    let read = began.elapsed().as_secs_f64();
    drop(store);
    let began = Instant::now();
    let store = Store::open(name, &path)?;
    anyhow::ensure!(store.get(&key(0))?, "a key is missing");
    let opened = began.elapsed().as_secs_f64();
    println!(
        "| {name} | {:.0} | {:.0} | {:.2} | {:.2} | {:.0} | {:.0} | {} | {:.3} |",
        KEYS as f64 / filled / 1e3,
        (COMMITS * CHANGED) as f64 / sum / 1e3,
        times[times.len() / 2],
        times.last().copied().unwrap_or(0.0),
        READS as f64 / read / 1e3,
        disk_bytes(&path) as f64 / f64::from(1 << 20),
        status("VmHWM"),
        opened,
    );
    drop(store);
    fs::remove_dir_all(&path)?;
    Ok(())
}

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    if let [name, dir] = &arguments[..] {
        return run(name, Path::new(dir));
    }
    let dir = tempfile::tempdir_in(".")?;
    println!(
        "{KEYS} keys of 12 bytes with states of 30; {COMMITS} durable commits of {CHANGED} random keys; {READS} random reads by one \
         thread; cache {} MiB\n",
        CACHE_BYTES >> 20
    );
    println!(
        "| store | filled, thousand keys/s | updates, thousand/s | commit, median s | slowest s | reads, thousand/s | disk MiB | \
         memory MiB | opened again, s |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    for _round in 0..2 {
        for name in ["fjall", "rocksdb"] {
            let status = Command::new(env::current_exe()?).arg(name).arg(dir.path()).status()?;
            anyhow::ensure!(status.success(), "{name} failed");
        }
    }
    Ok(())
}
