//! Measures the matching app of `examples/swipes`, whose routes `wrk` requests: swipes posted one a request, and counts and
//! matches read while others swipe. Beside them a bare HTTP server with the same script, and Redis.

use std::{
    fmt::Write as _,
    net::SocketAddr,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use bytes::Bytes;
use swiftwater_generate::{SwipesSettings, Workload};

use super::{
    bare::Bare,
    redis, visible,
    wrk::{self, CONNECTIONS, Report},
};
use crate::{
    args::Args,
    bodies::Bodies,
    http::Client,
    machine,
    samples::Samples,
    sending::{Plan, Sending},
    stored::Stored,
    table::{Row, Table, Verdict, grouped},
};

/// The app, as its users have it.
const APP: &str = include_str!("../../../examples/swipes/swipes.sql");
const USERS: usize = 50_000;
const COMMENT_LETTERS: usize = 256;
/// Requests that a script goes through again and again.
const REQUESTS: usize = 20_000;
/// Swipes that are there before anybody reads: about 40 of each user, so that each has some.
const SWIPES_BEFORE: u64 = 2_000_000;
/// The swipes that are sent while others read.
const SWIPES_PER_SECOND: usize = 5000;
const SWIPES_OF_A_BODY: u64 = 50;
const POSTS_SHARE_DISK: f64 = 0.45;
const POSTS_SHARE_MEMORY: f64 = 0.65;
const POSTS_P99_MS_MAX: f64 = 20.0;
const GETS_SHARE: f64 = 0.85;
const GETS_P99_MAX: f64 = 1.3;

/// Measures all of it and adds the rows.
pub(super) fn run(args: &Args, directory: &Path, table: &mut Table) -> anyhow::Result<()> {
    if let Err(why) = wrk::is_there() {
        table.push(Row::not_measured("the matching app", &why));
        return Ok(());
    }
    let scripts = tempfile::tempdir().context("cannot make a directory for scripts")?;
    let run =
        Run { seconds: if args.quick { 2 } else { 10 }, rounds: args.rounds(), scripts: scripts.path() };
    let half = posts(&run, directory, table)?;
    let stored = start_stored(directory)?;
    fill(&stored)?;
    gets(&run, &stored, table)?;
    visible::run(args, &stored, half, table)
}

/// The parameters of `wrk`.
struct Run<'t> {
    seconds: u64,
    rounds: usize,
    scripts: &'t Path,
}

/// A server's address, and its process.
type At = (SocketAddr, String);

/// The result of a run.
#[derive(Debug)]
struct RunResult {
    report: Report,
    /// Processor time of the server an answer, with all that it did meanwhile.
    micros: f64,
}

impl Run<'_> {
    fn wrk(&self, (address, process): &At, script: &str) -> anyhow::Result<RunResult> {
        let before = machine::process_seconds(process);
        let report = wrk::run(*address, self.scripts, script, self.seconds)?;
        let seconds = machine::process_seconds(process) - before;
        Ok(RunResult { report, micros: seconds * 1e6 / report.answers.max(1) as f64 })
    }
}

fn at(stored: &Stored) -> anyhow::Result<At> {
    let server = stored.server()?;
    Ok((server.address, server.process()))
}

fn start_stored(directory: &Path) -> anyhow::Result<Stored> {
    let stored = Stored::start(directory, &[])?;
    stored.declare(APP)?;
    Ok(stored)
}

/// The summary of some runs: requests a second, the 99th percentile, and the server's processor time.
struct RunSummary {
    rate: Samples,
    p99_ms: Samples,
    micros: Samples,
}

impl RunSummary {
    fn of(asked: &[RunResult]) -> anyhow::Result<RunSummary> {
        let samples = |of: fn(&RunResult) -> f64| Samples::new(asked.iter().map(of).collect());
        Ok(RunSummary {
            rate: samples(|asked| asked.report.per_second)?,
            p99_ms: samples(|asked| asked.report.p99_ms)?,
            micros: samples(|asked| asked.micros)?,
        })
    }
}

/// Our share of the bare server's speed, round by round: what the machine gives to both changes from one to the next.
fn shares(ours: &[RunResult], theirs: &[RunResult]) -> anyhow::Result<Samples> {
    let rounds = ours.iter().zip(theirs);
    Samples::new(rounds.map(|(ours, theirs)| ours.report.per_second / theirs.report.per_second).collect())
}

/// A share as text.
fn share_text(shares: &Samples) -> String {
    format!(
        "{:.2} ({:.2} to {:.2} in {} rounds)",
        shares.median(),
        shares.least(),
        shares.most(),
        shares.len()
    )
}

/// Posts, acknowledged from disk and from memory, by turns with the bare server; answers half the speed of those from disk.
fn posts(run: &Run<'_>, directory: &Path, table: &mut Table) -> anyhow::Result<f64> {
    let stored = start_stored(directory)?;
    let bare = Bare::start("")?;
    let script = posting()?;
    let (mut theirs, mut disk, mut memory, mut answered) = (Vec::new(), Vec::new(), Vec::new(), 0);
    for round in 1..=run.rounds {
        theirs.push(run.wrk(&(bare.address, bare.process()), &script)?);
        for (ack, reports) in [("disk", &mut disk), ("memory", &mut memory)] {
            stored.declare(&format!("ALTER STREAM swipes SET (ack = {ack})"))?;
            reports.push(run.wrk(&at(&stored)?, &script)?);
        }
        eprintln!(
            "round {round}: posts: bare {:?}, disk {:?}, memory {:?}",
            theirs.last(),
            disk.last(),
            memory.last()
        );
    }
    for RunResult { report, .. } in disk.iter().chain(&memory).chain(&theirs) {
        ensure!(report.failures == 0, "{} of {} posts failed", report.failures, report.answers);
    }
    disk.iter().chain(&memory).for_each(|asked| answered += asked.report.answers);
    // Those that were on their way when a run ended may be there without an answer.
    let count = stored.asker()?.count("swipes")?;
    let runs = (disk.len() + memory.len()) as u64;
    let is_right = (answered..=answered + runs * CONNECTIONS as u64).contains(&count);
    let counted = counted(&stored)?;
    let is_right = is_right && counted == count;
    let (bare, mut half) = (RunSummary::of(&theirs)?, 0.0);
    for (what, reports, wanted) in [
        ("acknowledged from disk", &disk, POSTS_SHARE_DISK),
        ("acknowledged from memory", &memory, POSTS_SHARE_MEMORY),
    ] {
        let (ours, shares) = (RunSummary::of(reports)?, shares(reports, &theirs)?);
        let share = shares.median();
        if half == 0.0 {
            half = ours.rate.median() / 2.0;
        }
        table.push(Row {
            what: format!("swipes posted one a request, {what}: share of a bare server's speed"),
            figure: format!(
                "{}; {}/s, p99 {:.1} ms",
                share_text(&shares),
                grouped(ours.rate.median() as u64),
                ours.p99_ms.median()
            ),
            conditions: format!(
                "{}the release binary, routes and four views of examples/swipes; wrk with one thread and {CONNECTIONS} \
                 connections on the same {} cores, {} s by turns; a bare axum route that reads the body and answers 201: \
                 {}/s, p99 {:.1} ms; processor time of the server a request {:.1} µs, the bare one's {:.1}; all of {} swipes \
                 are in the stream and in the view of counts",
                if is_right { "" } else { "swipes are missing, or there twice; " },
                machine::cores(),
                run.seconds,
                grouped(bare.rate.median() as u64),
                bare.p99_ms.median(),
                ours.micros.median(),
                bare.micros.median(),
                grouped(count),
            ),
            needed: format!("≥ {wanted}, p99 < {POSTS_P99_MS_MAX} ms"),
            verdict: match is_right {
                true => Verdict::of(share >= wanted && ours.p99_ms.median() < POSTS_P99_MS_MAX),
                false => Verdict::Wrong,
            },
        });
    }
    Ok(half)
}

/// Swipes that the view has counted.
fn counted(stored: &Stored) -> anyhow::Result<u64> {
    let rows = stored.sql("SELECT CAST(sum(likes + dislikes) AS BIGINT) AS n FROM stats")?;
    rows.first().and_then(|row| row["n"].as_u64()).context("a sum is no number")
}

/// Sends swipes of all users, and waits until views have them.
fn fill(stored: &Stored) -> anyhow::Result<()> {
    let bodies = Arc::new(Bodies::generate(Workload::Swipes(SwipesSettings::default()), SWIPES_BEFORE)?);
    let count = bodies.holding(SWIPES_BEFORE);
    Sending::start(&Plan::all(stored.server()?.address, "swipes", &bodies, count))?.finish()?;
    let (sent, counted) = (bodies.events(count), counted(stored)?);
    ensure!(sent == counted, "{counted} swipes are counted, not {sent}");
    Ok(())
}

/// Reads of random users while swipes come in, by turns with the bare server's constant of the same size, and Redis.
fn gets(run: &Run<'_>, stored: &Stored, table: &mut Table) -> anyhow::Result<()> {
    for what in ["stats", "matches"] {
        let at = at(stored)?;
        let address = at.0;
        let answer = Client::connect(address)?.get(&format!("/{what}/4242/"))?;
        let answer = String::from_utf8(answer).context("an answer is no text")?;
        let bare = Bare::start(&answer)?;
        let script = getting(what)?;
        let (mut theirs, mut ours, mut swipes) = (Vec::new(), Vec::new(), 0.0);
        for round in 1..=run.rounds {
            theirs.push(run.wrk(&(bare.address, bare.process()), &script)?);
            let (report, sent) = while_swiping(address, || run.wrk(&at, &script))?;
            (swipes, _) = (swipes + sent / run.rounds as f64, ours.push(report?));
            eprintln!("round {round}: {what}: bare {:?}, ours {:?}", theirs.last(), ours.last());
        }
        for RunResult { report, .. } in ours.iter().chain(&theirs) {
            ensure!(report.failures == 0, "{} of {} reads failed", report.failures, report.answers);
        }
        let redis = redis::gets(&answer);
        let shares = shares(&ours, &theirs)?;
        let (bare, ours, share) = (RunSummary::of(&theirs)?, RunSummary::of(&ours)?, shares.median());
        let p99 = ours.p99_ms.median() / bare.p99_ms.median();
        let is_above = redis.as_ref().is_ok_and(|redis| ours.rate.median() > *redis);
        table.push(Row {
            what: format!("GET of {what} of random users: share of a bare server's speed"),
            figure: format!(
                "{}; {}/s, p99 {:.2} ms, {p99:.2} of the bare server's",
                share_text(&shares),
                grouped(ours.rate.median() as u64),
                ours.p99_ms.median()
            ),
            conditions: format!(
                "the release binary, examples/swipes, {} users, {} swipes/s coming in; wrk with one thread and \
                 {CONNECTIONS} connections on the same {} cores, {} s by turns; a bare axum route that answers a constant of \
                 {} bytes, and no swipes: {}/s, p99 {:.2} ms; processor time of the server a request {:.1} µs, with what \
                 swipes take, the bare one's {:.1}; {}",
                grouped(USERS as u64),
                grouped(swipes as u64),
                machine::cores(),
                run.seconds,
                answer.len(),
                grouped(bare.rate.median() as u64),
                bare.p99_ms.median(),
                ours.micros.median(),
                bare.micros.median(),
                match &redis {
                    Ok(rate) => format!("Redis, a GET of as many bytes, {CONNECTIONS} connections: {}/s", grouped(*rate as u64)),
                    Err(why) => format!("without Redis: {why:#}"),
                },
            ),
            needed: format!("≥ {GETS_SHARE}, more than Redis, p99 < {GETS_P99_MAX} of the bare server's"),
            verdict: Verdict::of(share >= GETS_SHARE && is_above && p99 < GETS_P99_MAX),
        });
    }
    Ok(())
}

/// Does something while swipes come in at their rate; how many a second did.
fn while_swiping<R>(address: SocketAddr, work: impl FnOnce() -> R) -> anyhow::Result<(R, f64)> {
    let mut lines = Vec::new();
    let mut made = Workload::Swipes(SwipesSettings::default()).begin(7)?;
    (0..SWIPES_OF_A_BODY).for_each(|_| made.push(&mut lines));
    let (is_over, lines) = (AtomicBool::new(false), Bytes::from(lines));
    thread::scope(|scope| {
        let swiping = scope.spawn(|| -> anyhow::Result<f64> {
            let mut client = Client::connect(address)?;
            let request = client.post_text("/v1/streams/swipes/events", "application/json", &lines);
            let (start, mut sent) = (Instant::now(), 0);
            while !is_over.load(Ordering::Acquire) {
                let due = start + Duration::from_secs_f64(sent as f64 / SWIPES_PER_SECOND as f64);
                thread::sleep(due.saturating_duration_since(Instant::now()));
                client.send(&request)?;
                client.answer()?;
                sent += SWIPES_OF_A_BODY;
            }
            Ok(sent as f64 / start.elapsed().as_secs_f64())
        });
        let done = work();
        is_over.store(true, Ordering::Release);
        let sent = swiping.join().map_err(|_| anyhow::anyhow!("a thread panicked"))??;
        Ok((done, sent))
    })
}

/// A script that posts swipes of random users.
fn posting() -> anyhow::Result<String> {
    let settings = SwipesSettings { posted: true, ..SwipesSettings::default() };
    let mut made = Workload::Swipes(settings).begin(3)?;
    let mut script = String::from("local made = {}\n");
    let mut line = Vec::new();
    for number in 0..REQUESTS {
        line.clear();
        made.push(&mut line);
        let body = std::str::from_utf8(&line).context("a swipe is no text")?.trim_end();
        ensure!(
            body.len() > COMMENT_LETTERS && !body.contains("]]"),
            "a swipe cannot be told to wrk: {body}"
        );
        let direction = if number % 2 == 0 { "left" } else { "right" };
        writeln!(script, "made[{}] = {{ \"/swipe/{direction}/\", [[{body}]] }}", number + 1)?;
    }
    script.push_str(
        "local requests, next = {}, 0\n\
         function init()\n\
         wrk.headers[\"Content-Type\"] = \"application/json\"\n\
         for place, one in ipairs(made) do requests[place] = wrk.format(\"POST\", one[1], nil, one[2]) end\n\
         end\n\
         function request()\n\
         next = next % #requests + 1\n\
         return requests[next]\n\
         end\n",
    );
    Ok(script)
}

/// A script that reads of random users.
fn getting(what: &str) -> anyhow::Result<String> {
    let mut script = String::new();
    writeln!(
        script,
        "local requests = {{}}\n\
         function init()\n\
         math.randomseed(17)\n\
         for user = 1, {USERS} do requests[user] = wrk.format(\"GET\", \"/{what}/\" .. user .. \"/\") end\n\
         end\n\
         function request() return requests[math.random({USERS})] end"
    )?;
    Ok(script)
}
