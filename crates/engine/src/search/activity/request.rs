//! The request for an activity, and its answer.

use std::{net::IpAddr, sync::Arc};

use swiftwater_event::StreamName;
use swiftwater_sql::{ErrorKind as SqlErrorKind, SqlError};

use super::{
    super::request::{SearchHit, SearchRequest, SearchedStream, Stage},
    correlation::ID_BYTES_MAX,
    limit,
};
use crate::HistoryConfig;

/// Steps from one id to others.
pub const DEPTH_MAX: u32 = 5;

/// Asks for the events of an activity.
#[derive(Debug, Clone)]
pub struct ActivityRequest {
    /// The id.
    pub id: String,
    /// The streams that are searched; empty for all that have a correlation column.
    pub streams: Vec<StreamName>,
    /// Only events from this time on, in the forms of a search.
    pub from: Option<String>,
    /// Only events before this time.
    pub to: Option<String>,
    /// The number of steps from the id to others that events share with it.
    pub depth: u32,
    /// The most events.
    pub limit: usize,
    /// The cursor of the page before.
    pub cursor: Option<String>,
    /// A name of the search, for its progress and its end; one is made if none is given.
    pub search: Option<String>,
    /// The address of the client.
    pub client: Option<IpAddr>,
}

/// An event of an activity.
#[derive(Debug, Clone)]
pub struct ActivityEvent {
    /// The event.
    pub hit: SearchHit,
    /// The number of steps from the requested id.
    pub depth: u32,
    /// The id through which it was found: the first in the order of bytes of those at this depth.
    pub id: Arc<str>,
    /// The column in which that id stands.
    pub column: Box<str>,
}

/// The events of an activity.
#[derive(Debug, Clone, Default)]
pub struct ActivityAnswer {
    /// The events of this page, in order.
    pub events: Vec<ActivityEvent>,
    /// The number of all events.
    pub total: u64,
    /// The cursor of the next page; none if this was the last.
    pub cursor: Option<String>,
    /// The streams that were searched.
    pub streams: Vec<SearchedStream>,
    /// The parts of the search, with their costs.
    pub stages: Vec<Stage>,
}

impl ActivityRequest {
    /// The first 1000 events of an activity in all streams.
    pub fn new(id: impl Into<String>) -> ActivityRequest {
        ActivityRequest {
            id: id.into(),
            streams: Vec::new(),
            from: None,
            to: None,
            depth: 0,
            limit: 1000,
            cursor: None,
            search: None,
            client: None,
        }
    }

    pub(super) fn check(&self, config: &HistoryConfig) -> Result<(), SqlError> {
        check_id(&self.id)?;
        check_limit(self.limit, config)?;
        if self.depth > DEPTH_MAX {
            let message = format!("`depth` is {}; the most is {DEPTH_MAX}", self.depth);
            let error = SqlError::new(SqlErrorKind::Invalid, message);
            return Err(error.with_hint("Begin a further activity with an id of the events found."));
        }
        Ok(())
    }

    /// A search of the times of the request.
    pub(super) fn times(&self) -> SearchRequest {
        SearchRequest {
            streams: Vec::new(),
            from: self.from.clone(),
            to: self.to.clone(),
            ..SearchRequest::any()
        }
    }

    pub(super) fn checksum(&self) -> u32 {
        let ActivityRequest { id, streams, from, to, depth, .. } = self;
        crc32c::crc32c(format!("{:?}", (id, streams, from, to, depth)).as_bytes())
    }
}

/// Refuses an id that no event can have.
fn check_id(id: &str) -> Result<(), SqlError> {
    if (1..=ID_BYTES_MAX).contains(&id.len()) {
        return Ok(());
    }
    let message = format!("the id has {} bytes", id.len());
    let hint = format!("Ids have 1 to {ID_BYTES_MAX} bytes.");
    Err(SqlError::new(SqlErrorKind::Invalid, message).with_hint(hint))
}

/// Refuses a page without events, or one that is too large.
pub(super) fn check_limit(limit_asked: usize, config: &HistoryConfig) -> Result<(), SqlError> {
    let most = config.search_hits_max;
    if limit_asked == 0 {
        let error = SqlError::new(SqlErrorKind::Invalid, "`limit` is 0");
        return Err(error.with_hint(format!("Write a number from 1 to {most}.")));
    }
    match limit_asked > most {
        true => {
            let message = format!("{limit_asked} are asked for with `limit`; `search.hits_max` is {most}");
            Err(limit(message, "Ask for pages: the cursor of an answer asks for the next one."))
        }
        false => Ok(()),
    }
}
