//! Defines a scenario: its needs, its input and its result.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::bail;
use swiftwater_event::Clock;
use swiftwater_plot::{Line, Plot};
use tokio::runtime::Runtime;

/// The share of a requested rate that counts as reached.
const HELD_SHARE: f64 = 0.95;

/// One experiment.
pub(super) struct Scenario {
    /// Its name on the command line.
    pub(super) id: &'static str,
    /// Its description in a line.
    pub(super) about: &'static str,
    /// Its requirements.
    pub(super) needs: fn(Size) -> Needs,
    /// Runs it.
    pub(super) run: fn(&Context) -> anyhow::Result<Measured>,
}

/// The size of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Size {
    /// Checks that it works at all: seconds, with any build.
    Smoke,
    /// All scenarios together within ten minutes on two cores.
    Short,
    /// The published size.
    Full,
}

impl Size {
    /// The one of three that is meant.
    pub(super) fn of<T>(self, smoke: T, short: T, full: T) -> T {
        match self {
            Size::Smoke => smoke,
            Size::Short => short,
            Size::Full => full,
        }
    }

    /// The name in a word.
    pub(super) fn name(self) -> &'static str {
        self.of("smoke", "short", "full")
    }
}

/// Approximate requirements of a scenario.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Needs {
    /// The most that lies on disk at once.
    pub(super) disk_bytes: u64,
    /// Its duration on two cores.
    pub(super) seconds: u64,
}

impl Needs {
    /// The needs of so many seconds, without disk.
    pub(super) fn seconds(seconds: u64) -> Needs {
        Needs { disk_bytes: 0, seconds }
    }

    /// The needs of both, one after the other.
    pub(super) fn and_then(self, next: Needs) -> Needs {
        Needs { disk_bytes: self.disk_bytes.max(next.disk_bytes), seconds: self.seconds + next.seconds }
    }

    /// The needs in words.
    pub(super) fn text(self) -> String {
        let gib = self.disk_bytes as f64 / f64::from(1 << 30);
        format!("up to {gib:.1} GiB of disk and about {} min", self.seconds.div_ceil(60))
    }
}

/// The context of scenarios.
pub(super) struct Context {
    /// The size of the run.
    pub(super) size: Size,
    /// The time.
    pub(super) clock: Arc<dyn Clock>,
    /// Set when a person wants it to end.
    pub(super) stop: Arc<AtomicBool>,
    /// Directory in which data directories are made.
    pub(super) directory: PathBuf,
    /// A running server, if one was given.
    pub(super) given: Option<String>,
    /// The runtime of clients.
    pub(super) runtime: Runtime,
}

impl Context {
    /// An error once a person wants it to end: to be asked between parts of a scenario.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        if self.stop.load(Ordering::Relaxed) {
            bail!("interrupted")
        }
        Ok(())
    }

    /// Waits for so long, or less if the user ends the run.
    pub(super) fn pause(&self, time: Duration) -> anyhow::Result<()> {
        let until = self.clock.monotonic_nanos() + time.as_nanos() as u64;
        loop {
            self.check()?;
            let left = until.saturating_sub(self.clock.monotonic_nanos());
            if left == 0 {
                return Ok(());
            }
            let nap = Duration::from_nanos(left).min(Duration::from_millis(50));
            self.runtime.block_on(async { tokio::time::sleep(nap).await });
        }
    }

    /// Seconds that something took, and what came of it.
    pub(super) fn timed<T>(&self, work: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<(f64, T)> {
        let began = self.clock.monotonic_nanos();
        let done = work()?;
        Ok(((self.clock.monotonic_nanos() - began) as f64 / 1e9, done))
    }
}

/// The result of a scenario.
#[derive(Debug, Clone, Default)]
pub(super) struct Measured {
    /// Figures.
    pub(super) rows: Vec<Row>,
    /// Curves.
    pub(super) plots: Vec<Plot>,
    /// The published figures without one of ours: the beginning of the key, and the reason.
    pub(super) without: Vec<(String, String)>,
}

impl Measured {
    /// The fault of the first row that failed.
    pub(super) fn fault(&self) -> Option<String> {
        self.rows.iter().find_map(|row| row.fault.as_ref().map(|fault| format!("{}: {fault}", row.what)))
    }

    /// Adds a curve, unless there is nothing to draw.
    pub(super) fn plot(&mut self, title: &str, x: &str, y: &str, lines: Vec<(&str, Vec<(f64, f64)>)>) {
        let lines = lines.into_iter().filter(|(_, points)| points.iter().any(|at| at.0 > 0.0 && at.1 > 0.0));
        let lines: Vec<Line> = lines.map(|(name, points)| Line { name: name.to_owned(), points }).collect();
        if !lines.is_empty() {
            let (title, x, y) = (title.to_owned(), x.to_owned(), y.to_owned());
            self.plots.push(Plot { title, x, y, lines });
        }
    }

    /// Records the reason why published figures with this prefix of the key have none of ours.
    pub(super) fn without(&mut self, key: &str, why: impl Into<String>) {
        self.without.push((key.to_owned(), why.into()));
    }
}

/// A figure of ours.
#[derive(Debug, Clone)]
pub(super) struct Row {
    /// The key of the published figure that it stands beside.
    pub(super) key: Option<String>,
    /// The name of the figure.
    pub(super) what: String,
    /// The figure, in the unit of the published one if there is one.
    pub(super) figure: f64,
    /// Its unit.
    pub(super) unit: String,
    /// The conditions of the measurement.
    pub(super) conditions: String,
    /// A rate that was asked for, and what was reached of it.
    pub(super) rate: Option<(f64, f64)>,
    /// The fault of the answers: wrong or missing ones.
    pub(super) fault: Option<String>,
}

impl Row {
    /// A figure of ours alone.
    pub(super) fn new(what: impl Into<String>, figure: f64, unit: &str) -> Row {
        Row {
            key: None,
            what: what.into(),
            figure,
            unit: unit.to_owned(),
            conditions: String::new(),
            rate: None,
            fault: None,
        }
    }

    /// It stands beside a published one.
    pub(super) fn beside(mut self, key: impl Into<String>) -> Row {
        self.key = Some(key.into());
        self
    }

    /// Sets the conditions.
    pub(super) fn under(mut self, conditions: impl Into<String>) -> Row {
        self.conditions = conditions.into();
        self
    }

    /// Adds a condition.
    pub(super) fn add_condition(&mut self, condition: &str) {
        if !self.conditions.is_empty() {
            self.conditions.push_str("; ");
        }
        self.conditions.push_str(condition);
    }

    /// Sets the requested and the reached rate.
    pub(super) fn at_rate(mut self, asked: f64, reached: f64) -> Row {
        self.rate = Some((asked, reached));
        self
    }

    /// Sets the fault, if there is one.
    pub(super) fn unless(mut self, fault: Option<String>) -> Row {
        self.fault = fault;
        self
    }

    /// Returns true if the requested rate was reached.
    pub(super) fn is_held(&self) -> bool {
        self.rate.is_none_or(|(asked, reached)| reached >= asked * HELD_SHARE)
    }
}
