//! Writes the counts of a search and the explanation of its answer: as aligned lines with bars on a terminal, else as JSON,
//! one object a line.

use std::io::{self, Write};

use serde_json::{Value, json};
use unicode_width::UnicodeWidthStr;

use crate::output::cut;

/// Columns of the longest bar.
const BAR_COLUMNS: u64 = 40;
/// Columns of a value; a longer one is cut off.
const VALUE_COLUMNS: usize = 40;

/// Writes facets and histogram.
pub(super) fn write_counts(answer: &Value, bars: bool, out: &mut impl Write) -> io::Result<()> {
    for (column, facet) in answer["facets"].as_object().into_iter().flatten() {
        let values = list(&facet["values"]);
        if bars {
            let (distinct, missing) = (&facet["distinct"], &facet["missing"]);
            writeln!(out, "{column}: {distinct} values, {missing} events without")?;
            let named = values.iter().map(|value| (text(&value["value"]), count(value)));
            write_bars(&named.collect::<Vec<_>>(), out)?;
            continue;
        }
        for value in values {
            let line = json!({"facet": column, "value": value["value"], "count": value["count"]});
            writeln!(out, "{line}")?;
        }
    }
    let buckets = list(&answer["histogram"]);
    if !bars {
        for bucket in buckets {
            writeln!(out, "{bucket}")?;
        }
        return Ok(());
    }
    let named = buckets.iter().map(|bucket| {
        let by =
            list(&bucket["by"]).iter().map(|value| format!(" {} {}", text(&value["value"]), count(value)));
        (text(&bucket["time"]) + &by.collect::<String>(), count(bucket))
    });
    write_bars(&named.collect::<Vec<_>>(), out)
}

/// Writes how a search was answered.
pub(super) fn write_explanation(answer: &Value, aligned: bool, out: &mut impl Write) -> io::Result<()> {
    let (explain, meta) = (&answer["explain"], &answer["meta"]);
    if !aligned {
        return writeln!(
            out,
            "{}",
            json!({"explain": explain, "meta": meta, "complete": answer["complete"]})
        );
    }
    for (name, stream) in explain["streams"].as_object().into_iter().flatten() {
        let (files, searched) = (&stream["files"], &stream["searched"]);
        writeln!(out, "{name}: {}", text(&stream["condition"]))?;
        writeln!(out, "  offsets {} to {}", searched["from"], searched["to"])?;
        writeln!(
            out,
            "  files: {} scanned, {} indexed, {} left out; {} rows in memory",
            files["scanned"], files["indexed"], files["left_out"], stream["tail_rows"]
        )?;
    }
    writeln!(out, "{:<10} {:>10} {:>14} {:>14} {:>10}", "STAGE", "STATEMENTS", "ROWS", "BYTES", "MS")?;
    for stage in list(&explain["stages"]) {
        writeln!(
            out,
            "{:<10} {:>10} {:>14} {:>14} {:>10.1}",
            text(&stage["stage"]),
            count_of(&stage["statements"]),
            count_of(&stage["rows_scanned"]),
            count_of(&stage["bytes_read"]),
            stage["took_ms"].as_f64().unwrap_or(0.0)
        )?;
    }
    writeln!(
        out,
        "{:<10} {:>10} {:>14} {:>14} {:>10}",
        "all", "", meta["rows_scanned"], meta["bytes_read"], meta["took_ms"]
    )
}

/// Each name with its count and a bar, whose length is that count's share of the largest.
fn write_bars(counts: &[(String, u64)], out: &mut impl Write) -> io::Result<()> {
    let most = counts.iter().map(|(_, count)| *count).max().unwrap_or(0).max(1);
    let shown = |name: &str| match name.width() > VALUE_COLUMNS {
        true => cut(name, VALUE_COLUMNS).0,
        false => name.to_owned(),
    };
    let names: Vec<String> = counts.iter().map(|(name, _)| shown(name)).collect();
    let width = names.iter().map(|name| name.width()).max().unwrap_or(0);
    let digits = most.to_string().len();
    for (name, (_, count)) in names.iter().zip(counts) {
        let bar = "█".repeat((count * BAR_COLUMNS).div_ceil(most) as usize);
        let space = " ".repeat(width - name.width());
        writeln!(out, "  {name}{space} {count:>digits$} {bar}")?;
    }
    Ok(())
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn count(value: &Value) -> u64 {
    count_of(&value["count"])
}

fn count_of(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

/// A text as it is, and any other value as JSON.
fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_have_lengths_by_count_and_names_are_aligned() {
        let mut out = Vec::new();
        let answer = json!({"facets": {"level": {"values": [
            {"value": "error", "count": 80}, {"value": 7, "count": 1},
        ], "distinct": 2, "missing": 3}}, "histogram": [{"time": "12:00", "count": 2}]});
        write_counts(&answer, true, &mut out).unwrap();
        let expected = format!(
            "level: 2 values, 3 events without\n  error 80 {}\n  7      1 █\n  12:00 2 {}\n",
            "█".repeat(40),
            "█".repeat(40)
        );
        assert_eq!(String::from_utf8(out).unwrap(), expected);
        let mut out = Vec::new();
        write_counts(&answer, false, &mut out).unwrap();
        let lines = String::from_utf8(out).unwrap();
        let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines[1], json!({"facet": "level", "value": 7, "count": 1}));
        assert_eq!(lines[2], json!({"time": "12:00", "count": 2}));
    }
}
