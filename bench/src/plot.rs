//! Plots curves: one SVG each, both axes logarithmic, and all their numbers in one file beside them.

use std::{fs, path::Path};

use anyhow::Context;
use swiftwater_plot::{Line, Plot};

/// One curve.
pub(crate) struct Curve<'t> {
    pub(crate) title: &'t str,
    /// The label of `x`.
    pub(crate) axis: &'t str,
    /// `x`, and nanoseconds an event.
    pub(crate) points: Vec<(f64, f64)>,
}

/// Draws a curve as `NAME.svg`.
pub(crate) fn draw(directory: &Path, name: &str, curve: &Curve<'_>) -> anyhow::Result<()> {
    fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
    let line = Line { name: name.to_owned(), points: curve.points.clone() };
    let plot = Plot {
        title: curve.title.to_owned(),
        x: curve.axis.to_owned(),
        y: "nanoseconds an event, all cores together".to_owned(),
        lines: vec![line],
    };
    let text = plot.svg().with_context(|| format!("cannot draw {name}"))?;
    let path = directory.join(format!("{name}.svg"));
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// Writes the numbers of all curves.
pub(crate) fn numbers(directory: &Path, csv: &str) -> anyhow::Result<()> {
    let path = directory.join("curves.csv");
    fs::write(&path, csv).with_context(|| format!("cannot write {}", path.display()))
}
