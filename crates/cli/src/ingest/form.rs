//! Reads files other than JSON as lines of JSON, which are then sent like all others, with the same rates, pauses and
//! progress. A line is a row of a Parquet file, or a line of CSV.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read},
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use anyhow::Context;
use swiftwater_event::Type;
use swiftwater_server::CsvEvents;
#[cfg(feature = "history")]
use swiftwater_sql::forms::ParquetRows;

use super::REJECTIONS_TOLD_MAX;
use crate::args::InputForm;

/// CSV is read in pieces of this size.
const CSV_READ_BYTES: usize = 64 << 10;
/// Lines of Parquet's rows are made in pieces of this size, or a little more.
const PARQUET_LINES_BYTES: usize = 256 << 10;

impl InputForm {
    /// The format by a file's name: `.csv` and `.parquet`, also before the suffix of a compression; JSON otherwise.
    pub(crate) fn of(path: &Path) -> InputForm {
        let name =
            path.file_name().map(|name| name.to_string_lossy().to_ascii_lowercase()).unwrap_or_default();
        let name = name.trim_end_matches(".gz").trim_end_matches(".zst");
        match name.rsplit_once('.') {
            Some((_, "csv")) => InputForm::Csv,
            Some((_, "parquet" | "pq")) => InputForm::Parquet,
            _ => InputForm::Json,
        }
    }

    /// The text of a place in such a file.
    pub(crate) fn place(self, line: u64, column: u64) -> String {
        match self {
            InputForm::Json => format!("{line}:{column}"),
            InputForm::Csv => line.to_string(),
            InputForm::Parquet => format!("row {line}"),
        }
    }
}

/// The faults of a CSV file's records, by their lines: the server sees only that the lines in their place are no
/// events. Only those of the first records are kept, as no more rejections are reported.
#[derive(Debug, Clone, Default)]
pub(crate) struct CsvFaults(Arc<Mutex<BTreeMap<u64, String>>>);

impl CsvFaults {
    /// The fault of a line of the file, if it has one.
    pub(crate) fn of(&self, line: u64) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&line).cloned()
    }

    fn record(&self, line: u64, fault: &str) {
        let mut faults = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if faults.len() < REJECTIONS_TOLD_MAX {
            faults.insert(line, fault.to_owned());
        }
    }
}

/// CSV with a header, as a line for each of its lines.
pub(crate) struct CsvLines<R> {
    reader: R,
    csv: CsvEvents,
    lines: Lines,
    /// Lines that were made so far.
    made: u64,
    faults: CsvFaults,
    ended: bool,
}

impl<R> CsvLines<R> {
    /// `declared`: what is declared of fields.
    pub(crate) fn new(reader: R, faults: CsvFaults, declared: &[(Box<str>, Type)]) -> CsvLines<R> {
        let csv = CsvEvents::default().declared(declared.iter().cloned());
        CsvLines { reader, csv, lines: Lines::default(), made: 0, faults, ended: false }
    }

    /// Searches the new lines, which are complete, for faults.
    fn record_faults(&mut self) {
        let mut begin = 0;
        for end in memchr::memchr_iter(b'\n', &self.lines.text) {
            self.made += 1;
            if let Some(fault) = CsvEvents::fault(&self.lines.text[begin..end]) {
                self.faults.record(self.made, fault);
            }
            begin = end + 1;
        }
    }
}

impl<R: Read> Read for CsvLines<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut piece = [0; CSV_READ_BYTES];
        while self.lines.is_empty() && !self.ended {
            match self.reader.read(&mut piece) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
                Ok(0) => {
                    self.ended = true;
                    self.csv.finish(self.lines.refill());
                }
                Ok(read) => self.csv.push(&piece[..read], self.lines.refill()),
            }
            self.record_faults();
        }
        Ok(self.lines.give(buffer))
    }
}

/// A binary without history reads no Parquet.
#[cfg(not(feature = "history"))]
enum ParquetRows {}

#[cfg(not(feature = "history"))]
impl ParquetRows {
    fn open(_file: File) -> anyhow::Result<ParquetRows> {
        Err(anyhow::anyhow!(swiftwater_server::WITHOUT_HISTORY))
    }

    fn next(&mut self, _lines: &mut Vec<u8>) -> io::Result<bool> {
        match *self {}
    }

    fn rows_emitted(&self) -> u64 {
        match *self {}
    }

    fn rows(&self) -> u64 {
        match *self {}
    }
}

/// A Parquet file, as a line for each row.
pub(crate) struct ParquetLines {
    rows: ParquetRows,
    lines: Lines,
    /// The bytes of the file read so far, estimated by the share of its rows.
    bytes_read: Arc<AtomicU64>,
    bytes: u64,
}

impl ParquetLines {
    pub(crate) fn open(path: &Path, bytes_read: &Arc<AtomicU64>) -> anyhow::Result<(ParquetLines, u64)> {
        let name = path.display();
        let file = File::open(path).with_context(|| format!("cannot open {name}"))?;
        let bytes = file.metadata().with_context(|| format!("cannot open {name}"))?.len();
        let rows = ParquetRows::open(file).with_context(|| format!("cannot read {name}"))?;
        Ok((ParquetLines { rows, lines: Lines::default(), bytes_read: Arc::clone(bytes_read), bytes }, bytes))
    }
}

impl Read for ParquetLines {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.lines.is_empty() {
            let lines = self.lines.refill();
            while lines.len() < PARQUET_LINES_BYTES
                && self.rows.next(lines).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?
            {
            }
            let share = self.rows.rows_emitted() as f64 / self.rows.rows().max(1) as f64;
            self.bytes_read.store((self.bytes as f64 * share) as u64, Ordering::Relaxed);
        }
        Ok(self.lines.give(buffer))
    }
}

/// Text that was made and not taken yet.
#[derive(Default)]
struct Lines {
    text: Vec<u8>,
    taken: usize,
}

impl Lines {
    fn is_empty(&self) -> bool {
        self.taken == self.text.len()
    }

    /// The buffer for more text, once all of it is taken.
    fn refill(&mut self) -> &mut Vec<u8> {
        self.text.clear();
        self.taken = 0;
        &mut self.text
    }

    fn give(&mut self, buffer: &mut [u8]) -> usize {
        let count = buffer.len().min(self.text.len() - self.taken);
        buffer[..count].copy_from_slice(&self.text[self.taken..][..count]);
        self.taken += count;
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_files_name_tells_its_form() {
        for (name, form) in [
            ("a.csv", InputForm::Csv),
            ("a/b.CSV.gz", InputForm::Csv),
            ("a.csv.zst", InputForm::Csv),
            ("part-0.snappy.parquet", InputForm::Parquet),
            ("a.ndjson", InputForm::Json),
            ("csv", InputForm::Json),
            ("-", InputForm::Json),
        ] {
            assert_eq!(InputForm::of(Path::new(name)), form, "{name}");
        }
    }

    #[test]
    fn csv_has_a_line_for_each_of_its_lines() {
        let mut text = String::new();
        let faults = CsvFaults::default();
        let csv = &b"a,b\n1,\"x\ny\"\n2,z,3\n2,z"[..];
        CsvLines::new(csv, faults.clone(), &[]).read_to_string(&mut text).unwrap();
        let fault = "3 values, and 2 names in the header";
        let lines = format!("\n{{\"a\":1,\"b\":\"x\\ny\"}}\n\n# {fault}\n{{\"a\":2,\"b\":\"z\"}}\n");
        assert_eq!(text, lines);
        assert_eq!((faults.of(3), faults.of(4).as_deref()), (None, Some(fault)));
    }
}
