//! Expressions over the rows of a decoded batch, one pass per operator: a value that cannot be had is an error of its
//! row only, never of the batch.
