//! Measures Redis: `GET`s of values of one size over as many connections, without pipelining, by `redis-benchmark`.

use std::{
    net::{TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context, ensure};

use super::wrk::CONNECTIONS;

const REQUESTS: usize = 500_000;
/// Values that are asked for, at random.
const KEYS: usize = 50_000;
const TRIES: usize = 100;
const PAUSE: Duration = Duration::from_millis(50);

/// A server that ends with this.
struct Redis {
    child: Child,
    port: u16,
}

impl Drop for Redis {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `GET`s a second of values as long as this one.
pub(super) fn gets(value: &str) -> anyhow::Result<f64> {
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let mut command = Command::new("redis-server");
    command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
    let redis =
        Redis { child: child.context("there is no `redis-server`: Debian's package `redis` has it")?, port };
    // A client that connects before it listens waits for ever.
    let mut tries = 0;
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        tries += 1;
        ensure!(tries < TRIES, "Redis does not listen");
        thread::sleep(PAUSE);
    }
    benchmark(&redis, "set", value, KEYS * 4)?;
    benchmark(&redis, "get", value, REQUESTS)
}

fn benchmark(redis: &Redis, command: &str, value: &str, requests: usize) -> anyhow::Result<f64> {
    let mut run = Command::new("redis-benchmark");
    run.args(["-h", "127.0.0.1", "-p", &redis.port.to_string(), "-c", &CONNECTIONS.to_string()]);
    run.args(["-n", &requests.to_string(), "-r", &KEYS.to_string(), "-d", &value.len().to_string()]);
    run.args(["-t", command, "--csv"]);
    let output = run.stdin(Stdio::null()).output().context("there is no `redis-benchmark`")?;
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "redis-benchmark ended with {}", output.status);
    rate(&said, command).with_context(|| format!("redis-benchmark says what is not understood: {said}"))
}

/// The rate in lines of `"GET","81234.56",…`.
fn rate(said: &str, command: &str) -> Option<f64> {
    let name = format!("\"{}\"", command.to_uppercase());
    let line = said.lines().find(|line| line.starts_with(&name))?;
    line.split(',').nth(1)?.trim_matches('"').parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_table_is_read() {
        let said = "\"test\",\"rps\",\"avg_latency_ms\"\n\"GET\",\"81234.56\",\"1.203\"\n";
        assert_eq!((rate(said, "get"), rate(said, "set")), (Some(81_234.56), None));
    }
}
