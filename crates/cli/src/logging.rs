//! Logs to standard error: text for people, JSON for machines.

use std::io;

use anyhow::Context;
use tracing_subscriber::{EnvFilter, fmt};

use crate::settings::Settings;

/// Starts logging as the settings say. Only the first call in a process has an effect.
pub(crate) fn start(settings: &Settings) -> anyhow::Result<()> {
    let filter = EnvFilter::builder().parse(&settings.log_filter).context("cannot read the log filter")?;
    // If nothing can be written, to a full disk or to a reader that has left, its error message would panic.
    let to_stderr = fmt().log_internal_errors(false);
    let to_stderr = to_stderr.with_env_filter(filter).with_writer(io::stderr).with_target(true);
    let started = if settings.log_format == "json" {
        to_stderr.json().flatten_event(true).try_init()
    } else {
        to_stderr.compact().with_ansi(crate::stdio::stderr_is_terminal()).try_init()
    };
    if started.is_err() {
        tracing::debug!("logging was started before");
    }
    Ok(())
}
