//! `swiftwater bench seeds`: published experiments run again, their figures and ours side by side.
//!
//! A scenario ([`scenario`]) is one file under `scenarios` and one line in its list. It measures, holds answers against what
//! they have to be, and gives rows; which row stands beside which published figure ([`published`]) is said by the figure's
//! key. How servers are started and asked is in [`server`], how events are sent at a rate in [`feed`].

pub(super) mod costs;
mod feed;
mod published;
mod report;
mod scenario;
mod scenarios;
mod server;
pub(super) mod validate;

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use anyhow::{Context as _, bail};
use swiftwater_event::Clock;

use self::{
    report::{Finished, Report, machine},
    scenario::{Context, Needs, Scenario, Size},
};
use crate::{
    args::{SeedsArgs, SeedsForm},
    exit::{Failure, Outcome},
    output::grouped,
    progress::Progress,
    signals,
    stdio::{complain, write_out},
};

/// The exit status when a scenario failed.
const FAILED: u8 = 1;
/// The exit status when it could not be begun.
const NOT_BEGUN: u8 = 2;

/// Runs the command.
pub(super) fn run(args: &SeedsArgs, clock: Arc<dyn Clock>) -> Outcome {
    if args.list {
        return list();
    }
    let not_begun = |error| Failure::coded(NOT_BEGUN, error);
    let scenarios = chosen(&args.only).map_err(not_begun)?;
    let size = match (args.full, args.smoke) {
        (true, _) => Size::Full,
        (_, true) => Size::Smoke,
        _ => Size::Short,
    };
    let directory = args.data.clone().unwrap_or_else(std::env::temp_dir);
    let needs = scenarios.iter().map(|scenario| (scenario.needs)(size));
    let needs = needs.fold(Needs::default(), |all, one| all.and_then(one));
    if size == Size::Full {
        complain(&format!("the published sizes need {}", needs.text()));
    }
    has_room(&directory, needs).map_err(not_begun)?;

    let stop = Arc::new(AtomicBool::new(false));
    let at_signal = Arc::clone(&stop);
    signals::on_interrupt(move || at_signal.store(true, Ordering::Relaxed))
        .context("cannot catch signals")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let context = Context {
        size,
        clock,
        stop: Arc::clone(&stop),
        directory,
        given: args.server.clone().filter(|url| !url.is_empty()),
        runtime: runtime.context("cannot start")?,
    };
    let finished = run_all(&context, &scenarios, args.quiet);
    let report = Report { size, about: machine(), finished };
    write_out(|out| match args.output {
        SeedsForm::Table => report.write_table(out),
        SeedsForm::Json => writeln!(out, "{:#}", report.document()),
        SeedsForm::Markdown => out.write_all(report.markdown().as_bytes()),
        SeedsForm::Html => out.write_all(report.html().as_bytes()),
    })?;
    if stop.load(Ordering::Relaxed) {
        return Ok(ExitCode::from(signals::INTERRUPTED));
    }
    Ok(if report.is_good() { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}

/// Runs one after another; a scenario that fails does not keep the others from running.
fn run_all(context: &Context, scenarios: &[&'static Scenario], quiet: bool) -> Vec<Finished> {
    let expected: u64 = scenarios.iter().map(|scenario| (scenario.needs)(context.size).seconds).sum();
    let progress = Progress::seconds(expected, quiet);
    let mut finished = Vec::with_capacity(scenarios.len());
    let mut expected_done = 0;
    for (number, scenario) in scenarios.iter().enumerate() {
        if context.check().is_err() {
            break;
        }
        progress.say(format!("{}/{} {}", number + 1, scenarios.len(), scenario.id));
        let began = context.clock.monotonic_nanos();
        let ran = (scenario.run)(context);
        let seconds = (context.clock.monotonic_nanos() - began) as f64 / 1e9;
        let fault = match ran {
            _ if context.check().is_err() => break,
            Ok(ref measured) => measured.fault(),
            Err(ref error) => Some(format!("{error:#}")),
        };
        if !quiet {
            let told = fault.as_deref().map_or_else(|| "done".to_owned(), |fault| format!("failed: {fault}"));
            progress.suspend(|| complain(&format!("{} {told}, {seconds:.1} s", scenario.id)));
        }
        finished.push(Finished { scenario, seconds, fault, measured: ran.unwrap_or_default() });
        expected_done += (scenario.needs)(context.size).seconds;
        progress.set(expected_done);
    }
    progress.finish();
    finished
}

fn list() -> Outcome {
    let mut text = String::new();
    for scenario in scenarios::ALL {
        // Writing to memory does not fail.
        let _ = writeln!(text, "{:18} {}", scenario.id, scenario.about);
    }
    write_out(|out| out.write_all(text.as_bytes()))
}

/// Those that are named, in the order of the list; all if none is. A name may be the beginning of several.
fn chosen(only: &[String]) -> anyhow::Result<Vec<&'static Scenario>> {
    let mut chosen = BTreeSet::new();
    for name in only {
        let of_name = scenarios::ALL.iter().enumerate();
        let places: Vec<_> = of_name
            .filter(|(_, scenario)| scenario.id == name || scenario.id.starts_with(&format!("{name}-")))
            .map(|(place, _)| place)
            .collect();
        if places.is_empty() {
            let all: Vec<_> = scenarios::ALL.iter().map(|scenario| scenario.id).collect();
            bail!("there is no scenario `{name}`; there are {}", all.join(", "));
        }
        chosen.extend(places);
    }
    let is_chosen = |place: &usize| only.is_empty() || chosen.contains(place);
    Ok((0..scenarios::ALL.len()).filter(is_chosen).map(|place| scenarios::ALL[place]).collect())
}

/// Whether the disk can hold what all this writes at once.
fn has_room(directory: &Path, needs: Needs) -> anyhow::Result<()> {
    let place: PathBuf = fs::canonicalize(directory)
        .with_context(|| format!("`--data {}` cannot be used", directory.display()))?;
    // Where nobody knows, the run finds out.
    let Ok(disks) = sysinfo::Disks::new_with_refreshed_list() else { return Ok(()) };
    let disk = disks.iter().filter(|disk| place.starts_with(disk.mount_point()));
    let disk = disk.max_by_key(|disk| disk.mount_point().as_os_str().len());
    let Some(free) = disk.map(sysinfo::Disk::available_space) else { return Ok(()) };
    if free < needs.disk_bytes {
        bail!(
            "this needs {} MiB of disk, and {} has {} MiB: name another directory with --data, or fewer scenarios with --only",
            grouped(needs.disk_bytes >> 20),
            place.display(),
            grouped(free >> 20)
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scenarios_are_chosen_by_their_names_and_what_these_begin_with() {
        let ids = |only: &[&str]| {
            let only: Vec<String> = only.iter().map(|name| (*name).to_owned()).collect();
            chosen(&only).map(|all| all.iter().map(|scenario| scenario.id).collect::<Vec<_>>())
        };
        assert_eq!(ids(&[]).unwrap().len(), scenarios::ALL.len());
        assert_eq!(ids(&["bullet-1-latency", "bullet-1"]).unwrap(), ["bullet-1-latency"]);
        assert!(ids(&["bullet"]).unwrap().iter().all(|id| id.starts_with("bullet-")));
        assert!(ids(&["bull"]).unwrap_err().to_string().contains("there are bullet-1-latency"));
    }

    #[test]
    fn a_disk_that_is_too_small_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let needs = |disk_bytes| Needs { disk_bytes, seconds: 1 };
        has_room(directory.path(), needs(1)).unwrap();
        let refusal = has_room(directory.path(), needs(u64::MAX)).unwrap_err().to_string();
        assert!(refusal.contains("--data"), "{refusal}");
        assert!(has_room(Path::new("/no/such/directory"), needs(1)).is_err());
    }
}
