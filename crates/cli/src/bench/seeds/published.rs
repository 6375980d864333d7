//! The published figures: one file, embedded in the binary.

use std::sync::LazyLock;

/// Lines of `key,experiment,system,what,figure,unit,conditions,scenario`. The scenario is one of ours, or `later: WHY`.
const FILE: &str = include_str!("published.csv");

/// A published figure.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Figure {
    /// The key, which is unique.
    pub(super) key: String,
    /// The system that was measured.
    pub(super) system: String,
    /// The name of the figure.
    pub(super) what: String,
    /// The figure; none if the experiment has none.
    pub(super) figure: Option<f64>,
    /// Its unit.
    pub(super) unit: String,
    /// The conditions of the measurement.
    pub(super) conditions: String,
    /// The scenario that measures ours, or the reason why none does yet.
    pub(super) scenario: Result<String, String>,
}

/// All of them, in their order.
pub(super) static FIGURES: LazyLock<Vec<Figure>> =
    LazyLock::new(|| FILE.lines().skip(1).map(|line| figure(line).expect("tests read the file")).collect());

/// The factor by which ours is better than a published one; none if that cannot be said.
pub(super) fn times_better(published: &Figure, ours: f64) -> Option<f64> {
    let figure = published.figure.filter(|figure| *figure > 0.0)?;
    if ours <= 0.0 || published.unit == "ms from the query" {
        return None;
    }
    Some(if matches!(published.unit.as_str(), "s" | "ms" | "cores") { figure / ours } else { ours / figure })
}

fn figure(line: &str) -> Option<Figure> {
    let mut cells = cells(line).into_iter();
    let (key, _experiment, system) = (cells.next()?, cells.next()?, cells.next()?);
    let (what, figure, unit) = (cells.next()?, cells.next()?, cells.next()?);
    let (conditions, scenario) = (cells.next()?, cells.next()?);
    let scenario = match scenario.strip_prefix("later: ") {
        Some(why) => Err(why.to_owned()),
        None => Ok(scenario),
    };
    let figure = if figure.is_empty() { None } else { Some(figure.parse().ok()?) };
    Some(Figure { key, system, what, figure, unit, conditions, scenario })
}

/// The cells of a line; one with commas stands in quotes.
fn cells(line: &str) -> Vec<String> {
    let (mut cells, mut quoted) = (vec![String::new()], false);
    for letter in line.chars() {
        match letter {
            '"' => quoted = !quoted,
            ',' if !quoted => cells.push(String::new()),
            _ => cells.last_mut().expect("there is always one").push(letter),
        }
    }
    cells
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::bench::seeds::scenarios;

    #[test]
    fn every_line_is_read_and_has_a_key_of_its_own() {
        assert_eq!(FIGURES.len(), FILE.lines().count() - 1);
        let keys: BTreeSet<&str> = FIGURES.iter().map(|figure| figure.key.as_str()).collect();
        assert_eq!(keys.len(), FIGURES.len());
        for line in FILE.lines() {
            assert_eq!(cells(line).len(), 8, "{line}");
        }
    }

    #[test]
    fn every_figure_has_its_scenario_or_a_reason() {
        let all: BTreeSet<&str> = scenarios::ALL.iter().map(|scenario| scenario.id).collect();
        for figure in FIGURES.iter() {
            if let Ok(scenario) = &figure.scenario {
                assert!(all.contains(scenario.as_str()), "{}: no scenario `{scenario}`", figure.key);
            }
        }
    }

    #[test]
    fn better_is_more_of_a_rate_and_less_of_a_time() {
        let of = |key: &str| FIGURES.iter().find(|figure| figure.key == key).unwrap();
        assert_eq!(times_better(of("E5"), 2e6), Some(2.0));
        assert_eq!(times_better(of("D7/cityUsage"), 13.0), Some(2.0));
        assert_eq!(times_better(of("B1/finished"), 1.0), None, "a moment is no duration");
        assert_eq!(times_better(of("B3/0"), 1.0), None, "there is none");
    }
}
