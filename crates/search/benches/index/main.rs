//! Compares search indexes with bare tantivy over the same rows, tokens and fields: building, merging, size, and exact counts.
//!
//! `cargo bench -p swiftwater-search --bench index [-- PART]`, where the part is `logs`, `articles` or `counts`; all without
//! it. For a profiler, `-- profile building logs` only builds our indexes, as does `articles` for `logs`; `merging` merges them.
//! `-- rows FOLDER` writes the rows for other programs.
//!
//! - Log lines of 350 bytes: `message` and `stack` are TEXT, six columns are ID.
//! - Articles of 3.3 KB: `title`, `contributor_username`, `comment` and `text` are TEXT, four columns are ID.
//!
//! Both sides analyze the texts with our analyzer. tantivy has documents that were made before, one thread and as much memory,
//! stores nothing, and merges its segments into one. Ours builds as the engine does: of Arrow columns, in runs in scratch files
//! when the memory is used up, to the bytes of a file. Rates are by turns in one process, by its user time and by wall
//! time.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "the table is what this is for")]
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the machine's clock")]

mod peer;
mod rows;

use std::{
    fs,
    io::{self, Write},
    ops::Range,
    sync::Arc,
    time::{Duration, Instant},
};

use swiftwater_search::{
    BuildLimits, Companion, DataFile, IndexBuilder, MergedFields, ReadAhead, ReadBytes, ScratchFiles,
    Segment, merge, write_companion,
};
use swiftwater_text::{SearchField, TableSearch, query::Operator};

use self::{
    peer::{PeerIndex, documents},
    rows::{Rows, articles, log_lines},
};

/// As in the engine.
const MEMORY_BYTES_MAX: usize = 128 << 20;
const ROUNDS: usize = 5;
/// Rounds for a profiler, which make the time of generating rows small.
const PROFILED_ROUNDS: usize = 20;
/// Files that are merged into one.
const MERGED_FILES: usize = 8;
const LOG_LINES: usize = 400_000;
const ARTICLES: usize = 24_000;
/// Files of which rows are counted, and their lines in all.
const COUNTED_FILES: usize = 30;
const COUNTED_LINES: usize = 1_000_000;
const COUNTS: usize = 201;
/// The name of the definition of the index.
const DEFINITION: &str = "d1";

/// The bytes of a file in memory.
#[derive(Debug)]
struct Bytes(Vec<u8>);

impl ReadBytes for Bytes {
    fn length(&self) -> usize {
        self.0.len()
    }

    fn read(&self, range: Range<usize>) -> io::Result<Vec<u8>> {
        Ok(self.0[range].to_vec())
    }
}

/// Scratch files in the directory for temporary files.
#[derive(Debug)]
struct Scratch;

impl ScratchFiles for Scratch {
    fn create(&self) -> io::Result<fs::File> {
        tempfile::tempfile()
    }
}

fn limits() -> BuildLimits {
    BuildLimits { memory_bytes_max: MEMORY_BYTES_MAX, scratch: Arc::new(Scratch) }
}

/// Processor time in user mode, of all threads, and wall time.
#[derive(Debug, Clone, Copy, Default)]
struct Cost {
    user: Duration,
    wall: Duration,
}

/// The user time of the process so far, to 10 ms.
fn user_time() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").expect("Linux has it");
    let (_, fields) = stat.rsplit_once(") ").expect("the name is in brackets");
    let ticks: u64 = fields.split(' ').nth(11).and_then(|ticks| ticks.parse().ok()).expect("a number");
    Duration::from_millis(ticks * 10)
}

fn measure<T>(run: impl FnOnce() -> T) -> (T, Cost) {
    let (user, wall) = (user_time(), Instant::now());
    let result = run();
    let wall = wall.elapsed();
    (result, Cost { user: user_time() - user, wall })
}

/// Seconds of user time and of wall time: median, least and most of each.
struct Seconds {
    user: [f64; 3],
    wall: [f64; 3],
}

fn seconds(costs: &[Cost]) -> Seconds {
    let of = |part: fn(&Cost) -> Duration| {
        let mut seconds: Vec<f64> = costs.iter().map(|cost| part(cost).as_secs_f64()).collect();
        seconds.sort_by(f64::total_cmp);
        [seconds[seconds.len() / 2], seconds[0], seconds[seconds.len() - 1]]
    };
    Seconds { user: of(|cost| cost.user), wall: of(|cost| cost.wall) }
}

fn data_file(rows: usize) -> DataFile {
    DataFile { path: "part-0.parquet".to_owned(), bytes: 1000, rows: rows as u32 }
}

fn write(segment: &Segment) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_companion(segment, DEFINITION, &data_file(segment.rows() as usize), &mut bytes).unwrap();
    bytes
}

fn open(bytes: Vec<u8>, rows: usize) -> Companion {
    Companion::open(Arc::new(Bytes(bytes)), DEFINITION, &data_file(rows)).unwrap()
}

/// The file of some rows, built as the engine builds it.
fn build(rows: &Rows, batches: Range<usize>) -> Vec<u8> {
    let mut builder = IndexBuilder::new(&rows.fields, Some(limits()));
    let places = builder.places();
    for batch in &rows.batches[batches] {
        let arrays: Vec<_> = places.iter().map(|place| Arc::clone(batch.column(*place))).collect();
        builder.add(&arrays, batch.num_rows()).unwrap();
    }
    write(&builder.finish().unwrap())
}

/// The files of equal parts of the rows.
fn build_files(rows: &Rows) -> Vec<Vec<u8>> {
    let batches = rows.batches.len() / MERGED_FILES;
    (0..MERGED_FILES).map(|number| build(rows, number * batches..(number + 1) * batches)).collect()
}

/// The file of all rows, of [`build_files`], merged as the engine merges them.
fn merge_files(rows: &Rows, files: Vec<Vec<u8>>) -> Vec<u8> {
    let count = rows.count / MERGED_FILES;
    let open_ahead = |file| {
        let ahead = ReadAhead::new(Arc::new(Bytes(file)), MEMORY_BYTES_MAX / 4 / MERGED_FILES);
        Companion::open(Arc::new(ahead), DEFINITION, &data_file(count)).unwrap()
    };
    let open: Vec<Companion> = files.into_iter().map(open_ahead).collect();
    let fields = MergedFields::new(&rows.fields);
    write(&merge(&open.iter().collect::<Vec<_>>(), fields, Some(&limits())).unwrap())
}

fn print_rates(name: &str, rows: &Rows, costs: &[Cost]) -> Seconds {
    let seconds = seconds(costs);
    let rates = |[median, least, most]: [f64; 3]| {
        let count = rows.count as f64;
        let megabytes = rows.bytes as f64 / 1e6 / median;
        format!(
            "{:>8.0} rows/s ({:.0} to {:.0}), {megabytes:>6.1} MB/s",
            count / median,
            count / most,
            count / least
        )
    };
    println!("{name:<28} user {}   wall {}", rates(seconds.user), rates(seconds.wall));
    seconds
}

/// Building, merging and size of both.
fn compare_building(name: &str, rows: &Rows) {
    println!("{name}: {} rows, {:.1} MB of JSON", rows.count, rows.bytes as f64 / 1e6);
    let batches = rows.batches.len();
    let (mut ours, mut in_files, mut merging, mut peers) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut bytes, mut merged_bytes, mut peer_bytes) = (0, 0, 0);
    for _ in 0..ROUNDS {
        let (file, cost) = measure(|| build(rows, 0..batches));
        ours.push(cost);
        bytes = file.len();
        let documents = documents(rows);
        let (peer, cost) = measure(|| PeerIndex::build(rows, documents, MEMORY_BYTES_MAX));
        peers.push(cost);
        peer_bytes = peer.bytes();
        drop(peer);
        let (files, cost) = measure(|| build_files(rows));
        in_files.push(cost);
        let (merged, cost) = measure(|| merge_files(rows, files));
        merging.push(cost);
        merged_bytes = merged.len();
    }
    let ours = print_rates("building, ours", rows, &ours);
    let peers = print_rates("building, tantivy", rows, &peers);
    let ratio = |of: fn(&Seconds) -> f64| of(&peers) / of(&ours);
    println!(
        "{:<28} user {:.2}   wall {:.2}   (at least 0.7)",
        "speed to tantivy's",
        ratio(|seconds| seconds.user[0]),
        ratio(|seconds| seconds.wall[0])
    );
    let in_files = print_rates("building, ours, 8 files", rows, &in_files);
    let merging = print_rates("merging 8 files", rows, &merging);
    println!(
        "{:<28} user {:.2}   wall {:.2}   (at most 0.35)",
        "merging to building",
        merging.user[0] / in_files.user[0],
        merging.wall[0] / in_files.wall[0]
    );
    println!(
        "{:<28} {merged_bytes} merged, {bytes} built whole; tantivy {peer_bytes}; ratio {:.3}   (at most 1.05)",
        "bytes",
        merged_bytes as f64 / peer_bytes as f64
    );
}

/// The rows of all files that a query selects.
fn count(companions: &[Companion], search: &TableSearch) -> u64 {
    let query = search.index_query();
    let count = |companion: &Companion| {
        let selection = companion.select(&query).unwrap();
        assert!(selection.is_exact(), "the index decides each of these queries");
        selection.possible.len()
    };
    companions.iter().map(count).sum()
}

fn search(fields: &[SearchField], query: &str) -> TableSearch {
    TableSearch::of_rows(query, Operator::And, fields.to_vec(), None).unwrap()
}

fn compare_counts() {
    let rows = log_lines(COUNTED_LINES);
    let (batches, files) = (rows.batches.len(), COUNTED_FILES);
    let mut companions = Vec::new();
    for file in 0..files {
        let range = file * batches / files..(file + 1) * batches / files;
        let count = rows.batches[range.clone()].iter().map(|batch| batch.num_rows()).sum();
        companions.push(open(build(&rows, range), count));
    }
    let peer = PeerIndex::build(&rows, documents(&rows), MEMORY_BYTES_MAX);
    println!("counts of {} log lines: {files} files of ours, one segment of tantivy", rows.count);
    let rare = rows.rare_word("message");
    for (name, words) in [
        ("rare word", vec![rare.as_str()]),
        ("10 % word", vec!["timeout"]),
        ("phrase of two 10 % words", vec!["connection", "timeout"]),
    ] {
        let query = format!("message:\"{}\"", words.join(" "));
        let search = search(&rows.fields, &query);
        let (mut ours, mut peers) = (Vec::new(), Vec::new());
        let (mut found, mut found_by_peer) = (0, 0);
        for _ in 0..COUNTS {
            let ((), cost) = measure(|| found = count(&companions, &search));
            ours.push(cost);
            let ((), cost) = measure(|| found_by_peer = peer.count("message", &words));
            peers.push(cost);
        }
        let ((), of_all) = measure(|| (0..COUNTS).for_each(|_| found = count(&companions, &search)));
        let ((), of_all_by_peer) =
            measure(|| (0..COUNTS).for_each(|_| found_by_peer = peer.count("message", &words)));
        assert_eq!(found, found_by_peer, "{query}");
        assert_eq!(found, rows.count_of("message", &words), "{query}");
        let milliseconds = |seconds: f64| seconds * 1e3;
        let p50 = |costs: &[Cost]| milliseconds(seconds(costs).wall[0]);
        let mean = |cost: Cost| milliseconds(cost.user.as_secs_f64()) / COUNTS as f64;
        let (ours, peers) = (p50(&ours), p50(&peers));
        println!(
            "{name:<28} {found:>7} rows   p50 ours {ours:.3} ms (at most {:.3}), tantivy {peers:.3} ms; mean user time {:.3}, {:.3} ms",
            1.5 * peers + 3.0,
            mean(of_all),
            mean(of_all_by_peer),
        );
    }
}

/// Builds without a comparison, for a profiler.
fn profile_building(rows: &Rows) {
    let ((), cost) = measure(|| {
        for _ in 0..PROFILED_ROUNDS {
            assert!(!build(rows, 0..rows.batches.len()).is_empty());
        }
    });
    println!("{:.0} rows/s", (rows.count * PROFILED_ROUNDS) as f64 / cost.user.as_secs_f64());
}

/// Merges without a comparison, for a profiler.
fn profile_merging(rows: &Rows) {
    let files = build_files(rows);
    let ((), cost) = measure(|| {
        for _ in 0..PROFILED_ROUNDS {
            assert!(!merge_files(rows, files.clone()).is_empty());
        }
    });
    println!("{:.0} rows/s", (rows.count * PROFILED_ROUNDS) as f64 / cost.user.as_secs_f64());
}

fn main() {
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["profile", part, of] => {
            let rows = if *of == "logs" { log_lines(LOG_LINES) } else { articles(ARTICLES) };
            return if *part == "merging" { profile_merging(&rows) } else { profile_building(&rows) };
        }
        ["rows", folder] => {
            for (name, rows) in [("logs", log_lines(LOG_LINES)), ("articles", articles(ARTICLES))] {
                let path = format!("{folder}/{name}.ndjson");
                fs::File::create(path).unwrap().write_all(&rows.json).unwrap();
                let file = open(build(&rows, 0..rows.batches.len()), rows.count);
                for field in file.fields().iter().filter(|field| field.tokens > 0) {
                    println!("tokens of {}: {}", field.column, field.tokens);
                }
            }
            return;
        }
        _ => {}
    }
    let is_asked = |part: &str| arguments.is_empty() || arguments.contains(&part);
    if is_asked("logs") {
        compare_building("logs", &log_lines(LOG_LINES));
    }
    if is_asked("articles") {
        compare_building("articles", &articles(ARTICLES));
    }
    if is_asked("counts") {
        compare_counts();
    }
}
