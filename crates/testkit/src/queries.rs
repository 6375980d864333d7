//! Generates random queries, as texts of the native dialect, over the fields of [`MixedEvents`](crate::MixedEvents).
//!
//! They use only features that the oracle knows, and nearly all of them parse. Many conditions are of the kinds that an
//! index of queries supports: a field compared with a constant.

mod wide;

use crate::{
    Rng,
    mixed::{SCALAR_FIELDS, STRINGS},
};

pub use wide::LanguageFeatures;

/// Paths into the events, as they are written in a query; each may hold a value of any kind.
const PATHS: [&str; 16] = [
    "a", "b", "c", "n", "n", "s", "s", "\"x y\"", "m.k", "m['k 2']", "l[0]", "l[1]", "l[7]", "o.p.q",
    "v[0].k", "m.é",
];
const CONTAINERS: [&str; 5] = ["m", "l", "o", "v", "a"];
const NUMBERS: [&str; 16] = [
    "0",
    "1",
    "2",
    "3",
    "-1",
    "10",
    "100",
    "1.0",
    "2.0",
    "0.1",
    "-1.5",
    "2147483648",
    "9007199254740993",
    "9007199254740992.0",
    "5L",
    "1e2",
];
const PATTERNS: [&str; 8] = ["a.*", ".*b", "[a-c]", ".*", "1.*", "(a|b)c?", "é|ß", "x"];
const LIKE_PATTERNS: [&str; 6] = ["a%", "%b", "_", "%", "%1%", "1_0"];
const COMPARISONS: [&str; 6] = ["=", "!=", "<", "<=", ">", ">="];

/// The kind of a query's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// A record per event.
    Raw,
    /// GROUP BY.
    Group,
    /// Aggregates over everything.
    All,
    /// SELECT DISTINCT.
    Distinct,
}

/// A stream of query texts.
///
/// ```
/// use swiftwater_testkit::{QueryTexts, Shape};
///
/// let query = QueryTexts::new(5).of(Shape::Distinct);
/// assert!(query.starts_with("SELECT DISTINCT "));
/// assert_eq!(query, QueryTexts::new(5).of(Shape::Distinct));
/// ```
#[derive(Debug, Clone)]
pub struct QueryTexts {
    rng: Rng,
    /// The names that there are, where these are not the events' fields.
    fields: Option<Vec<String>>,
    /// Columns of lateral views.
    view_columns: Vec<String>,
    /// Prefixes of the names of keys and of other columns.
    letters: (&'static str, &'static str),
}

impl QueryTexts {
    /// The same seed gives the same texts.
    pub fn new(seed: u64) -> QueryTexts {
        QueryTexts { rng: Rng::new(seed), fields: None, view_columns: Vec::new(), letters: ("k", "c") }
    }

    /// The next query, of any shape.
    pub fn query(&mut self) -> String {
        let shape =
            self.rng.pick(&[Shape::Raw, Shape::Raw, Shape::Group, Shape::Group, Shape::All, Shape::Distinct]);
        self.of(shape)
    }

    /// The next query of a shape.
    pub fn of(&mut self, shape: Shape) -> String {
        match shape {
            Shape::Raw => self.raw(),
            Shape::Group => self.group(),
            Shape::All => {
                let columns = self.aggregates();
                format!("SELECT {} FROM STREAM(){}", named(&columns, "c"), self.filter())
            }
            Shape::Distinct => {
                let columns = self.several(2, QueryTexts::value_at_depth_one);
                let filter = self.filter();
                let end = self.order_and_limit(&aliases(columns.len(), "c"));
                format!("SELECT DISTINCT {} FROM STREAM(){filter}{end}", named(&columns, "c"))
            }
        }
    }

    /// A condition, as it stands behind WHERE.
    pub fn condition(&mut self) -> String {
        self.condition_at(2)
    }

    fn raw(&mut self) -> String {
        let mut columns = self.several(3, |queries| queries.value(2));
        let select = match self.rng.below(4) {
            0 => {
                columns.clear();
                "*".to_owned()
            }
            1 => format!("*, {}", named(&columns, "c")),
            _ => named(&columns, "c"),
        };
        let filter = self.filter();
        let mut keys = aliases(columns.len(), "c");
        keys.extend(SCALAR_FIELDS[..4].iter().map(|field| (*field).to_owned()));
        format!("SELECT {select} FROM STREAM(){filter}{}", self.order_and_limit(&keys))
    }

    fn group(&mut self) -> String {
        let keys = self.several(2, QueryTexts::value_at_depth_one);
        let aggregates = self.aggregates();
        let filter = self.filter();
        let mut names = aliases(keys.len(), "k");
        names.extend(aliases(aggregates.len(), "c"));
        let having = match self.rng.below(4) {
            0 => format!(" HAVING COUNT(*) > {}", 1 + self.rng.below(3)),
            1 => format!(
                " HAVING {} {} {}",
                self.rng.pick(&names),
                self.rng.pick(&COMPARISONS),
                self.literal()
            ),
            _ => String::new(),
        };
        let end = self.order_and_limit(&names);
        let columns = [named(&keys, "k"), named(&aggregates, "c")].join(", ");
        let (told, by) = self.grouped(&keys);
        format!("SELECT {columns}{told} FROM STREAM(){filter} GROUP BY {by}{having}{end}")
    }

    /// The part after GROUP BY: the keys, or sets of them; and the columns that distinguish the sets.
    fn grouped(&mut self, keys: &[String]) -> (String, String) {
        let all = keys.join(", ");
        let by = match self.rng.below(10) {
            0 => format!("ROLLUP ({all})"),
            1 => format!("CUBE ({all})"),
            2 => format!("GROUPING SETS (({all}), (), {})", keys[0]),
            3 => format!("{}, ROLLUP ({all})", keys[keys.len() - 1]),
            _ => return (String::new(), all),
        };
        (format!(", GROUPING({all}) AS g"), by)
    }

    fn aggregates(&mut self) -> Vec<String> {
        self.several(3, |queries| match queries.rng.below(12) {
            0 | 1 => "COUNT(*)".to_owned(),
            2 => format!("COUNT({})", queries.value(1)),
            3 => format!("SUM({}) / COUNT(*)", queries.number(1)),
            4 => format!("COALESCE(MAX({}), 0)", queries.number(1)),
            5 => {
                let function = queries.rng.pick(&["ARG_MIN", "ARG_MAX"]);
                format!("{function}({}, {})", queries.value(1), queries.value(1))
            }
            6 => {
                let function = queries.rng.pick(&["COLLECT_LIST", "COLLECT_SET"]);
                format!("{function}({}, {})", queries.value(1), 1 + queries.rng.below(4))
            }
            7 => {
                let function = queries.rng.pick(&["FIRST", "LAST", "COLLECT_SET"]);
                format!("{function}({})", queries.value(1))
            }
            _ => {
                let function = queries.rng.pick(&["SUM", "SUM", "AVG", "MIN", "MAX"]);
                format!("{function}({})", queries.value(1))
            }
        })
    }

    fn filter(&mut self) -> String {
        if self.rng.chance(0.25) { String::new() } else { format!(" WHERE {}", self.condition()) }
    }

    fn order_and_limit(&mut self, keys: &[String]) -> String {
        let order = self.order(keys);
        format!("{order}{}", self.limit())
    }

    fn order(&mut self, keys: &[String]) -> String {
        if !self.rng.chance(0.4) || keys.is_empty() {
            return String::new();
        }
        let order = self.several(2, |queries| {
            let direction = queries.rng.pick(&["", " ASC", " DESC"]);
            format!("{}{direction}", queries.rng.pick(keys))
        });
        format!(" ORDER BY {}", order.join(", "))
    }

    fn limit(&mut self) -> String {
        if self.rng.chance(0.3) { format!(" LIMIT {}", 1 + self.rng.below(20)) } else { String::new() }
    }

    /// One to `most` of them.
    fn several(&mut self, most: usize, mut one: impl FnMut(&mut QueryTexts) -> String) -> Vec<String> {
        (0..1 + self.rng.below(most)).map(|_| one(self)).collect()
    }

    fn path(&mut self) -> String {
        if !self.view_columns.is_empty() && self.rng.chance(0.4) {
            return self.rng.pick(&self.view_columns);
        }
        if let Some(fields) = &self.fields {
            return self.rng.pick(fields);
        }
        let path = self.rng.pick(&PATHS);
        if !self.rng.chance(0.08) {
            return path.to_owned();
        }
        // A hint gives the type of the whole field.
        let ty = self.rng.pick(&["LONG", "DOUBLE", "STRING", "BOOLEAN", "INTEGER"]);
        match path.split_once(['.', '[']) {
            None => format!("({path} : {ty})"),
            Some(("m", _)) => format!("({path} : MAP[{ty}])"),
            Some(("l", _)) => format!("({path} : LIST[{ty}])"),
            Some(("v", _)) => format!("({path} : LIST[MAP[{ty}]])"),
            Some(_) => format!("({path} : MAP[MAP[{ty}]])"),
        }
    }

    fn literal(&mut self) -> String {
        match self.rng.below(20) {
            0 => self.rng.pick(&["TRUE", "FALSE"]).to_owned(),
            1..10 => self.rng.pick(&NUMBERS).to_owned(),
            _ => self.string(),
        }
    }

    fn string(&mut self) -> String {
        format!("'{}'", self.rng.pick(&STRINGS).replace('\'', "''"))
    }

    fn value_at_depth_one(&mut self) -> String {
        // A constant would be taken for a column's position.
        if self.rng.chance(0.7) { self.path() } else { self.call(1) }
    }

    fn value(&mut self, depth: usize) -> String {
        match self.rng.below(10) {
            0 => self.literal(),
            1..5 => self.path(),
            _ if depth == 0 => self.path(),
            _ => self.call(depth),
        }
    }

    /// A function or operator that makes a value.
    fn call(&mut self, depth: usize) -> String {
        let below = depth.saturating_sub(1);
        match self.rng.below(8) {
            0 | 1 => self.arithmetic(depth),
            2 => self.text_call(below),
            3 => format!("IF({}, {}, {})", self.condition_at(below), self.value(below), self.value(below)),
            4 => format!(
                "CASE WHEN {} THEN {} ELSE {} END",
                self.condition_at(below),
                self.value(below),
                self.path()
            ),
            5 => format!("COALESCE({}, {})", self.path(), self.value(below)),
            6 if self.rng.chance(0.3) => format!("HASH({})", self.value(below)),
            6 => format!("SIZEOF({})", self.container()),
            _ => {
                let ty = self.rng.pick(&["LONG", "DOUBLE", "STRING", "BOOLEAN", "INTEGER"]);
                format!("CAST({} AS {ty})", self.path())
            }
        }
    }

    fn number(&mut self, depth: usize) -> String {
        match self.rng.below(3) {
            0 if depth > 0 => self.arithmetic(depth),
            1 => self.one_of(&["n", "a", "l[0]", "m.k"]),
            _ => self.path(),
        }
    }

    fn arithmetic(&mut self, depth: usize) -> String {
        let below = depth.saturating_sub(1);
        match self.rng.below(8) {
            0 => format!("ABS({})", self.number(below)),
            1 => format!("(-{})", self.number(below)),
            2 => format!("({} {} {})", self.number(below), self.operator(), self.rng.pick(&NUMBERS)),
            _ => format!("({} {} {})", self.number(below), self.operator(), self.number(below)),
        }
    }

    fn operator(&mut self) -> &'static str {
        self.rng.pick(&["+", "+", "-", "*", "/", "%"])
    }

    fn text_call(&mut self, depth: usize) -> String {
        match self.rng.below(6) {
            0 => format!("LOWER({})", self.value(depth)),
            1 => format!("UPPER({})", self.value(depth)),
            2 => format!("TRIM({})", self.path()),
            3 => format!("SUBSTRING({}, {})", self.path(), self.rng.below(6) as i64 - 2),
            4 => {
                format!("SUBSTRING({}, {}, {})", self.path(), self.rng.below(6) as i64 - 2, self.rng.below(4))
            }
            _ => format!("({} || {})", self.value(depth), self.path()),
        }
    }

    fn condition_at(&mut self, depth: usize) -> String {
        if depth > 0 && self.rng.chance(0.4) {
            let below = depth - 1;
            let (left, right) = (self.condition_at(below), self.condition_at(below));
            return match self.rng.below(7) {
                0..3 => format!("({left} AND {right})"),
                3 | 4 => format!("({left} OR {right})"),
                5 => format!("({left} XOR {right})"),
                _ => format!("(NOT {left})"),
            };
        }
        match self.rng.below(16) {
            0..5 => format!("{} {} {}", self.path(), self.comparison(), self.literal()),
            5 => format!("{} {} {}", self.literal(), self.comparison(), self.path()),
            6 => format!("{} {} {}", self.value(1), self.comparison(), self.value(1)),
            7 => {
                let list = self.several(4, QueryTexts::literal).join(", ");
                format!("{} {} ({list})", self.path(), self.rng.pick(&["IN", "IN", "NOT IN"]))
            }
            8 => {
                let (low, high) = if self.rng.chance(0.5) { ("1", "100") } else { ("'a'", "'c'") };
                let not = self.rng.pick(&["", "", "NOT "]);
                match self.rng.chance(0.5) {
                    true => format!("{} {not}BETWEEN ({low}, {high})", self.path()),
                    false => format!("({} {not}BETWEEN {low} AND {high})", self.path()),
                }
            }
            9 => format!("{} IS {}NULL", self.value(1), self.rng.pick(&["", "NOT "])),
            10 => format!(
                "{} {}RLIKE '{}'",
                self.path(),
                self.rng.pick(&["", "", "NOT "]),
                self.rng.pick(&PATTERNS)
            ),
            11 => format!(
                "{} {}LIKE '{}'",
                self.path(),
                self.rng.pick(&["", "", "NOT "]),
                self.rng.pick(&LIKE_PATTERNS)
            ),
            12 => {
                let list = self.several(3, QueryTexts::literal).join(", ");
                let list = if self.rng.chance(0.5) { format!("[{list}]") } else { self.one_of(&["l"]) };
                format!("{} {} {} {list}", self.path(), self.comparison(), self.rng.pick(&["ANY", "ALL"]))
            }
            13 => {
                format!("CONTAINSKEY({}, '{}')", self.container(), self.rng.pick(&["k", "q", "é"]))
            }
            14 => format!("CONTAINSVALUE({}, {})", self.container(), self.literal()),
            _ => match self.rng.below(3) {
                0 => format!("SIZEIS({}, {})", self.path(), self.rng.below(4)),
                1 => format!("{} IN {}", self.literal(), self.container()),
                _ => format!("{} RLIKE ANY ['a', '{}']", self.path(), self.rng.pick(&PATTERNS)),
            },
        }
    }

    fn container(&mut self) -> String {
        self.one_of(&CONTAINERS)
    }

    /// One of these fields, or of those that there are in their place.
    fn one_of(&mut self, fields: &[&str]) -> String {
        if self.fields.is_some() { self.path() } else { self.rng.pick(fields).to_owned() }
    }

    fn comparison(&mut self) -> &'static str {
        if self.rng.chance(0.5) { "=" } else { self.rng.pick(&COMPARISONS) }
    }
}

/// `x AS c0, y AS c1`.
fn named(columns: &[String], letter: &str) -> String {
    let named: Vec<String> =
        columns.iter().enumerate().map(|(at, column)| format!("{column} AS {letter}{at}")).collect();
    named.join(", ")
}

fn aliases(count: usize, letter: &str) -> Vec<String> {
    (0..count).map(|at| format!("{letter}{at}")).collect()
}

#[cfg(test)]
mod tests {
    use swiftwater_lang::{Dialect, ParseOptions, parse};

    use super::*;
    use crate::{MixedEvents, oracle};

    #[test]
    fn nearly_all_texts_parse_and_the_oracle_knows_them() {
        let events = oracle::read(&MixedEvents::new(1).events(60));
        let mut queries = QueryTexts::new(2);
        let (mut parsed, mut not_empty) = (0, 0);
        for _ in 0..1000 {
            let text = queries.query();
            let Ok(statement) = parse(&text, &ParseOptions::new(Dialect::Native, 0)) else { continue };
            parsed += 1;
            let answer =
                oracle::answer(&statement.query, &events).unwrap_or_else(|error| panic!("{error}: {text}"));
            not_empty += u32::from(!answer.is_empty());
            let records = answer.records();
            answer.check(&records).unwrap_or_else(|error| panic!("{error}: {text}"));
            answer.check_unordered(&records).unwrap_or_else(|error| panic!("{error}: {text}"));
            let mut wrong = records;
            if let Some(record) = wrong.last_mut() {
                record.insert("c0".to_owned(), "no such value".into());
                assert!(answer.check(&wrong).is_err(), "{text}");
            }
        }
        assert!(parsed > 980, "{parsed} of 1000 parse");
        assert!(not_empty > 600, "{not_empty} of {parsed} have an answer over 60 events");
    }

    #[test]
    fn texts_of_the_whole_language_parse_too() {
        let mut queries = QueryTexts::new(5);
        let mut refused = Vec::new();
        for _ in 0..1000 {
            let text = queries.wide(LanguageFeatures::ALL);
            if let Err(errors) = parse(&text, &ParseOptions::new(Dialect::Native, 0)) {
                refused.push(format!("{text}\n  {errors}"));
            }
        }
        assert!(refused.len() < 100, "{} of 1000 do not parse:\n{}", refused.len(), refused.join("\n"));
    }

    #[test]
    fn conditions_keep_some_events_and_not_others() {
        let events = oracle::read(&MixedEvents::new(3).events(100));
        let mut queries = QueryTexts::new(4);
        let mut selective = 0;
        for _ in 0..300 {
            let text = format!("SELECT * FROM STREAM() WHERE {}", queries.condition());
            let Ok(statement) = parse(&text, &ParseOptions::new(Dialect::Native, 0)) else { continue };
            let kept = oracle::matching(&statement.query, &events).unwrap().len();
            selective += u32::from(kept > 0 && kept < events.len());
        }
        assert!(selective > 130, "{selective} of 300");
    }
}
