//! A join of two streams, as it is written.

use swiftwater_event::StreamName;

use super::{Name, Node, NodeKind};

/// `SELECT … FROM STREAM(a) AS x JOIN STREAM(b) AS y ON … [WHERE …]`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StreamJoin {
    /// What a pair is made into, each with its alias.
    pub(crate) items: Vec<(Node, Option<Name>)>,
    /// The left stream and the right one.
    pub(crate) sources: [JoinSource; 2],
    /// What ON says, joined by AND.
    pub(crate) on: Vec<JoinCondition>,
    /// WHERE.
    pub(crate) filter: Option<Node>,
}

/// `STREAM(name) AS alias`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct JoinSource {
    pub(crate) stream: StreamName,
    pub(crate) alias: Name,
}

/// One condition of ON.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum JoinCondition {
    Expression(Node),
    Bound(JoinBound),
}

/// `value BETWEEN low AND high`, each of these a time and an INTERVAL added to it or taken off.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct JoinBound {
    pub(crate) value: Node,
    /// In milliseconds, what is added.
    pub(crate) low: (Node, i64),
    pub(crate) high: (Node, i64),
}

impl Node {
    /// As [`Node::children`], to change them.
    pub(crate) fn children_mut(&mut self, visit: &mut dyn FnMut(&mut Node)) {
        match &mut self.kind {
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
            NodeKind::And(list)
            | NodeKind::Or(list)
            | NodeKind::List(list)
            | NodeKind::Call(_, list)
            | NodeKind::Grouping(list) => list.iter_mut().for_each(visit),
            NodeKind::InList { value, list, .. } => {
                visit(value);
                list.iter_mut().for_each(visit);
            }
            NodeKind::Between { value, bounds, .. } => {
                visit(value);
                bounds.iter_mut().for_each(visit);
            }
            NodeKind::Case { operand, arms, otherwise } => {
                operand.iter_mut().for_each(|node| visit(node));
                for (when, then) in arms {
                    visit(when);
                    visit(then);
                }
                otherwise.iter_mut().for_each(|node| visit(node));
            }
            NodeKind::Aggregate { arguments, filter, .. } => {
                arguments.iter_mut().for_each(&mut *visit);
                filter.iter_mut().for_each(|node| visit(node));
            }
            NodeKind::Table { arguments, .. } => arguments.iter_mut().for_each(visit),
        }
    }
}
