//! Translates syntax to plan, one expression at a time.
//!
//! Names become paths or slots, and operators become calls; types are determined on the way.

use swiftwater_event::Type;

use super::{
    Planner,
    check::{self, Ty},
    columns::ColumnValue,
    result::list_of,
};
use crate::{
    Dialect,
    ast::{Binary, Builtin, Node, NodeKind, Unary},
    parser::DEPTH_MAX,
    plan::{Aggregate, AggregateFunction, Comparison, Expr, Function, Literal, Quantifier},
    source::Fault,
};

/// The meaning of names at the place of an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// Paths into the event.
    Event,
    /// ORDER BY of a RAW query: output columns, else paths into the event.
    RawOrder,
    /// A select item over groups: keys, else other columns.
    GroupItem,
    /// HAVING and ORDER BY over groups: output columns, else keys. (HAVING in Bullet: as an item.)
    GroupOrder,
    /// Measures and conditions of a pattern: of the events that a match has taken.
    Match,
}

impl Scope {
    pub(super) fn is_group(self) -> bool {
        matches!(self, Scope::GroupItem | Scope::GroupOrder)
    }
}

/// An expression and what is known of its type.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Typed {
    pub(super) expr: Expr,
    pub(super) ty: Ty,
}

/// The most parts of expressions that are copied to where a column's name, or the operand of CASE, stands for them.
const COPIES_MAX: usize = 100_000;

impl Planner<'_> {
    /// `None`: it has a fault, which is noted.
    pub(super) fn lower(&mut self, node: &Node, scope: Scope) -> Option<Typed> {
        if let NodeKind::Parens(inner) = &node.kind
            && self.dialect == Dialect::Native
        {
            return self.lower(inner, scope);
        }
        if let Some(found) = self.resolved(node, scope) {
            return found;
        }
        match &node.kind {
            NodeKind::Parens(inner) => self.lower(inner, scope),
            NodeKind::Literal(literal) => Some(self.literal(literal.clone())),
            NodeKind::Now if self.only_slots.is_some() => {
                Some(Typed { expr: Expr::Slot(self.view_columns.len()), ty: Ty::Known(Type::LONG) })
            }
            NodeKind::Now => Some(self.literal(Literal::Long(self.now))),
            NodeKind::Name(_) | NodeKind::Member(..) | NodeKind::Index(..) | NodeKind::Hint(..) => {
                self.path(node, None, scope)
            }
            NodeKind::Unary(Unary::Not, operand) => self.call(Function::Not, [&**operand], scope),
            NodeKind::Unary(Unary::SizeOf, operand) => self.call(Function::SizeOf, [&**operand], scope),
            NodeKind::Unary(Unary::Minus, operand) => {
                // -1 * x rather than 0 - x, which is not -0.0 for 0.0.
                let operand = self.lower(operand, scope)?;
                let minus_one = self.literal(Literal::Integer(-1));
                Some(self.typed_call(Function::Multiply, vec![minus_one, operand]))
            }
            NodeKind::Binary(operator, left, right) => {
                self.call(binary_function(*operator), [&**left, &**right], scope)
            }
            NodeKind::And(operands) => self.call(Function::And, operands, scope),
            NodeKind::Or(operands) => self.call(Function::Or, operands, scope),
            NodeKind::IsNull { operand, negated } => {
                let function = if *negated { Function::IsNotNull } else { Function::IsNull };
                self.call(function, [&**operand], scope)
            }
            NodeKind::InList { value, list, negated } => {
                let value = self.lower(value, scope);
                let list: Vec<_> = list.iter().map(|element| self.lower(element, scope)).collect();
                let list: Option<Vec<_>> = list.into_iter().collect();
                let list = list.map(|list| self.typed_call(Function::List, list));
                let args = vec![value?, list?];
                Some(self.typed_call(Function::In { negated: *negated }, args))
            }
            NodeKind::Between { value, bounds, negated } => {
                let operands = [&**value, &bounds[0], &bounds[1]];
                self.call(Function::Between { negated: *negated }, operands, scope)
            }
            NodeKind::List(elements) if elements.is_empty() => {
                self.unknown_for(Fault::at(node.span, "a list cannot be empty"))
            }
            NodeKind::List(elements) => self.call(Function::List, elements, scope),
            NodeKind::Call(Builtin::UnixTimestamp, args)
                if args.is_empty() && self.dialect == Dialect::Native =>
            {
                Some(self.literal(Literal::Long(self.now.div_euclid(1000))))
            }
            NodeKind::Call(Builtin::First | Builtin::Last, _) => self.fault(Fault::at(
                node.span,
                "FIRST and LAST are not allowed inside each other or inside an aggregate",
            )),
            NodeKind::Call(Builtin::Search, args) if (1..=2).contains(&args.len()) => {
                self.search(node, args, scope)
            }
            NodeKind::Call(builtin, args) => self.builtin(node, *builtin, args, scope),
            NodeKind::Cast(operand, ty) => self.call(Function::Cast(ty.clone()), [&**operand], scope),
            NodeKind::Case { operand, arms, otherwise } => {
                self.case(node, operand.as_deref(), arms, otherwise.as_deref(), scope)
            }
            NodeKind::Aggregate { function, arguments, filter } => {
                self.aggregate(node, *function, arguments, filter.as_deref(), scope)
            }
            NodeKind::Grouping(keys) => self.grouping(node, keys, scope),
            NodeKind::Table { .. } if self.lists_rows => self.listed(node, scope),
            NodeKind::Table { .. } => self.unknown_for(Fault::at(
                node.span,
                "a function that returns rows is allowed in the select list \
                     only",
            )),
        }
    }

    fn literal(&self, literal: Literal) -> Typed {
        Typed { ty: Ty::of(&literal), expr: Expr::Literal(literal) }
    }

    /// Lowers all operands, so that the faults of all are noted, and calls the function on them.
    fn call<'n>(
        &mut self,
        function: Function,
        operands: impl IntoIterator<Item = &'n Node>,
        scope: Scope,
    ) -> Option<Typed> {
        let operands: Vec<_> = operands.into_iter().map(|operand| self.lower(operand, scope)).collect();
        let operands: Option<Vec<_>> = operands.into_iter().collect();
        Some(self.typed_call(function, operands?))
    }

    /// A function by name: first, that it has as many arguments as it takes. (The faults of those are noted too.)
    fn builtin(&mut self, node: &Node, builtin: Builtin, args: &[Node], scope: Scope) -> Option<Typed> {
        let (fewest, most) = builtin.arity();
        if args.len() >= fewest && args.len() <= most {
            return self.call(builtin_function(builtin), args, scope);
        }
        let takes = match (fewest, most) {
            (1, 1) => "1 argument".to_owned(),
            (1, usize::MAX) => "at least 1 argument".to_owned(),
            (fewest, most) if fewest == most => format!("{fewest} arguments"),
            (fewest, most) => format!("{fewest} to {most} arguments"),
        };
        for arg in args {
            self.lower(arg, scope);
        }
        let message = format!("{} takes {takes}, not {}", builtin.text(), args.len());
        self.unknown_for(Fault::at(node.span, message))
    }

    /// Bullet's rules about operands have been checked before ([`super::bullet_check`]).
    pub(super) fn typed_call(&mut self, function: Function, operands: Vec<Typed>) -> Typed {
        let (exprs, types): (Vec<_>, Vec<_>) =
            operands.into_iter().map(|typed| (typed.expr, typed.ty)).unzip();
        let (ty, _) = check::result(&function, &types, self.dialect);
        // AND within AND is one AND, likewise OR, whatever parentheses say.
        let flattens = matches!(function, Function::And | Function::Or);
        let mut args = Vec::with_capacity(exprs.len());
        for expr in exprs {
            match expr {
                Expr::Call { function: inner, args: inner_args } if flattens && inner == function => {
                    args.extend(inner_args);
                }
                other => args.push(other),
            }
        }
        Typed { expr: Expr::Call { function, args }, ty }
    }

    fn case(
        &mut self,
        node: &Node,
        operand: Option<&Node>,
        arms: &[(Node, Node)],
        otherwise: Option<&Node>,
        scope: Scope,
    ) -> Option<Typed> {
        let operand = match operand {
            Some(operand) => Some(self.lower(operand, scope)?),
            None => None,
        };
        if let Some(operand) = &operand {
            let copies = operand.expr.size() * arms.len();
            self.may_copy(node, copies)?;
        }
        let mut args = Some(Vec::with_capacity(arms.len() * 2 + 1));
        let mut push = |typed: Option<Typed>| match (typed, &mut args) {
            (Some(typed), Some(args)) => args.push(typed),
            _ => args = None,
        };
        for (when, then) in arms {
            let condition = self.lower(when, scope);
            push(match (condition, &operand) {
                (Some(value), Some(operand)) => {
                    let function = Function::Compare(Comparison::Eq, Quantifier::One);
                    Some(self.typed_call(function, vec![operand.clone(), value]))
                }
                (condition, _) => condition,
            });
            push(self.lower(then, scope));
        }
        push(match otherwise {
            Some(otherwise) => self.lower(otherwise, scope),
            None => Some(Typed { expr: Expr::Literal(Literal::Null), ty: Ty::Null }),
        });
        Some(self.typed_call(Function::Case, args?))
    }

    fn may_copy(&mut self, node: &Node, parts: usize) -> Option<()> {
        self.copies += parts;
        if self.copies <= COPIES_MAX {
            return Some(());
        }
        self.fault(
            Fault::at(node.span, "this expression is too large").hint("Name fewer columns within columns."),
        )
    }

    fn aggregate(
        &mut self,
        node: &Node,
        function: AggregateFunction,
        arguments: &[Node],
        filter: Option<&Node>,
        scope: Scope,
    ) -> Option<Typed> {
        if !scope.is_group() {
            return self.fault(Fault::at(node.span, "an aggregate is not allowed here"));
        }
        let typed: Vec<_> = arguments.iter().map(|argument| self.lower(argument, Scope::Event)).collect();
        let filter = filter.map(|filter| self.lower(filter, Scope::Event));
        let typed: Option<Vec<Typed>> = typed.into_iter().collect();
        let typed = typed?;
        let first = typed.first().map_or(Ty::Unknown, |first| first.ty.clone());
        let exprs = typed.into_iter().map(|typed| typed.expr).collect();
        use AggregateFunction as Of;
        let ty = match (function, self.dialect) {
            (Of::First | Of::Last | Of::ArgMin | Of::ArgMax, _) => first,
            (Of::CollectList { .. } | Of::CollectSet { .. }, _) => list_of(first),
            (AggregateFunction::Count | AggregateFunction::CountDistinct, _) => Ty::Known(Type::LONG),
            (AggregateFunction::Avg | AggregateFunction::Percentile { .. }, _) | (_, Dialect::Bullet) => {
                Ty::Known(Type::DOUBLE)
            }
            _ => Ty::Unknown,
        };
        let filter = match filter {
            Some(filter) => Some(filter?.expr),
            None => None,
        };
        let aggregate = Aggregate { function, arguments: exprs, filter };
        let place = self.aggregates.iter().position(|other| *other == aggregate).unwrap_or_else(|| {
            self.aggregates.push(aggregate);
            self.aggregates.len() - 1
        });
        Some(Typed { expr: Expr::Slot(self.keys.len() + place), ty })
    }

    /// The placeholder for an expression whose fault is recorded.
    pub(super) fn unknown(&self) -> Typed {
        Typed { expr: Expr::Literal(Literal::Null), ty: Ty::Unknown }
    }

    /// Records a fault. In Bullet's dialect, where all that is wrong was told before, what has one is null: Bullet
    /// takes for a column what it does not find later.
    pub(super) fn unknown_for(&mut self, fault: Fault) -> Option<Typed> {
        if self.dialect == Dialect::Bullet {
            return Some(self.unknown());
        }
        self.fault(fault)
    }

    // ---- names

    /// Resolves a node that is as a whole a key, or an output column, so that its parts are not examined.
    /// `Some(None)`: a fault, which is noted.
    pub(super) fn resolved(&mut self, node: &Node, scope: Scope) -> Option<Option<Typed>> {
        if self.dialect == Dialect::Bullet {
            return self.bullet_resolved(node, scope);
        }
        match scope {
            Scope::Event => None,
            Scope::Match => self.measured(node),
            Scope::RawOrder | Scope::GroupOrder => {
                let column = match &node.kind {
                    NodeKind::Name(name) => self.column_named(name).or_else(|| self.column_of_text(node)),
                    NodeKind::Literal(_) => None,
                    _ => self.column_of_text(node),
                };
                match column {
                    Some(column) => Some(self.column(node, column)),
                    None if scope == Scope::GroupOrder => self.aggregation_output(node).map(Some),
                    None => None,
                }
            }
            Scope::GroupItem => {
                if let Some(given) = self.aggregation_output(node) {
                    return Some(Some(given));
                }
                let NodeKind::Name(name) = &node.kind else { return None };
                let column = self.column_named(name).or_else(|| self.column_of_text(node))?;
                // A column that names itself names something else, which is then not found.
                if matches!(self.values[column], ColumnValue::Underway) {
                    return None;
                }
                Some(self.column(node, column))
            }
        }
    }

    /// The output of the aggregation of this name or text: a key, or a column of an aggregate that returns rows.
    fn aggregation_output(&mut self, node: &Node) -> Option<Typed> {
        if matches!(node.kind, NodeKind::Literal(_)) {
            return self.key(node);
        }
        self.key(node).or_else(|| self.table_column(node))
    }

    /// The key that this is, if it is one.
    fn key(&mut self, node: &Node) -> Option<Typed> {
        if self.keys.is_empty() || node.aggregate().is_some() {
            return None;
        }
        let typed = self.try_plan(|planner| planner.lower(node, Scope::Event))?;
        let place = self.keys.iter().position(|key| key.expr == typed.expr)?;
        Some(Typed { expr: Expr::Slot(place), ty: self.keys[place].ty.clone() })
    }

    /// The output column whose expression has this text.
    fn column_of_text(&self, node: &Node) -> Option<usize> {
        self.columns_by_text.get(&self.text_of(node)).copied()
    }

    /// The value of an output column, to replace its name or text.
    pub(super) fn column(&mut self, node: &Node, column: usize) -> Option<Typed> {
        let Some(typed) = self.column_value(column) else {
            if let ColumnValue::Done(None) = self.values[column] {
                return None; // It has faults of its own.
            }
            return self
                .fault(Fault::at(node.span, "this column cannot be named here: it would contain itself"));
        };
        let (size, depth) = (typed.expr.size(), typed.expr.depth());
        if depth > DEPTH_MAX {
            return self
                .fault(Fault::at(node.span, "this column is too deeply nested to be named within another"));
        }
        self.may_copy(node, size)?;
        Some(typed)
    }
}

pub(super) fn binary_function(operator: Binary) -> Function {
    match operator {
        Binary::Add => Function::Add,
        Binary::Subtract => Function::Subtract,
        Binary::Multiply => Function::Multiply,
        Binary::Divide => Function::Divide,
        Binary::Remainder => Function::Remainder,
        Binary::Concat => Function::Concat,
        Binary::Compare(comparison, quantifier) => Function::Compare(comparison, quantifier),
        Binary::RLike { any, negated } => Function::RLike { any, negated },
        Binary::Like { negated } => Function::Like { negated },
        Binary::In { negated } => Function::In { negated },
        Binary::Xor => Function::Xor,
    }
}

pub(super) fn builtin_function(builtin: Builtin) -> Function {
    match builtin {
        Builtin::SizeIs => Function::SizeIs,
        Builtin::SizeOf => Function::SizeOf,
        Builtin::ContainsKey => Function::ContainsKey,
        Builtin::ContainsValue => Function::ContainsValue,
        Builtin::Filter => Function::Filter,
        Builtin::If => Function::If,
        Builtin::Coalesce => Function::Coalesce,
        Builtin::Search => Function::Search,
        Builtin::Abs => Function::Abs,
        Builtin::Trim => Function::Trim,
        Builtin::Lower => Function::Lower,
        Builtin::Upper => Function::Upper,
        Builtin::Substring => Function::Substring,
        Builtin::UnixTimestamp => Function::UnixTimestamp,
        Builtin::Hash => Function::Hash,
        Builtin::Between => Function::Between { negated: false },
        // They are measures of patterns, and refused anywhere else before.
        Builtin::First | Builtin::Last => Function::Coalesce,
    }
}
