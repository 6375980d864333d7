//! Generates random queries over the whole language: lateral views, aggregates that return rows, sketches, outer queries,
//! windows.

use super::{COMPARISONS, CONTAINERS, QueryTexts, aliases, named};
use crate::mixed::SCALAR_FIELDS;

/// Features of the language that queries may use beside the plain kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LanguageFeatures {
    /// LATERAL VIEW, and EXPLODE in the select list.
    pub views: bool,
    /// COUNT(DISTINCT …), APPROX_PERCENTILE_CONT, QUANTILE, FREQ, CUMFREQ, TOP and FILTER.
    pub sketches: bool,
    /// Queries over queries.
    pub outer: bool,
    /// Windows by arrival and by record.
    pub windows: bool,
    /// Windows by the event time in the field `ts`.
    pub event_time: bool,
    /// SESSION.
    pub sessions: bool,
}

impl LanguageFeatures {
    /// All of it.
    pub const ALL: LanguageFeatures = LanguageFeatures {
        views: true,
        sketches: true,
        outer: true,
        windows: true,
        event_time: true,
        sessions: true,
    };
}

/// A query's text, and the names of its columns, where it says them.
struct Block {
    text: String,
    names: Option<Vec<String>>,
}

impl QueryTexts {
    /// The next query of the whole language.
    pub fn wide(&mut self, wide: LanguageFeatures) -> String {
        self.fields = None;
        let window = if self.rng.chance(0.6) { self.window(wide) } else { String::new() };
        let inner = self.block(wide, "STREAM()", &window);
        if !wide.outer || !self.rng.chance(0.25) {
            return inner.text;
        }
        self.fields = inner.names;
        self.letters = ("g", "d");
        let outer = self.block(wide, &format!("({})", inner.text), "");
        self.letters = ("k", "c");
        self.fields = None;
        outer.text
    }

    fn block(&mut self, wide: LanguageFeatures, from: &str, window: &str) -> Block {
        self.view_columns.clear();
        let is_raw = window.contains("ALL");
        let kinds = if is_raw { 2 } else { 0 };
        let select_explode = wide.views && !is_raw && !window.contains("EVENT") && self.rng.chance(0.08);
        let views = match select_explode {
            true => String::new(),
            false if wide.views && self.rng.chance(0.3) => self.views(),
            false => String::new(),
        };
        let block = if select_explode {
            self.explode_block(from, window)
        } else {
            match kinds + self.rng.below(8 - kinds) {
                0 | 1 => self.raw_block(from, &views, window),
                2 if wide.sketches => self.table_block(from, &views, window),
                2 | 3 => self.all_block(wide, from, &views, window),
                4 => self.distinct_block(from, &views, window),
                _ => self.group_block(wide, from, &views, window),
            }
        };
        self.view_columns.clear();
        block
    }

    fn raw_block(&mut self, from: &str, views: &str, window: &str) -> Block {
        let mut columns = self.several(3, |queries| queries.value(2));
        let (select, names) = match self.rng.below(5) {
            0 => {
                columns.clear();
                ("*".to_owned(), None)
            }
            1 => (format!("*, {}", named(&columns, self.letters.1)), None),
            _ => (named(&columns, self.letters.1), Some(aliases(columns.len(), self.letters.1))),
        };
        let mut keys = aliases(columns.len(), self.letters.1);
        if self.fields.is_none() {
            keys.extend(SCALAR_FIELDS[..4].iter().map(|field| (*field).to_owned()));
        }
        keys.extend(self.view_columns.iter().cloned());
        let filter = self.filter();
        let text = self.ended(format!("SELECT {select} FROM {from}{views}{filter}"), &keys, window);
        Block { text, names }
    }

    /// EXPLODE in the select list: nothing else is visible.
    fn explode_block(&mut self, from: &str, window: &str) -> Block {
        let (explode, mut names) = self.explode();
        self.fields = Some(names.clone());
        let columns = self.several(2, |queries| queries.value(1));
        names.extend(aliases(columns.len(), self.letters.1));
        let filter = self.filter();
        let text = format!("SELECT {explode}, {} FROM {from}{filter}", named(&columns, self.letters.1));
        self.fields = None;
        Block { text: self.ended(text, &names, window), names: Some(names) }
    }

    fn all_block(&mut self, wide: LanguageFeatures, from: &str, views: &str, window: &str) -> Block {
        let mut columns = self.wide_aggregates(wide);
        if self.shows_bounds(window) {
            columns.push("window_end - window_start".to_owned());
        }
        let filter = self.filter();
        let text = format!("SELECT {} FROM {from}{views}{filter}{window}", named(&columns, self.letters.1));
        Block { text, names: Some(aliases(columns.len(), self.letters.1)) }
    }

    fn distinct_block(&mut self, from: &str, views: &str, window: &str) -> Block {
        let columns = self.several(2, QueryTexts::value_at_depth_one);
        let names = aliases(columns.len(), self.letters.1);
        let filter = self.filter();
        let text = format!("SELECT DISTINCT {} FROM {from}{views}{filter}", named(&columns, self.letters.1));
        Block { text: self.ended(text, &names, window), names: Some(names) }
    }

    fn group_block(&mut self, wide: LanguageFeatures, from: &str, views: &str, window: &str) -> Block {
        let keys = self.several(2, QueryTexts::value_at_depth_one);
        let mut aggregates = self.wide_aggregates(wide);
        if self.shows_bounds(window) {
            aggregates.push(self.rng.pick(&["window_start", "window_end"]).to_owned());
        }
        let filter = self.filter();
        let mut names = aliases(keys.len(), self.letters.0);
        names.extend(aliases(aggregates.len(), self.letters.1));
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
        let columns = [named(&keys, self.letters.0), named(&aggregates, self.letters.1)].join(", ");
        // A session of several sets is not defined.
        let (told, by) = match window.contains("SESSION") {
            true => (String::new(), keys.join(", ")),
            false => self.grouped(&keys),
        };
        let text = format!("SELECT {columns}{told} FROM {from}{views}{filter} GROUP BY {by}{having}");
        Block { text: self.ended(text, &names, window), names: Some(names) }
    }

    /// An aggregate that gives rows, over everything or per group.
    fn table_block(&mut self, from: &str, views: &str, window: &str) -> Block {
        let (call, mut names) = match self.rng.below(3) {
            0 => (format!("QUANTILE({}, {})", self.number(1), self.points(true)), vec!["Quantile", "Value"]),
            1 => {
                let function = self.rng.pick(&["FREQ", "CUMFREQ"]);
                let call = format!("{function}({}, {})", self.number(1), self.points(false));
                (call, vec!["Range", "Probability", "Count"])
            }
            _ => {
                let threshold =
                    if self.rng.chance(0.4) { format!(", {}", 1 + self.rng.below(3)) } else { String::new() };
                let paths = self.several(2, QueryTexts::path);
                let call = format!("TOP({}{threshold}, {})", 1 + self.rng.below(8), paths.join(", "));
                (call, vec!["Count"])
            }
        };
        let is_top = call.starts_with("TOP");
        let filter = self.filter();
        let mut text = format!("SELECT {call}");
        let mut group = String::new();
        if self.rng.chance(0.4) {
            let key = self.path();
            text = format!("SELECT {key} AS key, {call}");
            group = format!(" GROUP BY {key}");
            names.push("key");
        }
        let text = format!("{text} FROM {from}{views}{filter}{group}");
        let names: Vec<String> = names.into_iter().map(str::to_owned).collect();
        let text = if is_top { format!("{text}{window}") } else { self.ended(text, &names, window) };
        Block { text, names: Some(names) }
    }

    fn points(&mut self, are_shares: bool) -> String {
        let (unit, scale) = if are_shares { (1.0, 0.1) } else { (100.0, 10.0) };
        match self.rng.below(3) {
            0 => format!("LINEAR, {}", 1 + self.rng.below(12)),
            1 => {
                let step = scale * (1 + self.rng.below(4)) as f64;
                format!("REGION, 0, {unit}, {step}")
            }
            _ => {
                let points = self.several(4, |queries| {
                    let point = unit * (queries.rng.below(9) as f64) / 8.0;
                    point.to_string()
                });
                format!("MANUAL, {}", points.join(", "))
            }
        }
    }

    fn wide_aggregates(&mut self, wide: LanguageFeatures) -> Vec<String> {
        let mut aggregates = self.aggregates();
        if !wide.sketches {
            return aggregates;
        }
        for aggregate in &mut aggregates {
            match self.rng.below(10) {
                0 | 1 => {
                    let arguments = self.several(2, |queries| queries.value(1));
                    *aggregate = format!("COUNT(DISTINCT {})", arguments.join(", "));
                }
                2 => {
                    let share = self.rng.pick(&["0", "0.1", "0.5", "0.75", "0.999", "1"]);
                    *aggregate = format!("APPROX_PERCENTILE_CONT({}, {share})", self.number(1));
                }
                _ => {}
            }
            let is_plain = aggregate.ends_with(')') && !aggregate.starts_with("COALESCE");
            if is_plain && !aggregate.contains(" / ") && self.rng.chance(0.2) {
                *aggregate = format!("{aggregate} FILTER (WHERE {})", self.condition_at(1));
            }
        }
        aggregates
    }

    /// One or two lateral views; a second one may be over the first one's column.
    fn views(&mut self) -> String {
        let mut text = String::new();
        for _ in 0..1 + self.rng.below(2) {
            let (explode, columns) = self.explode();
            text.push_str(&format!(" LATERAL VIEW {explode}"));
            self.view_columns.extend(columns);
        }
        text
    }

    /// `[OUTER] EXPLODE(container) AS …`, and the columns' names.
    fn explode(&mut self) -> (String, Vec<String>) {
        let number = self.view_columns.len();
        let outer = self.rng.pick(&["", "", "OUTER "]);
        let container = match self.rng.below(8) {
            0..3 => "l".to_owned(),
            3 | 4 => "m".to_owned(),
            5 => self.rng.pick(&CONTAINERS).to_owned(),
            6 => self.path(),
            _ => format!("[{}, {}]", self.literal(), self.literal()),
        };
        let container = match &self.fields {
            Some(fields) => self.rng.pick(fields),
            None => container,
        };
        let is_map = self.rng.chance(if container == "m" { 0.9 } else { 0.2 });
        let columns = match is_map {
            true => vec![format!("ek{number}"), format!("ev{number}")],
            false => vec![format!("e{number}")],
        };
        let names = if is_map { format!("({})", columns.join(", ")) } else { columns[0].clone() };
        (format!("{outer}EXPLODE({container}) AS {names}"), columns)
    }

    fn window(&mut self, wide: LanguageFeatures) -> String {
        let every = self.rng.pick(&[500, 1000, 1500, 2000]);
        let unit = match self.rng.below(3) {
            0 if wide.event_time => format!("EVENT(ts, {})", self.rng.pick(&[0, 100, 1000])),
            1 if wide.windows && !wide.event_time => "RECORD".to_owned(),
            _ => "TIME".to_owned(),
        };
        if wide.sessions && unit != "RECORD" && self.rng.chance(0.25) {
            return format!(" WINDOWING SESSION({}, {unit})", self.rng.pick(&[200, 500, 1000]));
        }
        if !wide.windows {
            return String::new();
        }
        let (unit, every) = match self.rng.below(4) {
            0 => ("RECORD".to_owned(), 1 + self.rng.below(20)),
            _ => (unit, every),
        };
        match self.rng.below(4) {
            0 => format!(" WINDOWING TUMBLING({every}, {unit})"),
            1 => {
                format!(" WINDOWING EVERY({every}, {unit}, FIRST, {}, {unit})", 1 + self.rng.below(every))
            }
            2 => {
                let last = self.rng.pick(&[every / 2 + 1, every * 2, every * 3, every * 5 / 2]);
                format!(" WINDOWING EVERY({every}, {unit}, LAST, {last}, {unit})")
            }
            _ => format!(" WINDOWING EVERY({every}, {unit}, ALL)"),
        }
    }

    fn shows_bounds(&mut self, window: &str) -> bool {
        !window.is_empty() && self.rng.chance(0.3)
    }

    /// ORDER BY, WINDOWING and LIMIT behind the rest.
    fn ended(&mut self, text: String, keys: &[String], window: &str) -> String {
        format!("{text}{}{window}{}", self.order(keys), self.limit())
    }
}
