//! The roles of a result's columns: what a chart of it has on which axis.

use swiftwater_event::{Primitive, Type};

use crate::plan::{Body, Expr, Group, Query, TableFunction};

/// The role of a column in a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnRole {
    /// A key of the group, or a value that TOP counts.
    Key,
    /// A value computed of the group's events, and the one aggregate that it is, if it is no more than that.
    Measure(Option<&'static str>),
    /// A time of an event.
    Time,
    /// The first instant of the window.
    WindowStart,
    /// The first instant after the window.
    WindowEnd,
    /// A point of QUANTILE.
    Point,
    /// A range of FREQ or CUMFREQ.
    Range,
    /// Anything else.
    Other,
}

impl ColumnRole {
    /// Its word.
    pub fn name(self) -> &'static str {
        match self {
            ColumnRole::Key => "key",
            ColumnRole::Measure(_) => "measure",
            ColumnRole::Time => "time",
            ColumnRole::WindowStart => "window_start",
            ColumnRole::WindowEnd => "window_end",
            ColumnRole::Point => "point",
            ColumnRole::Range => "range",
            ColumnRole::Other => "other",
        }
    }
}

impl Query {
    /// The roles of the columns, in their order. None if the events determine the columns (`*`).
    pub fn column_roles(&self) -> Option<Vec<ColumnRole>> {
        let shown = self.outer.as_deref().unwrap_or(self);
        match &shown.body {
            Body::Raw(raw) if raw.star.is_some() => None,
            Body::Raw(raw) => Some(raw.columns.iter().map(|column| of_event(&column.expr)).collect()),
            Body::Group(group) => {
                Some(group.columns.iter().map(|column| of_group(&column.expr, group)).collect())
            }
        }
    }
}

fn of_event(expr: &Expr) -> ColumnRole {
    match expr {
        Expr::Path { ty: Type::Primitive(Primitive::Timestamp(_)), .. } => ColumnRole::Time,
        _ => ColumnRole::Other,
    }
}

fn of_group(expr: &Expr, group: &Group) -> ColumnRole {
    if let Expr::Slot(slot) = expr {
        return of_slot(*slot, group);
    }
    let (mut has_measure, mut has_key) = (false, false);
    expr.visit(&mut |part| {
        if let Expr::Slot(slot) = part {
            match of_slot(*slot, group) {
                ColumnRole::Measure(_) => has_measure = true,
                ColumnRole::Key => has_key = true,
                _ => {}
            }
        }
    });
    match (has_measure, has_key) {
        (true, _) => ColumnRole::Measure(None),
        // An expression over keys alone names the group as they do.
        (false, true) => ColumnRole::Key,
        (false, false) => ColumnRole::Other,
    }
}

fn of_slot(slot: usize, group: &Group) -> ColumnRole {
    let Some(behind_keys) = slot.checked_sub(group.keys.len()) else { return ColumnRole::Key };
    if let Some(aggregate) = group.aggregates.get(behind_keys) {
        return ColumnRole::Measure(Some(aggregate.function.name()));
    }
    let of_table = behind_keys - group.aggregates.len();
    let slots = group.table.as_ref().map_or(0, |table| table.slots());
    if let Some(table) = &group.table
        && of_table < slots
    {
        return match (&table.function, of_table) {
            // A list of the rows.
            _ if !table.listed.is_empty() => ColumnRole::Other,
            (TableFunction::Quantile(_), 0) => ColumnRole::Point,
            (TableFunction::Quantile(_), _) => ColumnRole::Measure(Some("QUANTILE")),
            (TableFunction::Frequency(_), 0) | (TableFunction::CumulativeFrequency(_), 0) => {
                ColumnRole::Range
            }
            (TableFunction::Frequency(_), _) => ColumnRole::Measure(Some("FREQ")),
            (TableFunction::CumulativeFrequency(_), _) => ColumnRole::Measure(Some("CUMFREQ")),
            (TableFunction::Top { .. }, place) if place < table.arguments.len() => ColumnRole::Key,
            (TableFunction::Top { .. }, _) => ColumnRole::Measure(Some("TOP")),
        };
    }
    match (of_table - slots).checked_sub(group.groupings.len()) {
        None => ColumnRole::Other,
        Some(0) => ColumnRole::WindowStart,
        Some(_) => ColumnRole::WindowEnd,
    }
}

#[cfg(test)]
mod tests {
    use crate::{Dialect, ParseOptions, Schema, parse_typed};

    fn check(text: &str, expected: &str) {
        let schema = Schema::from_json(r#"{"at": "TIMESTAMP", "x": "DOUBLE"}"#).unwrap();
        let options = ParseOptions { schema: Some(&schema), ..ParseOptions::new(Dialect::Native, 0) };
        let statement = crate::parse(text, &options).unwrap();
        let roles = statement.query.column_roles().map(|roles| {
            let words = roles.iter().map(|role| match role {
                super::ColumnRole::Measure(Some(aggregate)) => format!("measure {aggregate}"),
                role => role.name().to_owned(),
            });
            words.collect::<Vec<_>>().join(", ")
        });
        assert_eq!(roles.as_deref().unwrap_or("unknown"), expected, "{text}");
        // As many as there are columns.
        let (_, columns) = parse_typed(text, &options).unwrap();
        assert_eq!(
            columns.map(|columns| columns.len()),
            roles.map(|roles| roles.split(", ").count()),
            "{text}"
        );
    }

    #[test]
    fn each_column_has_its_role() {
        check("SELECT * FROM STREAM(s, MAX, TIME)", "unknown");
        check("SELECT at, x, x + 1 AS y FROM STREAM(s, MAX, TIME)", "time, other, other");
        check(
            "SELECT k, COUNT(*) AS n, AVG(x) AS m, SUM(x) / COUNT(*) AS q, UPPER(k) AS u FROM STREAM(s, MAX, TIME) GROUP BY k",
            "key, measure COUNT, measure AVG, measure, key",
        );
        check(
            "SELECT WINDOW_START AS t, WINDOW_END AS e, k, COUNT(*) AS n FROM STREAM(s, MAX, TIME) GROUP BY k \
             WINDOWING TUMBLING(1000, TIME)",
            "window_start, window_end, key, measure COUNT",
        );
        check("SELECT QUANTILE(x, LINEAR, 3) FROM STREAM(s, MAX, TIME)", "point, measure QUANTILE");
        check("SELECT FREQ(x, LINEAR, 3) FROM STREAM(s, MAX, TIME)", "range, measure FREQ, measure FREQ");
        check("SELECT TOP(5, k, x) FROM STREAM(s, MAX, TIME)", "key, key, measure TOP");
        check("SELECT DISTINCT k FROM STREAM(s, MAX, TIME)", "key");
        check(
            "SELECT a, b, GROUPING(a) AS g, COUNT(*) AS n FROM STREAM(s, MAX, TIME) GROUP BY ROLLUP (a, b)",
            "key, key, other, measure COUNT",
        );
    }
}
