//! Curves as pictures: one SVG each, both axes logarithmic, and all their numbers in one file beside them.

use std::{fs, path::Path};

use anyhow::{Context, anyhow};
use plotters::prelude::*;

/// One curve.
pub(crate) struct Curve<'t> {
    pub(crate) title: &'t str,
    /// What `x` is.
    pub(crate) axis: &'t str,
    /// `x`, and nanoseconds an event.
    pub(crate) points: Vec<(f64, f64)>,
}

const SIZE: (u32, u32) = (800, 420);
const LINE: RGBColor = RGBColor(0x1f, 0x6f, 0xb4);

/// Draws a curve as `NAME.svg`.
pub(crate) fn draw(directory: &Path, name: &str, curve: &Curve<'_>) -> anyhow::Result<()> {
    fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
    let text = svg(curve).with_context(|| format!("cannot draw {name}"))?;
    let path = directory.join(format!("{name}.svg"));
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// Writes the numbers of all curves.
pub(crate) fn numbers(directory: &Path, csv: &str) -> anyhow::Result<()> {
    let path = directory.join("curves.csv");
    fs::write(&path, csv).with_context(|| format!("cannot write {}", path.display()))
}

fn svg(curve: &Curve<'_>) -> anyhow::Result<String> {
    let wide = |values: &mut dyn Iterator<Item = f64>| {
        let (least, most) = values.fold((f64::MAX, f64::MIN), |(least, most), x| (least.min(x), most.max(x)));
        // A single value needs room around it too.
        least / 1.5..most * 1.5
    };
    let (xs, ys) = (
        wide(&mut curve.points.iter().map(|point| point.0)),
        wide(&mut curve.points.iter().map(|point| point.1)),
    );
    let mut text = String::new();
    {
        // Errors of drawing borrow from the drawing; as text they do not.
        let area = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
        area.fill(&WHITE).map_err(|error| anyhow!("{error}"))?;
        let mut chart = ChartBuilder::on(&area)
            .caption(curve.title, ("sans-serif", 16))
            .margin(14)
            .x_label_area_size(44)
            .y_label_area_size(76)
            .build_cartesian_2d(xs.log_scale(), ys.log_scale())
            .map_err(|error| anyhow!("{error}"))?;
        chart
            .configure_mesh()
            .x_desc(curve.axis)
            .y_desc("nanoseconds an event, all cores together")
            .x_label_formatter(&|x| short(*x))
            .y_label_formatter(&|y| short(*y))
            .light_line_style(RGBColor(0xee, 0xee, 0xee))
            .draw()
            .map_err(|error| anyhow!("{error}"))?;
        let points = || curve.points.iter().copied();
        chart
            .draw_series(LineSeries::new(points(), LINE.stroke_width(2)))
            .map_err(|error| anyhow!("{error}"))?;
        let dots = points().map(|point| Circle::new(point, 4, LINE.filled()));
        chart.draw_series(dots).map_err(|error| anyhow!("{error}"))?;
        area.present().map_err(|error| anyhow!("{error}"))?;
    }
    Ok(text)
}

/// `1500` as `1.5k`.
fn short(value: f64) -> String {
    let (value, unit) = match value {
        _ if value >= 1e6 => (value / 1e6, "M"),
        _ if value >= 1e3 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let rounded = (value * 10.0).round() / 10.0;
    format!("{rounded}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_is_a_picture_with_its_words() {
        let curve = Curve { title: "cost", axis: "queries", points: vec![(1.0, 400.0), (1e6, 700.0)] };
        let text = svg(&curve).unwrap();
        assert!(text.starts_with("<svg") && text.contains("cost") && text.contains("queries"), "{text}");
        assert_eq!(text.matches("<circle").count(), 2);
    }

    #[test]
    fn one_point_is_a_curve_too() {
        assert!(svg(&Curve { title: "t", axis: "a", points: vec![(1.0, 1.0)] }).is_ok());
        assert_eq!([short(1.0), short(1500.0), short(2e6)], ["1", "1.5k", "2M"]);
    }
}
