//! Tests on a real disk that is full: a small file system in memory, mounted for the test.

use std::{
    io::{ErrorKind, Write},
    path::Path,
    sync::Arc,
};

use swiftwater_event::SystemClock;
use swiftwater_log::{DirDisk, Head, Log, LogError, LogOptions, LogPosition, PackedPayload};
use swiftwater_testkit::{Mount, at_once};

fn options() -> LogOptions {
    LogOptions {
        segment_bytes: 256 << 10,
        group_bytes_max: 64 << 10,
        queue_bytes_max: 512 << 10,
        record_bytes_max: 128 << 10,
        bytes_max: 1 << 30,
        free_bytes_min: 0,
        ..LogOptions::default()
    }
}

/// A process that the other test starts has this one's lock, too, until it is another program.
fn disk(path: &Path) -> Arc<DirDisk> {
    loop {
        match DirDisk::open(path) {
            Err(error) if error.kind() == ErrorKind::ResourceBusy => std::thread::yield_now(),
            opened => return Arc::new(opened.expect("the directory can be used")),
        }
    }
}

#[test]
fn full_file_system_is_refused_before_and_got_over_after() {
    let directory = tempfile::tempdir().unwrap();
    let mount = match Mount::new(directory.path(), "4m") {
        Ok(mount) => mount,
        Err(why) => return println!("skipped: 1 test, no file system can be mounted here: {why}"),
    };
    let path = mount.path().join("log");
    let open = || Log::open(disk(&path), Arc::new(SystemClock::new()), options(), Box::new(|_| ())).unwrap();
    let log = open();
    let payload = |number: usize| PackedPayload::raw(vec![number as u8; 50_000].into()).unwrap();
    let append = |number: usize| -> Result<LogPosition, LogError> {
        let packed = payload(number);
        let room = log.reserve_blocking(packed.bytes())?;
        log.append(Head::Catalog, packed, room)
    };
    // Another writer's file takes half of it; the log fills the rest.
    let hog = mount.path().join("hog");
    std::fs::write(&hog, vec![1; 2 << 20]).unwrap();
    let mut count = 0;
    let fill = |count: &mut usize| loop {
        match append(*count) {
            Ok(_) => *count += 1,
            Err(LogError::Full) => break,
            Err(error) => panic!("{error}"),
        }
    };
    fill(&mut count);
    assert!((20..40).contains(&count), "{count}");
    // All that was taken is synced, full or not: room for it was there.
    log.wait_synced(log.horizons().appended).unwrap();
    // Another process takes the last byte: urgent records have their room all the same.
    let mut last = std::fs::File::create(mount.path().join("last")).unwrap();
    while last.write_all(&[1; 4096]).is_ok() {}
    assert_eq!(rustix::fs::statvfs(mount.path()).unwrap().f_bavail, 0);
    let packed = payload(count);
    let room = at_once(log.reserve_urgent(packed.bytes())).unwrap();
    log.wait_synced(log.append(Head::Catalog, packed, room).unwrap()).unwrap();
    count += 1;
    assert!(matches!(append(count), Err(LogError::Full)));
    let before = count;
    std::fs::remove_file(&hog).unwrap();
    std::fs::remove_file(mount.path().join("last")).unwrap();
    while append(count).is_err() {
        std::thread::yield_now();
    }
    count += 1;
    fill(&mut count);
    assert!(count > before + 20, "{count} after {before}");
    let wanted = LogPosition(1 << 20);
    log.trim(wanted);
    log.wait_synced(log.horizons().appended).unwrap();
    log.close().unwrap();
    let log = open();
    let oldest = log.usage().oldest;
    assert!(oldest <= wanted, "nothing but what need not be kept is gone: {oldest:?}");
    let mut reader = log.read(oldest);
    let mut number = (oldest.0 / 50_032) as usize;
    while let Some(record) = reader.next().unwrap() {
        assert_eq!(record.payload, vec![number as u8; 50_000]);
        number += 1;
    }
    assert_eq!(number, count);
}

#[test]
fn full_file_system_takes_what_is_urgent_after_each_of_many_starts() {
    let directory = tempfile::tempdir().unwrap();
    let mount = match Mount::new(directory.path(), "4m") {
        Ok(mount) => mount,
        Err(why) => return println!("skipped: 1 test, no file system can be mounted here: {why}"),
    };
    let path = mount.path().join("log");
    let open = || Log::open(disk(&path), Arc::new(SystemClock::new()), options(), Box::new(|_| ())).unwrap();
    let take_the_rest = || {
        let mut hog =
            std::fs::File::options().create(true).append(true).open(mount.path().join("hog")).unwrap();
        while hog.write_all(&[1; 4096]).is_ok() {}
    };
    let append = |log: &Log, number: usize, is_urgent: bool| -> Result<(), LogError> {
        let packed = PackedPayload::raw(vec![number as u8; 50_000].into())?;
        let bytes = packed.bytes();
        let room = if is_urgent { log.reserve_urgent(bytes) } else { log.reserve(bytes) };
        let end = log.append(Head::Catalog, packed, at_once(room)?)?;
        log.wait_synced(end)
    };
    let mut log = open();
    let mut count = 0;
    append(&log, count, false).unwrap();
    while append(&log, count + 1, false).is_ok() {
        count += 1;
        if count == 8 {
            take_the_rest();
        }
    }
    count += 1;
    for start in 0..3 {
        log.close().unwrap();
        log = open();
        take_the_rest();
        let refused = append(&log, count, false);
        assert!(matches!(refused, Err(LogError::Full)), "{start}: {refused:?}");
        append(&log, count, true).unwrap_or_else(|error| panic!("{start}: {error}: {:?}", log.usage()));
        count += 1;
    }
    let mut reader = log.read(LogPosition(0));
    for number in 0..count {
        assert_eq!(reader.next().unwrap().unwrap().payload, vec![number as u8; 50_000]);
    }
    assert!(reader.next().unwrap().is_none());
    drop(reader);
    // No reader needs its content: it continues with its own files.
    for number in count..count + 100 {
        while append(&log, number, false).is_err() {
            log.trim(log.horizons().synced);
            if log.resumes_after_record() {
                let room = at_once(log.reserve_urgent(0)).unwrap();
                let end = log.append(Head::Tick { now: 0 }, PackedPayload::empty(), room).unwrap();
                log.wait_synced(end).unwrap();
            }
            std::thread::yield_now();
        }
    }
    // Files that others hold are not among them.
    assert!(log.usage().file_bytes < 2 << 20, "{:?}", log.usage());
}
