//! One suite of semantics, against the Kafka in memory and, with the feature `client`, against a broker.

#[cfg(feature = "client")]
mod broker;
mod cluster;
mod fake;
#[cfg(feature = "client")]
mod identity;
mod suite;
