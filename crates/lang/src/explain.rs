//! Prints a query's plan for EXPLAIN, one line for each of its parts.

use std::fmt::{self, Display};

use crate::{
    names::aggregate_text,
    plan::{
        Aggregate, AggregateFunction, Body, DistributionPoints, Expr, Group, LateralView, Measure,
        MeasureFunction, OutputColumn, Pattern, Query, Raw, Skip, TableAggregate, TableFunction, Window,
        WindowClock, WindowContents,
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
            DistributionPoints::Linear(count) => write!(f, "{name}({arguments}, {count} points)"),
            DistributionPoints::Region { start, end, increment } => {
                write!(f, "{name}({arguments}, {start} to {end} by {increment})")
            }
            DistributionPoints::Manual(points) => write!(f, "{name}({arguments}, {points:?})"),
        }
    }
}

impl Display for LateralView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(join) = &self.join {
            let kind = if self.is_outer { "left join" } else { "join" };
            let of = if join.is_view { "view" } else { "table" };
            write!(f, "{kind} {of} {}", join.name)?;
            let Expr::Call { args, .. } = &self.expr else { return Ok(()) };
            for (place, (column, value)) in join.key.iter().zip(args).enumerate() {
                let between = if place == 0 { " on" } else { " and" };
                write!(f, "{between} {} = {value}", self.columns[*column])?;
            }
            return Ok(());
        }
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
                WindowContents::First(first) if first == every => write!(f, "every {every} {unit}")?,
                WindowContents::First(first) => write!(f, "the first {first} of every {every} {unit}")?,
                WindowContents::Last(last) => write!(f, "the last {last}, every {every} {unit}")?,
                WindowContents::All => write!(f, "everything so far, every {every} {unit}")?,
            },
            Window::None => {}
        }
        match clock {
            Some(clock) => f.write_str(&by_event_time(clock)),
            None => Ok(()),
        }
    }
}

fn by_event_time(clock: &WindowClock) -> String {
    let WindowClock::Event { time, lateness_ms, max_ahead_ms, idle_after_ms } = clock else {
        return " of arrival".to_owned();
    };
    let ahead = max_ahead_ms.map_or(String::new(), |ms| format!(", at most {ms} ms ahead of arrival"));
    let idle =
        idle_after_ms.map_or(String::new(), |ms| format!(", advancing after {ms} ms without an event"));
    format!(" by {time}, up to {lateness_ms} ms late{ahead}{idle}")
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
        if let Some(pattern) = &self.pattern {
            write!(f, "\n{pattern}")?;
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

/// The steps, the conditions, and what is kept; slots as a match has them.
impl Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |variable: &usize| &*self.variables[*variable].name;
        f.write_str("pattern")?;
        for element in &self.elements {
            write!(f, " {}", name(&element.variable))?;
            match (element.least, element.most) {
                (1, Some(1)) => {}
                (least, Some(most)) if least == most => write!(f, "{{{least}}}")?,
                (least, Some(most)) => write!(f, "{{{least},{most}}}")?,
                (least, None) => write!(f, "{{{least},}}")?,
            }
            for absent in &element.absent {
                write!(f, " !{}", name(absent))?;
            }
        }
        write!(f, " within {} ms", self.within_ms)?;
        f.write_str(&by_event_time(&self.clock))?;
        f.write_str(match self.skip {
            Skip::PastLastRow => ", no event in two matches",
            Skip::ToNextRow => ", from every event on",
        })?;
        for variable in &self.variables {
            let parts: Vec<String> =
                variable.condition.iter().chain(&variable.further).map(ToString::to_string).collect();
            let condition = if parts.is_empty() { "any event".to_owned() } else { parts.join(" and then ") };
            write!(f, "\n{} is {condition}", variable.name)?;
        }
        let keys = self.keys.iter().enumerate().map(|(slot, key)| format!("#{slot} = {key}"));
        write_list(f, "by", keys)?;
        let first = self.first_measure();
        let measures = self.measures.iter().enumerate();
        write_list(
            f,
            "measures",
            measures.map(|(slot, of)| format!("#{} = {}", first + slot, self.text_of(of))),
        )?;
        let values = self.values.iter().enumerate();
        let first = first + self.measures.len();
        let is_looked_at = self.variables.iter().any(|variable| variable.further.is_some());
        if is_looked_at {
            write_list(f, "values", values.map(|(slot, value)| format!("#{} = {value}", first + slot)))?;
        }
        match &self.filter {
            Some(filter) => write!(f, "\nmatches where {filter}"),
            None => Ok(()),
        }
    }
}

impl Pattern {
    fn text_of(&self, measure: &Measure) -> String {
        let function = match measure.function {
            MeasureFunction::First => "FIRST",
            MeasureFunction::Last => "LAST",
            MeasureFunction::Count => "COUNT",
            MeasureFunction::Sum => "SUM",
            MeasureFunction::Avg => "AVG",
            MeasureFunction::Min => "MIN",
            MeasureFunction::Max => "MAX",
        };
        let value = measure.value.and_then(|value| self.values.get(value));
        let value = value.map_or("*".to_owned(), ToString::to_string);
        match measure.variable {
            Some(variable) => format!("{function}({value}) of {}", self.variables[variable].name),
            None => format!("{function}({value})"),
        }
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
    let set = |set: &[usize]| set.iter().map(|key| format!("#{key}")).collect::<Vec<_>>().join(", ");
    write_list(f, "grouping sets", group.sets.iter().map(|of| format!("({})", set(of))))?;
    let first = group.keys.len();
    let aggregates = group.aggregates.iter().enumerate();
    write_list(
        f,
        "aggregates",
        aggregates.map(|(slot, aggregate)| format!("#{} = {aggregate}", first + slot)),
    )?;
    let slots = group.table.as_ref().map_or(0, TableAggregate::slots);
    if let Some(table) = &group.table {
        let first = first + group.aggregates.len();
        match table.listed.is_empty() {
            true => write!(f, "\nrows #{first} to #{} = {table}", first + slots - 1)?,
            false => write!(f, "\nrows as a list #{first} = {table}")?,
        }
    }
    let first = first + group.aggregates.len() + slots;
    let groupings = group.groupings.iter().enumerate();
    write_list(f, "bits", groupings.map(|(slot, of)| format!("#{} = GROUPING({})", first + slot, set(of))))?;
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
