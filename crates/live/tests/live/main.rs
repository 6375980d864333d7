//! Tests of standing queries over batches, without an engine around them.

mod bullet_scalars;
mod columns;
mod expressions;
mod grouping_sets;
mod matcher;
mod ordered;
mod patterns;
mod search;
mod shapes;
mod sketches;
mod standing_searches;
mod support;
mod views;
mod windows;
