//! Runs live queries without any durable state: streams with their queues, shards that process every event, standing queries
//! and their limits, the ticker, shutdown. Knows nothing of disks, SQL or HTTP.
//!
//! [`Runtime`] is the façade. Durable state is in the room above, which implements [`DurableObjects`] for the runtime and
//! uses the parts in [`parts`].

mod append;
mod config;
mod coverage;
mod durable;
mod emit;
mod error;
mod event_paths;
mod input;
mod principal;
mod remote;
mod runtime;
mod status;
mod subscription;

mod query;

mod byte_budget;
mod limits;
mod lines;
mod merge;
mod operator;
mod operator_members;
mod rate;
mod run_queue;
mod subscriber_queue;

pub mod lock_order;

mod indexer;
mod panic_guard;
mod shard;
mod shared;
mod steady_clock;
mod stream;
mod threads;
mod ticker;

pub use append::{
    Ack, AppendOptions, Appended, Numbered, PRODUCER_BYTES_MAX, QUARANTINED_BYTES, Refusal, Ticket,
    TopicPlace, TopicPlaces, hash_of, is_reserved_producer,
};
pub use config::{EngineConfig, FastQuery, SlowReader};
pub use durable::{DurableObjects, JoinSources};
pub use emit::{ClusterMeta, Counts, Emit, EmitMeta, Finished, QueryMeta, Records, StreamMeta, WindowMeta};
pub use error::{ErrorKind, RuntimeError};
pub use event_paths::{EventPath, EventPaths, ScalarValue};
pub use input::{EventPrefilter, InputError, InputOptions, InputSource, InputSummary, run_input};
pub use panic_guard::faults;
pub use principal::Principal;
pub use query::{
    analyze::Analysis,
    id::{NotAnId, QueryId},
    listing::{QueryList, QueryPage, QuerySort},
    options::{Detached, QueryForm, SubmitOptions},
    validate::{QueryColumn, QueryFacts},
};
pub use runtime::Runtime;
pub use status::{
    LATENCY_BOUNDS_MICROS, Metrics, QueryCost, QueryStatus, RecentEvent, RecentEvents, STAGES, ShardStatus,
    StreamStatus,
};
pub use stream::listing::{StreamList, StreamPage, StreamSort};
pub use subscription::Subscription;
pub use swiftwater_catalog::{CatalogError, ObjectKind, kind::durable_query::EndReason};
pub use swiftwater_lang::ColumnRole;
pub use swiftwater_live::columns::ValidationRule;
pub use swiftwater_live::{DistinctFigures, Row, SketchFigures, SketchMeta};

/// The parts for a room that adds durable objects.
pub mod parts {
    pub use crate::{
        coverage::Coverage,
        panic_guard::count_panic,
        query::{
            handle::{Fleeting, QueryHandle},
            options::RemoteStart,
            resume_point::ResumePoints,
            submit::{Place, WantedQuery},
        },
        remote::RemoteResult,
        shared::Shared,
        steady_clock::SteadyClock,
        stream::Stream,
        subscriber_queue::Numbering,
    };
}
