//! Compares the results of scenarios with the published figures: one line for each of their figures and of ours.

use std::fs;

use super::{
    document::{Curve, CurveLine, Document, FigureRecord, ScenarioRecord, number},
    published::{FIGURES, Figure, times_better},
    scenario::{Measured, Row, Scenario, Size},
    scenarios,
};

/// A scenario that ran.
pub(super) struct Finished {
    /// The scenario.
    pub(super) scenario: &'static Scenario,
    /// Its duration.
    pub(super) seconds: f64,
    /// The reason why it failed.
    pub(super) fault: Option<String>,
    /// Its measurements.
    pub(super) measured: Measured,
}

/// All of them.
pub(super) struct Report {
    /// The size of the run.
    pub(super) size: Size,
    /// The machine.
    pub(super) about: String,
    /// The scenarios in the order in which they ran.
    pub(super) finished: Vec<Finished>,
}

/// A line of the report: a published figure, one of ours, or both.
struct Line<'r> {
    scenario: &'r str,
    published: Option<&'r Figure>,
    ours: Option<&'r Row>,
    /// The reason why there is none of ours.
    reason: String,
}

impl Line<'_> {
    fn what(&self) -> &str {
        let ours = || self.ours.map_or("", |row| &row.what);
        self.published.map_or_else(ours, |figure| &figure.what)
    }

    fn ratio(&self) -> Option<f64> {
        let (figure, row) = self.published.zip(self.ours)?;
        times_better(figure, row.figure)
    }

    fn passed(&self) -> String {
        match self.ours {
            None => self.reason.clone(),
            Some(Row { fault: Some(fault), .. }) => format!("failed: {fault}"),
            Some(row) if !row.is_held() => "rate not reached".to_owned(),
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
            // The name of ours, if it differs from the published one.
            if self.published.is_some_and(|figure| figure.what != row.what) {
                ours.push(row.what.clone());
            }
            if let Some((asked, reached)) = row.rate {
                ours.push(format!("{} of {} requested events/s", number(reached), number(asked)));
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

    fn shown(&self) -> FigureRecord {
        let rate = self.ours.and_then(|row| row.rate);
        FigureRecord {
            scenario: self.scenario.to_owned(),
            key: self.published.map(|figure| figure.key.clone()),
            system: self.published.map(|figure| figure.system.clone()),
            what: self.what().to_owned(),
            published: self.published.and_then(|figure| figure.figure),
            published_unit: self.published.map(|figure| figure.unit.clone()),
            ours: self.ours.map(|row| row.figure),
            unit: self.ours.map(|row| row.unit.clone()),
            ratio: self.ratio(),
            rate_asked: rate.map(|rate| rate.0),
            rate_reached: rate.map(|rate| rate.1),
            passed: self.ours.is_some_and(|row| row.fault.is_none()),
            verdict: self.passed(),
            conditions: self.conditions(),
        }
    }
}

impl Report {
    /// All of it, to be written.
    pub(super) fn document(&self) -> Document {
        let ran = |one: &Finished| ScenarioRecord {
            id: one.scenario.id.to_owned(),
            passed: one.fault.is_none(),
            fault: one.fault.clone(),
            seconds: one.seconds,
            curves: one
                .measured
                .plots
                .iter()
                .map(|plot| Curve {
                    title: plot.title.clone(),
                    x: plot.x.clone(),
                    y: plot.y.clone(),
                    lines: plot
                        .lines
                        .iter()
                        .map(|line| CurveLine { name: line.name.clone(), points: line.points.clone() })
                        .collect(),
                })
                .collect(),
        };
        Document {
            sizes: self.size.name().to_owned(),
            machine: self.about.clone(),
            passed: !self.finished.is_empty() && self.finished.iter().all(|one| one.fault.is_none()),
            scenarios: self.finished.iter().map(ran).collect(),
            rows: self.lines().iter().map(Line::shown).collect(),
        }
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
        assert!(report.document().passed);
        let verdicts: Vec<_> =
            report.lines().iter().map(|line| (line.what().to_owned(), line.passed())).collect();
        assert_eq!(verdicts.len(), 4, "{verdicts:?}");
        assert_eq!(verdicts[0].1, "not measured at the short sizes");
        assert_eq!((verdicts[2].1.as_str(), verdicts[3].0.as_str()), ("passed", "p99"));
        let document = report.document();
        let (markdown, html) = (document.markdown(), document.html());
        assert!(markdown.contains("a \\| b < c") && html.contains("a | b &lt; c"));
        assert!(html.contains("<svg") && !html.contains("http-equiv") && !html.contains("<script"));
        assert_eq!(document.rows[2].rate_reached, Some(990.0));
        assert_eq!(document.scenarios[0].curves[0].lines[0].points, [(1.0, 2.0)]);
        let read: Document = serde_json::from_str(&document.json()).unwrap();
        assert_eq!(read, document, "what is written reads back as the same");
    }

    #[test]
    fn a_fault_fails_and_a_slow_run_says_so() {
        let report = report(vec![finished().at_rate(1000.0, 900.0)]);
        assert!(report.document().passed);
        assert_eq!(report.lines()[2].passed(), "rate not reached");
        let report = self::report(vec![finished().unless(Some("2 are missing".to_owned()))]);
        assert!(!report.document().passed);
        assert_eq!(report.lines()[2].passed(), "failed: 2 are missing");
        let mut out = Vec::new();
        report.document().write_table(&mut out).unwrap();
        let out = String::from_utf8(out).unwrap();
        assert!(out.contains("1 of 1 scenarios failed: bullet-1-latency"), "{out}");
    }
}
