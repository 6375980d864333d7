//! Measures how soon a swipe is visible: from its POST until a GET of the user's counts includes it, while others swipe.
//! Also measures how far views lag after half a million posts at full speed.

use std::{thread, time::Duration};

use anyhow::{Context as _, ensure};
use hyper::{Method, StatusCode};

use super::swipes::{Pace, USERS, counted, load, post, row, server, swipes_of};
use crate::{
    bench::seeds::{
        scenario::{Context, Measured, Needs, Row, Scenario},
        server::Server,
    },
    client::{Connection, full, read_all},
};

pub(super) const SCENARIO: Scenario = Scenario {
    id: "swipes-fresh",
    about: "time from a POST until a GET counts it, and lag of views after 500,000 POST",
    needs: |size| Needs { disk_bytes: size.of(64 << 20, 1 << 30, 4 << 30), seconds: size.of(4, 15, 60) },
    run,
};

/// One user whom nobody else posts for.
const USER: u32 = USERS;
/// A swipe that is not seen by then is lost.
const PATIENCE: Duration = Duration::from_secs(10);

fn run(context: &Context) -> anyhow::Result<Measured> {
    let mut measured = Measured::default();
    let server = server(context, &[])?;
    let (rate, samples) = (context.size.of(50.0, 5_000.0, 5_000.0), context.size.of(20, 1_000, 5_000));
    let duration = Duration::from_secs(context.size.of(3, 10, 40));
    let others = vec![post(1, USERS - 1)?];
    let (report, mut seen) = thread::scope(|scope| {
        let others = scope.spawn(|| load(context, &server, others, &Pace::Rate(rate, duration)));
        let seen = measure_visibility(context, &server, samples);
        let report = others.join().map_err(|_| anyhow::anyhow!("a thread panicked"))?;
        anyhow::Ok((report?, seen?))
    })?;
    seen.sort_by(f64::total_cmp);
    let total = report.total();
    let acknowledged = total.latency.count() - total.failures + seen.len() as u64;
    let (stored, views) = counted(&server)?;
    let fault = (total.failures > 0 || stored != acknowledged || views != acknowledged).then(|| {
        format!(
            "{acknowledged} swipes were acknowledged, {stored} are stored, {views} counted, {} failed",
            total.failures
        )
    });
    for (name, share) in [("median", 0.5), ("p99", 0.99), ("p99.9", 0.999)] {
        let at = ((seen.len() - 1) as f64 * share).round() as usize;
        let row = Row::new(format!("from a POST until a GET counts it, {name}"), seen[at], "ms")
            .unless(fault.clone());
        let row = row.under(format!(
            "{} swipes one after another, acknowledged from disk; others post at a rate",
            seen.len()
        ));
        measured.rows.push(row.at_rate(rate, total.latency.count() as f64 / report.seconds));
    }
    measured.rows.push(behind(context)?);
    Ok(measured)
}

/// Milliseconds of each swipe.
fn measure_visibility(context: &Context, server: &Server, samples: usize) -> anyhow::Result<Vec<f64>> {
    context.runtime.block_on(async {
        let mut connection = server.client().connect().await?;
        let clock = &context.clock;
        let mut all = Vec::with_capacity(samples);
        for number in 1..=samples as u64 {
            context.check()?;
            let began = clock.monotonic_nanos();
            let body = format!(
                "{{\"swiper\":\"{USER}\",\"swipee\":\"{}\",\"comment\":\"seen?\"}}",
                number % 1000 + 1
            );
            let headers = [("content-type", "application/json")];
            let answer = connection.send(Method::POST, "/swipe/right/", &headers, full(body)).await?;
            ensure!(answer.status() == StatusCode::CREATED, "a swipe was answered with {}", answer.status());
            read_all(answer).await?;
            while visible_count(&mut connection).await? < number {
                let waited = Duration::from_nanos(clock.monotonic_nanos() - began);
                ensure!(waited < PATIENCE, "swipe {number} is not seen after {} s", waited.as_secs());
            }
            all.push((clock.monotonic_nanos() - began) as f64 / 1e6);
        }
        Ok(all)
    })
}

async fn visible_count(connection: &mut Connection) -> anyhow::Result<u64> {
    let answer = connection.send(Method::GET, &format!("/stats/{USER}/"), &[], full("")).await?;
    if answer.status() == StatusCode::NOT_FOUND {
        read_all(answer).await?;
        return Ok(0);
    }
    swipes_of(&read_all(answer).await.context("an answer ended early")?)
}

/// Seconds until the views have all that was posted.
fn behind(context: &Context) -> anyhow::Result<Row> {
    let count = context.size.of(400, 150_000, 500_000);
    let connections = context.size.of(20, 200, 200);
    let server = server(context, &[])?;
    let report = load(context, &server, vec![post(1, USERS)?], &Pace::Requests(count, connections))?;
    let (seconds, (stored, views)) = context.timed(|| counted(&server))?;
    let posted = row("", &report.total(), report.seconds);
    let wrong = (stored != count || views != count)
        .then(|| format!("{stored} are stored and {views} counted of {count}"));
    let row = Row::new("until the views have all, after posts as fast as they are taken", seconds, "s")
        .beside("T9");
    let conditions = format!(
        "{count} posts at {:.0}/s, then SQL over the stream and over the view, which waits for all that was acknowledged",
        posted.figure
    );
    Ok(row.under(conditions).unless(wrong))
}
