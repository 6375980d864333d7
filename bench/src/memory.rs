//! Measures a server's memory: at rest, and for each query that runs without a reader.

use std::{thread, time::Duration};

use swiftwater_testkit::published::PublishedEvents;

use crate::{
    args::Args,
    http_load, machine,
    server::Running,
    table::{Row, Table, Verdict, grouped},
};

const STREAM: &str = "memory";
/// With the one before them, as many as a server lets stand.
const QUERIES: usize = 99_999;
const AT_REST_MIB_MAX: f64 = 60.0;
const QUERY_BYTES_MAX: u64 = 1024;
/// Time after which an allocator has returned memory.
const SETTLED: Duration = Duration::from_secs(2);

/// Measures both and adds their rows.
pub(crate) fn run(args: &Args, table: &mut Table) -> anyhow::Result<()> {
    let queries = if args.quick { QUERIES / 10 } else { QUERIES };
    let server = Running::start()?;
    // The costs of the first request and of the first query belong to no query.
    let asked = PublishedEvents::new(7, queries + 1, 0.0).queries();
    thread::sleep(SETTLED);
    let idle = machine::memory(&server.process()).resident;
    let idle_mib = idle as f64 / f64::from(1 << 20);
    table.push(Row {
        what: "memory at rest".to_owned(),
        figure: format!("{idle_mib:.1} MiB"),
        conditions: format!("{}, serving nothing, resident", server.what),
        needed: "< 60 MB".to_owned(),
        verdict: Verdict::of(idle_mib * 1.048_576 < AT_REST_MIB_MAX),
    });

    http_load::start_detached(server.address, STREAM, &asked[queries..])?;
    let before = machine::memory(&server.process()).resident;
    http_load::start_detached(server.address, STREAM, &asked[..queries])?;
    thread::sleep(SETTLED);
    let after = machine::memory(&server.process()).resident;
    let each = after.saturating_sub(before) / queries as u64;
    table.push(Row {
        what: "memory of a standing query".to_owned(),
        figure: format!("{} bytes", grouped(each)),
        conditions: format!(
            "{} detached queries `… WHERE sNN = '…'`, all different, over {}: resident memory before and after",
            grouped(queries as u64),
            server.what
        ),
        needed: "< 1 KiB".to_owned(),
        verdict: Verdict::of(each < QUERY_BYTES_MAX),
    });
    Ok(())
}
