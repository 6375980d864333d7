//! Plans aggregates that return rows, and the slots after the aggregates: their columns, then the window's bounds.

use std::collections::HashSet;

use swiftwater_event::Type;

use super::{
    Planner, Typed,
    bullet_names::AggregationOutput,
    check::Ty,
    group::{BEHIND_AGGREGATES, BEHIND_GROUPINGS, KEYS_MAX},
    lower::Scope,
    result::list_of,
};
use crate::{
    Dialect,
    ast::{Name, Node, NodeKind},
    plan::{DistributionPoints, Expr, OutputColumn, TableAggregate, TableFunction},
    source::Fault,
};

/// An aggregate that gives rows.
pub(super) struct Table {
    pub(super) plan: TableAggregate,
    columns: Vec<TableColumn>,
}

struct TableColumn {
    name: Box<str>,
    /// The text of the argument that it holds.
    text: Option<String>,
    ty: Ty,
}

/// The bounds of a group's window, by name.
const BOUNDS: [&str; 2] = ["window_start", "window_end"];

impl<'a> Planner<'a> {
    pub(super) fn plan_table(&mut self, node: &'a Node, alias: Option<&'a Name>) -> Option<()> {
        let (function, arguments, mut columns) = self.lowered_table(node)?;
        let is_top = matches!(function, TableFunction::Top { .. });
        let fixed = fixed_columns(&function);
        for (name, ty) in fixed {
            let name = match alias {
                Some(alias) if is_top => alias.text.clone(),
                _ => (*name).into(),
            };
            columns.push(TableColumn { name, text: None, ty: Ty::Known(ty.clone()) });
        }
        if let Some(alias) = alias.filter(|_| !is_top && self.dialect == Dialect::Native) {
            let names: Vec<&str> = fixed.iter().map(|(name, _)| *name).collect();
            let message =
                format!("this returns the columns {}: one alias cannot name them", names.join(", "));
            self.record_fault(Fault::at(alias.span, message).hint("Leave the alias out."));
        }
        if self.dialect == Dialect::Bullet {
            for (place, column) in columns.iter().enumerate() {
                let name = column.name.to_string();
                let text = column.text.clone().unwrap_or_else(|| name.clone());
                self.base.add(text, name, AggregationOutput::Table(place));
            }
        }
        self.table =
            Some(Table { plan: TableAggregate { function, arguments, listed: Vec::new() }, columns });
        Some(())
    }

    /// The list of its rows, where that is one value.
    pub(super) fn listed(&mut self, node: &Node, scope: Scope) -> Option<Typed> {
        if !scope.is_group() {
            return self.fault(Fault::at(node.span, "an aggregate is not allowed here"));
        }
        let (function, arguments, columns) = self.lowered_table(node)?;
        let fixed = fixed_columns(&function).iter().map(|(name, _)| Box::from(*name));
        let listed: Vec<Box<str>> = columns.into_iter().map(|column| column.name).chain(fixed).collect();
        let mut names = HashSet::new();
        if let Some(name) = listed.iter().find(|name| !names.insert(*name)) {
            let message = format!("two values of a row would be named `{name}`");
            return self.fault(Fault::at(node.span, message).hint("Rename the counted value."));
        }
        let plan = TableAggregate { function, arguments, listed };
        if self.table.as_ref().is_some_and(|table| table.plan != plan) {
            // A node that is the whole query was examined before.
            return self.fault(Fault::at(node.span, "there is another aggregate that returns rows"));
        }
        let text = self.text_of(node);
        let column = TableColumn { name: (*text).into(), text: Some(text), ty: list_type(&plan) };
        self.table = Some(Table { plan, columns: vec![column] });
        Some(self.table_slot(0))
    }

    /// Its function, what it is of, and the columns that hold that.
    fn lowered_table(&mut self, node: &Node) -> Option<(TableFunction, Vec<Expr>, Vec<TableColumn>)> {
        let NodeKind::Table { function, arguments } = &node.kind else { return None };
        let function = self.checked_points(node, function)?;
        if arguments.len() > KEYS_MAX {
            return self
                .fault(Fault::at(node.span, format!("TOP counts at most {KEYS_MAX} values together")));
        }
        let is_top = matches!(function, TableFunction::Top { .. });
        let (mut exprs, mut columns) = (Vec::new(), Vec::new());
        for argument in arguments {
            let Some(typed) = self.lower(argument, Scope::Event) else { continue };
            let text = self.text_within(argument);
            // The same value counted twice with itself is one column.
            let is_there = exprs.contains(&typed.expr);
            if is_top && !is_there {
                let name = self.name_of_text(&text);
                columns.push(TableColumn { name: name.into(), text: Some(text), ty: typed.ty.clone() });
            }
            if !is_there {
                exprs.push(typed.expr);
            }
        }
        Some((function, exprs, columns))
    }

    /// The function with its points in order; `None`, with a fault noted, where they cannot be.
    fn checked_points(&mut self, node: &Node, function: &TableFunction) -> Option<TableFunction> {
        if let Some(fault) = wrong_points(node, function, self.dialect) {
            self.faults.push(fault);
            return None;
        }
        let points = match function {
            TableFunction::Quantile(points)
            | TableFunction::Frequency(points)
            | TableFunction::CumulativeFrequency(points) => points,
            TableFunction::Top { .. } => return Some(function.clone()),
        };
        let points = match points {
            DistributionPoints::Manual(points) => {
                let mut points = points.clone();
                points.sort_by(f64::total_cmp);
                points.dedup();
                DistributionPoints::Manual(points)
            }
            other => other.clone(),
        };
        Some(match function {
            TableFunction::Quantile(_) => TableFunction::Quantile(points),
            TableFunction::Frequency(_) => TableFunction::Frequency(points),
            _ => TableFunction::CumulativeFrequency(points),
        })
    }

    /// The columns that an item gives whose aggregate gives rows: those that no other item names.
    pub(super) fn output_of_table(&self) -> Vec<OutputColumn> {
        let Some(table) = &self.table else { return Vec::new() };
        let columns = table.columns.iter().enumerate();
        let unnamed = columns.filter(|(_, column)| {
            self.dialect == Dialect::Bullet || !self.columns_by_name.contains_key(&column.name)
        });
        let output = |(place, column): (usize, &TableColumn)| OutputColumn {
            name: column.name.clone(),
            expr: self.table_slot(place).expr,
        };
        unnamed.map(output).collect()
    }

    pub(super) fn table_slot(&self, place: usize) -> Typed {
        let column = self.table.as_ref().and_then(|table| table.columns.get(place));
        let ty = column.map_or(Ty::Unknown, |column| column.ty.clone());
        Typed { expr: Expr::Slot(BEHIND_AGGREGATES + place), ty }
    }

    /// The column that a name or an argument's text stands for, of an aggregate that gives rows (native).
    pub(super) fn table_column(&self, node: &Node) -> Option<Typed> {
        let table = self.table.as_ref()?;
        let place = match &node.kind {
            NodeKind::Name(name) => table.columns.iter().position(|column| *column.name == *name.text),
            _ => None,
        };
        let place = place.or_else(|| {
            let text = self.text_of(node);
            table.columns.iter().position(|column| column.text.as_ref() == Some(&text))
        })?;
        Some(self.table_slot(place))
    }

    /// `window_start` or `window_end`, where nothing else has that name.
    pub(super) fn window_bound(&self, name: &Name) -> Option<Typed> {
        let bound = BOUNDS.iter().position(|bound| name.text.eq_ignore_ascii_case(bound))?;
        if self.dialect == Dialect::Bullet || self.fields.resolve(name).is_some() {
            return None;
        }
        Some(Typed { expr: Expr::Slot(BEHIND_GROUPINGS + bound), ty: Ty::Known(Type::LONG) })
    }

    /// True if this is a bound of the window that each group is of, and so no key.
    pub(super) fn is_bound(&mut self, node: &Node) -> bool {
        let node = node.bare();
        let NodeKind::Name(name) = &node.kind else { return false };
        self.has_windows
            && self.window_bound(name).is_some()
            && self.view_column(name).is_none()
            && self.try_plan(|planner| planner.is_of_one_source(node, name)).is_some()
    }

    /// True if a field of the events hides a bound of the window.
    pub(super) fn hides_bound(&self, node: &Node) -> bool {
        let NodeKind::Name(name) = &node.kind else { return false };
        self.dialect == Dialect::Native
            && self.has_windows
            && BOUNDS.iter().any(|bound| name.text.eq_ignore_ascii_case(bound))
            && self.fields.resolve(name).is_some()
    }

    /// The number of slots it fills.
    pub(super) fn table_slots(&self) -> usize {
        self.table.as_ref().map_or(0, |table| table.columns.len())
    }

    /// The type of a slot that an aggregate which gives rows has filled.
    pub(super) fn type_of_table(&self, slot: usize) -> Option<Ty> {
        let place = slot.checked_sub(self.keys.len() + self.aggregates.len())?;
        Some(self.table.as_ref()?.columns.get(place)?.ty.clone())
    }

    /// True if a slot holds text whatever its type is said to be: Bullet's keys, and what its TOP counts.
    pub(super) fn is_text(&self, slot: usize) -> bool {
        if self.dialect == Dialect::Native || !self.is_group {
            return false;
        }
        let of_table = slot.checked_sub(self.keys.len() + self.aggregates.len());
        let table = self.table.as_ref();
        let counted = of_table.zip(table).and_then(|(place, table)| table.columns.get(place));
        slot < self.keys.len() || counted.is_some_and(|column| column.text.is_some())
    }
}

/// The columns that do not hold what it is of, behind those that do.
fn fixed_columns(function: &TableFunction) -> &'static [(&'static str, Type)] {
    match function {
        TableFunction::Quantile(_) => &[("Quantile", Type::DOUBLE), ("Value", Type::DOUBLE)],
        TableFunction::Frequency(_) | TableFunction::CumulativeFrequency(_) => {
            &[("Range", Type::STRING), ("Probability", Type::DOUBLE), ("Count", Type::DOUBLE)]
        }
        TableFunction::Top { .. } => &[("Count", Type::LONG)],
    }
}

/// The type of a list of its rows, each a map: known if all values of a row have one type.
pub(super) fn list_type(table: &TableAggregate) -> Ty {
    let row = match table.function {
        TableFunction::Quantile(_) => Type::map(Type::DOUBLE).ok(),
        _ => None,
    };
    row.map_or(Ty::Unknown, |row| list_of(Ty::Known(row)))
}

/// The fault of a distribution's points.
pub(super) fn wrong_points(node: &Node, function: &TableFunction, dialect: Dialect) -> Option<Fault> {
    let (points, of_ranks) = match function {
        TableFunction::Quantile(points) => (points, true),
        TableFunction::Frequency(points) | TableFunction::CumulativeFrequency(points) => (points, false),
        TableFunction::Top { .. } => return None,
    };
    let is_bullet = dialect == Dialect::Bullet;
    let is_rank = |point: f64| (0.0..=1.0).contains(&point);
    let wrong = match points {
        DistributionPoints::Linear(0) => Some("the number of points must be above 0"),
        DistributionPoints::Linear(_) => None,
        // Written so that NaN is wrong.
        DistributionPoints::Region { start, end, increment }
            if !(start < end && *increment > 0.0 && increment.is_finite()) =>
        {
            Some("the first point must be less than the last, and the step above 0")
        }
        DistributionPoints::Region { start, end, .. } if of_ranks && !(is_rank(*start) && is_rank(*end)) => {
            Some("the points of QUANTILE must be from 0 to 1")
        }
        DistributionPoints::Region { .. } => None,
        // Bullet looks at the first and the last as they are written, and fails over the others when it runs.
        DistributionPoints::Manual(points) if of_ranks && is_bullet => {
            let first_is_low = points.first().is_some_and(|point| *point < 0.0);
            let last_is_high = points.last().is_some_and(|point| *point > 1.0);
            (first_is_low || last_is_high).then_some("the points of QUANTILE must be from 0 to 1")
        }
        DistributionPoints::Manual(points) if points.iter().any(|point| point.is_nan()) => {
            Some("a point cannot be NaN")
        }
        DistributionPoints::Manual(points) => (of_ranks && !points.iter().all(|point| is_rank(*point)))
            .then_some("the points of QUANTILE must be from 0 to 1"),
    };
    let fault = if is_bullet { Fault::whole(wrong?) } else { Fault::at(node.span, wrong?) };
    Some(fault.hint("Write LINEAR, n; or REGION, from, to, step; or MANUAL, point, …."))
}
