//! `swiftwater bench seeds`: repeats published experiments, and prints their figures and ours side by side.
//!
//! A scenario ([`scenario`]) is one file under `scenarios` and one line in its list. It measures, checks answers against the
//! expected ones, and returns rows. The key of a published figure ([`published`]) assigns a row to it. [`server`] starts and
//! queries servers; [`feed`] sends events at a rate.

pub(super) mod costs;
mod document;
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
    document::Document,
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
    if let Some(path) = &args.from {
        return written_again(path, args.output);
    }
    let not_begun = |error| Failure::coded(NOT_BEGUN, error);
    let scenarios = chosen(&args.only).map_err(not_begun)?;
    let size = match (args.full, args.smoke) {
        (true, _) => Size::Full,
        (_, true) => Size::Smoke,
        _ => Size::Short,
    };
    let directory = args.data.clone().unwrap_or_else(std::env::temp_dir);
    let free = free_bytes(&directory).map_err(not_begun)?;
    let planned: Vec<Planned> =
        scenarios.into_iter().map(|scenario| Planned::new(scenario, size, free)).collect();
    let needs = planned.iter().map(Planned::needs);
    let needs = needs.fold(Needs::default(), |all, one| all.and_then(one));
    if size == Size::Full {
        complain(&format!("the published sizes need {}", needs.text()));
        for (planned, instead) in
            planned.iter().filter_map(|planned| Some((planned, planned.instead.as_ref()?)))
        {
            complain(&format!("{}: {instead}", planned.scenario.id));
        }
    }
    has_room(&directory, needs, free).map_err(not_begun)?;

    let stop = Arc::new(AtomicBool::new(false));
    let at_signal = Arc::clone(&stop);
    signals::on_interrupt(move || at_signal.store(true, Ordering::Relaxed))
        .context("cannot catch signals")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let mut context = Context {
        size,
        clock,
        stop: Arc::clone(&stop),
        directory,
        given: args.server.clone().filter(|url| !url.is_empty()),
        runtime: runtime.context("cannot start")?,
    };
    let finished = run_all(&mut context, &planned, args.quiet);
    let document = Report { size, about: machine(), finished }.document();
    write(&document, args.output)?;
    if stop.load(Ordering::Relaxed) {
        return Ok(ExitCode::from(signals::INTERRUPTED));
    }
    Ok(if document.passed { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}

/// Writes a report that was written as JSON before in another form.
fn written_again(path: &Path, form: SeedsForm) -> Outcome {
    let text = fs::read(path).with_context(|| format!("cannot read {}", path.display()));
    let document = text.and_then(|text| {
        serde_json::from_slice(&text)
            .with_context(|| format!("{} is not a report of `bench seeds --output json`", path.display()))
    });
    write(&document.map_err(|error| Failure::coded(NOT_BEGUN, error))?, form)
}

fn write(document: &Document, form: SeedsForm) -> Outcome {
    write_out(|out| match form {
        SeedsForm::Table => document.write_table(out),
        SeedsForm::Json => writeln!(out, "{}", document.json()),
        SeedsForm::Markdown => out.write_all(document.markdown().as_bytes()),
        SeedsForm::Html => out.write_all(document.html().as_bytes()),
    })
}

/// A scenario, and how much of it is done.
struct Planned {
    scenario: &'static Scenario,
    size: Size,
    /// The reason why that is less than was asked for.
    instead: Option<String>,
}

impl Planned {
    /// Plans the requested size; for published sizes, one for which the free bytes suffice.
    fn new(scenario: &'static Scenario, size: Size, free: Option<u64>) -> Planned {
        let needs = (scenario.needs)(size).disk_bytes;
        match free {
            Some(free) if size == Size::Full && free < needs => {
                let gib = |bytes: u64| bytes >> 30;
                let instead = format!(
                    "short form, because of disk space: {} GiB needed, {} free",
                    gib(needs),
                    gib(free)
                );
                Planned { scenario, size: Size::Short, instead: Some(instead) }
            }
            _ => Planned { scenario, size, instead: None },
        }
    }

    fn needs(&self) -> Needs {
        (self.scenario.needs)(self.size)
    }
}

/// Runs one after another; a scenario that fails does not keep the others from running.
fn run_all(context: &mut Context, planned: &[Planned], quiet: bool) -> Vec<Finished> {
    let expected: u64 = planned.iter().map(|planned| planned.needs().seconds).sum();
    let progress = Progress::seconds(expected, quiet);
    let mut finished = Vec::with_capacity(planned.len());
    let (mut expected_done, count) = (0, planned.len());
    for (number, planned) in planned.iter().enumerate() {
        if context.check().is_err() {
            break;
        }
        let scenario = planned.scenario;
        context.size = planned.size;
        progress.set_status(format!("{}/{} {}", number + 1, count, scenario.id));
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
        let mut measured = ran.unwrap_or_default();
        if let Some(instead) = &planned.instead {
            measured.rows.iter_mut().for_each(|row| row.add_condition(instead));
        }
        finished.push(Finished { scenario, seconds, fault, measured });
        expected_done += planned.needs().seconds;
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

/// The named scenarios, in the order of the list; all if none is named. A name may be the beginning of several.
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
            bail!("unknown scenario `{name}`; scenarios are {}", all.join(", "));
        }
        chosen.extend(places);
    }
    let is_chosen = |place: &usize| only.is_empty() || chosen.contains(place);
    Ok((0..scenarios::ALL.len()).filter(is_chosen).map(|place| scenarios::ALL[place]).collect())
}

/// Free bytes on a directory's disk, if known; an error if there is no such directory.
fn free_bytes(directory: &Path) -> anyhow::Result<Option<u64>> {
    let place: PathBuf = fs::canonicalize(directory)
        .with_context(|| format!("`--data {}` cannot be used", directory.display()))?;
    let Ok(disks) = sysinfo::Disks::new_with_refreshed_list() else { return Ok(None) };
    let disk = disks.iter().filter(|disk| place.starts_with(disk.mount_point()));
    let disk = disk.max_by_key(|disk| disk.mount_point().as_os_str().len());
    Ok(disk.map(sysinfo::Disk::available_space))
}

/// Checks that the disk can hold all that a run writes at once. If the free space is unknown, the run finds out.
fn has_room(directory: &Path, needs: Needs, free: Option<u64>) -> anyhow::Result<()> {
    match free {
        Some(free) if free < needs.disk_bytes => bail!(
            "the scenarios need {} MiB of disk, and {} has {} MiB: name another directory with --data, or fewer \
             scenarios with --only",
            grouped(needs.disk_bytes >> 20),
            directory.display(),
            grouped(free >> 20)
        ),
        _ => Ok(()),
    }
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
        assert!(ids(&["bull"]).unwrap_err().to_string().contains("scenarios are bullet-1-latency"));
    }

    #[test]
    fn a_disk_that_is_too_small_is_refused() {
        let needs = |disk_bytes| Needs { disk_bytes, seconds: 1 };
        has_room(Path::new("/tmp"), needs(1), Some(1)).unwrap();
        has_room(Path::new("/tmp"), needs(1), None).unwrap();
        let refusal = has_room(Path::new("/tmp"), needs(2 << 20), Some(1 << 20)).unwrap_err().to_string();
        assert!(refusal.contains("need 2 MiB") && refusal.contains("--data"), "{refusal}");
    }

    #[test]
    fn what_is_free_is_told_of_directories_that_are_there() {
        let directory = tempfile::tempdir().unwrap();
        assert!(free_bytes(directory.path()).unwrap().is_none_or(|free| free > 0));
        assert!(free_bytes(Path::new("/no/such/directory")).is_err());
    }

    #[test]
    fn published_sizes_for_which_there_is_no_disk_are_done_in_the_short_form() {
        let all = scenarios::ALL.iter().map(|scenario| Planned::new(scenario, Size::Full, Some(5 << 30)));
        let (full, short): (Vec<Planned>, Vec<Planned>) = all.partition(|planned| planned.size == Size::Full);
        assert!(
            full.iter().all(|planned| planned.needs().disk_bytes <= 5 << 30 && planned.instead.is_none())
        );
        assert!(short.iter().any(|planned| planned.scenario.id == "article-sql"));
        assert!(short[0].instead.as_ref().unwrap().ends_with("5 free"), "{:?}", short[0].instead);
        assert!(scenarios::ALL.iter().all(|one| Planned::new(one, Size::Full, None).size == Size::Full));
    }
}
