//! Renders two snapshots as lines of text. Pure.

use std::collections::BTreeMap;

use super::snapshot::{Query, Series, Snapshot};
use crate::{
    args::TopSort,
    output::{cut, grouped},
};

/// Stages of a shard's work, as the metrics name them.
const STAGES: [&str; 4] = ["decode", "match", "operate", "deliver"];
/// Streams that are shown while there are queries that want the room.
const STREAMS_SHOWN_MAX: usize = 8;

/// The picture, at most `rows` lines of at most `columns`.
pub(super) fn picture(
    url: &str,
    before: &Snapshot,
    now: &Snapshot,
    sort: TopSort,
    rows: usize,
    columns: usize,
) -> Vec<String> {
    let mut lines = head(url, before, now);
    lines.push(String::new());
    lines.extend(streams(now, rows));
    lines.push(String::new());
    lines.extend(shards(before, now));
    lines.push(String::new());
    lines.extend(queries(before, now, sort));
    if lines.len() > rows {
        let left_out = lines.len() - rows + 1;
        lines.truncate(rows.saturating_sub(1));
        lines.push(format!("… and {left_out} more"));
    }
    lines.iter().map(|line| fitted(line, columns)).collect()
}

fn fitted(line: &str, columns: usize) -> String {
    if unicode_width::UnicodeWidthStr::width(line) > columns { cut(line, columns).0 } else { line.to_owned() }
}

fn head(url: &str, before: &Snapshot, now: &Snapshot) -> Vec<String> {
    let metrics = &now.metrics;
    let up = now.at_seconds - metrics.get("process_start_time_seconds");
    let cpu = rate(before, now, |series| series.get("process_cpu_seconds_total"));
    let memory = |owner: &str| size(metrics.get(&format!("swiftwater_memory_bytes{{owner=\"{owner}\"}}")));
    let most = |owner: &str| size(metrics.get(&format!("swiftwater_memory_bytes_max{{owner=\"{owner}\"}}")));
    vec![
        format!(
            "{url}  up {}, {} queries, {:.2} cores busy, {} resident, {} connections",
            span(up),
            grouped(metrics.get("swiftwater_queries") as u64),
            cpu,
            size(metrics.get("process_resident_memory_bytes")),
            grouped(metrics.get("swiftwater_http_connections") as u64),
        ),
        format!(
            "waiting {} of {}, state {} of {}, index {}, subscribers {}",
            memory("pending"),
            most("pending"),
            memory("state"),
            most("state"),
            memory("index"),
            memory("subscribers"),
        ),
        format!(
            "{} records/s out, {} dropped; read to match {}",
            grouped(rate(before, now, |series| series.get("swiftwater_records_out_total")) as u64),
            grouped(metrics.get("swiftwater_records_dropped_total") as u64),
            latency(before, now, "swiftwater_read_to_match_seconds_bucket"),
        ),
        format!(
            "searches: {} running, {} waiting, {} refused, {} rows/s; took {}",
            grouped(metrics.get("swiftwater_search_running") as u64),
            grouped(metrics.get("swiftwater_search_waiting") as u64),
            grouped(metrics.get("swiftwater_search_refused_total") as u64),
            grouped(rate(before, now, |series| series.get("swiftwater_search_rows_scanned_total")) as u64),
            latency(before, now, "swiftwater_search_seconds_bucket"),
        ),
    ]
}

/// The times of a histogram within which half and 99 of 100 of the samples between the snapshots are.
fn latency(before: &Snapshot, now: &Snapshot, name: &str) -> String {
    let bound = |text: &str| text.parse().unwrap_or(f64::INFINITY);
    let buckets = |snapshot: &Snapshot| -> BTreeMap<u64, (f64, f64)> {
        let family = snapshot.metrics.family(name);
        let bounded = family.filter_map(|(labels, count)| Some((bound(labels.get("le")?), count)));
        // Positive floats order as their bits do.
        bounded.map(|(bound, count)| (bound.to_bits(), (bound, count))).collect()
    };
    let earlier = buckets(before);
    let counts = buckets(now).into_iter();
    let counts = counts
        .map(|(key, (bound, count))| (bound, count - earlier.get(&key).map_or(0.0, |(_, count)| *count)));
    let counts: Vec<_> = counts.collect();
    let all = counts.last().map_or(0.0, |(_, count)| *count);
    if all == 0.0 {
        return "-".to_owned();
    }
    let within = |share: f64| {
        let bound =
            counts.iter().find(|(_, count)| *count >= share * all).map_or(f64::INFINITY, |(bound, _)| *bound);
        if bound.is_finite() { format!("< {}", short_time(bound)) } else { "long".to_owned() }
    };
    format!("p50 {} p99 {}", within(0.5), within(0.99))
}

fn streams(now: &Snapshot, rows: usize) -> Vec<String> {
    let mut streams: Vec<_> = now.streams.iter().collect();
    streams.sort_by(|a, b| {
        b.events_per_second.total_cmp(&a.events_per_second).then_with(|| a.name.cmp(&b.name))
    });
    let shown_max = if rows == usize::MAX { streams.len() } else { STREAMS_SHOWN_MAX };
    let mut lines = vec![format!(
        "{:<20} {:>12} {:>12} {:>16} {:>10} {:>8} {:>10} {:>8}",
        "STREAM", "EVENTS/S", "BYTES/S", "EVENTS", "REJECTED", "QUERIES", "WAITING", "LAG"
    )];
    lines.extend(streams.iter().take(shown_max).map(|stream| {
        format!(
            "{:<20} {:>12} {:>12} {:>16} {:>10} {:>8} {:>10} {:>8}",
            name(&stream.name, 20),
            grouped(stream.events_per_second.round() as u64),
            size(stream.bytes_per_second),
            grouped(stream.events),
            grouped(stream.rejected),
            grouped(stream.queries),
            size(stream.pending_bytes as f64),
            short_time(stream.lag_ms as f64 / 1e3),
        )
    }));
    if streams.is_empty() {
        lines.push("no stream has had an event yet".to_owned());
    }
    if streams.len() > shown_max {
        lines.push(format!("… and {} more", streams.len() - shown_max));
    }
    lines
}

fn shards(before: &Snapshot, now: &Snapshot) -> Vec<String> {
    let numbers = |series: &Series, family: &str, stage: Option<&str>| -> BTreeMap<u64, f64> {
        let of_stage = series
            .family(family)
            .filter(|(labels, _)| stage.is_none_or(|stage| labels.get("stage") == Some(stage)));
        of_stage.filter_map(|(labels, number)| Some((labels.get("shard")?.parse().ok()?, number))).collect()
    };
    let grown = |family: &str, stage: Option<&str>| -> BTreeMap<u64, f64> {
        let earlier = numbers(&before.metrics, family, stage);
        let later = numbers(&now.metrics, family, stage).into_iter();
        later
            .map(|(shard, number)| (shard, (number - earlier.get(&shard).unwrap_or(&0.0)).max(0.0)))
            .collect()
    };
    let up = grown("swiftwater_shard_up_seconds_total", None);
    let events = grown("swiftwater_shard_events_total", None);
    let stages = STAGES.map(|stage| grown("swiftwater_shard_busy_seconds_total", Some(stage)));
    let mut lines = vec![format!(
        "{:<20} {:>12} {:>9} {:>9} {:>9} {:>9} {:>9}",
        "SHARD", "EVENTS/S", "DECODE", "MATCH", "OPERATE", "DELIVER", "IDLE"
    )];
    for (shard, up) in &up {
        let up = up.max(1e-9);
        let busy = stages.each_ref().map(|stage| stage.get(shard).unwrap_or(&0.0) / up);
        let idle = (1.0 - busy.iter().sum::<f64>()).clamp(0.0, 1.0);
        let events = events.get(shard).unwrap_or(&0.0) / up;
        let mut line = format!("{shard:<20} {:>12}", grouped(events.round() as u64));
        for share in busy.into_iter().chain([idle]) {
            line.push_str(&format!(" {:>8.1}%", share * 100.0));
        }
        lines.push(line);
    }
    lines
}

fn queries(before: &Snapshot, now: &Snapshot, sort: TopSort) -> Vec<String> {
    let seconds = seconds(before, now);
    let earlier: BTreeMap<_, _> =
        before.queries.iter().map(|query| (query.id.as_str(), query.cost)).collect();
    let cost = |query: &Query| earlier.get(query.id.as_str()).copied().unwrap_or_default();
    let per_second = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
    let mut rows: Vec<_> = now
        .queries
        .iter()
        .map(|query| {
            let before = cost(query);
            Row {
                cores: per_second(query.cost.cpu_nanos, before.cpu_nanos) / 1e9,
                matches: per_second(query.cost.matches, before.matches),
                bytes_out: per_second(query.cost.bytes_out, before.bytes_out),
                query,
            }
        })
        .collect();
    rows.sort_by(|a, b| {
        let by = match sort {
            TopSort::Cpu => {
                b.cores.total_cmp(&a.cores).then(b.query.cost.cpu_nanos.cmp(&a.query.cost.cpu_nanos))
            }
            TopSort::State => b.query.state_bytes.cmp(&a.query.state_bytes),
            TopSort::Matches => b.matches.total_cmp(&a.matches),
            TopSort::Out => b.bytes_out.total_cmp(&a.bytes_out),
            TopSort::Age => std::cmp::Ordering::Equal,
        };
        // Ids begin with the time of submission.
        by.then_with(|| b.query.id.cmp(&a.query.id))
    });
    let mark =
        |column: TopSort, text: &str| if column == sort { format!("{text}↓") } else { text.to_owned() };
    let mut lines = vec![format!(
        "{:<26} {:<14} {:>7} {:>12} {:>10} {:>10} {:>8}  QUERY",
        mark(TopSort::Age, "ID"),
        "STREAM",
        mark(TopSort::Cpu, "CPU"),
        mark(TopSort::Matches, "MATCHES/S"),
        mark(TopSort::Out, "OUT/S"),
        mark(TopSort::State, "STATE"),
        "LAG",
    )];
    lines.extend(rows.iter().map(|row| {
        let query = row.query;
        let text = query.text.split_whitespace().collect::<Vec<_>>().join(" ");
        format!(
            "{:<26} {:<14} {:>6.1}% {:>12} {:>10} {:>10} {:>8}  {}{text}",
            name(&query.id, 26),
            name(&query.stream, 14),
            row.cores * 100.0,
            grouped(row.matches.round() as u64),
            size(row.bytes_out),
            size(query.state_bytes as f64),
            short_time(query.lag_ms as f64 / 1e3),
            if query.finished.is_some() { "(ended) " } else { "" },
        )
    }));
    if rows.is_empty() {
        lines.push("no query is running".to_owned());
    }
    lines
}

struct Row<'a> {
    query: &'a Query,
    cores: f64,
    matches: f64,
    bytes_out: f64,
}

fn seconds(before: &Snapshot, now: &Snapshot) -> f64 {
    (now.at_nanos.saturating_sub(before.at_nanos) as f64 / 1e9).max(1e-3)
}

fn rate(before: &Snapshot, now: &Snapshot, number: impl Fn(&Series) -> f64) -> f64 {
    ((number(&now.metrics) - number(&before.metrics)) / seconds(before, now)).max(0.0)
}

fn name(text: &str, width: usize) -> String {
    fitted(text, width)
}

/// Bytes in three digits and a unit.
fn size(bytes: f64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut scaled = bytes;
    let mut unit = 0;
    while scaled >= 1000.0 && unit + 1 < units.len() {
        scaled /= 1024.0;
        unit += 1;
    }
    let decimals = if unit == 0 || scaled >= 100.0 { 0 } else { 1 };
    format!("{scaled:.decimals$} {}", units[unit])
}

fn short_time(seconds: f64) -> String {
    match seconds {
        0.0 => "0".to_owned(),
        s if s < 1e-3 => format!("{:.0} µs", s * 1e6),
        s if s < 1.0 => format!("{:.0} ms", s * 1e3),
        s if s < 120.0 => format!("{s:.1} s"),
        s => span(s),
    }
}

fn span(seconds: f64) -> String {
    let seconds = seconds.max(0.0) as u64;
    match (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, minutes) => format!("{minutes} min {} s", seconds % 60),
        (0, hours, minutes) => format!("{hours} h {minutes} min"),
        (days, hours, _) => format!("{days} d {hours} h"),
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::snapshot::{Cost, Stream},
        *,
    };

    fn snapshot(at_nanos: u64, page: &str, queries: Vec<Query>) -> Snapshot {
        let stream = Stream {
            name: "flights".to_owned(),
            events: 1_234,
            events_per_second: 640.6,
            ..Stream::default()
        };
        Snapshot { at_nanos, at_seconds: 100.0, streams: vec![stream], queries, metrics: Series::read(page) }
    }

    fn query(id: &str, cpu_nanos: u64, matches: u64) -> Query {
        let cost = Cost { matches, cpu_nanos, ..Cost::default() };
        Query {
            id: id.to_owned(),
            text: "SELECT\n *".to_owned(),
            stream: "s".to_owned(),
            cost,
            ..Query::default()
        }
    }

    fn lines(sort: TopSort, rows: usize) -> Vec<String> {
        let before = "swiftwater_shard_up_seconds_total{shard=\"0\"} 1\n\
            swiftwater_shard_busy_seconds_total{shard=\"0\",stage=\"decode\"} 0.25\n\
            swiftwater_read_to_match_seconds_bucket{le=\"0.001\"} 5\n\
            swiftwater_read_to_match_seconds_bucket{le=\"+Inf\"} 5\n";
        let now = "process_start_time_seconds 39\nswiftwater_shard_up_seconds_total{shard=\"0\"} 3\n\
            swiftwater_shard_busy_seconds_total{shard=\"0\",stage=\"decode\"} 0.75\n\
            swiftwater_shard_events_total{shard=\"0\"} 10\n\
            swiftwater_read_to_match_seconds_bucket{le=\"0.0005\"} 6\n\
            swiftwater_read_to_match_seconds_bucket{le=\"0.001\"} 15\n\
            swiftwater_read_to_match_seconds_bucket{le=\"+Inf\"} 15\n";
        let before = snapshot(0, before, vec![query("a", 0, 0), query("b", 0, 0)]);
        let queries = vec![query("a", 1_000_000_000, 20), query("b", 0, 2_000)];
        let now = snapshot(2_000_000_000, now, queries);
        picture("http://x", &before, &now, sort, rows, 120)
    }

    #[test]
    fn numbers_are_what_was_done_in_between() {
        let lines = lines(TopSort::Cpu, usize::MAX);
        let find = |start: &str| lines.iter().find(|line| line.starts_with(start)).unwrap().clone();
        assert!(find("http://x").contains("up 1 min 1 s"), "{}", lines[0]);
        assert!(lines[2].ends_with("p50 < 500 µs p99 < 1 ms"), "{}", lines[2]);
        assert!(find("flights").contains(" 641 "), "{lines:#?}");
        let shard: Vec<_> = find("0  ").split_whitespace().map(str::to_owned).collect();
        assert_eq!(shard, ["0", "5", "25.0%", "0.0%", "0.0%", "0.0%", "75.0%"]);
        assert!(find("a ").contains("50.0%") && find("a ").ends_with("SELECT *"), "{lines:#?}");
    }

    #[test]
    fn queries_are_sorted_by_what_is_asked() {
        let order = |sort| {
            let lines = lines(sort, usize::MAX);
            let at = |start: &str| lines.iter().position(|line| line.starts_with(start)).unwrap();
            at("a ") < at("b ")
        };
        assert!(order(TopSort::Cpu));
        assert!(!order(TopSort::Matches));
        assert!(!order(TopSort::Age));
    }

    #[test]
    fn the_picture_fits_the_screen() {
        let lines = lines(TopSort::Cpu, 9);
        assert_eq!(lines.len(), 9);
        assert!(lines[8].starts_with("… and "), "{lines:#?}");
        assert!(lines.iter().all(|line| unicode_width::UnicodeWidthStr::width(line.as_str()) <= 120));
    }
}
