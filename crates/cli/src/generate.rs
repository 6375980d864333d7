//! `swiftwater generate`: generates events of published workloads from a seed, as fast as they can be written.
//!
//! The crate `swiftwater-generate` defines the events. This module selects them by flags, paces them, and writes them to a
//! file or a pipe. Knows nothing of servers.

use std::{
    fs::File,
    io::{self, Write},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, bail};
use swiftwater_event::Clock;
use swiftwater_generate::{Events, FaultInjector, LogsSettings, SwipesSettings, TelecomSettings, VALUES_MAX};

use crate::{
    args::{GenerateArgs, MadeArgs, Workload},
    exit::{Failure, Outcome},
    output::grouped,
    progress::Progress,
    stdio::{complain, stdout_is_terminal},
};

/// Bytes that are made before they are written.
const BLOCK_BYTES: usize = 1 << 20;
/// Maximum number of events between two readings of the clock, with a rate.
const PACED_EVENTS_MAX: u64 = 1000;

/// Runs the command.
pub(crate) fn run(args: &GenerateArgs, clock: Arc<dyn Clock>) -> Outcome {
    let mut events = begin(args.workload, &args.made, args.rate, &*clock)?;
    // On a terminal a bar would stand among the events.
    let quiet = args.quiet || args.output.is_none() && stdout_is_terminal();
    let progress = Progress::events(args.events, quiet);
    let written = match &args.output {
        Some(path) => {
            let told = || format!("cannot write `{}`", path.display());
            let mut file = File::create(path).with_context(told)?;
            write(&mut events, args, &*clock, &progress, &mut file).with_context(told).map_err(Failure::from)
        }
        None => {
            write(&mut events, args, &*clock, &progress, &mut io::stdout().lock()).map_err(Failure::output)
        }
    };
    progress.finish();
    written?;
    if !args.quiet {
        for (fault, count) in events.counts() {
            complain(&format!("{} of {} events: {}", grouped(count), grouped(args.events), fault.name()));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Events as flags say.
///
/// # Errors
///
/// A flag of another workload, or a value out of range, is an error.
pub(crate) fn begin(
    workload: Workload,
    args: &MadeArgs,
    rate: Option<f64>,
    clock: &dyn Clock,
) -> anyhow::Result<FaultInjector> {
    let MadeArgs { seed, variants, skew, flows, start, now, event_rate, noise, posted, swipers, swipees } =
        args;
    let given = [
        ("--skew", skew.is_some(), &[Workload::Telecom, Workload::Swipes][..]),
        ("--flows", *flows, &[Workload::Telecom]),
        ("--start", start.is_some(), &[Workload::Telecom, Workload::Logs]),
        ("--now", *now, &[Workload::Telecom, Workload::Logs]),
        ("--event-rate", event_rate.is_some(), &[Workload::Telecom, Workload::Logs]),
        ("--noise", noise.is_some(), &[Workload::Telecom]),
        ("--posted", *posted, &[Workload::Swipes]),
        ("--swipers", swipers.is_some(), &[Workload::Swipes]),
        ("--swipees", swipees.is_some(), &[Workload::Swipes]),
    ];
    for (flag, is_given, of) in given {
        if is_given && !of.contains(&workload) {
            let names = of.iter().map(|workload| format!("`{}`", name(*workload))).collect::<Vec<_>>();
            bail!("`{flag}` is an option of {}, not of `{}`", names.join(" and "), name(workload));
        }
    }
    let made = match workload {
        Workload::SmartHome => swiftwater_generate::Workload::SmartHome,
        Workload::Articles => swiftwater_generate::Workload::Articles,
        Workload::Logs => {
            let usual = LogsSettings::default();
            swiftwater_generate::Workload::Logs(LogsSettings {
                start_ms: if *now { clock.now() } else { start.unwrap_or(usual.start_ms) },
                events_per_second: event_rate.or(rate).unwrap_or(usual.events_per_second),
            })
        }
        Workload::Swipes => {
            let usual = SwipesSettings::default();
            let users = |flag: &str, given: &Option<u64>, usual| match given {
                None => Ok(usual),
                Some(users) => u32::try_from(*users)
                    .with_context(|| format!("`{flag}`: allowed: 1 to {}", grouped(VALUES_MAX.into()))),
            };
            swiftwater_generate::Workload::Swipes(SwipesSettings {
                swipers: users("--swipers", swipers, usual.swipers)?,
                swipees: users("--swipees", swipees, usual.swipees)?,
                skew: skew.unwrap_or(usual.skew),
                posted: *posted,
            })
        }
        Workload::Telecom => {
            let usual = TelecomSettings::default();
            swiftwater_generate::Workload::Telecom(TelecomSettings {
                skew: skew.unwrap_or(usual.skew),
                flows: *flows,
                start_ms: if *now { clock.now() } else { start.unwrap_or(usual.start_ms) },
                events_per_second: event_rate.or(rate).unwrap_or(usual.events_per_second),
                noise: noise.unwrap_or(usual.noise),
            })
        }
    };
    Ok(FaultInjector::new(made.begin(*seed)?, *seed, variants))
}

/// The name of a workload on the command line.
fn name(workload: Workload) -> String {
    clap::ValueEnum::to_possible_value(&workload)
        .map_or_else(String::new, |value| value.get_name().to_owned())
}

fn write(
    events: &mut dyn Events,
    args: &GenerateArgs,
    clock: &dyn Clock,
    progress: &Progress,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut block = Vec::with_capacity(BLOCK_BYTES + (64 << 10));
    let began = clock.monotonic_nanos();
    let mut made = 0;
    while made < args.events {
        // At a rate, some twenty blocks a second.
        let at_once = args.rate.map_or(u64::MAX, |rate| ((rate / 20.0) as u64).clamp(1, PACED_EVENTS_MAX));
        let until = args.events.min(made.saturating_add(at_once));
        while made < until && block.len() < BLOCK_BYTES {
            events.push(&mut block);
            made += 1;
        }
        out.write_all(&block)?;
        block.clear();
        progress.set(made);
        if let Some(rate) = args.rate {
            out.flush()?;
            let due = (made as f64 / rate * 1e9) as u64;
            loop {
                let elapsed = clock.monotonic_nanos().saturating_sub(began);
                if elapsed >= due {
                    break;
                }
                std::thread::park_timeout(Duration::from_nanos(due - elapsed));
            }
        }
    }
    out.flush()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Cli, Command};

    fn args(line: &str) -> GenerateArgs {
        let words = ["swiftwater", "generate"].into_iter().chain(line.split(' '));
        let Command::Generate(args) = Cli::try_parse_from(words).unwrap().command else {
            panic!("not generate")
        };
        args
    }

    fn made(line: &str) -> anyhow::Result<String> {
        let (args, clock) = (args(line), swiftwater_event::SystemClock::new());
        let mut events = begin(args.workload, &args.made, args.rate, &clock)?;
        let mut out = Vec::new();
        write(&mut events, &args, &clock, &Progress::events(args.events, true), &mut out)?;
        Ok(String::from_utf8_lossy(&out).into_owned())
    }

    #[test]
    fn as_many_events_are_written_as_were_asked_for() {
        for (line, count) in [
            ("smart-home -n 0", 0),
            ("smart-home -n 1", 1),
            ("smart-home -n 20_000", 20_000),
            ("smart-home -n 30 --rate 10000", 30),
            ("swipes -n 500 --variant corrupt=1", 500),
        ] {
            assert_eq!(made(line).unwrap().lines().count(), count, "{line}");
        }
    }

    #[test]
    fn flags_reach_the_events() {
        let first =
            |line: &str| serde_json::from_str::<serde_json::Value>(made(line).unwrap().trim()).unwrap();
        let swipe = first("swipes -n 1 --posted --swipers 1 --swipees 1");
        assert_eq!(
            (&swipe["swiper"], &swipe["swipee"], swipe.get("direction")),
            (&"1".into(), &"1".into(), None)
        );
        let record = first("telecom -n 1 --flows --start 2026-02-03T04:05:06Z");
        assert!(record["flows"].is_array());
        assert_eq!(record["tsEnd"], 1_770_091_506_000_i64);
        let line = first("logs -n 1 --start 2026-02-03T04:05:06Z");
        assert_eq!(line["ts"], "2026-02-03T04:05:06.000Z");
        let paced = made("telecom -n 3 --rate 1000").unwrap();
        assert!(paced.lines().last().unwrap().contains("\"tsEnd\":1767225600002"));
    }

    #[test]
    fn flags_of_other_workloads_are_refused() {
        let refusal = |line| made(line).unwrap_err().to_string();
        assert_eq!(
            refusal("smart-home --skew 1"),
            "`--skew` is an option of `telecom` and `swipes`, not of `smart-home`"
        );
        assert_eq!(refusal("swipes --now"), "`--now` is an option of `telecom` and `logs`, not of `swipes`");
        assert_eq!(refusal("swipes --flows"), "`--flows` is an option of `telecom`, not of `swipes`");
        assert!(refusal("telecom --skew 9").contains("allowed are 0 to 4"));
        assert!(refusal("swipes --swipers 0").contains("allowed are 1 to"));
    }

    #[test]
    fn variants_are_read_with_their_shares() {
        assert_eq!(args("telecom --variant corrupt,null=0.05").made.variants.len(), 2);
        let words = ["swiftwater", "generate", "telecom", "--variant", "nul"];
        let refusal = Cli::try_parse_from(words).unwrap_err().to_string();
        assert!(refusal.contains("write one of missing, null"), "{refusal}");
    }
}
