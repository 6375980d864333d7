//! Reports the results of a load, for people and for programs.

use std::{
    fmt::Write as _,
    io::{self, Write},
};

use serde_json::{Value, json};
use swiftwater_load::{Arrival, Counts, Interval, Plan, Report, Sample};

use crate::{output::grouped, text_table::Table};

const MS: f64 = 1e6;
const KB: f64 = 1024.0;
/// The reported percentiles of latencies, each with its name.
const SHARES: [(&str, f64); 5] =
    [("median", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99), ("p99.9", 0.999)];

/// Writes the rows, aligned, and what they come to in words.
pub(super) fn write_table(plan: &Plan, report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let mut text = "request,samples,failures,error %,mean ms,min,max".to_owned();
    SHARES.iter().for_each(|(name, _)| text.extend([",", name]));
    text.push_str(",per s,KB/s in,KB/s out\n");
    for (request, counts) in plan.requests.iter().zip(&report.kinds) {
        row(&request.name, counts, report.seconds, &mut text);
    }
    let total = report.total();
    if plan.requests.len() > 1 {
        row("total", &total, report.seconds, &mut text);
    }
    let mut table = Table::new(true);
    table.push(text.as_bytes(), out)?;
    table.finish(out)?;
    let samples = total.latency.count();
    write!(
        out,
        "\n{} succeeded and {} failed in {:.2} s: {:.0} per second",
        grouped(samples - total.failures),
        grouped(total.failures),
        report.seconds,
        per_second(samples, report.seconds)
    )?;
    if total.retries > 0 {
        write!(out, ", {} sent again", grouped(total.retries))?;
    }
    if report.unsent > 0 {
        write!(out, "; {} were due and not sent", grouped(report.unsent))?;
    }
    let outcomes =
        total.outcomes.iter().map(|(outcome, count)| format!("{} × {}", outcome.name(), grouped(*count)));
    writeln!(out, "\nanswers: {}", outcomes.collect::<Vec<_>>().join(", "))?;
    if plan.arrival == Arrival::Answered && total.latency.mean() > 0.0 {
        let forecast = plan.connections as f64 / (total.latency.mean() / 1e9);
        writeln!(
            out,
            "by Little's law: {} connections at a mean of {:.2} ms make {forecast:.0} a second",
            plan.connections,
            total.latency.mean() / MS
        )?;
    }
    out.flush()
}

fn row(name: &str, counts: &Counts, seconds: f64, text: &mut String) {
    let latency = &counts.latency;
    let samples = latency.count();
    let ms = |nanos: u64| nanos as f64 / MS;
    // Writing to memory does not fail.
    let _ = write!(
        text,
        "\"{}\",{samples},{},{:.2},{:.3},{:.3},{:.3}",
        name.replace('"', "\"\""),
        counts.failures,
        100.0 * error_share(counts),
        latency.mean() / MS,
        ms(latency.min()),
        ms(latency.max())
    );
    for (_, share) in SHARES {
        let _ = write!(text, ",{:.3}", ms(latency.quantile(share)));
    }
    let _ = writeln!(
        text,
        ",{:.1},{:.1},{:.1}",
        per_second(samples, seconds),
        per_second(counts.received_bytes, seconds) / KB,
        per_second(counts.sent_bytes, seconds) / KB
    );
}

fn error_share(counts: &Counts) -> f64 {
    match counts.latency.count() {
        0 => 0.0,
        samples => counts.failures as f64 / samples as f64,
    }
}

fn per_second(count: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
}

/// The report as one document.
pub(super) fn document(plan: &Plan, report: &Report) -> Value {
    let kinds = plan.requests.iter().zip(&report.kinds);
    let requests: Vec<Value> =
        kinds.map(|(request, counts)| of(Some(&request.name), counts, report.seconds)).collect();
    json!({
        "seconds": report.seconds,
        "connections": plan.connections,
        "rate": match plan.arrival { Arrival::Rate(rate) => Some(rate), Arrival::Answered => None },
        "unsent": report.unsent,
        "requests": requests,
        "total": of(None, &report.total(), report.seconds),
    })
}

fn of(name: Option<&str>, counts: &Counts, seconds: f64) -> Value {
    let latency = &counts.latency;
    let ms = |nanos: u64| nanos as f64 / MS;
    let mut latencies = json!({
        "mean": latency.mean() / MS, "min": ms(latency.min()), "max": ms(latency.max()),
    });
    for (name, share) in SHARES {
        latencies[name] = ms(latency.quantile(share)).into();
    }
    let outcomes: serde_json::Map<String, Value> =
        counts.outcomes.iter().map(|(outcome, count)| (outcome.name(), (*count).into())).collect();
    let mut value = json!({
        "samples": latency.count(),
        "failures": counts.failures,
        "error_share": error_share(counts),
        "retries": counts.retries,
        "latency_ms": latencies,
        "per_second": per_second(latency.count(), seconds),
        "received_kb_per_second": per_second(counts.received_bytes, seconds) / KB,
        "sent_kb_per_second": per_second(counts.sent_bytes, seconds) / KB,
        "outcomes": outcomes,
    });
    if let Some(name) = name {
        value["name"] = name.into();
    }
    value
}

/// One line about an interval.
pub(super) fn line(interval: &Interval) -> String {
    let latency = &interval.latency;
    let ms = |nanos: u64| nanos as f64 / MS;
    format!(
        "{:7.1} s  {:>10} done  {:>9}/s  mean {:.2} ms  median {:.2}  p99 {:.2}  max {:.2}  failed {}",
        interval.at_seconds,
        grouped(latency.count()),
        grouped(per_second(latency.count(), interval.seconds) as u64),
        latency.mean() / MS,
        ms(latency.quantile(0.5)),
        ms(latency.quantile(0.99)),
        ms(latency.max()),
        grouped(interval.failures),
    )
}

/// The header of the lines of [`csv`].
pub(super) const CSV_HEADER: &str =
    "due_us,request,latency_us,status,outcome,attempts,sent_bytes,received_bytes\n";

/// A line for each sample; times are since 1970 and durations, in microseconds.
pub(super) fn csv(plan: &Plan, began_micros: i64, samples: &[Sample]) -> String {
    let mut text = String::with_capacity(samples.len() * 80);
    for sample in samples {
        let name = plan.requests.get(sample.request).map_or("", |request| request.name.as_str());
        // Writing to memory does not fail.
        let _ = writeln!(
            text,
            "{},\"{}\",{},{},{},{},{},{}",
            began_micros + (sample.due_nanos / 1000) as i64,
            name.replace('"', "\"\""),
            sample.latency_nanos / 1000,
            sample.outcome.status(),
            sample.outcome.name(),
            sample.attempts,
            sample.sent_bytes,
            sample.received_bytes,
        );
    }
    text
}
