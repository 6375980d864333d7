//! Resolves names after an aggregation in Bullet's dialect, where names are matched by text.
//!
//! The aggregation's own columns are the base: keys, aggregates, and columns of aggregates that return rows. Their names
//! are their aliases, else the texts of their expressions. Both find them. Items and HAVING see only those; ORDER BY sees
//! the items' computed columns first.

use std::collections::HashMap;

use swiftwater_event::Path;

use super::{Planner, Typed, lower::Scope};
use crate::{
    ast::{self, Node},
    plan::Expr,
};

/// One output of the aggregation.
#[derive(Debug, Clone, Copy)]
pub(super) enum AggregationOutput<'a> {
    Key(usize),
    Aggregate(&'a Node),
    /// The column of an aggregate that gives rows.
    Table(usize),
}

/// The outputs of the aggregation, by name and by text.
#[derive(Debug, Default)]
pub(super) struct AggregationOutputs<'a> {
    by_name: HashMap<String, AggregationOutput<'a>>,
    by_text: HashMap<String, AggregationOutput<'a>>,
    /// The names of those that are known by their texts.
    names: HashMap<String, String>,
}

impl<'a> AggregationOutputs<'a> {
    /// Adds what stands under this text, unless it is there.
    pub(super) fn add(&mut self, text: String, name: String, given: AggregationOutput<'a>) {
        if self.by_text.contains_key(&text) {
            return;
        }
        self.by_name.insert(name.clone(), given);
        self.names.insert(text.clone(), name);
        self.by_text.insert(text, given);
    }

    fn find(&self, text: &str) -> Option<AggregationOutput<'a>> {
        self.by_name.get(text).or_else(|| self.by_text.get(text)).copied()
    }

    /// True if this is here already, under another name: in Bullet an item that says so is no column.
    pub(super) fn has_other_name(&self, text: &str, name: &str) -> bool {
        match self.names.get(text) {
            Some(own) => own != name,
            None => self.by_name.contains_key(text) && text != name,
        }
    }

    pub(super) fn contains(&self, text: &str) -> bool {
        self.find(text).is_some()
    }
}

impl<'a> Planner<'a> {
    /// The name of what stands under this text: its alias, where it is selected with one.
    pub(super) fn name_of_text(&self, text: &str) -> String {
        let column = self.columns_by_text.get(text).map(|&place| &self.columns[place]);
        column.map_or_else(|| text.to_owned(), |column| column.name.to_string())
    }

    /// Adds all aggregates of a query to the base.
    pub(super) fn add_aggregates(&mut self, ast: &'a ast::Query) {
        let having = ast.having.iter().map(|having| &having.node);
        let order_by = ast.order_by.iter().map(|order| &order.node);
        for node in ast.item_nodes().chain(having).chain(order_by) {
            self.add_aggregates_of(node);
        }
    }

    fn add_aggregates_of(&mut self, node: &'a Node) {
        if let ast::NodeKind::Aggregate { .. } = node.kind {
            let text = self.text_of(node);
            let name = self.name_of_text(&text);
            self.base.add(text, name, AggregationOutput::Aggregate(node));
            return;
        }
        node.children(&mut |child| self.add_aggregates_of(child));
    }

    /// Resolves a whole node after an aggregation, or as an output column of a RAW query. `Some(None)`: a fault,
    /// which is noted.
    pub(super) fn bullet_resolved(&mut self, node: &Node, scope: Scope) -> Option<Option<Typed>> {
        if scope == Scope::Event {
            return self.inner_column(node).map(Some);
        }
        let text = self.text_within(node);
        if matches!(scope, Scope::RawOrder | Scope::GroupOrder) {
            let named = self.columns_by_name.get(text.as_str()).or_else(|| self.columns_by_text.get(&text));
            let computed = named.copied().filter(|&place| !self.base.contains(&self.columns[place].text));
            if let Some(column) = computed {
                return Some(self.column(node, column));
            }
        }
        if !scope.is_group() {
            return None;
        }
        match self.base.find(&text)? {
            AggregationOutput::Key(place) => Some(self.key_slot(place)),
            AggregationOutput::Table(place) => Some(Some(self.table_slot(place))),
            // Itself: it is looked into.
            AggregationOutput::Aggregate(found) if std::ptr::eq(found, node) || node.is_aggregate() => None,
            AggregationOutput::Aggregate(found) => Some(self.lower(found, scope)),
        }
    }

    /// The column of the inner query that an expression of the outer one names by its text.
    fn inner_column(&self, node: &Node) -> Option<Typed> {
        if !self.fields.are_columns || !self.sees_inner_texts {
            return None;
        }
        if let ast::NodeKind::Name(name) = &node.kind
            && (self.fields.resolve(name).is_some()
                || self.view_columns.iter().any(|view| view.name == name.text))
        {
            return None;
        }
        let field = self.fields.column_of_text(&self.text_within(node))?;
        let (ty, checked) = (self.fields.requested_type(&field), self.fields.checked(&field));
        Some(Typed { expr: Expr::Path { path: Path::field(field), ty }, ty: checked.into() })
    }

    fn key_slot(&self, place: usize) -> Option<Typed> {
        let key = self.keys.get(place)?;
        Some(Typed { expr: Expr::Slot(place), ty: key.ty.clone() })
    }
}
