//! Prints a whole query in Bullet's normal form, which Bullet shows as the query that it runs.
//!
//! The text is not always equivalent to the query: it omits parentheses around AND, OR and XOR, as column names do.

use std::fmt::{self, Display};

use crate::{
    ast::{Duration, Include, Item, Node, Query, Source, Unit, View, WindowShape, WindowSize},
    names::{NormalizedExpr, write_name},
};

/// The text of a query; `now` is put in for NOW.
pub(crate) fn query_text(query: &Query, now: i64) -> String {
    QueryText { query, now }.to_string()
}

struct QueryText<'a> {
    query: &'a Query,
    now: i64,
}

impl QueryText<'_> {
    fn expr<'n>(&self, node: &'n Node) -> NormalizedExpr<'n> {
        NormalizedExpr { node: node.bare(), now: Some(self.now), quotes: true }
    }

    fn item(&self, f: &mut fmt::Formatter<'_>, item: &Item) -> fmt::Result {
        match item {
            Item::Star(_) => f.write_str("*"),
            Item::Explode(view) => self.view(f, view),
            Item::Expr { node, alias } => {
                self.expr(node).fmt(f)?;
                let Some(alias) = alias else { return Ok(()) };
                f.write_str(" AS ")?;
                write_name(f, alias, true)
            }
        }
    }

    fn view(&self, f: &mut fmt::Formatter<'_>, view: &View) -> fmt::Result {
        let outer = if view.is_outer { "OUTER " } else { "" };
        let argument = NormalizedExpr { node: &view.argument, now: Some(self.now), quotes: true };
        write!(f, "{outer}EXPLODE({argument}) AS ")?;
        match &*view.columns {
            [key, value] => {
                f.write_str("(")?;
                write_name(f, key, true)?;
                f.write_str(", ")?;
                write_name(f, value, true)?;
                f.write_str(")")
            }
            columns => columns.iter().try_for_each(|name| write_name(f, name, true)),
        }
    }
}

impl Display for QueryText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let query = self.query;
        f.write_str(if query.distinct.is_some() { "SELECT DISTINCT " } else { "SELECT " })?;
        for (at, item) in query.items.iter().enumerate() {
            f.write_str(if at > 0 { ", " } else { "" })?;
            self.item(f, item)?;
        }
        f.write_str(" FROM ")?;
        match &query.source {
            Source::Stream(stream) => match &stream.duration {
                None => f.write_str("STREAM()")?,
                Some(Duration::Max) => f.write_str("STREAM(MAX, TIME)")?,
                Some(Duration::Ms(ms)) => write!(f, "STREAM({ms}, TIME)")?,
            },
            Source::Query(inner) => write!(f, "({})", QueryText { query: inner, now: self.now })?,
        }
        for view in &query.views {
            f.write_str(" LATERAL VIEW ")?;
            self.view(f, view)?;
        }
        if let Some(filter) = &query.filter {
            write!(f, " WHERE {}", self.expr(filter))?;
        }
        for (at, key) in query.group_by.iter().flat_map(|group_by| &group_by.keys).enumerate() {
            write!(f, "{}{}", if at > 0 { ", " } else { " GROUP BY " }, self.expr(key))?;
        }
        if let Some(having) = &query.having {
            write!(f, " HAVING {}", self.expr(&having.node))?;
        }
        for (at, order) in query.order_by.iter().enumerate() {
            let direction = if order.descending { "DESC" } else { "ASC" };
            write!(f, "{}{} {direction}", if at > 0 { ", " } else { " ORDER BY " }, self.expr(&order.node))?;
        }
        if let Some(window) = &query.window {
            write!(f, " WINDOWING {}", Window(&window.shape))?;
        }
        match query.limit {
            Some(limit) => write!(f, " LIMIT {limit}"),
            None => Ok(()),
        }
    }
}

struct Window<'a>(&'a WindowShape);

impl Display for Window<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            WindowShape::Tumbling(size) => write!(f, "TUMBLING({size})"),
            WindowShape::Session(gap) => write!(f, "SESSION({gap})"),
            WindowShape::Every(emit, Include::All) => write!(f, "EVERY({emit}, ALL)"),
            WindowShape::Every(emit, Include::First(size)) => write!(f, "EVERY({emit}, FIRST, {size})"),
            WindowShape::Every(emit, Include::Last(size)) => write!(f, "EVERY({emit}, LAST, {size})"),
        }
    }
}

impl Display for WindowSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = match self.unit {
            Unit::Time => "TIME",
            Unit::Record => "RECORD",
            Unit::Event(_) => "EVENT",
        };
        write!(f, "{}, {unit}", self.size)
    }
}
