//! `swiftwater serve`: runs an engine and its listeners until a signal stops them.

#[cfg(feature = "history")]
use std::{collections::BTreeMap, time::Duration};
use std::{
    io::{self, Write},
    net::SocketAddr,
    path::PathBuf,
    process::ExitCode,
    sync::Arc,
};

use anyhow::Context;
#[cfg(feature = "history")]
use swiftwater_engine::{ClusterConfig, HistoryConfig, HistoryError};
use swiftwater_event::Clock;
#[cfg(feature = "history")]
use swiftwater_kafka::{ConnectionConfig, GroupProtocol, Kafka};
#[cfg(feature = "history")]
use swiftwater_server::PubSub;
use swiftwater_server::{Engine, Server, ServerError};

#[cfg(feature = "history")]
use crate::settings::{PubSubSettings, roles_of};
use crate::{
    args::{ServeArgs, ServerArgs},
    exit::{Failure, Outcome},
    logging, memory, open_files,
    settings::{FILE_NAME, Loaded, SettingFlags, Settings, Sources, environment, load},
    signals::Interrupts,
    stdio,
};

/// The time between two looks for queries whose nodes are gone.
#[cfg(feature = "history")]
const SWEEP: Duration = Duration::from_secs(10);

/// Partitions of a cluster's topic of results, if this node makes it.
#[cfg(feature = "history")]
const PARTIALS: u32 = 64;

/// Runs the command.
pub(crate) fn run(args: &ServeArgs, clock: Arc<dyn Clock>) -> Outcome {
    let mut server = args.server.clone();
    if args.sql_worker {
        server.settings.0.push(("sql.worker", "yes".to_owned()));
    }
    let loaded = load_settings(&server)?;
    if args.print_config {
        return stdio::write_out(|out| out.write_all(loaded.toml().as_bytes()));
    }
    serve(&loaded, clock, |_, addresses| report_ready(addresses))
}

/// Settings from everywhere. Flags with short names win over the settings' own.
pub(crate) fn load_settings(args: &ServerArgs) -> Result<Loaded, Failure> {
    let mut flags = args.settings.0.clone();
    let short = [
        ("server.listen", &args.listen),
        ("data.dir", &args.data),
        ("engine.default_stream", &args.default_stream),
        ("log.filter", &args.log),
        ("log.format", &args.log_format),
    ];
    flags.extend(short.into_iter().filter_map(|(name, value)| Some((name, value.clone()?))));
    let sources = Sources {
        file: args.config.clone(),
        file_if_there: Some(PathBuf::from(FILE_NAME)),
        environment: environment(),
        flags: SettingFlags(flags),
    };
    load(&sources).and_then(Loaded::all_used).map_err(|error| anyhow::Error::new(error).into())
}

/// Starts logs, engine and listeners, and serves until a signal; `ready` is called once connections are taken.
pub(crate) fn serve(
    loaded: &Loaded,
    clock: Arc<dyn Clock>,
    ready: impl FnOnce(&Engine, &[SocketAddr]) -> Result<(), Failure>,
) -> Outcome {
    let settings = &loaded.settings;
    logging::start(settings)?;
    memory::release_free_memory();
    // Blocking work is only computation, apart from an occasional lookup of a name: more threads for it than cores
    // would only hold memory that the allocator keeps for each.
    let threads_max = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) + 1;
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.enable_all().thread_name("http").max_blocking_threads(threads_max).build();
    runtime.context("cannot start")?.block_on(async {
        #[cfg(feature = "history")]
        let connections = connections(settings, &clock)?;
        #[cfg(feature = "history")]
        let pubsub = pubsub(settings, &connections)?;
        #[cfg(feature = "history")]
        let directory = directory(settings)?;
        #[cfg(feature = "history")]
        let engine = engine(settings, directory.as_ref(), connections, clock).await?;
        #[cfg(not(feature = "history"))]
        let engine = engine(settings, clock).await?;
        let mut config = settings.server();
        config.connections_max = open_files::connections_max(config.connections_max);
        let server = Server::bind(engine.clone(), config).await.map_err(explained)?;
        let server = server.with_settings(loaded.listed());
        #[cfg(feature = "history")]
        let server = pubsub.into_iter().fold(server, Server::with_pubsub);
        let interrupts = Interrupts::catch().context("cannot catch signals")?;
        ready(&engine, server.addresses())?;
        server.run(stop(interrupts)).await;
        Ok(ExitCode::SUCCESS)
    })
}

/// The directory of a node of a cluster, or of a worker of SQL, that was given none: such a node keeps nothing.
#[cfg(feature = "history")]
fn directory(settings: &Settings) -> Result<Option<tempfile::TempDir>, Failure> {
    let keeps_nothing = !settings.cluster.name.is_empty() || settings.history.sql_nodes.is_worker;
    if !keeps_nothing || settings.history().is_some() {
        return Ok(None);
    }
    let made = tempfile::Builder::new().prefix("swiftwater-").tempdir();
    Ok(Some(made.context("a directory for temporary files cannot be made")?))
}

/// Bytes of a segment of the log of a worker of SQL.
#[cfg(feature = "history")]
const TEMPORARY_SEGMENT_BYTES: u64 = 1 << 20;

#[cfg(feature = "history")]
async fn engine(
    settings: &Settings,
    temporary: Option<&tempfile::TempDir>,
    connections: Connections,
    clock: Arc<dyn Clock>,
) -> Result<Engine, Failure> {
    let temporary = temporary.map(|directory| HistoryConfig {
        dir: directory.path().to_owned(),
        is_temporary: true,
        store_new_streams: false,
        // A log is as long as a segment from its beginning, and nothing is written into it.
        log_segment_bytes: match settings.history.sql_nodes.is_worker {
            true => TEMPORARY_SEGMENT_BYTES,
            false => settings.history.log_segment_bytes,
        },
        ..settings.history.clone()
    });
    let engine = match settings.history().or(temporary) {
        None => Engine::start(settings.engine.clone(), clock),
        Some(mut history) => {
            history.cluster = cluster(settings, &connections)?;
            history.kafka.connections = connections;
            history.kafka.schemas = settings.kafka.schemas();
            Engine::open(settings.engine.clone(), history, clock).await.map_err(not_opened)?
        }
    };
    engine.set_saved_limits(settings.history.saved.clone());
    Ok(engine)
}

/// The connections to Kafka, by name.
#[cfg(feature = "history")]
type Connections = BTreeMap<Box<str>, Arc<dyn Kafka>>;

#[cfg(feature = "history")]
fn connections(settings: &Settings, clock: &Arc<dyn Clock>) -> Result<Connections, Failure> {
    let named = settings.kafka.connections();
    named.map(|(name, config)| Ok((name.into(), connection(name, config, Arc::clone(clock))?))).collect()
}

/// Bullet's PubSub, if it is on.
#[cfg(feature = "history")]
fn pubsub(settings: &Settings, connections: &Connections) -> Result<Option<PubSub>, Failure> {
    let PubSubSettings { query_topic, result_topic, connection } = settings.pubsub.clone();
    if query_topic.is_empty() {
        return Ok(None);
    }
    if query_topic == result_topic {
        let message =
            "`pubsub.query_topic` and `pubsub.result_topic` are equal: results would be read as queries";
        return Err(anyhow::anyhow!(message).into());
    }
    let Some(kafka) = connections.get(&*connection) else {
        let message = format!(
            "`pubsub.connection` = \"{connection}\": the settings have no such connection to Kafka\n\
             Add [kafka.{connection}] with `brokers`."
        );
        return Err(anyhow::anyhow!(message).into());
    };
    Ok(Some(PubSub { kafka: Arc::clone(kafka), query_topic, result_topic }))
}

/// The cluster that this server is a node of, if there is one.
#[cfg(feature = "history")]
fn cluster(settings: &Settings, connections: &Connections) -> Result<Option<ClusterConfig>, Failure> {
    let cluster = &settings.cluster;
    if cluster.name.is_empty() {
        return Ok(None);
    }
    let connection = &*cluster.connection;
    let Some(kafka) = connections.get(connection) else {
        let message = format!(
            "`cluster.connection` = \"{connection}\": the settings have no such connection to Kafka\n\
             Add [kafka.{connection}] with `brokers`."
        );
        return Err(anyhow::anyhow!(message).into());
    };
    Ok(Some(ClusterConfig {
        name: cluster.name.clone(),
        node: cluster.node(),
        roles: roles_of(&cluster.roles).filter_map(|role| role.parse().ok()).collect(),
        advertise: Some(cluster.advertise.clone()).filter(|address| !address.is_empty()),
        kafka: Arc::clone(kafka),
        connection: connection.to_owned(),
        flush: Duration::from_millis(cluster.flush_ms),
        partial_wait: Duration::from_millis(cluster.partial_wait_ms),
        event_bytes_per_second: cluster.event_bytes_per_second,
        group_protocol: match &*cluster.group_protocol {
            "consumer" => GroupProtocol::Consumer,
            _ => GroupProtocol::Classic,
        },
        session_timeout: Duration::from_millis(cluster.session_timeout_ms),
        sweep: SWEEP,
        partials: PARTIALS,
    }))
}

/// A connection to Kafka, which connects when a stream first reads a topic.
#[cfg(feature = "kafka")]
fn connection(
    name: &str,
    config: &ConnectionConfig,
    clock: Arc<dyn Clock>,
) -> Result<Arc<dyn Kafka>, Failure> {
    let client = swiftwater_kafka::Client::new(config.clone(), clock).map_err(|error| {
        let hint = error.hint().map(|hint| format!("\n{hint}")).unwrap_or_default();
        anyhow::anyhow!("connection `kafka.{name}` of the settings cannot be used: {error}{hint}")
    })?;
    Ok(Arc::new(client))
}

#[cfg(all(feature = "history", not(feature = "kafka")))]
fn connection(name: &str, _: &ConnectionConfig, _: Arc<dyn Clock>) -> Result<Arc<dyn Kafka>, Failure> {
    let message =
        format!("connection `kafka.{name}` of the settings: this binary was built without kafka: make build");
    Err(anyhow::anyhow!(message).into())
}

#[cfg(not(feature = "history"))]
#[allow(clippy::unused_async, reason = "with history it waits for its files")]
async fn engine(settings: &Settings, clock: Arc<dyn Clock>) -> Result<Engine, Failure> {
    match settings.data_dir.is_empty() {
        true => Ok(Engine::start(settings.engine.clone(), clock)),
        false => Err(crate::exit::without_history()),
    }
}

/// Waits for the first signal; the second one ends the process where it stands.
async fn stop(mut interrupts: Interrupts) {
    let signal = interrupts.next().await;
    tracing::info!(signal, "stopping; a second signal stops at once");
    tokio::spawn(async move {
        let signal = interrupts.next().await;
        tracing::warn!(signal, "stopping at once");
        std::process::exit(match signal {
            "SIGHUP" => 129,
            "SIGINT" => 130,
            _ => 143,
        });
    });
}

/// Prints the addresses to connect to, for programs, as the first lines of output.
fn report_ready(addresses: &[SocketAddr]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    let said = addresses.iter().try_for_each(|address| writeln!(out, "listening on http://{address}"));
    // A parent process that does not read the output does not stop the server.
    match said.and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::output(error)),
        _ => Ok(()),
    }
}

/// The error for a data directory that cannot be opened, with its hint.
#[cfg(feature = "history")]
fn not_opened(error: HistoryError) -> anyhow::Error {
    let hint = match &error {
        HistoryError::Sql(error) => error.hint(),
        error => error.hint(),
    };
    let hint = hint.map(|hint| format!("\n{hint}")).unwrap_or_default();
    anyhow::anyhow!("{}{hint}", swiftwater_event::causes(&error))
}

/// The error for an address that cannot be used, with its hint.
fn explained(error: ServerError) -> anyhow::Error {
    let kind = match &error {
        ServerError::Listen { source, .. } => Some(source.kind()),
        _ => None,
    };
    let hint = match kind {
        Some(io::ErrorKind::AddrInUse) => {
            "\nAnother program listens there, perhaps another swiftwater. Stop it, or use another port: --listen 127.0.0.1:0 selects any free port."
        }
        Some(io::ErrorKind::PermissionDenied) => {
            "\nPorts below 1024 need an administrator: choose a higher port."
        }
        Some(io::ErrorKind::AddrNotAvailable) => "\nThis machine has no such address.",
        _ => "",
    };
    anyhow::anyhow!("{}{hint}", swiftwater_event::causes(&error))
}
