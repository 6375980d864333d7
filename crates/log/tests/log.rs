//! Tests of the log on the machine's own disk.

use std::{
    path::Path,
    sync::{Arc, Mutex},
};

use swiftwater_event::{Offset, SystemClock};
use swiftwater_log::{
    Compression, DirDisk, EventsHead, Head, Horizons, Log, LogError, LogErrorKind, LogOptions, LogPosition,
    LogSnapshot, PackedPayload, Producer, StreamId,
};
use swiftwater_testkit::{SimDisk, at_once};

fn small() -> LogOptions {
    LogOptions {
        segment_bytes: 64 << 10,
        group_bytes_max: 16 << 10,
        queue_bytes_max: 128 << 10,
        record_bytes_max: 32 << 10,
        bytes_max: 4 << 20,
        free_bytes_min: 0,
        ..LogOptions::default()
    }
}

fn open(path: &Path, options: LogOptions) -> Result<Log, LogError> {
    let disk = Arc::new(DirDisk::open(path).expect("the directory can be used"));
    Log::open(disk, Arc::new(SystemClock::new()), options, Box::new(|_| ()))
}

fn append(log: &Log, head: Head, payload: &[u8]) -> Result<LogPosition, LogError> {
    let packed = PackedPayload::new(payload, Compression::Lz4)?;
    let room = log.reserve_blocking(packed.bytes())?;
    log.append(head, packed, room)
}

fn events(number: u64) -> Head {
    Head::Events(EventsHead {
        stream: StreamId(7),
        first: Offset(number * 10),
        events: 10,
        arrival: 1_700_000_000_000 + number as i64,
        sent_micros: 0,
        sample: number.is_multiple_of(3).then_some(0.25),
        producer: number.is_multiple_of(2).then(|| Producer {
            id: format!("p{number}").into(),
            sequence: number,
            hash: number % 2,
        }),
        part: number as u16,
    })
}

/// A payload of about `bytes` bytes that does not shrink much.
fn payload(number: u64, bytes: usize) -> Vec<u8> {
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    })
    .take(bytes)
    .collect()
}

/// All that can be read from `from` on, whose payloads are those of [`payload`]; the numbers of the records.
fn numbers(log: &Log, from: LogPosition) -> Vec<u64> {
    try_numbers(log, from).expect("the log can be read")
}

fn try_numbers(log: &Log, from: LogPosition) -> Result<Vec<u64>, LogError> {
    let mut reader = log.read(from);
    let mut numbers = Vec::new();
    while let Some(record) = reader.next()? {
        let Head::Events(head) = &record.head else { panic!("no events: {record:?}") };
        let number = head.first.0 / 10;
        assert_eq!(record.head, events(number));
        assert_eq!(record.payload, payload(number, record.payload.len()));
        numbers.push(number);
    }
    Ok(numbers)
}

/// The beginning of the log, and the numbers from there on; segments are deleted sooner or later, so several attempts
/// may be needed.
fn all_numbers(log: &Log) -> (LogPosition, Vec<u64>) {
    loop {
        let oldest = log.usage().oldest;
        match try_numbers(log, oldest) {
            Ok(numbers) => return (oldest, numbers),
            Err(LogError::Trimmed { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn records_come_back_in_order_with_their_heads() {
    let directory = tempfile::tempdir().unwrap();
    let log = open(directory.path(), small()).unwrap();
    let heads = [Head::Catalog, Head::Tick { now: -5 }, events(2), events(3)];
    let text = br#"{"carrier":"UA","delay":4}"#.repeat(100);
    let mut ends = Vec::new();
    for head in &heads {
        ends.push(append(&log, head.clone(), &text).unwrap());
    }
    log.wait_synced(ends[3]).unwrap();
    let horizons = log.horizons();
    assert_eq!(horizons, Horizons { appended: ends[3], synced: ends[3], trouble: None });
    let check = |log: &Log| {
        let mut reader = log.read(LogPosition(0));
        let mut begin = LogPosition(0);
        for (head, end) in heads.iter().zip(&ends) {
            let record = reader.next().unwrap().unwrap();
            assert_eq!((&record.head, record.payload), (head, &text[..]));
            assert_eq!((record.position, record.end), (begin, *end));
            begin = *end;
        }
        assert!(reader.next().unwrap().is_none());
    };
    check(&log);
    log.close().unwrap();
    check(&open(directory.path(), small()).unwrap());
}

#[test]
fn log_goes_on_where_it_ended() {
    let directory = tempfile::tempdir().unwrap();
    for run in 0..5 {
        let log = open(directory.path(), small()).unwrap();
        assert_eq!(numbers(&log, LogPosition(0)), (0..run * 40).collect::<Vec<_>>());
        for number in run * 40..(run + 1) * 40 {
            append(&log, events(number), &payload(number, 3000)).unwrap();
        }
        log.close().unwrap();
    }
}

/// The files in `data/version-1` were written by the last version of the log that wrote that format.
#[test]
fn log_of_an_earlier_format_is_read_and_goes_on() {
    let names = ["0000000000000002.segment", "0000000000000003.segment"];
    for (loses_headers, spills) in [(false, false), (false, true), (true, false), (true, true)] {
        let directory = tempfile::tempdir().unwrap();
        for name in names {
            let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/version-1").join(name);
            let mut bytes = std::fs::read(from).unwrap();
            if loses_headers {
                bytes[..4096].fill(0);
            }
            std::fs::write(directory.path().join(name), bytes).unwrap();
        }
        let read = |log: &Log| {
            let mut reader = log.read(LogPosition(0));
            let mut sequences = Vec::new();
            while let Some(record) = reader.next().unwrap() {
                let Head::Events(EventsHead { first, producer: Some(producer), .. }) = record.head else {
                    panic!("no events of a producer: {record:?}")
                };
                assert!(record.payload.starts_with(format!("{{\"n\":{}", first.0).as_bytes()));
                sequences.push((producer.sequence, producer.hash));
            }
            sequences
        };
        let mut expected: Vec<(u64, u64)> = (1..=40).map(|sequence| (sequence, 0)).collect();
        let log = open(directory.path(), small()).unwrap();
        assert_eq!(read(&log), expected);
        // Into the last of its segments, or on into one of the format of now.
        let pad = "x".repeat(if spills { 20_000 } else { 10 });
        for sequence in 41..=45 {
            let producer = Producer { id: "p".into(), sequence, hash: sequence * 3 };
            let Head::Events(head) = events(0) else { unreachable!("they are events") };
            let head = EventsHead { first: Offset(sequence - 1), producer: Some(producer), ..head };
            append(&log, Head::Events(head), format!("{{\"n\":{}}}{pad}", sequence - 1).as_bytes()).unwrap();
            expected.push((sequence, sequence * 3));
        }
        log.close().unwrap();
        assert_eq!(read(&open(directory.path(), small()).unwrap()), expected);
    }
}

#[test]
fn reader_waits_at_the_end_and_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let log = open(directory.path(), small()).unwrap();
    let mut reader = log.read(LogPosition(0));
    for number in 0..200 {
        assert!(reader.next().unwrap().is_none());
        let end = append(&log, events(number), &payload(number, 2000)).unwrap();
        log.wait_synced(end).unwrap();
        let record = reader.next().unwrap().unwrap();
        assert_eq!((record.head, record.end), (events(number), end));
    }
}

#[test]
fn many_producers_wait_for_each_other_and_lose_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let told = Arc::new(Mutex::new(Vec::new()));
    let disk = Arc::new(DirDisk::open(directory.path()).unwrap());
    let tells = Arc::clone(&told);
    let on_progress = Box::new(move |horizons: Horizons| tells.lock().unwrap().push(horizons.synced));
    let log = Log::open(disk, Arc::new(SystemClock::new()), small(), on_progress).unwrap();
    std::thread::scope(|scope| {
        for producer in 0..4 {
            let log = &log;
            scope.spawn(move || {
                for number in 0..100 {
                    let number = number * 4 + producer;
                    append(log, events(number), &payload(number, 5000)).unwrap();
                }
            });
        }
    });
    log.wait_synced(log.horizons().appended).unwrap();
    let mut numbers = numbers(&log, LogPosition(0));
    let order_of =
        |producer: u64| numbers.iter().copied().filter(|number| number % 4 == producer).collect::<Vec<_>>();
    for producer in 0..4 {
        assert!(order_of(producer).is_sorted());
    }
    numbers.sort_unstable();
    assert_eq!(numbers, (0..400).collect::<Vec<_>>());
    log.close().unwrap();
    let told = told.lock().unwrap();
    assert!(told.is_sorted() && !told.is_empty(), "{told:?}");
}

#[test]
fn trimmed_segments_are_used_again_and_their_frames_are_gone() {
    let directory = tempfile::tempdir().unwrap();
    let log = open(directory.path(), small()).unwrap();
    let mut ends = vec![LogPosition(0)];
    for number in 0..600 {
        ends.push(append(&log, events(number), &payload(number, 4000)).unwrap());
        if number % 30 == 29 {
            log.wait_synced(ends[ends.len() - 1]).unwrap();
            log.trim(ends[ends.len() - 20]);
        }
    }
    log.wait_synced(ends[600]).unwrap();
    let usage = log.usage();
    assert!(usage.file_bytes < 20 * (68 << 10), "{usage:?}");
    assert!(usage.oldest > LogPosition(0), "{usage:?}");
    assert!(matches!(log.read(LogPosition(0)).next(), Err(LogError::Trimmed { .. })));
    let (oldest, read) = all_numbers(&log);
    let first = ends.iter().position(|&end| end == oldest).expect("it begins at a record") as u64;
    assert_eq!(read, (first..600).collect::<Vec<_>>());
    log.close().unwrap();
    let log = open(directory.path(), small()).unwrap();
    let oldest = log.usage().oldest;
    let first = ends.iter().position(|&end| end == oldest).expect("it begins at a record") as u64;
    assert_eq!(numbers(&log, oldest), (first..600).collect::<Vec<_>>());
}

/// The files of a directory, each with its length.
fn files(path: &Path) -> Vec<(String, u64)> {
    let entries = std::fs::read_dir(path).expect("it is a directory").flatten();
    let file = |entry: std::fs::DirEntry| {
        let bytes = entry.metadata().expect("nobody removes it").len();
        (entry.file_name().to_string_lossy().into_owned(), bytes)
    };
    entries.map(file).collect()
}

fn spares(path: &Path) -> usize {
    files(path).iter().filter(|(name, _)| name.ends_with(".spare")).count()
}

fn bytes_of_files(path: &Path) -> u64 {
    files(path).iter().map(|(_, bytes)| bytes).sum()
}

#[test]
fn start_keeps_one_file_in_reserve_of_those_that_an_earlier_run_has_left() {
    let directory = tempfile::tempdir().unwrap();
    let (mut next, mut left) = (0, 0);
    for run in 0..4 {
        let log = open(directory.path(), small()).unwrap();
        assert!(spares(directory.path()) <= 1, "run {run}: {} of {left}", spares(directory.path()));
        let (_, before) = all_numbers(&log);
        let mut end = LogPosition(0);
        for number in next..next + 100 {
            end = append(&log, events(number), &payload(number, 4000)).unwrap();
        }
        log.wait_synced(end).unwrap();
        assert_eq!(all_numbers(&log).1, before.into_iter().chain(next..next + 100).collect::<Vec<_>>());
        next += 100;
        log.trim(end);
        while log.usage().segments > 1 {
            std::thread::yield_now();
        }
        log.close().unwrap();
        left = spares(directory.path());
        assert!(left >= 5, "run {run}: {left}");
    }
    let log = open(directory.path(), small()).unwrap();
    assert_eq!(spares(directory.path()), 1);
    assert_eq!(log.usage().file_bytes, bytes_of_files(directory.path()));
}

/// Fills segments, trims them and closes the log: their files are spares.
fn create_spares(log: Log) {
    let mut end = LogPosition(0);
    for number in 0..100 {
        end = append(&log, events(number), &payload(number, 4000)).expect("there is room");
    }
    log.wait_synced(end).expect("the disk works");
    log.trim(end);
    while log.usage().segments > 1 {
        std::thread::yield_now();
    }
    log.close().expect("the disk works");
}

#[test]
fn files_of_segments_that_had_another_size_are_gone_after_a_start() {
    let directory = tempfile::tempdir().unwrap();
    let log = open(directory.path(), small()).unwrap();
    create_spares(log);
    assert!(spares(directory.path()) >= 5);
    let log =
        open(directory.path(), LogOptions { segment_bytes: 32 << 10, record_bytes_max: 8 << 10, ..small() });
    let log = log.unwrap();
    assert_eq!(spares(directory.path()), 1, "one of the present size");
    log.close().unwrap();
}

#[test]
fn files_in_reserve_are_given_back_to_a_disk_that_has_less_free_than_the_log_leaves() {
    let disk = SimDisk::new(4);
    disk.set_bytes_max(1 << 30);
    let options = LogOptions { free_bytes_min: 256 << 20, ..small() };
    let log = Log::open(Arc::new(disk.clone()), Arc::new(SystemClock::new()), options, Box::new(|_| ()));
    let log = log.unwrap();
    let mut end = LogPosition(0);
    for number in 0..100 {
        end = append(&log, events(number), &payload(number, 4000)).unwrap();
    }
    log.wait_synced(end).unwrap();
    log.trim(end);
    while log.usage().segments > 1 {
        std::thread::yield_now();
    }
    let kept = log.usage();
    assert!(kept.spares >= 5, "{kept:?}");
    // Others take what the log would leave to them. It returns its spare files at the next check for segments to trim.
    disk.set_bytes_max(kept.file_bytes + (1 << 20));
    while log.usage().spares > 1 {
        log.trim(end);
        std::thread::yield_now();
    }
    let names = swiftwater_log::Disk::names(&disk).unwrap();
    assert_eq!(names.iter().filter(|name| name.ends_with(".spare")).count(), 1);
    assert!(log.usage().file_bytes < kept.file_bytes);
    // Segments trimmed from then on are not kept either.
    while append(&log, events(100), &payload(100, 4000)).is_ok() && log.usage().segments < 2 {}
    let end = log.horizons().appended;
    log.wait_synced(end).unwrap();
    log.trim(end);
    while log.usage().segments > 1 {
        std::thread::yield_now();
    }
    assert!(log.usage().spares <= 1, "{:?}", log.usage());
    log.close().unwrap();
}

#[test]
fn reader_of_a_trimmed_segment_reads_it_to_its_end() {
    let directory = tempfile::tempdir().unwrap();
    let log = open(directory.path(), small()).unwrap();
    for number in 0..100 {
        append(&log, events(number), &payload(number, 4000)).unwrap();
    }
    let end = log.horizons().appended;
    log.wait_synced(end).unwrap();
    let mut reader = log.read(LogPosition(0));
    reader.next().unwrap().unwrap();
    log.trim(end);
    for number in 100..200 {
        append(&log, events(number), &payload(number, 4000)).unwrap();
    }
    log.wait_synced(log.horizons().appended).unwrap();
    let mut number = 1;
    let error = loop {
        match reader.next() {
            Ok(Some(record)) => assert_eq!(record.payload, payload(number, 4000)),
            Ok(None) => panic!("it should have met what was trimmed"),
            Err(error) => break error,
        }
        number += 1;
    };
    assert_eq!(error.kind(), LogErrorKind::NotFound, "{error}");
    assert!(number > 2, "{number}");
}

/// Copies the files of a snapshot into a directory.
fn copied(log: &LogSnapshot, to: &Path) {
    for file in log.files() {
        let mut bytes = vec![0; file.bytes() as usize];
        file.read_exact_at(&mut bytes, 0).expect("a cut can be read");
        std::fs::write(to.join(file.name()), bytes).expect("the directory can be written to");
    }
}

#[test]
fn cut_opens_as_the_log_it_was_taken_of_whatever_becomes_of_that() {
    let (directory, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let log = open(directory.path(), small()).unwrap();
    for number in 0..100 {
        append(&log, events(number), &payload(number, 4000)).unwrap();
    }
    let end = log.horizons().appended;
    log.wait_synced(end).unwrap();
    let cut = log.cut();
    assert_eq!(cut.end(), end);
    assert!(cut.files().len() > 2);
    // All that the cut stands for is given up, and as much again is written behind it.
    for number in 100..400 {
        let end = append(&log, events(number), &payload(number, 4000)).unwrap();
        if number % 10 == 0 {
            log.wait_synced(end).unwrap();
            log.trim(end);
        }
    }
    log.wait_synced(log.horizons().appended).unwrap();
    let (oldest, _) = all_numbers(&log);
    assert!(oldest > end, "{oldest:?}");
    copied(&cut, copy.path());
    let again = open(copy.path(), small()).unwrap();
    assert_eq!(numbers(&again, LogPosition(0)), (0..100).collect::<Vec<_>>());
    assert_eq!(again.horizons().synced, end);
    // It goes on by itself.
    let last = append(&again, events(100), &payload(100, 4000)).unwrap();
    again.wait_synced(last).unwrap();
    drop(again);
    assert_eq!(numbers(&open(copy.path(), small()).unwrap(), LogPosition(0)), (0..=100).collect::<Vec<_>>());
}

#[test]
fn cut_ends_with_what_is_synced_and_nothing_goes_while_the_log_is_held() {
    let directory = tempfile::tempdir().unwrap();
    let log = open(directory.path(), small()).unwrap();
    assert_eq!(log.cut().files().len(), 0);
    let hold = log.retain_all();
    for number in 0..100 {
        let end = append(&log, events(number), &payload(number, 4000)).unwrap();
        log.wait_synced(end).unwrap();
        log.trim(end);
        let (cut, copy) = (log.cut(), tempfile::tempdir().unwrap());
        if number % 20 == 0 {
            copied(&cut, copy.path());
            let again = open(copy.path(), small()).unwrap();
            assert_eq!(numbers(&again, LogPosition(0)), (0..=number).collect::<Vec<_>>());
        }
    }
    assert_eq!(log.usage().oldest, LogPosition(0));
    drop(hold);
    while log.usage().oldest == LogPosition(0) {
        std::thread::yield_now();
    }
}

#[test]
fn full_log_refuses_and_goes_on_when_trimmed() {
    let directory = tempfile::tempdir().unwrap();
    let options = LogOptions { bytes_max: 3 * (68 << 10), ..small() };
    let log = open(directory.path(), options).unwrap();
    let mut count = 0;
    let error = loop {
        match append(&log, events(count), &payload(count, 4000)) {
            Ok(end) => log.wait_synced(end).unwrap(),
            Err(error) => break error,
        }
        count += 1;
    };
    assert_eq!((error.to_string().as_str(), error.kind()), ("the log is full", LogErrorKind::Limit));
    assert!((40..=48).contains(&count), "{count}");
    assert!(log.usage().file_bytes <= 4 * (68 << 10), "what it may take, and one file in reserve");
    // Urgent records have a segment for themselves, and no more.
    let urgent = |number: u64| -> Result<(), LogError> {
        let packed = PackedPayload::raw(payload(number, 4000).into())?;
        let room = at_once(log.reserve_urgent(packed.bytes()))?;
        let end = log.append(Head::Catalog, packed, room)?;
        assert!(matches!(append(&log, events(count), &payload(count, 4000)), Err(LogError::Full)));
        log.wait_synced(end)
    };
    let taken = (0..100).take_while(|number| urgent(*number).is_ok()).count();
    assert!((15..=17).contains(&taken), "{taken}");
    assert!(log.usage().file_bytes <= 4 * (68 << 10));
    log.trim(log.horizons().synced);
    let end = loop {
        // Trimming is done by the log's thread: it is refused until that came to it.
        match append(&log, events(count), &payload(count, 4000)) {
            Ok(end) => break end,
            Err(LogError::Full) => std::thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
    };
    log.wait_synced(end).unwrap();
}

#[test]
fn payloads_are_compressed_where_room_is_short() {
    let directory = tempfile::tempdir().unwrap();
    let options =
        LogOptions { queue_bytes_max: 1 << 20, group_bytes_max: 1 << 20, segment_bytes: 2 << 20, ..small() };
    let options = LogOptions { bytes_max: 10 << 20, record_bytes_max: 100_000, ..options };
    let log = open(directory.path(), options.clone()).unwrap();
    let put = |bytes: usize| {
        let packed = log.pack(vec![b'x'; bytes].into()).unwrap();
        let (is_compressed, room) =
            (packed.bytes() < bytes as u64, log.reserve_blocking(packed.bytes()).unwrap());
        let end = log.append(Head::Catalog, packed, room).unwrap();
        log.wait_synced(end).unwrap();
        is_compressed
    };
    // Alone it would be too large a record.
    assert!(put(100_001));
    let mut lengths = vec![100_001];
    let raw = (0..).find(|&number| {
        let bytes = 90_000 + number;
        lengths.push(bytes);
        put(bytes)
    });
    // The log has four segments, of which half were written.
    assert!((40..=50).contains(&raw.unwrap()), "{raw:?}");
    assert!(put(60_000));
    log.trim(log.horizons().synced);
    assert!(!put(60_000));
    lengths.extend([60_000, 60_000]);
    drop(log);
    let log = open(directory.path(), options).unwrap();
    let mut reader = log.read(log.usage().oldest);
    let mut found = Vec::new();
    while let Some(record) = reader.next().unwrap() {
        assert!(record.payload.iter().all(|&byte| byte == b'x'));
        found.push(record.payload.len());
    }
    assert!(lengths.ends_with(&found) && found.len() >= 2, "{found:?}");
}

#[test]
fn too_large_a_record_is_refused_and_the_largest_is_taken() {
    let directory = tempfile::tempdir().unwrap();
    let log = open(directory.path(), small()).unwrap();
    let bytes_max = small().record_bytes_max as usize;
    let error = append(&log, events(0), &payload(0, bytes_max + 1)).unwrap_err();
    assert_eq!(error.kind(), LogErrorKind::Limit);
    for number in 0..5 {
        append(&log, events(number), &payload(number, bytes_max)).unwrap();
    }
    log.wait_synced(log.horizons().appended).unwrap();
    assert_eq!(numbers(&log, LogPosition(0)), [0, 1, 2, 3, 4]);
    let producer = Some(Producer { id: "x".repeat(257).into(), sequence: 0, hash: 1 });
    let Head::Events(head) = events(1) else { panic!() };
    let error = append(&log, Head::Events(EventsHead { producer, ..head }), b"").unwrap_err();
    assert_eq!(error.kind(), LogErrorKind::Invalid);
}

#[test]
fn directory_is_used_by_one_at_a_time() {
    let directory = tempfile::tempdir().unwrap();
    let disk = DirDisk::open(directory.path().join("a/b")).unwrap();
    let error = DirDisk::open(directory.path().join("a/b")).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ResourceBusy);
    drop(disk);
    DirDisk::open(directory.path().join("a/b")).unwrap();
}

#[test]
fn settings_out_of_range_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let options = LogOptions { segment_bytes: 32 << 10, ..small() };
    let Err(error) = open(directory.path(), options) else { panic!("it was taken") };
    assert!(error.to_string().starts_with("`segment_bytes` is 32768, but must be at least "), "{error}");
}
