//! Writes the error bounds of approximate answers, in a native emit's meta.
//!
//! ```json
//! {"error_bounds": {"COUNT(DISTINCT user)": {"estimated": true, "estimate": 20301.0, "lower": 19980.0, "upper": 20627.0,
//!                                            "confidence": 0.9545},
//!                   "QUANTILE(ms, LINEAR, 5)": {"estimated": true, "rank_error": 0.0026, "confidence": 0.99, "items": 90000,
//!                                               "min": 0.1, "max": 812.0},
//!                   "TOP(10, user)": {"estimated": true, "count_error": 12, "items": 90000, "active": 768}}}
//! ```
//!
//! For the sketches of several groups, the least exact is reported. `inner_error_bounds` is present if an outer query read
//! approximate results.

use serde_json::{Map, Value, json};
use swiftwater_runtime::{EmitMeta, SketchFigures, SketchMeta};

/// Two standard deviations of a normal distribution.
const CONFIDENCE_TWO_DEVIATIONS: f64 = 0.9545;
/// Confidence of the bounds on ranks of quantile sketches.
const CONFIDENCE_RANK: f64 = 0.99;

/// Adds the `sketch` object of an emit's meta.
pub(super) fn write_sketches(meta: &EmitMeta, out: &mut Vec<u8>) {
    if meta.sketches.is_empty() && meta.inner_sketches.is_none() {
        out.extend_from_slice(b"{\"error_bounds\":{}}");
        return;
    }
    let mut object = Map::new();
    object.insert("error_bounds".to_owned(), bounds(&meta.sketches));
    if let Some(inner) = &meta.inner_sketches {
        object.insert("inner_error_bounds".to_owned(), bounds(inner));
    }
    serde_json::to_writer(out, &object).expect("memory takes every text");
}

fn bounds(sketches: &[SketchMeta]) -> Value {
    let one = |sketch: &SketchMeta| (sketch.aggregate.to_string(), figures(sketch));
    Value::Object(sketches.iter().map(one).collect())
}

fn figures(sketch: &SketchMeta) -> Value {
    let estimated = sketch.is_estimated;
    match &sketch.figures {
        SketchFigures::Distinct(figures) | SketchFigures::Groups(figures) => {
            let (lower, upper) = figures.bounds[1];
            json!({"estimated": estimated, "estimate": figures.estimate, "lower": lower, "upper": upper,
                   "confidence": CONFIDENCE_TWO_DEVIATIONS})
        }
        // Numbers that JSON cannot write become null.
        SketchFigures::Quantiles { items_seen, least, greatest, rank_error, .. } => json!({
            "estimated": estimated, "rank_error": rank_error, "confidence": CONFIDENCE_RANK, "items": items_seen,
            "min": least, "max": greatest,
        }),
        SketchFigures::Frequent { items_seen, active_items, count_error } => json!({
            "estimated": estimated, "count_error": count_error, "items": items_seen, "active": active_items,
        }),
    }
}

#[cfg(test)]
mod tests {
    use swiftwater_runtime::DistinctFigures;

    use super::*;

    #[test]
    fn bounds_are_told_by_aggregate() {
        let distinct = DistinctFigures {
            bytes: 9,
            theta: 0.5,
            estimate: 4.0,
            bounds: [(3.5, 4.5), (3.0, 5.0), (2.0, 6.0)],
        };
        let sketches = [
            SketchMeta {
                aggregate: "COUNT(DISTINCT a)".into(),
                is_estimated: true,
                figures: SketchFigures::Distinct(distinct),
            },
            SketchMeta {
                aggregate: "TOP(1, a)".into(),
                is_estimated: false,
                figures: SketchFigures::Frequent { items_seen: 3, active_items: 2, count_error: 0 },
            },
        ];
        let expected = json!({
            "COUNT(DISTINCT a)": {"estimated": true, "estimate": 4.0, "lower": 3.0, "upper": 5.0, "confidence": 0.9545},
            "TOP(1, a)": {"estimated": false, "count_error": 0, "items": 3, "active": 2},
        });
        assert_eq!(bounds(&sketches), expected);
    }
}
