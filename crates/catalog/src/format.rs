//! The version of the forms of log records and snapshots.

use serde::Deserialize;

use crate::WireError;

/// The form of snapshots and changes that this version writes, and the newest that it reads.
pub const FORMAT: u32 = 1;

/// Refuses a form that is newer than this version before anything else of it is read.
pub(crate) fn check_format(bytes: &[u8], what: &'static str) -> Result<(), WireError> {
    #[derive(Deserialize)]
    struct Head {
        format: u32,
        #[serde(default)]
        written_by: Option<String>,
    }
    let head: Head = serde_json::from_slice(bytes).map_err(|source| WireError::Form { what, source })?;
    if head.format > FORMAT {
        return Err(WireError::Newer {
            what,
            found: head.format,
            known: FORMAT,
            written_by: head.written_by.unwrap_or_else(|| "a newer version".to_owned()),
        });
    }
    Ok(())
}
