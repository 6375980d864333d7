//! Follows files as they grow, as `tail -F` does: through rotation (another file under the name) and truncation.

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context;
use bytes::{Buf, Bytes};

use super::{
    Summary,
    form::CsvFaults,
    producer::Number,
    send::{Request, Sent, connect},
    wait::{RetryDeadline, TextPosition},
};
use crate::{
    args::{IngestArgs, InputForm},
    client::{Client, full},
    input_file::{Packing, Place, StopReading},
    stdio::complain,
};

/// Interval between checks of files that did not grow.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);
/// The most bytes of one request; a longer line is a request of its own.
const REQUEST_BYTES: usize = 4 << 20;
/// The longest line that is waited for; no server takes a longer event.
const LINE_BYTES_MAX: usize = 64 << 20;

/// Sends what the files hold, and what is appended to them until the stop.
pub(super) async fn follow(
    args: &IngestArgs,
    client: &Client,
    places: &[Place],
    stop: &StopReading,
    mut number: Option<Number>,
    summary: &mut Summary,
) -> anyhow::Result<()> {
    if args.rate.is_some() {
        anyhow::bail!("--rate and --follow exclude each other");
    }
    let mut tails: Vec<Tail> = Vec::new();
    for place in places {
        if let Place::File(path) = place {
            tails.push(Tail::new(path, args.from_end)?);
        }
    }
    let mut patience = RetryDeadline::new(args);
    loop {
        let mut grown = false;
        // Lines that were there before the stop are still sent.
        let stopped = stop.stopped();
        for tail in &mut tails {
            let name = tail.path.display().to_string();
            let Some(piece) = tail.next().with_context(|| format!("cannot read {name}"))? else { continue };
            grown = true;
            let Piece { mut lines, begins } = piece;
            let mut begins = begins;
            let mut connection = connect(args, client).await?;
            let mut is_again = false;
            loop {
                let request = Request {
                    stream: &args.stream,
                    sample: args.sample,
                    packing: Packing::None,
                    name: &name,
                    begins,
                    form: InputForm::Json,
                    faults: CsvFaults::default(),
                    number: number.as_ref().map(|number| (number, is_again)),
                };
                match request.send(&mut connection, full(lines.clone()), || {}, summary).await? {
                    Sent::Whole | Sent::Past => break,
                    Sent::Unnumbered(why) => anyhow::bail!(why),
                    Sent::Again(busy) => {
                        is_again = true;
                        connection = patience.wait(client, stop, &busy, complain).await?;
                    }
                    Sent::Busy(busy) => {
                        connection = patience.wait(client, stop, &busy, complain).await?;
                        lines.advance(TextPosition::default().find(busy.next, &lines));
                        begins = begins.plus(busy.next);
                    }
                }
            }
            if let Some(number) = &mut number {
                number.sequence += 1;
            }
            patience.progressed();
        }
        if stopped {
            return Ok(());
        }
        if !grown {
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
    }
}

/// Whole lines of a file, with their start.
#[derive(Debug, PartialEq)]
struct Piece {
    lines: Bytes,
    begins: TextPosition,
}

/// One followed file.
struct Tail {
    path: PathBuf,
    open: Option<Open>,
    /// True if the missing file was reported.
    told_missing: bool,
}

struct Open {
    file: File,
    identity: (u64, u64),
    /// Bytes read.
    read: u64,
    lines: u64,
    /// The beginning of a line whose end is not there yet.
    partial: Vec<u8>,
}

impl Open {
    fn new(file: File) -> io::Result<Open> {
        let metadata = file.metadata()?;
        Ok(Open { file, identity: (metadata.dev(), metadata.ino()), read: 0, lines: 0, partial: Vec::new() })
    }

    /// The appended bytes, up to the last line's end; with `last`, to the very end.
    fn next(&mut self, last: bool) -> io::Result<Option<Piece>> {
        if self.file.metadata()?.len() < self.read {
            // Cut short: what is in it now is new.
            self.file.seek(SeekFrom::Start(0))?;
            *self = Open::new(self.file.try_clone()?)?;
        }
        let read = self.file.by_ref().take(REQUEST_BYTES as u64).read_to_end(&mut self.partial)?;
        self.read += read as u64;
        let end = match memchr::memrchr(b'\n', &self.partial) {
            Some(newline) => newline + 1,
            None if read == 0 && last || self.partial.len() > LINE_BYTES_MAX => self.partial.len(),
            None => 0,
        };
        if end == 0 {
            return Ok(None);
        }
        let rest = self.partial.split_off(end);
        let lines = Bytes::from(std::mem::replace(&mut self.partial, rest));
        let begins = TextPosition { line: self.lines + 1, column: 1 };
        self.lines += memchr::memchr_iter(b'\n', &lines).count() as u64;
        Ok(Some(Piece { lines, begins }))
    }
}

impl Tail {
    fn new(path: &Path, from_end: bool) -> anyhow::Result<Tail> {
        let mut tail = Tail { path: path.to_owned(), open: None, told_missing: false };
        tail.open_if_there().with_context(|| format!("cannot open {}", path.display()))?;
        let Some(open) = &mut tail.open else { return Ok(tail) };
        let mut start = [0; 4];
        let read = open.file.read(&mut start).with_context(|| format!("cannot read {}", path.display()))?;
        if Packing::of(&start[..read]) != Packing::None {
            anyhow::bail!("{} is compressed, and cannot be followed", path.display());
        }
        let to = if from_end { SeekFrom::End(0) } else { SeekFrom::Start(0) };
        open.read = open.file.seek(to).with_context(|| format!("cannot read {}", path.display()))?;
        Ok(tail)
    }

    fn open_if_there(&mut self) -> io::Result<()> {
        match File::open(&self.path) {
            Ok(file) => {
                self.open = Some(Open::new(file)?);
                self.told_missing = false;
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if !std::mem::replace(&mut self.told_missing, true) {
                    complain(&format!("{} does not exist yet; waiting for it", self.path.display()));
                }
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Lines that were not given yet, if there are any now.
    fn next(&mut self) -> io::Result<Option<Piece>> {
        let Some(open) = &mut self.open else {
            self.open_if_there()?;
            return match &mut self.open {
                Some(open) => open.next(false),
                None => Ok(None),
            };
        };
        let named = std::fs::metadata(&self.path).ok().map(|metadata| (metadata.dev(), metadata.ino()));
        // Until another file has the name, the writer may still write to this one.
        let rotated = named.is_some_and(|named| named != open.identity);
        if let Some(piece) = open.next(rotated)? {
            return Ok(Some(piece));
        }
        if rotated {
            self.open_if_there()?;
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, io::Write};

    use super::*;

    fn append(path: &Path, text: &str) {
        let mut file = fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    fn check(tail: &mut Tail, expected: &[(&str, u64)]) {
        let mut pieces = Vec::new();
        // A rotation is seen in one look and read in the next.
        for _ in 0..4 {
            pieces.extend(tail.next().unwrap().map(|piece| (piece.lines, piece.begins.line - 1)));
        }
        let expected: Vec<_> = expected
            .iter()
            .map(|(lines, before)| (Bytes::copy_from_slice(lines.as_bytes()), *before))
            .collect();
        assert_eq!(pieces, expected);
    }

    #[test]
    fn a_line_is_sent_when_its_end_is_there() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        append(&path, "a\nb");
        let mut tail = Tail::new(&path, false).unwrap();
        check(&mut tail, &[("a\n", 0)]);
        append(&path, "c\n");
        check(&mut tail, &[("bc\n", 1)]);
        check(&mut tail, &[]);
    }

    #[test]
    fn rotation_is_followed_and_the_old_file_read_to_its_end() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        append(&path, "a\n");
        let mut tail = Tail::new(&path, false).unwrap();
        check(&mut tail, &[("a\n", 0)]);
        let old = directory.path().join("log.1");
        fs::rename(&path, &old).unwrap();
        append(&old, "b\nlast");
        check(&mut tail, &[("b\n", 1)]);
        append(&path, "new\n");
        check(&mut tail, &[("last", 2), ("new\n", 0)]);
    }

    #[test]
    fn truncation_begins_anew() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        append(&path, "a\nb\nc\n");
        let mut tail = Tail::new(&path, false).unwrap();
        check(&mut tail, &[("a\nb\nc\n", 0)]);
        fs::write(&path, "").unwrap();
        append(&path, "d\n");
        check(&mut tail, &[("d\n", 0)]);
    }

    #[test]
    fn a_file_that_comes_later_is_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let mut tail = Tail::new(&path, true).unwrap();
        check(&mut tail, &[]);
        append(&path, "a\n");
        check(&mut tail, &[("a\n", 0)]);
    }

    #[test]
    fn only_what_is_new_is_sent_from_the_end() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        append(&path, "old\n");
        let mut tail = Tail::new(&path, true).unwrap();
        append(&path, "new\n");
        check(&mut tail, &[("new\n", 0)]);
    }
}
