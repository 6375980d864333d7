//! One suite of semantics, against the Kafka in memory and, with the feature `client`, against a broker.
#![allow(clippy::unwrap_used, reason = "what fails in helpers of tests fails a test")]
#![allow(clippy::print_stdout, reason = "a test that is skipped says so")]

#[cfg(feature = "client")]
mod broker;
#[cfg(feature = "client")]
mod brokers;
mod cluster;
mod fake;
#[cfg(feature = "client")]
mod identity;
mod membership;
mod producing;
mod suite;
#[cfg(feature = "client")]
mod tls;
