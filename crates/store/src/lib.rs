//! Streams as Delta Lake tables, each written by one owner.
