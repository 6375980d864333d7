//! What came of scenarios, beside what was published: a table, a document, Markdown, a page with curves.

use std::{
    fmt::Write as _,
    fs,
    io::{self, Write},
};

use serde_json::{Value, json};

use super::{
    published::{FIGURES, Figure, times_better},
    scenario::{Measured, Row, Scenario, Size},
    scenarios,
};
use crate::{output::grouped, sql::table::Table};

const HEADINGS: [&str; 7] = ["scenario", "what", "published", "ours", "ratio", "passed", "conditions"];

/// A scenario that ran.
pub(super) struct Finished {
    /// Which.
    pub(super) scenario: &'static Scenario,
    /// How long it took.
    pub(super) seconds: f64,
    /// Why it failed.
    pub(super) fault: Option<String>,
    /// What it measured.
    pub(super) measured: Measured,
}

/// All of them.
pub(super) struct Report {
    /// How much was done.
    pub(super) size: Size,
    /// The machine.
    pub(super) about: String,
    /// In the order in which they ran.
    pub(super) finished: Vec<Finished>,
}

/// A line of the report: a published figure, one of ours, or both.
struct Line<'r> {
    scenario: &'r str,
    published: Option<&'r Figure>,
    ours: Option<&'r Row>,
    /// Why there is none of ours.
    reason: String,
}

impl Line<'_> {
    fn what(&self) -> &str {
        let ours = || self.ours.map_or("", |row| &row.what);
        self.published.map_or_else(ours, |figure| &figure.what)
    }

    fn theirs(&self) -> String {
        let Some(figure) = self.published else { return String::new() };
        figure.figure.map_or_else(|| "not told".to_owned(), |number| with_unit(number, &figure.unit))
    }

    fn figure(&self) -> String {
        self.ours.map_or_else(String::new, |row| with_unit(row.figure, &row.unit))
    }

    fn ratio(&self) -> Option<f64> {
        let (figure, row) = self.published.zip(self.ours)?;
        times_better(figure, row.figure)
    }

    fn passed(&self) -> String {
        match self.ours {
            None => self.reason.clone(),
            Some(Row { fault: Some(fault), .. }) => format!("failed: {fault}"),
            Some(row) if !row.is_held() => "rate not held".to_owned(),
            Some(_) => "passed".to_owned(),
        }
    }

    fn conditions(&self) -> String {
        let mut parts = Vec::new();
        if let Some(figure) = self.published.filter(|figure| !figure.conditions.is_empty()) {
            parts.push(format!("theirs: {}", figure.conditions));
        }
        if let Some(row) = self.ours {
            let mut ours = Vec::new();
            // What ours is, where it is not said already.
            if self.published.is_some_and(|figure| figure.what != row.what) {
                ours.push(row.what.clone());
            }
            if let Some((asked, reached)) = row.rate {
                ours.push(format!("{} of {} events/s asked for", number(reached), number(asked)));
            }
            if !row.conditions.is_empty() {
                ours.push(row.conditions.clone());
            }
            if !ours.is_empty() {
                parts.push(if self.published.is_some() {
                    format!("ours: {}", ours.join(", "))
                } else {
                    ours.join(", ")
                });
            }
        }
        parts.join("; ")
    }

    fn cells(&self) -> [String; 7] {
        let ratio = self.ratio().map_or_else(String::new, |ratio| format!("{} ×", number(ratio)));
        let what = self.what().to_owned();
        [
            self.scenario.to_owned(),
            what,
            self.theirs(),
            self.figure(),
            ratio,
            self.passed(),
            self.conditions(),
        ]
    }
}

impl Report {
    /// Whether all went well.
    pub(super) fn is_good(&self) -> bool {
        !self.finished.is_empty() && self.finished.iter().all(|one| one.fault.is_none())
    }

    fn lines(&self) -> Vec<Line<'_>> {
        let mut lines = Vec::new();
        for one in &self.finished {
            let id = one.scenario.id;
            let rows = &one.measured.rows;
            for figure in FIGURES.iter().filter(|figure| figure.scenario.as_deref() == Ok(id)) {
                let beside = |row: &&Row| row.key.as_deref() == Some(figure.key.as_str());
                let mut ours = rows.iter().filter(beside).peekable();
                if ours.peek().is_none() {
                    let reason = self.reason(one, figure);
                    lines.push(Line { scenario: id, published: Some(figure), ours: None, reason });
                }
                lines.extend(ours.map(|row| Line {
                    scenario: id,
                    published: Some(figure),
                    ours: Some(row),
                    reason: String::new(),
                }));
            }
            let is_beside = |row: &&Row| {
                let figure = FIGURES.iter().find(|figure| row.key.as_ref() == Some(&figure.key));
                figure.is_some_and(|figure| figure.scenario.as_deref() == Ok(id))
            };
            let alone = rows.iter().filter(|row| !is_beside(row));
            lines.extend(alone.map(|row| Line {
                scenario: id,
                published: None,
                ours: Some(row),
                reason: String::new(),
            }));
        }
        if self.finished.len() == scenarios::ALL.len() {
            let later = FIGURES.iter().filter_map(|figure| Some((figure, figure.scenario.as_ref().err()?)));
            lines.extend(later.map(|(figure, why)| Line {
                scenario: "",
                published: Some(figure),
                ours: None,
                reason: format!("not yet: {why}"),
            }));
        }
        lines
    }

    fn reason(&self, one: &Finished, figure: &Figure) -> String {
        let told = one.measured.without.iter().find(|(key, _)| figure.key.starts_with(key.as_str()));
        match (told, &one.fault) {
            (Some((_, why)), _) => why.clone(),
            (None, Some(fault)) => format!("failed: {fault}"),
            (None, None) => format!("not measured at the {} sizes", self.size.name()),
        }
    }

    fn summary(&self) -> String {
        let failed = self.finished.iter().filter(|one| one.fault.is_some());
        let failed: Vec<_> = failed.map(|one| one.scenario.id).collect();
        let seconds: f64 = self.finished.iter().map(|one| one.seconds).sum();
        let all = self.finished.len();
        match failed.as_slice() {
            [] => format!("{all} scenarios passed in {seconds:.0} s ({} sizes)", self.size.name()),
            some => format!("{} of {all} scenarios failed: {}", some.len(), some.join(", ")),
        }
    }

    /// Aligned columns.
    pub(super) fn write_table(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut text = HEADINGS.join(",");
        text.push('\n');
        for line in self.lines() {
            let quoted = line.cells().map(|cell| format!("\"{}\"", cell.replace('"', "\"\"")));
            text.push_str(&quoted.join(","));
            text.push('\n');
        }
        let mut table = Table::new();
        table.push(text.as_bytes(), out)?;
        table.finish(out)?;
        writeln!(out, "\n{}\n{}", self.summary(), self.about)
    }

    /// One document.
    pub(super) fn document(&self) -> Value {
        let row = |line: &Line<'_>| {
            json!({
                "scenario": line.scenario,
                "key": line.published.map(|figure| &figure.key),
                "system": line.published.map(|figure| &figure.system),
                "what": line.what(),
                "published": line.published.and_then(|figure| figure.figure),
                "published_unit": line.published.map(|figure| &figure.unit),
                "ours": line.ours.map(|row| row.figure),
                "unit": line.ours.map(|row| &row.unit),
                "ratio": line.ratio(),
                "rate_asked": line.ours.and_then(|row| row.rate).map(|rate| rate.0),
                "rate_reached": line.ours.and_then(|row| row.rate).map(|rate| rate.1),
                "passed": line.ours.is_some_and(|row| row.fault.is_none()),
                "verdict": line.passed(),
                "conditions": line.conditions(),
            })
        };
        let scenario = |one: &Finished| {
            let plots = one.measured.plots.iter().map(|plot| {
                let lines = plot.lines.iter().map(|line| json!({"name": line.name, "points": line.points}));
                json!({"title": plot.title, "x": plot.x, "y": plot.y, "lines": lines.collect::<Vec<_>>()})
            });
            json!({
                "id": one.scenario.id,
                "passed": one.fault.is_none(),
                "fault": one.fault,
                "seconds": one.seconds,
                "curves": plots.collect::<Vec<_>>(),
            })
        };
        json!({
            "sizes": self.size.name(),
            "machine": self.about,
            "passed": self.is_good(),
            "scenarios": self.finished.iter().map(scenario).collect::<Vec<_>>(),
            "rows": self.lines().iter().map(row).collect::<Vec<_>>(),
        })
    }

    /// A table in Markdown, with what it was measured on.
    pub(super) fn markdown(&self) -> String {
        let mut text = format!("{}\n\n{}\n\n", self.summary(), self.about);
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        text.push_str(&line(&HEADINGS.map(str::to_owned)));
        text.push_str(&line(&HEADINGS.map(|_| "---".to_owned())));
        for one in self.lines() {
            text.push_str(&line(&one.cells().map(|cell| cell.replace('|', "\\|").replace('\n', " "))));
        }
        text
    }

    /// A page that needs nothing else.
    pub(super) fn html(&self) -> String {
        let mut page = String::from(
            "<!doctype html>\n<meta charset=utf-8>\n<title>Published experiments, run again</title>\n<style>\
             body{font:14px/1.4 sans-serif;margin:2em;color:#222}table{border-collapse:collapse}\
             td,th{border:1px solid #ccc;padding:4px 8px;text-align:left;vertical-align:top}\
             td:nth-child(3),td:nth-child(4),td:nth-child(5){text-align:right;white-space:nowrap}\
             svg{max-width:100%;height:auto}</style>\n<h1>Published experiments, run again</h1>\n",
        );
        // Writing to memory does not fail.
        let _ = writeln!(page, "<p>{}</p>\n<p>{}</p>", escaped(&self.summary()), escaped(&self.about));
        page.push_str("<table>\n<tr>");
        HEADINGS.iter().for_each(|heading| page.extend(["<th>", heading]));
        for line in self.lines() {
            page.push_str("\n<tr>");
            line.cells().iter().for_each(|cell| page.extend(["<td>", &escaped(cell)]));
        }
        page.push_str("\n</table>\n");
        for one in &self.finished {
            for plot in &one.measured.plots {
                let picture =
                    plot.svg().unwrap_or_else(|error| format!("<p>{}</p>", escaped(&error.to_string())));
                let _ = writeln!(page, "<h2>{}: {}</h2>\n{picture}", one.scenario.id, escaped(&plot.title));
            }
        }
        page
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn with_unit(figure: f64, unit: &str) -> String {
    format!("{} {unit}", number(figure))
}

/// As many digits as say something.
fn number(number: f64) -> String {
    let size = number.abs();
    let text = match size {
        _ if size >= 1000.0 => {
            let whole = grouped(size.round() as u64);
            return if number < 0.0 { format!("-{whole}") } else { whole };
        }
        _ if size >= 100.0 => format!("{number:.0}"),
        _ if size >= 10.0 => format!("{number:.1}"),
        _ if size >= 0.01 => format!("{number:.2}"),
        _ => format!("{number:.4}"),
    };
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// The machine, in a line.
pub(super) fn machine() -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let field = |text: &str, name: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once(':'));
        lines.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim().to_owned())
    };
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let cpu = field(&read("/proc/cpuinfo"), "model name").unwrap_or_else(|| "unknown processor".to_owned());
    let memory = field(&read("/proc/meminfo"), "MemTotal");
    let kib = memory.and_then(|text| text.strip_suffix(" kB")?.trim().parse::<u64>().ok());
    let memory =
        kib.map_or_else(|| "unknown".to_owned(), |kib| format!("{:.1} GiB", kib as f64 / 1_048_576.0));
    let build = if cfg!(debug_assertions) { "a debug build" } else { "a release build" };
    format!(
        "Machine: {cpu}, {cores} cores, {memory} memory, {} {}; swiftwater {}, {build}; server and load on this machine.",
        std::env::consts::OS,
        read("/proc/sys/kernel/osrelease").trim(),
        env!("CARGO_PKG_VERSION"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(rows: Vec<Row>) -> Report {
        let scenario = scenarios::ALL.iter().find(|one| one.id == "bullet-1-latency").unwrap();
        let mut measured = Measured { rows, ..Measured::default() };
        measured.plot("a curve", "x", "y", vec![("ours", vec![(1.0, 2.0)])]);
        let fault = measured.fault();
        let finished = vec![Finished { scenario, seconds: 1.0, fault, measured }];
        Report { size: Size::Short, about: "Machine: x.".to_owned(), finished }
    }

    fn finished() -> Row {
        Row::new("query finished", 0.5, "ms from the query").beside("B1/finished")
    }

    #[test]
    fn every_published_figure_of_a_scenario_has_its_line() {
        let held = finished().at_rate(1000.0, 990.0).under("a | b < c");
        let report = report(vec![held, Row::new("p99", 2.5, "ms")]);
        assert!(report.is_good());
        let verdicts: Vec<_> =
            report.lines().iter().map(|line| (line.what().to_owned(), line.passed())).collect();
        assert_eq!(verdicts.len(), 4, "{verdicts:?}");
        assert_eq!(verdicts[0].1, "not measured at the short sizes");
        assert_eq!((verdicts[2].1.as_str(), verdicts[3].0.as_str()), ("passed", "p99"));
        let (markdown, html) = (report.markdown(), report.html());
        assert!(markdown.contains("a \\| b < c") && html.contains("a | b &lt; c"));
        assert!(html.contains("<svg") && !html.contains("http-equiv") && !html.contains("<script"));
        let document = report.document();
        assert_eq!(document["rows"][2]["rate_reached"], 990.0);
        assert_eq!(document["scenarios"][0]["curves"][0]["lines"][0]["points"][0][1], 2.0);
    }

    #[test]
    fn a_fault_fails_and_a_slow_run_says_so() {
        let report = report(vec![finished().at_rate(1000.0, 900.0)]);
        assert!(report.is_good());
        assert_eq!(report.lines()[2].passed(), "rate not held");
        let report = self::report(vec![finished().unless(Some("2 are missing".to_owned()))]);
        assert!(!report.is_good());
        assert_eq!(report.lines()[2].passed(), "failed: 2 are missing");
        let mut out = Vec::new();
        report.write_table(&mut out).unwrap();
        let out = String::from_utf8(out).unwrap();
        assert!(out.contains("1 of 1 scenarios failed: bullet-1-latency"), "{out}");
    }

    #[test]
    fn numbers_have_the_digits_that_say_something() {
        let all = [0.0, 1.0, 0.25, 12.34, 123.4, 1234.5, -2.16, 0.0012];
        assert_eq!(all.map(number), ["0", "1", "0.25", "12.3", "123", "1,235", "-2.16", "0.0012"]);
    }
}
