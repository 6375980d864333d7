//! Bullet's load tests of many concurrent queries. Each waits on its own connection, all for the same ten records. These are
//! sent some time after the last query was submitted; meanwhile other events arrive at the published rate.

use std::time::Duration;

use tokio::task::JoinHandle;

use super::{
    bullet::{MATCHING, STREAM, bodies, by_rpc, id, mean, post, records, until_standing, warm_up},
    bullet_2_find::server_settings,
};
use crate::bench::seeds::{
    feed::{Bodies, Feed},
    scenario::{Context, Measured, Row},
    server::Server,
};

/// The parameters of a load test.
pub(super) struct Load {
    /// Prefix of the published figures' keys.
    pub(super) key: &'static str,
    /// Length of an event; 0: as it is made.
    pub(super) event_bytes: usize,
    /// Events a second.
    pub(super) rate: f64,
    /// Numbers of queries in the published tests.
    pub(super) published: &'static [usize],
    /// Maximum number of queries: beyond the published numbers, it is doubled until something is missing.
    pub(super) queries_max: usize,
    /// Time from the last query to the records.
    pub(super) wait: Duration,
}

/// The result of a round.
struct Round {
    queries: usize,
    /// Records in an answer, on average.
    records: f64,
    /// CPU use of the server, in cores.
    cores: f64,
    asked: f64,
    reached: f64,
    /// Time from sending the records to the last answer.
    answered_ms: f64,
    fault: Option<String>,
}

/// Runs rounds with more and more queries.
pub(super) fn run(context: &Context, load: &Load) -> anyhow::Result<Measured> {
    let server = Server::start(context, &server_settings(context), false)?;
    let bodies = bodies(load.event_bytes);
    let mut measured = Measured::default();
    let mut rounds: Vec<Round> = Vec::new();
    let idle = [0].into_iter().chain(load.published.iter().copied());
    for queries in idle {
        rounds.push(round(context, &server, load, &bodies, queries)?);
    }
    // Beyond what was published nothing is promised: it goes on until something is missing.
    let mut queries = load.published.last().map_or(1, |most| most * 2);
    while queries <= load.queries_max && rounds.last().is_some_and(|last| last.fault.is_none()) {
        match round(context, &server, load, &bodies, queries) {
            Ok(next) => rounds.push(next),
            Err(error) => {
                context.check()?;
                let what = format!("{queries} queries at once could not be asked here");
                measured.rows.push(Row::new(what, 0.0, "records of 10").under(format!("{error:#}")));
                break;
            }
        }
        queries *= 2;
    }
    let peak_mib = server.peak_bytes()? >> 20;
    for round in &rounds {
        let is_published = round.queries == 0 || load.published.contains(&round.queries);
        let what = format!("{} queries at once, records in a result", round.queries);
        let conditions = format!(
            "events of {:.0} bytes, {:.2} cores busy, up to {peak_mib} MiB of memory, all answered {:.0} ms after the records",
            bodies.event_bytes, round.cores, round.answered_ms
        );
        let row = Row::new(what, round.records, "records of 10").under(conditions);
        let row = row.at_rate(round.asked, round.reached);
        measured.rows.push(if is_published {
            row.beside(format!("{}/{}", load.key, round.queries)).unless(round.fault.clone())
        } else {
            row
        });
    }
    let most = rounds.iter().filter(|round| round.fault.is_none()).map(|round| round.queries).max();
    let row = Row::new("most queries at once that all got all records", most.unwrap_or(0) as f64, "queries");
    measured.rows.push(row.under(match rounds.iter().find(|round| round.fault.is_some()) {
        Some(round) => format!("with {} not", round.queries),
        None => "no more were tried".to_owned(),
    }));
    measured.without(&format!("{}/", load.key), "not asked at these sizes");
    let of = |figure: fn(&Round) -> f64| {
        rounds.iter().map(|round| (round.queries as f64, figure(round))).collect::<Vec<_>>()
    };
    measured.plot(
        "Cores that the server uses",
        "queries at once",
        "cores",
        vec![("ours", of(|round| round.cores))],
    );
    let answered = vec![("ours", of(|round| round.answered_ms))];
    measured.plot("From the records to the last answer", "queries at once", "ms", answered);
    Ok(measured)
}

fn round(
    context: &Context,
    server: &Server,
    load: &Load,
    bodies: &Bodies,
    queries: usize,
) -> anyhow::Result<Round> {
    let had = server.events(STREAM)?;
    let feed = Feed::start(context, server, STREAM, bodies, Some(load.rate))?;
    let ran = run_round(context, server, load, queries);
    let fed = feed.end()?;
    let (cores, answered_ms, sizes) = ran?;
    let sent = if queries == 0 { 0 } else { MATCHING as u64 };
    let short = sizes.iter().filter(|size| **size != MATCHING).count();
    let missing = (short > 0).then(|| format!("{short} of {queries} results are not complete"));
    let fault = missing.or_else(|| fed.fault(server.events(STREAM).ok()?.saturating_sub(had + sent)));
    let records = mean(&sizes.iter().map(|size| *size as f64).collect::<Vec<_>>());
    let (asked, reached) = (load.rate, fed.reached);
    Ok(Round { queries, records, cores, asked, reached, answered_ms, fault })
}

/// Cores used, milliseconds to the last answer, and the sizes of all answers.
fn run_round(
    context: &Context,
    server: &Server,
    load: &Load,
    queries: usize,
) -> anyhow::Result<(f64, f64, Vec<usize>)> {
    context.pause(warm_up(context.size) / 2)?;
    let (began, before) = (context.clock.monotonic_nanos(), server.numbers()?.cpu_seconds());
    let id = id(queries as u64);
    let asked: Vec<_> =
        (0..queries).map(|_| context.runtime.spawn(by_rpc(server.client(), id.clone(), 60_000))).collect();
    until_standing(context, server, queries as f64)?;
    context.pause(load.wait)?;
    let (mut answered_ms, mut sizes) = (0.0, Vec::new());
    if queries > 0 {
        let sent = context.clock.monotonic_nanos();
        post(server, records(&id, MATCHING, load.event_bytes))?;
        sizes = context.runtime.block_on(join_all(asked))?;
        answered_ms = (context.clock.monotonic_nanos() - sent) as f64 / 1e6;
    }
    let seconds = (context.clock.monotonic_nanos() - began) as f64 / 1e9;
    let cores = (server.numbers()?.cpu_seconds() - before) / seconds;
    Ok((cores, answered_ms, sizes))
}

/// Waits for tasks one after another: all of them run meanwhile.
async fn join_all(tasks: Vec<JoinHandle<anyhow::Result<usize>>>) -> anyhow::Result<Vec<usize>> {
    let mut all = Vec::with_capacity(tasks.len());
    for task in tasks {
        all.push(task.await??);
    }
    Ok(all)
}
