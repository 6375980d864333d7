//! SQL over several machines: the options of this node, and the files of tables as workers read them.

#[cfg(feature = "distributed")]
use std::sync::Arc;

#[cfg(feature = "distributed")]
use swiftwater_sql::{DistributionOptions, FileScanConfig, RuntimeEnv, StoredFiles};
use swiftwater_sql::{ErrorKind, SqlError};
#[cfg(feature = "distributed")]
use swiftwater_store::Store;

use crate::HistoryConfig;

/// The bytes of a secret at least, and of its file at most.
#[cfg(feature = "distributed")]
const SECRET_BYTES: std::ops::RangeInclusive<usize> = 16..=4096;

fn invalid(text: String) -> SqlError {
    SqlError::new(ErrorKind::Invalid, text)
}

#[cfg(not(feature = "distributed"))]
pub(crate) fn check(config: &HistoryConfig) -> Result<(), SqlError> {
    let nodes = &config.sql_nodes;
    match nodes.workers.is_empty() && nodes.listen.is_empty() {
        true => Ok(()),
        false => {
            Err(invalid("SQL over several machines: this binary was built without it: make build".to_owned()))
        }
    }
}

/// The options for several machines; none if this node is alone.
#[cfg(feature = "distributed")]
pub(crate) fn options(config: &HistoryConfig, store: Store) -> Result<Option<DistributionOptions>, SqlError> {
    let nodes = &config.sql_nodes;
    if nodes.workers.is_empty() && nodes.listen.is_empty() {
        return Ok(None);
    }
    let (timeout, kept) = (config.sql_timeout_ms, config.store_versions_kept_ms);
    if !nodes.workers.is_empty() && (timeout == 0 || kept <= timeout) {
        let error = invalid(format!(
            "statements may take `sql.timeout_ms`, {timeout} ms (0: no limit), and files that they read on workers may be deleted \
             after `store.versions_kept_ms`, {kept} ms"
        ));
        return Err(error.with_hint("Set sql.timeout_ms to less than store.versions_kept_ms."));
    }
    if nodes.listen.is_empty() {
        let error = invalid("`sql.workers` are set, and `sql.worker_listen` is not".to_owned());
        return Err(error.with_hint(
            "Workers read the rows here that are not in files: set sql.worker_listen = \"127.0.0.1:8082\".",
        ));
    }
    let address = nodes.listen.parse::<std::net::SocketAddr>().ok();
    let is_reachable = address.is_some_and(|address| !address.ip().is_unspecified() && address.port() != 0);
    if nodes.advertise.is_empty() && !is_reachable {
        let error =
            invalid(format!("no other node reaches `{}`, the value of `sql.worker_listen`", nodes.listen));
        return Err(
            error.with_hint("Set sql.worker_advertise to the address of this node: http://10.0.0.5:8082.")
        );
    }
    let secret = match nodes.secret_file.as_str() {
        "" => None,
        path => Some(secret(path)?),
    };
    let is_local = address.is_some_and(|address| address.ip().is_loopback());
    if secret.is_none() && !is_local {
        let error = invalid(format!(
            "`sql.worker_listen` is {}, which other machines reach, and there is no secret",
            nodes.listen
        ));
        return Err(error.with_hint("Set sql.worker_secret_file to a file that all nodes have."));
    }
    let advertise = match nodes.advertise.as_str() {
        "" => format!("http://{}", nodes.listen),
        address => address.to_owned(),
    };
    Ok(Some(DistributionOptions {
        workers: nodes.workers.clone(),
        advertise,
        secret,
        above_bytes: nodes.above_bytes,
        hold_bytes: usize::try_from(nodes.hold_bytes).unwrap_or(usize::MAX),
        files: Some(Arc::new(TableFiles(store))),
    }))
}

/// Checks that the tables that a worker reads can be there: it makes no directory.
#[cfg(feature = "distributed")]
pub(crate) fn check_location(location: &str) -> Result<(), SqlError> {
    match location.contains("://") || std::path::Path::new(location).is_dir() {
        true => Ok(()),
        false => Err(invalid(format!("`store.location`: there is no directory `{location}`"))),
    }
}

#[cfg(feature = "distributed")]
fn secret(path: &str) -> Result<Arc<str>, SqlError> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        invalid(format!("`sql.worker_secret_file`: the file `{path}` cannot be read: {error}"))
    })?;
    let secret = text.trim_end_matches(['\r', '\n']);
    let is_printable = secret.bytes().all(|byte| byte.is_ascii_graphic());
    match is_printable && SECRET_BYTES.contains(&secret.len()) {
        true => Ok(secret.into()),
        false => Err(invalid(format!(
            "`sql.worker_secret_file`: the file `{path}` has no secret of {} to {} printable ASCII characters",
            SECRET_BYTES.start(),
            SECRET_BYTES.end()
        ))),
    }
}

/// The files of a store's tables.
#[cfg(feature = "distributed")]
struct TableFiles(Store);

#[cfg(feature = "distributed")]
impl StoredFiles for TableFiles {
    fn encode(&self, scan: &FileScanConfig) -> swiftwater_sql::PlanResult<Vec<u8>> {
        swiftwater_store::scan_message(scan)
    }

    fn decode(
        &self,
        bytes: &[u8],
        scan: FileScanConfig,
        runtime: &RuntimeEnv,
    ) -> swiftwater_sql::PlanResult<FileScanConfig> {
        self.0.scan_of_message(bytes, scan, runtime)
    }
}

impl HistoryConfig {
    /// The store whose tables a worker reads, which it does not own; none of another node.
    pub(crate) fn worker_location(&self) -> Option<&str> {
        Some(self.store_location.as_str()).filter(|location| self.sql_nodes.is_worker && !location.is_empty())
    }
}
