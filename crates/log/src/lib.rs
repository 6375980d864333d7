//! The durable log: one physical log for all streams of a node, so that one sync serves all, and what changes the
//! catalog is ordered against events.
