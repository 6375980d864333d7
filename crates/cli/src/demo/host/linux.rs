//! Reads Linux's figures of a process beyond the portable ones; on other systems there are none.

/// Number of threads of a process.
#[cfg(target_os = "linux")]
pub(super) fn threads(pid: u32) -> Option<u32> {
    // The name, the second field, may hold anything, so fields are counted from its last parenthesis: proc_pid_stat(5).
    const AFTER_NAME: usize = 17;
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    let end_of_name = stat.iter().rposition(|byte| *byte == b')')?;
    let fields = std::str::from_utf8(&stat[end_of_name + 1..]).ok()?;
    fields.split_ascii_whitespace().nth(AFTER_NAME)?.parse().ok()
}

/// Returns true if we may read the I/O counts of a process; mostly only of our own processes.
#[cfg(target_os = "linux")]
pub(super) fn may_read_io(pid: u32) -> bool {
    std::fs::read(format!("/proc/{pid}/io")).is_ok()
}

#[cfg(not(target_os = "linux"))]
pub(super) fn threads(_pid: u32) -> Option<u32> {
    None
}

#[cfg(not(target_os = "linux"))]
pub(super) fn may_read_io(_pid: u32) -> bool {
    false
}
