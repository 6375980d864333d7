//! Compares the engine's answers with those of an independent evaluator over the same events. Inputs that end are run with
//! any number of shards and any cut of the input. In a running engine, queries come and go.
//!
//! `SOAK_CASES` sets the number of random queries of each kind (a few hundred without it), starting at `TORTURE_SEED`.
//! `SOAK_REPEATS` sets how often each scenario of a running engine runs. A difference is reported with its seed, and with as
//! few events as show it.

mod cases;
mod input;
mod pauses;
mod running;
mod shards;
