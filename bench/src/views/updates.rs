//! Measures updates of a view by a million random keys, from NDJSON over HTTP: stored, acknowledged from disk, counted, and
//! the view committed every second.

use std::{path::Path, sync::Arc, time::Instant};

use anyhow::{Context, ensure};
use serde_json::Value;

use super::pairs::{DECLARED, TOTALS, lines};
use crate::{
    args::Args,
    bodies::Bodies,
    machine,
    sending::{Plan, Sending},
    stored::Stored,
    table::{Row, Table, Verdict, grouped},
};

const KEYS: usize = 1_000_000;
const WANTED: f64 = 600_000.0;
const MADE: usize = 4_000_000;
const SENT: u64 = 12_000_000;
const SENT_QUICK: u64 = 1_000_000;

/// Measures and adds the row.
pub(super) fn run(args: &Args, directory: &Path, table: &mut Table) -> anyhow::Result<()> {
    let stored = Stored::start(directory, &[])?;
    stored.declare(DECLARED)?;
    let (text, _) = lines(1, MADE, KEYS);
    let bodies = Arc::new(Bodies::of(text)?);
    let count = bodies.holding(if args.quick { SENT_QUICK } else { SENT });
    let start = Instant::now();
    let sent = Sending::start(&Plan::all(stored.server()?.address, "pairs", &bodies, count))?.finish()?;
    stored.wait_for_views()?;
    let told = stored.sql(TOTALS)?;
    let seconds = start.elapsed().as_secs_f64();
    let (keys, events, total) = read(&told)?;
    let wanted = bodies.times(count).map(|(body, times)| sum(&body.bytes) * times).sum::<u64>();
    let is_right = events == sent.events && total == wanted;
    let commits = stored.metric("swiftwater_view_commits_total").ok();
    let rate = sent.events as f64 / seconds;
    table.push(Row {
        what: "updates of a view by 1,000,000 random keys, from NDJSON".to_owned(),
        figure: format!("{} events/s", grouped(rate as u64)),
        conditions: format!(
            "{}the release binary, sender on the same {} cores, ack=disk; {} events of {} bytes, {} keys, COUNT and SUM; until \
             SQL over the view has all of them; acknowledged at {} events/s{}",
            if is_right { "" } else { "its counts do not add up; " },
            machine::cores(),
            grouped(sent.events),
            sent.bytes / sent.events.max(1),
            grouped(keys),
            grouped((sent.events as f64 / sent.seconds) as u64),
            commits.map_or_else(String::new, |commits| format!("; {commits} commits")),
        ),
        needed: format!("≥ {} events/s", grouped(WANTED as u64)),
        verdict: if is_right { Verdict::of(rate >= WANTED) } else { Verdict::Wrong },
    });
    Ok(())
}

/// The sum of the numbers of some lines, read in another way than the server's.
fn sum(body: &[u8]) -> u64 {
    let number = |line: &[u8]| {
        let place = memchr::memmem::find(line, b"\"v\":")? + 4;
        std::str::from_utf8(line.get(place..line.len() - 1)?).ok()?.parse::<u64>().ok()
    };
    body.split(|&byte| byte == b'\n').filter_map(number).sum()
}

/// Keys, events and their sum, as a statement tells them.
pub(super) fn read(rows: &[Value]) -> anyhow::Result<(u64, u64, u64)> {
    ensure!(rows.len() == 1, "totals have {} rows", rows.len());
    let number =
        |name: &str| rows[0][name].as_u64().with_context(|| format!("{name} is no number: {}", rows[0]));
    Ok((number("keys")?, number("n")?, number("total")?))
}
