//! HTTP load: requests over many connections that are kept, closed loop or open, with how long each took.
//!
//! In a closed loop a connection sends its next request when the last is answered, so a server that stalls is asked less, and its
//! stall is seen in few latencies. In an open loop requests are due at a steady rate whatever becomes of them, and a latency
//! counts from when the request was due: whoever had to wait for a stall to end is seen.
//!
//! Knows HTTP/1.1 without TLS, and nothing of streams or of what is asked. A few threads, each over its share of the
//! connections; what is sent and read lies in buffers that are kept, so a request costs two calls to the system and no
//! allocation.

mod answer;
mod connection;
mod histogram;
mod plan;
mod report;
mod run;
mod template;
mod worker;

pub use answer::{Head, Length, Malformed};
pub use histogram::Histogram;
pub use plan::{Arrival, Body, CONNECTIONS_MAX, Lines, Plan, Request, WEIGHTS_MAX};
pub use report::{Counts, Interval, Outcome, Report, Sample};
pub use run::run;
pub use template::{Template, TemplateError};
pub use worker::TakeSamples;
