//! Reads recorded queries with Bullet's own answers, and compares an answer with one of them.
//!
//! The recordings are beside the project, not in it: tests that read them must also work without them, and report this.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value as Json};

/// One recorded query.
#[derive(Debug, Clone)]
pub struct RecordedCase {
    /// All of it, as it was recorded.
    pub json: Json,
}

/// A row of an answer.
pub type RecordedRow = Map<String, Json>;

/// An emit: its kind (`window`, `final`, `rate_limited`), its rows and its meta.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedEmit {
    /// Its kind.
    pub kind: String,
    /// Its rows.
    pub records: Vec<RecordedRow>,
    /// Their metadata.
    pub meta: Json,
}

/// All recordings; `None` where there are none.
pub fn recorded_cases() -> Option<Vec<RecordedCase>> {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/reference/bullet-cases.jsonl");
    let text = std::fs::read_to_string(file).ok()?;
    let case = |line: &str| RecordedCase { json: serde_json::from_str(line).expect("a recording is JSON") };
    Some(text.lines().map(case).collect())
}

impl RecordedEmit {
    /// Reads an emit from a line of JSON, as the command line prints it.
    pub fn parse(line: &str) -> Result<RecordedEmit, String> {
        let json: Json = serde_json::from_str(line).map_err(|error| format!("{error} in {line}"))?;
        RecordedEmit::of(&json).ok_or_else(|| format!("not an emit: {line}"))
    }

    fn of(json: &Json) -> Option<RecordedEmit> {
        let records = json["records"].as_array()?.iter().map(|row| row.as_object().cloned());
        Some(RecordedEmit {
            kind: json["kind"].as_str()?.to_owned(),
            records: records.collect::<Option<_>>()?,
            meta: json["meta"].clone(),
        })
    }
}

impl RecordedCase {
    /// Its name.
    pub fn name(&self) -> &str {
        self.json["name"].as_str().unwrap_or_default()
    }

    /// The query.
    pub fn bql(&self) -> &str {
        self.json["bql"].as_str().unwrap_or_default()
    }

    /// True if Bullet refused it.
    pub fn is_rejected(&self) -> bool {
        self.json["expected"]["status"] == "rejected"
    }

    /// Settings that were not Bullet's defaults.
    pub fn config(&self) -> Option<&Map<String, Json>> {
        self.json["config"].as_object().filter(|config| !config.is_empty())
    }

    /// The steps, if time played a part.
    pub fn steps(&self) -> Option<&Vec<Json>> {
        self.json["steps"].as_array()
    }

    /// The records, where time played none.
    pub fn records(&self) -> &[Json] {
        self.json["records"].as_array().map_or(&[], Vec::as_slice)
    }

    /// Workers that the records were dealt to.
    pub fn workers(&self) -> u64 {
        self.json["partitions"].as_u64().unwrap_or(1)
    }

    /// Field to type, as JSON: what the records hold.
    pub fn types(&self) -> Option<&Json> {
        Some(&self.json["types"]).filter(|types| types.is_object())
    }

    /// Field to type, as JSON: what the query was checked against.
    pub fn schema(&self) -> Option<&Json> {
        Some(&self.json["schema"]).filter(|schema| schema.is_object())
    }

    /// A note about it: the parts not to compare.
    pub fn note(&self) -> &str {
        self.json["note"].as_str().unwrap_or_default()
    }

    /// The emits that Bullet gave.
    pub fn emits(&self) -> Vec<RecordedEmit> {
        let emits = self.json["expected"]["emits"].as_array();
        emits.into_iter().flatten().filter_map(RecordedEmit::of).collect()
    }

    /// Places (`line:column`) of the faults that Bullet named, each once, and whether it named one without a place.
    pub fn error_places(&self) -> (BTreeSet<String>, bool) {
        places(&self.json["expected"]["errors"])
    }

    /// The way an answer differs from Bullet's in kind, number, order or values of its rows.
    pub fn difference(&self, got: &[RecordedEmit]) -> Option<String> {
        let wanted = self.emits();
        let kinds = |emits: &[RecordedEmit]| {
            emits.iter().map(|emit| format!("{} of {}", emit.kind, emit.records.len())).collect::<Vec<_>>()
        };
        if kinds(got) != kinds(&wanted) {
            let show = |emits: &[RecordedEmit]| format!("{:?} {}", kinds(emits), show_all(emits));
            return Some(format!("got    {}\n    wanted {}", show(got), show(&wanted)));
        }
        let is_equal =
            got.iter().zip(&wanted).all(|(got, wanted)| self.is_equal(&got.records, &wanted.records));
        (!is_equal).then(|| format!("got    {}\n    wanted {}", show_all(got), show_all(&wanted)))
    }

    /// The difference of the metadata of an answer from Bullet's: in its keys, or in values that are not times,
    /// identities or a sketch's own.
    pub fn meta_difference(&self, got: &[RecordedEmit]) -> Option<String> {
        let wanted = self.emits();
        let differs =
            |(got, wanted): &(&RecordedEmit, &RecordedEmit)| !is_meta_alike(&got.meta, &wanted.meta);
        let (got, wanted) = got.iter().zip(&wanted).find(differs)?;
        Some(format!("got    {}\n    wanted {}", got.meta, wanted.meta))
    }

    fn is_equal(&self, got: &[RecordedRow], wanted: &[RecordedRow]) -> bool {
        if self.note().contains("sample of groups") {
            // The groups in the sample are random, and each is complete.
            return got.iter().all(|row| row.get("COUNT(*)") == Some(&Json::from(1)));
        }
        let in_order =
            || got.iter().zip(wanted).all(|(got, wanted)| self.is_equal_row(got, wanted, &|_| true));
        let keys = match self.json["expected"]["row_order"].as_str() {
            None | Some("exact") => return in_order(),
            Some("any") => return self.is_same_bag(&all(got), &all(wanted), got.len()),
            Some("by_count_ties_any") => self.count_column(wanted).into_iter().collect(),
            Some(_) => self.order_columns(wanted),
        };
        let is_sorted_alike = got
            .iter()
            .zip(wanted)
            .all(|(got, wanted)| self.is_equal_row(got, wanted, &|name| keys.iter().any(|key| key == name)));
        // Rows that are equal to the last by their keys may be others where something cut among them.
        let Some(last) = wanted.last().filter(|_| !keys.is_empty()) else {
            return self.is_same_bag(&all(got), &all(wanted), got.len());
        };
        let is_tied = |row: &RecordedRow| keys.iter().all(|key| row.get(key) == last.get(key));
        let above = |rows: &'_ [RecordedRow]| rows.iter().filter(|row| !is_tied(row)).count();
        let head = above(wanted);
        is_sorted_alike
            && (self.is_same_bag(&all(got), &all(wanted), got.len())
                || (self.cuts_among_equals()
                    && above(got) == head
                    && self.is_same_bag(&all(&got[..head]), &all(&wanted[..head]), head)))
    }

    /// True if which of equal rows stay is chance: a LIMIT over groups, or TOP.
    fn cuts_among_equals(&self) -> bool {
        let bql = self.bql().to_ascii_uppercase();
        bql.contains("TOP(") || (bql.contains("LIMIT") && self.json["expected"]["aggregation"] != "RAW")
    }

    fn is_same_bag(&self, got: &[&RecordedRow], wanted: &[&RecordedRow], count: usize) -> bool {
        let mut left: Vec<&RecordedRow> = wanted.to_vec();
        got.len() == count
            && got.iter().all(|got| {
                let place = left.iter().position(|wanted| self.is_equal_row(got, wanted, &|_| true));
                place.map(|place| left.swap_remove(place)).is_some()
            })
    }

    fn is_equal_row(&self, got: &RecordedRow, wanted: &RecordedRow, counts: &dyn Fn(&str) -> bool) -> bool {
        let chosen = |row: &RecordedRow| row.keys().filter(|key| counts(key)).count();
        chosen(got) == chosen(wanted)
            && wanted.iter().filter(|(key, _)| counts(key)).all(|(key, wanted)| {
                let is_float = self.types_of(key).iter().any(|ty| ty.contains("FLOAT"));
                let tolerance = if self.note().contains("order of addition") {
                    1e-6
                } else if is_float {
                    f64::from(f32::EPSILON)
                } else {
                    1e-12
                };
                got.get(key).is_some_and(|got| is_equal(got, wanted, tolerance))
            })
    }

    fn types_of(&self, column: &str) -> Vec<&str> {
        let types = self.json["expected"]["column_types"][column].as_array();
        types.into_iter().flatten().filter_map(Json::as_str).collect()
    }

    /// The column that TOP counts in.
    fn count_column(&self, rows: &[RecordedRow]) -> Option<String> {
        let row = rows.first()?;
        let is_count = |name: &&String| self.types_of(name) == ["LONG"] && row[*name].is_u64();
        let named = row.keys().find(|name| *name == "Count" || *name == "COUNT(*)");
        named.or_else(|| row.keys().find(is_count)).cloned()
    }

    /// The columns that the answer is ordered by, those of them that it shows.
    fn order_columns(&self, rows: &[RecordedRow]) -> Vec<String> {
        let text = self.json["expected"]["formatted_bql"].as_str().unwrap_or_default();
        let Some((_, order)) = text.rsplit_once(" ORDER BY ") else { return Vec::new() };
        let order = order.split(" WINDOWING ").next().unwrap_or_default();
        let order = order.split(" LIMIT ").next().unwrap_or_default();
        let key = |part: &str| {
            let part = part.trim().trim_end_matches(" ASC").trim_end_matches(" DESC").trim_matches('"');
            part.to_owned()
        };
        let names: BTreeSet<&String> = rows.iter().flat_map(Map::keys).collect();
        order.split(", ").map(key).filter(|key| names.contains(key)).collect()
    }
}

fn is_meta_alike(got: &Json, wanted: &Json) -> bool {
    let (Json::Object(got), Json::Object(wanted)) = (got, wanted) else { return got == wanted };
    let is_own = |key: &str| {
        let own = ["ID", "Size", "Standard Deviations", "Normalized Rank Error", "Uniques Estimate", "Theta"];
        key.ends_with(" Time") || own.contains(&key)
    };
    got.len() == wanted.len()
        && wanted.iter().all(|(key, wanted)| {
            let is_masked = is_own(key) || wanted.as_str().is_some_and(|text| text.contains("<now>"));
            got.get(key).is_some_and(|got| is_masked || is_meta_alike(got, wanted))
        })
}

/// Places of faults in a list of errors, each once, and whether one has none.
pub fn places(errors: &Json) -> (BTreeSet<String>, bool) {
    let mut found = BTreeSet::new();
    let mut has_placeless = false;
    for error in errors.as_array().into_iter().flatten() {
        match place(error["error"].as_str().unwrap_or_default()) {
            Some(place) => {
                found.insert(place);
            }
            None => has_placeless = true,
        }
    }
    (found, has_placeless)
}

fn place(text: &str) -> Option<String> {
    let mut parts = text.splitn(3, ':');
    let (line, column) = (parts.next()?, parts.next()?);
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (parts.next().is_some() && is_number(line) && is_number(column)).then(|| format!("{line}:{column}"))
}

fn all(rows: &[RecordedRow]) -> Vec<&RecordedRow> {
    rows.iter().collect()
}

fn show_all(emits: &[RecordedEmit]) -> String {
    let rows: Vec<&Vec<RecordedRow>> = emits.iter().map(|emit| &emit.records).collect();
    let sorted: Vec<Vec<BTreeMap<&String, &Json>>> =
        rows.iter().map(|rows| rows.iter().map(|row| row.iter().collect()).collect()).collect();
    serde_json::to_string(&sorted).unwrap_or_default()
}

/// Numbers are equal but for a share of them: the last bits, for Bullet adds up in the order of arrival.
fn is_equal(got: &Json, wanted: &Json, tolerance: f64) -> bool {
    match (got, wanted) {
        (Json::Number(got), Json::Number(wanted)) => {
            let (Some(a), Some(b)) = (got.as_f64(), wanted.as_f64()) else { return false };
            let is_near = a == b || (a - b).abs() <= tolerance * b.abs();
            // 5 and 5.0 are two types.
            let is_alike = got.is_f64() == wanted.is_f64();
            is_alike && is_near
        }
        (Json::Array(got), Json::Array(wanted)) => {
            got.len() == wanted.len()
                && got.iter().zip(wanted).all(|(got, wanted)| is_equal(got, wanted, tolerance))
        }
        (Json::Object(got), Json::Object(wanted)) => {
            got.len() == wanted.len()
                && got
                    .iter()
                    .all(|(key, got)| wanted.get(key).is_some_and(|wanted| is_equal(got, wanted, tolerance)))
        }
        (got, wanted) => got == wanted,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn case(order: &str, bql: &str, rows: Json) -> RecordedCase {
        let emits = json!([{"kind": "final", "records": rows, "meta": {}}]);
        let expected = json!({"status": "ok", "row_order": order, "emits": emits, "formatted_bql": bql,
            "column_types": {"f": ["FLOAT"], "n": ["LONG"]}});
        RecordedCase { json: json!({"bql": bql, "expected": expected}) }
    }

    fn is_right(case: &RecordedCase, rows: Json) -> bool {
        let line = json!({"kind": "final", "records": rows, "meta": {}}).to_string();
        case.difference(&[RecordedEmit::parse(&line).unwrap()]).is_none()
    }

    #[test]
    fn order_counts_where_it_is_told() {
        let rows = json!([{"a": 1}, {"a": 2}]);
        let turned = json!([{"a": 2}, {"a": 1}]);
        assert!(!is_right(&case("exact", "", rows.clone()), turned.clone()));
        assert!(is_right(&case("any", "", rows.clone()), turned));
        assert!(!is_right(&case("any", "", rows.clone()), json!([{"a": 2}, {"a": 2}])));
        assert!(!is_right(&case("any", "", rows), json!([{"a": 2}])));
    }

    #[test]
    fn ties_may_stand_in_any_order() {
        let bql = "SELECT k, n FROM STREAM() ORDER BY n DESC";
        let case =
            case("sorted_ties_any", bql, json!([{"k": "a", "n": 3}, {"k": "b", "n": 3}, {"k": "c", "n": 1}]));
        assert!(is_right(&case, json!([{"k": "b", "n": 3}, {"k": "a", "n": 3}, {"k": "c", "n": 1}])));
        assert!(!is_right(&case, json!([{"k": "c", "n": 1}, {"k": "a", "n": 3}, {"k": "b", "n": 3}])));
        assert!(!is_right(&case, json!([{"k": "b", "n": 3}, {"k": "a", "n": 3}, {"k": "d", "n": 1}])));
    }

    #[test]
    fn which_of_equals_stay_is_chance() {
        let rows = json!([{"k": "a", "n": 3}, {"k": "b", "n": 1}]);
        let case = case("by_count_ties_any", "SELECT TOP(2, k) FROM STREAM()", rows);
        assert!(is_right(&case, json!([{"k": "a", "n": 3}, {"k": "z", "n": 1}])));
        assert!(!is_right(&case, json!([{"k": "z", "n": 3}, {"k": "b", "n": 1}])));
    }

    #[test]
    fn floats_are_compared_as_such_and_types_of_numbers_are_told_apart() {
        let case = case("exact", "", json!([{"f": 0.1, "d": 0.1, "n": 5}]));
        assert!(is_right(&case, json!([{"f": 0.10000000149, "d": 0.1, "n": 5}])));
        assert!(!is_right(&case, json!([{"f": 0.1, "d": 0.10000000149, "n": 5}])));
        assert!(!is_right(&case, json!([{"f": 0.1, "d": 0.1, "n": 5.0}])));
    }

    #[test]
    fn places_are_read_from_messages() {
        let errors =
            json!([{"error": "1:8: no"}, {"error": "For input string: \"9\""}, {"error": "1:8: nor this"}]);
        assert_eq!(places(&errors), (BTreeSet::from(["1:8".to_owned()]), true));
    }
}
