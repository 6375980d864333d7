//! The syntax tree of a join of two streams.

use swiftwater_event::StreamName;

use super::{Name, Node};

/// `SELECT … FROM STREAM(a) AS x JOIN STREAM(b) AS y ON … [WHERE …]`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StreamJoin {
    /// The expressions of a pair's columns, each with its alias.
    pub(crate) items: Vec<(Node, Option<Name>)>,
    /// The left stream and the right one.
    pub(crate) sources: [JoinSource; 2],
    /// The conditions of ON, joined by AND.
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
    /// The lower bound, with the milliseconds added.
    pub(crate) low: (Node, i64),
    pub(crate) high: (Node, i64),
}
