//! Writes results in Bullet's own form, for clients that were written for it.
//!
//! ```json
//! {"records": [{"n": 42}],
//!  "meta": {"Query": {"ID": "01J…", "Query String": "SELECT …", "Receive Time": 1767225600000, "Finish Time": 1767225601000},
//!           "Window": {"Name": "Tumbling", "Number": 3, "Emit Time": 1767225601000, "Expected Emit Time": 1767225601000},
//!           "Sketch": {"Family": "TUPLE", "Was Estimated": false, "Theta": 1.0, "Uniques Estimate": 4.0,
//!                      "Standard Deviations": {"1": {"upperBound": 4.0, "lowerBound": 4.0}, "2": {…}, "3": {…}}},
//!           "Inner Query": {"Window": {…}, "Sketch": {…}},
//!           "errors": [{"error": "…", "resolutions": ["…"]}]}}
//! ```
//!
//! Times are milliseconds since 1970. Only the last emit has `Finish Time`. `Expected Emit Time` is present where windows go
//! by time, `Size` where they go by record. `Sketch` is present if the answer is a sketch's, `Inner Query` if an outer query
//! read the result of another, `errors` if something failed. NaN and the infinities are texts.

use swiftwater_event::{Millis, Value, write_json};
use swiftwater_runtime::{
    DistinctFigures, Emit, EmitMeta, EndReason, RuntimeError, SketchFigures, SketchMeta, WindowMeta,
};

use super::{append_fmt, write_records, write_text};

/// The kind of an emit for Bullet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BulletKind {
    /// Further ones may come.
    Window,
    /// The query's last.
    Final,
    /// The last, because the query answered more often than it may.
    RateLimited,
}

impl BulletKind {
    /// The kind of an emit.
    pub fn of(emit: &Emit) -> BulletKind {
        match emit.meta.finished.as_ref().map(|finished| &finished.reason) {
            None => BulletKind::Window,
            Some(EndReason::RateLimited(_)) => BulletKind::RateLimited,
            Some(_) => BulletKind::Final,
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            BulletKind::Window => "window",
            BulletKind::Final => "final",
            BulletKind::RateLimited => "rate_limited",
        }
    }
}

/// One of Bullet's errors: what is wrong, with its place before it where it has one, and what can be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BulletError {
    /// The fault.
    pub error: String,
    /// The possible remedies.
    pub resolutions: Vec<String>,
}

impl BulletError {
    /// The errors that a refused query is answered with.
    pub fn of(error: &RuntimeError) -> Vec<BulletError> {
        let RuntimeError::Query(errors) = error else {
            return vec![BulletError {
                error: error.to_string(),
                resolutions: error.hint().into_iter().collect(),
            }];
        };
        let one = |error: &swiftwater_lang::QueryError| BulletError {
            error: match (error.line, error.column) {
                (Some(line), Some(column)) => format!("{line}:{column}: {}", error.message),
                _ => error.message.clone(),
            },
            resolutions: error.hint.iter().cloned().collect(),
        };
        errors.0.iter().map(one).collect()
    }
}

/// Adds an emit as one line, without the line's end.
pub fn write_bullet_emit(emit: &Emit, out: &mut Vec<u8>) {
    out.push(b'{');
    write_body(emit, out);
}

/// The same with its kind before the rest, as the command line prints it: `{"kind": "window", "records": …}`.
pub fn write_bullet_line(emit: &Emit, out: &mut Vec<u8>) {
    append_fmt(out, format_args!("{{\"kind\":\"{}\",", BulletKind::of(emit).name()));
    write_body(emit, out);
}

/// Adds the answer of a query that cannot be run.
pub fn write_bullet_errors(errors: &[BulletError], out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"records\":[],\"meta\":{");
    write_errors(errors, out);
    out.extend_from_slice(b"}}");
}

fn write_body(emit: &Emit, out: &mut Vec<u8>) {
    out.reserve(emit.records.text.len() + 512);
    out.extend_from_slice(b"\"records\":[");
    write_records(&emit.records, out);
    out.extend_from_slice(b"],\"meta\":");
    write_bullet_meta(&emit.meta, out);
    out.push(b'}');
}

/// Adds an emit's `meta` object.
pub fn write_bullet_meta(meta: &EmitMeta, out: &mut Vec<u8>) {
    if let Some(failure) = &meta.failure {
        out.push(b'{');
        let resolutions = vec!["Please try again later.".to_owned()];
        write_errors(&[BulletError { error: failure.to_string(), resolutions }], out);
        return out.push(b'}');
    }
    append_fmt(out, format_args!("{{\"Query\":{{\"ID\":\"{}\",\"Query String\":", meta.query.id));
    write_text(&meta.query.printed, out);
    append_fmt(out, format_args!(",\"Receive Time\":{}", meta.query.received));
    if let Some(finished) = &meta.finished {
        append_fmt(out, format_args!(",\"Finish Time\":{}", finished.at));
    }
    out.extend_from_slice(b"},");
    let emitted = meta.window.map(|window| window.emitted);
    let emitted = emitted.or(meta.finished.as_ref().map(|finished| finished.at));
    match &meta.inner_sketches {
        None => {
            write_window(meta.window.as_ref(), 1, emitted, out);
            write_sketches(&meta.sketches, out);
        }
        Some(inner) => {
            // The outer query runs once for each result of the inner one, and counts these.
            let number = meta.window.map_or(1, |window| window.number);
            write_window(None, number, emitted, out);
            write_sketches(&meta.sketches, out);
            out.extend_from_slice(b",\"Inner Query\":{");
            write_window(meta.window.as_ref(), 1, emitted, out);
            write_sketches(inner, out);
            out.push(b'}');
        }
    }
    if let Some(errors) = errors_of(meta) {
        out.push(b',');
        write_errors(&errors, out);
    }
    out.push(b'}');
}

/// The failure of the query, if it failed.
fn errors_of(meta: &EmitMeta) -> Option<Vec<BulletError>> {
    let (error, resolutions): (&str, &[&str]) = match &meta.finished.as_ref()?.reason {
        EndReason::RateLimited(error) => (
            error,
            &[
                "Keep fewer events with a filter.",
                "Take a window by time instead of one by record: it answers less often.",
            ],
        ),
        EndReason::Failed(error) => (error, &["Please try again later."]),
        _ => return None,
    };
    let resolutions = resolutions.iter().map(|&text| text.to_owned()).collect();
    Some(vec![BulletError { error: error.to_owned(), resolutions }])
}

fn write_errors(errors: &[BulletError], out: &mut Vec<u8>) {
    out.extend_from_slice(b"\"errors\":[");
    for (at, error) in errors.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        out.extend_from_slice(b"{\"error\":");
        write_text(&error.error, out);
        out.extend_from_slice(b",\"resolutions\":");
        if error.resolutions.is_empty() {
            out.extend_from_slice(b"null");
        } else {
            serde_json::to_writer(&mut *out, &error.resolutions).expect("memory takes every text");
        }
        out.push(b'}');
    }
    out.push(b']');
}

/// `number` is that of the emit where there are no windows.
fn write_window(window: Option<&WindowMeta>, number: u64, emitted: Option<Millis>, out: &mut Vec<u8>) {
    let name = match window.map(|window| window.kind) {
        None => "Windowless",
        Some("record") => "Sliding",
        Some(_) => "Tumbling",
    };
    let number = window.map_or(number, |window| window.number);
    append_fmt(out, format_args!("\"Window\":{{\"Name\":\"{name}\",\"Number\":{number}"));
    if let Some(emitted) = emitted {
        append_fmt(out, format_args!(",\"Emit Time\":{emitted}"));
    }
    match window {
        Some(window) if window.kind == "record" => {
            append_fmt(out, format_args!(",\"Size\":{}", window.records))
        }
        Some(window) => append_fmt(out, format_args!(",\"Expected Emit Time\":{}", window.end)),
        None => {}
    }
    out.push(b'}');
}

/// Bullet knows one sketch a query; where there are several, it is the first.
fn write_sketches(sketches: &[SketchMeta], out: &mut Vec<u8>) {
    let Some(sketch) = sketches.first() else { return };
    let family = match &sketch.figures {
        SketchFigures::Distinct(_) => "ALPHA",
        SketchFigures::Groups(_) => "TUPLE",
        SketchFigures::Quantiles { .. } => "QUANTILES",
        SketchFigures::Frequent { .. } => "FREQUENCY",
    };
    let estimated = sketch.is_estimated;
    append_fmt(out, format_args!(",\"Sketch\":{{\"Family\":\"{family}\",\"Was Estimated\":{estimated}"));
    match &sketch.figures {
        SketchFigures::Distinct(figures) => {
            append_fmt(out, format_args!(",\"Size\":{}", figures.bytes));
            write_distinct(figures, out);
        }
        SketchFigures::Groups(figures) => {
            write_double("Uniques Estimate", figures.estimate, out);
            write_distinct(figures, out);
        }
        SketchFigures::Quantiles { bytes, items_seen, least, greatest, rank_error } => {
            append_fmt(out, format_args!(",\"Size\":{bytes},\"Items Seen\":{items_seen}"));
            write_double("Minimum Value", least.unwrap_or(f64::INFINITY), out);
            write_double("Maximum Value", greatest.unwrap_or(f64::NEG_INFINITY), out);
            write_double("Normalized Rank Error", *rank_error, out);
        }
        SketchFigures::Frequent { items_seen, active_items, count_error } => append_fmt(
            out,
            format_args!(
                ",\"Items Seen\":{items_seen},\"Active Items\":{active_items},\"Maximum Count Error\":{count_error}"
            ),
        ),
    }
    out.push(b'}');
}

fn write_distinct(figures: &DistinctFigures, out: &mut Vec<u8>) {
    write_double("Theta", figures.theta, out);
    out.extend_from_slice(b",\"Standard Deviations\":{");
    for (at, (least, greatest)) in figures.bounds.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        append_fmt(out, format_args!("\"{}\":{{\"upperBound\":", at + 1));
        write_json(&Value::Double(*greatest), out);
        out.extend_from_slice(b",\"lowerBound\":");
        write_json(&Value::Double(*least), out);
        out.push(b'}');
    }
    out.push(b'}');
}

fn write_double(name: &str, value: f64, out: &mut Vec<u8>) {
    append_fmt(out, format_args!(",\"{name}\":"));
    write_json(&Value::Double(value), out);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value as Json, json};
    use swiftwater_event::StreamName;
    use swiftwater_lang::{QueryError, QueryErrors};
    use swiftwater_runtime::{Counts, Finished, QueryCost, QueryMeta, Records, StreamMeta};

    use super::*;

    fn emit() -> Emit {
        let query = QueryMeta {
            id: "01J00000000000000000000000".parse().unwrap(),
            text: "select \"a\" from stream()".into(),
            printed: "SELECT \"a\" FROM STREAM()".into(),
            received: 1000,
            sample: None,
            columns: None,
        };
        Emit {
            records: Records { text: "{\"a\":\"NaN\"}\n{\"a\":2.0}\n".into(), count: 2 },
            meta: EmitMeta {
                query: Arc::new(query),
                number: 1,
                finished: Some(Finished {
                    at: 3000,
                    reason: EndReason::EndOfInput,
                    cost: QueryCost::default(),
                }),
                window: None,
                stream: StreamMeta {
                    name: StreamName::new("s").unwrap(),
                    position: 2,
                    lag_ms: 0,
                    sample: None,
                    lost: 0,
                },
                cluster: None,
                counts: Counts::default(),
                sketches: Vec::new(),
                inner_sketches: None,
                failure: None,
                warnings: vec![],
            },
        }
    }

    fn written(emit: &Emit) -> Json {
        let mut out = Vec::new();
        write_bullet_line(emit, &mut out);
        serde_json::from_slice(&out).unwrap()
    }

    fn distinct() -> DistinctFigures {
        DistinctFigures { bytes: 48, theta: 1.0, estimate: 4.0, bounds: [(4.0, 4.0), (3.0, 5.0), (2.0, 6.0)] }
    }

    fn sketch(figures: SketchFigures) -> SketchMeta {
        SketchMeta { aggregate: "x".into(), is_estimated: false, figures }
    }

    #[test]
    fn final_emit_has_the_keys_that_bullet_gives_it() {
        let expected = json!({
            "kind": "final",
            "records": [{"a": "NaN"}, {"a": 2.0}],
            "meta": {
                "Query": {"ID": "01J00000000000000000000000", "Query String": "SELECT \"a\" FROM STREAM()",
                          "Receive Time": 1000, "Finish Time": 3000},
                "Window": {"Name": "Windowless", "Number": 1, "Emit Time": 3000},
            },
        });
        assert_eq!(written(&emit()), expected);
    }

    #[test]
    fn windows_are_named_as_bullet_names_them() {
        let check = |kind, expected: Json| {
            let mut emit = emit();
            emit.meta.finished = None;
            emit.meta.window =
                Some(WindowMeta { kind, number: 3, records: 5, start: 0, end: 2000, emitted: 2001 });
            let value = written(&emit);
            assert_eq!(value["meta"]["Window"], expected);
            assert_eq!(value["kind"], "window");
            assert!(value["meta"]["Query"].get("Finish Time").is_none());
        };
        let by_time = json!({"Name": "Tumbling", "Number": 3, "Emit Time": 2001, "Expected Emit Time": 2000});
        check("tumbling", by_time.clone());
        check("additive", by_time);
        check("record", json!({"Name": "Sliding", "Number": 3, "Emit Time": 2001, "Size": 5}));
    }

    #[test]
    fn sketches_tell_what_bullet_tells_of_them() {
        let check = |figures, expected: Json| {
            let mut emit = emit();
            emit.meta.sketches = vec![sketch(figures)];
            assert_eq!(written(&emit)["meta"]["Sketch"], expected);
        };
        let deviations = json!({"1": {"upperBound": 4.0, "lowerBound": 4.0},
            "2": {"upperBound": 5.0, "lowerBound": 3.0}, "3": {"upperBound": 6.0, "lowerBound": 2.0}});
        check(
            SketchFigures::Distinct(distinct()),
            json!({"Family": "ALPHA", "Was Estimated": false, "Size": 48, "Theta": 1.0,
                   "Standard Deviations": deviations}),
        );
        check(
            SketchFigures::Groups(distinct()),
            json!({"Family": "TUPLE", "Was Estimated": false, "Uniques Estimate": 4.0, "Theta": 1.0,
                   "Standard Deviations": deviations}),
        );
        check(
            SketchFigures::Quantiles {
                bytes: 96,
                items_seen: 6,
                least: None,
                greatest: Some(120.0),
                rank_error: 0.25,
            },
            json!({"Family": "QUANTILES", "Was Estimated": false, "Size": 96, "Items Seen": 6,
                   "Minimum Value": "Infinity", "Maximum Value": 120.0, "Normalized Rank Error": 0.25}),
        );
        check(
            SketchFigures::Frequent { items_seen: 7, active_items: 2, count_error: 0 },
            json!({"Family": "FREQUENCY", "Was Estimated": false, "Items Seen": 7, "Active Items": 2,
                   "Maximum Count Error": 0}),
        );
    }

    #[test]
    fn outer_query_is_windowless_and_the_inner_ones_meta_stands_below() {
        let mut emit = emit();
        emit.meta.window =
            Some(WindowMeta { kind: "tumbling", number: 2, records: 0, start: 0, end: 2000, emitted: 2001 });
        emit.meta.inner_sketches = Some(vec![sketch(SketchFigures::Groups(distinct()))]);
        let meta = &written(&emit)["meta"];
        assert_eq!(meta["Window"], json!({"Name": "Windowless", "Number": 2, "Emit Time": 2001}));
        assert_eq!(meta["Inner Query"]["Window"]["Name"], "Tumbling");
        assert_eq!(meta["Inner Query"]["Sketch"]["Family"], "TUPLE");
        assert!(meta.get("Sketch").is_none());
    }

    #[test]
    fn query_that_failed_says_why() {
        let mut emit = emit();
        emit.records = Records::default();
        emit.meta.finished = Some(Finished {
            at: 1,
            reason: EndReason::RateLimited("too often".to_owned()),
            cost: QueryCost::default(),
        });
        let value = written(&emit);
        assert_eq!(value["kind"], "rate_limited");
        assert_eq!(value["records"], json!([]));
        assert_eq!(value["meta"]["errors"][0]["error"], "too often");
        emit.meta.failure = Some("no order".into());
        let value = written(&emit);
        let alone = json!({"errors": [{"error": "no order", "resolutions": ["Please try again later."]}]});
        assert_eq!(value["meta"], alone, "neither query nor window are told");
        emit.meta.failure = None;
        emit.meta.finished = Some(Finished {
            at: 1,
            reason: EndReason::Failed("too large".to_owned()),
            cost: QueryCost::default(),
        });
        let value = written(&emit);
        assert_eq!(value["kind"], "final");
        assert_eq!(value["meta"]["errors"][0]["error"], "too large");
    }

    #[test]
    fn refused_query_is_answered_with_places() {
        let fault = |line, hint: Option<&str>| QueryError {
            line,
            column: line,
            message: "no".to_owned(),
            hint: hint.map(str::to_owned),
            excerpt: "\n^".to_owned(),
        };
        let errors = QueryErrors(vec![fault(Some(2), Some("Say yes.")), fault(None, None)]);
        let mut out = Vec::new();
        write_bullet_errors(&BulletError::of(&RuntimeError::Query(errors)), &mut out);
        let expected = json!({"records": [], "meta": {"errors": [
            {"error": "2:2: no", "resolutions": ["Say yes."]},
            {"error": "no", "resolutions": null},
        ]}});
        assert_eq!(serde_json::from_slice::<Json>(&out).unwrap(), expected);
    }
}
