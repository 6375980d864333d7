//! Checks the structure of a query: which clauses combine, and where aggregates may occur. It needs no names and no
//! types.
//!
//! Bullet reports each such error once, without its position; the native dialect shows the position.

use std::collections::{BTreeSet, HashMap};

use crate::{
    Dialect, ParseOptions,
    ast::{Duration, Item, Node, NodeKind, Query, Source, View},
    names::column_name,
    plan::{AggregateFunction, TableFunction},
    source::{Fault, Span},
};

/// The faults of a query as a whole, without those of its inner query.
pub(super) fn check(query: &Query, options: &ParseOptions<'_>) -> Vec<Fault> {
    let mut structure = StructureCheck {
        dialect: options.dialect,
        lists_rows: options.lists_rows,
        now: options.now,
        faults: Vec::new(),
        kinds: BTreeSet::new(),
        count_distincts: BTreeSet::new(),
        distributions: BTreeSet::new(),
        tops: BTreeSet::new(),
    };
    structure.query(query);
    structure.faults
}

/// The kinds of queries, of which one query is only one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    All,
    Explode,
    Distinct,
    Group,
    CountDistinct,
    Distribution,
    Top,
}

/// The clause that an expression is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClausePosition {
    Item,
    Where,
    GroupBy,
    Having,
    OrderBy,
    Explode,
}

struct StructureCheck {
    dialect: Dialect,
    /// See [`ParseOptions::lists_rows`].
    lists_rows: bool,
    now: i64,
    faults: Vec<Fault>,
    kinds: BTreeSet<Kind>,
    /// Each by its text.
    count_distincts: BTreeSet<String>,
    distributions: BTreeSet<String>,
    tops: BTreeSet<String>,
}

impl StructureCheck {
    fn is_bullet(&self) -> bool {
        self.dialect == Dialect::Bullet
    }

    /// Records a fault, in Bullet without its place and once.
    fn clash(&mut self, span: Span, message: &str, hint: &str) {
        let fault = if self.is_bullet() { Fault::whole(message) } else { Fault::at(span, message) };
        let fault = fault.hint(hint);
        if !self.is_bullet() || !self.faults.contains(&fault) {
            self.faults.push(fault);
        }
    }

    fn query(&mut self, query: &Query) {
        for node in query.item_nodes() {
            self.expression(node, ClausePosition::Item);
        }
        for view in query.explodes().chain(&query.views) {
            self.view(view);
        }
        if let Some(filter) = &query.filter {
            self.expression(filter, ClausePosition::Where);
        }
        for key in query.group_by.iter().flat_map(|group_by| &group_by.keys) {
            self.expression(key, ClausePosition::GroupBy);
        }
        if let Some(having) = &query.having {
            self.expression(&having.node, ClausePosition::Having);
        }
        for order in &query.order_by {
            self.expression(&order.node, ClausePosition::OrderBy);
        }
        let groups = query.group_by.as_ref().map(|group_by| group_by.span);
        let keys_are_plain =
            query.group_by.iter().flat_map(|group_by| &group_by.keys).all(|key| key.aggregate().is_none());
        if groups.is_some() && keys_are_plain {
            self.kinds.insert(Kind::Group);
        }
        if let Some(having) =
            query.having.as_ref().filter(|_| groups.is_none() || (self.is_bullet() && !keys_are_plain))
        {
            self.clash(having.span, "HAVING needs GROUP BY", "Use WHERE to filter events.");
        }
        if query.star().is_some() {
            self.kinds.insert(Kind::All);
        }
        if query.distinct.is_some() {
            self.kinds.insert(Kind::Distinct);
        }
        self.explodes(query);
        match self.dialect {
            Dialect::Native => self.native_kinds(query),
            Dialect::Bullet => self.bullet_kinds(query),
        }
    }

    fn view(&mut self, view: &View) {
        if let Some(aggregate) = view.argument.aggregate() {
            self.clash(
                aggregate.span,
                "EXPLODE cannot contain aggregates",
                "Explode a list or map of the events.",
            );
        }
        self.expression(&view.argument, ClausePosition::Explode);
        if let [key, value] = &*view.columns
            && key.text == value.text
        {
            let fault = Fault::at(view.span, "the names of keys and values are the same");
            self.faults.push(fault.hint("Write `EXPLODE(map) AS (k, v)` with two names."));
        }
    }

    fn explodes(&mut self, query: &Query) {
        let explodes: Vec<&View> = query.explodes().collect();
        let Some(first) = explodes.first() else { return };
        self.kinds.insert(Kind::Explode);
        let text = |view: &View| {
            let names: Vec<&str> = view.columns.iter().map(|name| &*name.text).collect();
            (view.is_outer, column_name(&view.argument, Some(self.now)), names.join("\0"))
        };
        let first_text = text(first);
        if let Some(other) = explodes.iter().find(|other| text(other) != first_text) {
            let hint = "Use several `LATERAL VIEW EXPLODE(…) AS x`.";
            self.clash(other.span, "EXPLODE can be selected only once", hint);
        }
        if let Some(view) = query.views.first() {
            let hint = "Write this EXPLODE as another LATERAL VIEW.";
            let span = if self.is_bullet() { view.span } else { first.span };
            self.clash(span, "EXPLODE in the select list and LATERAL VIEW do not go together", hint);
        }
        if self.kinds.len() > 1 || query.group_by.is_some() {
            let hint = "Write `LATERAL VIEW EXPLODE(…) AS x`, and select x.";
            self.clash(first.span, "EXPLODE in the select list is allowed with single fields only", hint);
        }
    }

    fn native_kinds(&mut self, query: &Query) {
        let star = query.star();
        let grouped = query.group_by.as_ref().map(|group_by| group_by.span);
        let aggregate = query.item_nodes().find_map(Node::aggregate);
        if let Some(distinct) = query.distinct {
            if let Some(star) = star {
                let hint = "Name the fields that make an event distinct.";
                self.clash(star, "DISTINCT and `*` do not go together", hint);
            }
            let hint = "DISTINCT is GROUP BY over all that is selected: leave DISTINCT out, and name the keys in GROUP BY.";
            if let Some(grouped) = grouped {
                self.clash(grouped, "DISTINCT and GROUP BY do not go together", hint);
            }
            if aggregate.is_some() {
                self.clash(distinct, "DISTINCT and aggregates do not go together", hint);
            }
        } else if let Some(star) = star {
            let hint = "Name the keys and aggregates to select.";
            if grouped.is_some() {
                self.clash(star, "`*` and GROUP BY do not go together", hint);
            }
            if aggregate.is_some() {
                self.clash(star, "`*` and aggregates do not go together", hint);
            }
        }
    }

    fn bullet_kinds(&mut self, query: &Query) {
        let nowhere = Span::new(0, 0);
        // One expression has one name in Bullet, and an alias takes the place of the text.
        let mut aliases: HashMap<String, &str> = HashMap::new();
        for item in &query.items {
            let Item::Expr { node, alias: Some(alias) } = item else { continue };
            let text = column_name(node, Some(self.now));
            if *alias.text != *text
                && aliases.insert(text, &alias.text).is_some_and(|other| *other != *alias.text)
            {
                let hint = "Choose one of them.";
                self.clash(nowhere, "an expression cannot have several aliases", hint);
            }
        }
        if self.kinds.len() > 1 && !self.kinds.contains(&Kind::Explode) {
            let hint = "Select one of them: all fields, single fields, distinct values, groups, COUNT(DISTINCT …), a \
                        distribution, or TOP.";
            self.clash(nowhere, "the query is of several kinds at once", hint);
        }
        let ordered = !query.order_by.is_empty();
        let limited = query.limit.is_some();
        for (used, name) in
            [(!self.count_distincts.is_empty(), "COUNT(DISTINCT …)"), (!self.tops.is_empty(), "TOP")]
        {
            if used && ordered {
                self.clash(
                    nowhere,
                    &format!("ORDER BY and {name} do not go together"),
                    "Leave ORDER BY out.",
                );
            }
            if used && limited {
                self.clash(nowhere, &format!("LIMIT and {name} do not go together"), "Leave LIMIT out.");
            }
        }
        for (count, name) in [
            (self.count_distincts.len(), "COUNT(DISTINCT …)"),
            (self.distributions.len(), "QUANTILE, FREQ and CUMFREQ"),
            (self.tops.len(), "TOP"),
        ] {
            if count > 1 {
                self.clash(nowhere, &format!("there can be only one {name}"), "Write several queries.");
            }
        }
        if query.limit == Some(0) {
            self.clash(nowhere, "LIMIT must be above 0", "Leave LIMIT out for the default.");
        }
        if let Source::Stream(stream) = &query.source
            && stream.duration == Some(Duration::Ms(0))
        {
            self.clash(
                nowhere,
                "the duration of the query must be above 0",
                "Write MAX for the longest duration.",
            );
        }
    }

    fn expression(&mut self, node: &Node, place: ClausePosition) {
        if let Some(aggregate) = node.aggregate() {
            let by_place = match place {
                ClausePosition::Where => Some((
                    "an aggregate is not allowed in WHERE",
                    "WHERE filters single events; use HAVING to filter groups.",
                )),
                ClausePosition::GroupBy => {
                    Some(("an aggregate is not allowed in GROUP BY", "Group by fields of the events."))
                }
                _ => None,
            };
            if let Some((message, hint)) = by_place {
                self.clash(aggregate.span, message, hint);
            }
            self.aggregates(node.bare(), place, true);
        }
    }

    /// Visits all aggregates in a tree; `is_whole`: this node is the whole expression.
    fn aggregates(&mut self, node: &Node, place: ClausePosition, is_whole: bool) {
        let within = match &node.kind {
            NodeKind::Aggregate { function, .. } => {
                if *function == AggregateFunction::CountDistinct {
                    self.kinds.insert(Kind::CountDistinct);
                    self.count_distincts.insert(column_name(node, Some(self.now)));
                } else {
                    self.kinds.insert(Kind::Group);
                }
                true
            }
            NodeKind::Table { function, .. } => {
                self.table(node, function, place, is_whole);
                true
            }
            _ => false,
        };
        if within {
            let mut inner = None;
            node.children(&mut |child| inner = inner.or(child.aggregate()));
            if let Some(inner) = inner {
                let hint = "Aggregate a field, or write an outer query: SELECT … FROM (SELECT …).";
                self.clash(inner.span, "an aggregate is not allowed inside an aggregate", hint);
            }
        }
        node.children(&mut |child| self.aggregates(child, place, false));
    }

    fn table(&mut self, node: &Node, function: &TableFunction, place: ClausePosition, is_whole: bool) {
        let text = column_name(node, Some(self.now));
        let (kind, texts, columns) = match function {
            TableFunction::Top { .. } => (Kind::Top, &mut self.tops, "Count"),
            TableFunction::Quantile(_) => (Kind::Distribution, &mut self.distributions, "Quantile and Value"),
            _ => (Kind::Distribution, &mut self.distributions, "Range, Probability and Count"),
        };
        texts.insert(text);
        self.kinds.insert(kind);
        let hint = format!("Use its columns: {columns}.");
        if self.lists_rows {
            // It is a value as those of other aggregates.
        } else if !is_whole {
            let message = if kind == Kind::Top {
                "TOP returns rows, and cannot be part of an expression"
            } else {
                "QUANTILE, FREQ and CUMFREQ return rows, and cannot be part of an expression"
            };
            self.clash(node.span, message, &hint);
        } else if !matches!(
            place,
            ClausePosition::Item | ClausePosition::Where | ClausePosition::GroupBy | ClausePosition::Explode
        ) {
            self.clash(node.span, "a function that returns rows is allowed in the select list only", &hint);
        }
        let several = self.tops.len() + self.distributions.len();
        if !self.is_bullet() && several > 1 {
            let message = "a query can have only one of QUANTILE, FREQ, CUMFREQ and TOP";
            self.clash(node.span, message, "Write several queries.");
        }
    }
}
