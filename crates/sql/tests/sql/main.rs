//! Statements, their answers, and the forms that these take.

mod common;
mod forms;
mod groups;
mod ordered;
mod postgres;
mod reference;
mod slt;
mod statements;
mod subqueries;
mod sums;
