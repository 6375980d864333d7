//! Runs a real server in a separate process: the release binary if it is beside this one, otherwise this one as a server.

use std::{
    fs::File,
    io::{BufRead, BufReader},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
};

use anyhow::{Context, ensure};
use swiftwater_engine::{Engine, EngineConfig};
use swiftwater_event::SystemClock;
use swiftwater_server::{Server, ServerConfig};

/// The first argument of this program as a server.
pub(crate) const WORD: &str = "server";
pub(crate) const READY: &str = "listening on http://";

/// A server that ends with this.
pub(crate) struct Running {
    child: Child,
    pub(crate) address: SocketAddr,
    /// Its name, for the table.
    pub(crate) what: &'static str,
}

impl Running {
    /// Starts it, with its default settings and any free port.
    pub(crate) fn start() -> anyhow::Result<Running> {
        let program = std::env::current_exe().context("cannot find the path of this program")?;
        let binary = program.with_file_name("swiftwater");
        let child = start(&binary, &program)?;
        let what = if binary.exists() { "the release binary" } else { "the server within the benchmark" };
        Running::of(child, what)
    }

    /// Starts the release binary over a data directory, with these settings; what it says goes into a file.
    pub(crate) fn start_on(data: &Path, settings: &[&str], said: File) -> anyhow::Result<Running> {
        let binary = binary()?;
        let mut command = Command::new(&binary);
        command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(data).args(settings);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(said);
        let child = command.spawn().with_context(|| format!("cannot start {}", binary.display()))?;
        Running::of(child, "the release binary")
    }

    fn of(mut child: Child, what: &'static str) -> anyhow::Result<Running> {
        let address = ready(&mut child);
        // From here on it is ended, come what may.
        let mut running = Running { child, address: SocketAddr::from(([127, 0, 0, 1], 0)), what };
        running.address = address?;
        Ok(running)
    }

    /// Its process's number.
    pub(crate) fn process(&self) -> String {
        self.child.id().to_string()
    }
}

/// The release binary, which must stand beside this program.
pub(crate) fn binary() -> anyhow::Result<PathBuf> {
    let program = std::env::current_exe().context("cannot find the path of this program")?;
    let binary = program.with_file_name("swiftwater");
    ensure!(
        binary.exists(),
        "there is no {}: `cargo build --release -p swiftwater-cli` makes it",
        binary.display()
    );
    Ok(binary)
}

/// Waits until a child says where it listens.
pub(crate) fn ready(child: &mut Child) -> anyhow::Result<SocketAddr> {
    let out = child.stdout.take().context("the server's output was taken")?;
    let mut line = String::new();
    BufReader::new(out).read_line(&mut line).context("the server printed nothing")?;
    let address = line.trim().strip_prefix(READY).and_then(|address| address.parse().ok());
    address.with_context(|| format!("the server does not listen: `{}`", line.trim()))
}

fn start(binary: &PathBuf, own: &PathBuf) -> anyhow::Result<Child> {
    let mut command = if binary.exists() {
        let mut command = Command::new(binary);
        command.args(["serve", "--listen", "127.0.0.1:0"]);
        command
    } else {
        let mut command = Command::new(own);
        command.arg(WORD);
        command
    };
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    command.spawn().with_context(|| format!("cannot start {}", binary.display()))
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// This program as a server, until it is killed.
pub(crate) fn run() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let engine = Engine::start(EngineConfig::default(), Arc::new(SystemClock::new()));
        let config =
            ServerConfig { listen: vec![SocketAddr::from(([127, 0, 0, 1], 0))], ..ServerConfig::default() };
        let server = Server::bind(engine, config).await?;
        ensure!(!server.addresses().is_empty(), "the server has no address");
        println!("{READY}{}", server.addresses()[0]);
        server.run(std::future::pending()).await;
        Ok(())
    })
}
