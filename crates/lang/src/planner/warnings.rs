//! Finds mistakes by which a valid query of the native dialect matches less than its author may expect.
//!
//! Such a query runs, and only returns nothing. Examples:
//!
//! - a name in double quotes instead of a text, a misspelt field;
//! - `x = NULL`, a comparison of types of which no value equals another;
//! - reversed bounds, conditions that exclude each other.
//!
//! The search runs before any event is seen. Each doubt states whether it is certain: then declared types prove it,
//! whatever the events contain. Names of fields are compared with the declared ones and with those of recent events.
//! Without either, only words that are no fields elsewhere are doubted.
//!
//! Patterns, conditions of joins, and Bullet's dialect, which answers as Bullet does, are not checked.

use std::collections::HashMap;

use swiftwater_event::{Primitive, Type, did_you_mean, from_rfc3339_with_zone};

use super::{Fields, Planner, QueryTexts, check::Ty, has_aggregates, lower::Scope, plan_over_stream};
use crate::{
    Dialect, ParseOptions,
    ast::{self, Binary, Item, Name, Node, NodeKind, Source},
    lexer::short,
    plan::{Comparison, Literal, Quantifier},
    source::Fault,
};

/// The most warnings that are looked for: each may cost a comparison with all known names.
const FOUND_MAX: usize = 100;

/// A fault, and whether it is certain.
pub(crate) type Finding = (Fault, bool);

/// Words that are read as fields here, and are none elsewhere; and what to write.
const WORDS: [(&[&str], &str); 5] = [
    (
        &[
            "CURRENT_TIMESTAMP",
            "CURRENT_DATE",
            "CURRENT_TIME",
            "LOCALTIMESTAMP",
            "LOCALTIME",
            "SYSDATE",
            "SYSTIMESTAMP",
            "UTC_TIMESTAMP",
            "GETDATE",
            "TODAY",
        ],
        "Write NOW: the time when the query was received, in milliseconds since 1970.",
    ),
    (&["ALL"], "Name the columns: GROUP BY a, b."),
    (&["NIL", "NONE", "UNDEFINED", "MISSING"], "Write IS NULL for a missing value."),
    (&["NAN", "INFINITY", "INF"], "Write CAST('NaN' AS DOUBLE), or CAST('Infinity' AS DOUBLE)."),
    (&["CURRENT_USER", "SESSION_USER", "ROWNUM", "DEFAULT"], "Queries over events have no such value."),
];

/// The warnings about a statement that can be planned. `seen`: fields that recent events had; empty where that is not known.
pub(crate) fn find(ast: &ast::Statement, options: &ParseOptions<'_>, seen: &[&str]) -> Vec<Finding> {
    let mut found = Vec::new();
    if options.dialect != Dialect::Native {
        return found;
    }
    match &ast.query.source {
        Source::Stream(_) => of_query(&ast.query, options, Fields::of_stream(options), seen, &mut found),
        Source::Query(inner) => {
            of_query(inner, options, Fields::of_stream(options), seen, &mut found);
            if let Ok((_, fields)) = plan_over_stream(&no_texts(), inner, options) {
                of_query(&ast.query, options, fields, &[], &mut found);
            }
        }
    }
    found
}

fn no_texts() -> QueryTexts {
    QueryTexts { text: "".into(), printed: "".into() }
}

fn of_query<'a>(
    ast: &'a ast::Query,
    options: &ParseOptions<'a>,
    fields: Fields<'a>,
    seen: &[&str],
    found: &mut Vec<Finding>,
) {
    if ast.recognize.is_some() {
        return;
    }
    let is_group = ast.distinct.is_some() || ast.group_by.is_some() || has_aggregates(ast);
    let mut planner = Planner::new(options, fields, is_group);
    if planner.query(&no_texts(), ast).is_none() || !planner.faults.is_empty() {
        return;
    }
    let is_declared = options.schema.is_some();
    let mut checker = WarningChecker { planner, seen, is_declared, found };
    let (item, order) = match is_group {
        true => (Scope::GroupItem, Scope::GroupOrder),
        false => (Scope::Event, Scope::RawOrder),
    };
    for view in ast.views.iter().chain(ast.explodes()) {
        checker.inspect(&view.argument, Scope::Event);
    }
    if let Some(filter) = &ast.filter {
        checker.inspect(filter, Scope::Event);
        checker.exclusions(filter);
    }
    for key in ast.group_by.iter().flat_map(|group_by| &group_by.keys) {
        // An alias stands for its item, which is looked at there.
        let is_alias = |of: &Item| match (of, &key.bare().kind) {
            (Item::Expr { alias: Some(alias), .. }, NodeKind::Name(name)) => alias.text == name.text,
            _ => false,
        };
        let is_column = ast.items.iter().any(is_alias);
        if !is_column {
            checker.inspect(key, Scope::Event);
        }
    }
    ast.items.iter().for_each(|of| {
        if let Item::Expr { node, .. } = of {
            checker.inspect(node, item);
        }
    });
    if let Some(having) = &ast.having {
        checker.inspect(&having.node, order);
    }
    ast.order_by.iter().for_each(|of| checker.inspect(&of.node, order));
}

struct WarningChecker<'f, 'a> {
    planner: Planner<'a>,
    seen: &'f [&'f str],
    is_declared: bool,
    found: &'f mut Vec<Finding>,
}

impl WarningChecker<'_, '_> {
    fn warn(&mut self, node: &Node, is_certain: bool, message: String, hint: String) {
        // Without declarations, a query that was valid so far stays valid.
        self.found.push((Fault::at(node.span, message).hint(hint), is_certain && self.is_declared));
    }

    fn text(&self, node: &Node) -> String {
        short(&self.planner.text_of(node)).to_string()
    }

    fn ty(&mut self, node: &Node, scope: Scope) -> Ty {
        self.planner.try_plan(|planner| planner.lower(node, scope)).map_or(Ty::Unknown, |typed| typed.ty)
    }

    fn inspect(&mut self, node: &Node, scope: Scope) {
        let node = node.bare();
        if self.found.len() >= FOUND_MAX {
            return;
        }
        let stands_for_other = scope != Scope::Event
            && self.planner.try_plan(|planner| planner.resolved(node, scope).flatten()).is_some();
        if stands_for_other {
            return;
        }
        match &node.kind {
            NodeKind::Name(name) => self.name(node, name, false),
            NodeKind::Member(base, name) => match self.planner.source_of(base) {
                Some(0) => self.name(node, name, false),
                Some(_) => {}
                None => self.inspect(base, scope),
            },
            NodeKind::Aggregate { arguments, filter, .. } => {
                arguments.iter().for_each(|argument| self.inspect(argument, Scope::Event));
                filter.iter().for_each(|filter| self.inspect(filter, Scope::Event));
            }
            NodeKind::Table { arguments, .. } => {
                arguments.iter().for_each(|argument| self.inspect(argument, Scope::Event));
            }
            NodeKind::Grouping(_) => {}
            _ => {
                self.operator(node, scope);
                let mut children = Vec::new();
                node.children(&mut |child| children.push(child));
                let has_value = matches!(
                    node.kind,
                    NodeKind::Binary(Binary::Compare(..) | Binary::Like { .. } | Binary::RLike { .. }, ..)
                        | NodeKind::InList { .. }
                        | NodeKind::Between { .. }
                );
                for (place, child) in children.into_iter().enumerate() {
                    match &child.bare().kind {
                        NodeKind::Name(name) if has_value && place > 0 && scope == Scope::Event => {
                            self.name(child.bare(), name, true);
                        }
                        _ => self.inspect(child, scope),
                    }
                }
            }
        }
    }

    /// A name of a field. `is_value`: it stands where a value is likelier.
    fn name(&mut self, node: &Node, name: &Name, is_value: bool) {
        let is_known = self.planner.view_column(name).is_some()
            || self.planner.fields.resolve(name).is_some()
            || self.seen.contains(&&*name.text)
            || matches!(&*name.text, "window_start" | "window_end");
        if is_known {
            return;
        }
        let text = short(&name.text).to_string();
        let upper = name.text.to_ascii_uppercase();
        let word = WORDS.iter().find(|(words, _)| words.contains(&&*upper));
        if let Some((_, hint)) = word.filter(|_| !name.quoted) {
            let message = format!("`{text}` is read as a field of the events");
            return self.warn(node, self.is_declared, message, (*hint).to_owned());
        }
        let names: Vec<&str> = self.planner.fields.names().chain(self.seen.iter().copied()).collect();
        let alike = names.iter().copied().find(|other| other.eq_ignore_ascii_case(&name.text));
        let near = alike.or_else(|| did_you_mean(&name.text, names.iter().copied())).map(str::to_owned);
        if name.quoted && is_value {
            let message =
                format!("\"{text}\" is read as a field of the events, because it is in double quotes");
            let hint = match near {
                Some(near) => format!("Write text in single quotes, '{text}'; or did you mean `{near}`?"),
                None => format!("Write text in single quotes: '{text}'."),
            };
            return self.warn(node, self.is_declared, message, hint);
        }
        if names.is_empty() {
            return;
        }
        let message = match (self.is_declared, self.seen.is_empty()) {
            (true, true) => format!("no column `{text}` is declared"),
            (true, false) => format!("no column `{text}` is declared, and no recent event has such a field"),
            (false, _) => format!("no recent event has a field `{text}`"),
        };
        let hint = match near {
            Some(near) => format!("Did you mean `{near}`?"),
            None => {
                let some: Vec<&str> = names.iter().copied().take(10).collect();
                format!("Fields are: {}{}.", some.join(", "), if names.len() > 10 { ", …" } else { "" })
            }
        };
        self.warn(node, false, message, hint);
    }

    /// Checks the operands of an operator.
    fn operator(&mut self, node: &Node, scope: Scope) {
        match &node.kind {
            NodeKind::Binary(Binary::Compare(_, Quantifier::One), left, right) => {
                self.comparison(node, left, right, scope);
            }
            NodeKind::InList { value, list, .. } => self.list(node, value, list, scope),
            NodeKind::Between { value, bounds, negated } => {
                for bound in &**bounds {
                    self.comparison(node, value, bound, scope);
                }
                let [low, high] = &**bounds;
                if let (false, Some(low), Some(high)) = (negated, number(low), number(high))
                    && low > high
                {
                    let is_certain = self.ty(value, scope) != Ty::Unknown;
                    let message = format!(
                        "`{}` is never true: its lower bound is above its upper bound",
                        self.text(node)
                    );
                    self.warn(node, is_certain, message, "Write the lower bound first.".to_owned());
                }
            }
            NodeKind::Binary(
                operator @ (Binary::Like { .. } | Binary::RLike { any: false, .. }),
                left,
                right,
            ) => {
                let what = if matches!(operator, Binary::Like { .. }) { "LIKE" } else { "RLIKE" };
                for side in [left, right] {
                    if let Ty::Known(ty) = self.ty(side, scope)
                        && ty != Type::STRING
                    {
                        let message = format!(
                            "`{}` is never true: {what} compares text, and `{}` is {ty}",
                            self.text(node),
                            self.text(side)
                        );
                        let hint = format!("Write CAST({} AS STRING), or compare numbers.", self.text(side));
                        self.warn(node, true, message, hint);
                    }
                }
            }
            _ => {}
        }
    }

    fn comparison(&mut self, node: &Node, left: &Node, right: &Node, scope: Scope) {
        let (left_ty, right_ty) = (self.ty(left, scope), self.ty(right, scope));
        let shown = self.text(node);
        if let Some(other) = match (&left_ty, &right_ty) {
            (Ty::Null, _) => Some((right, &right_ty)),
            (_, Ty::Null) => Some((left, &left_ty)),
            _ => None,
        } {
            let is_certain = matches!(other.1, Ty::Known(_));
            let name = self.text(other.0);
            let message =
                format!("`{shown}` is never true: NULL equals nothing, and is neither less nor more");
            let hint = format!("Write {name} IS NULL, or {name} IS NOT NULL.");
            return self.warn(node, is_certain, message, hint);
        }
        if let Some((message, hint)) = self.never(&shown, (left, &left_ty), (right, &right_ty)) {
            self.warn(node, true, message, hint);
        }
    }

    /// The reason why two sides can never be compared, by their types.
    fn never(
        &self,
        shown: &str,
        (left, left_ty): (&Node, &Ty),
        (right, right_ty): (&Node, &Ty),
    ) -> Option<(String, String)> {
        let (Ty::Known(left_ty), Ty::Known(right_ty)) = (left_ty, right_ty) else { return None };
        for (ty, other) in [(left_ty, right), (right_ty, left)] {
            if is_time(ty)
                && let NodeKind::Literal(Literal::String(text)) = &other.bare().kind
                && from_rfc3339_with_zone(text.as_bytes()).is_none()
            {
                let message = format!("`{shown}` is never true: '{}' is not a time", short(text));
                return Some((message, "Write it as '2026-01-01T00:00:00Z'.".to_owned()));
            }
        }
        if can_be_compared(left_ty, right_ty) {
            return None;
        }
        let message = format!(
            "`{shown}` is never true: a value of type {left_ty} and one of {right_ty} are never compared"
        );
        let hint = match (left_ty, right_ty) {
            (ty, other)
                if is_number(ty) && *other == Type::STRING || is_number(other) && *ty == Type::STRING =>
            {
                "Write the number without quotes, or CAST one side to the type of the other."
            }
            _ => "Compare values of one type; CAST one side to the type of the other.",
        };
        Some((message, hint.to_owned()))
    }

    fn list(&mut self, node: &Node, value: &Node, list: &[Node], scope: Scope) {
        let ty = self.ty(value, scope);
        let mut never = Vec::new();
        for element in list {
            let element_ty = self.ty(element, scope);
            let shown = format!("{} = {}", self.text(value), self.text(element));
            if element_ty == Ty::Null {
                let message = "NULL in a list equals nothing".to_owned();
                self.warn(element, false, message, format!("Add OR {} IS NULL.", self.text(value)));
            } else if let Some((message, hint)) = self.never(&shown, (value, &ty), (element, &element_ty)) {
                never.push((element, message, hint));
            }
        }
        let is_all = never.len() == list.len();
        if is_all && let Some((_, message, hint)) = never.into_iter().next() {
            return self.warn(node, true, message, hint);
        }
        if is_all {
            return;
        }
        for element in list {
            let element_ty = self.ty(element, scope);
            let shown = format!("{} = {}", self.text(value), self.text(element));
            if let Some((message, hint)) = self.never(&shown, (value, &ty), (element, &element_ty)) {
                self.warn(element, false, message, hint);
            }
        }
    }

    // ---- conditions that exclude each other

    /// Conditions of WHERE that are never true by themselves, or never together.
    fn exclusions(&mut self, filter: &Node) {
        let mut conditions = Vec::new();
        conjuncts(filter, &mut conditions);
        let mut ranges: HashMap<String, Range> = HashMap::new();
        for condition in conditions {
            if is_never(condition) {
                let message = format!("`{}` is never true", self.text(condition));
                self.warn(condition, false, message, "Remove or correct the condition.".to_owned());
                continue;
            }
            let Some((of, more)) = range_of(condition) else { continue };
            let (name, ty) = (self.text(of), self.ty(of, Scope::Event));
            // Texts that differ may be one time, and times are compared with numbers, too.
            if matches!(&ty, Ty::Known(ty) if is_time(ty)) {
                continue;
            }
            let range = ranges.entry(name.clone()).or_default();
            let was_empty = range.is_empty();
            range.narrow(&more);
            if range.is_empty() && !was_empty && self.found.len() < FOUND_MAX {
                let message = format!(
                    "`{}` is never true together with the conditions before it",
                    self.text(condition)
                );
                let hint = format!("No value of `{name}` meets both; write OR where one of them is enough.");
                self.warn(condition, matches!(ty, Ty::Known(_)), message, hint);
            }
        }
    }
}

fn is_number(ty: &Type) -> bool {
    use Primitive::{Double, Float, Integer, Long};
    matches!(ty, Type::Primitive(Integer | Long | Float | Double))
}

fn is_time(ty: &Type) -> bool {
    matches!(ty, Type::Primitive(Primitive::Timestamp(_)))
}

/// True if some values of these types can be compared, by the native rules.
fn can_be_compared(left: &Type, right: &Type) -> bool {
    let with_time = |ty: &Type| is_time(ty) || is_number(ty) || *ty == Type::STRING;
    let is_primitive = |ty: &Type| matches!(ty, Type::Primitive(_));
    is_number(left) && is_number(right)
        || is_time(left) && with_time(right)
        || is_time(right) && with_time(left)
        || is_primitive(left) && left == right
}

fn conjuncts<'n>(node: &'n Node, out: &mut Vec<&'n Node>) {
    match &node.bare().kind {
        NodeKind::And(operands) => operands.iter().for_each(|operand| conjuncts(operand, out)),
        _ => out.push(node.bare()),
    }
}

fn number(node: &Node) -> Option<f64> {
    match &node.bare().kind {
        NodeKind::Literal(Literal::Integer(number)) => Some(f64::from(*number)),
        // Beyond that two may be one as doubles: then nothing is doubted.
        NodeKind::Literal(Literal::Long(number)) if number.unsigned_abs() <= 1 << 53 => Some(*number as f64),
        NodeKind::Literal(Literal::Float(number)) => Some(f64::from(*number)),
        NodeKind::Literal(Literal::Double(number)) => Some(*number),
        _ => None,
    }
}

fn literal_text(node: &Node) -> Option<&str> {
    match &node.bare().kind {
        NodeKind::Literal(Literal::String(text)) => Some(text),
        _ => None,
    }
}

/// True if a condition of constants is never true.
fn is_never(condition: &Node) -> bool {
    match &condition.kind {
        NodeKind::Literal(Literal::Boolean(false) | Literal::Null) => true,
        NodeKind::Binary(Binary::Compare(comparison, Quantifier::One), left, right) => {
            let ordering = match (number(left), number(right), literal_text(left), literal_text(right)) {
                (Some(left), Some(right), ..) => left.partial_cmp(&right),
                (_, _, Some(left), Some(right)) => Some(left.cmp(right)),
                _ => None,
            };
            ordering.is_some_and(|ordering| match comparison {
                Comparison::Eq => ordering.is_ne(),
                Comparison::Ne => ordering.is_eq(),
                Comparison::Lt => ordering.is_ge(),
                Comparison::Le => ordering.is_gt(),
                Comparison::Gt => ordering.is_le(),
                Comparison::Ge => ordering.is_lt(),
            })
        }
        _ => false,
    }
}

/// The values that conditions leave.
#[derive(Debug, Clone, Default)]
struct Range {
    /// The lower bound, and true if it excludes itself.
    low: Option<(f64, bool)>,
    /// The upper bound, and true if it excludes itself.
    high: Option<(f64, bool)>,
    /// This text alone.
    text: Option<String>,
    excludes_itself: bool,
}

impl Range {
    fn narrow(&mut self, other: &Range) {
        let is_other = |low: (f64, bool), than: (f64, bool)| low.0 > than.0 || low.0 == than.0 && low.1;
        if let Some(low) = other.low
            && self.low.is_none_or(|own| is_other(low, own))
        {
            self.low = Some(low);
        }
        if let Some((high, is_open)) = other.high
            && self.high.is_none_or(|own| high < own.0 || high == own.0 && is_open)
        {
            self.high = Some((high, is_open));
        }
        if let Some(text) = &other.text {
            let has_number = self.low.is_some() || self.high.is_some();
            self.excludes_itself |= has_number || self.text.as_ref().is_some_and(|own| own != text);
            self.text = Some(text.clone());
        }
        self.excludes_itself |= self.text.is_some() && (other.low.is_some() || other.high.is_some());
    }

    fn is_empty(&self) -> bool {
        let is_crossed = match (self.low, self.high) {
            (Some((low, low_open)), Some((high, high_open))) => {
                low > high || low == high && (low_open || high_open)
            }
            _ => false,
        };
        is_crossed || self.excludes_itself
    }
}

/// The range to which a condition limits one expression, by constants.
fn range_of(condition: &Node) -> Option<(&Node, Range)> {
    match &condition.kind {
        NodeKind::Binary(Binary::Compare(comparison, Quantifier::One), left, right) => {
            let is_constant = |node: &Node| number(node).is_some() || literal_text(node).is_some();
            let (of, constant, comparison) = match (is_constant(left), is_constant(right)) {
                (false, true) => (left, right, *comparison),
                (true, false) => (right, left, turned(*comparison)),
                _ => return None,
            };
            let mut range = Range::default();
            match (number(constant), literal_text(constant), comparison) {
                (Some(number), _, Comparison::Eq) => {
                    (range.low, range.high) = (Some((number, false)), Some((number, false)));
                }
                (Some(number), _, Comparison::Lt) => range.high = Some((number, true)),
                (Some(number), _, Comparison::Le) => range.high = Some((number, false)),
                (Some(number), _, Comparison::Gt) => range.low = Some((number, true)),
                (Some(number), _, Comparison::Ge) => range.low = Some((number, false)),
                (_, Some(text), Comparison::Eq) => range.text = Some(text.to_owned()),
                _ => return None,
            }
            Some((of.bare(), range))
        }
        NodeKind::Between { value, bounds, negated: false } => {
            let (low, high) = (number(&bounds[0])?, number(&bounds[1])?);
            // The wrong way round they were doubted by themselves.
            let range = Range { low: Some((low, false)), high: Some((high, false)), ..Range::default() };
            (low <= high).then_some((value.bare(), range))
        }
        _ => None,
    }
}

fn turned(comparison: Comparison) -> Comparison {
    match comparison {
        Comparison::Lt => Comparison::Gt,
        Comparison::Le => Comparison::Ge,
        Comparison::Gt => Comparison::Lt,
        Comparison::Ge => Comparison::Le,
        same => same,
    }
}
