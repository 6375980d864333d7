//! Generates HTTP load: requests over many persistent connections, in a closed or an open loop, with the latency of each.
//!
//! In a closed loop, a connection sends its next request when the last is answered. A server that stalls gets fewer
//! requests, so few latencies show its stall. In an open loop, requests are due at a steady rate regardless of answers, and
//! a latency counts from when the request was due. Every request that waited for a stall to end then shows it.
//!
//! Knows HTTP/1.1 without TLS, and nothing of streams or of the contents of requests. A few threads each run a share of the
//! connections. Requests and answers use persistent buffers, so a request costs two system calls and no allocation.

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
pub use worker::SampleConsumer;
