//! Durable queries: their text, their first event, and the progress of each query and of its reader.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use swiftwater_event::Millis;
use swiftwater_lang::plan::Literal;

/// All durable queries, by id, so in the order in which they were asked.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DurableQueries(BTreeMap<Box<str>, DurableQueryEntry>);

/// All of them within a snapshot of the catalog.
pub type DurableQuerySnapshots = Vec<DurableQueryEntry>;

/// A durable query.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DurableQueryEntry {
    /// Its id.
    pub id: Box<str>,
    /// The principal that submitted it.
    pub principal: Box<str>,
    /// The stream that it is of, by number.
    pub stream: u32,
    /// The declaration of that stream when the query was submitted.
    pub declared: String,
    /// Its text.
    pub text: String,
    /// Written as JSON rather than BQL.
    #[serde(default)]
    pub is_json: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    parameters: Vec<Parameter>,
    /// The offset of the first event that it sees.
    pub first: u64,
    /// The time at which it was received, and the end of its duration.
    pub received: Millis,
    /// The end of its duration, as for [`DurableQueryEntry::received`].
    pub ends: Option<Millis>,
    /// Its progress.
    #[serde(default)]
    pub noted: QueryCheckpoint,
    /// Its end, once it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Ended>,
}

/// The end of a durable query.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// The time.
    pub at: Millis,
    /// The first event that it does not see.
    pub offset: u64,
    /// The reason.
    pub reason: EndReason,
}

/// The reason of a query's end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndReason {
    /// Its duration is over.
    Duration,
    /// It has all rows that its LIMIT asks for.
    Limit,
    /// Its input ended.
    EndOfInput,
    /// Its client went away or ended it.
    Client,
    /// A client killed it.
    Killed,
    /// The server is shutting down.
    Shutdown,
    /// It exceeded its rate of answers, which the text has.
    RateLimited(String),
    /// It passed a limit; the text names it.
    Failed(String),
}

/// A position in the life of a query from which it can go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ResumePoint {
    /// The number of the last emit before it.
    pub number: u64,
    /// Events before it arrived before this, those after it then or later.
    pub at: Millis,
    /// The offset of the first event after it.
    pub offset: u64,
    /// Emits before it.
    pub emits: u64,
    /// Records before it.
    pub records: u64,
    /// The events before it that matched.
    pub matched: u64,
    /// The values in events before it whose type the query does not expect.
    pub mistyped: u64,
    /// The expressions that failed in events before it.
    pub expression_errors: u64,
    /// The errors among them that come from the emits before it.
    pub result_errors: u64,
}

/// The progress of a durable query and its reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct QueryCheckpoint {
    /// Emits up to this number need not be made again.
    pub gone: u64,
    /// The number up to which emits were read or lost.
    pub read: u64,
    /// Records lost.
    pub dropped: u64,
    /// Time had come so far.
    pub time: Millis,
    /// The point from which on its events are needed; none: from the first on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<ResumePoint>,
    /// The amount emitted up to the last of the emits that need not be made again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub given: Option<ResumePoint>,
}

/// The value of a `$1`. Numbers that are not whole are their bits, so that each is the same again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Parameter {
    Null,
    Boolean(bool),
    Integer(i32),
    Long(i64),
    Float(u32),
    Double(u64),
    String(Box<str>),
}

/// A step in the life of a durable query.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DurableQueryStep {
    /// One was asked.
    Began(Box<DurableQueryEntry>),
    /// The progress of some.
    Noted(Vec<(Box<str>, QueryCheckpoint)>),
    /// One has ended; its results are kept.
    Ended {
        /// Its id.
        query: Box<str>,
        /// Its end.
        ended: Ended,
    },
    /// The state of one was removed.
    Forgotten(Box<str>),
}

impl Parameter {
    fn of(literal: &Literal) -> Parameter {
        match literal {
            Literal::Null => Parameter::Null,
            Literal::Boolean(value) => Parameter::Boolean(*value),
            Literal::Integer(value) => Parameter::Integer(*value),
            Literal::Long(value) => Parameter::Long(*value),
            Literal::Float(value) => Parameter::Float(value.to_bits()),
            Literal::Double(value) => Parameter::Double(value.to_bits()),
            Literal::String(value) => Parameter::String(value.clone()),
        }
    }

    fn literal(&self) -> Literal {
        match self {
            Parameter::Null => Literal::Null,
            Parameter::Boolean(value) => Literal::Boolean(*value),
            Parameter::Integer(value) => Literal::Integer(*value),
            Parameter::Long(value) => Literal::Long(*value),
            Parameter::Float(bits) => Literal::Float(f32::from_bits(*bits)),
            Parameter::Double(bits) => Literal::Double(f64::from_bits(*bits)),
            Parameter::String(value) => Literal::String(value.clone()),
        }
    }
}

impl DurableQueryEntry {
    /// A query that begins with the event at `first`.
    pub fn new(
        (id, principal): (String, &str),
        (stream, declared): (u32, String),
        (text, is_json, parameters): (&str, bool, &[Literal]),
        first: u64,
        (received, ends): (Millis, Option<Millis>),
    ) -> DurableQueryEntry {
        DurableQueryEntry {
            id: id.into(),
            principal: principal.into(),
            stream,
            declared,
            text: text.to_owned(),
            is_json,
            parameters: parameters.iter().map(Parameter::of).collect(),
            first,
            received,
            ends,
            noted: QueryCheckpoint::default(),
            ended: None,
        }
    }

    /// Values of its parameters.
    pub fn parameters(&self) -> Vec<Literal> {
        self.parameters.iter().map(Parameter::literal).collect()
    }

    /// The first event that it needs.
    pub fn first_needed(&self) -> u64 {
        self.noted.from.map_or(self.first, |point| point.offset.max(self.first))
    }
}

impl DurableQueries {
    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = &DurableQueryEntry> {
        self.0.values()
    }

    /// The number of queries that have not ended.
    pub fn standing(&self) -> usize {
        self.0.values().filter(|entry| entry.ended.is_none()).count()
    }

    /// The first event of a stream that any of them needs.
    pub fn first_needed(&self, stream: u32) -> Option<u64> {
        self.0.values().filter(|entry| entry.stream == stream).map(DurableQueryEntry::first_needed).min()
    }

    /// Applies a step; without effect for a query that is gone.
    pub(crate) fn apply(&mut self, step: &DurableQueryStep) {
        match step {
            DurableQueryStep::Began(entry) => {
                self.0.insert(entry.id.clone(), DurableQueryEntry::clone(entry));
            }
            DurableQueryStep::Noted(noted) => {
                for (id, noted) in noted {
                    if let Some(entry) = self.0.get_mut(id) {
                        entry.noted = *noted;
                    }
                }
            }
            DurableQueryStep::Ended { query, ended } => {
                if let Some(entry) = self.0.get_mut(query) {
                    entry.ended.get_or_insert_with(|| ended.clone());
                }
            }
            DurableQueryStep::Forgotten(query) => _ = self.0.remove(query),
        }
    }

    pub(crate) fn forget_stream(&mut self, stream: u32) {
        self.0.retain(|_, entry| entry.stream != stream);
    }

    pub(crate) fn snapshot(&self) -> DurableQuerySnapshots {
        self.0.values().cloned().collect()
    }

    pub(crate) fn from_snapshot(snapshot: &DurableQuerySnapshots) -> DurableQueries {
        DurableQueries(snapshot.iter().map(|entry| (entry.id.clone(), entry.clone())).collect())
    }
}
