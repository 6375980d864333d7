//! Plans queries with aggregation: keys, aggregates, and Bullet's automatic TOP.

use super::{Planner, bullet_names::AggregationOutput, lower::Scope, position, unhinted};
use crate::{
    Dialect,
    ast::{self, Binary, Node, NodeKind},
    plan::{
        AggregateFunction, Body, Comparison, Expr, Group, Literal, Quantifier, SortKey, TableAggregate,
        TableFunction,
    },
    source::Fault,
};

/// The most keys of GROUP BY or DISTINCT, and the most arguments of COUNT(DISTINCT …) and TOP.
pub(super) const KEYS_MAX: usize = 256;

/// Offset of the slots behind the aggregates while expressions are planned: their number is not known until then.
pub(super) const BEHIND_AGGREGATES: usize = 1 << 40;

/// Offset of the slots behind the columns of the aggregate that returns rows.
pub(super) const BEHIND_TABLE: usize = 1 << 41;

/// Offset of the slots behind the values of GROUPING.
pub(super) const BEHIND_GROUPINGS: usize = 1 << 42;

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
        let is_plain = |node: &Node| matches!(unhinted(node).kind, NodeKind::Name(_));
        let mut aggregates = Vec::new();
        let having = ast.having.iter().map(|having| &having.node);
        let order_by = ast.order_by.iter().map(|order| &order.node);
        for node in ast.item_nodes().chain(having).chain(order_by) {
            collect_aggregates(node, &mut aggregates);
        }
        let mut arguments = Vec::new();
        aggregates.iter().for_each(|node| node.children(&mut |argument| arguments.push(argument)));
        // If the records are read for fields alone, Bullet reads them by the names as written.
        self.sees_inner_texts = !nodes.iter().chain(&arguments).all(|node| is_plain(node));
        let faults = self.faults.len();
        let places: Vec<Option<usize>> = nodes.iter().map(|&node| self.key_of(node, clause)).collect();
        let sets = ast.group_by.as_ref().and_then(|group_by| group_by.sets.as_ref());
        if let Some(sets) = sets.filter(|_| self.faults.len() == faults) {
            self.check_bounds(&nodes, sets, &places);
        }
        let sets = sets.map_or(Vec::new(), |sets| super::grouping::sets_of(sets, &places));
        if let Some(window) = ast.window.as_ref().filter(|_| !sets.is_empty())
            && matches!(window.shape, ast::WindowShape::Session(_))
        {
            let fault = Fault::at(
                window.span,
                "a session belongs to one group, and grouping sets put an event into several",
            );
            self.record_fault(fault.hint("Use another window, or one GROUP BY for each set."));
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
        let mut columns = self.output_columns(Vec::new());
        // In Bullet HAVING does not see what the items compute.
        let is_native = self.dialect == Dialect::Native;
        let mut having = self.having(ast, if is_native { Scope::GroupOrder } else { Scope::GroupItem });
        let mut order_by = self.order_by(ast, Scope::GroupOrder);
        let first = self.keys.len() + self.aggregates.len();
        let behind_table = first + self.table_slots();
        let last = behind_table + self.groupings.len();
        let exprs = columns.iter_mut().map(|column| &mut column.expr);
        for expr in exprs.chain(&mut having).chain(order_by.iter_mut().map(|key| &mut key.expr)) {
            assign_slots(expr, [first, behind_table, last]);
        }
        let body = Group {
            keys: self.keys.iter().map(|key| key.expr.clone()).collect(),
            aggregates: self.aggregates.clone(),
            table: self.table.as_ref().map(|table| table.plan.clone()),
            sets,
            groupings: self.groupings.clone(),
            having,
            columns,
        };
        Some((Body::Group(body), order_by, ast.limit))
    }

    fn having(&mut self, ast: &ast::Query, scope: Scope) -> Option<Expr> {
        ast.having.as_ref().and_then(|having| self.condition(&having.node, scope))
    }

    // ---- keys

    /// Adds a key, unless it is there; answers its place. `None`: it has a fault, or is a bound of the window that each group
    /// is of.
    fn key_of(&mut self, written: &'a Node, clause: &str) -> Option<usize> {
        let node = match self.group_item(written, clause) {
            Ok(node) => node,
            Err(fault) => {
                self.record_fault(fault);
                return None;
            }
        };
        if clause == "GROUP BY" && self.is_bound(node) {
            return None;
        }
        let typed = self.lower(node, Scope::Event)?;
        let place = self.keys.iter().position(|key| key.expr == typed.expr);
        if place.is_none() && self.keys.len() == KEYS_MAX {
            return self.fault(Fault::at(written.span, format!("a query has at most {KEYS_MAX} keys")));
        }
        let place = place.unwrap_or_else(|| {
            self.keys.push(typed);
            self.keys.len() - 1
        });
        if self.dialect == Dialect::Bullet {
            let text = self.text_of(node.bare());
            let name = self.name_of_text(&text);
            self.base.add(text, name, AggregationOutput::Key(place));
        }
        Some(place)
    }

    /// The selected expression that a whole number or the name of a column stands for, in the native dialect.
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
            Some(_) => Err(Fault::at(written.span, "an aggregate is not allowed in GROUP BY")
                .hint("Group by fields of the events.")),
            None => Ok(node),
        }
    }

    // ---- Bullet's automatic TOP

    /// Detects a query that Bullet runs as TOP: all keys and COUNT(*) selected, in the order of that, with a LIMIT.
    /// Returns the count of rows and the threshold.
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
        // Itself, or what has its name: its alias, if it has one.
        let name = self.name_of_text(COUNT);
        let is_named = |node: &Node| node.bare().is_aggregate() || self.text_of(node) == name;
        let mut sorts = ast.order_by.iter().map(|order| (self.text_of(&order.node), order.descending));
        let first = sorts.next()?;
        let is_sorted = first.1 && is_named(&ast.order_by[0].node) && sorts.all(|other| other == first);
        if !selects_all || !is_sorted {
            return None;
        }
        let Some(having) = &ast.having else { return Some((limit, None)) };
        let NodeKind::Binary(Binary::Compare(Comparison::Ge, Quantifier::One), left, right) =
            &having.node.bare().kind
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
        let columns = self.output_columns(Vec::new());
        let arguments = self.keys.iter().map(|key| key.expr.clone()).collect();
        let function = TableFunction::Top { count, threshold };
        let table = TableAggregate { function, arguments, listed: Vec::new() };
        let body = Group {
            keys: Vec::new(),
            aggregates: Vec::new(),
            table: Some(table),
            sets: Vec::new(),
            groupings: Vec::new(),
            having: None,
            columns,
        };
        (Body::Group(body), Vec::new(), None)
    }
}

fn collect_aggregates<'n>(node: &'n Node, found: &mut Vec<&'n Node>) {
    if node.is_aggregate() {
        found.push(node);
    }
    node.children(&mut |child| collect_aggregates(child, found));
}

/// Assigns slots behind the aggregates, behind the columns of the one that gives rows, and behind the values of GROUPING, their
/// place: those begin at these.
pub(super) fn assign_slots(expr: &mut Expr, behind: [usize; 3]) {
    let [aggregates, table, groupings] = behind;
    match expr {
        Expr::Slot(slot) if *slot >= BEHIND_GROUPINGS => *slot = *slot - BEHIND_GROUPINGS + groupings,
        Expr::Slot(slot) if *slot >= BEHIND_TABLE => *slot = *slot - BEHIND_TABLE + table,
        Expr::Slot(slot) if *slot >= BEHIND_AGGREGATES => *slot = *slot - BEHIND_AGGREGATES + aggregates,
        Expr::Call { args, .. } => args.iter_mut().for_each(|arg| assign_slots(arg, behind)),
        _ => {}
    }
}
