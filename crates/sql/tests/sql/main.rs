//! Statements, their answers, and the forms that these take.

mod common;
mod forms;
mod slt;
mod statements;
