//! Tests tables on object storage: their contents, through crashes, beside other readers.

mod common;
mod companions;
mod crashes;
mod cut;
mod damaged;
mod errors;
mod inserts;
mod making;
mod mounts;
mod others;
mod tables;
mod upkeep;
