//! The engine's answers against those of an independent evaluator over the same events: over inputs that end, for any
//! number of shards and any cut of the input, and of a running engine whose queries come and go.
//!
//! So many random queries of each kind are asked as `SOAK_CASES` says (a few hundred without it), from `TORTURE_SEED`
//! on; `SOAK_REPEATS` tells each story of a running engine so often. A difference is shown with its seed, and as few events as show it.

mod cases;
mod input;
mod pauses;
mod running;
mod shards;
