//! Repeats a COUNT while events arrive at half load: half the required rate, or half of the rate that the machine sustains
//! if that is less. Each answer must have all events acknowledged before the query, and none sent after the answer.

use std::{
    thread,
    time::{Duration, Instant},
};

use crate::{
    args::Args,
    samples::Samples,
    sending::{Plan, Sending, Sent},
    stored::Stored,
    table::{Row, Table, Verdict, grouped},
};

const P99_MS_MAX: f64 = 100.0;
/// From one answer to the next question.
const PAUSE: Duration = Duration::from_millis(20);

/// Asks while events come, and adds the row. `before`: events that are there already.
pub(super) fn run(
    args: &Args,
    stored: &Stored,
    plan: &Plan,
    before: u64,
    table: &mut Table,
) -> anyhow::Result<Sent> {
    let time = Duration::from_secs(if args.quick { 3 } else { 20 });
    let mut asker = stored.asker()?;
    let sending = Sending::start(plan)?;
    let (mut millis, mut fault) = (Vec::new(), None);
    let start = Instant::now();
    while start.elapsed() < time {
        let acked = before + sending.acked();
        let asked = Instant::now();
        let count = asker.count(plan.stream)?;
        millis.push(asked.elapsed().as_secs_f64() * 1e3);
        let begun = before + sending.started_count();
        if count < acked || count > begun {
            fault = fault.or(Some(format!("{count} events, not {acked} to {begun}; ")));
        }
        thread::sleep(PAUSE);
    }
    let sent = sending.stop()?;
    let samples = Samples::new(millis)?;
    let (p50, p99) = (samples.quantile(0.5), samples.quantile(0.99));
    table.push(Row {
        what: "COUNT of what is acknowledged, while events come".to_owned(),
        figure: format!("p50 {p50:.1} ms, p99 {p99:.1} ms, most {:.1} ms", samples.most()),
        conditions: format!(
            "{}{} smart-home events/s, half of what is needed or was sustained, into a table of {} events; {} COUNTs, {} ms \
             apart",
            fault.as_deref().unwrap_or_default(),
            grouped((sent.events as f64 / sent.seconds) as u64),
            grouped(before),
            samples.len(),
            PAUSE.as_millis(),
        ),
        needed: format!("right, p99 < {P99_MS_MAX} ms"),
        verdict: match fault {
            Some(_) => Verdict::Wrong,
            None => Verdict::of(p99 < P99_MS_MAX),
        },
    });
    Ok(sent)
}
