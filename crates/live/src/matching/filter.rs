//! Splits a filter for the index: indexable conditions, their AND and OR, and the residual.
//!
//! An expression tests the residual (the *rest*) on the events for which all the conditions are true, whichever condition
//! found the query. Therefore no count depends on the index's choice.

use std::{
    fmt::Write,
    hash::{DefaultHasher, Hasher},
    sync::Arc,
};

use swiftwater_event::{Primitive, Type, Want};
use swiftwater_lang::{
    Dialect,
    plan::{Comparison, Expr, Function, Literal, Quantifier},
};
use swiftwater_text::{EventSearch, query::Operator};

use super::{
    condition::{Condition, Test, TextSpan, ValueSet},
    literals::{RequiredText, of_like, of_regex},
    number::{Number, Spans},
    pattern::Pattern,
    word_test::WordTest,
};
use crate::expr::{java_pattern_as_regex, mirrored};

/// A filter has at most so many conditions of its own; what is beyond stays with the rest.
const CONDITIONS_MAX: usize = 1024;

/// The part of a filter that conditions can express.
#[derive(Debug, Default)]
pub struct Filter {
    /// Each numbered by its place.
    pub conditions: Box<[Condition]>,
    /// All of these must hold.
    pub all: Box<[Node]>,
    /// The identity of the filter and its dialect: so long that no two are found to have the same.
    pub(crate) hash: u128,
}

/// One of the things that must hold.
#[derive(Debug, Clone, PartialEq)]
pub enum Node {
    /// The condition of this number.
    Test(u16),
    /// All of one of these.
    Any(Box<[Box<[Node]>]>),
}

/// The result of one operand of the outermost AND.
#[derive(Debug)]
pub(crate) struct Operand<'e> {
    pub(crate) expr: &'e Expr,
    /// The node in the filter's AND that has the operand's conditions, if there are any.
    pub(crate) node: Option<usize>,
    /// True if the node expresses the whole operand.
    pub(crate) is_proven: bool,
}

impl Filter {
    /// Takes a filter apart.
    pub(crate) fn of(filter: &Expr, dialect: Dialect) -> (Filter, Vec<Operand<'_>>) {
        let mut made = FilterBuilder { dialect, conditions: Vec::new() };
        let mut all = Vec::new();
        let mut operands = Vec::new();
        for expr in conjuncts(filter) {
            let before = made.conditions.len();
            let narrowed = made.node(expr).filter(|_| made.conditions.len() <= CONDITIONS_MAX);
            let (node, is_proven) = match narrowed {
                Some((node, is_proven)) => (Some(made.push(node, &mut all)), is_proven),
                None => {
                    made.conditions.truncate(before);
                    (None, false)
                }
            };
            operands.push(Operand { expr, node, is_proven });
        }
        let hash = hash_of(filter, dialect);
        (Filter { conditions: made.conditions.into(), all: all.into(), hash }, operands)
    }

    /// The share of events that the filter may find, where nothing is known about them; 1 where it has no conditions.
    pub(crate) fn guess(&self) -> f64 {
        self.all.iter().map(|node| self.guess_of(node)).fold(1.0, f64::min)
    }

    fn guess_of(&self, node: &Node) -> f64 {
        match node {
            Node::Test(number) => self.conditions[*number as usize].test.guess(),
            Node::Any(branches) => {
                let one = |branch: &[Node]| branch.iter().map(|node| self.guess_of(node)).fold(1.0, f64::min);
                branches.iter().map(|branch| one(branch)).sum::<f64>().min(1.0)
            }
        }
    }
}

/// The hash of a filter's text: 0.0 and -0.0 differ.
fn hash_of(filter: &Expr, dialect: Dialect) -> u128 {
    struct Sink([DefaultHasher; 2]);
    impl Write for Sink {
        fn write_str(&mut self, text: &str) -> std::fmt::Result {
            self.0.iter_mut().for_each(|hasher| hasher.write(text.as_bytes()));
            Ok(())
        }
    }
    let mut sink = Sink([DefaultHasher::new(), DefaultHasher::new()]);
    sink.0[1].write(b"second");
    // Writing to a hasher does not fail.
    let _ = write!(sink, "{dialect:?} {filter:?}");
    let [first, second] = sink.0.map(|hasher| hasher.finish());
    u128::from(first) << 64 | u128::from(second)
}

/// The operands of AND in a filter, outermost only.
fn conjuncts(filter: &Expr) -> Vec<&Expr> {
    match filter {
        Expr::Call { function: Function::And, args } => args.iter().flat_map(conjuncts).collect(),
        other => vec![other],
    }
}

struct FilterBuilder {
    dialect: Dialect,
    conditions: Vec<Condition>,
}

impl FilterBuilder {
    /// Adds a condition to others that must hold; a new one is merged into one on the same path, if a single test can
    /// express both. Returns its place.
    fn push(&mut self, node: Node, all: &mut Vec<Node>) -> usize {
        if let Node::Test(number) = node {
            let joined = all.iter().position(|other| match other {
                Node::Test(other) => self.join(*other as usize, number as usize),
                Node::Any(_) => false,
            });
            if let Some(place) = joined {
                self.conditions.pop();
                return place;
            }
        }
        all.push(node);
        all.len() - 1
    }

    /// Merges the second condition into the first, if one test can express both: bounds of one path, as a rule.
    fn join(&mut self, first: usize, second: usize) -> bool {
        let (before, after) = self.conditions.split_at_mut(second);
        let (Some(one), Some(other)) = (before.get_mut(first), after.first()) else { return false };
        if one.want != other.want {
            return false;
        }
        let both = match (&one.test, &other.test) {
            (Test::Set(a), Test::Set(b)) => Test::Set(Box::new(a.intersect(b))),
            (Test::TextSpan(a), Test::TextSpan(b)) if a.utf16 == b.utf16 => {
                Test::TextSpan(Box::new(a.intersect(b)))
            }
            _ => return false,
        };
        one.test = both;
        true
    }

    /// The necessary condition for the expression to be true, and true if it is sufficient, too. The expression is no
    /// AND.
    fn node(&mut self, expr: &Expr) -> Option<(Node, bool)> {
        if let Some((want, test, is_proven)) = simple(expr, self.dialect) {
            let number = u16::try_from(self.conditions.len()).ok()?;
            self.conditions.push(Condition { want, test });
            return Some((Node::Test(number), is_proven));
        }
        let Expr::Call { function: Function::Or, args } = expr else { return None };
        let before = self.conditions.len();
        // In Bullet an operand that is in error decides, even where a later one would be true.
        let mut is_proven = self.dialect.errors_become_null();
        let mut branches = Vec::with_capacity(args.len());
        for arg in args {
            let mut branch = Vec::new();
            for part in conjuncts(arg) {
                match self.node(part) {
                    Some((node, proven)) => {
                        self.push(node, &mut branch);
                        is_proven &= proven;
                    }
                    None => is_proven = false,
                }
            }
            if branch.is_empty() {
                self.conditions.truncate(before);
                return None;
            }
            branches.push(branch.into());
        }
        Some((Node::Any(branches.into()), is_proven))
    }
}

/// A condition that stands by itself: where, what, and whether it is all that the expression says.
fn simple(expr: &Expr, dialect: Dialect) -> Option<(Want, Test, bool)> {
    let Expr::Call { function, args } = expr else { return None };
    match (function, args.as_slice()) {
        (Function::Compare(comparison, Quantifier::One), [left, right]) => match (left, right) {
            (Expr::Call { function: Function::SizeOf, args }, Expr::Literal(size)) => {
                sized(args.first()?, *comparison, size, dialect)
            }
            (Expr::Literal(size), Expr::Call { function: Function::SizeOf, args }) => {
                sized(args.first()?, mirrored(*comparison), size, dialect)
            }
            (Expr::Path { .. }, Expr::Literal(literal)) => {
                compared(requested_path(left)?, *comparison, literal, dialect)
            }
            (Expr::Literal(literal), Expr::Path { .. }) => {
                compared(requested_path(right)?, mirrored(*comparison), literal, dialect)
            }
            _ => None,
        },
        (Function::In { negated: false }, [path, Expr::Call { function: Function::List, args: items }]) => {
            one_of(requested_path(path)?, items, dialect)
        }
        (Function::Between { negated: false }, [path, Expr::Literal(low), Expr::Literal(high)]) => {
            between(requested_path(path)?, low, high, dialect)
        }
        (Function::MatchesText(Comparison::Eq), [path, Expr::Literal(Literal::String(text))]) => {
            matches_text(requested_path(path)?, text, dialect)
        }
        (Function::Like { negated: false }, [path, Expr::Literal(Literal::String(pattern))]) => {
            let want = requested_path(path).filter(may_be_text)?;
            if !pattern.contains(['%', '_', '\\']) {
                return Some((want, Test::Text(pattern.clone()), true));
            }
            let (required, is_all) = of_like(pattern);
            Some((want, required_test(required?), is_all))
        }
        (Function::RLike { any: false, negated: false }, [path, Expr::Literal(Literal::String(pattern))]) => {
            matches_pattern(requested_path(path)?, &[pattern])
        }
        (
            Function::RLike { any: true, negated: false },
            [path, Expr::Call { function: Function::List, args: patterns }],
        ) => {
            let patterns = patterns.iter().map(|pattern| match pattern {
                Expr::Literal(Literal::String(pattern)) => Some(&**pattern),
                _ => None,
            });
            matches_pattern(requested_path(path)?, &patterns.collect::<Option<Vec<&str>>>()?)
        }
        (Function::SizeIs, [path, Expr::Literal(size @ (Literal::Integer(_) | Literal::Long(_)))]) => {
            sized(path, Comparison::Eq, size, dialect)
        }
        (Function::ContainsKey, [path, Expr::Literal(Literal::String(key))]) => {
            let want = requested_path(path).filter(|want| may_be_container(want, dialect))?;
            Some((want, Test::Key(key.clone()), true))
        }
        (Function::Search, [path, Expr::Literal(Literal::String(query))]) => {
            searched(requested_path(path)?, query)
        }
        (Function::IsNull, [path]) => {
            let want =
                requested_path(path).filter(|want| matches!(want.ty, Type::Any | Type::Primitive(_)))?;
            Some((want, Test::Null { errors: dialect.errors_become_null() }, true))
        }
        (Function::IsNotNull, [path]) => {
            let want =
                requested_path(path).filter(|want| matches!(want.ty, Type::Any | Type::Primitive(_)))?;
            Some((want, Test::NotNull, true))
        }
        (Function::Or, operands) => {
            // Values of one path.
            let mut operands = operands.iter();
            let (want, test, _) = simple(operands.next()?, dialect).filter(|(_, _, proven)| *proven)?;
            let mut all = as_set(test)?;
            for operand in operands {
                let (other, test, _) = simple(operand, dialect).filter(|(_, _, proven)| *proven)?;
                let set = as_set(test)?;
                // In Bullet what does not compare is an error, even beside an operand that is true.
                if other != want || !dialect.errors_become_null() && kinds(&set) != kinds(&all) {
                    return None;
                }
                all.add(set);
            }
            Some((want, of_set(all), true))
        }
        _ => None,
    }
}

/// The test that a whole text matches one of these patterns.
fn matches_pattern(want: Want, patterns: &[&str]) -> Option<(Want, Test, bool)> {
    may_be_text(&want).then_some(())?;
    let sources: Vec<String> =
        patterns.iter().map(|pattern| java_pattern_as_regex(pattern)).collect::<Option<_>>()?;
    let all: Option<Vec<RequiredText>> = sources.iter().map(|source| of_regex(source)).collect();
    let required = match all {
        Some(mut all) if all.len() == 1 => all.pop().map(required_test),
        // The texts that each pattern contains are not searched together.
        Some(all) => {
            let prefixes = all.into_iter().map(|required| match required {
                RequiredText::Prefixes(prefixes) => Some(prefixes),
                RequiredText::Contains(_) => None,
            });
            let prefixes: Option<Vec<_>> = prefixes.collect();
            prefixes.map(|prefixes| required_test(RequiredText::Prefixes(prefixes.concat())))
        }
        None => None,
    };
    Some((want, Test::Pattern(Arc::new(Pattern::new(sources, required)?)), true))
}

/// The words that a search requires, of the event or of what is at a path.
fn searched(want: Want, query: &str) -> Option<(Want, Test, bool)> {
    let search = if want.path.is_event() { EventSearch::of_event } else { EventSearch::of_value };
    let search = search(query, Operator::And, None).ok()?;
    let words = WordTest::of(&search, want.ty == Type::Primitive(Primitive::String))?;
    let is_proven = words.is_exact;
    Some((want, Test::Words(Box::new(words)), is_proven))
}

/// The way the size of what is at a path compares with a constant.
fn sized(
    path: &Expr,
    comparison: Comparison,
    size: &Literal,
    dialect: Dialect,
) -> Option<(Want, Test, bool)> {
    let want = requested_path(path).filter(|want| may_be_container(want, dialect))?;
    let spans = Spans::of(comparison, number_of(size)?, dialect).longs;
    Some((want, Test::Size(spans.into()), true))
}

/// True if the value may be a container; in Bullet its declared type decides that.
fn may_be_container(want: &Want, dialect: Dialect) -> bool {
    dialect == Dialect::Native && want.ty == Type::Any
}

fn required_test(required: RequiredText) -> Test {
    match required {
        RequiredText::Prefixes(prefixes) => Test::Prefixes(prefixes.into()),
        RequiredText::Contains(literal) => {
            Test::Contains(Box::new(memchr::memmem::Finder::new(&literal).into_owned()))
        }
    }
}

fn compared(
    want: Want,
    comparison: Comparison,
    literal: &Literal,
    dialect: Dialect,
) -> Option<(Want, Test, bool)> {
    if let Some(number) = number_of(literal) {
        may_be_number(&want).then_some(())?;
        let set = ValueSet { spans: Spans::of(comparison, number, dialect), ..ValueSet::default() };
        return Some((want, Test::Set(Box::new(set)), true));
    }
    let test = match literal {
        Literal::String(text) => {
            may_be_text(&want).then_some(())?;
            let bound = |inclusive: bool| Some((text.clone(), inclusive));
            let span =
                |low, high| Test::TextSpan(Box::new(TextSpan { low, high, utf16: dialect.compares_utf16() }));
            match comparison {
                Comparison::Eq => Test::Text(text.clone()),
                Comparison::Ne => Test::NotText(text.clone()),
                Comparison::Lt => span(None, bound(false)),
                Comparison::Le => span(None, bound(true)),
                Comparison::Gt => span(bound(false), None),
                Comparison::Ge => span(bound(true), None),
            }
        }
        Literal::Boolean(value) if matches!(comparison, Comparison::Eq | Comparison::Ne) => {
            matches!(want.ty, Type::Any | Type::Primitive(Primitive::Boolean)).then_some(())?;
            let wanted = *value == (comparison == Comparison::Eq);
            Test::Set(Box::new(ValueSet { booleans: 1 << u8::from(wanted), ..ValueSet::default() }))
        }
        _ => return None,
    };
    Some((want, test, true))
}

fn one_of(want: Want, items: &[Expr], dialect: Dialect) -> Option<(Want, Test, bool)> {
    let mut all = ValueSet::default();
    let mut first: Option<std::mem::Discriminant<Literal>> = None;
    for item in items {
        let Expr::Literal(literal) = item else { return None };
        if *literal == Literal::Null {
            // Nothing is equal to it, and what equals another element is found all the same.
            continue;
        }
        // In Bullet a list of several types compares with nothing.
        let kind = std::mem::discriminant(literal);
        if *first.get_or_insert(kind) != kind && dialect == Dialect::Bullet {
            return None;
        }
        let (_, test, _) = compared(want.clone(), Comparison::Eq, literal, dialect)?;
        all.add(as_set(test)?);
    }
    Some((want, of_set(all), true))
}

fn between(want: Want, low: &Literal, high: &Literal, dialect: Dialect) -> Option<(Want, Test, bool)> {
    if let (Some(low), Some(high)) = (number_of(low), number_of(high)) {
        may_be_number(&want).then_some(())?;
        let spans = match dialect {
            Dialect::Native => {
                Spans::of(Comparison::Ge, low, dialect).intersect(&Spans::of(Comparison::Le, high, dialect))
            }
            Dialect::Bullet => Spans::between_doubles(as_double(low), as_double(high)),
        };
        return Some((want, Test::Set(Box::new(ValueSet { spans, ..ValueSet::default() })), true));
    }
    let (Literal::String(low), Literal::String(high)) = (low, high) else { return None };
    may_be_text(&want).then_some(())?;
    let span = TextSpan {
        low: Some((low.clone(), true)),
        high: Some((high.clone(), true)),
        utf16: dialect.compares_utf16(),
    };
    Some((want, Test::TextSpan(Box::new(span)), true))
}

/// Equality with a text that stands for whatever the event holds.
fn matches_text(want: Want, text: &str, dialect: Dialect) -> Option<(Want, Test, bool)> {
    matches!(want.ty, Type::Any).then_some(())?;
    let trimmed = text.trim();
    let is = |word: &str| trimmed.eq_ignore_ascii_case(word);
    if is("null") {
        return None;
    }
    let long: Option<i64> = trimmed.parse().ok();
    let double: Option<f64> = trimmed.parse().ok().filter(|double: &f64| double.is_finite());
    let mut set = ValueSet { texts: vec![text.into()], ..ValueSet::default() };
    if is("true") || is("false") {
        set.booleans = 1 << u8::from(is("true"));
    }
    let equal = |number: Number| Spans::of(Comparison::Eq, number, dialect);
    if let Some(double) = double {
        set.spans = equal(Number::Double(double));
    }
    if let Some(long) = long {
        set.spans.longs = equal(Number::Whole(long)).longs;
    }
    Some((want, of_set(set), true))
}

/// A test as a set, where it is one.
fn as_set(test: Test) -> Option<ValueSet> {
    match test {
        Test::Text(text) => Some(ValueSet { texts: vec![text], ..ValueSet::default() }),
        Test::Set(set) => Some(*set),
        _ => None,
    }
}

fn of_set(mut set: ValueSet) -> Test {
    match set.texts.as_slice() {
        [_] if set.spans == Spans::default() && set.booleans == 0 => Test::Text(set.texts.swap_remove(0)),
        _ => Test::Set(Box::new(set)),
    }
}

/// The kinds of values in a set.
fn kinds(set: &ValueSet) -> (bool, bool, bool) {
    (set.texts.is_empty(), set.spans == Spans::default(), set.booleans == 0)
}

fn number_of(literal: &Literal) -> Option<Number> {
    match literal {
        Literal::Integer(value) => Some(Number::Whole(i64::from(*value))),
        Literal::Long(value) => Some(Number::Whole(*value)),
        Literal::Float(value) => Some(Number::Double(f64::from(*value))),
        Literal::Double(value) => Some(Number::Double(*value)),
        Literal::Null | Literal::Boolean(_) | Literal::String(_) => None,
    }
}

fn as_double(number: Number) -> f64 {
    match number {
        Number::Whole(value) => value as f64,
        Number::Double(value) => value,
    }
}

fn may_be_number(want: &Want) -> bool {
    use Primitive::{Double, Float, Integer, Long};
    matches!(want.ty, Type::Any | Type::Primitive(Integer | Long | Float | Double))
}

fn may_be_text(want: &Want) -> bool {
    matches!(want.ty, Type::Any | Type::Primitive(Primitive::String))
}

fn requested_path(expr: &Expr) -> Option<Want> {
    match expr {
        Expr::Path { path, ty } => Some(Want { path: path.clone(), ty: ty.clone() }),
        _ => None,
    }
}
