//! Tests the server over real sockets: accepted input, output, and refused input.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod activity;
mod client;

mod backups;
mod bullet;
mod clients;
mod cluster;
mod complete;
mod console;
mod contract;
mod endpoints;
mod forms;
mod guard;
mod ingest;
mod inputs;
mod lifecycle;
mod limits;
mod metrics;
mod postgres;
mod pubsub;
mod queries;
mod recent;
mod recorded;
mod saved;
mod search;
mod sql;
mod stream_joins;
mod syslog;
mod views;
mod ws;
