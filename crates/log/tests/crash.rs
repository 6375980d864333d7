//! Simulates power loss, failed calls and a full disk at every call in turn, on a simulated disk.
//!
//! Records that were reported as synced are present afterwards, once and in order, and nothing that was not appended is.

use std::{
    io::ErrorKind,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use swiftwater_event::{Clock, Offset, SystemClock};
use swiftwater_log::{
    Compression, EventsHead, Head, Log, LogError, LogOptions, LogPosition, PackedPayload, StallReason,
    StreamId,
};
use swiftwater_testkit::{Fault, Rng, SimDisk, at_once};

/// Options with segments of a few records each, so that a short run makes, deletes and reuses several.
fn options() -> LogOptions {
    LogOptions {
        segment_bytes: 6 << 10,
        group_bytes_max: 2 << 10,
        queue_bytes_max: 16 << 10,
        record_bytes_max: 5 << 10,
        bytes_max: 1 << 30,
        free_bytes_min: 0,
        spare_segments_max: 2,
        ..LogOptions::default()
    }
}

/// The appended records; the test's own memory, which no crash removes.
#[derive(Default)]
struct ExpectedLog {
    /// Payload and end of each record.
    records: Vec<(Vec<u8>, LogPosition)>,
    /// The log said that it is synced up to here.
    synced: LogPosition,
    trimmed: LogPosition,
    /// No two payloads are equal, whichever life they are from.
    next: u64,
}

fn open(disk: &SimDisk, options: LogOptions) -> (Result<Log, LogError>, Arc<AtomicU64>) {
    let synced = Arc::new(AtomicU64::new(0));
    let tells = Arc::clone(&synced);
    let on_progress = Box::new(move |horizons: swiftwater_log::Horizons| {
        tells.fetch_max(horizons.synced.0, Ordering::SeqCst);
    });
    let log = Log::open(Arc::new(disk.clone()), Arc::new(SystemClock::new()), options, on_progress);
    (log, synced)
}

fn append(log: &Log, truth: &mut ExpectedLog, rng: &mut Rng) -> Result<LogPosition, LogError> {
    let bytes = match rng.below(10) {
        0 => 3000 + rng.below(2000),
        1..4 => rng.below(1000),
        _ => rng.below(100),
    };
    let mut payload = truth.next.to_le_bytes().to_vec();
    payload.extend((0..bytes).map(|_| rng.bits() as u8));
    let head = Head::Events(EventsHead {
        stream: StreamId(1),
        first: Offset(truth.next),
        events: 1,
        arrival: 5,
        sent_micros: 0,
        sample: None,
        producer: None,
        part: 0,
    });
    let packed = PackedPayload::new(&payload, Compression::Lz4)?;
    let room = log.reserve_blocking(packed.bytes())?;
    let end = log.append(head, packed, room)?;
    truth.next += 1;
    truth.records.push((payload, end));
    Ok(end)
}

/// Appends, waits and trims at random, for some thirty records or until something fails.
fn work(log: &Log, truth: &mut ExpectedLog, rng: &mut Rng) -> Result<(), LogError> {
    for _ in 0..30 {
        let end = append(log, truth, rng)?;
        if rng.below(3) > 0 {
            wait(log, end)?;
        }
        if rng.below(4) == 0 {
            let synced = log.horizons().synced;
            let kept = truth.records.len().saturating_sub(8);
            if let Some((_, end)) = truth.records.get(kept).filter(|(_, end)| *end <= synced) {
                truth.trimmed = truth.trimmed.max(*end);
                log.trim(truth.trimmed);
            }
        }
    }
    wait(log, log.horizons().appended)
}

/// Waits for a sync, but not for the power to come back.
fn wait(log: &Log, end: LogPosition) -> Result<(), LogError> {
    loop {
        let horizons = log.horizons();
        if horizons.synced >= end {
            return Ok(());
        }
        if horizons.trouble.is_some() {
            return Err(LogError::Failing);
        }
        std::thread::yield_now();
    }
}

/// Compares the readable records with the appended ones, and forgets the lost ones.
fn verify(log: &Log, truth: &mut ExpectedLog, what: &str) {
    let oldest = log.usage().oldest;
    assert!(oldest <= truth.trimmed.max(LogPosition(0)), "{what}: it begins behind what was trimmed");
    let mut reader = log.read(oldest);
    let ends: Vec<LogPosition> = truth.records.iter().map(|(_, end)| *end).collect();
    let mut index = ends.partition_point(|&end| end <= oldest);
    let mut position = oldest;
    while let Some(record) = reader.next().unwrap_or_else(|error| panic!("{what}: {error}")) {
        let (payload, end) = truth.records.get(index).unwrap_or_else(|| panic!("{what}: never appended"));
        assert_eq!((record.position, record.end), (position, *end), "{what}");
        assert_eq!(record.payload, payload, "{what}");
        position = record.end;
        index += 1;
    }
    assert!(position >= truth.synced, "{what}: it ends at {position:?}, {:?} was synced", truth.synced);
    assert_eq!(log.horizons().synced, position, "{what}");
    truth.records.truncate(index);
}

/// Three lives on one disk, each ended by a loss of power; the first at `call`. Returns true if that call was reached.
fn lives(seed: u64, call: u64) -> bool {
    let what = format!("seed {seed}, call {call}");
    let disk = SimDisk::new(seed ^ call << 20);
    let mut rng = Rng::new(seed.wrapping_mul(1000) + call);
    let mut truth = ExpectedLog::default();
    disk.fail_at(call, Fault::PowerLoss);
    let mut reached = false;
    for life in 0..4 {
        let (log, synced) = open(&disk, options());
        match log {
            Ok(log) => {
                if life > 0 && !disk.is_off() {
                    // The power may go off while it is read, too.
                    let verified = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                        verify(&log, &mut truth, &format!("{what}, life {life}"));
                    }));
                    if let Err(panic) = verified
                        && !disk.is_off()
                    {
                        std::panic::resume_unwind(panic);
                    }
                }
                let worked = work(&log, &mut truth, &mut rng);
                assert!(worked.is_ok() || disk.is_off(), "{what}, life {life}: {worked:?}");
                drop(log);
            }
            Err(error) => assert!(disk.is_off(), "{what}, life {life}: {error:?}"),
        }
        truth.synced = truth.synced.max(LogPosition(synced.load(Ordering::SeqCst)));
        reached |= life == 0 && disk.is_off();
        disk.restart();
        if life < 2 {
            disk.fail_at(disk.calls() + rng.below(120) as u64, Fault::PowerLoss);
        }
    }
    let (log, _) = open(&disk, options());
    verify(&log.unwrap_or_else(|error| panic!("{what}: {error}")), &mut truth, &what);
    reached
}

#[test]
fn power_lost_at_every_call_loses_nothing_that_was_synced() {
    // `make torture` goes on for longer.
    let seconds: u64 =
        std::env::var("SOAK_SECONDS").ok().and_then(|seconds| seconds.parse().ok()).unwrap_or(0);
    let clock = SystemClock::new();
    let mut tries = 0;
    for seed in 0.. {
        if seed >= 2 && clock.monotonic_nanos() >= seconds.saturating_mul(1_000_000_000) {
            break;
        }
        for call in 0.. {
            tries += 1;
            if !lives(seed, call) {
                assert!(call > 50, "a run has more calls than {call}");
                break;
            }
        }
    }
    println!("power was lost at {tries} calls, and twice more after each");
}

#[test]
fn call_that_fails_anywhere_is_got_over_without_help() {
    for fault in [Fault::Io, Fault::Full] {
        for call in 0.. {
            let what = format!("{fault:?} at call {call}");
            let disk = SimDisk::new(call);
            let mut rng = Rng::new(call);
            let mut truth = ExpectedLog::default();
            disk.fail_at(call, fault);
            let log = match open(&disk, options()).0 {
                Ok(log) => log,
                // Opening is not tried again by itself; asked again, it works.
                Err(_) => open(&disk, options()).0.unwrap_or_else(|error| panic!("{what}: {error}")),
            };
            for _ in 0..40 {
                loop {
                    match append(&log, &mut truth, &mut rng) {
                        Ok(end) => break log.wait_synced(end).unwrap(),
                        // Told so until it is got over.
                        Err(LogError::Full | LogError::Failing) => std::thread::yield_now(),
                        Err(error) => panic!("{what}: {error}"),
                    }
                }
                log.trim(LogPosition(log.horizons().synced.0.saturating_sub(10_000)));
            }
            truth.synced = log.horizons().synced;
            truth.trimmed = LogPosition(truth.synced.0 - 10_000);
            // Records that were not synced are lost; no record that counts may be among them.
            let after = disk.only_synced();
            verify(&open(&after, options()).0.unwrap(), &mut truth, &what);
            log.close().unwrap();
            if disk.calls() < call {
                assert!(call > 50, "a run has more calls than {call}");
                break;
            }
        }
    }
}

/// Records of this size, one a group, have zeros written ahead of them by another call after nearly every one.
const AHEAD_RECORD_BYTES: usize = 200 << 10;

/// Appends some, each when the one before it is synced, or until that cannot be.
fn one_by_one(log: &Log, truth: &mut ExpectedLog, records: usize) -> Result<(), LogError> {
    for _ in 0..records {
        let mut payload = truth.next.to_le_bytes().to_vec();
        payload.resize(AHEAD_RECORD_BYTES, truth.next as u8 | 1);
        let packed = PackedPayload::raw(payload.clone().into())?;
        let room = log.reserve_blocking(packed.bytes())?;
        let end = log.append(Head::Catalog, packed, room)?;
        truth.next += 1;
        truth.records.push((payload, end));
        wait(log, end)?;
    }
    Ok(())
}

fn roomy() -> LogOptions {
    LogOptions {
        segment_bytes: 2 << 20,
        group_bytes_max: 256 << 10,
        queue_bytes_max: 1 << 20,
        record_bytes_max: 256 << 10,
        ..options()
    }
}

#[test]
fn zeros_are_written_ahead_while_nothing_waits() {
    let disk = SimDisk::new(3);
    let log = open(&disk, roomy()).0.unwrap();
    let mut truth = ExpectedLog::default();
    // The first of a segment has them written beside itself, and the second uses some of those.
    one_by_one(&log, &mut truth, 1).unwrap();
    let calls = disk.calls();
    one_by_one(&log, &mut truth, 1).unwrap();
    let is_written = || {
        std::thread::yield_now();
        disk.calls() > calls + 2
    };
    assert!((0..10_000_000).any(|_| is_written()), "a write and a sync, and no more");
    log.close().unwrap();
    truth.synced = truth.records[1].1;
    verify(&open(&disk, roomy()).0.unwrap(), &mut truth, "with zeros behind them");
}

#[test]
fn zeros_that_cannot_be_written_ahead_lose_nothing() {
    for fault in [Fault::PowerLoss, Fault::Io] {
        for call in 0.. {
            let what = format!("{fault:?} at call {call}");
            let disk = SimDisk::new(call);
            let mut truth = ExpectedLog::default();
            disk.fail_at(call, fault);
            let (log, synced) = open(&disk, roomy());
            let worked = log.and_then(|log| one_by_one(&log, &mut truth, 6));
            assert!(worked.is_ok() || disk.calls() > call, "{what}: {worked:?}");
            truth.synced = LogPosition(synced.load(Ordering::SeqCst));
            disk.restart();
            let log = open(&disk, roomy()).0.unwrap_or_else(|error| panic!("{what}: {error}"));
            verify(&log, &mut truth, &what);
            one_by_one(&log, &mut truth, 1).unwrap_or_else(|error| panic!("{what}: {error}"));
            if disk.calls() < call {
                assert!(call > 15, "a run has more calls than {call}");
                break;
            }
        }
    }
}

#[test]
fn what_is_told_to_be_synced_is_synced_before() {
    let disk = SimDisk::new(9);
    let told = Arc::new(Mutex::new(Vec::new()));
    let (tells, of) = (Arc::clone(&told), disk.clone());
    let on_progress = Box::new(move |horizons: swiftwater_log::Horizons| {
        tells.lock().unwrap().push((horizons.synced, of.only_synced()));
    });
    let shared: Arc<SimDisk> = Arc::new(disk);
    let log = Log::open(shared, Arc::new(SystemClock::new()), options(), on_progress).unwrap();
    let mut truth = ExpectedLog::default();
    work(&log, &mut truth, &mut Rng::new(4)).unwrap();
    log.close().unwrap();
    let told = told.lock().unwrap();
    assert!(told.len() > 5, "{}", told.len());
    for (synced, disk) in &*told {
        let mut truth =
            ExpectedLog { records: truth.records.clone(), synced: *synced, trimmed: truth.trimmed, next: 0 };
        verify(&open(disk, options()).0.unwrap(), &mut truth, "as it was synced");
    }
}

#[test]
fn disk_that_fails_for_long_refuses_and_goes_on_by_itself() {
    let disk = SimDisk::new(2);
    let (log, _) = open(&disk, options());
    let log = log.unwrap();
    let (mut truth, mut rng) = (ExpectedLog::default(), Rng::new(8));
    for (kind, trouble) in
        [(ErrorKind::Other, StallReason::Failing), (ErrorKind::StorageFull, StallReason::Full)]
    {
        for _ in 0..20 {
            append(&log, &mut truth, &mut rng).unwrap();
        }
        log.wait_synced(log.horizons().appended).unwrap();
        disk.fail_all(Some(kind));
        let error = loop {
            match append(&log, &mut truth, &mut rng) {
                Ok(_) => std::thread::yield_now(),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, LogError::Full | LogError::Failing), "{error}");
        assert_eq!(log.horizons().trouble, Some(trouble));
        assert!(log.horizons().synced < log.horizons().appended);
        disk.fail_all(None);
        log.wait_synced(log.horizons().appended).unwrap();
        assert_eq!(log.horizons().trouble, None);
    }
    truth.synced = log.horizons().synced;
    verify(&open(&disk.only_synced(), options()).0.unwrap(), &mut truth, "after trouble");
    let files = swiftwater_log::Disk::names(&disk).unwrap().len();
    assert!(files <= log.usage().segments + 1, "{files} files for {:?}", log.usage());
}

#[test]
fn full_disk_is_got_over_when_there_is_room() {
    let disk = SimDisk::new(2);
    disk.set_bytes_max(64 << 10);
    let (log, _) = open(&disk, LogOptions { free_bytes_min: 8 << 10, ..options() });
    let log = log.unwrap();
    let (mut truth, mut rng) = (ExpectedLog::default(), Rng::new(8));
    let fill = |truth: &mut ExpectedLog, rng: &mut Rng| loop {
        match append(&log, truth, rng) {
            Ok(end) => log.wait_synced(end).unwrap(),
            Err(LogError::Full) => break,
            Err(error) => panic!("{error}"),
        }
    };
    fill(&mut truth, &mut rng);
    let before = truth.records.len();
    assert!(log.usage().file_bytes <= 56 << 10, "{:?}", log.usage());
    // Another process frees space, without notice to the log.
    disk.set_bytes_max(128 << 10);
    while truth.records.len() <= before + 10 {
        fill(&mut truth, &mut rng);
        std::thread::yield_now();
    }
    truth.synced = log.horizons().synced;
    verify(&log, &mut truth, "filled twice");
}

/// All is committed that a log has which fills its disk: one record more, and it goes on.
#[test]
fn disk_of_two_segments_is_enough_for_a_log_that_nobody_needs() {
    let disk = SimDisk::new(3);
    disk.set_bytes_max(25 << 10);
    let (log, _) = open(&disk, options());
    let log = log.unwrap();
    let (mut truth, mut rng) = (ExpectedLog::default(), Rng::new(9));
    let mut ticks = 0;
    while truth.records.len() < 200 {
        match append(&log, &mut truth, &mut rng) {
            Ok(end) => log.wait_synced(end).unwrap(),
            Err(LogError::Full) => {
                log.trim(log.horizons().synced);
                if log.resumes_after_record() {
                    let room = at_once(log.reserve_urgent(0)).unwrap();
                    let end = log.append(Head::Tick { now: ticks }, PackedPayload::empty(), room).unwrap();
                    log.wait_synced(end).unwrap();
                    ticks += 1;
                }
                // The log's thread has to come to what is trimmed.
                std::thread::yield_now();
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert!(ticks < 200, "one for each segment: {ticks}");
}

#[test]
fn slow_disk_lets_producers_wait_and_queue_stays_bounded() {
    let disk = SimDisk::new(2);
    let (log, _) = open(&disk, options());
    let log = log.unwrap();
    let payload = PackedPayload::raw(vec![7; 1000].into()).unwrap();
    let room = log.reserve_blocking(payload.bytes()).unwrap();
    log.wait_synced(log.append(Head::Catalog, payload.clone(), room).unwrap()).unwrap();
    disk.block_syncs(true);
    let mut count = 1;
    while let Some(room) = log.try_reserve(payload.bytes()).unwrap() {
        log.append(Head::Catalog, payload.clone(), room).unwrap();
        count += 1;
    }
    assert!(log.usage().queued_bytes <= options().queue_bytes_max, "{:?}", log.usage());
    assert!((12..=16).contains(&count), "{count}");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| log.reserve_blocking(payload.bytes()).map(drop));
        disk.block_syncs(false);
        waiting.join().unwrap().unwrap();
    });
    log.wait_synced(log.horizons().appended).unwrap();
    assert_eq!(log.usage().queued_bytes, 0);
}

#[test]
fn dropped_waiters_leave_the_line() {
    let disk = SimDisk::new(2);
    let (log, _) = open(&disk, options());
    let log = log.unwrap();
    let all = log.reserve_blocking(options().record_bytes_max).unwrap();
    let more: Vec<_> = std::iter::from_fn(|| log.try_reserve(options().record_bytes_max).unwrap()).collect();
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let mut first = Box::pin(log.reserve(options().record_bytes_max));
    let mut second = Box::pin(log.reserve(1));
    assert!(first.as_mut().poll(&mut context).is_pending());
    assert!(second.as_mut().poll(&mut context).is_pending());
    assert!(log.try_reserve(1).unwrap().is_none(), "others wait");
    drop(more);
    drop(first);
    assert!(second.as_mut().poll(&mut context).is_ready());
    assert!(log.try_reserve(1).unwrap().is_some());
    drop(all);
}
