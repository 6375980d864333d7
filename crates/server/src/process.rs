//! Reads the metrics of this process from the operating system.

/// Bytes of memory that are resident, and seconds of processor time used; `None` where the system does not say.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub(crate) struct ProcessNumbers {
    pub(crate) resident_bytes: Option<u64>,
    pub(crate) cpu_seconds: Option<f64>,
}

/// Reads them from `/proc`, where there is one.
pub(crate) fn read() -> ProcessNumbers {
    ProcessNumbers {
        resident_bytes: std::fs::read_to_string("/proc/self/status")
            .ok()
            .and_then(|text| resident_bytes(&text)),
        cpu_seconds: std::fs::read_to_string("/proc/self/stat").ok().and_then(|text| cpu_seconds(&text)),
    }
}

fn resident_bytes(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

/// Fields 14 and 15 (user and system time) come after the process's name, which ends at the last `)`. Linux gives them
/// to programs in hundredths of a second, whatever the kernel's own tick is.
fn cpu_seconds(stat: &str) -> Option<f64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some((user + system) as f64 / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_in_what_the_kernel_writes() {
        assert_eq!(resident_bytes("Name:\tx\nVmRSS:\t    1024 kB\nRssAnon:\t 1 kB\n"), Some(1 << 20));
        assert_eq!(resident_bytes("Name:\tx\n"), None);
        let stat = "42 (a) b) S 1 42 42 0 -1 4194560 100 0 0 0 150 50 0 0 20 0 3 0 100 1000 10";
        assert_eq!(cpu_seconds(stat), Some(2.0));
    }
}
