//! Tables on object storage: what they keep, through crashes, beside other readers.

mod common;
mod crashes;
mod cut;
mod errors;
mod making;
mod others;
mod tables;
mod upkeep;
