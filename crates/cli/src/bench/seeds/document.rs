//! A report of repeated published experiments, written and read back: as JSON, a table, Markdown, or a page with curves.

use std::{
    fmt::Write as _,
    io::{self, Write},
};

use serde::{Deserialize, Serialize};
use swiftwater_plot::{Line, Plot};

use crate::{output::grouped, text_table::Table};

const HEADINGS: [&str; 7] = ["scenario", "what", "published", "ours", "ratio", "passed", "conditions"];

/// The whole of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Document {
    /// The size of the run, in a word.
    pub(super) sizes: String,
    /// The machine, in a line.
    pub(super) machine: String,
    /// True if all scenarios passed.
    pub(super) passed: bool,
    pub(super) scenarios: Vec<ScenarioRecord>,
    pub(super) rows: Vec<FigureRecord>,
}

/// A scenario that ran.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct ScenarioRecord {
    pub(super) id: String,
    pub(super) passed: bool,
    pub(super) fault: Option<String>,
    pub(super) seconds: f64,
    pub(super) curves: Vec<Curve>,
}

/// Lines over one pair of axes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Curve {
    pub(super) title: String,
    pub(super) x: String,
    pub(super) y: String,
    pub(super) lines: Vec<CurveLine>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct CurveLine {
    pub(super) name: String,
    pub(super) points: Vec<(f64, f64)>,
}

/// A published figure, one of ours, or both.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct FigureRecord {
    pub(super) scenario: String,
    /// The published figure's, with whose system it is of.
    pub(super) key: Option<String>,
    pub(super) system: Option<String>,
    pub(super) what: String,
    /// The published figure; none with a unit: it was not published.
    pub(super) published: Option<f64>,
    pub(super) published_unit: Option<String>,
    pub(super) ours: Option<f64>,
    pub(super) unit: Option<String>,
    /// The factor by which ours is better.
    pub(super) ratio: Option<f64>,
    pub(super) rate_asked: Option<f64>,
    pub(super) rate_reached: Option<f64>,
    pub(super) passed: bool,
    /// The ratio in words.
    pub(super) verdict: String,
    pub(super) conditions: String,
}

impl Curve {
    fn plot(&self) -> Plot {
        let line = |line: &CurveLine| Line { name: line.name.clone(), points: line.points.clone() };
        let (title, x, y) = (self.title.clone(), self.x.clone(), self.y.clone());
        Plot { title, x, y, lines: self.lines.iter().map(line).collect() }
    }
}

impl FigureRecord {
    fn cells(&self) -> [String; 7] {
        let published = self.published_unit.as_ref().map(|unit| match self.published {
            Some(figure) => with_unit(figure, unit),
            None => "not told".to_owned(),
        });
        let ours = self.ours.map(|figure| with_unit(figure, self.unit.as_deref().unwrap_or_default()));
        [
            self.scenario.clone(),
            self.what.clone(),
            published.unwrap_or_default(),
            ours.unwrap_or_default(),
            self.ratio.map_or_else(String::new, |ratio| format!("{} ×", number(ratio))),
            self.verdict.clone(),
            self.conditions.clone(),
        ]
    }
}

impl Document {
    fn summary(&self) -> String {
        let failed = self.scenarios.iter().filter(|one| !one.passed);
        let failed: Vec<_> = failed.map(|one| one.id.as_str()).collect();
        let (all, sizes) = (self.scenarios.len(), &self.sizes);
        let seconds = self.scenarios.iter().map(|one| one.seconds).fold(0.0, |all, one| all + one);
        match failed.as_slice() {
            [] if all == 1 => format!("the scenario passed in {seconds:.0} s ({sizes} sizes)"),
            [] => format!("{all} scenarios passed in {seconds:.0} s ({sizes} sizes)"),
            some => format!("{} of {all} scenarios failed: {}", some.len(), some.join(", ")),
        }
    }

    /// Aligned columns.
    pub(super) fn write_table(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut text = HEADINGS.join(",");
        text.push('\n');
        for row in &self.rows {
            let quoted = row.cells().map(|cell| format!("\"{}\"", cell.replace('"', "\"\"")));
            text.push_str(&quoted.join(","));
            text.push('\n');
        }
        let mut table = Table::new(true);
        table.push(text.as_bytes(), out)?;
        table.finish(out)?;
        writeln!(out, "\n{}\n{}", self.summary(), self.machine)
    }

    /// The document as JSON.
    pub(super) fn json(&self) -> String {
        serde_json::to_string_pretty(self).expect("texts and numbers are JSON")
    }

    /// A table in Markdown, with what it was measured on.
    pub(super) fn markdown(&self) -> String {
        let mut text = format!("{}\n\n{}\n\n", self.summary(), self.machine);
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        text.push_str(&line(&HEADINGS.map(str::to_owned)));
        text.push_str(&line(&HEADINGS.map(|_| "---".to_owned())));
        for row in &self.rows {
            text.push_str(&line(&row.cells().map(|cell| cell.replace('|', "\\|").replace('\n', " "))));
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
        let _ = writeln!(page, "<p>{}</p>\n<p>{}</p>", escaped(&self.summary()), escaped(&self.machine));
        page.push_str("<table>\n<tr>");
        HEADINGS.iter().for_each(|heading| page.extend(["<th>", heading]));
        for row in &self.rows {
            page.push_str("\n<tr>");
            row.cells().iter().for_each(|cell| page.extend(["<td>", &escaped(cell)]));
        }
        page.push_str("\n</table>\n");
        for one in &self.scenarios {
            for curve in &one.curves {
                let picture = curve
                    .plot()
                    .svg()
                    .unwrap_or_else(|error| format!("<p>{}</p>", escaped(&error.to_string())));
                let _ = writeln!(page, "<h2>{}: {}</h2>\n{picture}", escaped(&one.id), escaped(&curve.title));
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

/// The number with its significant digits.
pub(super) fn number(number: f64) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_digits_that_say_something() {
        let all = [0.0, 1.0, 0.25, 12.34, 123.4, 1234.5, -2.16, 0.0012];
        assert_eq!(all.map(number), ["0", "1", "0.25", "12.3", "123", "1,235", "-2.16", "0.0012"]);
    }
}
