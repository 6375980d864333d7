//! Statements, their answers, and the forms that these take.

mod common;
mod forms;
mod groups;
mod slt;
mod statements;
mod sums;
