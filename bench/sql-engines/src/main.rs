//! Measures SQL over several machines: the 22 queries of TPC-H, by Swiftwater, Ballista and DataFusion, over the same files.
//!
//! | engine | processes |
//! | --- | --- |
//! | `swiftwater` | the owner of the tables and its workers |
//! | `embedded` | the same owner alone |
//! | `ballista` | a scheduler, as many executors, and a client |
//! | `datafusion` | a plain session |
//!
//! All processes are on this machine. Each worker and executor has `--threads` threads; the owner and the plain session
//! have `--owner-threads`. The tables are loaded into Swiftwater by `COPY`; the others read the active files of them.
//! The engines run each query by turns. The first table printed has the shortest time of each query, with the rows read
//! by the client; the second has the least processor time of all processes of the engine, user and system together.
//! `BENCH_PLANS=1` writes the plans of the sessions to `*.log` in the directory of `--data`.
//! A difference between the rows of two engines, or a query that fails, makes the program fail after the tables.

mod cluster;
mod processes;
mod queries;
mod rows;
mod session;
mod swiftwater;
mod tables;

use std::{
    env, fs,
    path::{Path, PathBuf},
    thread,
    time::Instant,
};

use anyhow::{Context, bail, ensure};

use crate::{
    cluster::Ballista, processes::Process, queries::queries, rows::Rows, session::Session,
    swiftwater::Swiftwater,
};

/// The allocator of Swiftwater's binary and of Ballista's executor.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const USAGE: &str = "options: --scale F (1), --repetitions N (3), --binary PATH (target/release/swiftwater),
--engines swiftwater,embedded,ballista,datafusion, --queries Q01,Q02 (all), --workers N (3), --threads N (1),
--owner-threads N (cores), --memory BYTES of a node (1 GiB), --partitions N of Ballista (one per thread of an executor),
--data DIR (a temporary one; it is loaded once)";

pub(crate) struct Options {
    scale: f64,
    repetitions: usize,
    pub(crate) binary: PathBuf,
    engines: Vec<String>,
    queries: Vec<String>,
    pub(crate) workers: usize,
    pub(crate) threads: usize,
    pub(crate) owner_threads: usize,
    pub(crate) memory_bytes: u64,
    pub(crate) partitions: usize,
    data: Option<PathBuf>,
}

impl Options {
    fn parse(arguments: &[String]) -> anyhow::Result<Options> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut options = Options {
            scale: 1.0,
            repetitions: 3,
            binary: root.join("target/release/swiftwater"),
            engines: ENGINES.map(str::to_owned).to_vec(),
            queries: Vec::new(),
            workers: 3,
            threads: 1,
            owner_threads: thread::available_parallelism()?.get(),
            memory_bytes: 1 << 30,
            partitions: 0,
            data: None,
        };
        for pair in arguments.chunks(2) {
            let [name, value] = pair else { bail!(USAGE) };
            let list = || value.split(',').map(str::to_owned).collect();
            match name.as_str() {
                "--scale" => options.scale = value.parse()?,
                "--repetitions" => options.repetitions = value.parse()?,
                "--binary" => options.binary = value.into(),
                "--engines" => options.engines = list(),
                "--queries" => options.queries = list(),
                "--workers" => options.workers = value.parse()?,
                "--threads" => options.threads = value.parse()?,
                "--owner-threads" => options.owner_threads = value.parse()?,
                "--memory" => options.memory_bytes = value.parse()?,
                "--partitions" => options.partitions = value.parse()?,
                "--data" => options.data = Some(value.into()),
                _ => bail!("{name} is unknown; {USAGE}"),
            }
        }
        if options.partitions == 0 {
            options.partitions = options.workers * options.threads;
        }
        let unknown = options.engines.iter().find(|engine| !ENGINES.contains(&engine.as_str()));
        ensure!(unknown.is_none(), "engine {unknown:?} is unknown; {USAGE}");
        // In the order of the tables, whatever the order of the option.
        options.engines = ENGINES
            .iter()
            .map(|&name| name.to_owned())
            .filter(|name| options.engines.contains(name))
            .collect();
        ensure!(options.scale > 0.0 && options.repetitions > 0 && options.threads > 0, USAGE);
        ensure!(options.binary.exists(), "{} does not exist; {USAGE}", options.binary.display());
        Ok(options)
    }
}

const ENGINES: [&str; 4] = ["swiftwater", "embedded", "ballista", "datafusion"];

struct Engines {
    swiftwater: Swiftwater,
    ballista: Option<Ballista>,
    datafusion: Option<Session>,
}

impl Engines {
    fn query(&mut self, engine: &str, text: &str) -> anyhow::Result<Vec<u8>> {
        match engine {
            "swiftwater" => self.swiftwater.query(text, "always"),
            "embedded" => self.swiftwater.query(text, "never"),
            "ballista" => self.ballista.as_mut().context("not started")?.session.query(text),
            _ => self.datafusion.as_mut().context("not started")?.query(text),
        }
    }

    fn processor_seconds(&self, engine: &str) -> anyhow::Result<f64> {
        let mut processes: Vec<&Process> = Vec::new();
        match engine {
            "swiftwater" => {
                processes.push(&self.swiftwater.owner);
                processes.extend(&self.swiftwater.workers);
            }
            "embedded" => processes.push(&self.swiftwater.owner),
            "ballista" => {
                if let Some(ballista) = &self.ballista {
                    processes.push(&ballista.session.process);
                    processes.extend(&ballista.nodes);
                }
            }
            _ => processes.extend(self.datafusion.iter().map(|session| &session.process)),
        }
        processes.into_iter().map(Process::processor_seconds).sum()
    }
}

/// One query of one engine.
#[derive(Clone, Default)]
struct Measured {
    seconds: f64,
    processor_seconds: f64,
    error: Option<String>,
}

impl Measured {
    fn cell(&self, value: f64) -> String {
        if self.error.is_some() { "failed".to_owned() } else { format!("{value:.2}") }
    }

    fn time(&self) -> String {
        self.cell(self.seconds)
    }

    fn processor(&self) -> String {
        self.cell(self.processor_seconds)
    }

    /// The better of two runs; a failure is not forgotten.
    fn or(self, other: Measured) -> Measured {
        Measured {
            seconds: self.seconds.min(other.seconds),
            processor_seconds: self.processor_seconds.min(other.processor_seconds),
            error: self.error.or(other.error),
        }
    }
}

fn measure(engines: &mut Engines, engine: &str, text: &str) -> anyhow::Result<(Measured, Option<Rows>)> {
    let before = engines.processor_seconds(engine)?;
    let began = Instant::now();
    let answer = engines.query(engine, text);
    let seconds = began.elapsed().as_secs_f64();
    let processor_seconds = engines.processor_seconds(engine)? - before;
    Ok(match answer.and_then(|bytes| Rows::new(&swiftwater::decode(&bytes)?)) {
        Ok(rows) => (Measured { seconds, processor_seconds, error: None }, Some(rows)),
        Err(error) => (Measured { seconds, processor_seconds, error: Some(format!("{error:#}")) }, None),
    })
}

/// Prints a table with a row for each query and one for the sums of the queries that no engine failed at.
fn print(
    options: &Options,
    queries: &[(&str, String)],
    results: &[Vec<Measured>],
    counts: &[usize],
    title: &str,
    of: fn(&Measured) -> f64,
    cell: fn(&Measured) -> String,
) {
    let has_ratio = options.engines.iter().take(2).eq(["swiftwater", "embedded"]);
    let ratio =
        |a: f64, b: f64| if has_ratio { format!(" {:.2} |", a / b.max(0.001)) } else { String::new() };
    println!("\n{title}\n");
    print!("| query | rows | {} |", options.engines.join(" | "));
    println!("{}", if has_ratio { " swiftwater / embedded |" } else { "" });
    println!("| --- | ---: |{}", " ---: |".repeat(options.engines.len() + usize::from(has_ratio)));
    let mut sums = vec![0.0; options.engines.len()];
    for (((name, _), row), count) in queries.iter().zip(results).zip(counts) {
        let cells: Vec<String> = row.iter().map(cell).collect();
        let ratio = ratio(of(&row[0]), row.get(1).map_or(0.0, of));
        println!("| {name} | {count} | {} |{ratio}", cells.join(" | "));
        if row.iter().all(|measured| measured.error.is_none()) {
            sums.iter_mut().zip(row).for_each(|(sum, measured)| *sum += of(measured));
        }
    }
    let cells: Vec<String> = sums.iter().map(|sum| format!("{sum:.2}")).collect();
    let ratio = ratio(sums[0], sums.get(1).copied().unwrap_or_default());
    println!("| sum | | {} |{ratio}", cells.join(" | "));
}

fn compare(options: &Options) -> anyhow::Result<()> {
    let temporary = if options.data.is_some() { None } else { Some(tempfile::tempdir()?) };
    let dir = options
        .data
        .as_deref()
        .or(temporary.as_ref().map(tempfile::TempDir::path))
        .context("no directory")?;
    fs::create_dir_all(dir)?;
    let swiftwater = Swiftwater::start(options, dir)?;
    let (loaded, scale) = (dir.join("scale"), options.scale.to_string());
    match fs::read_to_string(&loaded) {
        Ok(before) => ensure!(before == scale, "{} has data of scale factor {before}", dir.display()),
        Err(_) => {
            let began = Instant::now();
            swiftwater.load(options.scale)?;
            fs::write(&loaded, scale)?;
            eprintln!("loaded in {:.1} s", began.elapsed().as_secs_f64());
        }
    }
    let files = swiftwater.link_files(&dir.join("files"))?;
    let bytes: u64 = files.iter().map(|file| fs::metadata(file).map_or(0, |metadata| metadata.len())).sum();
    let is_wanted = |engine: &str| options.engines.iter().any(|wanted| wanted == engine);
    let ballista = is_wanted("ballista").then(|| Ballista::start(options, dir)).transpose()?;
    let datafusion = is_wanted("datafusion")
        .then(|| Session::start("datafusion", options, dir, options.owner_threads, None))
        .transpose()?;
    let mut engines = Engines { swiftwater, ballista, datafusion };
    let mut queries = queries(options.scale);
    queries.retain(|(name, _)| {
        options.queries.is_empty() || options.queries.iter().any(|wanted| wanted == name)
    });

    let mut results: Vec<Vec<Measured>> = vec![Vec::new(); queries.len()];
    let mut counts = vec![0; queries.len()];
    let mut faults = Vec::new();
    for repetition in 0..options.repetitions {
        for (index, (name, text)) in queries.iter().enumerate() {
            let mut first: Option<(&str, Rows)> = None;
            for (column, engine) in options.engines.iter().enumerate() {
                let (measured, rows) = measure(&mut engines, engine, text)?;
                eprintln!("{repetition} {name} {engine}: {} s, {} s", measured.time(), measured.processor());
                match results[index].get_mut(column) {
                    Some(before) => *before = before.clone().or(measured),
                    None => results[index].push(measured),
                }
                let Some(rows) = rows else { continue };
                match &first {
                    Some((other, expected)) => {
                        if let Err(error) = expected.compare(&rows) {
                            faults.push(format!("{name}: rows of {other} and {engine} differ: {error:#}"));
                        }
                    }
                    None => {
                        counts[index] = rows.len();
                        first = Some((engine, rows));
                    }
                }
            }
        }
    }
    println!(
        "TPC-H, scale factor {}: {} files, {:.0} MiB. {} workers or executors of {} thread(s), {} thread(s) of the owner and \
         of a plain session, {} partitions of Ballista, best of {}.",
        options.scale,
        files.len(),
        bytes as f64 / f64::from(1 << 20),
        options.workers,
        options.threads,
        options.owner_threads,
        options.partitions,
        options.repetitions,
    );
    print(options, &queries, &results, &counts, "Seconds:", |m| m.seconds, Measured::time);
    print(
        options,
        &queries,
        &results,
        &counts,
        "Processor seconds:",
        |m| m.processor_seconds,
        Measured::processor,
    );
    for ((name, text), row) in queries.iter().zip(&results) {
        for (engine, measured) in options.engines.iter().zip(row) {
            faults.extend(measured.error.iter().map(|error| format!("{name}: {engine} failed: {error}")));
        }
        if is_wanted("swiftwater") && row[0].error.is_none() {
            let distribution = engines.swiftwater.distribution(text)?;
            if !distribution.contains(&format!("on {} workers", options.workers)) {
                println!("\n{name} was not divided by Swiftwater: {distribution}");
            }
        }
    }
    if is_wanted("swiftwater") {
        println!(
            "\nStatements that ran on the owner after an error on workers: {}.",
            engines.swiftwater.fallbacks()?
        );
    }
    let now: Vec<PathBuf> = tables::TABLES
        .iter()
        .map(|(table, _)| engines.swiftwater.files(table))
        .collect::<anyhow::Result<Vec<_>>>()?
        .concat();
    ensure!(now == files, "the files of the tables changed meanwhile: the engines did not read the same");
    ensure!(faults.is_empty(), "\n{}", faults.join("\n"));
    Ok(())
}

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.split_first() {
        Some((name, rest)) if name == session::SUBCOMMAND => session::run(rest),
        Some((name, rest)) if name == cluster::SCHEDULER => cluster::schedule(rest),
        Some((name, rest)) if name == cluster::EXECUTOR => cluster::execute(rest),
        _ => compare(&Options::parse(&arguments)?),
    }
}
