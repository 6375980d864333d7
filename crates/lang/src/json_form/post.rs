//! Post-aggregations of Bullet's JSON query form: operations on a result's rows, in the order of the list.
//!
//! ```text
//! P = {"type": "ORDERBY", "fields": [K, …], "direction": "ASC" | "DESC"}
//! K = name | {"field": name, "direction": "ASC" | "DESC"}
//!   | {"type": "COMPUTATION", "expression": E, "newName": name}
//! E = {"operation": "+" | "-" | "*" | "/", "left": E, "right": E, "type": type}
//!   | {"value": {"kind": "VALUE" | "FIELD", "value": text, "type": type}}
//! ```
//!
//! A later order takes precedence over an earlier one, which decides among its ties. A computation that fails leaves the
//! previous value of its name, or null if there was none.

use swiftwater_event::{Primitive, Type};

use super::{
    DEPTH_MAX, Reader,
    filter::{call, literal},
    read::{Node, Object},
};
use crate::{
    lexer::short,
    plan::{AggregateFunction, Body, Expr, Function, OutputColumn, SortKey},
    source::Fault,
};

/// The most steps.
const STEPS_MAX: usize = 64;
/// The most parts of all computed columns together: one that names another copies it.
const PARTS_MAX: usize = 10_000;

impl Reader<'_> {
    /// Adds computed columns to the body; answers the order.
    pub(super) fn post_aggregations(&mut self, node: &Node<'_>, body: &mut Body) -> Vec<SortKey> {
        let Some(steps) = self.record_fault(node.list("`postAggregations`")) else { return Vec::new() };
        if steps.len() > STEPS_MAX {
            let message = format!("a query has at most {STEPS_MAX} post-aggregations");
            self.faults.push(Fault::at(node.span(), message));
            return Vec::new();
        }
        let mut order: Vec<SortKey> = Vec::new();
        let mut parts = 0;
        for step in &steps {
            let Some(object) = self.record_fault(step.object("a post-aggregation")) else { continue };
            let Some(kind) = self.record_fault(object.need("type", step)) else { continue };
            let Some(name) = self.record_fault(kind.text("a post-aggregation's type")) else { continue };
            match &*name.to_ascii_uppercase() {
                "ORDERBY" | "ORDER BY" => {
                    if let Some(mut keys) = self.order(step, &object, body) {
                        keys.append(&mut order);
                        order = keys;
                    }
                }
                "COMPUTATION" => {
                    let Some(column) = self.computation(step, &object, body) else { continue };
                    parts += column.expr.size();
                    if parts > PARTS_MAX || column.expr.depth() > 2 * DEPTH_MAX {
                        self.faults.push(Fault::at(step.span(), "these computations are too large"));
                        return Vec::new();
                    }
                    let columns = columns_of(body);
                    columns.retain(|other| other.name != column.name);
                    columns.push(column);
                }
                other => {
                    let message = format!("no post-aggregation `{}`", short(other));
                    self.faults
                        .push(Fault::at(kind.span(), message).hint("Types are ORDERBY and COMPUTATION."));
                }
            }
        }
        order
    }

    fn order(&mut self, node: &Node<'_>, object: &Object<'_>, body: &mut Body) -> Option<Vec<SortKey>> {
        self.check_keys(object, &["type", "fields", "direction"]);
        let descends = self.descends(object)?.unwrap_or(false);
        let list = self.record_fault(object.need("fields", node))?;
        let fields = self.record_fault(list.list("`fields`"))?;
        if fields.is_empty() || fields.len() > STEPS_MAX {
            let message = format!("an order has 1 to {STEPS_MAX} fields");
            self.faults.push(Fault::at(list.span(), message));
            return None;
        }
        fields.iter().map(|field| self.sort_key(field, descends, body)).collect()
    }

    fn sort_key(&mut self, node: &Node<'_>, descends: bool, body: &mut Body) -> Option<SortKey> {
        if !node.is_object() {
            let expr = self.result_field(node, body)?;
            return Some(SortKey { expr, descending: descends, is_cast: false });
        }
        let object = self.record_fault(node.object("a field"))?;
        self.check_keys(&object, &["field", "direction"]);
        let descending = self.descends(&object)?.unwrap_or(descends);
        let field = self.record_fault(object.need("field", node))?;
        Some(SortKey { expr: self.result_field(field, body)?, descending, is_cast: false })
    }

    /// Returns true if the object's `direction` is DESC; `Some(None)` if it has none.
    fn descends(&mut self, object: &Object<'_>) -> Option<Option<bool>> {
        let Some(direction) = object.get("direction") else { return Some(None) };
        match &*self.record_fault(direction.text("a direction"))?.to_ascii_uppercase() {
            "ASC" => Some(Some(false)),
            "DESC" => Some(Some(true)),
            _ => {
                self.faults.push(Fault::at(direction.span(), "a direction is ASC or DESC"));
                None
            }
        }
    }

    fn computation(&mut self, node: &Node<'_>, object: &Object<'_>, body: &mut Body) -> Option<OutputColumn> {
        self.check_keys(object, &["type", "expression", "newName"]);
        let expression = self.record_fault(object.need("expression", node))?;
        let name = self.record_fault(object.need("newName", node))?;
        let name = self.record_fault(name.text("`newName`"))?;
        let mut expr = self.expression(expression, body, DEPTH_MAX)?;
        if let Some(before) = self.resolve_name(&name, body) {
            expr = call(Function::Coalesce, vec![expr, before]);
        }
        Some(OutputColumn { name: name.as_ref().into(), expr })
    }

    /// The expression that a name of the result refers to so far, if any.
    fn resolve_name(&self, name: &str, body: &mut Body) -> Option<Expr> {
        if let Some(column) = columns_of(body).iter().find(|column| *column.name == *name) {
            return Some(column.expr.clone());
        }
        let is_whole_event = matches!(body, Body::Raw(raw) if raw.star.is_some());
        is_whole_event.then(|| self.field_of_event(name))
    }

    fn expression(&mut self, node: &Node<'_>, body: &mut Body, depth: usize) -> Option<Expr> {
        if depth == 0 {
            self.faults.push(Fault::at(node.span(), format!("computations nest at most {DEPTH_MAX} deep")));
            return None;
        }
        let object = self.record_fault(node.object("an expression"))?;
        if let Some(value) = object.get("value") {
            self.check_keys(&object, &["value"]);
            return self.leaf(value, body);
        }
        self.check_keys(&object, &["operation", "left", "right", "type", "value"]);
        let operation = self.record_fault(object.need("operation", node))?;
        let function = match &*self.record_fault(operation.text("an operation"))? {
            "+" => Function::Add,
            "-" => Function::Subtract,
            "*" => Function::Multiply,
            "/" => Function::Divide,
            other => {
                let message = format!("no operation `{}`", short(other));
                self.faults.push(Fault::at(operation.span(), message).hint("Operators are +, -, * and /."));
                return None;
            }
        };
        let left = self.record_fault(object.need("left", node))?;
        let left = self.expression(left, body, depth - 1);
        let right = self.record_fault(object.need("right", node))?;
        let right = self.expression(right, body, depth - 1);
        let (mut left, right) = (left?, right?);
        if function == Function::Divide && (is_of_sums(&left, body) || is_of_sums(&right, body)) {
            // Bullet's sums are DOUBLE, so that a quotient of them has its fraction.
            left = call(Function::Cast(Type::DOUBLE), vec![left]);
        }
        let result = call(function, vec![left, right]);
        self.cast(result, &object)
    }

    fn leaf(&mut self, node: &Node<'_>, body: &mut Body) -> Option<Expr> {
        let object = self.record_fault(node.object("a value"))?;
        self.check_keys(&object, &["kind", "value", "type"]);
        let kind = self.record_fault(object.need("kind", node))?;
        let value = self.record_fault(object.need("value", node))?;
        match &*self.record_fault(kind.text("a kind"))?.to_ascii_uppercase() {
            "FIELD" => {
                let field = self.result_field(value, body)?;
                self.cast(field, &object)
            }
            "VALUE" => {
                let text = self.record_fault(value.text("a value"))?;
                self.cast(literal(&text), &object)
            }
            other => {
                let message = format!("a value's kind is VALUE or FIELD, not `{}`", short(other));
                self.faults.push(Fault::at(kind.span(), message));
                None
            }
        }
    }

    /// Cast to the object's `type`, where it has one.
    pub(super) fn cast(&mut self, expr: Expr, object: &Object<'_>) -> Option<Expr> {
        let Some(node) = object.get("type") else { return Some(expr) };
        let text = self.record_fault(node.text("a type"))?;
        match Type::parse(&text) {
            Ok(ty @ Type::Primitive(primitive)) if !matches!(primitive, Primitive::Timestamp(_)) => {
                Some(call(Function::Cast(ty), vec![expr]))
            }
            _ => {
                let message = format!("a value cannot be cast to `{}`", short(&text));
                let hint = "Types are STRING, BOOLEAN, INTEGER, LONG, FLOAT and DOUBLE.";
                self.faults.push(Fault::at(node.span(), message).hint(hint));
                None
            }
        }
    }

    /// The expression for a name of the result: one of its columns, else (if events are records) a path of the event.
    fn result_field(&mut self, node: &Node<'_>, body: &mut Body) -> Option<Expr> {
        let text = self.record_fault(node.text("a field"))?;
        let is_group = matches!(body, Body::Group(_));
        let columns = columns_of(body);
        if let Some(column) = columns.iter().find(|column| *column.name == *text) {
            return Some(column.expr.clone());
        }
        if !is_group {
            return self.path(node);
        }
        let names = columns.iter().map(|column| format!("`{}`", short(&column.name)));
        let hint = format!("The result has {}.", names.collect::<Vec<_>>().join(", "));
        let message = format!("the result has no column `{}`", short(&text));
        self.faults.push(Fault::at(node.span(), message).hint(hint));
        None
    }
}

/// True if it is reckoned from SUM, MIN or MAX, as they come.
fn is_of_sums(expr: &Expr, body: &Body) -> bool {
    match (expr, body) {
        (Expr::Slot(slot), Body::Group(group)) => {
            let aggregate = slot.checked_sub(group.keys.len()).and_then(|at| group.aggregates.get(at));
            aggregate.is_some_and(|aggregate| {
                use AggregateFunction::{Max, Min, Sum};
                matches!(aggregate.function, Sum | Min | Max)
            })
        }
        (Expr::Call { function, args }, _) => {
            use Function::{Add, Divide, Multiply, Subtract};
            matches!(function, Add | Subtract | Multiply | Divide)
                && args.iter().any(|arg| is_of_sums(arg, body))
        }
        _ => false,
    }
}

fn columns_of(body: &mut Body) -> &mut Vec<OutputColumn> {
    match body {
        Body::Raw(raw) => &mut raw.columns,
        Body::Group(group) => &mut group.columns,
    }
}
