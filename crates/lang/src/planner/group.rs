//! Queries with aggregation: keys, aggregates, what gives rows, and Bullet's automatic TOP.

use swiftwater_event::Type;

use super::{Planner, Typed, bullet_names::Given, check::Ty, layer, lower::Scope, position};
use crate::{
    Dialect,
    ast::{self, Binary, Name, Node, NodeKind},
    lexer::short,
    plan::{
        AggregateFunction, Body, Comparison, Expr, Group, Literal, OutputColumn, Points, Quantifier, SortKey,
        TableAggregate, TableFunction,
    },
    source::Fault,
};

/// The most keys of GROUP BY or DISTINCT, and the most arguments of COUNT(DISTINCT …) and TOP.
const KEYS_MAX: usize = 256;

/// While expressions are planned, how many aggregates there will be is not known: until then the slots behind those
/// are counted from here.
const BEHIND_AGGREGATES: usize = 1 << 40;

/// An aggregate that gives rows.
pub(super) struct Table {
    plan: TableAggregate,
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
    /// The body, order and limit; `None`: there is a fault beside which Bullet tells of no other.
    pub(super) fn group(&mut self, ast: &'a ast::Query) -> Option<(Body, Vec<SortKey>, Option<u64>)> {
        let (nodes, clause): (Vec<&Node>, _) = match &ast.group_by {
            Some(group_by) => (group_by.keys.iter().collect(), "GROUP BY"),
            None if ast.distinct.is_some() => {
                (self.columns.iter().map(|column| column.node).collect(), "DISTINCT")
            }
            None => (Vec::new(), ""),
        };
        let faults = self.faults.len();
        for node in nodes {
            self.key_of(node, clause);
        }
        self.keys_are_faulty = self.faults.len() > faults;
        if let Some(item) = self.table_item {
            self.plan_table(item.node, item.alias)?;
        }
        if self.dialect == Dialect::Bullet {
            self.add_aggregates(ast);
            if let Some((count, threshold)) = self.special_top(ast) {
                return Some(self.automatic_top(count, threshold));
            }
        }
        let (mut having, mut columns) = self.in_layer(layer::AGGREGATION, |planner| {
            if planner.dialect == Dialect::Native {
                let columns = planner.output_columns(Vec::new());
                return (planner.having(ast, Scope::GroupOrder), columns);
            }
            // In Bullet HAVING does not see what the items compute.
            let having = planner.having(ast, Scope::GroupItem);
            (having, planner.output_columns(Vec::new()))
        });
        let mut order_by = self.in_layer(layer::OUTPUT, |planner| planner.order_by(ast, Scope::GroupOrder));
        let first = self.keys.len() + self.aggregates.len();
        let exprs = columns.iter_mut().map(|column| &mut column.expr);
        for expr in exprs.chain(&mut having).chain(order_by.iter_mut().map(|key| &mut key.expr)) {
            settle(expr, first);
        }
        let body = Group {
            keys: self.keys.iter().map(|key| key.expr.clone()).collect(),
            aggregates: self.aggregates.clone(),
            table: self.table.as_ref().map(|table| table.plan.clone()),
            having,
            columns,
        };
        Some((Body::Group(body), order_by, ast.limit))
    }

    fn having(&mut self, ast: &ast::Query, scope: Scope) -> Option<Expr> {
        ast.having.as_ref().and_then(|having| self.condition(&having.node, scope, "HAVING"))
    }

    // ---- keys

    /// Adds a key, unless it is there.
    fn key_of(&mut self, written: &'a Node, clause: &str) {
        let node = match self.group_item(written, clause) {
            Ok(node) => node,
            Err(fault) => return self.note(fault),
        };
        let Some(typed) = self.lower(node, Scope::Event) else { return };
        if self.dialect == Dialect::Bullet && !typed.ty.may_be_primitive() {
            let message =
                format!("{clause} needs primitive values: `{}` is {}", short(&self.text_of(node)), typed.ty);
            self.note(Fault::at(node.span, message));
        }
        let place = self.keys.iter().position(|key| key.expr == typed.expr);
        if place.is_none() && self.keys.len() == KEYS_MAX {
            return self.note(Fault::at(written.span, format!("a query has at most {KEYS_MAX} keys")));
        }
        let place = place.unwrap_or_else(|| {
            self.keys.push(typed);
            self.keys.len() - 1
        });
        if self.dialect == Dialect::Bullet {
            let text = self.text_of(node.bare());
            let name = self.name_of_text(&text);
            self.base.add(text, name, Given::Key(place));
        }
    }

    /// In the native dialect, a whole number or the name of a column stands for what is selected there.
    fn group_item(&self, written: &'a Node, clause: &str) -> Result<&'a Node, Fault> {
        if clause != "GROUP BY" || self.dialect == Dialect::Bullet {
            return Ok(written);
        }
        let column = match &written.kind {
            NodeKind::Literal(literal) => match position(literal) {
                Some(position) => Some(self.column_at(written, position)?),
                None => None,
            },
            NodeKind::Name(name) => self.column_named(name),
            _ => None,
        };
        let Some(column) = column else { return Ok(written) };
        let node = self.columns[column].node;
        match node.aggregate() {
            Some(_) => Err(Fault::at(written.span, "an aggregate cannot stand in GROUP BY")
                .hint("Group by fields of the events.")),
            None => Ok(node),
        }
    }

    // ---- aggregates that give rows

    fn plan_table(&mut self, node: &'a Node, alias: Option<&'a Name>) -> Option<()> {
        let NodeKind::Table { function, arguments } = &node.kind else { return Some(()) };
        let function = self.checked_points(node, function)?;
        if arguments.len() > KEYS_MAX {
            return self
                .fault(Fault::at(node.span, format!("TOP counts at most {KEYS_MAX} values together")));
        }
        let mut exprs = Vec::new();
        let mut types = Vec::new();
        let mut columns = Vec::new();
        let is_top = matches!(function, TableFunction::Top { .. });
        for argument in arguments {
            let Some(typed) = self.lower(argument, Scope::Event) else { continue };
            let text = self.text_of(argument);
            // The same value counted twice with itself is one column.
            let is_there = exprs.contains(&typed.expr);
            if is_top && !is_there {
                let name = self.name_of_text(&text);
                columns.push(TableColumn { name: name.into(), text: Some(text), ty: typed.ty.clone() });
            }
            types.push(typed.ty);
            if !is_there {
                exprs.push(typed.expr);
            }
        }
        if self.dialect == Dialect::Bullet {
            let needs = match is_top {
                true => (!self::check_all(&types, Ty::may_be_primitive)).then_some("primitive values"),
                false => {
                    (!self::check_all(&types, Ty::may_be_numeric_or_boolean)).then_some("a number or BOOLEAN")
                }
            };
            self.needs(node, needs, &types);
        }
        let fixed: &[(&str, Type)] = match &function {
            TableFunction::Quantile(_) => &[("Quantile", Type::DOUBLE), ("Value", Type::DOUBLE)],
            TableFunction::Frequency(_) | TableFunction::CumulativeFrequency(_) => {
                &[("Range", Type::STRING), ("Probability", Type::DOUBLE), ("Count", Type::DOUBLE)]
            }
            TableFunction::Top { .. } => &[("Count", Type::LONG)],
        };
        for (name, ty) in fixed {
            let name = match alias {
                Some(alias) if is_top => alias.text.clone(),
                _ => (*name).into(),
            };
            columns.push(TableColumn { name, text: None, ty: Ty::Known(ty.clone()) });
        }
        if let Some(alias) = alias.filter(|_| !is_top && self.dialect == Dialect::Native) {
            let names: Vec<&str> = fixed.iter().map(|(name, _)| *name).collect();
            let message = format!("this gives the columns {}: one alias cannot name them", names.join(", "));
            self.note(Fault::at(alias.span, message).hint("Leave the alias out."));
        }
        if self.dialect == Dialect::Bullet {
            for (place, column) in columns.iter().enumerate() {
                let name = column.name.to_string();
                let text = column.text.clone().unwrap_or_else(|| name.clone());
                self.base.add(text, name, Given::Table(place));
            }
        }
        self.table = Some(Table { plan: TableAggregate { function, arguments: exprs }, columns });
        Some(())
    }

    /// The function with its points in order; `None`, with a fault noted, where they cannot be.
    fn checked_points(&mut self, node: &Node, function: &TableFunction) -> Option<TableFunction> {
        let (points, of_ranks) = match function {
            TableFunction::Quantile(points) => (points, true),
            TableFunction::Frequency(points) | TableFunction::CumulativeFrequency(points) => (points, false),
            TableFunction::Top { .. } => return Some(function.clone()),
        };
        let is_bullet = self.dialect == Dialect::Bullet;
        let is_rank = |point: f64| (0.0..=1.0).contains(&point);
        let wrong = match points {
            Points::Linear(0) => Some("the number of points must be above 0"),
            Points::Linear(_) => None,
            // Written so that NaN is wrong.
            Points::Region { start, end, increment }
                if !(start < end && *increment > 0.0 && increment.is_finite()) =>
            {
                Some("the first point must be less than the last, and the step above 0")
            }
            Points::Region { start, end, .. } if of_ranks && !(is_rank(*start) && is_rank(*end)) => {
                Some("the points of QUANTILE must be from 0 to 1")
            }
            Points::Region { .. } => None,
            // Bullet looks at the first and the last as they are written, and fails over the others when it runs.
            Points::Manual(points) if of_ranks && is_bullet => {
                let first_is_low = points.first().is_some_and(|point| *point < 0.0);
                let last_is_high = points.last().is_some_and(|point| *point > 1.0);
                (first_is_low || last_is_high).then_some("the points of QUANTILE must be from 0 to 1")
            }
            Points::Manual(points) if points.iter().any(|point| point.is_nan()) => {
                Some("a point cannot be NaN")
            }
            Points::Manual(points) => (of_ranks && !points.iter().all(|point| is_rank(*point)))
                .then_some("the points of QUANTILE must be from 0 to 1"),
        };
        if let Some(message) = wrong {
            let fault = if is_bullet { Fault::whole(message) } else { Fault::at(node.span, message) };
            if is_bullet {
                self.faults.clear();
            }
            return self
                .fault(fault.hint("Write LINEAR, n; or REGION, from, to, step; or MANUAL, point, …."));
        }
        let points = match points {
            Points::Manual(points) => {
                let mut points = points.clone();
                points.sort_by(f64::total_cmp);
                points.dedup();
                Points::Manual(points)
            }
            other => other.clone(),
        };
        Some(match function {
            TableFunction::Quantile(_) => TableFunction::Quantile(points),
            TableFunction::Frequency(_) => TableFunction::Frequency(points),
            _ => TableFunction::CumulativeFrequency(points),
        })
    }

    /// Notes what an aggregate needs and has not, in Bullet's dialect.
    pub(super) fn needs(&mut self, node: &Node, needs: Option<&str>, given: &[Ty]) {
        if let Some(needs) = needs {
            let given: Vec<String> = given.iter().map(ToString::to_string).collect();
            let text = short(&self.text_of(node));
            self.note(Fault::at(node.span, format!("`{text}` needs {needs}, not {}", given.join(", "))));
        }
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
        if self.dialect == Dialect::Bullet || self.fields.known(name).is_some() {
            return None;
        }
        let place = self.table.as_ref().map_or(0, |table| table.columns.len()) + bound;
        Some(Typed { expr: Expr::Slot(BEHIND_AGGREGATES + place), ty: Ty::Known(Type::LONG) })
    }

    // ---- Bullet's automatic TOP

    /// Whether Bullet runs this as TOP: all keys and COUNT(*) selected, in the order of that, with a LIMIT. Answers the
    /// count of rows and the threshold.
    fn special_top(&self, ast: &ast::Query) -> Option<(u64, Option<u64>)> {
        let limit = ast.limit?;
        let group_by = ast.group_by.as_ref()?;
        let mut aggregates = Vec::new();
        let having = ast.having.iter().map(|having| &having.node);
        let order_by = ast.order_by.iter().map(|order| &order.node);
        for node in ast.item_nodes().chain(having).chain(order_by) {
            collect_aggregates(node, &mut aggregates);
        }
        let is_count = |node: &&Node| matches!(&node.kind, NodeKind::Aggregate { function: AggregateFunction::Count, arguments, .. } if arguments.is_empty());
        if aggregates.is_empty() || !aggregates.iter().all(is_count) {
            return None;
        }
        const COUNT: &str = "COUNT(*)";
        let is_selected = |text: &str| self.columns_by_text.contains_key(text);
        let selects_all =
            is_selected(COUNT) && group_by.keys.iter().all(|key| is_selected(&self.text_of(key.bare())));
        let name = self.name_of_text(COUNT);
        let is_named = |node: &Node| [COUNT, &name].contains(&&*self.text_of(node));
        let mut sorts = ast.order_by.iter().map(|order| (self.text_of(&order.node), order.descending));
        let first = sorts.next()?;
        let is_sorted = first.1 && is_named(&ast.order_by[0].node) && sorts.all(|other| other == first);
        if !selects_all || !is_sorted {
            return None;
        }
        let Some(having) = &ast.having else { return Some((limit, None)) };
        let NodeKind::Binary(Binary::Compare(Comparison::Ge, Quantifier::One), left, right) =
            &having.node.kind
        else {
            return None;
        };
        let NodeKind::Literal(literal) = &right.kind else { return None };
        // As Java narrows them; what is below 0 keeps all.
        let threshold = match literal {
            Literal::Integer(value) => i64::from(*value),
            Literal::Long(value) => *value,
            Literal::Float(value) => *value as i64,
            Literal::Double(value) => *value as i64,
            _ => return None,
        };
        is_named(left).then(|| (limit, u64::try_from(threshold).ok()))
    }

    /// The keys become the arguments of TOP. They and COUNT(*) have the same slots as before.
    fn automatic_top(&mut self, count: u64, threshold: Option<u64>) -> (Body, Vec<SortKey>, Option<u64>) {
        let columns = self.in_layer(layer::AGGREGATION, |planner| planner.output_columns(Vec::new()));
        let arguments = self.keys.iter().map(|key| key.expr.clone()).collect();
        let table = TableAggregate { function: TableFunction::Top { count, threshold }, arguments };
        let body =
            Group { keys: Vec::new(), aggregates: Vec::new(), table: Some(table), having: None, columns };
        (Body::Group(body), Vec::new(), None)
    }

    // ---- types of slots

    /// The type of a slot that an aggregate which gives rows has filled.
    pub(super) fn type_of_table(&self, slot: usize) -> Option<Ty> {
        let place = slot.checked_sub(self.keys.len() + self.aggregates.len())?;
        Some(self.table.as_ref()?.columns.get(place)?.ty.clone())
    }

    /// Whether a slot holds text whatever its type is said to be: Bullet's keys, and what its TOP counts.
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

fn check_all(types: &[Ty], rule: impl Fn(&Ty) -> bool) -> bool {
    types.contains(&Ty::Unknown) || types.iter().all(rule)
}

fn collect_aggregates<'n>(node: &'n Node, found: &mut Vec<&'n Node>) {
    if node.is_aggregate() {
        found.push(node);
    }
    node.children(&mut |child| collect_aggregates(child, found));
}

/// Gives slots behind the aggregates their place.
fn settle(expr: &mut Expr, first: usize) {
    match expr {
        Expr::Slot(slot) if *slot >= BEHIND_AGGREGATES => *slot = *slot - BEHIND_AGGREGATES + first,
        Expr::Call { args, .. } => args.iter_mut().for_each(|arg| settle(arg, first)),
        _ => {}
    }
}
