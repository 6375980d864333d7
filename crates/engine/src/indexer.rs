//! The indexer: a thread that builds large indexes anew, so that whoever adds or ends a query does not wait for it.
//!
//! The ticker looks for what is due. Of each stream at most one rebuild is under way, so the queue is bounded by the
//! number of streams.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, mpsc},
};

use swiftwater_live::Rebuild;
use tracing::error;

use crate::stream::{Stream, lock};

/// What is to be built, for which stream.
pub(crate) type IndexErrand = (Arc<Stream>, Rebuild);

/// Builds what comes until nobody sends any more.
pub(crate) fn run_indexer(inbox: &mpsc::Receiver<IndexErrand>) {
    for (stream, rebuild) in inbox {
        let Ok(built) = catch_unwind(AssertUnwindSafe(|| rebuild.run())) else {
            error!(stream = %stream.name, "an index could not be built anew: it stays right, and becomes slower");
            continue;
        };
        let _change = lock(&stream.change);
        let index = stream.index().rebuilt(built);
        stream.set_index(index);
        stream.forget_replaced();
    }
}
