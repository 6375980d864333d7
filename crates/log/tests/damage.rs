//! Tests of logs that are damaged while they are closed: what is reported, what is skipped, what is truncated.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::sync::Arc;

use swiftwater_event::SystemClock;
use swiftwater_log::{
    Compression, Disk, Head, Log, LogError, LogErrorKind, LogOptions, LogPosition, PackedPayload,
};
use swiftwater_testkit::SimDisk;

fn options() -> LogOptions {
    LogOptions {
        segment_bytes: 4 << 10,
        group_bytes_max: 2 << 10,
        queue_bytes_max: 16 << 10,
        record_bytes_max: 2 << 10,
        bytes_max: 1 << 30,
        free_bytes_min: 0,
        ..LogOptions::default()
    }
}

fn open(disk: &SimDisk, options: LogOptions) -> Result<Log, LogError> {
    Log::open(Arc::new(disk.clone()), Arc::new(SystemClock::new()), options, Box::new(|_| ()))
}

fn payload(number: usize) -> Vec<u8> {
    format!("record {number} ").repeat(8 + number % 30).into_bytes()
}

/// A log of so many records over several segments, each synced before the next; where each ends.
fn written(disk: &SimDisk, records: usize) -> Vec<LogPosition> {
    let log = open(disk, options()).unwrap();
    let mut ends = Vec::new();
    for number in 0..records {
        let packed = PackedPayload::new(&payload(number), Compression::None).unwrap();
        let room = log.reserve_blocking(packed.bytes()).unwrap();
        let end = log.append(Head::Catalog, packed, room).unwrap();
        log.wait_synced(end).unwrap();
        ends.push(end);
    }
    log.close().unwrap();
    ends
}

fn read(log: &Log) -> Vec<usize> {
    let mut reader = log.read(log.usage().oldest);
    let mut numbers = Vec::new();
    while let Some(record) = reader.next().unwrap() {
        let text = std::str::from_utf8(record.payload).unwrap();
        let number = text.split(' ').nth(1).unwrap().parse().unwrap();
        assert_eq!(record.payload, payload(number));
        numbers.push(number);
    }
    numbers
}

/// Segments, in order.
fn names(disk: &SimDisk) -> Vec<Box<str>> {
    let mut names = disk.names().unwrap();
    names.retain(|name| name.ends_with(".segment"));
    names.sort();
    names
}

#[test]
fn damage_in_the_middle_is_told_by_position_and_skipped_when_told_to() {
    let template = SimDisk::new(1);
    let ends = written(&template, 60);
    let names = names(&template);
    assert!(names.len() >= 4, "{names:?}");
    let mut begin = 0;
    let mut count = 0;
    // The last record has no witness: damaged, it is taken for torn.
    for (number, &LogPosition(end)) in ends[..59].iter().enumerate() {
        for at in [0, 5, 24, 31, 32, (end - begin) / 2] {
            let disk = template.only_synced();
            let (name, place) = place(&disk, &names, begin);
            disk.damage(&name, (place + at) as usize);
            let Err(error) = open(&disk, options()) else { panic!("record {number} at byte {at}: not seen") };
            assert_eq!(error.kind(), LogErrorKind::Corrupt);
            let LogError::Corrupt { position, name: told, at: told_at, resumes, .. } = &error else {
                panic!()
            };
            assert_eq!((position.0, told, *told_at), (begin, &name, place), "{error}");
            assert_eq!(*resumes, Some(LogPosition(end)), "{error}");
            let log = open(&disk, LogOptions { skip_corrupt: true, ..options() }).unwrap();
            let expected: Vec<usize> = (0..60).filter(|&other| other != number).collect();
            assert_eq!(read(&log), expected);
            assert_eq!(log.horizons().synced, ends[59]);
            count += 1;
        }
        begin = end;
    }
    assert_eq!(count, 59 * 6);
}

/// The file of a position, and the place in it.
fn place(disk: &SimDisk, names: &[Box<str>], position: u64) -> (Box<str>, u64) {
    let mut found = None;
    for name in names {
        let file = disk.open(name).unwrap();
        let mut base = [0; 8];
        assert_eq!(file.read_at(&mut base, 24).unwrap(), 8);
        let base = u64::from_le_bytes(base);
        if base <= position {
            found = Some((name.clone(), position - base + 4096));
        }
    }
    found.expect("some segment begins before it")
}

#[test]
fn damaged_end_is_cut_and_appended_behind() {
    let template = SimDisk::new(1);
    let ends = written(&template, 30);
    let (name, at) = place(&template, &names(&template), ends[28].0);
    let disk = template.only_synced();
    disk.damage(&name, at as usize + 40);
    for run in 0..3 {
        let log = open(&disk, options()).unwrap();
        assert_eq!(read(&log), (0..29 + run).collect::<Vec<_>>());
        let packed = PackedPayload::new(&payload(29 + run), Compression::None).unwrap();
        let room = log.reserve_blocking(packed.bytes()).unwrap();
        log.append(Head::Catalog, packed, room).unwrap();
        log.close().unwrap();
    }
}

#[test]
fn header_is_kept_twice_and_the_first_frame_says_it_too() {
    let template = SimDisk::new(1);
    written(&template, 30);
    for name in names(&template) {
        let disk = template.only_synced();
        for at in [3, 20, 2048 + 20] {
            disk.damage(&name, at);
            assert_eq!(read(&open(&disk, options()).unwrap()), (0..30).collect::<Vec<_>>(), "{name} at {at}");
        }
    }
}

#[test]
fn missing_segment_is_told() {
    let template = SimDisk::new(1);
    let ends = written(&template, 60);
    let names = names(&template);
    let disk = template.only_synced();
    disk.remove(&names[2]).unwrap();
    let Err(error) = open(&disk, options()) else { panic!("not seen") };
    let LogError::Corrupt { position, .. } = error else { panic!("{error}") };
    assert!(ends.contains(&position));
    let log = open(&disk, LogOptions { skip_corrupt: true, ..options() }).unwrap();
    let numbers = read(&log);
    assert!(numbers.is_sorted() && numbers.len() < 60 && numbers.contains(&59), "{numbers:?}");
}

#[test]
fn log_that_ends_before_what_was_synced_is_refused_and_goes_on_behind_it_when_told_to() {
    let template = SimDisk::new(1);
    let ends = written(&template, 60);
    let names = names(&template);
    for kept in [0, names.len() - 1] {
        let disk = template.only_synced();
        for name in &names[kept..] {
            disk.remove(name).unwrap();
        }
        let known = LogOptions { known_end: ends[59], ..options() };
        let Err(error) = open(&disk, known.clone()) else { panic!("not seen") };
        assert_eq!(error.kind(), LogErrorKind::Corrupt);
        let LogError::Short { end, known: told } = error else { panic!("{error}") };
        assert!(end < told && told == ends[59], "{end:?} {told:?}");
        let log = open(&disk, LogOptions { skip_corrupt: true, ..known.clone() }).unwrap();
        let found = read(&log);
        assert_eq!(found, (0..found.len()).collect::<Vec<_>>());
        assert_eq!(found.is_empty(), kept == 0);
        assert_eq!(log.horizons().appended, ends[59], "no position is used twice");
        let packed = PackedPayload::new(&payload(60), Compression::None).unwrap();
        let room = log.reserve_blocking(packed.bytes()).unwrap();
        let end = log.append(Head::Catalog, packed, room).unwrap();
        log.wait_synced(end).unwrap();
        assert_eq!(read(&log), [&found[..], &[60]].concat());
        // A reader within a lost part continues after it.
        let mut reader = log.read(ends[58]);
        assert_eq!(reader.next().unwrap().unwrap().position, ends[59]);
        log.close().unwrap();
        // Incomplete segments that remain are found until they are trimmed.
        let log = open(&disk, LogOptions { skip_corrupt: kept > 0, known_end: end, ..options() }).unwrap();
        assert_eq!(read(&log), [&found[..], &[60]].concat());
    }
}

#[test]
fn newer_format_is_refused() {
    let disk = SimDisk::new(1);
    written(&disk, 3);
    let name = names(&disk).remove(0);
    let file = disk.open(&name).unwrap();
    for at in [0, 2048] {
        let mut header = [0; 36];
        file.read_at(&mut header, at).unwrap();
        header[8] = 3;
        let crc = crc32c::crc32c(&header[..32]);
        header[32..].copy_from_slice(&crc.to_le_bytes());
        file.write_all_at(&mut [std::io::IoSlice::new(&header)], at).unwrap();
    }
    let Err(error) = open(&disk, options()) else { panic!("it was read") };
    assert_eq!(
        (error.kind(), error.to_string()),
        (LogErrorKind::Invalid, format!("the log's file `{name}` has format 3, this version reads up to 2"))
    );
}
