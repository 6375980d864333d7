//! Ballista: a scheduler, executors and a client, each a process of this program.

use std::{
    fs,
    net::SocketAddr,
    path::Path,
    process::Command,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, bail, ensure};
use ballista_executor::executor_process::{ExecutorProcessConfig, start_executor_process};
use ballista_scheduler::{
    cluster::BallistaCluster, config::SchedulerConfig, scheduler_process::start_server,
};
use tokio::runtime::Builder;

use crate::{
    Options,
    processes::{Process, free_port},
    session::Session,
};

/// The names of the subcommands.
pub(crate) const SCHEDULER: &str = "scheduler";
pub(crate) const EXECUTOR: &str = "executor";

/// As in Ballista's own scheduler.
const SCHEDULER_STACK_BYTES: usize = 32 << 20;

/// Seconds after which an executor deletes the exchanged rows of a finished query. They would fill the disk.
const SHUFFLES_KEPT_SECONDS: u64 = 5;

const REGISTER_MAX: Duration = Duration::from_secs(60);

pub(crate) struct Ballista {
    pub(crate) session: Session,
    pub(crate) nodes: Vec<Process>,
}

impl Ballista {
    pub(crate) fn start(options: &Options, dir: &Path) -> anyhow::Result<Ballista> {
        let (program, port) = (std::env::current_exe()?, free_port()?);
        let address = format!("127.0.0.1:{port}");
        let mut command = Command::new(&program);
        command.args([SCHEDULER, &port.to_string(), &options.workers.to_string()]);
        let mut scheduler = Process::start_silent(&mut command, &dir.join("scheduler.log"))?;
        scheduler.wait_for(&address)?;
        let mut nodes = vec![scheduler];
        for executor in 0..options.workers {
            let shuffles = dir.join(format!("executor-{executor}"));
            // A directory of `--data` may have those of a run that was killed.
            let _ = fs::remove_dir_all(&shuffles);
            fs::create_dir_all(&shuffles)?;
            let mut command = Command::new(&program);
            command.args([EXECUTOR, &port.to_string(), &free_port()?.to_string(), &free_port()?.to_string()]);
            command.args([options.threads.to_string(), options.memory_bytes.to_string()]).arg(shuffles);
            nodes.push(Process::start_silent(&mut command, &dir.join(format!("executor-{executor}.log")))?);
        }
        let agent = ureq::Agent::config_builder().http_status_as_error(false).build().new_agent();
        let began = Instant::now();
        while !agent.get(format!("http://{address}/readyz")).call()?.status().is_success() {
            ensure!(
                began.elapsed() < REGISTER_MAX,
                "not all executors are registered after {REGISTER_MAX:?}"
            );
            thread::sleep(Duration::from_millis(50));
        }
        let session = Session::start("ballista", options, dir, options.threads, Some(&address))?;
        Ok(Ballista { session, nodes })
    }
}

/// Runs a scheduler on a port, which is ready when so many executors are.
pub(crate) fn schedule(arguments: &[String]) -> anyhow::Result<()> {
    let [port, executors] = arguments else { bail!("a scheduler needs a port and a number of executors") };
    let config = SchedulerConfig {
        bind_port: port.parse()?,
        external_host: "127.0.0.1".to_owned(),
        min_ready_executors: executors.parse()?,
        finished_job_data_clean_up_interval_seconds: SHUFFLES_KEPT_SECONDS,
        ..SchedulerConfig::default()
    };
    let address = SocketAddr::from(([127, 0, 0, 1], config.bind_port));
    let runtime =
        Builder::new_multi_thread().thread_stack_size(SCHEDULER_STACK_BYTES).enable_all().build()?;
    runtime.block_on(async move {
        let cluster = BallistaCluster::new_from_config(&config).await?;
        start_server(cluster, address, Arc::new(config)).await
    })?;
    Ok(())
}

/// Runs an executor.
pub(crate) fn execute(arguments: &[String]) -> anyhow::Result<()> {
    let [scheduler, port, grpc_port, threads, memory, shuffles] = arguments else {
        bail!("an executor needs three ports, its threads, memory and a directory")
    };
    let config = ExecutorProcessConfig {
        external_host: Some("127.0.0.1".to_owned()),
        port: port.parse()?,
        grpc_port: grpc_port.parse()?,
        scheduler_host: "127.0.0.1".to_owned(),
        scheduler_port: scheduler.parse()?,
        scheduler_connect_timeout_seconds: 30,
        vcores: threads.parse()?,
        memory_pool_size: Some(memory.parse()?),
        work_dir: Some(shuffles.clone()),
        ..ExecutorProcessConfig::default()
    };
    let runtime = Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(start_executor_process(Arc::new(config))).context("an executor")?;
    Ok(())
}
