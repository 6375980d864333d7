//! Measures the time from a swipe's POST to a read that counts it, while others swipe at half the maximum rate.
//!
//! A separate user swipes and reads repeatedly. The time runs from before the POST is sent to when the first GET that counts
//! it is answered.

use std::{
    net::SocketAddr,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use swiftwater_generate::{SwipesSettings, Workload};

use crate::{
    args::Args,
    http::Client,
    machine,
    samples::Samples,
    stored::Stored,
    table::{Row, Table, Verdict, grouped},
};

/// Nobody else swipes as this one.
const USER: u64 = 50_000;
const CONNECTIONS: usize = 100;
const P99_MS_MAX: f64 = 10.0;
const READS_MAX: usize = 20_000;
const PAUSE: Duration = Duration::from_millis(3);

/// Measures and adds the row; `rate`: swipes that others post in a second, one a request.
pub(super) fn run(args: &Args, stored: &Stored, rate: f64, table: &mut Table) -> anyhow::Result<()> {
    let address = stored.server()?.address;
    let is_over = AtomicBool::new(false);
    let (samples, posted) = thread::scope(|scope| {
        let others: Vec<_> = (0..CONNECTIONS)
            .map(|number| {
                let is_over = &is_over;
                scope.spawn(move || others(address, number, rate / CONNECTIONS as f64, is_over))
            })
            .collect();
        thread::sleep(Duration::from_secs(1));
        let samples = swipe_and_read(address, args.samples());
        is_over.store(true, Ordering::Release);
        let mut posted = 0.0;
        for other in others {
            posted += other.join().map_err(|_| anyhow::anyhow!("a thread panicked"))??;
        }
        anyhow::Ok((Samples::new(samples?)?, posted))
    })?;
    let p99 = samples.quantile(0.99);
    table.push(Row {
        what: "a swipe posted until a GET counts it, at half load".to_owned(),
        figure: format!(
            "p50 {:.2} ms, p99 {p99:.2} ms, p99.9 {:.2} ms",
            samples.quantile(0.5),
            samples.quantile(0.999)
        ),
        conditions: format!(
            "the release binary, examples/swipes, acknowledged from disk; others post {} swipes/s, one a request, over \
             {CONNECTIONS} connections on the same {} cores; {} samples",
            grouped(posted as u64),
            machine::cores(),
            samples.len(),
        ),
        needed: format!("p99 < {P99_MS_MAX} ms"),
        verdict: Verdict::of(p99 < P99_MS_MAX),
    });
    Ok(())
}

fn swipe_and_read(address: SocketAddr, count: usize) -> anyhow::Result<Vec<f64>> {
    let mut client = Client::connect(address)?;
    let body = format!("{{\"swiper\":\"{USER}\",\"swipee\":\"1\",\"comment\":\"\"}}");
    let post = client.post_text("/swipe/right/", "application/json", body.as_bytes());
    let path = format!("/stats/{USER}/");
    let mut millis = Vec::with_capacity(count);
    client.send(&post)?;
    client.answer()?;
    thread::sleep(Duration::from_millis(200));
    let mut seen = likes(&mut client, &path)?;
    while millis.len() < count {
        let start = Instant::now();
        client.send(&post)?;
        client.answer()?;
        let mut reads = 0;
        loop {
            let likes = likes(&mut client, &path)?;
            if likes == seen + 1 {
                break;
            }
            ensure!(likes == seen, "{likes} likes are counted after {seen}");
            reads += 1;
            ensure!(reads < READS_MAX, "a swipe is not counted");
        }
        millis.push(start.elapsed().as_secs_f64() * 1e3);
        seen += 1;
        thread::sleep(PAUSE);
    }
    Ok(millis)
}

fn likes(client: &mut Client, path: &str) -> anyhow::Result<u64> {
    let answer: serde_json::Value = serde_json::from_slice(&client.get(path)?)?;
    answer["numLikes"].as_u64().with_context(|| format!("an answer has no count: {answer}"))
}

/// Posts swipes of others at a rate until it is over; how many a second it were.
fn others(address: SocketAddr, number: usize, rate: f64, is_over: &AtomicBool) -> anyhow::Result<f64> {
    let settings = SwipesSettings { posted: true, swipers: USER as u32 - 1, ..SwipesSettings::default() };
    let mut made = Workload::Swipes(settings).begin(number as u64)?;
    let mut client = Client::connect(address)?;
    let start = Instant::now() + Duration::from_secs_f64(number as f64 / CONNECTIONS as f64 / rate);
    let (mut sent, mut line) = (0, Vec::new());
    while !is_over.load(Ordering::Acquire) {
        let due = start + Duration::from_secs_f64(f64::from(sent) / rate);
        thread::sleep(due.saturating_duration_since(Instant::now()));
        line.clear();
        made.push(&mut line);
        client.send(&client.post_text("/swipe/left/", "application/json", line.trim_ascii_end()))?;
        client.answer()?;
        sent += 1;
    }
    Ok(f64::from(sent) / start.elapsed().as_secs_f64())
}
