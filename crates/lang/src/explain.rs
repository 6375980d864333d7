//! A query's plan as a listing, a line for each of its parts: what EXPLAIN shows.

use std::fmt::{self, Display};

use crate::{
    names::aggregate_text,
    plan::{
        Aggregate, AggregateFunction, Body, Expr, Group, LateralView, OutputColumn, Points, Query, Raw,
        TableAggregate, TableFunction, Take, Window, WindowClock,
    },
};

impl Display for Aggregate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = aggregate_text(self.function);
        let distinct = if self.function == AggregateFunction::CountDistinct { "DISTINCT " } else { "" };
        match &*self.arguments {
            [] => write!(f, "{name}(*)")?,
            arguments => write!(f, "{name}({distinct}{})", listed(arguments))?,
        }
        match self.function {
            AggregateFunction::Percentile { millionths } => {
                write!(f, " at {}", f64::from(millionths) / 1e6)?;
            }
            AggregateFunction::CollectList { values_max } | AggregateFunction::CollectSet { values_max } => {
                write!(f, " of at most {values_max}")?;
            }
            _ => {}
        }
        match &self.filter {
            Some(filter) => write!(f, " where {filter}"),
            None => Ok(()),
        }
    }
}

impl Display for TableAggregate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let arguments = listed(&self.arguments);
        let (name, points) = match &self.function {
            TableFunction::Quantile(points) => ("QUANTILE", points),
            TableFunction::Frequency(points) => ("FREQ", points),
            TableFunction::CumulativeFrequency(points) => ("CUMFREQ", points),
            TableFunction::Top { count, threshold } => {
                write!(f, "TOP({count}")?;
                if let Some(threshold) = threshold {
                    write!(f, ", {threshold}")?;
                }
                return write!(f, ", {arguments})");
            }
        };
        match points {
            Points::Linear(count) => write!(f, "{name}({arguments}, {count} points)"),
            Points::Region { start, end, increment } => {
                write!(f, "{name}({arguments}, {start} to {end} by {increment})")
            }
            Points::Manual(points) => write!(f, "{name}({arguments}, {points:?})"),
        }
    }
}

impl Display for LateralView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let outer = if self.is_outer { "outer " } else { "" };
        write!(f, "{outer}{} as {}", self.expr, self.columns.join(", "))
    }
}

impl Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, clock) = match self {
            Window::None => return f.write_str("none"),
            Window::Time { clock, .. } | Window::Session { clock, .. } => ("ms", Some(clock)),
            Window::Records { .. } => ("matched events", None),
        };
        match self {
            Window::Session { gap_ms, .. } => write!(f, "a session, until {gap_ms} ms without an event")?,
            Window::Time { every_ms: every, take, .. } | Window::Records { every, take } => match take {
                Take::First(first) if first == every => write!(f, "every {every} {unit}")?,
                Take::First(first) => write!(f, "the first {first} of every {every} {unit}")?,
                Take::Last(last) => write!(f, "the last {last}, every {every} {unit}")?,
                Take::All => write!(f, "everything so far, every {every} {unit}")?,
            },
            Window::None => {}
        }
        match clock {
            Some(WindowClock::Arrival) => f.write_str(" of arrival"),
            Some(WindowClock::Event { time, lateness_ms }) => {
                write!(f, " by {time}, up to {lateness_ms} ms late")
            }
            None => Ok(()),
        }
    }
}

fn listed(exprs: &[Expr]) -> String {
    exprs.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// One line for each part that the query has; slots are `#0`, `#1`, ….
impl Display for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.stream {
            Some(name) => write!(f, "stream {name}")?,
            None => f.write_str("default stream")?,
        }
        if let Some(ms) = self.duration_ms {
            write!(f, " for {ms} ms")?;
        }
        if let Some(share) = self.sample {
            write!(f, "\nsample {share}")?;
        }
        write_list(f, "views", self.views.iter().map(ToString::to_string))?;
        if let Some(filter) = &self.filter {
            write!(f, "\nwhere {filter}")?;
        }
        match &self.body {
            Body::Raw(raw) => write_raw(f, raw)?,
            Body::Group(group) => write_group(f, group)?,
        }
        let order_by = self.order_by.iter().map(|key| {
            let direction = if key.descending { " DESC" } else { "" };
            format!("{}{direction}", key.expr)
        });
        write_list(f, "order by", order_by)?;
        if self.window != Window::None {
            write!(f, "\nwindow {}", self.window)?;
        }
        if let Some(limit) = self.limit {
            write!(f, "\nlimit {limit}")?;
        }
        if let Some(outer) = &self.outer {
            write!(f, "\nand over each result:\n{outer}")?;
        }
        Ok(())
    }
}

fn write_raw(f: &mut fmt::Formatter<'_>, raw: &Raw) -> fmt::Result {
    if let Some(star) = &raw.star {
        f.write_str("\nthe event itself")?;
        if !star.without.is_empty() {
            write!(f, " without {}", star.without.join(", "))?;
        }
    }
    write_columns(f, &raw.columns)
}

fn write_group(f: &mut fmt::Formatter<'_>, group: &Group) -> fmt::Result {
    let keys = group.keys.iter().enumerate().map(|(slot, key)| format!("#{slot} = {key}"));
    write_list(f, "keys", keys)?;
    let first = group.keys.len();
    let aggregates = group.aggregates.iter().enumerate();
    write_list(
        f,
        "aggregates",
        aggregates.map(|(slot, aggregate)| format!("#{} = {aggregate}", first + slot)),
    )?;
    if let Some(table) = &group.table {
        let first = first + group.aggregates.len();
        let last = first + table.function.columns(table.arguments.len()) - 1;
        write!(f, "\nrows #{first} to #{last} = {table}")?;
    }
    if let Some(having) = &group.having {
        write!(f, "\nhaving {having}")?;
    }
    write_columns(f, &group.columns)
}

fn write_columns(f: &mut fmt::Formatter<'_>, columns: &[OutputColumn]) -> fmt::Result {
    write_list(f, "columns", columns.iter().map(|column| format!("{} = {}", column.name, column.expr)))
}

fn write_list(f: &mut fmt::Formatter<'_>, what: &str, parts: impl Iterator<Item = String>) -> fmt::Result {
    for (at, part) in parts.enumerate() {
        if at == 0 {
            write!(f, "\n{what} {part}")?;
        } else {
            write!(f, ", {part}")?;
        }
    }
    Ok(())
}
