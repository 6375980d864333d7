//! Compares the log with a Kafka broker that runs already: the same events, by Kafka's own client from Python.

use std::{
    io::Write,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context, ensure};
use serde::Deserialize;

use super::python::python;
use crate::bodies::Bodies;

/// Sends, and says how long that took.
const SCRIPT: &str = include_str!("kafka.py");
/// The variable with the broker's address.
const ADDRESS: &str = "SWIFTWATER_KAFKA";

/// A broker that was named.
pub(super) struct Kafka {
    address: String,
}

#[derive(Deserialize)]
struct Sent {
    seconds: f64,
    events: u64,
    good: bool,
}

impl Kafka {
    /// The one that `SWIFTWATER_KAFKA` names.
    pub(super) fn named() -> anyhow::Result<Kafka> {
        let address = std::env::var(ADDRESS);
        let address =
            address.with_context(|| format!("Kafka is not there ({ADDRESS}, see CONTRIBUTING.md)"))?;
        Ok(Kafka { address })
    }

    /// Bytes of events a second that the broker acknowledges: the faster of one and of two sending processes.
    pub(super) fn run(&self, directory: &Path, bodies: &Bodies, events: u64) -> anyhow::Result<f64> {
        let mut file = tempfile::NamedTempFile::new_in(directory).context("cannot make a file")?;
        let (mut lines, mut bytes) = (0, 0);
        for (body, _) in bodies.times(0) {
            file.write_all(&body.bytes).context("cannot write events")?;
            (lines, bytes) = (lines + body.events, bytes + body.bytes.len());
        }
        let event_bytes = bytes as f64 / lines as f64;
        let mut best = 0.0_f64;
        for processes in ["1", "2"] {
            let out = Command::new(python()?)
                .args(["-c", SCRIPT, &self.address])
                .arg(file.path())
                .args([&events.to_string(), processes])
                .stderr(Stdio::inherit())
                .output()
                .context("cannot start Python")?;
            ensure!(out.status.success(), "Kafka's client failed");
            let sent: Sent = serde_json::from_slice(&out.stdout).context("Kafka's client says nothing")?;
            ensure!(sent.good, "the broker did not take all events");
            best = best.max(sent.events as f64 * event_bytes / sent.seconds);
        }
        // The broker leaves to the system what it has acknowledged: it is not to be written while others are measured.
        rustix::fs::sync();
        Ok(best)
    }
}
