//! A second implementation of queries, row by row and without any optimisation, with which the engine's answers are
//! compared.
//!
//! A [`Relation`] is rendered as SQL ([`text`]) and evaluated here over small tables ([`evaluate`]), with the
//! three-valued logic of the SQL standard. [`make`] generates random relations from a seed. Every column has a number of
//! its own in the statement (`n7`), so a subquery that uses an outer column needs no qualifier. Limits: whole numbers,
//! texts and booleans; sums of whole numbers only, because no sum of doubles has one right answer.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

pub(crate) mod compare;
pub(crate) mod evaluate;
pub(crate) mod make;
pub(crate) mod text;

/// A value of a column.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Value {
    Null,
    Boolean(bool),
    Long(i64),
    Text(String),
}

/// The type of a column or an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Type {
    Boolean,
    Long,
    Text,
}

pub(crate) type Row = Vec<Value>;

/// The tables that relations read: names, columns and rows.
pub(crate) struct Table {
    pub(crate) name: &'static str,
    pub(crate) columns: Vec<(&'static str, Type)>,
    pub(crate) rows: Vec<Row>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Quantifier {
    Any,
    All,
}

#[derive(Debug, Clone)]
pub(crate) enum Expr {
    Column(usize),
    Literal(Value, Type),
    Compare(Comparison, Box<Expr>, Box<Expr>),
    Plus(Box<Expr>, i64),
    Coalesce(Box<Expr>, Box<Expr>),
    Case {
        when: Box<Expr>,
        then: Box<Expr>,
        otherwise: Box<Expr>,
    },
    And(Vec<Expr>),
    Or(Vec<Expr>),
    Not(Box<Expr>),
    IsNull {
        expr: Box<Expr>,
        negated: bool,
    },
    InList {
        expr: Box<Expr>,
        values: Vec<Value>,
        negated: bool,
    },
    /// One expression, or several in brackets.
    In {
        exprs: Vec<Expr>,
        query: Box<Relation>,
        negated: bool,
    },
    Exists {
        query: Box<Relation>,
        negated: bool,
    },
    /// A query of one row and one column.
    Scalar(Box<Relation>),
    Quantified {
        expr: Box<Expr>,
        comparison: Comparison,
        quantifier: Quantifier,
        query: Box<Relation>,
    },
}

#[derive(Debug, Clone)]
pub(crate) struct Key {
    pub(crate) expr: Expr,
    pub(crate) descending: bool,
    pub(crate) nulls_first: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JoinKind {
    Inner,
    Left,
    Right,
    Full,
}

#[derive(Debug, Clone)]
pub(crate) enum Aggregate {
    Rows,
    Count(Expr),
    CountDistinct(Expr),
    Sum(Expr),
    Min(Expr),
    Max(Expr),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Grouping {
    Plain,
    Rollup,
    Cube,
    /// Each key alone, and all together.
    Sets,
}

#[derive(Debug, Clone)]
pub(crate) enum WindowFunction {
    /// The row number over an order of all columns, so that it has one right answer.
    RowNumber,
    Rank,
    DenseRank,
    Aggregate(Aggregate),
}

/// A query. Its columns are numbers.
#[derive(Debug, Clone)]
pub(crate) enum Relation {
    Table {
        table: usize,
        columns: Vec<usize>,
    },
    Filter {
        input: Box<Relation>,
        condition: Expr,
    },
    Project {
        input: Box<Relation>,
        items: Vec<(Expr, usize)>,
    },
    Join {
        kind: JoinKind,
        left: Box<Relation>,
        right: Box<Relation>,
        on: Expr,
    },
    Group {
        input: Box<Relation>,
        grouping: Grouping,
        keys: Vec<(Expr, usize)>,
        aggregates: Vec<(Aggregate, usize)>,
        having: Option<Expr>,
    },
    Window {
        input: Box<Relation>,
        function: WindowFunction,
        partition: Vec<Expr>,
        order: Vec<Key>,
        column: usize,
    },
    /// All rows of both; the columns are the left one's by place.
    Union {
        left: Box<Relation>,
        right: Box<Relation>,
        columns: Vec<usize>,
    },
    Distinct {
        input: Box<Relation>,
    },
    /// The first rows in an order of all columns.
    First {
        input: Box<Relation>,
        order: Vec<Key>,
        limit: usize,
        offset: usize,
    },
    /// A row for each value of a group's list of values, after the group's keys.
    Unnested {
        input: Box<Relation>,
        keys: Vec<(Expr, usize)>,
        list: Expr,
        column: usize,
    },
    /// A query of the WITH clause, under names of its own.
    Named {
        name: usize,
        definition: Box<Relation>,
        columns: Vec<usize>,
    },
}

impl Relation {
    pub(crate) fn columns(&self) -> Vec<usize> {
        match self {
            Relation::Table { columns, .. }
            | Relation::Union { columns, .. }
            | Relation::Named { columns, .. } => columns.clone(),
            Relation::Filter { input, .. } | Relation::Distinct { input } | Relation::First { input, .. } => {
                input.columns()
            }
            Relation::Project { items, .. } => items.iter().map(|(_, column)| *column).collect(),
            Relation::Join { left, right, .. } => [left.columns(), right.columns()].concat(),
            Relation::Group { keys, aggregates, .. } => {
                let keys = keys.iter().map(|(_, column)| *column);
                keys.chain(aggregates.iter().map(|(_, column)| *column)).collect()
            }
            Relation::Window { input, column, .. } => {
                let mut columns = input.columns();
                columns.push(*column);
                columns
            }
            Relation::Unnested { keys, column, .. } => {
                keys.iter().map(|(_, column)| *column).chain([*column]).collect()
            }
        }
    }
}
