//! Runs a server that stores, in its own directory, which is deleted with it.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use serde_json::Value;
use tempfile::TempDir;

use crate::{
    args::Args,
    data::check_space,
    http::Client,
    server::{Running, binary},
};

/// Time that views may take until they have counted all events: a statement over them waits for less.
const VIEWS_PATIENCE: Duration = Duration::from_secs(1800);
const VIEWS_LOOK: Duration = Duration::from_millis(10);

/// The directory in which servers store, with room for so many bytes, if there is a server.
pub(crate) fn directory(args: &Args, bytes: u64) -> anyhow::Result<PathBuf> {
    binary()?;
    let directory = args.data();
    fs::create_dir_all(&directory).with_context(|| format!("cannot make {}", directory.display()))?;
    check_space(&directory, bytes)?;
    Ok(directory)
}

/// The release binary over a data directory.
pub(crate) struct Stored {
    server: Option<Running>,
    settings: Vec<&'static str>,
    /// Goes last: nobody writes there then.
    directory: TempDir,
}

impl Stored {
    /// Starts it over a new directory below this one.
    pub(crate) fn start(below: &Path, settings: &[&'static str]) -> anyhow::Result<Stored> {
        let directory = tempfile::Builder::new()
            .prefix("stored-")
            .tempdir_in(below)
            .with_context(|| format!("cannot make a directory in {}", below.display()))?;
        let mut stored = Stored { server: None, settings: settings.to_vec(), directory };
        stored.start_again()?;
        Ok(stored)
    }

    /// Starts it again over what there is; how long it took until it served.
    pub(crate) fn start_again(&mut self) -> anyhow::Result<Duration> {
        let told = self.directory.path().join("server.log");
        let said = File::options().create(true).append(true).open(&told)?;
        let start = Instant::now();
        let server = Running::start_on(&self.directory.path().join("data"), &self.settings, said);
        let took = start.elapsed();
        self.server = Some(server.with_context(|| fs::read_to_string(&told).unwrap_or_default())?);
        Ok(took)
    }

    /// Ends it by SIGKILL, at once.
    pub(crate) fn kill(&mut self) {
        self.server = None;
    }

    pub(crate) fn server(&self) -> anyhow::Result<&Running> {
        self.server.as_ref().context("the server was killed")
    }

    /// A connection to it.
    pub(crate) fn client(&self) -> anyhow::Result<Client> {
        Client::connect(self.server()?.address)
    }

    /// A connection for statements.
    pub(crate) fn asker(&self) -> anyhow::Result<SqlClient> {
        Ok(SqlClient { client: self.client()? })
    }

    /// Runs statements that declare what there is to be.
    pub(crate) fn declare(&self, text: &str) -> anyhow::Result<()> {
        let mut client = self.client()?;
        client.send(&client.post_text("/v1/sql", "application/json", text.as_bytes()))?;
        client.answer().map(|_| ()).with_context(|| format!("`{text}` was refused"))
    }

    /// Runs statements and takes the last one's rows.
    pub(crate) fn sql(&self, text: &str) -> anyhow::Result<Vec<Value>> {
        self.asker()?.ask(text)
    }

    /// Waits until the views have counted all that is durable.
    pub(crate) fn wait_for_views(&self) -> anyhow::Result<()> {
        let start = Instant::now();
        loop {
            let behind = self.metric("swiftwater_views_lag_events")?;
            if behind <= 0.0 {
                return Ok(());
            }
            ensure!(start.elapsed() < VIEWS_PATIENCE, "views are {behind} events behind after all this time");
            thread::sleep(VIEWS_LOOK);
        }
    }

    /// The directory of a stream's Delta table.
    pub(crate) fn table(&self, stream: &str) -> PathBuf {
        self.directory.path().join("data/tables").join(stream)
    }

    /// Replaces the directory of a stream's table by a file: from here on nothing can be written to the table.
    pub(crate) fn block_table(&self, stream: &str) -> anyhow::Result<BlockedTable> {
        let (place, kept) = (self.table(stream), self.directory.path().join("taken-away"));
        fs::rename(&place, &kept).context("cannot take a table away")?;
        File::create_new(&place).context("cannot put a file where a table was")?;
        Ok(BlockedTable { place, kept })
    }

    /// One of the numbers of `/metrics`, without labels.
    pub(crate) fn metric(&self, name: &str) -> anyhow::Result<f64> {
        let page = String::from_utf8(self.client()?.get("/metrics")?)?;
        let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|number| number.parse().ok()).with_context(|| format!("no {name} is told"))
    }
}

/// A table that the server cannot write to.
pub(crate) struct BlockedTable {
    place: PathBuf,
    kept: PathBuf,
}

impl BlockedTable {
    /// Restores the directory.
    pub(crate) fn restore(self) -> anyhow::Result<()> {
        fs::remove_file(&self.place)?;
        fs::rename(&self.kept, &self.place).context("cannot put a table back")
    }
}

/// Asks statements over one connection.
pub(crate) struct SqlClient {
    client: Client,
}

impl SqlClient {
    /// Runs statements, in the dialect that published scripts are written in; the rows of the last one.
    pub(crate) fn ask(&mut self, text: &str) -> anyhow::Result<Vec<Value>> {
        let request = self.client.post_text("/v1/sql?dialect=spark", "application/json", text.as_bytes());
        self.client.send(&request)?;
        let answer = self.client.answer().with_context(|| format!("`{text}` has no answer"))?;
        serde_json::from_slice(&answer)
            .with_context(|| format!("the answer to `{text}` is not a list of rows"))
    }

    /// `SELECT COUNT(*)` of a stream.
    pub(crate) fn count(&mut self, stream: &str) -> anyhow::Result<u64> {
        let rows = self.ask(&format!("SELECT count(*) AS n FROM {stream}"))?;
        ensure!(rows.len() == 1, "a COUNT has {} rows", rows.len());
        rows[0]["n"].as_u64().context("a COUNT is no number")
    }
}
