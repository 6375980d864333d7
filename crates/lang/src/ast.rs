//! The syntax tree of a query as written: unresolved names, source positions, and parentheses.

mod pattern;
mod stream_join;

use swiftwater_event::Type;

use crate::{
    plan::{AggregateFunction, Comparison, Explain, Literal, Quantifier, TableFunction},
    source::Span,
};
pub(crate) use pattern::{PatternOrder, PatternStep, Recognize};
pub(crate) use stream_join::{JoinBound, JoinCondition, JoinSource, StreamJoin};

/// A whole statement.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Statement {
    pub(crate) explain: Option<Explain>,
    pub(crate) query: Query,
}

/// A query, or the inner one of two.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Query {
    pub(crate) distinct: Option<Span>,
    pub(crate) items: Vec<Item>,
    pub(crate) source: Source,
    /// The stream's name in this query.
    pub(crate) alias: Option<Name>,
    /// The joins in the order of the text.
    pub(crate) joins: Vec<Join>,
    pub(crate) recognize: Option<Box<Recognize>>,
    pub(crate) sample: Option<f64>,
    pub(crate) views: Vec<View>,
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
    Expr {
        node: Node,
        alias: Option<Name>,
    },
    /// `[OUTER] EXPLODE(…) AS …`.
    Explode(View),
}

/// The source of a query.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Source {
    Stream(Stream),
    /// `(SELECT …)`.
    Query(Box<Query>),
}

impl Default for Source {
    fn default() -> Source {
        Source::Stream(Stream::default())
    }
}

/// `STREAM(…)`.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Stream {
    pub(crate) name: Option<swiftwater_event::StreamName>,
    pub(crate) duration: Option<Duration>,
}

/// The time a query stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Duration {
    Max,
    Ms(u64),
}

/// `[OUTER] EXPLODE(argument) AS x`, or `AS (k, v)`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct View {
    pub(crate) span: Span,
    pub(crate) is_outer: bool,
    pub(crate) argument: Node,
    /// One or two.
    pub(crate) columns: Vec<Name>,
}

/// `[LEFT] JOIN name [AS alias] ON …`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Join {
    pub(crate) span: Span,
    pub(crate) is_outer: bool,
    pub(crate) name: Name,
    pub(crate) alias: Option<Name>,
    pub(crate) on: Node,
    /// The number of lateral views before it.
    pub(crate) behind: usize,
}

/// `GROUP BY …`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct GroupBy {
    pub(crate) span: Span,
    pub(crate) keys: Vec<Node>,
    /// Places of keys; `None`: all of them are one set.
    pub(crate) sets: Option<Vec<Vec<usize>>>,
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

/// `WINDOWING …`, its numbers not yet checked against each other and the query's kind.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Windowing {
    pub(crate) span: Span,
    pub(crate) shape: WindowShape,
}

/// The kinds of windows, as they are written.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum WindowShape {
    Tumbling(WindowSize),
    Every(WindowSize, Include),
    Session(WindowSize),
}

/// The content of a window that is emitted at intervals.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Include {
    All,
    First(WindowSize),
    Last(WindowSize),
}

/// `n, unit`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct WindowSize {
    pub(crate) span: Span,
    pub(crate) size: u64,
    pub(crate) unit: Unit,
    pub(crate) unit_span: Span,
}

/// The unit of windows.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Unit {
    Time,
    Record,
    /// `EVENT(time[, lateness])`; `None` where it stands alone: as before, or as the stream declares.
    Event(Option<Box<EventTime>>),
}

/// The time of an event, as a window goes by it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct EventTime {
    pub(crate) time: Node,
    pub(crate) lateness_ms: u64,
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

/// The kind of an expression.
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
    /// No arguments: COUNT(*).
    Aggregate {
        function: AggregateFunction,
        arguments: Vec<Node>,
        filter: Option<Box<Node>>,
    },
    /// `GROUPING(key, …)`; no keys: all of them.
    Grouping(Vec<Node>),
    /// An aggregate whose result is rows; points are as they are written.
    Table {
        function: TableFunction,
        arguments: Vec<Node>,
    },
}

/// Operators before their one operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unary {
    Not,
    Minus,
    /// SIZEOF without parentheses.
    SizeOf,
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
    Search,
    Abs,
    Trim,
    Lower,
    Upper,
    Substring,
    UnixTimestamp,
    Hash,
    Between,
    /// FIRST of a pattern.
    First,
    /// LAST of a pattern.
    Last,
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
            Builtin::Search => "SEARCH",
            Builtin::Abs => "ABS",
            Builtin::Trim => "TRIM",
            Builtin::Lower => "LOWER",
            Builtin::Upper => "UPPER",
            Builtin::Substring => "SUBSTRING",
            Builtin::UnixTimestamp => "UNIXTIMESTAMP",
            Builtin::Hash => "HASH",
            Builtin::Between => "BETWEEN",
            Builtin::First => "FIRST",
            Builtin::Last => "LAST",
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
            | Builtin::Hash
            | Builtin::First
            | Builtin::Last => (1, 1),
            Builtin::SizeIs | Builtin::ContainsKey | Builtin::ContainsValue | Builtin::Filter => (2, 2),
            Builtin::If | Builtin::Between => (3, 3),
            Builtin::Substring => (2, 3),
            Builtin::Search => (1, 2),
            Builtin::UnixTimestamp => (0, 2),
            Builtin::Coalesce => (1, usize::MAX),
        }
    }
}

/// Visits the direct operands of a kind of node, in the order of the text: shared with `iter`, to change them with `iter_mut`.
macro_rules! visit_children {
    ($kind:expr, $iter:ident, $visit:ident) => {
        match $kind {
            NodeKind::Literal(_) | NodeKind::Now | NodeKind::Name(_) => {}
            NodeKind::Member(a, _)
            | NodeKind::Hint(a, _)
            | NodeKind::Parens(a)
            | NodeKind::Unary(_, a)
            | NodeKind::Cast(a, _)
            | NodeKind::IsNull { operand: a, .. } => $visit(a),
            NodeKind::Index(a, b) | NodeKind::Binary(_, a, b) => {
                $visit(a);
                $visit(b);
            }
            NodeKind::And(list)
            | NodeKind::Or(list)
            | NodeKind::List(list)
            | NodeKind::Call(_, list)
            | NodeKind::Grouping(list)
            | NodeKind::Table { arguments: list, .. } => list.$iter().for_each($visit),
            NodeKind::InList { value, list, .. } => {
                $visit(value);
                list.$iter().for_each($visit);
            }
            NodeKind::Between { value, bounds, .. } => {
                $visit(value);
                bounds.$iter().for_each($visit);
            }
            NodeKind::Case { operand, arms, otherwise } => {
                operand.$iter().for_each(|node| $visit(node));
                for (when, then) in arms {
                    $visit(when);
                    $visit(then);
                }
                otherwise.$iter().for_each(|node| $visit(node));
            }
            NodeKind::Aggregate { arguments, filter, .. } => {
                arguments.$iter().for_each(&mut *$visit);
                filter.$iter().for_each(|node| $visit(node));
            }
        }
    };
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
        visit_children!(&self.kind, iter, visit);
    }

    /// Visits the children as [`Node::children`] does, to change them.
    pub(crate) fn children_mut(&mut self, visit: &mut dyn FnMut(&mut Node)) {
        visit_children!(&mut self.kind, iter_mut, visit);
    }

    /// True if this is an aggregate of one value or of rows.
    pub(crate) fn is_aggregate(&self) -> bool {
        matches!(self.kind, NodeKind::Aggregate { .. } | NodeKind::Table { .. })
    }

    /// The first aggregate in this tree, in the order of the text.
    pub(crate) fn aggregate(&self) -> Option<&Node> {
        if self.is_aggregate() {
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

impl Query {
    /// The nodes of the select list.
    pub(crate) fn item_nodes(&self) -> impl Iterator<Item = &Node> {
        self.items.iter().filter_map(|item| match item {
            Item::Expr { node, .. } => Some(node),
            Item::Star(_) | Item::Explode(_) => None,
        })
    }

    /// `*` of the select list.
    pub(crate) fn star(&self) -> Option<Span> {
        self.items.iter().find_map(|item| match item {
            Item::Star(span) => Some(*span),
            _ => None,
        })
    }

    /// The EXPLODEs of the select list.
    pub(crate) fn explodes(&self) -> impl Iterator<Item = &View> {
        self.items.iter().filter_map(|item| match item {
            Item::Explode(view) => Some(view),
            _ => None,
        })
    }
}
