//! Swiftwater: an owner of tables and its workers, each a process, spoken to by HTTP; the rows come by `COPY`.

use std::{
    fs,
    io::Cursor,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::Duration,
};

use anyhow::{Context, bail, ensure};
use datafusion::arrow::{array::RecordBatch, ipc::reader::StreamReader};
use futures_util::SinkExt;
use serde_json::Value;
use tokio::runtime::Runtime;
use tokio_postgres::NoTls;

use crate::{
    Options,
    processes::{Process, free_port},
    tables::{TABLES, batches, create_table, csv},
};

/// The rows of one `COPY`, so of one file before compaction.
const COPY_ROWS: f64 = 1_000_000.0;

pub(crate) struct Swiftwater {
    pub(crate) owner: Process,
    pub(crate) workers: Vec<Process>,
    agent: ureq::Agent,
    url: String,
    postgres_port: u16,
    tables: PathBuf,
}

impl Swiftwater {
    pub(crate) fn start(options: &Options, dir: &Path) -> anyhow::Result<Swiftwater> {
        let (tables, temporary) = (dir.join("tables"), dir.join("temporary"));
        // A worker that is killed leaves its directory there.
        let _ = fs::remove_dir_all(&temporary);
        fs::create_dir_all(&tables)?;
        fs::create_dir_all(&temporary)?;
        let (mut workers, mut urls) = (Vec::new(), Vec::new());
        for worker in 0..options.workers {
            let listen = format!("127.0.0.1:{}", free_port()?);
            let mut command = serve(options, &tables, &listen, options.threads)?;
            command.args(["--sql-worker", "--listen", "127.0.0.1:0"]).env("TMPDIR", &temporary);
            let mut process = Process::start_silent(&mut command, &dir.join(format!("worker-{worker}.log")))?;
            process.wait_for(&listen)?;
            workers.push(process);
            urls.push(format!("http://{listen}"));
        }
        let own = format!("127.0.0.1:{}", free_port()?);
        let (port, postgres_port) = (free_port()?, free_port()?);
        let mut command = serve(options, &tables, &own, options.owner_threads)?;
        command.args(["--listen", &format!("127.0.0.1:{port}")]);
        command.args(["--server.postgres-listen", &format!("127.0.0.1:{postgres_port}")]);
        command.arg("--data").arg(dir.join("owner")).args(["--sql.workers", &urls.join(",")]);
        let mut owner = Process::start_silent(&mut command, &dir.join("owner.log"))?;
        owner.wait_for(&format!("127.0.0.1:{port}"))?;
        let agent = ureq::Agent::config_builder().http_status_as_error(false).build().new_agent();
        Ok(Swiftwater {
            owner,
            workers,
            agent,
            url: format!("http://127.0.0.1:{port}"),
            postgres_port,
            tables,
        })
    }

    fn post(&self, text: &str, distributed: &str, accept: &str) -> anyhow::Result<Vec<u8>> {
        let request = self.agent.post(format!("{}/v1/sql", self.url));
        let request = request.header("Swiftwater-Distributed", distributed).header("Accept", accept);
        let mut answer = request.send(text)?;
        let body = answer.body_mut().with_config().limit(u64::MAX).read_to_vec()?;
        ensure!(answer.status().is_success(), "{}: {}", answer.status(), String::from_utf8_lossy(&body));
        Ok(body)
    }

    /// The answer of a query as an Arrow stream.
    pub(crate) fn query(&self, text: &str, distributed: &str) -> anyhow::Result<Vec<u8>> {
        self.post(text, distributed, "application/vnd.apache.arrow.stream")
    }

    /// The answer of a statement as JSON.
    pub(crate) fn statement(&self, text: &str, distributed: &str) -> anyhow::Result<Value> {
        Ok(serde_json::from_slice(&self.post(text, distributed, "application/json")?)?)
    }

    /// The row of a plan that says where it runs.
    pub(crate) fn distribution(&self, text: &str) -> anyhow::Result<String> {
        let plan = self.statement(&format!("EXPLAIN {text}"), "always")?;
        let rows = plan.as_array().map(Vec::as_slice).unwrap_or_default();
        let row = rows.iter().find(|row| row["plan_type"] == "distribution");
        let text = row.and_then(|row| row["plan"].as_str()).context("a plan has no row `distribution`")?;
        Ok(text.lines().next().unwrap_or_default().to_owned())
    }

    /// The number of statements that ran on the owner after an error on workers.
    pub(crate) fn fallbacks(&self) -> anyhow::Result<String> {
        let metrics = self.agent.get(format!("{}/metrics", self.url)).call()?.body_mut().read_to_string()?;
        let line = metrics.lines().find_map(|line| line.strip_prefix("swiftwater_sql_fallbacks_total "));
        Ok(line.context("no metric swiftwater_sql_fallbacks_total")?.to_owned())
    }

    /// Creates the tables of TPC-H, each by as many `COPY` as it has millions of rows.
    pub(crate) fn load(&self, scale: f64) -> anyhow::Result<()> {
        let runtime = Runtime::new()?;
        for (table, rows) in TABLES {
            let parts = ((rows * scale / COPY_ROWS).ceil() as i32).max(1);
            let schema = batches(table, scale, 1, parts)?.schema();
            self.statement(&create_table(table, &schema)?, "never")?;
            for part in 1..=parts {
                let copied = self.copy(table, scale, part, parts);
                runtime.block_on(copied).with_context(|| format!("part {part} of {parts} of `{table}`"))?;
            }
        }
        Ok(())
    }

    async fn copy(&self, table: &str, scale: f64, part: i32, parts: i32) -> anyhow::Result<()> {
        let target = format!("host=127.0.0.1 port={} user=bench", self.postgres_port);
        let (client, connection) = tokio_postgres::connect(&target, NoTls).await?;
        let connection = tokio::spawn(connection);
        let text = format!("COPY {table} FROM STDIN (FORMAT csv)");
        let sink = client.copy_in::<str, Cursor<Vec<u8>>>(&text).await?;
        let mut sink = std::pin::pin!(sink);
        let mut rows = 0;
        for batch in batches(table, scale, part, parts)? {
            let batch = batch?;
            rows += batch.num_rows() as u64;
            sink.send(Cursor::new(csv(&batch)?)).await?;
        }
        let stored = sink.as_mut().finish().await?;
        ensure!(stored == rows, "{rows} rows were sent, and {stored} stored");
        drop(client);
        connection.await??;
        Ok(())
    }

    /// The active files of a table, by its Delta log.
    pub(crate) fn files(&self, table: &str) -> anyhow::Result<Vec<PathBuf>> {
        let dir = self.tables.join(table);
        let mut files = Vec::new();
        for version in 0.. {
            let path = dir.join("_delta_log").join(format!("{version:020}.json"));
            let Ok(text) = fs::read_to_string(&path) else {
                // Version 0 exists as long as the log is not trimmed, which takes a day.
                ensure!(version > 0, "{} is missing", path.display());
                break;
            };
            for line in text.lines() {
                let action: Value = serde_json::from_str(line)?;
                let path = |kind: &str| action[kind]["path"].as_str().map(|path| dir.join(path));
                if let Some(removed) = path("remove") {
                    files.retain(|file| *file != removed);
                }
                if let Some(added) = path("add") {
                    ensure!(action["add"]["deletionVector"].is_null(), "`{table}` has a deletion vector");
                    files.push(added);
                }
            }
        }
        files.sort();
        Ok(files)
    }

    /// Waits until compaction has nothing to do, and makes a directory of links to the active files of each table.
    pub(crate) fn link_files(&self, to: &Path) -> anyhow::Result<Vec<PathBuf>> {
        let active = || -> anyhow::Result<Vec<PathBuf>> {
            let files: anyhow::Result<Vec<_>> = TABLES.iter().map(|(table, _)| self.files(table)).collect();
            Ok(files?.concat())
        };
        let mut files = active()?;
        let mut quiet = 0;
        for _ in 0..300 {
            thread::sleep(Duration::from_secs(1));
            let now = active()?;
            quiet = if now == files { quiet + 1 } else { 0 };
            files = now;
            if quiet == 5 {
                let _ = fs::remove_dir_all(to);
                for (table, _) in TABLES {
                    let dir = to.join(table);
                    fs::create_dir_all(&dir)?;
                    for file in self.files(table)? {
                        fs::hard_link(&file, dir.join(file.file_name().context("a file without a name")?))?;
                    }
                }
                return Ok(files);
            }
        }
        bail!("the tables have no lasting files after 5 minutes")
    }
}

/// The command of a node.
fn serve(options: &Options, tables: &Path, listen: &str, threads: usize) -> anyhow::Result<Command> {
    let mut command = Command::new(&options.binary);
    command.args(["serve", "--log", "warn", "--store.location"]).arg(tables);
    command.args(["--sql.worker-listen", listen, "--sql.threads", &threads.to_string()]);
    command.args(["--sql.memory-bytes-max", &options.memory_bytes.to_string()]);
    Ok(command)
}

/// The batches of an Arrow stream.
pub(crate) fn decode(bytes: &[u8]) -> anyhow::Result<Vec<RecordBatch>> {
    Ok(StreamReader::try_new(bytes, None)?.collect::<Result<_, _>>()?)
}
