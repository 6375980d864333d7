//! Plans the select list: its columns, their names, and their values.

use std::collections::HashMap;

use swiftwater_event::Type;

use super::{
    Fields, Planner, Typed,
    check::{self, Ty},
};
use crate::{
    Dialect,
    ast::{self, Item, Name, Node, NodeKind},
    lexer::short,
    plan::{Body, Expr, Function, OutputColumn, Query},
    source::{Fault, Span},
};

/// An output column before its value is worked out.
pub(super) struct Column<'a> {
    pub(super) node: &'a Node,
    pub(super) name: Box<str>,
    /// The text of the expression, which names it too.
    pub(super) text: String,
    pub(super) span: Span,
}

/// The state of the computation of a column's value.
pub(super) enum ColumnValue {
    Not,
    Underway,
    Done(Option<Typed>),
}

/// An item that gives several columns, of an aggregate that gives rows.
#[derive(Clone, Copy)]
pub(super) struct TableItem<'a> {
    pub(super) node: &'a Node,
    pub(super) alias: Option<&'a Name>,
    /// The number of columns that stand before it.
    pub(super) place: usize,
}

impl<'a> Planner<'a> {
    /// Gathers the items into columns: the same expression twice is one column.
    pub(super) fn collect_columns(&mut self, ast: &'a ast::Query) {
        let bullet = self.dialect == Dialect::Bullet;
        for item in &ast.items {
            let Item::Expr { node, alias } = item else { continue };
            let node = node.bare();
            let text = self.text_of(node);
            let name: Box<str> = match alias {
                Some(alias) => alias.text.clone(),
                None => self.name_behind_source(node).unwrap_or(&text).into(),
            };
            let span = alias.as_ref().map_or(node.span, |alias| alias.span);
            if matches!(node.kind, NodeKind::Table { .. }) && !self.lists_rows {
                let item =
                    self.table_item.get_or_insert(TableItem { node, alias: None, place: self.columns.len() });
                item.alias = item.alias.or(alias.as_ref());
                continue;
            }
            if bullet {
                if let Some(&place) = self.columns_by_text.get(&text) {
                    if alias.is_some() {
                        self.columns[place].name = name;
                        self.columns[place].span = span;
                    }
                    self.dropped.push((place, node));
                    continue;
                }
            } else if let Some(&place) = self.columns_by_text.get(&text)
                && self.columns[place].name == name
            {
                self.dropped.push((place, node));
                continue;
            }
            self.columns_by_text.entry(text.clone()).or_insert(self.columns.len());
            self.columns.push(Column { node, name, text, span });
        }
        for (place, column) in self.columns.iter().enumerate() {
            self.values.push(ColumnValue::Not);
            if self.columns_by_name.insert(column.name.clone(), place).is_some() && !bullet {
                let message = format!("two columns are named `{}`", short(&column.name));
                self.faults.push(Fault::at(column.span, message).hint("Rename one of them with AS."));
            }
            self.columns_by_folded_name
                .entry(column.name.to_lowercase())
                .and_modify(|column| *column = None)
                .or_insert(Some(place));
        }
    }

    /// Items left out because their text was there before must also mean the same: a type hint is not in the text.
    pub(super) fn check_dropped(&mut self) {
        let dropped = std::mem::take(&mut self.dropped);
        if self.dialect == Dialect::Bullet {
            // Bullet takes them for one.
            return;
        }
        for (place, node) in dropped {
            let scope = self.item_scope();
            let typed = self.try_plan(|planner| planner.lower(node, scope));
            if let (Some(typed), Some(kept)) = (typed, self.column_value(place))
                && typed != kept
            {
                let name = short(&self.columns[place].text);
                let fault = Fault::at(node.span, format!("two columns are named `{name}`"));
                self.record_fault(fault.hint("Rename one of them with AS."));
            }
        }
    }

    /// The columns of the result, behind `first`. In Bullet a later one takes the place of an earlier one of its name,
    /// unless both are computed alike: that is a fault.
    pub(super) fn output_columns(&mut self, first: Vec<OutputColumn>) -> Vec<OutputColumn> {
        let mut columns = first;
        let mut places: HashMap<Box<str>, usize> = HashMap::new();
        for (place, column) in columns.iter().enumerate() {
            places.insert(column.name.clone(), place);
        }
        let table_place = self.table_item.map(|item| item.place);
        for place in 0..=self.columns.len() {
            if Some(place) == table_place {
                for column in self.output_of_table() {
                    places.entry(column.name.clone()).or_insert(columns.len());
                    columns.push(column);
                }
            }
            let Some(column) = self.columns.get(place) else { break };
            let (name, span) = (column.name.clone(), column.span);
            if self.is_group && self.base.has_other_name(&column.text, &name) {
                continue;
            }
            let Some(typed) = self.column_value(place) else { continue };
            let output = OutputColumn { name: name.clone(), expr: typed.expr };
            match places.get(&name) {
                None => {
                    places.insert(name, columns.len());
                    columns.push(output);
                }
                Some(&other) if columns[other] == output => {}
                Some(&other) if self.dialect == Dialect::Bullet => columns[other] = output,
                Some(_) => {
                    let message = format!("two columns are named `{}`", short(&name));
                    self.faults.push(Fault::at(span, message).hint("Rename one of them with AS."));
                }
            }
        }
        columns
    }

    /// A column's value; `None` if it has a fault, or if it is underway: it would hold itself.
    pub(super) fn column_value(&mut self, place: usize) -> Option<Typed> {
        /// Columns that name columns that name columns.
        const NAMING_MAX: usize = 16;
        match &self.values[place] {
            ColumnValue::Done(typed) => return typed.clone(),
            ColumnValue::Underway => return None,
            ColumnValue::Not if self.naming == NAMING_MAX => return None,
            ColumnValue::Not => {}
        }
        self.values[place] = ColumnValue::Underway;
        self.naming += 1;
        let typed = self.lower(self.columns[place].node, self.item_scope());
        self.naming -= 1;
        self.values[place] = ColumnValue::Done(typed.clone());
        typed
    }

    /// The output column of this name.
    pub(super) fn column_named(&self, name: &Name) -> Option<usize> {
        let exact = self.columns_by_name.get(&*name.text).copied();
        if exact.is_some() || name.quoted || !self.dialect.folds_names() {
            return exact;
        }
        match self.columns_by_folded_name.get(&name.text.to_lowercase()) {
            Some(Some(column)) => Some(*column),
            _ => None,
        }
    }

    /// The column at a position, from 1.
    pub(super) fn column_at(&self, node: &Node, position: i64) -> Result<usize, Fault> {
        let count = self.columns.len();
        if self.table_item.is_some() {
            let message = "a position is ambiguous beside an expression that returns several columns";
            return Err(Fault::at(node.span, message).hint("Name the column."));
        }
        match usize::try_from(position) {
            Ok(place @ 1..) if place <= count => Ok(place - 1),
            _ => {
                Err(Fault::at(node.span, format!("there is no column {position}: columns are 1 to {count}")))
            }
        }
    }

    /// The fields of the records of this query's results.
    pub(super) fn fields_of_result(&self, query: &Query) -> Fields<'a> {
        let (columns, star) = match &query.body {
            Body::Raw(raw) => (&raw.columns, raw.star.as_ref()),
            Body::Group(group) => (&group.columns, None),
        };
        let columns = columns.iter().map(|column| {
            let (checked, held) = self.type_of_output(column);
            (column.name.clone(), checked, held)
        });
        let others = star.map(|star| (&self.fields, &*star.without));
        let fields = Fields::of_query(columns.collect(), others, self.dialect);
        if self.dialect == Dialect::Native {
            return fields;
        }
        let aliases = self.columns.iter().filter(|column| column.text != *column.name);
        fields.named_by_text(aliases.map(|column| (column.text.clone(), column.name.clone())).collect())
    }

    /// The type for checks of a column's values, and their own type.
    fn type_of_output(&self, column: &OutputColumn) -> (Type, Type) {
        let known = |ty: &Ty| match ty {
            Ty::Known(ty) => ty.clone(),
            Ty::Unknown | Ty::Null => Type::Any,
        };
        let place = self.columns_by_name.get(&column.name);
        let typed = place.and_then(|place| match &self.values[*place] {
            ColumnValue::Done(typed) => typed.as_ref(),
            _ => None,
        });
        // A view's column, with what it hides behind it.
        let shown = match &column.expr {
            Expr::Call { function: Function::Coalesce, args } if self.dialect == Dialect::Bullet => &args[0],
            expr => expr,
        };
        let checked = match (typed, shown) {
            (Some(typed), _) => known(&typed.ty),
            (None, Expr::Slot(slot)) if !self.is_group => {
                self.view_columns.get(*slot).map_or(Type::Any, |column| known(&column.ty))
            }
            (None, Expr::Slot(slot)) => self.type_of_table(*slot).map_or(Type::Any, |ty| known(&ty)),
            _ => Type::Any,
        };
        let held = match &column.expr {
            Expr::Path { ty, .. } => ty.clone(),
            Expr::Slot(slot) if self.is_text(*slot) => Type::STRING,
            Expr::Call { .. } if !self.is_group => known(&self.value_type(&column.expr)),
            _ => checked.clone(),
        };
        (checked, held)
    }

    /// The type of an expression's values over events: by the requested types of its paths, and not by what Bullet takes
    /// unknown types for.
    fn value_type(&self, expr: &Expr) -> Ty {
        match expr {
            Expr::Literal(literal) => Ty::of(literal),
            Expr::Path { ty, .. } => ty.clone().into(),
            Expr::Slot(slot) => self.view_columns.get(*slot).map_or(Ty::Unknown, |column| column.ty.clone()),
            Expr::Call { function, args } => {
                let args: Vec<Ty> = args.iter().map(|arg| self.value_type(arg)).collect();
                check::result_type(function, &args)
            }
        }
    }
}

/// The names that stand there more than once.
pub(super) fn shared(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut counts: HashMap<String, usize> = HashMap::new();
    for name in names {
        *counts.entry(name).or_default() += 1;
    }
    counts.into_iter().filter(|(_, count)| *count > 1).map(|(name, _)| name).collect()
}
