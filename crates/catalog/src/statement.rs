//! Reads the statements that the catalog has written into the log and into snapshots.

use swiftwater_lang::{Dialect, ParseOptions, ddl::Ddl, parse_kept_ddl};

use crate::WireError;

/// The statement of a text that the catalog has written.
pub fn read(text: &str) -> Result<Ddl, WireError> {
    let ddl = parse_kept_ddl(text, &ParseOptions::new(Dialect::Native, 0))
        .map_err(|errors| WireError::statement(text, errors))?;
    ddl.ok_or_else(|| WireError::statement(text, "it is not a statement of the catalog"))
}
