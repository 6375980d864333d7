//! Statements, their answers, and the forms that these take.

mod common;
mod forms;
mod groups;
mod postgres;
mod slt;
mod statements;
mod sums;
