//! Samples this machine as a stream: each sample has an event per process, CPU, disk and network interface, and one each for
//! memory and for the whole.
//!
//! Figures come from `sysinfo`, that is from `/proc` on Linux and from system calls elsewhere. Knows no clock: the caller
//! passes the time and the length of the interval. Rates of the first sample are null, because it has no interval.

mod linux;

use std::collections::HashMap;

use sysinfo::{
    DiskRefreshKind, Disks, Networks, Process, ProcessRefreshKind, ProcessStatus, ProcessesToUpdate, System,
    UpdateKind,
};

use super::DemoError;
use super::text::{self, TimeWriter};

/// Events per sample for processes; of more, those with the lowest ids. The `host` event has the number of all.
const PROCESSES_MAX: usize = 20_000;

/// Samples the machine it runs on.
pub(crate) struct HostSampler {
    system: System,
    disks: Disks,
    networks: Networks,
    /// `"host":"name",`
    host: Vec<u8>,
    os: Option<String>,
    kernel: Option<String>,
    /// Start and CPU milliseconds of each process at the last sample; none before the first one.
    processes: Option<HashMap<u32, (u64, u64)>>,
    times: TimeWriter,
}

/// The common parts of one sample's events.
struct Sample {
    /// `"time":"…","host":"…",`
    stamp: Vec<u8>,
    /// Milliseconds since the last sample, never 0; none for the first one.
    interval_ms: Option<u64>,
    events: usize,
}

impl Sample {
    fn begin(&mut self, kind: &str, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"kind\":");
        text::string(kind, out);
        out.push(b',');
        out.extend_from_slice(&self.stamp);
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        // Each member ended with a comma.
        out.pop();
        out.extend_from_slice(b"}\n");
        self.events += 1;
    }

    fn per_second(&self, amount: u64) -> Option<u64> {
        self.interval_ms.map(|interval_ms| amount.saturating_mul(1000) / interval_ms)
    }
}

/// Appends `"name":` and what `write` writes, and a comma.
fn member(name: &str, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    text::string(name, out);
    out.push(b':');
    write(out);
    out.push(b',');
}

fn count(name: &str, number: impl Into<Option<u64>>, out: &mut Vec<u8>) {
    member(name, out, |out| text::integer_or_null(number.into(), out));
}

fn decimal(name: &str, number: impl Into<Option<f64>>, out: &mut Vec<u8>) {
    member(name, out, |out| text::decimal_or_null(number.into(), out));
}

fn string(name: &str, value: &str, out: &mut Vec<u8>) {
    member(name, out, |out| text::string(value, out));
}

impl HostSampler {
    /// A sampler that has not sampled yet.
    pub(crate) fn new() -> Result<HostSampler, DemoError> {
        let mut host = Vec::new();
        member("host", &mut host, |out| text::string_or_null(System::host_name().ok().as_deref(), out));
        Ok(HostSampler {
            system: System::new().map_err(DemoError::Machine)?,
            disks: Disks::new().map_err(DemoError::Machine)?,
            networks: Networks::new().map_err(DemoError::Machine)?,
            host,
            os: System::name().ok(),
            kernel: System::kernel_version().ok(),
            processes: None,
            times: TimeWriter::new(),
        })
    }

    /// Appends the events of a sample taken at `now_ms` (since 1970-01-01T00:00:00Z), `elapsed_ms` after the last one, a
    /// line each; returns their number. Unknown values are null.
    ///
    /// The CPU figures are worth something if samples are at least 200 ms apart.
    pub(crate) fn sample(&mut self, now_ms: i64, elapsed_ms: u64, out: &mut Vec<u8>) -> usize {
        let what = ProcessRefreshKind::nothing().with_cpu().with_memory().with_disk_usage().without_tasks();
        let what = what.with_user(UpdateKind::OnlyIfNotSet);
        self.system.refresh_processes_specifics(ProcessesToUpdate::All, true, what);
        self.system.refresh_cpu_all();
        self.system.refresh_memory();
        self.disks.refresh_specifics(true, DiskRefreshKind::nothing().with_storage().with_io_usage());
        self.networks.refresh(true);

        let mut stamp = Vec::new();
        member("time", &mut stamp, |out| self.times.instant(now_ms, out));
        stamp.extend_from_slice(&self.host);
        let interval_ms = self.processes.is_some().then_some(elapsed_ms).filter(|elapsed_ms| *elapsed_ms > 0);
        let mut sample = Sample { stamp, interval_ms, events: 0 };
        self.whole(&mut sample, out);
        self.memory(&mut sample, out);
        self.cpus(&mut sample, out);
        self.disks(&mut sample, out);
        self.networks(&mut sample, out);
        self.processes(&mut sample, out);
        sample.events
    }

    fn whole(&self, sample: &mut Sample, out: &mut Vec<u8>) {
        sample.begin("host", out);
        member("os", out, |out| text::string_or_null(self.os.as_deref(), out));
        member("kernel", out, |out| text::string_or_null(self.kernel.as_deref(), out));
        count("uptime_seconds", System::uptime().ok(), out);
        count("cpus", self.system.cpus().len() as u64, out);
        count("processes", self.system.processes().len() as u64, out);
        let used = sample.interval_ms.map(|_| f64::from(self.system.global_cpu_usage()));
        decimal("cpu_percent", used, out);
        let load = System::load_average().ok();
        decimal("load_1m", load.as_ref().map(|load| load.one), out);
        decimal("load_5m", load.as_ref().map(|load| load.five), out);
        decimal("load_15m", load.as_ref().map(|load| load.fifteen), out);
        sample.end(out);
    }

    fn memory(&self, sample: &mut Sample, out: &mut Vec<u8>) {
        sample.begin("memory", out);
        count("total_bytes", self.system.total_memory(), out);
        count("used_bytes", self.system.used_memory(), out);
        count("available_bytes", self.system.available_memory(), out);
        count("swap_total_bytes", self.system.total_swap(), out);
        count("swap_used_bytes", self.system.used_swap(), out);
        sample.end(out);
    }

    fn cpus(&self, sample: &mut Sample, out: &mut Vec<u8>) {
        for (cpu, number) in self.system.cpus().iter().zip(0u64..) {
            sample.begin("cpu", out);
            count("cpu", number, out);
            decimal("cpu_percent", sample.interval_ms.map(|_| f64::from(cpu.usage())), out);
            count("frequency_mhz", Some(cpu.frequency()).filter(|mhz| *mhz > 0), out);
            sample.end(out);
        }
    }

    fn disks(&self, sample: &mut Sample, out: &mut Vec<u8>) {
        for disk in &self.disks {
            let usage = disk.usage();
            sample.begin("disk", out);
            string("name", &disk.name().to_string_lossy(), out);
            string("mount", &disk.mount_point().to_string_lossy(), out);
            string("file_system", &disk.file_system().to_string_lossy(), out);
            count("total_bytes", disk.total_space(), out);
            count("available_bytes", disk.available_space(), out);
            count("read_bytes_per_s", sample.per_second(usage.read_bytes), out);
            count("write_bytes_per_s", sample.per_second(usage.written_bytes), out);
            sample.end(out);
        }
    }

    fn networks(&self, sample: &mut Sample, out: &mut Vec<u8>) {
        let mut networks: Vec<_> = self.networks.iter().collect();
        networks.sort_unstable_by_key(|(name, _)| *name);
        for (name, network) in networks {
            sample.begin("net", out);
            string("interface", &name.to_string_lossy(), out);
            count("received_bytes_per_s", sample.per_second(network.received()), out);
            count("sent_bytes_per_s", sample.per_second(network.transmitted()), out);
            count("received_packets_per_s", sample.per_second(network.packets_received()), out);
            count("sent_packets_per_s", sample.per_second(network.packets_transmitted()), out);
            count("received_bytes_total", network.total_received(), out);
            count("sent_bytes_total", network.total_transmitted(), out);
            count(
                "errors_total",
                network.total_errors_on_received() + network.total_errors_on_transmitted(),
                out,
            );
            sample.end(out);
        }
    }

    fn processes(&mut self, sample: &mut Sample, out: &mut Vec<u8>) {
        let mut processes: Vec<&Process> = self.system.processes().values().collect();
        processes.sort_unstable_by_key(|process| process.pid());
        let before = self.processes.take().unwrap_or_default();
        let mut now = HashMap::with_capacity(processes.len().min(PROCESSES_MAX));
        for process in processes.into_iter().take(PROCESSES_MAX) {
            let (pid, started) = (process.pid().as_u32(), process.start_time());
            let cpu_ms = process.accumulated_cpu_time();
            // A process that was not there, or was another one with this id, has used all its time in this interval.
            let cpu_ms_before =
                before.get(&pid).filter(|(start, _)| *start == started).map_or(0, |(_, ms)| *ms);
            now.insert(pid, (started, cpu_ms));
            append_process(process, cpu_ms, cpu_ms.saturating_sub(cpu_ms_before), sample, out);
        }
        self.processes = Some(now);
    }
}

fn append_process(process: &Process, cpu_ms: u64, cpu_ms_used: u64, sample: &mut Sample, out: &mut Vec<u8>) {
    let pid = process.pid().as_u32();
    let usage = process.disk_usage();
    // `sysinfo` says 0 for what may not be read.
    let io_known = usage.total_read_bytes > 0 || usage.total_written_bytes > 0 || linux::may_read_io(pid);
    let per_second = |bytes| sample.per_second(bytes).filter(|_| io_known);
    let (read, written) = (per_second(usage.read_bytes), per_second(usage.written_bytes));
    let cpu_percent = sample.interval_ms.map(|interval_ms| cpu_ms_used as f64 * 100.0 / interval_ms as f64);

    sample.begin("process", out);
    count("pid", u64::from(pid), out);
    count("ppid", process.parent().map(|parent| u64::from(parent.as_u32())), out);
    string("name", &process.name().to_string_lossy(), out);
    string("state", state(process.status()), out);
    count("uid", user(process), out);
    decimal("cpu_percent", cpu_percent, out);
    decimal("cpu_seconds", cpu_ms as f64 / 1000.0, out);
    count("rss_bytes", process.memory(), out);
    count("virtual_bytes", process.virtual_memory(), out);
    count("threads", linux::threads(pid).map(u64::from), out);
    count("read_bytes_per_s", read, out);
    count("write_bytes_per_s", written, out);
    sample.end(out);
}

fn state(status: ProcessStatus) -> &'static str {
    match status {
        ProcessStatus::Run => "running",
        ProcessStatus::Sleep => "sleeping",
        ProcessStatus::Idle => "idle",
        ProcessStatus::UninterruptibleDiskSleep => "waiting",
        ProcessStatus::Stop | ProcessStatus::Tracing => "stopped",
        ProcessStatus::Zombie | ProcessStatus::Dead => "dead",
        _ => "other",
    }
}

#[cfg(unix)]
fn user(process: &Process) -> Option<u64> {
    process.user_id().map(|user| u64::from(**user))
}

#[cfg(not(unix))]
fn user(_process: &Process) -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    use serde_json::Value;

    use super::*;

    fn sampled(sampler: &mut HostSampler, now_ms: i64) -> Vec<Value> {
        let mut out = Vec::new();
        let count = sampler.sample(now_ms, 1000, &mut out);
        let lines = out.split_inclusive(|byte| *byte == b'\n');
        let events: Vec<Value> = lines.map(|line| serde_json::from_slice(line).unwrap()).collect();
        assert_eq!(events.len(), count);
        events
    }

    fn of_kind<'a>(events: &'a [Value], kind: &str) -> Vec<&'a Value> {
        events.iter().filter(|event| event["kind"] == kind).collect()
    }

    fn this_process(events: &[Value]) -> &Value {
        let is_this = |event: &&Value| event["kind"] == "process" && event["pid"] == std::process::id();
        events.iter().find(is_this).unwrap()
    }

    #[test]
    fn a_sample_is_json_lines_with_this_process_in_it() {
        let events = sampled(&mut HostSampler::new().unwrap(), 1_357_035_420_007);
        for event in &events {
            assert_eq!(event["time"], "2013-01-01T10:17:00.007Z");
            assert_eq!(event["host"], events[0]["host"]);
        }
        let this = this_process(&events);
        assert!(this["rss_bytes"].as_u64().unwrap() > 100_000, "{this}");
        assert!(this["name"].is_string() && this["state"].is_string());
        assert!(
            this["cpu_percent"].is_null() && this["read_bytes_per_s"].is_null(),
            "no interval yet: {this}"
        );
        if cfg!(target_os = "linux") {
            assert!(this["threads"].as_u64().unwrap() >= 2, "{this}");
            assert!(this["uid"].is_u64() && this["ppid"].is_u64(), "{this}");
        }
        assert_eq!(of_kind(&events, "host").len(), 1);
        assert_eq!(of_kind(&events, "memory").len(), 1);
        let (host, cpus) = (of_kind(&events, "host")[0], of_kind(&events, "cpu"));
        assert_eq!(host["cpus"], cpus.len());
        assert_eq!(host["processes"], of_kind(&events, "process").len());
    }

    #[test]
    fn rates_are_of_the_interval_between_samples() {
        let mut sampler = HostSampler::new().unwrap();
        let first = sampled(&mut sampler, 0);
        let before = this_process(&first)["cpu_seconds"].as_f64().unwrap();
        let work: u64 = (0..50_000_000u64).fold(0, |sum, value| black_box(sum ^ value));
        black_box(work);
        let second = sampled(&mut sampler, 1000);
        let this = this_process(&second);
        let used = this["cpu_seconds"].as_f64().unwrap() - before;
        let percent = this["cpu_percent"].as_f64().unwrap();
        assert!((percent - used * 100.0).abs() < 0.1, "{used} s of 1 s are {percent} %");
        if cfg!(target_os = "linux") {
            assert!(percent > 0.0, "{this}");
            assert!(this["read_bytes_per_s"].is_u64(), "we may read our own figures: {this}");
        }
        assert!(of_kind(&second, "cpu").iter().all(|cpu| cpu["cpu_percent"].is_number()));
        assert!(of_kind(&second, "net").iter().all(|net| net["sent_bytes_per_s"].is_u64()));
    }

    #[test]
    #[cfg(unix)]
    fn any_bytes_in_a_name_make_valid_json() {
        use std::ffi::OsStr;
        use std::os::unix::ffi::OsStrExt;
        let name = OsStr::from_bytes(b"a\"b\\c\n\x01\xff)");
        let mut out = vec![b'{'];
        string("name", &name.to_string_lossy(), &mut out);
        out.pop();
        out.push(b'}');
        let event: Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(event["name"], "a\"b\\c\n\u{1}\u{fffd})");
    }
}
