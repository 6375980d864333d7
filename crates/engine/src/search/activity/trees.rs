//! Finds activities: the ids whose events satisfy a tree of conditions, each with its times and its number of events by stream.
//!
//! ```text
//! {"and": [{"stream": "logs", "q": "timeout"}, {"not": {"stream": "payments", "q": "*"}}]}
//!
//! leaf ─ one search of its stream ─► ids of the events found ─► set of ids ─► tree ─► ids ─► times and counts ─► page
//! ```
//!
//! An id satisfies a leaf if an event of the leaf's stream that has the id satisfies its query. Every activity that satisfies
//! a tree must satisfy a leaf of it ([`ActivityTree::is_bounded`]), so the sets of the leaves have all candidates. Limits:
//! [`LEAVES_MAX`] leaves, [`IDS_MAX`] ids.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
};

use arrow_array::{RecordBatch, cast::AsArray, types::TimestampMicrosecondType};
use serde::{Deserialize, Serialize};
use swiftwater_event::StreamName;
use swiftwater_sql::{ErrorKind as SqlErrorKind, SqlError};
use swiftwater_store::TIME_COLUMN;
use swiftwater_text::EVENT_COLUMN;

use super::{
    super::{
        Search, Target,
        cursor::{parsed, refused, written},
        nothing_stored,
        request::{Moments, SearchRequest, SearchedStream, Stage},
    },
    Correlation,
    correlation::{SearchedIds, chunks},
    limit,
    request::check_limit,
    rows_scanned,
};
use crate::{
    HistoryConfig,
    searches::{SearchError, SearchProgress},
    shared::Shared,
};

/// Leaves of a tree: a set of them is the bits of a number.
const LEAVES_MAX: usize = 64;
/// Levels of a tree.
const LEVELS_MAX: usize = 32;
/// Ids that satisfy a leaf, and ids of one answer.
const IDS_MAX: usize = 100_000;
/// Ids up to which their events are searched by id; the events of more are found among all events.
const SEARCHED_IDS: usize = 256;
/// The version of the form of cursors.
const VERSION: u8 = 1;

/// A condition on activities.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ActivityTree {
    /// All of them.
    And(Vec<ActivityTree>),
    /// One of them.
    Or(Vec<ActivityTree>),
    /// Not this one.
    Not(Box<ActivityTree>),
    /// An event of a stream satisfies a query.
    Events {
        /// The stream.
        stream: StreamName,
        /// The query, in the language of searches.
        query: String,
    },
}

/// Asks for the activities that satisfy a tree.
#[derive(Debug, Clone)]
pub struct ActivitiesRequest {
    /// The condition.
    pub tree: ActivityTree,
    /// Only events from this time on, in the forms of a search.
    pub from: Option<String>,
    /// Only events before this time.
    pub to: Option<String>,
    /// The most activities.
    pub limit: usize,
    /// The cursor of the page before.
    pub cursor: Option<String>,
    /// A name of the search; one is made if none is given.
    pub search: Option<String>,
    /// The address of the client.
    pub client: Option<IpAddr>,
}

/// An activity that satisfies a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActivitySummary {
    /// The id.
    pub id: String,
    /// The arrival of its first event, in microseconds since 1970.
    pub first_micros: i64,
    /// The arrival of its last event.
    pub last_micros: i64,
    /// By stream that has events of it, in the order of names.
    pub streams: Vec<ActivityStream>,
}

/// The events of an activity in one stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActivityStream {
    /// The stream.
    pub stream: StreamName,
    /// The number of events.
    pub events: u64,
}

/// The activities that satisfy a tree.
#[derive(Debug, Clone, Default)]
pub struct ActivitiesAnswer {
    /// The activities of this page: the one with the latest last event first; equal ones by id.
    pub activities: Vec<ActivitySummary>,
    /// The number of all activities.
    pub total: u64,
    /// The cursor of the next page; none if this was the last.
    pub cursor: Option<String>,
    /// The streams that were searched.
    pub streams: Vec<SearchedStream>,
    /// The parts of the search, with their costs.
    pub stages: Vec<Stage>,
}

/// The state of a cursor.
#[derive(Debug, Serialize, Deserialize)]
struct Cursor {
    v: u8,
    /// The checksum of the request.
    r: u32,
    m: Moments,
    /// The streams, and the position of each.
    s: Vec<(String, u64)>,
    /// The last arrival and the id of the last activity of the page.
    l: (i64, String),
}

/// Receives an id of an event, and the event's arrival.
type OnId<'o> = dyn FnMut(&Arc<str>, i64) -> Result<(), SqlError> + Send + 'o;

/// The events of one id.
#[derive(Debug)]
struct Tally {
    first_micros: i64,
    last_micros: i64,
    /// By the place of the stream.
    events: BTreeMap<usize, u64>,
}

/// Answers the activities that satisfy a tree, in its turn.
pub(crate) async fn activities(
    shared: &Arc<Shared>,
    request: &ActivitiesRequest,
) -> Result<ActivitiesAnswer, SearchError> {
    let history = shared.history.get().ok_or_else(nothing_stored)?;
    request.check(&history.config)?;
    let cursor = request.cursor.as_deref().map(|text| Cursor::parse(text, request)).transpose()?;
    let leaves = request.tree.leaves();
    let mut names: Vec<StreamName> = leaves.iter().map(|(stream, _)| (*stream).clone()).collect();
    names.sort_unstable_by(|a, b| a.as_str().cmp(b.as_str()));
    names.dedup();
    let id = request.search.as_deref();
    let mut registered = shared.searches(history).register(id, &names, "activities")?;
    let progress: Arc<SearchProgress> = Arc::clone(&registered.progress);
    let work = async {
        let first_page = cursor.as_ref().map(|cursor| (cursor.m, cursor.s.as_slice()));
        let base = SearchRequest {
            from: request.from.clone(),
            to: request.to.clone(),
            client: request.client,
            ..SearchRequest::any()
        };
        let mut correlation = Correlation::new(shared, &[], base, first_page, &progress)?;
        super::check_streams(shared, &names, &correlation.streams, history.config.search_streams_max)?;
        let ids = correlation.satisfying(&request.tree, &leaves).await?;
        let tallies = correlation.tallies(&ids).await?;
        Ok(correlation.activities(request, tallies, cursor.map(|cursor| cursor.l)))
    };
    let result = registered.run(Box::pin(work)).await;
    let cost = |answer: &ActivitiesAnswer| (rows_scanned(&answer.stages), answer.activities.len());
    registered.finish(result.as_ref().ok().map(cost));
    result
}

impl ActivitiesRequest {
    /// The first 100 activities that satisfy a tree.
    pub fn new(tree: ActivityTree) -> ActivitiesRequest {
        ActivitiesRequest { tree, from: None, to: None, limit: 100, cursor: None, search: None, client: None }
    }

    fn check(&self, config: &HistoryConfig) -> Result<(), SqlError> {
        check_limit(self.limit, config)?;
        self.tree.check()
    }

    fn checksum(&self) -> u32 {
        let ActivitiesRequest { tree, from, to, .. } = self;
        crc32c::crc32c(format!("{:?}", (tree, from, to)).as_bytes())
    }
}

impl Cursor {
    fn parse(text: &str, request: &ActivitiesRequest) -> Result<Cursor, SqlError> {
        let cursor: Cursor = parsed(text)?;
        match (cursor.v == VERSION, cursor.r == request.checksum()) {
            (false, _) => Err(refused("the cursor is of another version of the server")),
            (_, false) => Err(refused("the cursor belongs to another search of activities")),
            _ => Ok(cursor),
        }
    }
}

impl ActivityTree {
    fn check(&self) -> Result<(), SqlError> {
        let invalid = |message: &str, hint: &str| {
            Err(SqlError::new(SqlErrorKind::Invalid, message.to_owned()).with_hint(hint.to_owned()))
        };
        if self.levels() > LEVELS_MAX {
            return Err(limit(
                format!("the conditions are nested more than {LEVELS_MAX} levels deep"),
                "Join conditions side by side in one list.",
            ));
        }
        let leaves = self.leaves().len();
        if leaves > LEAVES_MAX {
            let message = format!("there are {leaves} conditions; the most are {LEAVES_MAX}");
            return Err(limit(message, "Join words of one stream in one `q`: a OR b."));
        }
        if self.has_empty_list() {
            return invalid("`and` and `or` have at least one condition", "Leave the empty list out.");
        }
        if !self.is_bounded(false) {
            return invalid(
                "the conditions do not say which activities to search",
                "Join `not` with a condition by `and`, such as {\"stream\": \"logs\", \"q\": \"*\"} for all ids of a stream.",
            );
        }
        Ok(())
    }

    fn levels(&self) -> usize {
        1 + match self {
            ActivityTree::And(trees) | ActivityTree::Or(trees) => {
                trees.iter().map(ActivityTree::levels).max().unwrap_or(0)
            }
            ActivityTree::Not(tree) => tree.levels(),
            ActivityTree::Events { .. } => 0,
        }
    }

    fn has_empty_list(&self) -> bool {
        match self {
            ActivityTree::And(trees) | ActivityTree::Or(trees) => {
                trees.is_empty() || trees.iter().any(ActivityTree::has_empty_list)
            }
            ActivityTree::Not(tree) => tree.has_empty_list(),
            ActivityTree::Events { .. } => false,
        }
    }

    /// True if an activity that satisfies the tree, or its negation, satisfies a leaf.
    fn is_bounded(&self, is_negated: bool) -> bool {
        match (self, is_negated) {
            (ActivityTree::Events { .. }, is_negated) => !is_negated,
            (ActivityTree::Not(tree), is_negated) => tree.is_bounded(!is_negated),
            (ActivityTree::And(trees), false) | (ActivityTree::Or(trees), true) => {
                trees.iter().any(|tree| tree.is_bounded(is_negated))
            }
            (ActivityTree::Or(trees), false) | (ActivityTree::And(trees), true) => {
                trees.iter().all(|tree| tree.is_bounded(is_negated))
            }
        }
    }

    /// Its leaves, each once.
    fn leaves(&self) -> Vec<(&StreamName, &str)> {
        let mut leaves = Vec::new();
        self.add_leaves(&mut leaves);
        leaves
    }

    fn add_leaves<'t>(&'t self, leaves: &mut Vec<(&'t StreamName, &'t str)>) {
        match self {
            ActivityTree::And(trees) | ActivityTree::Or(trees) => {
                trees.iter().for_each(|tree| tree.add_leaves(leaves));
            }
            ActivityTree::Not(tree) => tree.add_leaves(leaves),
            ActivityTree::Events { stream, query } if !leaves.contains(&(stream, &**query)) => {
                leaves.push((stream, query));
            }
            ActivityTree::Events { .. } => {}
        }
    }

    /// True if an id that satisfies these leaves satisfies the tree.
    fn is_satisfied(&self, leaves: &[(&StreamName, &str)], satisfied: u64) -> bool {
        match self {
            ActivityTree::And(trees) => trees.iter().all(|tree| tree.is_satisfied(leaves, satisfied)),
            ActivityTree::Or(trees) => trees.iter().any(|tree| tree.is_satisfied(leaves, satisfied)),
            ActivityTree::Not(tree) => !tree.is_satisfied(leaves, satisfied),
            ActivityTree::Events { stream, query } => {
                let place = leaves.iter().position(|leaf| *leaf == (stream, &**query));
                place.is_some_and(|place| satisfied & (1 << place) != 0)
            }
        }
    }
}

impl Correlation<'_> {
    /// The ids that satisfy a tree.
    async fn satisfying(
        &mut self,
        tree: &ActivityTree,
        leaves: &[(&StreamName, &str)],
    ) -> Result<BTreeSet<Arc<str>>, SqlError> {
        let mut satisfied: BTreeMap<Arc<str>, u64> = BTreeMap::new();
        for (leaf, (name, query)) in leaves.iter().enumerate() {
            let place = self.streams.iter().position(|stream| stream.name == **name);
            let place = place.ok_or_else(|| SqlError::new(SqlErrorKind::Internal, "a stream is unknown"))?;
            self.each_id(place, (*query).to_owned(), &mut |id, _| {
                *satisfied.entry(Arc::clone(id)).or_default() |= 1 << leaf;
                match satisfied.len() > IDS_MAX {
                    true => {
                        let message = format!("more than {IDS_MAX} ids satisfy the conditions");
                        Err(limit(message, "Search a shorter time with `from` and `to`, or rarer words."))
                    }
                    false => Ok(()),
                }
            })
            .await?;
        }
        let satisfying = satisfied.into_iter().filter(|(_, bits)| tree.is_satisfied(leaves, *bits));
        Ok(satisfying.map(|(id, _)| id).collect())
    }

    /// The events of ids.
    async fn tallies(&mut self, ids: &BTreeSet<Arc<str>>) -> Result<BTreeMap<Arc<str>, Tally>, SqlError> {
        let mut tallies: BTreeMap<Arc<str>, Tally> = BTreeMap::new();
        let ids: Vec<Arc<str>> = ids.iter().cloned().collect();
        let searches = match ids.len() > SEARCHED_IDS {
            true => vec![ids.clone()],
            false => chunks(&self.streams, &ids),
        };
        for some in searches {
            let is_wanted = SearchedIds::new(&some);
            for place in 0..self.streams.len() {
                let query = match ids.len() > SEARCHED_IDS {
                    true => String::new(),
                    false => self.streams[place].query(&some),
                };
                self.each_id(place, query, &mut |id, micros| {
                    if !is_wanted.has_text(id) {
                        return Ok(());
                    }
                    let tally = tallies.entry(Arc::clone(id)).or_insert_with(|| Tally {
                        first_micros: micros,
                        last_micros: micros,
                        events: BTreeMap::new(),
                    });
                    tally.first_micros = tally.first_micros.min(micros);
                    tally.last_micros = tally.last_micros.max(micros);
                    *tally.events.entry(place).or_default() += 1;
                    Ok(())
                })
                .await?;
            }
        }
        Ok(tallies)
    }

    /// Visits the ids of the events of a stream that satisfy a query, each id once an event, with the event's arrival.
    async fn each_id(&mut self, place: usize, query: String, on_id: &mut OnId<'_>) -> Result<(), SqlError> {
        let stream = self.streams[place].clone();
        let columns = stream.columns.iter().map(|column| &*column.name).chain([TIME_COLUMN, EVENT_COLUMN]);
        let columns: Vec<&str> = columns.collect();
        let mut on_rows = |_: &Search<'_>, target: &Target, rows: &RecordBatch| {
            let times = rows.column_by_name(TIME_COLUMN);
            let times = times.and_then(|times| times.as_primitive_opt::<TimestampMicrosecondType>());
            let times =
                times.ok_or_else(|| SqlError::new(SqlErrorKind::Internal, "a stream has no times"))?;
            for (row, ids) in stream.ids(target, rows)?.into_iter().enumerate() {
                let ids: BTreeSet<Arc<str>> = ids.into_iter().map(|id| id.text.into()).collect();
                for id in &ids {
                    on_id(id, times.value(row))?;
                }
            }
            Ok(())
        };
        self.read(place, query, &columns, &mut on_rows).await
    }

    /// A page of activities.
    fn activities(
        self,
        request: &ActivitiesRequest,
        tallies: BTreeMap<Arc<str>, Tally>,
        after: Option<(i64, String)>,
    ) -> ActivitiesAnswer {
        let total = tallies.len() as u64;
        let mut ordered: Vec<(Arc<str>, Tally)> = tallies.into_iter().collect();
        // Equal times remain in the order of ids.
        ordered.sort_by_key(|(_, tally)| std::cmp::Reverse(tally.last_micros));
        if let Some((last_micros, last)) = after {
            let is_behind = |id: &str, tally: &Tally| {
                (std::cmp::Reverse(tally.last_micros), id) > (std::cmp::Reverse(last_micros), &*last)
            };
            ordered.retain(|(id, tally)| is_behind(id, tally));
        }
        let has_more = ordered.len() > request.limit;
        ordered.truncate(request.limit);
        let cursor = ordered.last().filter(|_| has_more).map(|(id, tally)| {
            let names = self.streams.iter().map(|stream| stream.name.to_string());
            let s = names.zip(self.positions.iter().copied()).collect();
            let l = (tally.last_micros, id.to_string());
            written(&Cursor { v: VERSION, r: request.checksum(), m: self.moments, s, l })
        });
        let activities = ordered.into_iter().map(|(id, tally)| {
            let streams = tally
                .events
                .into_iter()
                .map(|(place, events)| ActivityStream { stream: self.streams[place].name.clone(), events });
            ActivitySummary {
                id: id.to_string(),
                first_micros: tally.first_micros,
                last_micros: tally.last_micros,
                streams: streams.collect(),
            }
        });
        ActivitiesAnswer {
            activities: activities.collect(),
            total,
            cursor,
            streams: self.searched_streams(),
            stages: self.costs.stages,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

    use super::*;

    #[test]
    fn trees_that_activities_without_events_satisfy_are_refused() {
        let leaf = |query: &str| ActivityTree::Events {
            stream: StreamName::new("logs").unwrap(),
            query: query.to_owned(),
        };
        let not = |tree| ActivityTree::Not(Box::new(tree));
        let (and, or) = (ActivityTree::And, ActivityTree::Or);
        for (tree, is_accepted) in [
            (leaf("a"), true),
            (not(leaf("a")), false),
            (not(not(leaf("a"))), true),
            (and(vec![leaf("a"), not(leaf("b"))]), true),
            (or(vec![leaf("a"), not(leaf("b"))]), false),
            (not(or(vec![not(leaf("a")), leaf("b")])), true),
            (not(and(vec![not(leaf("a")), leaf("b")])), false),
            (and(Vec::new()), false),
            (or(vec![leaf("a"), and(Vec::new())]), false),
        ] {
            assert_eq!(tree.check().is_ok(), is_accepted, "{tree:?}");
        }
        let many = or((0..65).map(|n| leaf(&n.to_string())).collect());
        assert!(many.check().is_err_and(|error| error.to_string().contains("there are 65 conditions")));
        let deep = (0..LEVELS_MAX).fold(leaf("a"), |tree, _| not(tree));
        assert!(deep.check().is_err_and(|error| error.to_string().contains("nested more than 32 levels")));
    }
}
