//! Syntax to plan, one expression at a time: names become paths or slots, operators become calls, types are worked
//! out along the way.

use swiftwater_event::{Path, Step, Type};

use super::{
    ColumnValue, Planner,
    check::{self, Ty},
};
use crate::{
    Dialect,
    ast::{Binary, Builtin, Name, Node, NodeKind, Unary},
    keyword::did_you_mean,
    lexer::short,
    parser::DEPTH_MAX,
    plan::{Aggregate, AggregateFunction, Comparison, Expr, Function, Literal, Quantifier},
    source::Fault,
};

/// What names mean where an expression stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// Paths into the event.
    Event,
    /// ORDER BY of a RAW query: output columns, else paths into the event.
    RawOrder,
    /// A select item over groups: keys, else other columns.
    GroupItem,
    /// HAVING and ORDER BY over groups: output columns, else keys.
    GroupResult,
}

impl Scope {
    fn is_group(self) -> bool {
        matches!(self, Scope::GroupItem | Scope::GroupResult)
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
        if let NodeKind::Parens(inner) = &node.kind {
            return self.lower(inner, scope);
        }
        if let Some(found) = self.resolved(node, scope) {
            return found;
        }
        match &node.kind {
            NodeKind::Parens(inner) => self.lower(inner, scope),
            NodeKind::Literal(literal) => Some(self.literal(literal.clone())),
            NodeKind::Now => Some(self.literal(Literal::Long(self.options.now))),
            NodeKind::Name(_) | NodeKind::Member(..) | NodeKind::Index(..) | NodeKind::Hint(..) => {
                self.path(node, None, scope)
            }
            NodeKind::Unary(Unary::Not, operand) => self.call(node, Function::Not, [&**operand], scope),
            NodeKind::Unary(Unary::Minus, operand) => {
                // -1 * x rather than 0 - x, which is not -0.0 for 0.0.
                let operand = self.lower(operand, scope)?;
                let minus_one = self.literal(Literal::Integer(-1));
                Some(self.typed_call(node, Function::Multiply, vec![minus_one, operand]))
            }
            NodeKind::Binary(operator, left, right) => {
                self.call(node, binary_function(*operator), [&**left, &**right], scope)
            }
            NodeKind::And(operands) => self.call(node, Function::And, operands, scope),
            NodeKind::Or(operands) => self.call(node, Function::Or, operands, scope),
            NodeKind::IsNull { operand, negated } => {
                let function = if *negated { Function::IsNotNull } else { Function::IsNull };
                self.call(node, function, [&**operand], scope)
            }
            NodeKind::InList { value, list, negated } => {
                let value = self.lower(value, scope);
                let list = self.call(node, Function::List, list, scope);
                let args = vec![value?, list?];
                Some(self.typed_call(node, Function::In { negated: *negated }, args))
            }
            NodeKind::Between { value, bounds, negated } => {
                let operands = [&**value, &bounds[0], &bounds[1]];
                self.call(node, Function::Between { negated: *negated }, operands, scope)
            }
            NodeKind::List(elements) => self.call(node, Function::List, elements, scope),
            NodeKind::Call(Builtin::UnixTimestamp, args)
                if args.is_empty() && self.dialect == Dialect::Native =>
            {
                Some(self.literal(Literal::Long(self.options.now.div_euclid(1000))))
            }
            NodeKind::Call(builtin, args) => self.call(node, builtin_function(*builtin), args, scope),
            NodeKind::Cast(operand, ty) => self.call(node, Function::Cast(ty.clone()), [&**operand], scope),
            NodeKind::Case { operand, arms, otherwise } => {
                self.case(node, operand.as_deref(), arms, otherwise.as_deref(), scope)
            }
            NodeKind::Aggregate { function, argument } => {
                self.aggregate(node, *function, argument.as_deref(), scope)
            }
        }
    }

    fn literal(&self, literal: Literal) -> Typed {
        Typed { ty: Ty::of(&literal), expr: Expr::Literal(literal) }
    }

    /// Lowers all operands, so that the faults of all are noted, and calls the function on them.
    fn call<'n>(
        &mut self,
        node: &Node,
        function: Function,
        operands: impl IntoIterator<Item = &'n Node>,
        scope: Scope,
    ) -> Option<Typed> {
        let operands: Vec<_> = operands.into_iter().map(|operand| self.lower(operand, scope)).collect();
        let operands: Option<Vec<_>> = operands.into_iter().collect();
        Some(self.typed_call(node, function, operands?))
    }

    fn typed_call(&mut self, node: &Node, function: Function, operands: Vec<Typed>) -> Typed {
        let (exprs, types): (Vec<_>, Vec<_>) =
            operands.into_iter().map(|typed| (typed.expr, typed.ty)).unzip();
        let (ty, broken) = check::result(&function, &types);
        if self.dialect == Dialect::Bullet {
            for rule in broken {
                let text = short(&self.text_of(node));
                self.faults.push(Fault::at(node.span, format!("`{text}` {rule}")));
            }
        }
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
                    Some(self.typed_call(when, function, vec![operand.clone(), value]))
                }
                (condition, _) => condition,
            });
            push(self.lower(then, scope));
        }
        push(match otherwise {
            Some(otherwise) => self.lower(otherwise, scope),
            None => Some(Typed { expr: Expr::Literal(Literal::Null), ty: Ty::Null }),
        });
        Some(self.typed_call(node, Function::Case, args?))
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
        argument: Option<&Node>,
        scope: Scope,
    ) -> Option<Typed> {
        if !scope.is_group() {
            return self.fault(Fault::at(node.span, "an aggregate cannot stand here"));
        }
        let mut arguments = Vec::new();
        if let Some(argument) = argument {
            if let Some(inner) = argument.aggregate() {
                return self.fault(Fault::at(inner.span, "an aggregate cannot stand within an aggregate"));
            }
            let typed = self.lower(argument, Scope::Event)?;
            if self.dialect == Dialect::Bullet && !typed.ty.may_be_numeric_or_boolean() {
                let text = short(&self.text_of(node));
                let message = format!("`{text}` needs a number or BOOLEAN, not {}", typed.ty);
                self.faults.push(Fault::at(node.span, message));
            }
            arguments.push(typed.expr);
        }
        let ty = match (function, self.dialect) {
            (AggregateFunction::Count | AggregateFunction::CountDistinct, _) => Ty::Known(Type::LONG),
            (AggregateFunction::Avg | AggregateFunction::Percentile { .. }, _) | (_, Dialect::Bullet) => {
                Ty::Known(Type::DOUBLE)
            }
            _ => Ty::Unknown,
        };
        let aggregate = Aggregate { function, arguments, filter: None };
        let place = self.aggregates.iter().position(|other| *other == aggregate).unwrap_or_else(|| {
            self.aggregates.push(aggregate);
            self.aggregates.len() - 1
        });
        Some(Typed { expr: Expr::Slot(self.keys.len() + place), ty })
    }

    // ---- names

    /// What a node is as a whole, where that is not found by looking into it: a key, or an output column.
    /// `Some(None)`: a fault, which is noted.
    fn resolved(&mut self, node: &Node, scope: Scope) -> Option<Option<Typed>> {
        match scope {
            Scope::Event => None,
            Scope::RawOrder | Scope::GroupResult => {
                let column = match &node.kind {
                    NodeKind::Name(name) => self.column_named(name).or_else(|| self.column_of_text(node)),
                    NodeKind::Literal(_) => None,
                    _ => self.column_of_text(node),
                };
                match column {
                    Some(column) => Some(self.column(node, column)),
                    None if scope == Scope::GroupResult => self.key(node).map(Some),
                    None => None,
                }
            }
            Scope::GroupItem => {
                if let Some(key) = self.key(node) {
                    return Some(Some(key));
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

    /// The key that this is, if it is one.
    fn key(&mut self, node: &Node) -> Option<Typed> {
        if self.keys.is_empty() || node.aggregate().is_some() {
            return None;
        }
        let faults = self.faults.len();
        let copies = self.copies;
        let typed = self.lower(node, Scope::Event);
        self.faults.truncate(faults);
        self.copies = copies;
        let typed = typed?;
        let place = self.keys.iter().position(|key| key.expr == typed.expr)?;
        Some(Typed { expr: Expr::Slot(place), ty: self.keys[place].ty.clone() })
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

    /// The output column whose expression has this text.
    fn column_of_text(&self, node: &Node) -> Option<usize> {
        self.columns_by_text.get(&self.text_of(node)).copied()
    }

    /// What an output column holds, to stand where its name or text stands.
    fn column(&mut self, node: &Node, column: usize) -> Option<Typed> {
        let Some(typed) = self.column_value(column) else {
            if let ColumnValue::Done(None) = self.values[column] {
                return None; // It has faults of its own.
            }
            return self
                .fault(Fault::at(node.span, "this column cannot be named here: it would hold itself"));
        };
        let (size, depth) = (typed.expr.size(), typed.expr.depth());
        if depth > DEPTH_MAX {
            return self
                .fault(Fault::at(node.span, "this column is too deeply nested to be named within another"));
        }
        self.may_copy(node, size)?;
        Some(typed)
    }

    /// A path into the event, or steps into what a name or expression stands for. `root` is the type hint.
    fn path(&mut self, node: &Node, root: Option<&Type>, scope: Scope) -> Option<Typed> {
        match &node.kind {
            NodeKind::Hint(base, ty) => self.path(base, Some(ty), scope),
            NodeKind::Name(name) => self.name(node, name, root, scope),
            NodeKind::Member(base, name) => {
                let base = self.base(base, root, scope)?;
                self.step(node, base, Step::Key(name.text.clone()))
            }
            NodeKind::Index(base, index) => {
                let base = self.base(base, root, scope);
                let index = self.lower(index, scope);
                let (base, index) = (base?, index?);
                match &index.expr {
                    Expr::Literal(Literal::String(key)) => self.step(node, base, Step::Key(key.clone())),
                    Expr::Literal(Literal::Integer(place)) if *place >= 0 => {
                        self.step(node, base, Step::Index(place.unsigned_abs()))
                    }
                    Expr::Literal(Literal::Long(place)) if u32::try_from(*place).is_ok() => {
                        self.step(node, base, Step::Index(*place as u32))
                    }
                    _ => Some(self.typed_call(node, Function::Element, vec![base, index])),
                }
            }
            _ => self.lower(node, scope),
        }
    }

    /// The base of a step: also as a whole it may be a key or a column.
    fn base(&mut self, base: &Node, root: Option<&Type>, scope: Scope) -> Option<Typed> {
        match self.resolved(base.bare(), scope) {
            Some(found) => found,
            None => self.path(base, root, scope),
        }
    }

    fn name(&mut self, node: &Node, name: &Name, root: Option<&Type>, scope: Scope) -> Option<Typed> {
        if scope.is_group() && self.keys_are_faulty {
            return None;
        }
        if scope.is_group() {
            let what =
                format!("`{}` is neither a key of the groups nor within an aggregate", short(&name.text));
            let hint = "Name it in GROUP BY, or take it within an aggregate like MIN(…) or MAX(…).";
            return self.fault(Fault::at(node.span, what).hint(hint));
        }
        let mut field = name.text.clone();
        let mut ty = Type::Any;
        if let Some(root) = root {
            if !self.dialect.hints_convert() {
                let declared = self.options.schema.and_then(|schema| schema.field(&name.text));
                let wanted = declared.cloned().unwrap_or(Type::Any);
                let expr = Expr::Path { path: Path::field(field), ty: wanted };
                return Some(Typed { expr, ty: root.clone().into() });
            }
            ty = root.clone();
        } else if let Some(schema) = self.options.schema {
            match self.schema_field(name) {
                Some(found) => {
                    ty = schema.field(&found).cloned().unwrap_or(Type::Any);
                    field = found;
                }
                None if self.dialect == Dialect::Bullet => {
                    let near = did_you_mean(&name.text, schema.fields().map(|(name, _)| name));
                    let fault = Fault::at(node.span, format!("there is no field `{}`", short(&name.text)));
                    return self.fault(match near {
                        Some(near) => fault.hint(format!("Did you mean `{near}`?")),
                        None if name.quoted => fault.hint("Text goes into single quotes."),
                        None => fault,
                    });
                }
                None => {}
            }
        }
        Some(Typed { expr: Expr::Path { path: Path::field(field), ty: ty.clone() }, ty: ty.into() })
    }

    /// The declared field of this name: exactly, else (native, unquoted) whatever the letter case if that is unique.
    fn schema_field(&self, name: &Name) -> Option<Box<str>> {
        let schema = self.options.schema?;
        if schema.field(&name.text).is_some() {
            return Some(name.text.clone());
        }
        if name.quoted || !self.dialect.folds_names() {
            return None;
        }
        match self.fields_by_folded_name.get(&name.text.to_lowercase()) {
            Some(Some(field)) => Some(field.clone()),
            _ => None,
        }
    }

    /// One constant step down.
    fn step(&mut self, node: &Node, base: Typed, step: Step) -> Option<Typed> {
        let inner = match (&base.ty, &step) {
            (Ty::Unknown, _) => Type::Any,
            (Ty::Known(Type::Map(inner)), Step::Key(_)) => (**inner).clone(),
            (Ty::Known(Type::List(inner)), Step::Index(_)) => (**inner).clone(),
            (ty, _) => {
                let what = match step {
                    Step::Key(_) => "keys",
                    Step::Index(_) => "elements",
                };
                let text = short(&self.text_of(node));
                return self.fault(Fault::at(
                    node.span,
                    format!("`{text}` cannot be: a value of type {ty} has no {what}"),
                ));
            }
        };
        let ty = inner.into();
        let expr = match base.expr {
            Expr::Path { path, ty: wanted } => {
                let wanted = match (wanted, &step) {
                    (Type::Map(inner), Step::Key(_)) | (Type::List(inner), Step::Index(_)) => *inner,
                    _ => Type::Any,
                };
                Expr::Path { path: path.then(step), ty: wanted }
            }
            other => {
                let step = match step {
                    Step::Key(key) => Literal::String(key),
                    Step::Index(place) => match i32::try_from(place) {
                        Ok(place) => Literal::Integer(place),
                        Err(_) => Literal::Long(i64::from(place)),
                    },
                };
                Expr::Call { function: Function::Element, args: vec![other, Expr::Literal(step)] }
            }
        };
        Some(Typed { expr, ty })
    }

    /// Notes a fault.
    pub(super) fn fault<T>(&mut self, fault: Fault) -> Option<T> {
        self.faults.push(fault);
        None
    }
}

fn binary_function(operator: Binary) -> Function {
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

fn builtin_function(builtin: Builtin) -> Function {
    match builtin {
        Builtin::SizeIs => Function::SizeIs,
        Builtin::SizeOf => Function::SizeOf,
        Builtin::ContainsKey => Function::ContainsKey,
        Builtin::ContainsValue => Function::ContainsValue,
        Builtin::Filter => Function::Filter,
        Builtin::If => Function::If,
        Builtin::Coalesce => Function::Coalesce,
        Builtin::Abs => Function::Abs,
        Builtin::Trim => Function::Trim,
        Builtin::Lower => Function::Lower,
        Builtin::Upper => Function::Upper,
        Builtin::Substring => Function::Substring,
        Builtin::UnixTimestamp => Function::UnixTimestamp,
        Builtin::Hash => Function::Hash,
        Builtin::Between => Function::Between { negated: false },
    }
}
