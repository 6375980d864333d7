//! Runs `wrk` with a script, and parses its report.

use std::{
    fs,
    net::SocketAddr,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context, ensure};

/// Connections of all runs.
pub(super) const CONNECTIONS: usize = 200;

/// The result of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Report {
    pub(super) per_second: f64,
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
    /// Answers.
    pub(super) answers: u64,
    /// Those of them that were neither of success nor a redirection.
    pub(super) failures: u64,
}

/// Checks that it is installed.
pub(super) fn is_there() -> anyhow::Result<()> {
    // `wrk -v` says its version, and ends with 1.
    let said = Command::new("wrk").arg("-v").stdin(Stdio::null()).output();
    said.map(|_| ()).context("there is no `wrk`: Debian's package of that name has it")
}

/// Sends what a script makes for so long.
pub(super) fn run(
    address: SocketAddr,
    directory: &Path,
    script: &str,
    seconds: u64,
) -> anyhow::Result<Report> {
    let path = directory.join("requests.lua");
    fs::write(&path, script).context("cannot write a script for wrk")?;
    let output = Command::new("wrk")
        .args(["-t", "1", "-c", &CONNECTIONS.to_string(), "-d", &format!("{seconds}s"), "--latency", "-s"])
        .arg(&path)
        .arg(format!("http://{address}"))
        .stdin(Stdio::null())
        .output()
        .context("cannot run wrk")?;
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "wrk ended with {}: {said}", output.status);
    parse(&said).with_context(|| format!("wrk says what is not understood: {said}"))
}

fn parse(said: &str) -> Option<Report> {
    let after = |name: &str| said.lines().find_map(|line| line.trim().strip_prefix(name)).map(str::trim);
    // Sockets' errors are failures, too; those that are read are not told apart.
    let sockets = after("Socket errors:").map_or(0, |errors| {
        errors.split(',').filter_map(|error| error.trim().rsplit(' ').next()?.parse::<u64>().ok()).sum()
    });
    let failures = after("Non-2xx or 3xx responses:").map_or(Some(0), |count| count.parse().ok())?;
    let answers = said.lines().find_map(|line| line.trim().split_once(" requests in ")?.0.parse().ok())?;
    Some(Report {
        per_second: after("Requests/sec:")?.parse().ok()?,
        p50_ms: millis(after("50%")?)?,
        p99_ms: millis(after("99%")?)?,
        answers,
        failures: failures + sockets,
    })
}

/// `1.23ms`, `45.00us`, `2.00s`.
fn millis(text: &str) -> Option<f64> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let number: f64 = digits.parse().ok()?;
    match &text[digits.len()..] {
        "us" => Some(number / 1e3),
        "ms" => Some(number),
        "s" => Some(number * 1e3),
        "m" => Some(number * 60e3),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_it_says_is_read() {
        let said = "Running 2s test @ http://127.0.0.1:8080\n  1 threads and 200 connections\n  Thread Stats   Avg\n  \
                    Latency Distribution\n     50%    1.77ms\n     75%    2.10ms\n     90%  980.00us\n     99%    1.02s \n  \
                    180211 requests in 2.01s, 22.17MB read\n  Socket errors: connect 0, read 2, write 0, timeout 1\n  \
                    Non-2xx or 3xx responses: 17\nRequests/sec:  89657.21\nTransfer/sec:     11.03MB\n";
        let report =
            Report { per_second: 89_657.21, p50_ms: 1.77, p99_ms: 1020.0, answers: 180_211, failures: 20 };
        assert_eq!(parse(said), Some(report));
        assert_eq!((millis("980.00us"), millis("1.00m"), millis("x")), (Some(0.98), Some(60_000.0), None));
    }
}
