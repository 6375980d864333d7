//! Measures the sustained rate of events into their Delta table: sends them as fast as they are taken, until all are
//! committed. The rate counts from the first event sent.
//!
//! The time of a commit is that of its file in the Delta log. Rows that remain when the last event has arrived wait for the
//! maximum time that rows may wait. This wait is no part of the rate, nor of the tenths, which begin with the first commit.

use anyhow::ensure;

use super::delta::Delta;
use crate::{
    machine,
    sending::{Plan, Sending, Sent},
    stored::Stored,
    table::{Row, Table, Verdict, grouped, mib},
};

/// The least share of the first tenth's speed that the last one must reach.
const FLAT_SHARE_MIN: f64 = 0.9;
const TENTHS: usize = 10;

/// The required speed.
#[derive(Debug, Clone, Copy)]
pub(super) enum RequiredRate {
    /// Events a second, and no slower in the end than in the beginning.
    Events(f64),
    /// Bytes of JSON a second, and some in each second.
    Bytes(f64),
}

/// Sends what is planned, and adds the row; answers events a second, and the table.
pub(super) fn run(
    stored: &Stored,
    plan: &Plan,
    what: &str,
    needed: RequiredRate,
    table: &mut Table,
) -> anyhow::Result<(f64, Delta)> {
    let sent = Sending::start(plan)?.finish()?;
    let mut delta = Delta::open(stored.table(plan.stream));
    delta.wait_for(sent.events)?;
    let curve = Curve::of(&sent, &delta)?;
    let (rate, event_bytes) = (curve.rate(), sent.bytes as f64 / sent.events as f64);
    let tenths = curve.tenths();
    let (first, last) = (tenths[0], tenths[TENTHS - 1]);
    let slowest = sent.by_second().into_iter().min().unwrap_or(0);
    let count = stored.asker()?.count(plan.stream)?;
    let fault = (count != sent.events || delta.rows() != sent.events)
        .then(|| format!("{count} events by SQL and {} in files, not {}; ", delta.rows(), sent.events));
    let (is_enough, told) = match needed {
        RequiredRate::Events(least) => (
            rate >= least && last >= FLAT_SHARE_MIN * first,
            format!(
                "≥ {} events/s, the last tenth at ≥ {FLAT_SHARE_MIN} of the first",
                grouped(least as u64)
            ),
        ),
        RequiredRate::Bytes(least) => (
            rate * event_bytes >= least && slowest > 0,
            format!("≥ {} MB/s, some in each second", grouped((least / 1e6) as u64)),
        ),
    };
    let speeds = tenths.iter().map(|speed| format!("{:.0}", speed / 1e3)).collect::<Vec<_>>().join(" ");
    let (acked, bytes) = (sent.events as f64 / sent.seconds, event_bytes * rate);
    table.push(Row {
        what: format!("{what} into a Delta table, sustained"),
        figure: format!(
            "{} events/s, {} MB/s; last tenth {:.2} of the first",
            grouped(rate as u64),
            grouped((bytes / 1e6) as u64),
            last / first
        ),
        conditions: format!(
            "{}{}, sender on the same machine, ack=disk, {} events of {event_bytes:.0} bytes over HTTP; by tenths of those \
             committed {speeds} thousand/s; acknowledged at {} events/s, the slowest second {} MB; the last commit {:.1} s \
             after the last acknowledgement; {} commits, {} files merged; peak memory {}",
            fault.as_deref().unwrap_or_default(),
            stored.server()?.what,
            grouped(sent.events),
            grouped(acked as u64),
            grouped(slowest / 1_000_000),
            curve.end() - sent.seconds,
            delta.commits.len(),
            delta.merged,
            mib(machine::memory(&stored.server()?.process()).peak),
        ),
        needed: told,
        verdict: match fault {
            Some(_) => Verdict::Wrong,
            None => Verdict::of(is_enough),
        },
    });
    Ok((rate, delta))
}

/// Seconds since the first event was sent, and how many events were in the table by then.
struct Curve {
    points: Vec<(f64, f64)>,
    end: f64,
}

impl Curve {
    fn of(sent: &Sent, delta: &Delta) -> anyhow::Result<Curve> {
        let mut points: Vec<(f64, f64)> = Vec::new();
        for commit in &delta.commits {
            let at = commit.at.duration_since(sent.began).unwrap_or_default().as_secs_f64();
            points.push((at, commit.committed as f64));
        }
        Curve::new(points)
    }

    fn new(mut points: Vec<(f64, f64)>) -> anyhow::Result<Curve> {
        ensure!(!points.is_empty(), "nothing was committed");
        let end = points[points.len() - 1].0;
        // The remaining rows wait for their time, independently of their number.
        if points.len() > 1 {
            points.pop();
        }
        Ok(Curve { points, end })
    }

    /// Time at which everything was committed.
    fn end(&self) -> f64 {
        self.end
    }

    /// Events a second.
    fn rate(&self) -> f64 {
        let (at, events) = self.points[self.points.len() - 1];
        events / at
    }

    /// Time at which so many events were committed, interpolated between commits.
    fn at(&self, events: f64) -> f64 {
        let after = self.points.partition_point(|point| point.1 < events);
        let before = if after == 0 { (0.0, 0.0) } else { self.points[after - 1] };
        let Some(point) = self.points.get(after) else { return before.0 };
        before.0 + (point.0 - before.0) * (events - before.1) / (point.1 - before.1)
    }

    /// Events a second, of each tenth of the events from the first commit to the last.
    fn tenths(&self) -> [f64; TENTHS] {
        let from = if self.points.len() > 1 { self.points[0].1 } else { 0.0 };
        let each = (self.points[self.points.len() - 1].1 - from) / TENTHS as f64;
        std::array::from_fn(|tenth| {
            let start = from + each * tenth as f64;
            each / (self.at(start + each) - self.at(start))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speed_is_that_of_full_commits() {
        let points = (1..=11).map(|commit| (f64::from(commit) + 2.0, f64::from(commit) * 100.0));
        let mut points: Vec<_> = points.collect();
        points.push((19.0, 1190.0));
        let curve = Curve::new(points).unwrap();
        assert_eq!((curve.end(), curve.rate()), (19.0, 1100.0 / 13.0));
        assert!(curve.tenths().iter().all(|speed| (speed - 100.0).abs() < 1e-6));
    }

    #[test]
    fn a_single_commit_has_a_speed_too() {
        let curve = Curve::new(vec![(2.0, 100.0)]).unwrap();
        assert_eq!(curve.rate(), 50.0);
        assert!(curve.tenths().iter().all(|speed| (speed - 50.0).abs() < 1e-6));
        assert!(Curve::new(Vec::new()).is_err());
    }
}
