//! Generates files of events, and records the answers that they must produce.

use std::{
    fs::{self, File},
    io::{Read, Seek, Write},
    path::Path,
};

use anyhow::{Context, bail};
use memchr::memmem;

use crate::{table::mib, workload::Spec};

/// By the field `l1`, which has four digits: how many events, and the sum of their `l2`.
pub(crate) type Groups = Vec<(u64, i64)>;
/// Asks for [`Groups`].
pub(crate) const GROUPS_QUERY: &str =
    "SELECT l1, COUNT(*) AS n, SUM(l2) AS total FROM STREAM(MAX, TIME) GROUP BY l1";
/// Values of `l1`.
pub(crate) const GROUPS_MAX: usize = 10_000;

/// A file of events. It has no name: it is gone with the last process that holds it, however that ends.
#[derive(Debug)]
pub(crate) struct Load {
    pub(crate) file: File,
    pub(crate) spec: Spec,
    pub(crate) bytes: u64,
    pub(crate) events: u64,
    /// Matches of each query.
    pub(crate) truth: Vec<u64>,
    /// The groups that [`GROUPS_QUERY`] finds, in events of the published shape.
    pub(crate) groups: Groups,
}

impl Load {
    /// Writes at least `bytes_min` bytes of events into a file in `directory`, and leaves them in the page cache, on
    /// disk too, so that nothing is written while something is measured.
    pub(crate) fn generate(directory: &Path, spec: Spec, bytes_min: u64) -> anyhow::Result<Load> {
        fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
        check_space(directory, bytes_min)?;
        let place = || format!("cannot write a file in {}", directory.display());
        let mut file = tempfile::tempfile_in(directory).with_context(place)?;
        let mut workload = spec.begin();
        let mut load = Load {
            file: file.try_clone().with_context(place)?,
            spec,
            bytes: 0,
            events: 0,
            truth: Vec::new(),
            groups: vec![(0, 0); GROUPS_MAX],
        };
        let mut chunk = Vec::new();
        while load.bytes < bytes_min {
            chunk.clear();
            workload.write(spec.chunk_events(), &mut chunk);
            if matches!(spec, Spec::Published { .. }) {
                count_groups(&chunk, &mut load.groups)?;
            }
            file.write_all(&chunk).with_context(place)?;
            load.bytes += chunk.len() as u64;
            load.events += spec.chunk_events() as u64;
        }
        load.truth = workload.truth().to_vec();
        file.sync_all().with_context(place)?;
        load.warm().context("cannot read the events back")?;
        Ok(load)
    }

    /// Reads the file once, so that it is in the page cache.
    fn warm(&mut self) -> anyhow::Result<()> {
        self.file.rewind()?;
        let mut buffer = vec![0; 1 << 20];
        let mut bytes = 0;
        loop {
            match self.file.read(&mut buffer)? {
                0 => break,
                count => bytes += count as u64,
            }
        }
        anyhow::ensure!(bytes == self.bytes, "the file has {bytes} bytes, not {}", self.bytes);
        Ok(())
    }
}

/// Fails, with what to do, unless so many bytes and a gigabyte more are free.
pub(crate) fn check_space(directory: &Path, bytes: u64) -> anyhow::Result<()> {
    let space = rustix::fs::statvfs(directory)
        .with_context(|| format!("cannot tell the free space at {}", directory.display()))?;
    let free = space.f_bavail * space.f_frsize;
    let needed = bytes + (1 << 30);
    if free < needed {
        bail!(
            "{} are free at {}, {} are needed: free some, give another --data, or want less (--gib, \
             --history-events)",
            mib(free),
            directory.display(),
            mib(needed)
        );
    }
    Ok(())
}

/// Counts groups by plain search of text: nothing of what is measured has a part in it.
fn count_groups(ndjson: &[u8], groups: &mut Groups) -> anyhow::Result<()> {
    let finders = [memmem::Finder::new(b"\"l1\":"), memmem::Finder::new(b"\"l2\":")];
    let mut rest = ndjson;
    while !rest.is_empty() {
        let mut values = [0; 2];
        for (value, finder) in values.iter_mut().zip(&finders) {
            let at = finder.find(rest).context("an event without longs")?;
            rest = &rest[at + finder.needle().len()..];
            let digits = rest.iter().take_while(|byte| byte.is_ascii_digit());
            *value = digits.fold(0, |number, digit| number * 10 + i64::from(digit - b'0'));
        }
        let [key, value] = values;
        let group = groups.get_mut(key as usize).context("an `l1` with more than four digits")?;
        *group = (group.0 + 1, group.1 + value);
        let end = memchr::memchr(b'\n', rest).context("an event without a line's end")?;
        rest = &rest[end + 1..];
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_holds_what_is_told_of_it() {
        let directory = tempfile::tempdir().unwrap();
        let mut load = Load::generate(directory.path(), Spec::Published { queries: 3 }, 4 << 20).unwrap();
        assert!(fs::read_dir(directory.path()).unwrap().next().is_none(), "the file has a name");
        load.file.rewind().unwrap();
        let mut text = String::new();
        load.file.read_to_string(&mut text).unwrap();
        assert_eq!((text.len() as u64, text.lines().count() as u64), (load.bytes, load.events));
        let mut groups = vec![(0, 0); GROUPS_MAX];
        for line in text.lines() {
            let event: serde_json::Value = serde_json::from_str(line).unwrap();
            let group: &mut (u64, i64) = &mut groups[event["l1"].as_u64().unwrap() as usize];
            *group = (group.0 + 1, group.1 + event["l2"].as_i64().unwrap());
        }
        assert_eq!(groups, load.groups);
    }
}
