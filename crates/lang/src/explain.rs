//! A query's plan as a listing, a line for each of its parts: what EXPLAIN shows.

use std::fmt::{self, Display};

use crate::{
    names::aggregate_text,
    plan::{Aggregate, Body, Extent, Group, OutputColumn, Query, Raw, Window},
};

impl Display for Aggregate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = aggregate_text(self.function);
        match &self.argument {
            Some(argument) => write!(f, "{name}({argument})"),
            None => write!(f, "{name}(*)"),
        }
    }
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
        match self.window {
            Window::None => {}
            Window::Tumbling(Extent::Time(ms)) => write!(f, "\nwindow of {ms} ms")?,
            Window::Tumbling(Extent::Records(records)) => write!(f, "\nwindow of {records} records")?,
            Window::Additive { every_ms } => write!(f, "\nwindow over all, every {every_ms} ms")?,
        }
        if let Some(limit) = self.limit {
            write!(f, "\nlimit {limit}")?;
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
