//! The indexer: a thread that rebuilds large indexes, so that no caller that adds or ends a query waits for it.
//!
//! The ticker finds the indexes that are due. At most one rebuild per stream is in progress, so the number of streams bounds
//! the queue.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        mpsc::{self, RecvTimeoutError},
    },
    time::Duration,
};

use swiftwater_live::{Rebuild, ReplacedLevels};
use tracing::error;

use crate::stream::Stream;

/// What is to be built, for which stream.
pub(crate) type IndexErrand = (Arc<Stream>, Rebuild);

/// How long after it was replaced a level is looked at again, and forgotten if nobody has it any more.
const LATER: Duration = Duration::from_millis(100);

/// Builds what comes until nobody sends any more.
pub(crate) fn run_indexer(inbox: &mpsc::Receiver<IndexErrand>) {
    let mut replaced: Vec<ReplacedLevels> = Vec::new();
    loop {
        // What a shard still looks at is taken apart by none of those who wait for something, but here, some time later.
        let errand = match replaced.is_empty() {
            true => inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
            false => inbox.recv_timeout(LATER),
        };
        replaced.retain(|replaced| !replaced.is_unused());
        let (stream, rebuild) = match errand {
            Ok(errand) => errand,
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        let Ok(built) = catch_unwind(AssertUnwindSafe(|| rebuild.run())) else {
            error!(stream = %stream.name, "an index could not be rebuilt: it remains correct, but slower");
            continue;
        };
        replaced.push(built.replaced());
        {
            let _change = stream.change.lock();
            let index = stream.index().rebuilt(built);
            stream.set_index(index);
        }
        stream.forget_replaced();
    }
}
