//! The grammar of search queries.
//!
//! ```text
//! query    := any
//! any      := all ("OR" all)*
//! all      := joined+                        side by side: AND, or OR where that is asked for
//! joined   := clause ("AND" clause)*
//! clause   := ("NOT" | "-" | "+") clause | operand ("^" number)?
//! operand  := "(" query ")" | "*" | (column ":")? value
//! column   := name ("." name)*               `\` before a character makes it an ordinary one
//! value    := word ("~" 1 | "~" 2)? | phrase ("~" slop)? "*"? | "(" query ")" | "*" (has a value)
//!           | "=" text | "/" expression "/" | ("<" | "<=" | ">" | ">=") scalar
//!           | ("[" | "{") scalar "TO" scalar ("]" | "}")       "*" is no bound; "[" includes the bound, "{" does not
//! word     := characters, `*` (any number of them) and `?` (one)
//! phrase   := "\"" characters "\""
//! ```
//!
//! The parser knows no columns and no analysis: [`crate::Matcher`] binds both. It finds all faults of a query at once.

pub(crate) mod parser;
pub(crate) mod scalar;

use std::ops::Range;

use crate::{faults::QueryFaults, term::Piece};

pub use scalar::{Number, Scalar, moment_micros};

/// Bytes that a query may have.
pub const QUERY_BYTES_MAX: usize = 64 << 10;
/// Words, phrases and other conditions that a query may have.
pub const CLAUSES_MAX: usize = 1024;
/// Maximum nesting of parentheses.
pub const DEPTH_MAX: usize = 64;
/// The largest slop of a phrase.
pub const SLOP_MAX: u32 = 100;

/// The operator between clauses side by side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Operator {
    /// All must be satisfied.
    #[default]
    And,
    /// One must be satisfied.
    Or,
}

/// A clause of a query.
#[derive(Debug, Clone, PartialEq)]
pub struct Clause {
    /// The condition.
    pub node: Node,
    /// The weight of its scores.
    pub boost: f32,
    /// Its place in the query, in bytes.
    pub span: Range<usize>,
}

/// The condition of a clause.
#[derive(Debug, Clone, PartialEq)]
pub enum Node {
    /// Every row.
    Everything,
    /// All of the required clauses; the optional ones only add to scores, unless nothing is required: then one must be
    /// satisfied.
    All {
        /// Clauses that must be satisfied.
        required: Vec<Clause>,
        /// Clauses that may be.
        optional: Vec<Clause>,
    },
    /// One of them.
    Any(Vec<Clause>),
    /// The clause must not match.
    Not(Box<Clause>),
    /// A condition on a column, or on the default columns.
    Condition {
        /// The column, by its path; none for the default columns.
        column: Option<Column>,
        /// The condition.
        test: Test,
    },
}

/// A column, as it is written.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Column {
    /// Its name, and the path into it.
    pub path: Vec<Box<str>>,
    /// Its place in the query, in bytes.
    pub span: Range<usize>,
}

/// A condition on the values of a column.
#[derive(Debug, Clone, PartialEq)]
pub enum Test {
    /// A word, perhaps with wildcards, perhaps approximately.
    Word {
        /// Its text and wildcards.
        pieces: Vec<Piece>,
        /// Edits that may be between it and a token.
        distance: u8,
    },
    /// Words one after the other.
    Phrase {
        /// Their text.
        text: String,
        /// Number of positions by which the words may be displaced against one another.
        slop: u32,
        /// True if the last word may continue.
        is_open: bool,
    },
    /// This very text is in the value.
    Literal(String),
    /// A regular expression finds something in the value.
    Expression(String),
    /// A comparison with a bound or two.
    Range {
        /// The lower bound, and whether it is included.
        low: Option<(Scalar, bool)>,
        /// The upper bound, and whether it is included.
        high: Option<(Scalar, bool)>,
    },
    /// The value exists.
    Exists,
}

/// Parses a query. The empty query asks for every row.
///
/// ```
/// use swiftwater_text::query::{Operator, parse};
///
/// assert!(parse("timeout OR (status:500 -retry)", Operator::And).is_ok());
/// let faults = parse("(timeout OR", Operator::And).unwrap_err();
/// assert_eq!(faults.to_string(), "character 1: `(` is not closed; character 12: `OR` has nothing after it");
/// ```
pub fn parse(text: &str, operator: Operator) -> Result<Clause, QueryFaults> {
    let (query, faults) = parser::parse(text, operator);
    faults.or(query)
}
