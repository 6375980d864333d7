//! Writes the metrics in Prometheus's text format, version 0.0.4.

use std::fmt::{self, Write};

use crate::metrics::{Family, Kind, Number, Sample, bounds_seconds};

/// The media type of what [`text`] gives.
pub(crate) const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The page.
pub(crate) fn text(families: &[Family]) -> String {
    let mut out = String::with_capacity(16 << 10);
    write(families, &mut out).expect("memory takes every text");
    out
}

fn write(families: &[Family], out: &mut String) -> fmt::Result {
    for family in families.iter().filter(|family| !family.samples.is_empty()) {
        let kind = match family.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        writeln!(out, "# HELP {} {}\n# TYPE {} {kind}", family.name, family.help, family.name)?;
        for sample in &family.samples {
            write_sample(family.name, sample, out)?;
        }
    }
    Ok(())
}

fn write_sample(name: &str, sample: &Sample, out: &mut String) -> fmt::Result {
    let labels = &sample.labels;
    match &sample.number {
        Number::Whole(number) => write_line(name, "", labels, None, number, out),
        Number::Real(number) => write_line(name, "", labels, None, number, out),
        Number::Seconds { counts, sum } => {
            let mut total = 0;
            for (count, bound) in counts.iter().zip(bounds_seconds()) {
                total += count;
                write_line(name, "_bucket", labels, Some(&bound.to_string()), &total, out)?;
            }
            total = counts.iter().sum();
            write_line(name, "_bucket", labels, Some("+Inf"), &total, out)?;
            write_line(name, "_sum", labels, None, sum, out)?;
            write_line(name, "_count", labels, None, &total, out)
        }
    }
}

fn write_line(
    name: &str,
    suffix: &str,
    labels: &[(&'static str, String)],
    bound: Option<&str>,
    number: &dyn fmt::Display,
    out: &mut String,
) -> fmt::Result {
    write!(out, "{name}{suffix}")?;
    let all =
        labels.iter().map(|(label, value)| (*label, value.as_str())).chain(bound.map(|bound| ("le", bound)));
    let mut open = '{';
    for (label, value) in all {
        write!(out, "{open}{label}=\"")?;
        for c in value.chars() {
            match c {
                '\\' => out.push_str("\\\\"),
                '"' => out.push_str("\\\""),
                '\n' => out.push_str("\\n"),
                c => out.push(c),
            }
        }
        out.push('"');
        open = ',';
    }
    if open == ',' {
        out.push('}');
    }
    writeln!(out, " {number}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_with_their_labels() {
        let mut counts = [0; 17];
        (counts[0], counts[15], counts[16]) = (1, 2, 3);
        let sample = |labels, number| Sample { labels, number };
        let families = [
            Family {
                name: "events_total",
                help: "Events.",
                kind: Kind::Counter,
                samples: vec![sample(
                    vec![("a", "x\"\\\n".to_owned()), ("b", "y".to_owned())],
                    Number::Whole(7),
                )],
            },
            Family {
                name: "wait_seconds",
                help: "Wait.",
                kind: Kind::Histogram,
                samples: vec![sample(vec![], Number::Seconds { counts, sum: 1.5 })],
            },
            Family { name: "none", help: "None.", kind: Kind::Gauge, samples: vec![] },
        ];
        let text = text(&families);
        assert!(text.starts_with("# HELP events_total Events.\n# TYPE events_total counter\n"));
        assert!(text.contains("events_total{a=\"x\\\"\\\\\\n\",b=\"y\"} 7\n"), "{text}");
        assert!(text.contains("wait_seconds_bucket{le=\"0.00005\"} 1\n"), "{text}");
        assert!(text.contains("wait_seconds_bucket{le=\"5\"} 3\n"), "{text}");
        let end = "wait_seconds_bucket{le=\"+Inf\"} 6\nwait_seconds_sum 1.5\nwait_seconds_count 6\n";
        assert!(text.ends_with(end), "{text}");
    }
}
