//! Turns the asked-for paths of a batch into columns.
