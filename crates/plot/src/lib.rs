//! Plots curves as SVG text, with both axes logarithmic.
//!
//! Knows nothing of the plotted values. Points that are not above 0 cannot be drawn on such axes and are left out.

use std::fmt;

use plotters::{coord::Shift, prelude::*};

/// A plot of lines over one pair of axes.
#[derive(Debug, Clone, PartialEq)]
pub struct Plot {
    /// Its title.
    pub title: String,
    /// The label of `x`.
    pub x: String,
    /// The label of `y`.
    pub y: String,
    /// The lines, the first one drawn most strongly.
    pub lines: Vec<Line>,
}

/// One line of a [`Plot`].
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// Its name; shown if there are several.
    pub name: String,
    /// `x` and `y`, in the order in which they are joined.
    pub points: Vec<(f64, f64)>,
}

/// The reason why a picture could not be drawn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlotError(String);

impl fmt::Display for PlotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for PlotError {}

const SIZE: (u32, u32) = (800, 420);
const COLOURS: [RGBColor; 6] = [
    RGBColor(0x1f, 0x6f, 0xb4),
    RGBColor(0xd6, 0x5f, 0x0e),
    RGBColor(0x2c, 0x8c, 0x4a),
    RGBColor(0x8e, 0x4a, 0xb0),
    RGBColor(0x99, 0x77, 0x22),
    RGBColor(0x55, 0x55, 0x55),
];

impl Plot {
    /// The picture.
    ///
    /// # Errors
    ///
    /// Fails if there is no point above 0.
    pub fn svg(&self) -> Result<String, PlotError> {
        let mut text = String::new();
        // Errors of drawing borrow from the drawing; as text they do not.
        let area = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
        self.draw(&area).map_err(|error| PlotError(format!("cannot draw `{}`: {error}", self.title)))?;
        drop(area);
        Ok(text)
    }

    fn points(line: &Line) -> impl Iterator<Item = (f64, f64)> + Clone + '_ {
        let is_drawable = |value: f64| value.is_finite() && value > 0.0;
        line.points.iter().copied().filter(move |(x, y)| is_drawable(*x) && is_drawable(*y))
    }

    fn draw(&self, area: &DrawingArea<SVGBackend<'_>, Shift>) -> Result<(), String> {
        let wide = |values: &mut dyn Iterator<Item = f64>| {
            let (least, most) =
                values.fold((f64::MAX, f64::MIN), |(least, most), x| (least.min(x), most.max(x)));
            // A single value needs room around it too.
            (least <= most).then_some(least / 1.5..most * 1.5)
        };
        let all = || self.lines.iter().flat_map(Plot::points);
        let (Some(xs), Some(ys)) = (wide(&mut all().map(|at| at.0)), wide(&mut all().map(|at| at.1))) else {
            return Err("it has no points".to_owned());
        };
        let told = |error: &dyn fmt::Display| error.to_string();
        area.fill(&WHITE).map_err(|error| told(&error))?;
        let mut chart = ChartBuilder::on(area)
            .caption(&self.title, ("sans-serif", 16))
            .margin(14)
            .x_label_area_size(44)
            .y_label_area_size(76)
            .build_cartesian_2d(xs.log_scale(), ys.log_scale())
            .map_err(|error| told(&error))?;
        chart
            .configure_mesh()
            .x_desc(&self.x)
            .y_desc(&self.y)
            .x_label_formatter(&|x| short(*x))
            .y_label_formatter(&|y| short(*y))
            .light_line_style(RGBColor(0xee, 0xee, 0xee))
            .draw()
            .map_err(|error| told(&error))?;
        for (number, line) in self.lines.iter().enumerate() {
            let colour = COLOURS[number % COLOURS.len()];
            let series = LineSeries::new(Plot::points(line), colour.stroke_width(2));
            let drawn = chart.draw_series(series).map_err(|error| told(&error))?;
            if self.lines.len() > 1 {
                let legend = move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2));
                drawn.label(&line.name).legend(legend);
            }
            let dots = Plot::points(line).map(|point| Circle::new(point, 4, colour.filled()));
            chart.draw_series(dots).map_err(|error| told(&error))?;
        }
        if self.lines.len() > 1 {
            chart
                .configure_series_labels()
                .background_style(WHITE)
                .border_style(RGBColor(0xcc, 0xcc, 0xcc))
                .draw()
                .map_err(|error| told(&error))?;
        }
        area.present().map_err(|error| told(&error))
    }
}

/// `1500` as `1.5k`.
fn short(value: f64) -> String {
    let (value, unit) = match value {
        _ if value >= 1e6 => (value / 1e6, "M"),
        _ if value >= 1e3 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let digits = if value < 0.1 { 1000.0 } else { 10.0 };
    let rounded = (value * digits).round() / digits;
    format!("{rounded}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(lines: &[(&str, &[(f64, f64)])]) -> Plot {
        let line = |(name, points): &(&str, &[(f64, f64)])| Line {
            name: (*name).to_owned(),
            points: points.to_vec(),
        };
        Plot {
            title: "cost".to_owned(),
            x: "queries".to_owned(),
            y: "ns".to_owned(),
            lines: lines.iter().map(line).collect(),
        }
    }

    #[test]
    fn a_curve_is_a_picture_with_its_words() {
        let text = plot(&[("ours", &[(1.0, 400.0), (1e6, 700.0)])]).svg().unwrap();
        assert!(text.starts_with("<svg") && text.contains("cost") && text.contains("queries"), "{text}");
        assert_eq!(text.matches("<circle").count(), 2);
        assert!(!text.contains("ours"), "one line needs no name");
    }

    #[test]
    fn several_lines_are_named() {
        let text = plot(&[("ours", &[(1.0, 4.0)]), ("theirs", &[(1.0, 9.0), (2.0, 0.0)])]).svg().unwrap();
        assert!(text.contains("ours") && text.contains("theirs"), "{text}");
        assert_eq!(text.matches("<circle").count(), 2, "0 is on no logarithmic axis");
    }

    #[test]
    fn one_point_is_a_curve_too_and_none_is_not() {
        assert!(plot(&[("a", &[(1.0, 1.0)])]).svg().is_ok());
        assert!(plot(&[("a", &[])]).svg().unwrap_err().to_string().contains("no points"));
        assert_eq!([short(1.0), short(1500.0), short(2e6), short(0.012)], ["1", "1.5k", "2M", "0.012"]);
    }
}
