//! Finds the Python that has the packages of the compared systems.

use std::path::PathBuf;

use anyhow::{Context, ensure};

/// The one that `SWIFTWATER_PYTHON` names, or the one that `make test` has made for its tests.
pub(super) fn python() -> anyhow::Result<PathBuf> {
    let python = match std::env::var_os("SWIFTWATER_PYTHON") {
        Some(python) => PathBuf::from(python),
        None => {
            let program = std::env::current_exe().context("cannot find the path of this program")?;
            let target = program.ancestors().nth(2).context("this program is in no target directory")?;
            target.join("python/bin/python")
        }
    };
    ensure!(python.exists(), "there is no {}; `make test` makes it", python.display());
    Ok(python)
}
