//! Follows an activity: its newest events, oldest first, then each further event that has the id.

use std::sync::Arc;

use swiftwater_event::StreamName;
use swiftwater_sql::{ErrorKind as SqlErrorKind, SqlError};

use super::{
    super::{Followed, SearchFollow, nothing_stored, request::SearchRequest},
    ActivityEvent, ActivityRequest,
    correlation::{CorrelatedStream, SearchedIds},
};
use crate::{searches::SearchError, shared::Shared};

/// The next of an activity that is followed.
#[derive(Debug, Clone)]
pub enum FollowedActivity {
    /// An event.
    Event {
        /// The event.
        event: ActivityEvent,
        /// The position behind it, from which [`ActivityFollow`] resumes.
        position: String,
    },
    /// Events were deleted before they were searched.
    Lost {
        /// Their stream.
        stream: StreamName,
        /// Their number.
        events: u64,
        /// The position behind them.
        position: String,
    },
}

/// An activity that is followed. Dropping it ends it.
pub struct ActivityFollow {
    follow: SearchFollow,
    id: Arc<str>,
    ids: SearchedIds,
    streams: Vec<CorrelatedStream>,
}

impl ActivityFollow {
    /// Begins with the newest events, or at the position of an earlier answer.
    pub(crate) async fn begin(
        shared: &Arc<Shared>,
        request: &ActivityRequest,
        position: Option<&str>,
    ) -> Result<ActivityFollow, SearchError> {
        let history = shared.history.get().ok_or_else(nothing_stored)?;
        request.check(&history.config)?;
        if request.depth > 0 {
            let error = SqlError::new(SqlErrorKind::Invalid, "`depth` does not go with `follow`");
            let hint = "Leave `depth` out, or follow each of the ids that the stored events have.";
            return Err(error.with_hint(hint).into());
        }
        let streams = CorrelatedStream::all(history, &request.streams);
        super::check_streams(shared, &request.streams, &streams, history.config.search_streams_max)?;
        let id: Arc<str> = request.id.as_str().into();
        let search = SearchRequest {
            streams: streams.iter().map(|stream| stream.name.clone()).collect(),
            query: format!("activity {id}"),
            queries: streams.iter().map(|stream| stream.query(&[Arc::clone(&id)])).collect(),
            limit: request.limit,
            cursor: request.cursor.clone(),
            id: request.search.clone(),
            client: request.client,
            ..request.times()
        };
        let follow = SearchFollow::begin(shared, search, position).await?;
        Ok(ActivityFollow { follow, ids: SearchedIds::new([&id]), id, streams })
    }

    /// The next event or loss, once there is one. If it is dropped before, nothing is lost.
    pub async fn next(&mut self) -> Result<FollowedActivity, SqlError> {
        Ok(match self.follow.next().await? {
            Followed::Hit { hit, position } => {
                let stream = self.streams.iter().find(|stream| stream.name == hit.stream);
                let column = stream.and_then(|stream| stream.column_of_event(&hit.event, &self.ids));
                let column = column.map(|column| column.name.clone()).unwrap_or_default();
                let event = ActivityEvent { hit, depth: 0, id: Arc::clone(&self.id), column };
                FollowedActivity::Event { event, position }
            }
            Followed::Lost { stream, events, position } => {
                FollowedActivity::Lost { stream, events, position }
            }
        })
    }
}
