//! A query as it is written: names unresolved, places kept, parentheses kept.

use swiftwater_event::Type;

use crate::{
    plan::{AggregateFunction, Comparison, Literal, Quantifier},
    source::Span,
};

/// A whole statement.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Statement {
    pub(crate) explain: bool,
    pub(crate) distinct: Option<Span>,
    pub(crate) items: Vec<Item>,
    pub(crate) stream: Stream,
    pub(crate) sample: Option<f64>,
    pub(crate) filter: Option<Node>,
    pub(crate) group_by: Option<GroupBy>,
    pub(crate) having: Option<Having>,
    pub(crate) order_by: Vec<Order>,
    pub(crate) window: Option<Windowing>,
    pub(crate) limit: Option<u64>,
}

/// An item of a select list.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Item {
    Star(Span),
    Expr { node: Node, alias: Option<Name> },
}

/// `STREAM(…)`.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Stream {
    pub(crate) name: Option<swiftwater_event::StreamName>,
    pub(crate) duration_ms: Option<u64>,
}

/// `GROUP BY …`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct GroupBy {
    pub(crate) span: Span,
    pub(crate) keys: Vec<Node>,
}

/// `HAVING …`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Having {
    pub(crate) span: Span,
    pub(crate) node: Node,
}

/// An item of ORDER BY.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Order {
    pub(crate) node: Node,
    pub(crate) descending: bool,
}

/// `WINDOWING …`, its numbers not yet checked against the query's kind.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Windowing {
    pub(crate) span: Span,
    pub(crate) window: crate::plan::Window,
}

/// A name, with or without quotes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Name {
    pub(crate) text: Box<str>,
    pub(crate) quoted: bool,
    pub(crate) span: Span,
}

/// An expression. Trees are at most [`crate::parser::DEPTH_MAX`] deep, so recursion over them is safe.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    pub(crate) kind: NodeKind,
    pub(crate) span: Span,
    /// Levels of this tree, 1 for a leaf.
    pub(crate) depth: usize,
}

/// What an expression is.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum NodeKind {
    Literal(Literal),
    /// NOW: the time that the query was read at.
    Now,
    /// A name: a field, or an output column.
    Name(Name),
    /// `base.name`.
    Member(Box<Node>, Name),
    /// `base[index]`.
    Index(Box<Node>, Box<Node>),
    /// `path : type`; the type is that of the path's first name.
    Hint(Box<Node>, Type),
    Parens(Box<Node>),
    Unary(Unary, Box<Node>),
    Binary(Binary, Box<Node>, Box<Node>),
    /// Two or more operands.
    And(Vec<Node>),
    /// Two or more operands.
    Or(Vec<Node>),
    IsNull {
        operand: Box<Node>,
        negated: bool,
    },
    /// `value IN (a, b)`.
    InList {
        value: Box<Node>,
        list: Vec<Node>,
        negated: bool,
    },
    /// `value BETWEEN (low, high)`; `bounds` holds both.
    Between {
        value: Box<Node>,
        bounds: Box<[Node; 2]>,
        negated: bool,
    },
    List(Vec<Node>),
    Call(Builtin, Vec<Node>),
    Cast(Box<Node>, Type),
    Case {
        operand: Option<Box<Node>>,
        arms: Vec<(Node, Node)>,
        otherwise: Option<Box<Node>>,
    },
    /// `argument` is `None` for COUNT(*).
    Aggregate {
        function: AggregateFunction,
        argument: Option<Box<Node>>,
    },
}

/// Operators before their one operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unary {
    Not,
    Minus,
}

/// Operators between two operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Binary {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Concat,
    Compare(Comparison, Quantifier),
    RLike {
        any: bool,
        negated: bool,
    },
    Like {
        negated: bool,
    },
    /// `value IN container`.
    In {
        negated: bool,
    },
    Xor,
}

/// Functions that are written as such.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Builtin {
    SizeIs,
    SizeOf,
    ContainsKey,
    ContainsValue,
    Filter,
    If,
    Coalesce,
    Abs,
    Trim,
    Lower,
    Upper,
    Substring,
    UnixTimestamp,
    Hash,
    Between,
}

impl Builtin {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Builtin::SizeIs => "SIZEIS",
            Builtin::SizeOf => "SIZEOF",
            Builtin::ContainsKey => "CONTAINSKEY",
            Builtin::ContainsValue => "CONTAINSVALUE",
            Builtin::Filter => "FILTER",
            Builtin::If => "IF",
            Builtin::Coalesce => "COALESCE",
            Builtin::Abs => "ABS",
            Builtin::Trim => "TRIM",
            Builtin::Lower => "LOWER",
            Builtin::Upper => "UPPER",
            Builtin::Substring => "SUBSTRING",
            Builtin::UnixTimestamp => "UNIXTIMESTAMP",
            Builtin::Hash => "HASH",
            Builtin::Between => "BETWEEN",
        }
    }

    /// The fewest and the most operands.
    pub(crate) fn arity(self) -> (usize, usize) {
        match self {
            Builtin::SizeOf
            | Builtin::Abs
            | Builtin::Trim
            | Builtin::Lower
            | Builtin::Upper
            | Builtin::Hash => (1, 1),
            Builtin::SizeIs | Builtin::ContainsKey | Builtin::ContainsValue | Builtin::Filter => (2, 2),
            Builtin::If | Builtin::Between => (3, 3),
            Builtin::Substring => (2, 3),
            Builtin::UnixTimestamp => (0, 2),
            Builtin::Coalesce => (1, usize::MAX),
        }
    }
}

impl Node {
    /// This without the parentheses around it.
    pub(crate) fn bare(&self) -> &Node {
        let mut node = self;
        while let NodeKind::Parens(inner) = &node.kind {
            node = inner;
        }
        node
    }

    /// Calls `visit` with each direct operand.
    pub(crate) fn children<'a>(&'a self, visit: &mut dyn FnMut(&'a Node)) {
        match &self.kind {
            NodeKind::Literal(_) | NodeKind::Now | NodeKind::Name(_) => {}
            NodeKind::Member(a, _)
            | NodeKind::Hint(a, _)
            | NodeKind::Parens(a)
            | NodeKind::Unary(_, a)
            | NodeKind::Cast(a, _)
            | NodeKind::IsNull { operand: a, .. } => visit(a),
            NodeKind::Index(a, b) | NodeKind::Binary(_, a, b) => {
                visit(a);
                visit(b);
            }
            NodeKind::And(list) | NodeKind::Or(list) | NodeKind::List(list) | NodeKind::Call(_, list) => {
                list.iter().for_each(visit);
            }
            NodeKind::InList { value, list, .. } => {
                visit(value);
                list.iter().for_each(visit);
            }
            NodeKind::Between { value, bounds, .. } => {
                visit(value);
                bounds.iter().for_each(visit);
            }
            NodeKind::Case { operand, arms, otherwise } => {
                operand.iter().for_each(|node| visit(node));
                for (when, then) in arms {
                    visit(when);
                    visit(then);
                }
                otherwise.iter().for_each(|node| visit(node));
            }
            NodeKind::Aggregate { argument, .. } => argument.iter().for_each(|node| visit(node)),
        }
    }

    /// The first aggregate in this tree, in the order of the text.
    pub(crate) fn aggregate(&self) -> Option<&Node> {
        if matches!(self.kind, NodeKind::Aggregate { .. }) {
            return Some(self);
        }
        let mut found = None;
        self.children(&mut |child| {
            if found.is_none() {
                found = child.aggregate();
            }
        });
        found
    }
}
