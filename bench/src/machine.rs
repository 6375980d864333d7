//! Reads the figures of the machine and of processes from the system: `/proc`, where there is one.

use std::fs;

use anyhow::Context;
use rustix::time::{ClockId, clock_gettime};

use crate::table::mib;

/// The machine, in a line for above the table.
pub(crate) fn about() -> String {
    let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let cpu = field(&cpus, "model name").unwrap_or("unknown processor").to_owned();
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let memory = kib(&memory, "MemTotal").map_or_else(|| "unknown".to_owned(), mib);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or("unknown");
    let (system, kernel, cores) = (std::env::consts::OS, kernel.trim(), cores());
    let vectors = vectors();
    format!(
        "Machine: {cpu}, {cores} cores, {vectors}, {memory} memory, {system} {kernel}; load average before the run: {load}."
    )
}

/// Pins this thread, and those that it starts from here on, to the first so many cores; 0: all.
pub(crate) fn pin_to_cores(cores: usize) -> anyhow::Result<()> {
    if cores == 0 {
        return Ok(());
    }
    let mut set = rustix::thread::CpuSet::new();
    let allowed = rustix::thread::sched_getaffinity(None).context("cannot tell the cores")?;
    (0..rustix::thread::CpuSet::MAX_CPU)
        .filter(|&cpu| allowed.is_set(cpu))
        .take(cores)
        .for_each(|cpu| set.set(cpu));
    rustix::thread::sched_setaffinity(None, &set).context("cannot keep to some cores")
}

/// The vector instructions that programs may use.
fn vectors() -> String {
    #[cfg(target_arch = "x86_64")]
    let known = [
        ("SSE4.2", is_x86_feature_detected!("sse4.2")),
        ("AVX2", is_x86_feature_detected!("avx2")),
        ("AVX-512 (F, BW, VBMI2)", {
            is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512vbmi2")
        }),
    ];
    #[cfg(not(target_arch = "x86_64"))]
    let known = [("what its architecture has", true)];
    let names: Vec<_> = known.into_iter().filter(|(_, is_there)| *is_there).map(|(name, _)| name).collect();
    names.join(", ")
}

pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Memory of a process, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Memory {
    /// Now in memory.
    pub(crate) resident: u64,
    /// The process's own part of it, without mapped files.
    pub(crate) own: u64,
    /// The most that ever was in memory (`VmHWM`).
    pub(crate) peak: u64,
}

/// The memory of a process, by number or as `self`.
pub(crate) fn memory(process: &str) -> Memory {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let bytes = |name| kib(&status, name).unwrap_or(0);
    Memory { resident: bytes("VmRSS"), own: bytes("RssAnon"), peak: bytes("VmHWM") }
}

/// Page faults of this process so far that needed no disk.
pub(crate) fn minor_faults() -> u64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The command's name, in brackets, may hold anything; the eighth field after it counts the faults.
    let fields = stat.rsplit(") ").next().unwrap_or_default();
    fields.split(' ').nth(7).and_then(|count| count.parse().ok()).unwrap_or(0)
}

/// Seconds that all threads of this process ran.
pub(crate) fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Seconds that all threads of a process ran, by number; as fine as the system's ticks.
pub(crate) fn process_seconds(process: &str) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    ticks(&stat) as f64 / TICKS_PER_SECOND
}

/// `USER_HZ`, in which Linux tells times to programs (proc_pid_stat(5)); 100 wherever this runs.
const TICKS_PER_SECOND: f64 = 100.0;

/// In the program and in the system.
fn ticks(stat: &str) -> u64 {
    // As above; the 12th and 13th.
    let fields = stat.rsplit(") ").next().unwrap_or_default();
    fields.split(' ').skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum()
}

/// Seconds that this thread ran.
pub(crate) fn thread_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn field<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    lines.into_iter().find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim())
}

/// A field in KiB, as bytes.
fn kib(text: &str, name: &str) -> Option<u64> {
    let value = field(text, name)?.strip_suffix(" kB")?;
    value.trim().parse::<u64>().ok().map(|kib| kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found() {
        let status = "Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t 1 kB\n";
        assert_eq!(kib(status, "VmHWM"), Some(2 << 20));
        assert_eq!(kib(status, "RssAnon"), None);
        assert_eq!(ticks("7 (a) b) S 1 7 7 0 -1 0 99 0 0 0 250 50 3 4 20"), 300);
    }

    #[test]
    fn this_process_has_memory_and_took_time() {
        assert!(cpu_seconds() > 0.0);
        if cfg!(target_os = "linux") {
            let memory = memory("self");
            assert!(memory.own > 0 && memory.resident >= memory.own && memory.peak >= memory.resident);
            assert!(minor_faults() > 0);
        }
    }
}
