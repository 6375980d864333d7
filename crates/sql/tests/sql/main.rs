//! Tests of statements, their answers, and the output formats.

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
