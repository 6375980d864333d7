//! Tools for tests: a clock that tests move, and a disk that loses power, fails and fills up on demand. There are also a
//! seeded random generator, events of mixed types, random queries, and an oracle. The oracle is an evaluator of queries that
//! is slow, simple, and shares no code with the one that it checks. If Python has the package for it, there is an S3 server,
//! too.
//!
//! For tests and benchmarks only: rooms depend on it only for their tests.

mod at_once;
mod clock;
mod disk;
#[cfg(feature = "object-store")]
mod failing_store;
#[cfg(feature = "kafka")]
mod fake_kafka;
mod mount;
mod power;

pub mod log_searches;
pub mod oracle;
pub mod recorded;
pub mod search;

mod mixed;
mod moto;
mod queries;

mod shrink;

pub use at_once::at_once;
pub use clock::TestClock;
pub use disk::{Fault, SimDisk};
#[cfg(feature = "object-store")]
pub use failing_store::FailingStore;
#[cfg(feature = "kafka")]
pub use fake_kafka::{FakeKafka, FakeMessage, FakeTransaction, SendFault};
pub use mixed::MixedEvents;
pub use moto::Moto;
pub use mount::Mount;
pub use power::{At, Power};
pub use queries::{LanguageFeatures, QueryTexts, Shape};
pub use shrink::fewest;
pub use swiftwater_generate::{Rng, Workload, published};
