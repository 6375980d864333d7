//! Writes the server's JSON: emits, and the status of queries and streams. The command line prints the same.
//!
//! An emit, on one line (the native form; times are RFC 3339 in UTC with milliseconds):
//!
//! ```json
//! {"records": [{"carrier": "UA", "n": 42}],
//!  "meta": {"query": {"id": "01J…", "text": "SELECT …", "received": "2026-01-01T00:00:00.000Z", "finished": null},
//!           "window": {"kind": "tumbling", "number": 3, "start": "…", "end": "…", "emitted": "…"},
//!           "stream": {"name": "flights", "position": 123456, "lag_ms": 2},
//!           "counts": {"seen": 9000, "matched": 42, "mistyped": 0, "late": 0, "dropped": 0, "expression_errors": 0},
//!           (with `ahead` after `late` where there are any, and `thinned` at the end over `/v1/ws` if a client wants fewer records)
//!           "sketch": {"error_bounds": {}}, "warnings": []}}
//! ```
//!
//! `window` is null if the query has none. In a query's last emit, `finished` is a time, with a `reason` beside it
//! (`duration`, `limit`, `end_of_input`, `client`, `killed`, `shutdown`, `rate_limited`, `failed`). A query that failed has
//! `"error": {"message": "…"}` in its `meta`, with a `hint` if there is a remedy. `query` and `stream` have `sample`, a
//! share from 0 to 1, if the query or the stream's sources read only a sample.

mod bullet;
mod sketch;
mod status;
mod time;

use std::io::Write;

use swiftwater_runtime::{ClusterMeta, Emit, EmitMeta, EndReason, QueryMeta, Records, WindowMeta};

pub use bullet::{
    BulletError, BulletKind, write_bullet_emit, write_bullet_errors, write_bullet_line, write_bullet_meta,
};
pub(crate) use status::refused_json;
pub use status::{position_json, query_json, stream_json};
pub use time::{parse_time, time_text, write_time};

/// Adds an emit as one line, without the line's end.
pub fn write_emit(emit: &Emit, out: &mut Vec<u8>) {
    write_thinned_emit(emit, None, out);
}

/// Does the same as [`write_emit`]. `thinned`: the records of the query that this reader was spared so far, if it may be.
pub(crate) fn write_thinned_emit(emit: &Emit, thinned: Option<u64>, out: &mut Vec<u8>) {
    out.reserve(emit.records.text.len() + 512);
    out.extend_from_slice(b"{\"records\":[");
    write_records(&emit.records, out);
    out.extend_from_slice(b"],\"meta\":");
    write_meta_with(&emit.meta, thinned, out);
    out.push(b'}');
}

/// Adds records with commas between them. Their text is taken as it is: a newline stands at each record's end and,
/// since they are JSON, nowhere else.
pub fn write_records(records: &Records, out: &mut Vec<u8>) {
    let text = records.text.strip_suffix(b"\n").unwrap_or(&records.text);
    let from = out.len();
    out.extend_from_slice(text);
    for newline in memchr::memchr_iter(b'\n', text) {
        out[from + newline] = b',';
    }
}

/// Adds an emit's `meta` object.
pub fn write_meta(meta: &EmitMeta, out: &mut Vec<u8>) {
    write_meta_with(meta, None, out);
}

fn write_meta_with(meta: &EmitMeta, thinned: Option<u64>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"query\":{");
    write_query(&meta.query, out);
    out.extend_from_slice(b",\"finished\":");
    match &meta.finished {
        None => out.extend_from_slice(b"null"),
        Some(finished) => {
            write_time(finished.at, out);
            out.extend_from_slice(b",\"reason\":");
            write_text(reason_name(&finished.reason), out);
        }
    }
    if let Some(share) = meta.query.sample {
        append_fmt(out, format_args!(",\"sample\":{share}"));
    }
    out.extend_from_slice(b"},\"window\":");
    match &meta.window {
        None => out.extend_from_slice(b"null"),
        Some(window) => write_window(window, out),
    }
    append_fmt(
        out,
        format_args!(
            ",\"stream\":{{\"name\":\"{}\",\"position\":{},\"lag_ms\":{}",
            meta.stream.name, meta.stream.position, meta.stream.lag_ms
        ),
    );
    if let Some(share) = meta.stream.sample {
        append_fmt(out, format_args!(",\"sample\":{share}"));
    }
    if meta.stream.lost > 0 {
        append_fmt(out, format_args!(",\"lost\":{}", meta.stream.lost));
    }
    out.push(b'}');
    if let Some(cluster) = &meta.cluster {
        write_cluster(cluster, out);
    }
    let counts = &meta.counts;
    append_fmt(
        out,
        format_args!(
            ",\"counts\":{{\"seen\":{},\"matched\":{},\"mistyped\":{},\"late\":{}",
            counts.seen, counts.matched, counts.mistyped, counts.late
        ),
    );
    if counts.ahead > 0 {
        append_fmt(out, format_args!(",\"ahead\":{}", counts.ahead));
    }
    let (dropped, errors) = (counts.dropped, counts.expression_errors);
    append_fmt(out, format_args!(",\"dropped\":{dropped},\"expression_errors\":{errors}"));
    if let Some(thinned) = thinned {
        append_fmt(out, format_args!(",\"thinned\":{thinned}"));
    }
    out.push(b'}');
    out.extend_from_slice(b",\"sketch\":");
    sketch::write_sketches(meta, out);
    out.extend_from_slice(b",\"warnings\":[");
    for (at, warning) in meta.warnings.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        write_text(warning, out);
    }
    out.push(b']');
    if let Some(message) = failure(meta).or(meta.failure.as_deref()) {
        out.extend_from_slice(b",\"error\":{\"message\":");
        write_text(message, out);
        if let Some(hint) = failure_hint(meta) {
            out.extend_from_slice(b",\"hint\":");
            write_text(hint, out);
        }
        out.push(b'}');
    }
    out.push(b'}');
}

fn write_cluster(cluster: &ClusterMeta, out: &mut Vec<u8>) {
    let ClusterMeta { workers, answered, partitions, missing } = cluster;
    let (covered, complete) = (partitions - missing.len(), missing.is_empty());
    append_fmt(
        out,
        format_args!(
            ",\"cluster\":{{\"workers\":{workers},\"answered\":{answered},\"partitions\":{partitions},\"covered\":{covered},\
             \"missing\":["
        ),
    );
    for (at, partition) in missing.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        write_text(partition, out);
    }
    append_fmt(out, format_args!("],\"complete\":{complete}}}"));
}

/// Adds what is known of a query from the start, as an object: id, text, received and, where they are known, columns.
pub fn write_query_meta(query: &QueryMeta, out: &mut Vec<u8>) {
    out.push(b'{');
    write_query(query, out);
    if let Some(share) = query.sample {
        append_fmt(out, format_args!(",\"sample\":{share}"));
    }
    if let Some(columns) = &query.columns {
        out.extend_from_slice(b",\"columns\":[");
        for (at, column) in columns.iter().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            write_text(column, out);
        }
        out.push(b']');
    }
    out.push(b'}');
}

/// The word for why a query ended.
pub fn reason_name(reason: &EndReason) -> &'static str {
    match reason {
        EndReason::Duration => "duration",
        EndReason::Limit => "limit",
        EndReason::EndOfInput => "end_of_input",
        EndReason::Client => "client",
        EndReason::Killed => "killed",
        EndReason::Shutdown => "shutdown",
        EndReason::RateLimited(_) => "rate_limited",
        EndReason::Failed(_) => "failed",
    }
}

/// The failure of the query, in its last emit.
pub fn failure(meta: &EmitMeta) -> Option<&str> {
    match meta.finished.as_ref().map(|finished| &finished.reason) {
        Some(EndReason::Failed(message) | EndReason::RateLimited(message)) => Some(message),
        _ => None,
    }
}

/// The hint for the failure of the query.
pub fn failure_hint(meta: &EmitMeta) -> Option<&'static str> {
    match meta.finished.as_ref().map(|finished| &finished.reason) {
        Some(EndReason::RateLimited(_)) => Some(
            "Filter more events out, or use larger windows. With `engine.fast_query` set to `drop`, the \
             surplus emits are dropped instead.",
        ),
        _ => None,
    }
}

fn write_query(query: &QueryMeta, out: &mut Vec<u8>) {
    append_fmt(out, format_args!("\"id\":\"{}\",\"text\":", query.id));
    write_text(&query.text, out);
    out.extend_from_slice(b",\"received\":");
    write_time(query.received, out);
}

fn write_window(window: &WindowMeta, out: &mut Vec<u8>) {
    append_fmt(out, format_args!("{{\"kind\":\"{}\",\"number\":{},\"start\":", window.kind, window.number));
    write_time(window.start, out);
    out.extend_from_slice(b",\"end\":");
    write_time(window.end, out);
    out.extend_from_slice(b",\"emitted\":");
    write_time(window.emitted, out);
    out.push(b'}');
}

/// Adds a JSON string.
pub(crate) fn write_text(text: &str, out: &mut Vec<u8>) {
    serde_json::to_writer(out, text).expect("memory takes every text");
}

fn append_fmt(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("memory takes every text");
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};
    use swiftwater_event::StreamName;
    use swiftwater_runtime::{Counts, Finished, QueryCost, StreamMeta};

    use super::*;

    fn emit() -> Emit {
        let query = QueryMeta {
            id: "01J00000000000000000000000".parse().unwrap(),
            text: "SELECT \"a\"\nFROM STREAM(s)".into(),
            printed: "".into(),
            received: 1_767_225_600_000,
            sample: None,
            columns: Some(Arc::from(["a".into()])),
        };
        Emit {
            records: Records { text: "{\"a\":\"x\\n\"}\n{\"a\":2}\n".into(), count: 2 },
            meta: EmitMeta {
                query: Arc::new(query),
                number: 1,
                finished: None,
                window: None,
                stream: StreamMeta {
                    name: StreamName::new("s").unwrap(),
                    position: 7,
                    lag_ms: 2,
                    sample: None,
                    lost: 0,
                },
                cluster: None,
                counts: Counts {
                    seen: 7,
                    matched: 2,
                    mistyped: 1,
                    late: 3,
                    ahead: 6,
                    dropped: 4,
                    expression_errors: 5,
                },
                sketches: Vec::new(),
                inner_sketches: None,
                failure: None,
                warnings: vec![],
            },
        }
    }

    fn written(emit: &Emit) -> Value {
        let mut out = Vec::new();
        write_emit(emit, &mut out);
        assert!(!out.contains(&b'\n'), "an emit is one line");
        serde_json::from_slice(&out).unwrap()
    }

    #[test]
    fn an_emit_has_the_form_that_is_promised() {
        let expected = json!({
            "records": [{"a": "x\n"}, {"a": 2}],
            "meta": {
                "query": {"id": "01J00000000000000000000000", "text": "SELECT \"a\"\nFROM STREAM(s)",
                          "received": "2026-01-01T00:00:00.000Z", "finished": null},
                "window": null,
                "stream": {"name": "s", "position": 7, "lag_ms": 2},
                "counts": {"seen": 7, "matched": 2, "mistyped": 1, "late": 3, "ahead": 6, "dropped": 4, "expression_errors": 5},
                "sketch": {"error_bounds": {}}, "warnings": [],
            },
        });
        assert_eq!(written(&emit()), expected);
    }

    #[test]
    fn what_is_not_always_there_is_there_when_it_should() {
        let mut emit = emit();
        emit.records = Records::default();
        let window =
            WindowMeta { kind: "tumbling", number: 3, records: 0, start: 0, end: 1000, emitted: 1001 };
        emit.meta.window = Some(window);
        emit.meta.stream.sample = Some(0.25);
        emit.meta.stream.lost = 9;
        emit.meta.finished = Some(Finished {
            at: 2000,
            reason: EndReason::Failed("too \"large\"".to_owned()),
            cost: QueryCost::default(),
        });
        emit.meta.warnings = vec!["one".to_owned(), "two".to_owned()];
        let query = QueryMeta { sample: Some(0.5), ..(*emit.meta.query).clone() };
        emit.meta.query = Arc::new(query);
        let value = written(&emit);
        assert_eq!(value["records"], json!([]));
        let window = json!({"kind": "tumbling", "number": 3, "start": "1970-01-01T00:00:00.000Z",
            "end": "1970-01-01T00:00:01.000Z", "emitted": "1970-01-01T00:00:01.001Z"});
        assert_eq!(value["meta"]["window"], window);
        assert_eq!(value["meta"]["query"]["finished"], "1970-01-01T00:00:02.000Z");
        assert_eq!(value["meta"]["query"]["reason"], "failed");
        assert_eq!(value["meta"]["query"]["sample"], 0.5);
        assert_eq!(value["meta"]["stream"]["sample"], 0.25);
        assert_eq!(value["meta"]["stream"]["lost"], 9);
        assert_eq!(value["meta"]["error"]["message"], "too \"large\"");
        assert_eq!(value["meta"]["warnings"], json!(["one", "two"]));
    }

    #[test]
    fn a_query_is_told_with_its_columns() {
        let mut out = Vec::new();
        write_query_meta(&emit().meta.query, &mut out);
        let value: Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(value["columns"], json!(["a"]));
        assert_eq!(value["id"], "01J00000000000000000000000");
    }
}
