//! A bare loop with only the work that durable ingest requires. All cores compress bodies; one thread writes them in groups
//! and syncs each group, into files of preset length.

use std::{
    fs::File,
    os::unix::fs::FileExt,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, sync_channel},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::Context;
use lz4_flex::block::{CompressTable, compress_into_with_table, get_maximum_output_size};
use rustix::fs::FallocateFlags;

use crate::bodies::Bodies;
use crate::machine;

/// As the log's own files.
const FILE_BYTES: u64 = 64 << 20;
/// Compressed bodies that wait to be written.
const WAITING_MAX: usize = 16;

/// Bytes a second, before compression, of the first so many bodies in groups of about so many compressed bytes.
pub(super) fn run(
    directory: &Path,
    bodies: &Arc<Bodies>,
    count: u64,
    group_bytes: f64,
) -> anyhow::Result<f64> {
    let (packed, waiting) = sync_channel(WAITING_MAX);
    let next = AtomicU64::new(0);
    let start = Instant::now();
    thread::scope(|scope| {
        for _ in 0..machine::cores() {
            let (packed, next) = (packed.clone(), &next);
            scope.spawn(move || {
                let mut table = CompressTable::large();
                let mut into = Vec::new();
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        return;
                    }
                    let body = &bodies.body(number).bytes;
                    into.resize(get_maximum_output_size(body.len()), 0);
                    // There is always room for the most that it can take. A writer that has failed is told of below.
                    if let Ok(length) = compress_into_with_table(body, &mut into, &mut table)
                        && packed.send(into[..length].to_vec()).is_err()
                    {
                        return;
                    }
                }
            });
        }
        drop(packed);
        write(directory, waiting, group_bytes as usize)
    })?;
    Ok(bodies.bytes(count) as f64 / start.elapsed().as_secs_f64())
}

/// Ends with the last body, or at a fault, when nobody waits for it to take one any more.
fn write(directory: &Path, waiting: Receiver<Vec<u8>>, group_bytes: usize) -> anyhow::Result<()> {
    let begin = || -> anyhow::Result<File> {
        let file = tempfile::tempfile_in(directory).context("cannot make a file")?;
        rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, FILE_BYTES).context("no room for a file")?;
        Ok(file)
    };
    let mut file = begin()?;
    let (mut place, mut group) = (0, Vec::new());
    while let Ok(first) = waiting.recv() {
        group.clear();
        group.extend_from_slice(&first);
        // A body more is taken only where the group stays nearer to its size.
        while group.len() + first.len() / 2 < group_bytes
            && let Ok(more) = waiting.recv()
        {
            group.extend_from_slice(&more);
        }
        if place + group.len() as u64 > FILE_BYTES {
            (file, place) = (begin()?, 0);
        }
        file.write_all_at(&group, place).context("cannot write")?;
        file.sync_data().context("cannot sync")?;
        place += group.len() as u64;
    }
    Ok(())
}

/// Milliseconds of so many syncs, each of as many bytes as the log writes for a few small events: one after another, or each
/// at its time with `every` between, from when it was due where the one before it took longer than that.
pub(super) fn syncs(
    directory: &Path,
    bytes: usize,
    samples: usize,
    every: Option<Duration>,
) -> anyhow::Result<Vec<f64>> {
    let file = tempfile::tempfile_in(directory).context("cannot make a file")?;
    // Written once before, as the log writes ahead, so that a sync is of the bytes and not of the file's map.
    let text = vec![b'x'; bytes];
    (0..samples).try_for_each(|at| file.write_all_at(&text, (at * bytes) as u64)).context("cannot write")?;
    file.sync_all().context("cannot sync")?;
    let start = Instant::now();
    let sync = |at: usize| -> anyhow::Result<f64> {
        let due = every.map(|every| start + every * at as u32);
        let early = due.map_or(Duration::ZERO, |due| due.saturating_duration_since(Instant::now()));
        thread::sleep(early);
        let from = due.filter(|_| early.is_zero()).unwrap_or_else(Instant::now);
        file.write_all_at(&text, (at * bytes) as u64)?;
        file.sync_data()?;
        Ok(from.elapsed().as_secs_f64() * 1e3)
    };
    (0..samples).map(sync).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_bodies_are_written() {
        let directory = tempfile::tempdir().unwrap();
        let bodies = Arc::new(Bodies::of("{\"a\":1}\n".repeat(400_000).into()).unwrap());
        assert!(run(directory.path(), &bodies, 20, 100e3).unwrap() > 0.0);
        assert_eq!(syncs(directory.path(), 512, 3, None).unwrap().len(), 3);
    }
}
