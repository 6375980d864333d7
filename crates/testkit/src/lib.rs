//! What tests stand on: a clock that is moved by hand, a disk that loses power, fails and fills up when it is told to, a
//! seeded source of chance, events of mixed types, random queries,
//! and an oracle: an evaluator of queries that is slow, plain and shares no code with the one it is held against.
//! Where Python has the package for it, an S3 server, too.
//!
//! For tests and benchmarks only: no room has it among its dependencies but for its tests.

mod at_once;
mod clock;
mod disk;
#[cfg(feature = "object-store")]
mod failing_store;
mod mount;
mod power;

pub mod oracle;
pub mod recorded;

mod mixed;
mod moto;
mod queries;

mod shrink;

pub use at_once::at_once;
pub use clock::TestClock;
pub use disk::{Fault, SimDisk};
#[cfg(feature = "object-store")]
pub use failing_store::FailingStore;
pub use mixed::MixedEvents;
pub use moto::Moto;
pub use mount::Mount;
pub use power::{At, Power};
pub use queries::{QueryTexts, Shape, Wide};
pub use shrink::fewest;
pub use swiftwater_generate::{Rng, published};
