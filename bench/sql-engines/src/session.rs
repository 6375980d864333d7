//! A session of DataFusion over the files, in a process of its own: alone, or as a client of Ballista.
//!
//! The process reads a line with the path of a text of SQL from its standard input, writes the rows as an Arrow stream
//! beside it, and answers with a line: `ok`, or `error` and the error.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{ChildStdin, ChildStdout, Command, Stdio},
};

use anyhow::{Context, bail};
use ballista::extension::{SessionConfigExt, SessionContextExt};
use ballista_core::config::BALLISTA_CLIENT_GRPC_TIMEOUT_SECONDS;
use datafusion::{
    arrow::ipc::writer::StreamWriter,
    execution::SessionStateBuilder,
    physical_plan::displayable,
    prelude::{ParquetReadOptions, SessionConfig, SessionContext},
};
use tokio::runtime::Builder;

use crate::{Options, processes::Process, tables::TABLES};

/// The name of the subcommand.
pub(crate) const SUBCOMMAND: &str = "session";

/// Time after which a call to Ballista's scheduler fails, above that of the longest query.
const CALL_SECONDS: &str = "3600";

/// The variable of the environment with which a session writes the plan of each query to its log.
const PLANS: &str = "BENCH_PLANS";

/// A running session.
pub(crate) struct Session {
    pub(crate) process: Process,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    text: PathBuf,
}

impl Session {
    /// Starts one with so many threads and partitions; with a scheduler's address it is a client of Ballista.
    pub(crate) fn start(
        name: &str,
        options: &Options,
        dir: &Path,
        threads: usize,
        scheduler: Option<&str>,
    ) -> anyhow::Result<Session> {
        let mut command = Command::new(std::env::current_exe()?);
        let partitions = if scheduler.is_some() { options.partitions } else { threads };
        command.arg(SUBCOMMAND).arg(dir.join("files")).args([threads.to_string(), partitions.to_string()]);
        command.args(scheduler).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = Process::start(&mut command, &dir.join(format!("{name}.log")))?;
        let (input, output) = process.pipes()?;
        Ok(Session { process, input, output: BufReader::new(output), text: dir.join(format!("{name}.sql")) })
    }

    /// The answer of a query as an Arrow stream.
    pub(crate) fn query(&mut self, text: &str) -> anyhow::Result<Vec<u8>> {
        fs::write(&self.text, text)?;
        writeln!(self.input, "{}", self.text.display())?;
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        match line.trim_end() {
            "ok" => Ok(fs::read(self.text.with_extension("arrow"))?),
            "" => bail!("the session ended"),
            other => bail!("{}", other.strip_prefix("error ").unwrap_or(other)),
        }
    }
}

/// Runs a session until its input ends.
pub(crate) fn run(arguments: &[String]) -> anyhow::Result<()> {
    let [files, threads, partitions, scheduler @ ..] = arguments else {
        bail!("a session needs three arguments")
    };
    let (threads, partitions) = (threads.parse()?, partitions.parse()?);
    let runtime = Builder::new_multi_thread().worker_threads(threads).enable_all().build()?;
    runtime.block_on(serve(Path::new(files), partitions, scheduler.first()))
}

async fn serve(files: &Path, partitions: usize, scheduler: Option<&String>) -> anyhow::Result<()> {
    let session = match scheduler {
        Some(address) => {
            let config = SessionConfig::new_with_ballista()
                .with_target_partitions(partitions)
                .set_str(BALLISTA_CLIENT_GRPC_TIMEOUT_SECONDS, CALL_SECONDS);
            let state = SessionStateBuilder::new().with_default_features().with_config(config).build();
            SessionContext::remote_with_state(&format!("df://{address}"), state).await?
        }
        None => SessionContext::new_with_config(SessionConfig::new().with_target_partitions(partitions)),
    };
    for (table, _) in TABLES {
        let path = files.join(table);
        let path = path.to_str().context("a path that is no text")?;
        session.register_parquet(table, path, ParquetReadOptions::default()).await?;
    }
    let mut line = String::new();
    // There is one request at a time, and nothing else to do meanwhile.
    while std::io::stdin().read_line(&mut line)? > 0 {
        let path = Path::new(line.trim_end());
        // The query runs on the runtime's threads, not on this one.
        let (session, text, target) =
            (session.clone(), fs::read_to_string(path)?, path.with_extension("arrow"));
        let answer = match tokio::spawn(async move { query(&session, &text, &target).await }).await? {
            Ok(()) => "ok".to_owned(),
            Err(error) => format!("error {}", format!("{error:#}").replace('\n', " ")),
        };
        println!("{answer}");
        line.clear();
    }
    Ok(())
}

async fn query(session: &SessionContext, text: &str, target: &Path) -> anyhow::Result<()> {
    if std::env::var_os(PLANS).is_some() {
        let plan = session.sql(text).await?.create_physical_plan().await?;
        eprintln!("{}", displayable(plan.as_ref()).indent(false));
    }
    let frame = session.sql(text).await?;
    let schema = std::sync::Arc::new(frame.schema().as_arrow().clone());
    let batches = frame.collect().await?;
    // Where no batch is, the plan's own schema will do; a batch may have others, as with texts of views.
    let schema = batches.first().map_or(schema, |batch| batch.schema());
    let mut writer = StreamWriter::try_new(fs::File::create(target)?, &schema)?;
    for batch in &batches {
        writer.write(batch)?;
    }
    writer.finish()?;
    Ok(())
}
