//! Plans `MATCH_RECOGNIZE (…)`: the inputs of its conditions and measures, and the query over its matches.
//!
//! The enclosing query is planned as one over another's result, whose columns are the keys and measures. The slots of a
//! match then replace these columns. [`measures`] resolves the names in measures and conditions.

mod measures;

use std::collections::HashMap;

use swiftwater_event::{Step, Type, did_you_mean};

use super::{
    Planner, QueryTexts, Typed,
    check::Ty,
    fields::Fields,
    group::{KEYS_MAX, assign_slots},
    lower::Scope,
    plan_query,
    window::declared_clock,
};
use crate::{
    ParseOptions,
    ast::{self, Name, Node, NodeKind, PatternOrder, PatternStep, Recognize},
    lexer::short,
    plan::{
        Body, Element, Expr, Function, Literal, Measure, OutputColumn, Pattern, Query, Variable, Window,
        WindowClock,
    },
    source::{Fault, Span},
};

/// The most variables of a pattern.
const VARIABLES_MAX: usize = 32;

/// The most values and measures that a pattern keeps.
const MEASURES_MAX: usize = 1024;

const MATCH_START: &str = "match_start";
const MATCH_END: &str = "match_end";

/// A pattern while it is planned.
#[derive(Default)]
pub(super) struct PatternScope {
    variables: Vec<VariableSteps>,
    keys: Vec<Typed>,
    values: Vec<Expr>,
    measures: Vec<Measure>,
    /// The variable whose condition is looked at; `None`: the measures are.
    current: Option<usize>,
    /// Variables that an expression over events named, as bits.
    seen: u64,
    /// The first name without a variable in it, and whether a match's own time was named.
    unqualified: Option<Span>,
    sees_match: bool,
}

struct VariableSteps {
    name: Name,
    /// The last step of which it is, and the first; `None`: it must always be absent.
    taken: Option<(usize, usize)>,
    /// The last step behind which it stands or is absent.
    last: usize,
}

/// A column of a match.
struct MatchColumn {
    name: Box<str>,
    span: Span,
    typed: Typed,
}

/// Plans a query over the matches of a pattern.
pub(super) fn plan<'a>(
    texts: &QueryTexts,
    ast: &'a ast::Query,
    recognize: &'a Recognize,
    options: &ParseOptions<'a>,
) -> Result<(Query, Fields<'a>), Vec<Fault>> {
    let mut planner = Planner::new(options, Fields::of_stream(options), false);
    let planned = planner.recognize(ast, recognize);
    let (mut pattern, given) = match planned {
        Some(planned) if planner.faults.is_empty() => planned,
        _ if planner.faults.is_empty() => {
            return Err(vec![Fault::at(recognize.span, "this pattern cannot be planned")]);
        }
        _ => return Err(planner.faults),
    };
    let type_of = |typed: &Typed| match &typed.ty {
        Ty::Known(ty) => ty.clone(),
        Ty::Unknown | Ty::Null => Type::Any,
    };
    let mut columns: Vec<(Box<str>, Type, Type)> = given
        .iter()
        .map(|given| (given.name.clone(), type_of(&given.typed), type_of(&given.typed)))
        .collect();
    let mut slots: HashMap<Box<str>, Expr> =
        given.iter().map(|given| (given.name.clone(), given.typed.expr.clone())).collect();
    for (name, slot) in [(MATCH_START, pattern.start_slot()), (MATCH_END, pattern.start_slot() + 1)] {
        if !slots.contains_key(name) {
            columns.push((name.into(), Type::LONG, Type::LONG));
            slots.insert(name.into(), Expr::Slot(slot));
        }
    }
    let mut fields = Fields::of_query(columns, None, options.dialect);
    fields.of_pattern = true;
    let (mut query, fields) = plan_query(texts, ast, options, fields)?;
    check_window(ast, &query.window, &pattern.clock)?;
    if let (Some(star), true) = (ast.star(), given.is_empty()) {
        let fault =
            Fault::at(star, "the pattern has neither keys nor measures, so there is nothing to select");
        return Err(vec![
            fault.hint("Add `MEASURES LAST(A.x) AS x`, or select `match_start` and `match_end`."),
        ]);
    }
    let of_event = ast
        .item_nodes()
        .filter_map(Node::aggregate)
        .find(|node| matches!(&node.kind, NodeKind::Aggregate { function, .. } if function.is_event()));
    if let (Some(node), Body::Group(group)) = (of_event, &query.body)
        && group.aggregates.iter().any(|aggregate| aggregate.function.is_event())
    {
        let fault = Fault::at(node.span, "FIRST(*) and LAST(*) return one event, and a match has several");
        return Err(vec![fault.hint("Name a value of the match, such as `LAST(x)`.")]);
    }
    expand_star(&mut query, &given);
    let keys: HashMap<Box<str>, Expr> =
        given.iter().zip(&pattern.keys).map(|(given, key)| (given.name.clone(), key.clone())).collect();
    let (of_keys, of_matches) =
        conjuncts(query.filter.take()).into_iter().partition(|part| reads_only(part, &keys));
    query.filter = event_filter(of_keys, &keys, &pattern);
    pattern.filter = joined(of_matches);
    let of_match = query.body_exprs_mut().into_iter().chain(&mut pattern.filter);
    of_match.for_each(|expr| substitute(expr, &slots));
    query.pattern = Some(Box::new(pattern));
    Ok((query, fields))
}

/// Checks the window of a pattern's query.
fn check_window(ast: &ast::Query, window: &Window, clock: &WindowClock) -> Result<(), Vec<Fault>> {
    let Some(windowing) = &ast.window else { return Ok(()) };
    let fault = |message: &str, hint: &str| Err(vec![Fault::at(windowing.span, message).hint(hint)]);
    if window.event_time().is_some() {
        return fault(
            "the matches of a pattern have no windows by EVENT",
            "Write TIME for windows by arrival, or RECORD for windows of so many matches.",
        );
    }
    let is_by_event = matches!(clock, WindowClock::Event { .. });
    if is_by_event && !matches!(window, Window::Records { .. }) {
        return fault(
            "the matches of a pattern that is ordered by event time have windows by RECORD only",
            "Write RECORD, or leave ORDER BY out of the pattern.",
        );
    }
    Ok(())
}

/// Expands `*` to all columns of the match, except those that are selected beside it under the same name.
fn expand_star(query: &mut Query, given: &[MatchColumn]) {
    let Body::Raw(raw) = &mut query.body else { return };
    if raw.star.take().is_none() {
        return;
    }
    let is_named = |given: &&MatchColumn| raw.columns.iter().any(|column| column.name == given.name);
    let all = given.iter().filter(|given| !is_named(given));
    let path = |given: &MatchColumn| Expr::Path {
        path: swiftwater_event::Path::field(given.name.clone()),
        ty: Type::Any,
    };
    let mut columns: Vec<OutputColumn> =
        all.map(|given| OutputColumn { name: given.name.clone(), expr: path(given) }).collect();
    columns.append(&mut raw.columns);
    raw.columns = columns;
}

/// The events that may be any of the variables and whose keys are wanted.
fn event_filter(mut of_keys: Vec<Expr>, keys: &HashMap<Box<str>, Expr>, pattern: &Pattern) -> Option<Expr> {
    of_keys.iter_mut().for_each(|part| substitute(part, keys));
    let conditions: Option<Vec<Expr>> =
        pattern.variables.iter().map(|variable| variable.condition.clone()).collect();
    if let Some(conditions) = conditions {
        let mut any: Vec<Expr> = Vec::new();
        for condition in conditions {
            match condition {
                Expr::Call { function: Function::Or, args } => any.extend(args),
                other => any.push(other),
            }
        }
        any.dedup();
        of_keys.push(match any.len() {
            1 => any.remove(0),
            _ => Expr::Call { function: Function::Or, args: any },
        });
    }
    let parts = of_keys.into_iter().flat_map(|part| conjuncts(Some(part))).collect();
    joined(parts)
}

fn conjuncts(filter: Option<Expr>) -> Vec<Expr> {
    match filter {
        None => Vec::new(),
        Some(Expr::Call { function: Function::And, args }) => args,
        Some(other) => vec![other],
    }
}

fn joined(mut parts: Vec<Expr>) -> Option<Expr> {
    match parts.len() {
        0 => None,
        1 => parts.pop(),
        _ => Some(Expr::Call { function: Function::And, args: parts }),
    }
}

/// The column that a path begins with.
fn column_of(path: &swiftwater_event::Path) -> Option<&str> {
    match path.steps().first() {
        Some(Step::Key(name)) => Some(name),
        _ => None,
    }
}

fn reads_only(expr: &Expr, columns: &HashMap<Box<str>, Expr>) -> bool {
    let mut is_only = true;
    expr.visit(&mut |part| match part {
        Expr::Path { path, .. } => is_only &= column_of(path).is_some_and(|name| columns.contains_key(name)),
        Expr::Slot(_) => is_only = false,
        _ => {}
    });
    is_only
}

/// Replaces the names of columns by their expressions.
fn substitute(expr: &mut Expr, columns: &HashMap<Box<str>, Expr>) {
    match expr {
        Expr::Call { args, .. } => args.iter_mut().for_each(|arg| substitute(arg, columns)),
        Expr::Path { path, .. } => {
            let Some(column) = column_of(path).and_then(|name| columns.get(name)) else { return };
            let mut value = column.clone();
            for step in &path.steps()[1..] {
                let step = match step {
                    Step::Key(key) => Literal::String(key.clone()),
                    Step::Index(place) => match i32::try_from(*place) {
                        Ok(place) => Literal::Integer(place),
                        Err(_) => Literal::Long(i64::from(*place)),
                    },
                };
                value = Expr::Call { function: Function::Element, args: vec![value, Expr::Literal(step)] };
            }
            *expr = value;
        }
        Expr::Literal(_) | Expr::Slot(_) => {}
    }
}

impl<'a> Planner<'a> {
    /// The pattern, and what its matches give; `None`: there is a fault.
    fn recognize(
        &mut self,
        ast: &ast::Query,
        recognize: &'a Recognize,
    ) -> Option<(Pattern, Vec<MatchColumn>)> {
        self.check_around(ast);
        let clock = self.clock_of(recognize)?;
        let mut given = Vec::new();
        for (node, name) in &recognize.keys {
            let Some(typed) = self.lower(node.bare(), Scope::Event) else { continue };
            let span = name.as_ref().map_or(node.span, |name| name.span);
            let name =
                name.as_ref().map_or_else(|| self.text_of(node.bare()).into(), |name| name.text.clone());
            let slot = Typed { expr: Expr::Slot(given.len()), ty: typed.ty.clone() };
            given.push(MatchColumn { name, span, typed: slot });
            self.recognizing.get_or_insert_default().keys.push(typed);
        }
        if given.len() > KEYS_MAX {
            self.record_fault(Fault::at(recognize.span, format!("a pattern has at most {KEYS_MAX} keys")));
        }
        let elements = self.elements(recognize)?;
        let conditions = self.conditions(recognize);
        for (node, name) in &recognize.measures {
            self.recognizing.get_or_insert_default().current = None;
            let Some(typed) = self.lower(node.bare(), Scope::Match) else { continue };
            given.push(MatchColumn { name: name.text.clone(), span: name.span, typed });
        }
        for (place, column) in given.iter().enumerate() {
            if given[..place].iter().any(|other| other.name == column.name) {
                let message = format!("two columns are named `{}`", short(&column.name));
                self.record_fault(Fault::at(column.span, message).hint("Rename one of them with AS."));
            }
        }
        let recognizing = self.recognizing.take()?;
        let mut conditions = conditions?;
        let behind = recognizing.keys.len() + 2 + recognizing.measures.len();
        for (_, further) in &mut conditions {
            further.iter_mut().for_each(|further| assign_slots(further, [behind; 3]));
        }
        if recognizing.values.len().max(recognizing.measures.len()) > MEASURES_MAX {
            let message = format!("a pattern stores at most {MEASURES_MAX} values of its events");
            self.record_fault(Fault::at(recognize.span, message));
        }
        let variables = recognizing.variables.into_iter().zip(conditions);
        let variables = variables.map(|(named, (condition, further))| Variable {
            name: named.name.text,
            condition,
            further,
        });
        let pattern = Pattern {
            keys: recognizing.keys.into_iter().map(|key| key.expr).collect(),
            variables: variables.collect(),
            elements,
            within_ms: recognize.within_ms,
            clock,
            skip: recognize.skip,
            values: recognizing.values,
            measures: recognizing.measures,
            filter: None,
        };
        Some((pattern, given))
    }

    /// Checks the clauses around a pattern for those that are not allowed.
    fn check_around(&mut self, ast: &ast::Query) {
        let explode = ast.views.first().or_else(|| ast.explodes().next());
        if let Some(view) = explode {
            let fault = Fault::at(view.span, "EXPLODE and MATCH_RECOGNIZE do not go together");
            self.record_fault(fault.hint("A pattern reads events, and its matches contain no lists."));
        }
        if let Some(join) = ast.joins.first() {
            let fault = Fault::at(join.span, "JOIN and MATCH_RECOGNIZE do not go together");
            self.record_fault(
                fault.hint("Join in a view of the events, or in the query that reads the matches."),
            );
        }
        if let (Some(_), Some(recognize)) = (ast.sample, &ast.recognize) {
            let fault = Fault::at(recognize.span, "SAMPLE and MATCH_RECOGNIZE do not go together");
            self.record_fault(fault.hint("A pattern needs all events of its keys."));
        }
    }

    fn clock_of(&mut self, recognize: &Recognize) -> Option<WindowClock> {
        match &recognize.order {
            None => Some(WindowClock::Arrival),
            Some(PatternOrder::Event(span, time)) => {
                let unit = ast::Unit::Event(time.clone());
                let extent = ast::WindowSize { span: *span, size: 1, unit, unit_span: *span };
                Some(self.clock(&extent))
            }
            Some(PatternOrder::Field(node)) => {
                let hint = "Write `ORDER BY EVENT(ts, INTERVAL '5 seconds')`, or leave it out: events have the order \
                            of the stream.";
                let declared =
                    self.fields.watermark().map(|(field, watermark)| (field.to_owned(), watermark));
                let typed = self.lower(node.bare(), Scope::Event)?;
                match declared {
                    Some((field, bounds))
                        if typed.expr
                            == (Expr::Path {
                                path: self.fields.path(&field),
                                ty: self.fields.requested_type(&field),
                            }) =>
                    {
                        Some(declared_clock(typed.expr, bounds))
                    }
                    _ => self.fault(
                        Fault::at(
                            node.span,
                            "a pattern is ordered by the stream's declared time, or by EVENT",
                        )
                        .hint(hint),
                    ),
                }
            }
        }
    }

    /// Names the variables, and makes steps of those that take events.
    fn elements(&mut self, recognize: &Recognize) -> Option<Vec<Element>> {
        let (span, steps) = &recognize.pattern;
        let mut elements: Vec<Element> = Vec::new();
        for step in steps {
            let variable = self.variable_in(step)?;
            if !step.is_absent {
                let (least, most) = (step.least, step.most);
                let place = elements.len();
                let taken = &mut self.recognizing.as_mut()?.variables[variable].taken;
                *taken = Some((place, taken.map_or(place, |(_, first)| first)));
                elements.push(Element { variable, least, most, absent: Vec::new() });
            } else if let Some(before) = elements.last_mut() {
                before.absent.push(variable);
            } else {
                return self.fault(
                    Fault::at(step.span, "a pattern cannot begin with an absent variable")
                        .hint("Begin with a variable that matches an event."),
                );
            }
            self.recognizing.as_mut()?.variables[variable].last = elements.len() - 1;
        }
        if elements.iter().all(|element| element.least == 0) {
            return self.fault(
                Fault::at(*span, "this pattern is complete without any event")
                    .hint("At least one variable needs an event."),
            );
        }
        Some(elements)
    }

    fn variable_in(&mut self, step: &PatternStep) -> Option<usize> {
        if let Some(known) = self.variable_named(&step.name) {
            return Some(known);
        }
        let variables = &mut self.recognizing.get_or_insert_default().variables;
        if variables.len() == VARIABLES_MAX {
            let message = format!("a pattern has at most {VARIABLES_MAX} variables");
            return self.fault(Fault::at(step.span, message));
        }
        variables.push(VariableSteps { name: step.name.clone(), taken: None, last: 0 });
        Some(variables.len() - 1)
    }

    fn variable_named(&self, name: &Name) -> Option<usize> {
        let is_it = |named: &VariableSteps| {
            let folds = !named.name.quoted && !name.quoted;
            named.name.text == name.text || (folds && named.name.text.eq_ignore_ascii_case(&name.text))
        };
        self.recognizing.as_ref()?.variables.iter().position(is_it)
    }

    /// The conditions of all variables: what can be told of an event alone, and the rest.
    fn conditions(&mut self, recognize: &'a Recognize) -> Option<Vec<(Option<Expr>, Option<Expr>)>> {
        let count = self.recognizing.as_ref()?.variables.len();
        let mut conditions = vec![None; count];
        for (name, node) in &recognize.defines {
            let Some(variable) = self.variable_named(name) else {
                let names: Vec<&str> = self
                    .recognizing
                    .iter()
                    .flat_map(|of| &of.variables)
                    .map(|named| &*named.name.text)
                    .collect();
                let near = did_you_mean(&name.text, names);
                let hint = near.map_or("Every defined variable must be in PATTERN.".to_owned(), |near| {
                    format!("Did you mean `{near}`?")
                });
                let message = format!("`{}` is not in PATTERN", short(&name.text));
                self.record_fault(Fault::at(name.span, message).hint(hint));
                continue;
            };
            if conditions[variable].is_some() {
                self.record_fault(Fault::at(name.span, format!("`{}` is defined twice", short(&name.text))));
                continue;
            }
            conditions[variable] = self.condition_of(variable, node);
        }
        Some(conditions.into_iter().map(Option::unwrap_or_default).collect())
    }

    fn condition_of(&mut self, variable: usize, node: &'a Node) -> Option<(Option<Expr>, Option<Expr>)> {
        self.recognizing.as_mut()?.current = Some(variable);
        let parts: Vec<&Node> = match &node.bare().kind {
            NodeKind::And(parts) => parts.iter().collect(),
            _ => vec![node],
        };
        let (mut of_event, mut further) = (Vec::new(), Vec::new());
        for part in parts {
            let part = part.bare();
            let alone = self.try_plan(|planner| {
                let (typed, seen) = planner.seeing(part)?;
                (seen & !(1 << variable) == 0 && !planner.recognizing.as_ref()?.sees_match).then_some(typed)
            });
            match alone {
                Some(typed) => of_event.extend(conjuncts(Some(typed.expr))),
                None => further.push(self.lower(part, Scope::Match)?.expr),
            }
        }
        Some((joined(of_event), joined(further)))
    }
}
