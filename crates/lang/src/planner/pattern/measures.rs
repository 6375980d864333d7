//! Resolves the names in a pattern's measures and conditions.
//!
//! In an expression over events, a bare name is a field. A name qualified by a variable is a field of that variable's
//! events. The planner records the names that an expression uses. This distinguishes a condition on the event alone from
//! one that compares it with others, and an aggregate of one variable from one of two.

use super::{MATCH_END, MATCH_START};
use crate::{
    ast::{Builtin, Name, Node, NodeKind},
    lexer::short,
    plan::{AggregateFunction, Expr, Measure, MeasureFunction},
    planner::{Planner, Typed, check::Ty, group::BEHIND_AGGREGATES, lower::Scope},
    source::Fault,
};
use swiftwater_event::Type;

impl Planner<'_> {
    /// The variable that a path begins with, where a pattern is planned.
    pub(in crate::planner) fn variable_of(&self, base: &Node) -> Option<usize> {
        match &base.bare().kind {
            NodeKind::Name(name) => self.variable_named(name),
            _ => None,
        }
    }

    pub(in crate::planner) fn record_variable(&mut self, variable: usize) {
        if let Some(recognizing) = &mut self.recognizing {
            recognizing.seen |= 1 << variable;
        }
    }

    /// Records a name without a variable; `None`: it cannot be without one.
    pub(in crate::planner) fn record_name(&mut self, node: &Node, name: &Name) -> Option<()> {
        // Fields may be named as variables are in other letters.
        let is_it = |variable: usize| {
            self.recognizing.as_ref().is_some_and(|of| of.variables[variable].name.text == name.text)
        };
        if self.variable_named(name).is_some_and(is_it) {
            let message = format!("`{}` is a variable of the pattern", short(&name.text));
            let hint = format!("Name a field of its events, such as `{}.x`.", name.text);
            return self.fault(Fault::at(node.span, message).hint(hint));
        }
        let is_of_match = self.match_time(name).is_some();
        if let Some(recognizing) = &mut self.recognizing {
            recognizing.unqualified.get_or_insert(node.span);
            recognizing.sees_match |= is_of_match;
        }
        Some(())
    }

    /// Lowers an expression over events; also returns the variables that it names.
    pub(super) fn seeing(&mut self, node: &Node) -> Option<(Typed, u64)> {
        let recognizing = self.recognizing.as_mut()?;
        (recognizing.seen, recognizing.unqualified, recognizing.sees_match) = (0, None, false);
        let typed = self.lower(node, Scope::Event)?;
        Some((typed, self.recognizing.as_ref()?.seen))
    }

    /// `match_start` or `match_end`, where no field has the name.
    fn match_time(&self, name: &Name) -> Option<usize> {
        let place =
            [MATCH_START, MATCH_END].iter().position(|bound| bound.eq_ignore_ascii_case(&name.text))?;
        self.recognizing.as_ref().filter(|_| self.fields.resolve(name).is_none())?;
        Some(place)
    }

    /// Resolves a part of a measure or condition that is not resolved by its own parts.
    pub(in crate::planner) fn measured(&mut self, node: &Node) -> Option<Option<Typed>> {
        match &node.kind {
            NodeKind::Name(_) | NodeKind::Member(..) | NodeKind::Index(..) | NodeKind::Hint(..) => {
                Some(self.path_of_match(node))
            }
            NodeKind::Call(Builtin::First, args) => Some(self.measure(node, MeasureFunction::First, args)),
            NodeKind::Call(Builtin::Last, args) => Some(self.measure(node, MeasureFunction::Last, args)),
            NodeKind::Aggregate { function, arguments, filter } => {
                let function = match function {
                    AggregateFunction::Count => MeasureFunction::Count,
                    AggregateFunction::Sum => MeasureFunction::Sum,
                    AggregateFunction::Avg => MeasureFunction::Avg,
                    AggregateFunction::Min => MeasureFunction::Min,
                    AggregateFunction::Max => MeasureFunction::Max,
                    _ => {
                        let fault = Fault::at(node.span, "this aggregate cannot be a measure of a pattern");
                        return Some(
                            self.fault(fault.hint("Measures are COUNT, SUM, AVG, MIN, MAX, FIRST and LAST.")),
                        );
                    }
                };
                if filter.is_some() {
                    let fault = Fault::at(node.span, "a measure of a pattern has no FILTER");
                    return Some(self.fault(fault.hint("Select the events with a variable.")));
                }
                Some(self.measure(node, function, arguments))
            }
            _ => None,
        }
    }

    /// A path: of a variable's last event, of the event that a condition looks at, or a key or time of the match.
    fn path_of_match(&mut self, node: &Node) -> Option<Typed> {
        let current = self.recognizing.as_ref()?.current;
        if let NodeKind::Name(name) = &node.kind
            && let Some(place) = self.match_time(name)
        {
            if place == 1 && current.is_some() {
                return self.fault(Fault::at(node.span, "a condition cannot know when the match will end"));
            }
            let slot = self.recognizing.as_ref()?.keys.len() + place;
            return Some(Typed { expr: Expr::Slot(slot), ty: Ty::Known(Type::LONG) });
        }
        let (typed, seen) = self.seeing(node)?;
        let of = self.one_variable(node, seen)?;
        let recognizing = self.recognizing.as_ref()?;
        match (of, current) {
            (Some(variable), Some(current)) if variable == current => self.value_of_event(typed),
            (Some(variable), _) => self.measure_of(node, MeasureFunction::Last, Some(variable), Some(typed)),
            (None, Some(_)) => self.value_of_event(typed),
            (None, None) => {
                if let Some(place) = recognizing.keys.iter().position(|key| key.expr == typed.expr) {
                    return Some(Typed { expr: Expr::Slot(place), ty: typed.ty });
                }
                let text = self.text_of(node);
                let name = &recognizing.variables.first()?.name.text;
                let hint = format!("Write `{name}.{text}`, with one of the pattern's variables before it.");
                let message = format!("`{}` does not name the variable whose events it reads", short(&text));
                self.fault(Fault::at(node.span, message).hint(hint))
            }
        }
    }

    /// An aggregate of a variable's events, or of all.
    fn measure(&mut self, node: &Node, function: MeasureFunction, arguments: &[Node]) -> Option<Typed> {
        let [argument] = arguments else {
            return self.measure_of(node, MeasureFunction::Count, None, None);
        };
        if function == MeasureFunction::Count
            && let NodeKind::Name(name) = &argument.kind
            && let Some(variable) = self.variable_named(name)
        {
            return self.measure_of(node, function, Some(variable), None);
        }
        let (typed, seen) = self.seeing(argument.bare())?;
        let unqualified = self.recognizing.as_ref()?.unqualified;
        let of = self.one_variable(node, seen)?;
        if let (Some(span), Some(_)) = (unqualified, of) {
            let fault = Fault::at(span, "this name does not name the variable whose events it reads");
            return self.fault(fault.hint("Write the same variable before every name."));
        }
        self.measure_of(node, function, of, Some(typed))
    }

    fn one_variable(&mut self, node: &Node, seen: u64) -> Option<Option<usize>> {
        if seen.count_ones() > 1 {
            return self.fault(
                Fault::at(node.span, "this reads several variables at once")
                    .hint("Read each of them separately: `LAST(B.x) - LAST(A.x)`."),
            );
        }
        Some((seen != 0).then(|| seen.trailing_zeros() as usize))
    }

    fn value_place(&mut self, expr: Expr) -> Option<usize> {
        let values = &mut self.recognizing.as_mut()?.values;
        let place = values.iter().position(|other| *other == expr);
        Some(place.unwrap_or_else(|| {
            values.push(expr);
            values.len() - 1
        }))
    }

    fn value_of_event(&mut self, typed: Typed) -> Option<Typed> {
        let place = self.value_place(typed.expr)?;
        Some(Typed { expr: Expr::Slot(BEHIND_AGGREGATES + place), ty: typed.ty })
    }

    fn measure_of(
        &mut self,
        node: &Node,
        function: MeasureFunction,
        variable: Option<usize>,
        value: Option<Typed>,
    ) -> Option<Typed> {
        if let Some(variable) = variable {
            self.check_taken(node, variable)?;
        }
        let argument = || value.as_ref().map_or(Ty::Unknown, |typed| typed.ty.clone());
        let ty = match function {
            MeasureFunction::Count => Ty::Known(Type::LONG),
            MeasureFunction::Avg => Ty::Known(Type::DOUBLE),
            MeasureFunction::Sum => match argument() {
                Ty::Known(ty) if ty == Type::INTEGER || ty == Type::LONG => Ty::Known(Type::LONG),
                Ty::Known(ty) if ty == Type::FLOAT || ty == Type::DOUBLE => Ty::Known(Type::DOUBLE),
                _ => Ty::Unknown,
            },
            _ => argument(),
        };
        let value = match value {
            Some(typed) => Some(self.value_place(typed.expr)?),
            None => None,
        };
        let recognizing = self.recognizing.as_mut()?;
        let measure = Measure { function, variable, value };
        let place = recognizing.measures.iter().position(|other| *other == measure).unwrap_or_else(|| {
            recognizing.measures.push(measure);
            recognizing.measures.len() - 1
        });
        Some(Typed { expr: Expr::Slot(recognizing.keys.len() + 2 + place), ty })
    }

    /// Checks that a variable has events at the place where it is named.
    fn check_taken(&mut self, node: &Node, variable: usize) -> Option<()> {
        let recognizing = self.recognizing.as_ref()?;
        let named = &recognizing.variables[variable];
        let name = named.name.text.clone();
        let Some((_, first)) = named.taken else {
            let message = format!("`{name}` must be absent, so it has no events");
            return self.fault(Fault::at(node.span, message));
        };
        let Some(current) = recognizing.current else { return Some(()) };
        let defined = &recognizing.variables[current];
        if variable == current {
            return self.fault(
                Fault::at(node.span, format!("the condition of `{name}` cannot read its other events")).hint(
                    format!(
                        "`{name}.x` is a value of the current event; compare it with an earlier variable."
                    ),
                ),
            );
        }
        if first > defined.last {
            let message = format!("`{name}` comes only after `{}`", defined.name.text);
            return self
                .fault(Fault::at(node.span, message).hint("A condition can read earlier variables only."));
        }
        Some(())
    }
}
