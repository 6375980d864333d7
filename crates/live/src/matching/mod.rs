//! The matcher: finds the standing queries that an event concerns.
//!
//! *Compile* ([`filter`]). When a query is compiled, its filter is split once: into *conditions*, each of one path and
//! one test that needs no other value; into their joins by AND and OR; and into a *rest* that only an expression can
//! evaluate. Bounds on one path become one condition. A comparison with a number becomes an interval of whole numbers
//! and an interval of doubles. Both are found by asking the comparison of expressions itself ([`number`]). So a
//! condition that holds is proven, beyond 2^53 too, and is not tested again.
//!
//! *File* ([`index_segment`]). Queries with equal filters are one group. A group is filed under its *access predicate*:
//! the condition that holds most rarely (Fabret et al., "Filtering Algorithms and Implementation for Very Fast
//! Publish/Subscribe Systems", SIGMOD 2001), or one condition of each operand if the predicate is an OR. Each path has a
//! table ([`table`]):
//!
//! | condition | found by |
//! | --- | --- |
//! | `=`, `IN`, booleans | hash tables from value to groups ([`points`]). A Bloom filter of 16 bits or more a value rejects most values that no query asks for, eight rows at a time ([`bloom_filter`]). Texts of up to 12 bytes are compared as their Arrow views |
//! | `<`, `>`, `BETWEEN`, both bounds | a segment tree over the elementary intervals between all bounds (Bentley 1977): n intervals take O(n log n) room however they overlap. An interval of at most 12 pieces is listed at each piece instead. A grid of buckets of equal width finds the piece of a value; links lead from each piece over the nodes above it that have an entry ([`interval_index`]) |
//! | ranges of text | the bounds cut the line of texts into pieces, whose numbers are looked up as above |
//! | `LIKE 'abc%'`, RLIKE with a literal start | hash tables by length of prefix; the literals are read off the expression's syntax tree ([`literals`]) |
//! | `LIKE '%abc%'`, RLIKE with a literal in it | one automaton for all texts of a path (Aho and Corasick, CACM 1975) |
//! | `RLIKE` without such a literal, or with one that is not enough | sets of 64 expressions in one automaton each ([`pattern`]); built in the background, and matched one by one until then |
//! | `SIZEOF`, `SIZEIS`, `CONTAINSKEY` | the tables for numbers and texts, over sizes and keys. A value is read once a row, however many queries ask ([`contents`]) |
//! | `SEARCH` with a required word | a hash table from its rarest word ([`word_test`]) to groups, which are filed with other words that must be there or must not ([`word_table`]). A text is divided into words once a batch, however many queries search it ([`row_words`]) |
//! | `IS NULL`, `IS NOT NULL` | lists |
//!
//! *Find* ([`find`]). A batch goes through the tables path by path and collects pairs of posting and row. A counting
//! sort orders them. The rows of each posting are checked against its other conditions ([`posting`]), directly on the
//! columns, and then against the rest. Groups without a condition rarer than every second event are tested on all rows,
//! once for all their members. So a batch costs nothing for queries that it cannot match. The rest, and with it each
//! counted error, is evaluated on the rows for which *all* conditions hold, whichever condition found them. So no answer
//! and no count depends on the chosen access predicate.
//!
//! *Choose* ([`statistics`]). A sample of 256 recent events, decoded now and then, shows which conditions hold rarely.
//! If events have many more candidates than expected, access predicates are chosen anew.
//!
//! *Change* ([`index`]). The index is one immutable value that all shards share. It has levels like a log-structured
//! merge tree, so adding or ending a query never stops a stream.

pub(crate) mod filter;

mod bloom_filter;
mod condition;
mod contents;
mod ended;
mod entry;
mod find;
mod index;
mod index_segment;
mod interval_index;
mod literals;
mod number;
mod pattern;
mod points;
mod posting;
mod row_words;
mod statistics;
mod table;
mod word_table;
mod word_test;

use std::cmp::Ordering;

use swiftwater_event::Value;
use swiftwater_lang::Dialect;

pub(crate) use entry::{CountsRows, Entry, body_is_late};
pub use find::is_sampled;
pub(crate) use find::{Finder, MatchInput, Matched, mistyped_rows};
pub use index::{Index, Matching, QueryNumber, Rebuild, Rebuilt, ReplacedLevels};
pub(crate) use index_segment::Access;
pub(crate) use points::prefetch;
pub(crate) use statistics::sampled_rows;

/// The order of texts: by UTF-8 byte, or by UTF-16 unit.
fn order_text(left: &str, right: &str, utf16: bool) -> Ordering {
    let dialect = if utf16 { Dialect::Bullet } else { Dialect::Native };
    crate::expr::compare(&Value::String(left), &Value::String(right), dialect).unwrap_or(Ordering::Equal)
}
