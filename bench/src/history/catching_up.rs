//! Measures how fast a table catches up after its store stopped for a while as events arrived.
//!
//! The store stops because the table's directory is replaced by a file, so that every commit fails and is retried.

use std::{
    thread,
    time::{Duration, Instant},
};

use super::delta::Delta;
use crate::{
    args::Args,
    sending::{Plan, Sending},
    stored::Stored,
    table::{Row, Table, Verdict, grouped},
};

/// Seconds of events that are caught up in a second.
const SPEED_MIN: f64 = 5.0;
/// Longer than this no event is to wait for its acknowledgement.
const PAUSE_SECONDS_MAX: f64 = 1.0;
/// Events come for so long before.
const BEFORE: Duration = Duration::from_secs(2);

/// Measures the catching up after a stop, and adds the row. All that was sent before is in the table.
pub(super) fn run(
    args: &Args,
    stored: &Stored,
    plan: &Plan,
    delta: &mut Delta,
    table: &mut Table,
) -> anyhow::Result<()> {
    let still = Duration::from_secs(if args.quick { 10 } else { 60 });
    let there = delta.committed();
    let sending = Sending::start(plan)?;
    let start = Instant::now();
    thread::sleep(BEFORE);
    let away = stored.block_table(plan.stream)?;
    let began = start.elapsed().as_secs_f64();
    thread::sleep(still);
    away.restore()?;
    let back = Instant::now();
    delta.follow()?;
    let (committed, acked) = (delta.committed(), there + sending.acked());
    let waited = delta.wait_for(acked);
    let seconds = back.elapsed().as_secs_f64();
    // The server ends it otherwise.
    let sent = sending.stop()?;
    waited?;
    delta.wait_for(there + sent.events)?;
    let count = stored.asker()?.count(plan.stream)?;
    let fault = (count != there + sent.events)
        .then(|| format!("{count} events at the end, not {}; ", there + sent.events));
    let rate = sent.events as f64 / sent.seconds;
    let behind = (acked - committed) as f64 / plan.rate.unwrap_or(rate);
    let pause = sent.longest_pause(began);
    table.push(Row {
        what: "catching up, after the store stood still".to_owned(),
        figure: format!("{:.1} s of events a second", behind / seconds),
        conditions: format!(
            "{}nothing could be written to the table for {} s while {} smart-home events/s came, half of what is needed or \
             was sustained; then {behind:.1} s of them were in the table {seconds:.1} s later, a pause of up to 2 s before the \
             next try included, as many coming as before; no acknowledgement for {pause:.2} s at most",
            fault.as_deref().unwrap_or_default(),
            still.as_secs(),
            grouped(rate as u64),
        ),
        needed: format!("> {SPEED_MIN} s a second, events acknowledged all the time"),
        verdict: match fault {
            Some(_) => Verdict::Wrong,
            None => Verdict::of(behind / seconds > SPEED_MIN && pause < PAUSE_SECONDS_MAX),
        },
    });
    Ok(())
}
