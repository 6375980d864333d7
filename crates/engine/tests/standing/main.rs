//! Measures the cost of very many queries while they run, and the remains of dropped objects: memory, time, tasks, threads,
//! files. Alone in its process, whose memory is measured; one test at a time.

#![allow(clippy::print_stderr, reason = "figures are shown beside a test that fails")]

mod dropped;

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use swiftwater_engine::{EndReason, Engine, EngineConfig, Principal, QueryId, SubmitOptions};
use swiftwater_event::{Clock, SystemClock};
use swiftwater_testkit::published::PublishedEvents;

/// Counts what is allocated, as an allocator with classes of 16 bytes would hand it out.
struct Counting;

static BYTES: AtomicUsize = AtomicUsize::new(0);

fn rounded(layout: Layout) -> usize {
    layout.size().next_multiple_of(16)
}

// SAFETY: every call is passed on to the system's allocator unchanged; the count beside it touches no memory of it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BYTES.fetch_add(rounded(layout), Ordering::Relaxed);
        // SAFETY: the caller keeps what `alloc` asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        BYTES.fetch_sub(rounded(layout), Ordering::Relaxed);
        // SAFETY: the pointer came from `alloc` with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Locked by the test that measures.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Bytes of the process in memory, where the system tells.
fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or(" 0 kB");
    line.trim().trim_end_matches("kB").trim().parse::<usize>().unwrap_or(0) * 1024
}

/// Bytes of one detached query that waits for its first match, its share of the index and of all tables included.
const QUERY_BYTES_MAX: usize = 1024;

/// Time after which the index is merged, on any machine.
const SETTLED_NANOS: u64 = 30_000_000_000;

#[test]
fn detached_queries_take_little_memory() {
    let _one_at_a_time = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let count = std::env::var("SOAK_QUERIES").ok().and_then(|count| count.parse().ok()).unwrap_or(3_000);
    let config = EngineConfig { shards: 2, queries_max: count * 2, ..EngineConfig::default() };
    let clock = Arc::new(SystemClock::new());
    let since = |nanos: u64| Duration::from_nanos(clock.monotonic_nanos() - nanos);
    let for_engine: Arc<SystemClock> = Arc::clone(&clock);
    let engine = Engine::start(config, for_engine);
    let principal = Principal::local();
    let texts = PublishedEvents::new(7, count + count / 10, 0.0).queries_over("s");
    let options = SubmitOptions { detach: true, ..SubmitOptions::default() };
    let submit = |text: &str| -> QueryId {
        engine.submit(&principal, text, options.clone()).expect("it stands").query().id
    };
    submit(&texts[0]);
    let (before, resident) = (BYTES.load(Ordering::Relaxed), resident_bytes());
    let started = clock.monotonic_nanos();
    for text in &texts[1..count] {
        submit(text);
    }
    let submitted = since(started);
    // The index is merged beside them, and the old parts are freed some time later.
    let each = || (BYTES.load(Ordering::Relaxed) - before) / (count - 1);
    let deadline = clock.monotonic_nanos() + SETTLED_NANOS;
    while each() >= QUERY_BYTES_MAX && clock.monotonic_nanos() < deadline {
        std::thread::yield_now();
    }
    let each = each();
    let resident = resident_bytes().saturating_sub(resident) / (count - 1);
    let mut slowest = [Duration::ZERO; 2];
    let started = clock.monotonic_nanos();
    for text in &texts[count..] {
        let begun = clock.monotonic_nanos();
        let id = submit(text);
        let between = clock.monotonic_nanos();
        engine.end_query(&principal, &id, EndReason::Killed).expect("it stands");
        slowest = [slowest[0].max(Duration::from_nanos(between - begun)), slowest[1].max(since(between))];
    }
    let changes = 2 * (texts.len() - count);
    eprintln!(
        "{each} bytes a query ({resident} resident), {count} submitted in {submitted:?}; {changes} changes in {:?}, the slowest to submit \
         and to end {slowest:?}",
        since(started)
    );
    assert!(each < QUERY_BYTES_MAX, "{each} bytes a query");
}
