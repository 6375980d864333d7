//! Reads the statements that the catalog has written into the log and into snapshots.

use swiftwater_lang::{Dialect, ParseOptions, ddl::Ddl, parse_kept_ddl};

use crate::WireError;

/// The statement of a text that the catalog has written.
pub fn read(text: &str) -> Result<Ddl, WireError> {
    // Of any length: it was validated before it was logged, and its normal form may be longer than what was written.
    let options = ParseOptions { text_bytes_max: usize::MAX, ..ParseOptions::new(Dialect::Native, 0) };
    let ddl = parse_kept_ddl(text, &options).map_err(|errors| WireError::statement(text, errors))?;
    ddl.ok_or_else(|| WireError::statement(text, "it is not a statement of the catalog"))
}
