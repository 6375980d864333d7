//! What the catalog holds of durable queries: what they are, and how far each is.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use swiftwater_event::Millis;
use swiftwater_lang::plan::Literal;

use crate::{EndReason, QueryForm, SubmitOptions, resume_point::Noted};

/// All durable queries, by id, so in the order in which they were asked.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct DetachedEntries(BTreeMap<Box<str>, DetachedEntry>);

/// All of them within a snapshot of the catalog.
pub(crate) type DetachedSnapshot = Vec<DetachedEntry>;

/// A durable query.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct DetachedEntry {
    pub(crate) id: Box<str>,
    /// Who asked it.
    pub(super) principal: Box<str>,
    /// The stream that it is of, by number, and how that was declared when it was asked.
    pub(super) stream: u32,
    pub(super) declared: String,
    pub(super) text: String,
    /// Written as JSON rather than BQL.
    #[serde(default)]
    is_json: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    parameters: Vec<Parameter>,
    /// The offset of the first event that it sees.
    pub(super) first: u64,
    /// When it was asked, and when its duration is over.
    pub(super) received: Millis,
    pub(super) ends: Option<Millis>,
    #[serde(default)]
    pub(super) noted: Noted,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) ended: Option<Ended>,
}

/// The end of a durable query.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ended {
    pub(super) at: Millis,
    /// The first event that it does not see.
    pub(super) offset: u64,
    reason: Reason,
}

/// As [`EndReason`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Reason {
    Duration,
    Limit,
    EndOfInput,
    Client,
    Killed,
    Shutdown,
    RateLimited(String),
    Failed(String),
}

/// What a `$1` stands for. Numbers that are not whole are their bits, so that each is the same again.
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

/// What happens to durable queries.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum DetachedStep {
    /// One was asked.
    Began(Box<DetachedEntry>),
    /// Some are so far.
    Noted(Vec<(Box<str>, Noted)>),
    /// One has ended; its results are kept.
    Ended { query: Box<str>, ended: Ended },
    /// Nothing is left of one.
    Forgotten(Box<str>),
}

impl Ended {
    pub(super) fn new(at: Millis, offset: u64, reason: &EndReason) -> Ended {
        let reason = match reason {
            EndReason::Duration => Reason::Duration,
            EndReason::Limit => Reason::Limit,
            EndReason::EndOfInput => Reason::EndOfInput,
            EndReason::Client => Reason::Client,
            EndReason::Killed => Reason::Killed,
            EndReason::Shutdown => Reason::Shutdown,
            EndReason::RateLimited(why) => Reason::RateLimited(why.clone()),
            EndReason::Failed(why) => Reason::Failed(why.clone()),
        };
        Ended { at, offset, reason }
    }

    pub(super) fn reason(&self) -> EndReason {
        match &self.reason {
            Reason::Duration => EndReason::Duration,
            Reason::Limit => EndReason::Limit,
            Reason::EndOfInput => EndReason::EndOfInput,
            Reason::Client => EndReason::Client,
            Reason::Killed => EndReason::Killed,
            Reason::Shutdown => EndReason::Shutdown,
            Reason::RateLimited(why) => EndReason::RateLimited(why.clone()),
            Reason::Failed(why) => EndReason::Failed(why.clone()),
        }
    }
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

impl DetachedEntry {
    /// A query that begins with the event at `first`.
    pub(super) fn new(
        (id, principal): (String, &str),
        (stream, declared): (u32, String),
        (text, options): (&str, &SubmitOptions),
        first: u64,
        (received, ends): (Millis, Option<Millis>),
    ) -> DetachedEntry {
        DetachedEntry {
            id: id.into(),
            principal: principal.into(),
            stream,
            declared,
            text: text.to_owned(),
            is_json: options.form == QueryForm::Json,
            parameters: options.parameters.iter().map(Parameter::of).collect(),
            first,
            received,
            ends,
            noted: Noted::default(),
            ended: None,
        }
    }

    /// How it was asked, without the types of its stream.
    pub(super) fn options(&self) -> SubmitOptions {
        SubmitOptions {
            detach: true,
            form: if self.is_json { QueryForm::Json } else { QueryForm::Bql },
            parameters: self.parameters.iter().map(Parameter::literal).collect(),
            ..SubmitOptions::default()
        }
    }

    /// The first event that it needs.
    pub(super) fn needs_from(&self) -> u64 {
        self.noted.from.map_or(self.first, |point| point.offset.max(self.first))
    }
}

impl DetachedEntries {
    pub(super) fn all(&self) -> impl Iterator<Item = &DetachedEntry> {
        self.0.values()
    }

    /// How many stand.
    pub(super) fn standing(&self) -> usize {
        self.0.values().filter(|entry| entry.ended.is_none()).count()
    }

    /// The first event of a stream that any of them needs.
    pub(in crate::history) fn needs_from(&self, stream: u32) -> Option<u64> {
        self.0.values().filter(|entry| entry.stream == stream).map(DetachedEntry::needs_from).min()
    }

    /// Of one that is gone it does nothing.
    pub(in crate::history) fn apply(&mut self, step: &DetachedStep) {
        match step {
            DetachedStep::Began(entry) => {
                self.0.insert(entry.id.clone(), DetachedEntry::clone(entry));
            }
            DetachedStep::Noted(noted) => {
                for (id, noted) in noted {
                    if let Some(entry) = self.0.get_mut(id) {
                        entry.noted = *noted;
                    }
                }
            }
            DetachedStep::Ended { query, ended } => {
                if let Some(entry) = self.0.get_mut(query) {
                    entry.ended.get_or_insert_with(|| ended.clone());
                }
            }
            DetachedStep::Forgotten(query) => _ = self.0.remove(query),
        }
    }

    pub(in crate::history) fn forget_stream(&mut self, stream: u32) {
        self.0.retain(|_, entry| entry.stream != stream);
    }

    pub(in crate::history) fn snapshot(&self) -> DetachedSnapshot {
        self.0.values().cloned().collect()
    }

    pub(in crate::history) fn from_snapshot(snapshot: &DetachedSnapshot) -> DetachedEntries {
        DetachedEntries(snapshot.iter().map(|entry| (entry.id.clone(), entry.clone())).collect())
    }
}
