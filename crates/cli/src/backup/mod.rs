//! `swiftwater backup`: fetches a backup of a server into a directory, or verifies such a directory.
//!
//! ```text
//! DIR/manifest.json                the contents of the backup; written last: without it there is no backup
//! DIR/unfinished                   the snapshot that is being fetched, until its manifest is written
//! DIR/catalog, log, tables, views  the files, each under its name and checksum; `.part` while it is being fetched
//! ```
//!
//! A complete, correct file is not fetched again. A partial one is resumed, whichever snapshot it came from. The files of an
//! older backup stay until the new one is complete, so there is always one that can be restored.

mod directory;
mod fetch;

use std::process::ExitCode;

use anyhow::Context;
use indicatif::HumanBytes;
use swiftwater_engine::{BackupManifest, verify_backup};
use swiftwater_server::wire::time_text;

use crate::{
    args::{BackupArgs, RestoreArgs, ServerArgs},
    client::Client,
    exit::{Failure, Outcome},
    output::grouped,
    progress::Progress,
    serve::load_settings,
    signals::client_runtime,
    stdio::complain,
};

use directory::BackupDir;

/// The exit status when files of a backup are damaged or missing.
const DAMAGED: u8 = 2;

/// Runs `swiftwater backup`.
pub(crate) fn run(args: &BackupArgs) -> Outcome {
    if args.verify {
        return verify(args);
    }
    let client = Client::new(args.client.url())?;
    let runtime = client_runtime().context("cannot start")?;
    let dir = BackupDir::open(&args.dir)?;
    let fetched = runtime.block_on(fetch::fetch(&client, &dir, args.without_search_index, args.quiet))?;
    complain(&format!("{}; {} were fetched", describe(&fetched.manifest), HumanBytes(fetched.bytes)));
    Ok(ExitCode::SUCCESS)
}

/// The description of a backup in a line.
fn describe(manifest: &BackupManifest) -> String {
    let (files, bytes) = (grouped(manifest.files.len() as u64), HumanBytes(manifest.bytes()));
    format!("{files} files of {bytes}, as of {}", time_text(manifest.taken))
}

fn verify(args: &BackupArgs) -> Outcome {
    let mut bar = Bar::new(args.quiet);
    let verified = verify_backup(&args.dir, |manifest, bytes| bar.add(manifest, bytes));
    bar.finish();
    let (manifest, faults) = verified.map_err(|error| explained(error.hint(), error))?;
    if faults.is_empty() {
        complain(&format!("the backup is complete: {}", describe(&manifest)));
        return Ok(ExitCode::SUCCESS);
    }
    for fault in &faults {
        let why = fault.source.as_ref().map(|source| format!(": {source}")).unwrap_or_default();
        complain(&format!("  {fault}{why}"));
    }
    let error = anyhow::anyhow!(
        "{} of {} files are damaged; if the server still runs, `swiftwater backup` fetches them again",
        grouped(faults.len() as u64),
        grouped(manifest.files.len() as u64)
    );
    Err(Failure::coded(DAMAGED, error))
}

/// Runs `swiftwater restore`.
pub(crate) fn restore(args: &RestoreArgs, clock: std::sync::Arc<dyn swiftwater_event::Clock>) -> Outcome {
    let RestoreArgs { dir, data, config, settings, quiet } = args;
    let loaded = load_settings(&ServerArgs {
        listen: None,
        data: data.clone(),
        config: config.clone(),
        default_stream: None,
        log: None,
        log_format: None,
        settings: settings.clone(),
    })?;
    let history = loaded.settings.history();
    let history = history.context("no target: name the new data directory with --data DIR")?;
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.enable_all().worker_threads(2).build().context("cannot start")?;
    let mut bar = Bar::new(*quiet);
    let add = |manifest: &BackupManifest, bytes| bar.add(manifest, bytes);
    let restored = runtime.block_on(swiftwater_engine::restore(&history, dir, clock, add));
    bar.finish();
    let manifest = restored.map_err(|error| {
        let code = if matches!(error, swiftwater_engine::RestoreError::Damaged(_)) { DAMAGED } else { 1 };
        Failure::coded(code, explained(error.hint(), error))
    })?;
    complain(&format!("{} were restored into `{}`", describe(&manifest), history.dir.display()));
    Ok(ExitCode::SUCCESS)
}

/// An error with what lay under it, and what to do.
fn explained(hint: Option<&'static str>, error: swiftwater_engine::RestoreError) -> anyhow::Error {
    let hint = hint.map(|hint| format!("\n{hint}")).unwrap_or_default();
    anyhow::anyhow!("{}{hint}", swiftwater_event::causes(&error))
}

/// A bar that begins when it is known how much there is.
struct Bar {
    quiet: bool,
    shown: Option<Progress>,
    bytes: u64,
}

impl Bar {
    fn new(quiet: bool) -> Bar {
        Bar { quiet, shown: None, bytes: 0 }
    }

    fn add(&mut self, manifest: &BackupManifest, bytes: u64) {
        self.bytes += bytes;
        let quiet = self.quiet;
        self.shown.get_or_insert_with(|| Progress::bytes(Some(manifest.bytes()), quiet)).set(self.bytes);
    }

    fn finish(&self) {
        if let Some(shown) = &self.shown {
            shown.finish();
        }
    }
}
