//! Limits open files: every connection is one, and so is every file of the log, of tables and of views.
//!
//! At start, the process raises its limit to the maximum that the system allows. If connections alone could use all of it,
//! fewer connections are accepted than the setting allows: with no file left, nothing could be stored any more.

use std::io;

/// Open files that are kept for other things than connections, where there are as many.
const RESERVE: u64 = 2048;

/// Raises the limit of open files, and returns the number of connections that are possible: `wanted`, or fewer, with a
/// warning.
pub(crate) fn connections_max(wanted: usize) -> usize {
    let limit = match raise_limit() {
        Ok(limit) => limit,
        Err(error) => {
            tracing::warn!(%error, "the limit of open files is unknown");
            return wanted;
        }
    };
    let most = most_connections(limit, wanted);
    if most < wanted {
        tracing::warn!(
            open_files = limit,
            connections = most,
            wanted,
            "the limit of open files (`ulimit -n`) allows fewer connections than `server.connections_max`"
        );
    }
    most
}

fn raise_limit() -> io::Result<u64> {
    rlimit::increase_nofile_limit(rlimit::INFINITY)
}

fn most_connections(limit: u64, wanted: usize) -> usize {
    let reserve = RESERVE.min(limit / 2);
    usize::try_from(limit - reserve).map_or(wanted, |most| most.min(wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_files_to_the_log() {
        assert_eq!(most_connections(1_048_576, 50_000), 50_000);
        assert_eq!(most_connections(20_000, 50_000), 17_952);
        assert_eq!(most_connections(1_024, 50_000), 512);
        assert_eq!(most_connections(rlimit::INFINITY, 50_000), 50_000);
    }
}
