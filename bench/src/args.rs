//! Parses the command line: which parts to measure, and how much of each.

use std::path::PathBuf;

use anyhow::{Context, bail};

/// The text of `--help`.
pub(crate) const HELP: &str = "\
Usage: swiftwater-bench [OPTIONS]

  --quick             few samples of little data, in under a minute: that answers are right
  --only PART[,PART]  throughput, shared, latency, memory, decode, equality, mixed, searches, delivery, changes,
                      curves, rollups, views, history; of the last two also a piece alone: views/folding, app, updates, derived,
                      many-keys; history/log, acks, smart-home, articles, recovery
  --write             write the table to RESULTS.md, and curves into results/, beside the benchmark's sources when
                      cargo runs it, else in this directory
  --gib N             size of the files of events (default 2.1, with --quick 0.25)
  --rounds N          how often each point of throughput is run (default 3, with --quick 1)
  --history-events N  smart-home events that `history` stores (default 20000000, with --quick 1000000), and a twentieth as
                      many articles
  --data DIR          where files of events, and what servers store, are for as long as they are needed (default: data
                      beside the benchmark's sources when cargo runs it, else the directory for temporary files)
  --block-kib N       bytes that are checked and appended at once (default 256)
  --feeders N         threads that check and append (default: one per core)
  --shards N          shards of the engine (default: one per core)
  --pending-mib N     bytes that may wait for the shards (default: the engine's)
";

/// A part of the benchmarks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Throughput,
    Shared,
    Latency,
    Memory,
    Decode,
    Equality,
    Mixed,
    Searches,
    Delivery,
    Changes,
    Curves,
    Rollups,
    Views,
    History,
}

/// All parts, by their names, in the order in which they run.
pub(crate) const PARTS: [(&str, Part); 14] = [
    ("decode", Part::Decode),
    ("equality", Part::Equality),
    ("mixed", Part::Mixed),
    ("searches", Part::Searches),
    ("latency", Part::Latency),
    ("delivery", Part::Delivery),
    ("changes", Part::Changes),
    ("memory", Part::Memory),
    ("throughput", Part::Throughput),
    ("shared", Part::Shared),
    ("curves", Part::Curves),
    ("rollups", Part::Rollups),
    ("views", Part::Views),
    ("history", Part::History),
];

/// Pieces of parts that can be run alone.
const PIECES: [(Part, &[&str]); 2] = [
    (Part::Views, &["folding", "app", "updates", "derived", "many-keys"]),
    (Part::History, &["log", "acks", "smart-home", "articles", "recovery"]),
];

/// The command line.
#[derive(Debug, Clone)]
pub(crate) struct Args {
    pub(crate) quick: bool,
    pub(crate) write: bool,
    /// With a piece, that alone.
    only: Vec<(Part, Option<&'static str>)>,
    gib: Option<f64>,
    rounds: Option<usize>,
    history_events: Option<usize>,
    data: Option<PathBuf>,
    pub(crate) tuning: Tuning,
}

/// The settings that can be varied; 0: the default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Tuning {
    pub(crate) block_kib: usize,
    pub(crate) feeders: usize,
    pub(crate) shards: usize,
    pub(crate) pending_mib: usize,
}

impl Args {
    /// Reads the command line; `None` if help is wanted.
    pub(crate) fn parse(words: impl Iterator<Item = String>) -> anyhow::Result<Option<Args>> {
        let mut args = Args {
            quick: false,
            write: false,
            only: Vec::new(),
            gib: None,
            rounds: None,
            history_events: None,
            data: None,
            tuning: Tuning::default(),
        };
        let mut words = words;
        while let Some(word) = words.next() {
            let mut value = || words.next().with_context(|| format!("`{word}` needs a value"));
            match word.as_str() {
                "--help" | "-h" => return Ok(None),
                "--quick" => args.quick = true,
                "--write" => args.write = true,
                "--only" => {
                    for part in value()?.split(',') {
                        args.only.push(part_of(part)?);
                    }
                }
                "--gib" => {
                    let gib: f64 = value()?.parse().context("`--gib` is a number")?;
                    if !(gib > 0.0 && gib <= 1024.0) {
                        bail!("`--gib` is above 0 and at most 1024");
                    }
                    args.gib = Some(gib);
                }
                "--rounds" => args.rounds = Some(number(&word, &value()?)?),
                "--history-events" => args.history_events = Some(number(&word, &value()?)?),
                "--data" => args.data = Some(value()?.into()),
                "--block-kib" => args.tuning.block_kib = number(&word, &value()?)?,
                "--feeders" => args.tuning.feeders = number(&word, &value()?)?,
                "--shards" => args.tuning.shards = number(&word, &value()?)?,
                "--pending-mib" => args.tuning.pending_mib = number(&word, &value()?)?,
                _ => bail!("no option `{word}`; --help names them"),
            }
        }
        Ok(Some(args))
    }

    pub(crate) fn wants(&self, part: Part) -> bool {
        self.only.is_empty() || self.only.iter().any(|(only, _)| *only == part)
    }

    /// Returns true if a piece of a part is wanted; `piece` is one of [`PIECES`].
    pub(crate) fn wants_piece(&self, part: Part, piece: &str) -> bool {
        let is_it =
            |(only, alone): &(Part, Option<&str>)| *only == part && alone.is_none_or(|alone| alone == piece);
        self.only.is_empty() || self.only.iter().any(is_it)
    }

    /// The least size of a file of events, in bytes.
    pub(crate) fn file_bytes(&self) -> u64 {
        let gib = self.gib.unwrap_or(if self.quick { 0.25 } else { 2.1 });
        (gib * f64::from(1 << 30)) as u64
    }

    pub(crate) fn rounds(&self) -> usize {
        self.rounds.unwrap_or(if self.quick { 1 } else { 3 })
    }

    /// Smart-home events that are stored.
    pub(crate) fn history_events(&self) -> u64 {
        self.history_events.unwrap_or(if self.quick { 1_000_000 } else { 20_000_000 }) as u64
    }

    /// Articles that are stored: as many to the events as the published five million are to a hundred.
    pub(crate) fn articles(&self) -> u64 {
        self.history_events() / 20
    }

    /// Samples of each latency.
    pub(crate) fn samples(&self) -> usize {
        if self.quick { 200 } else { 3000 }
    }

    pub(crate) fn data(&self) -> PathBuf {
        let beside_sources = || Some(sources()?.join("data"));
        self.data.clone().or_else(beside_sources).unwrap_or_else(std::env::temp_dir)
    }

    /// The directory of the results.
    pub(crate) fn results(&self) -> PathBuf {
        sources().unwrap_or_default()
    }
}

/// A part, or a piece of one, by its name.
fn part_of(text: &str) -> anyhow::Result<(Part, Option<&'static str>)> {
    let (name, piece) = text.split_once('/').map_or((text, None), |(name, piece)| (name, Some(piece)));
    let names = || PARTS.map(|(name, _)| name).join(", ");
    let known = PARTS.iter().find(|(known, _)| *known == name);
    let (_, part) = known.with_context(|| format!("no part `{name}`; parts are: {}", names()))?;
    let Some(piece) = piece else { return Ok((*part, None)) };
    let pieces = PIECES.iter().find(|(of, _)| of == part).map_or(&[][..], |(_, pieces)| pieces);
    let known = pieces.iter().find(|known| **known == piece);
    let piece = known
        .with_context(|| format!("no piece `{piece}` of `{name}`; pieces are: {}", pieces.join(", ")))?;
    Ok((*part, Some(piece)))
}

/// The directory of this program's sources, where cargo runs it.
fn sources() -> Option<PathBuf> {
    Some(std::env::var_os("CARGO_MANIFEST_DIR")?.into())
}

fn number(option: &str, text: &str) -> anyhow::Result<usize> {
    match text.parse() {
        Ok(number) if number > 0 => Ok(number),
        _ => bail!("`{option}` is a whole number above 0, not `{text}`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> anyhow::Result<Option<Args>> {
        Args::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn options_are_read() {
        let args = parse("--quick --only latency,memory --gib 0.5").unwrap().unwrap();
        assert!(args.wants(Part::Memory) && !args.wants(Part::Throughput));
        assert_eq!((args.file_bytes(), args.rounds()), (1 << 29, 1));
        assert!(!args.wants_piece(Part::History, "acks"));
        let args = parse("--only history/acks,views").unwrap().unwrap();
        assert!(args.wants(Part::History) && args.wants_piece(Part::History, "acks"));
        assert!(!args.wants_piece(Part::History, "log") && args.wants_piece(Part::Views, "app"));
        assert!(parse("").unwrap().unwrap().wants_piece(Part::History, "log"));
        assert!(parse("--help").unwrap().is_none());
    }

    #[test]
    fn wrong_options_are_refused() {
        for line in [
            "--fast",
            "--only speed",
            "--gib",
            "--gib 0",
            "--rounds 0",
            "--shards two",
            "--history-events 0",
            "--only history/speed",
            "--only decode/acks",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
