//! Determines the types of expressions as Bullet does; an expression with an error has the type that it would have
//! without it.

use swiftwater_event::Type;

use super::{Checker, ResolvedName};
use crate::{
    Dialect,
    ast::{Builtin, Node, NodeKind, Unary},
    lexer::short,
    names::{list_name, node_name},
    plan::{AggregateFunction, Function, Literal},
    planner::{
        check::{self, Ty},
        lower,
    },
    source::{Fault, Span},
};

impl Checker {
    /// The type of an expression; `root` is the hint for the name that a path begins with.
    pub(super) fn ty(&mut self, node: &Node, root: Option<&Type>) -> Ty {
        match (&node.kind, root) {
            (NodeKind::Hint(base, ty), _) => return self.ty(base, Some(ty)),
            (NodeKind::Name(_), Some(root)) => return root.clone().into(),
            _ => {}
        }
        if let Some(ResolvedName::Field(ty)) = self.find_text(node) {
            return ty;
        }
        match &node.kind {
            NodeKind::Hint(inner, _) | NodeKind::Parens(inner) => self.ty(inner, root),
            NodeKind::Literal(literal) => Ty::of(literal),
            NodeKind::Now => Ty::Known(Type::LONG),
            NodeKind::Name(name) => {
                if self.find(&name.text, false).is_none() {
                    self.unknown(node, &name.text, name.quoted);
                }
                Ty::Unknown
            }
            NodeKind::Member(base, _) => {
                let base = self.ty(base, root);
                self.key_step(node, base)
            }
            NodeKind::Index(base, index) => self.step(node, base, index, root),
            NodeKind::Unary(operator, operand) => {
                let function = match operator {
                    Unary::Not => Function::Not,
                    Unary::SizeOf => Function::SizeOf,
                    Unary::Minus => Function::Multiply,
                };
                self.call(node, function, [&**operand])
            }
            NodeKind::Binary(operator, left, right) => {
                let function = lower::binary_function(*operator);
                self.call(node, function, [&**left, &**right])
            }
            NodeKind::And(operands) => self.junction(node, Function::And, operands),
            NodeKind::Or(operands) => self.junction(node, Function::Or, operands),
            NodeKind::IsNull { operand, .. } => self.call(node, Function::IsNull, [&**operand]),
            NodeKind::InList { value, list, .. } => {
                let value = self.ty(value, None);
                let types: Vec<Ty> = list.iter().map(|element| self.ty(element, None)).collect();
                let span = match &**list {
                    [first, .., last] => first.span.to(last.span),
                    [only] => only.span,
                    [] => node.span,
                };
                let now = Some(self.now);
                let list = self.result(span, Function::List, &types, || list_name(list, now));
                self.call_on(node, Function::In { negated: false }, &[value, list])
            }
            NodeKind::Between { value, bounds, .. } => {
                let function = Function::Between { negated: false };
                self.call(node, function, [&**value, &bounds[0], &bounds[1]])
            }
            NodeKind::List(elements) if elements.is_empty() => {
                self.record_fault(Fault::at(node.span, "a list cannot be empty"));
                Ty::Unknown
            }
            NodeKind::List(elements) => self.call(node, Function::List, elements),
            NodeKind::Call(builtin, args) => self.builtin(node, *builtin, args),
            NodeKind::Cast(operand, ty) => self.call(node, Function::Cast(ty.clone()), [&**operand]),
            NodeKind::Aggregate { function, arguments, .. } => self.aggregate(node, *function, arguments),
            // These are not of this dialect; the planner reports their faults.
            NodeKind::Case { .. } | NodeKind::Grouping(_) | NodeKind::Table { .. } => Ty::Unknown,
        }
    }

    fn call<'n>(
        &mut self,
        node: &Node,
        function: Function,
        operands: impl IntoIterator<Item = &'n Node>,
    ) -> Ty {
        let types: Vec<Ty> = operands.into_iter().map(|operand| self.ty(operand, None)).collect();
        self.call_on(node, function, &types)
    }

    fn call_on(&mut self, node: &Node, function: Function, types: &[Ty]) -> Ty {
        let now = Some(self.now);
        self.result(node.span, function, types, || node_name(node, now))
    }

    /// The type of a function's result for checks; a call with a fault or an unknown operand has a type of its own.
    fn result(&mut self, span: Span, function: Function, types: &[Ty], text: impl FnOnce() -> String) -> Ty {
        let (ty, broken) = check::result(&function, types, Dialect::Bullet);
        let is_unsure = !broken.is_empty() || types.contains(&Ty::Unknown);
        if !broken.is_empty() {
            let text = text();
            for rule in broken {
                self.record_fault(Fault::at(span, format!("`{}` {rule}", short(&text))));
            }
        }
        match function {
            Function::Add
            | Function::Subtract
            | Function::Multiply
            | Function::Divide
            | Function::Remainder
            | Function::Abs
                if is_unsure =>
            {
                Ty::Known(Type::DOUBLE)
            }
            Function::If | Function::Filter | Function::List if is_unsure => Ty::Unknown,
            _ => ty,
        }
    }

    /// AND and OR have two operands each, whatever stands in a row.
    fn junction(&mut self, node: &Node, function: Function, operands: &[Node]) -> Ty {
        let mut left: Option<Ty> = None;
        for (place, operand) in operands.iter().enumerate() {
            let right = self.ty(operand, None);
            let Some(left) = left.replace(Ty::Known(Type::BOOLEAN)) else {
                left = Some(right);
                continue;
            };
            let now = Some(self.now);
            self.result(node.span, function.clone(), &[left, right], || {
                let names: Vec<String> =
                    operands[..=place].iter().map(|operand| node_name(operand, now)).collect();
                names.join(if function == Function::And { " AND " } else { " OR " })
            });
        }
        Ty::Known(Type::BOOLEAN)
    }

    /// A function by name. If an operand is unknown, the number of operands is not checked either.
    fn builtin(&mut self, node: &Node, builtin: Builtin, args: &[Node]) -> Ty {
        let types: Vec<Ty> = args.iter().map(|arg| self.ty(arg, None)).collect();
        let (fewest, most) = builtin.arity();
        let function = lower::builtin_function(builtin);
        if (fewest..=most).contains(&args.len()) {
            return self.call_on(node, function, &types);
        }
        if !types.contains(&Ty::Unknown) {
            let text = short(&node_name(node, Some(self.now)));
            let takes = match (fewest, most) {
                (1, 1) => "1 argument".to_owned(),
                (fewest, most) if fewest == most => format!("{fewest} arguments"),
                (fewest, most) => format!("{fewest} to {most} arguments"),
            };
            let message = format!("{} takes {takes}, not {}: `{text}`", builtin.text(), args.len());
            self.record_fault(Fault::at(node.span, message));
        }
        match function {
            Function::If | Function::Filter => Ty::Unknown,
            Function::Abs => Ty::Known(Type::DOUBLE),
            function => check::result_type(&function, &types),
        }
    }

    fn aggregate(&mut self, node: &Node, function: AggregateFunction, arguments: &[Node]) -> Ty {
        let types: Vec<Ty> = arguments.iter().map(|argument| self.ty(argument, None)).collect();
        let is_unknown = types.contains(&Ty::Unknown);
        let fits = match function {
            AggregateFunction::CountDistinct => types.iter().all(Ty::may_be_primitive),
            _ => types.iter().all(Ty::may_be_numeric_or_boolean),
        };
        if !fits && !is_unknown {
            let needs = match function {
                AggregateFunction::CountDistinct => "primitive values",
                _ => "a number or BOOLEAN",
            };
            self.needs(node, needs, &types);
        }
        match (function, &*types) {
            (AggregateFunction::Count | AggregateFunction::CountDistinct, _) => Ty::Known(Type::LONG),
            (AggregateFunction::Sum | AggregateFunction::Min | AggregateFunction::Max, [operand])
                if fits && !is_unknown && *operand != Ty::Known(Type::BOOLEAN) =>
            {
                operand.clone()
            }
            _ => Ty::Known(Type::DOUBLE),
        }
    }

    pub(super) fn needs(&mut self, node: &Node, needs: &str, given: &[Ty]) {
        let given: Vec<String> = given.iter().map(ToString::to_string).collect();
        let text = short(&node_name(node, Some(self.now)));
        self.record_fault(Fault::at(node.span, format!("`{text}` needs {needs}, not {}", given.join(", "))));
    }

    // ---- paths

    /// One step by a key that is written as such.
    fn key_step(&mut self, node: &Node, base: Ty) -> Ty {
        match base {
            Ty::Unknown => Ty::Unknown,
            Ty::Known(Type::Map(inner)) => (*inner).into(),
            other => self.no_step(node, &other, "keys"),
        }
    }

    fn step(&mut self, node: &Node, base: &Node, index: &Node, root: Option<&Type>) -> Ty {
        let base = self.ty(base, root);
        match &index.kind {
            NodeKind::Literal(Literal::String(_)) => self.key_step(node, base),
            NodeKind::Literal(Literal::Integer(place)) if *place >= 0 => match base {
                Ty::Unknown => Ty::Unknown,
                Ty::Known(Type::List(inner)) => (*inner).into(),
                other => self.no_step(node, &other, "elements"),
            },
            _ => {
                let index = self.ty(index, None);
                self.call_on(node, Function::Element, &[base, index])
            }
        }
    }

    fn no_step(&mut self, node: &Node, base: &Ty, what: &str) -> Ty {
        let text = short(&node_name(node, Some(self.now)));
        self.record_fault(Fault::at(
            node.span,
            format!("`{text}` is not possible: a value of type {base} has no {what}"),
        ));
        match base {
            Ty::Known(Type::List(inner) | Type::Map(inner)) => (**inner).clone().into(),
            _ => Ty::Unknown,
        }
    }
}
