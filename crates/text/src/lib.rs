//! Text search over one row: the analyzer that divides text into tokens, the grammar of search queries, and their
//! evaluation.
//!
//! A scan of stored events, a search index and a standing search all use this room, so a query means the same to each. It
//! knows no table, no index and no clock: columns and values come from their owner ([`SearchColumns`], [`SearchRow`]), `now`
//! is passed in.
//!
//! ```text
//! query text ─ parse ─► Clause ─ bind to columns ─► Matcher ─ matches(row) ─► bool
//! value ─ Analyzer ─► tokens ───────────────────────────┘
//! ```
//!
//! Limits: [`query::QUERY_BYTES_MAX`], [`query::CLAUSES_MAX`], [`query::DEPTH_MAX`], [`query::SLOP_MAX`],
//! [`EXPRESSIONS_MAX`]; beyond them a query is refused. Text of any length is read whole.

mod analyzer;
mod classes;
mod code_parts;
mod columns;
mod definition;
mod event_search;
mod faults;
#[cfg(feature = "arrow")]
mod index_query;
#[cfg(feature = "arrow")]
mod indexed_files;
mod leaf;
#[cfg(feature = "arrow")]
mod literal_words;
mod matcher;
mod normalize;
mod phrase;
mod places;
mod prefilter;
pub mod query;
#[cfg(feature = "arrow")]
mod scores;
#[cfg(feature = "arrow")]
mod table;
mod term;
mod word_condition;

pub use analyzer::{Analyzer, AnalyzerOptions, AnalyzerScratch, Language, Token, TokenKind};
pub use columns::{SearchColumn, SearchColumns, SearchRow, TextKind, UnknownColumn, Value};
pub use definition::{
    BOOST_MAX, ColumnIndex, FacetIndex, IdIndex, IndexKind, LANGUAGES, SEARCH_COLUMNS_MAX, SEARCH_METADATA,
    SEPARATOR_BYTES_MAX, SearchDefinition, TextIndex, language, language_name,
};
pub use event_search::EventSearch;
pub use faults::{QueryFault, QueryFaults};
#[cfg(feature = "arrow")]
pub use index_query::{EventRows, IndexCondition, IndexLeaf, IndexQuery};
#[cfg(feature = "arrow")]
pub use indexed_files::IndexedFiles;
#[cfg(feature = "arrow")]
pub use literal_words::Literal;
pub use matcher::{EXPRESSIONS_MAX, Matcher, MatcherScratch};
pub use normalize::{UNICODE_VERSION, nfkc_casefold, push_nfkc_casefold};
pub use phrase::Phrase;
pub use prefilter::Prefilter;
#[cfg(feature = "arrow")]
pub use scores::{ScoreStatistics, WordsOfColumns};
#[cfg(feature = "arrow")]
pub use table::{
    ColumnReader, EVENT_COLUMN, Highlight, JSON_EXTENSION, SearchField, TableSearch, json_field,
};
pub use term::{Pattern, Piece, TERM_BYTES_MAX, Term, key_prefix, term_key};
pub use word_condition::{EventWords, RowWordSet, WordCondition, WordNode};
