//! Measures recovery: kills a server with a gigabyte in its log that no table has, and times the next start until it serves.

use std::{path::Path, sync::Arc, thread, time::Duration};

use swiftwater_generate::Workload;

use super::articles::{DECLARED, MADE, STREAM};
use crate::{
    args::Args,
    bodies::Bodies,
    sending::{Plan, Sending},
    stored::Stored,
    table::{Row, Table, Verdict, grouped, mib},
};

const LOG_BYTES: u64 = 1 << 30;
const SECONDS_MAX: f64 = 5.0;
/// Interval of the checks of the log's size.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Fills the log, kills the server, starts it again, and adds the row.
pub(super) fn run(args: &Args, directory: &Path, table: &mut Table) -> anyhow::Result<()> {
    let (made, log_bytes) = if args.quick { (MADE / 10, LOG_BYTES / 10) } else { (MADE, LOG_BYTES) };
    let bodies = Arc::new(Bodies::generate(Workload::Articles, made)?);
    let mut stored = Stored::start(directory, &[])?;
    stored.sql(DECLARED)?;
    let address = stored.server()?.address;
    let plan = Plan { address, stream: STREAM, bodies, first: 0, count: None, rate: None };
    // So that nothing leaves the log.
    let away = stored.block_table(STREAM)?;
    let sending = Sending::start(&plan)?;
    while stored.metric("swiftwater_log_bytes_total")? < log_bytes as f64 {
        thread::sleep(LOOK_EVERY);
    }
    let sent = sending.stop()?;
    let bytes = stored.metric("swiftwater_log_bytes_total")?;
    stored.kill();
    away.restore()?;
    let took = stored.start_again()?.as_secs_f64();
    let start = std::time::Instant::now();
    let count = stored.asker()?.count(STREAM)?;
    let counted = start.elapsed().as_secs_f64();
    let fault = (count != sent.events).then(|| format!("{count} events, not {}; ", sent.events));
    table.push(Row {
        what: "recovery, killed with its log full".to_owned(),
        figure: format!("{took:.2} s to serve"),
        conditions: format!(
            "{}SIGKILL with {} in the log of {} articles, none of them in the table; the first COUNT \
             was right {counted:.2} s after that",
            fault.as_deref().unwrap_or_default(),
            mib(bytes as u64),
            grouped(sent.events),
        ),
        needed: format!("< {SECONDS_MAX} s, nothing lost"),
        verdict: match fault {
            Some(_) => Verdict::Wrong,
            None => Verdict::of(took < SECONDS_MAX),
        },
    });
    Ok(())
}
