//! Writes the table to a file of the project.

use std::{fs, path::Path};

use anyhow::Context;

use crate::table::Table;

const NAME: &str = "RESULTS.md";

/// Writes `RESULTS.md`: what was run, on what, and all that came of it.
pub(crate) fn write(directory: &Path, about: &str, table: &Table) -> anyhow::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let command = match words.as_slice() {
        [only] if only == "--write" => "`make bench`".to_owned(),
        words => format!("`make bench BENCH_ARGS=\"{}\"`", words.join(" ")),
    };
    let text = format!(
        "# Results\n\nWritten by {command}. Every answer was counted and held against what the generator of the events \
         knows;\na wrong one would stand here as such. Ratios are of one run, by turns.\n\n{about}\n\n{table}\n"
    );
    let path = directory.join(NAME);
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
}
