//! The handle of a query: its identity, its subscriber queue and its flags, which every thread reads without a lock.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicBool, AtomicU32},
};

use swiftwater_event::{Millis, StreamName};
use swiftwater_lang::Dialect;
use swiftwater_live::QueryNumber;

use crate::{
    EngineConfig, QueryMeta, query::resume_point::ResumePoints, stream::Stream,
    subscriber_queue::SubscriberQueue,
};

/// The data of a query that is read without a lock.
#[derive(Debug)]
pub struct QueryHandle {
    /// Its number in this process.
    pub number: QueryNumber,
    /// Its metadata in emits.
    pub meta: Arc<QueryMeta>,
    /// The stream that it names.
    pub stream: StreamName,
    pub(crate) dialect: Dialect,
    /// End of its duration; the last of all times if it has none. There is one for each of very many queries.
    pub(crate) ends_at: Millis,
    pub(crate) is_detached: AtomicBool,
    /// Milliseconds for which it outlives its reader, if it is detached.
    pub(crate) linger_ms: AtomicU32,
    /// It was killed, and its last results are there for who asks for them by its id.
    pub(crate) is_killed: AtomicBool,
    pub(crate) mailbox: SubscriberQueue,
    /// The resume points of a durable query.
    pub following: Option<Box<ResumePoints>>,
    /// The stream whose events are matched elsewhere.
    pub(crate) remote: Option<Arc<Stream>>,
    /// The reason why a query that outlives its client is not durable.
    pub(crate) fleeting: OnceLock<Fleeting>,
    /// The warnings for its client, in its first emit and in its last.
    pub(crate) warnings: Box<[String]>,
}

/// The reason why a query that outlives its client does not outlive the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fleeting {
    /// It is one of Bullet's.
    Bullet,
    /// Its records tell when they were answered.
    Times,
    /// Its stream is not stored.
    Unstored,
    /// Its events are joined first.
    Joined,
    /// The number of durable queries has reached its limit.
    TooMany,
}

impl Fleeting {
    /// The reason as text, for a query over this stream.
    pub fn why(self, stream: &StreamName, config: &EngineConfig) -> Box<str> {
        match self {
            Fleeting::Bullet => {
                "by Bullet's rules windows end at checks of the clock, which cannot be replayed".into()
            }
            Fleeting::Times => "its records contain the time of the answer (`times`)".into(),
            Fleeting::Unstored => format!("stream `{stream}` is not stored").into(),
            Fleeting::Joined => "its events were joined with earlier rows, which cannot be replayed".into(),
            Fleeting::TooMany => {
                let most = config.detached_durable_max;
                format!(
                    "{most} durable queries run already, which is the limit (`engine.detached_durable_max`)"
                )
                .into()
            }
        }
    }
}

impl QueryHandle {
    /// End of its duration.
    pub(crate) fn ends(&self) -> Option<Millis> {
        Some(self.ends_at).filter(|ends| *ends != Millis::MAX)
    }
}
