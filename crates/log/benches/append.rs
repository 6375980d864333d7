//! Measures how fast the log makes events durable, next to a bare loop on the same disk in the same run.
//!
//! `cargo bench -p swiftwater-log --bench append`
//!
//! Rounds of each alternate, because the speed of disks and the load of neighbours change. The benchmark prints the
//! median of each, and the ratio of the medians. Its files are in `SWIFTWATER_BENCH_DIR`, else in a temporary directory.

#![allow(missing_docs, clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark that prints a table")]

use std::{
    collections::VecDeque,
    fs::File,
    os::unix::fs::FileExt,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use swiftwater_event::{Clock, Offset, SystemClock};
use swiftwater_log::{
    Compression, DirDisk, EventsHead, Head, Horizons, Log, LogOptions, LogPosition, PackedPayload, StreamId,
};
use swiftwater_testkit::published::PublishedEvents;

/// Events of one request, about a megabyte of JSON.
const REQUEST_EVENTS: usize = 568;
/// Requests that are made before anything is measured.
const REQUESTS: usize = 64;
/// Requests of one round.
const ROUND_REQUESTS: usize = 256;
const ROUNDS: usize = 5;
const PRODUCERS: usize = 4;
const LATENCY_ROUNDS: usize = 10;
const LATENCY_APPENDS: usize = 1000;
const APPENDS_PER_SECOND: usize = 1000;
const RECOVERED_BYTES: u64 = 1 << 30;

fn main() {
    // `cargo test --benches` asks only whether it is built.
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let temporary = tempfile::tempdir().unwrap();
    let chosen = std::env::var_os("SWIFTWATER_BENCH_DIR");
    let directory = chosen.as_ref().map_or(temporary.path(), Path::new);
    let clock = Arc::new(SystemClock::new());
    // One part alone, where its name is among the arguments.
    let parts: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let is_wanted = |part: &str| parts.is_empty() || parts.iter().any(|wanted| wanted == part);
    let requests = requests();
    if is_wanted("throughput") {
        throughput(directory, &clock, &requests);
    }
    if is_wanted("latency") {
        latency(directory, &clock);
    }
    if is_wanted("recovery") {
        recovery(directory, &clock, &requests);
    }
}

fn requests() -> Vec<Vec<u8>> {
    let mut events = PublishedEvents::new(1, 0, 0.0);
    let mut request = || {
        let mut bytes = Vec::new();
        events.write(REQUEST_EVENTS, &mut bytes);
        bytes
    };
    (0..REQUESTS).map(|_| request()).collect()
}

fn head() -> Head {
    Head::Events(EventsHead {
        stream: StreamId(1),
        first: Offset(0),
        events: REQUEST_EVENTS as u32,
        arrival: 0,
        sent_micros: 0,
        sample: None,
        producer: None,
        part: 0,
    })
}

fn options() -> LogOptions {
    LogOptions { free_bytes_min: 0, ..LogOptions::default() }
}

fn seconds(clock: &SystemClock, does: impl FnOnce()) -> f64 {
    let began = clock.monotonic_nanos();
    does();
    (clock.monotonic_nanos() - began) as f64 / 1e9
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn open(
    directory: &Path,
    clock: &Arc<SystemClock>,
    on_progress: impl Fn(Horizons) + Send + Sync + 'static,
) -> Log {
    let clock: Arc<dyn Clock> = Arc::<SystemClock>::clone(clock);
    Log::open(Arc::new(DirDisk::open(directory).unwrap()), clock, options(), Box::new(on_progress)).unwrap()
}

fn throughput(directory: &Path, clock: &Arc<SystemClock>, requests: &[Vec<u8>]) {
    let log = open(&directory.join("throughput"), clock, |_| ());
    let group_bytes = options().group_bytes_max as usize;
    let mut bare = BareWriter::new(&directory.join("bare"), group_bytes);
    let bares: Vec<Mutex<BareWriter>> = (0..PRODUCERS)
        .map(|number| {
            Mutex::new(BareWriter::new(&directory.join(format!("bare-{number}")), group_bytes / PRODUCERS))
        })
        .collect();
    let round_bytes: usize = (0..ROUND_REQUESTS).map(|number| requests[number % REQUESTS].len()).sum();
    let packed = PackedPayload::new(&requests[0], Compression::Lz4).unwrap();
    let shrinks = requests[0].len() as f64 / packed.bytes() as f64;
    println!("published events of 1.85 KB, {REQUEST_EVENTS} a request, {shrinks:.2} times smaller as LZ4");
    // The measured log has run for a while: its files were all written before.
    append_round(&log, requests);
    let mut rates = [Vec::new(), Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        let rate = |seconds: f64| round_bytes as f64 / seconds / 1e6;
        rates[0].push(rate(seconds(clock, || append_round(&log, requests))));
        rates[1].push(rate(seconds(clock, || bare.round(requests))));
        rates[2].push(rate(seconds(clock, || bare_round(&bares, requests))));
        rates[3].push(rate(seconds(clock, || compress_round(requests))));
    }
    println!("MB/s of JSON, median of {ROUNDS} rounds of {} MB; all rounds", round_bytes / 1_000_000);
    let names = [
        "log, 4 producers",
        "bare loop: compress, write, sync",
        "4 bare loops, a file each",
        "4 threads that only compress",
    ];
    for (name, rates) in names.iter().zip(&rates) {
        println!("  {name:<34} {:6.0}   {rates:.0?}", median(rates.clone()));
    }
    let [log_rate, one, four, compress] = rates.map(median);
    println!("  log to bare loop {:.2}, to 4 of them {:.2}", log_rate / one, log_rate / four);
    println!("  log to compression alone {:.2}", log_rate / compress);
    let usage = log.usage();
    let sync_ms = usage.sync_nanos as f64 / 1e6 / usage.groups.max(1) as f64;
    println!("  groups of the log: {}, {sync_ms:.1} ms a sync", usage.groups);
}

/// Requests by several producers, one after another as each is done with the last.
fn by_producers(requests: &[Vec<u8>], each: impl Fn(usize, &[u8]) + Sync) {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..PRODUCERS {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= ROUND_REQUESTS {
                        break;
                    }
                    each(number, &requests[number % REQUESTS]);
                }
            });
        }
    });
}

/// Runs as many simple loops as there are producers, which so take the same share of a busy machine.
fn bare_round(bares: &[Mutex<BareWriter>], requests: &[Vec<u8>]) {
    by_producers(requests, |number, request| {
        // Any that is free: there are as many as may be at it.
        let free = bares.iter().cycle().skip(number % PRODUCERS).find_map(|bare| bare.try_lock().ok());
        free.unwrap().take(request);
    });
    bares.iter().for_each(|bare| bare.lock().unwrap().write());
}

/// Appends until all is synced; synced records are trimmed now and then.
fn append_round(log: &Log, requests: &[Vec<u8>]) {
    by_producers(requests, |number, request| {
        let packed = PackedPayload::new(request, Compression::Lz4).unwrap();
        let room = log.reserve_blocking(packed.bytes()).unwrap();
        log.append(head(), packed, room).unwrap();
        if number.is_multiple_of(64) {
            log.trim(log.horizons().synced);
        }
    });
    log.wait_synced(log.horizons().appended).unwrap();
}

fn compress_round(requests: &[Vec<u8>]) {
    by_producers(requests, |_, request| {
        std::hint::black_box(PackedPayload::new(request, Compression::Lz4).unwrap());
    });
}

/// A simple writer: it compresses until a group is full, writes it and syncs it, over and over in one file.
struct BareWriter {
    file: File,
    at: u64,
    group: Vec<u8>,
    group_bytes: usize,
    room: u64,
}

impl BareWriter {
    fn new(path: &Path, group_bytes: usize) -> BareWriter {
        let file = File::create(path).unwrap();
        let room = 8 * group_bytes as u64;
        file.write_all_at(&vec![0; room as usize], 0).unwrap();
        file.sync_all().unwrap();
        BareWriter { file, at: 0, group: Vec::new(), group_bytes, room }
    }

    fn round(&mut self, requests: &[Vec<u8>]) {
        for number in 0..ROUND_REQUESTS {
            self.take(&requests[number % REQUESTS]);
        }
        self.write();
    }

    fn take(&mut self, request: &[u8]) {
        let begin = self.group.len();
        self.group.resize(begin + lz4_flex::block::get_maximum_output_size(request.len()), 0);
        let length = lz4_flex::block::compress_into(request, &mut self.group[begin..]).unwrap();
        self.group.truncate(begin + length);
        if self.group.len() + request.len() > self.group_bytes {
            self.write();
        }
    }

    fn write(&mut self) {
        if self.at + self.group.len() as u64 > self.room {
            self.at = 0;
        }
        self.file.write_all_at(&self.group, self.at).unwrap();
        self.file.sync_data().unwrap();
        self.at += self.group.len() as u64;
        self.group.clear();
    }
}

/// Calls `each` at an even pace with the number that is due by now, and the due time of each: a late call has more.
#[expect(
    clippy::disallowed_methods,
    reason = "a producer that comes at its own pace has nothing to wait for"
)]
fn paced(clock: &SystemClock, mut each: impl FnMut(&[u64])) {
    let began = clock.monotonic_nanos();
    let due = |number: usize| began + (number * 1_000_000_000 / APPENDS_PER_SECOND) as u64;
    let mut next = 0;
    while next < LATENCY_APPENDS {
        let now = clock.monotonic_nanos();
        if now < due(next) {
            std::thread::sleep(Duration::from_nanos(due(next) - now));
            continue;
        }
        let dues: Vec<u64> = (next..LATENCY_APPENDS).map(due).take_while(|&due| due <= now).collect();
        each(&dues);
        next += dues.len();
    }
}

/// Ends and times of appends that wait for their acknowledgement, and the milliseconds that others waited.
type Waiting = Mutex<(VecDeque<(LogPosition, u64)>, Vec<f64>)>;

fn latency(directory: &Path, clock: &Arc<SystemClock>) {
    let waiting: Arc<Waiting> = Arc::default();
    let (tells, at) = (Arc::clone(&waiting), Arc::clone(clock));
    let log = open(&directory.join("latency"), clock, move |horizons: Horizons| {
        let now = at.monotonic_nanos();
        let mut waiting = tells.lock().unwrap();
        let (waiting, acks) = &mut *waiting;
        while let Some(&(end, began)) = waiting.front()
            && end <= horizons.synced
        {
            acks.push((now - began) as f64 / 1e6);
            waiting.pop_front();
        }
    });
    let file = File::create(directory.join("small")).unwrap();
    file.write_all_at(&vec![0; 16 << 20], 0).unwrap();
    file.sync_all().unwrap();
    let (mut syncs, mut end) = (Vec::new(), 0);
    let payload = vec![b'x'; 400];
    for _ in 0..LATENCY_ROUNDS {
        paced(clock, |dues| {
            for &due in dues {
                let packed = PackedPayload::new(&payload, Compression::None).unwrap();
                let room = log.reserve_blocking(packed.bytes()).unwrap();
                let mut waiting = waiting.lock().unwrap();
                let end = log.append(head(), packed, room).unwrap();
                waiting.0.push_back((end, due));
            }
        });
        log.wait_synced(log.horizons().appended).unwrap();
        paced(clock, |dues| {
            let group = payload.repeat(dues.len());
            file.write_all_at(&group, end).unwrap();
            file.sync_data().unwrap();
            end += group.len() as u64;
            let now = clock.monotonic_nanos();
            syncs.extend(dues.iter().map(|due| (now - due) as f64 / 1e6));
        });
    }
    let usage = log.usage();
    log.close().unwrap();
    let mut acks = std::mem::take(&mut waiting.lock().unwrap().1);
    println!("{APPENDS_PER_SECOND} appends of 400 bytes a second; ms from when it was due, median and p99");
    for (name, values) in [("append to ack", &mut acks), ("bare write, sync", &mut syncs)] {
        values.sort_by(f64::total_cmp);
        let (half, most) = (values[values.len() / 2], values[values.len() * 99 / 100]);
        println!("  {name:<16} {half:8.2} {most:8.2}   of {}", values.len());
    }
    let sync_ms = usage.sync_nanos as f64 / 1e6 / usage.groups.max(1) as f64;
    println!("  groups of the log: {}, {sync_ms:.2} ms a sync", usage.groups);
}

fn recovery(directory: &Path, clock: &Arc<SystemClock>, requests: &[Vec<u8>]) {
    let directory = directory.join("recovery");
    let log = open(&directory, clock, |_| ());
    let packed: Vec<PackedPayload> =
        requests.iter().map(|request| PackedPayload::new(request, Compression::Lz4).unwrap()).collect();
    for number in 0.. {
        if log.horizons().appended.0 >= RECOVERED_BYTES {
            break;
        }
        let packed = packed[number % REQUESTS].clone();
        let room = log.reserve_blocking(packed.bytes()).unwrap();
        log.append(head(), packed, room).unwrap();
    }
    log.close().unwrap();
    let before = thread_cpu_seconds();
    let times = (0..3).map(|_| seconds(clock, || drop(open(&directory, clock, |_| ()))));
    println!("opening a log of 1 GiB, its files in the page cache: {:.2} s", median(times.collect()));
    println!("  of which this thread ran {:.2} s", (thread_cpu_seconds() - before) / 3.0);
}

/// The time this thread was on a processor, where the machine says: on a busy one it waits for most of the time.
fn thread_cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos: f64 = text.split(' ').next().and_then(|nanos| nanos.parse().ok()).unwrap_or(0.0);
    nanos / 1e9
}
