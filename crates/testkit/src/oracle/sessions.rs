//! Session windows: the rows of a group that are less than a gap apart.

use std::collections::BTreeMap;

use swiftwater_lang::plan::{Body, Query};

use super::{
    Key, Unsupported,
    result::{Part, key_of, result},
    rows::FilteredRow,
    windows::{Emitted, TimedRow, WatermarkedRows},
};

/// Rows without a gap between them, each with its place among all.
struct Run<'a> {
    first: i64,
    last: i64,
    rows: Vec<(usize, FilteredRow<'a>)>,
}

impl<'a> WatermarkedRows<'a> {
    /// Each group's rows in runs without a gap; those that end at one instant are one emit. Those that would end after
    /// `cut` are one emit too, cut off there.
    pub(super) fn sessions(
        &mut self,
        query: &Query,
        gap: i64,
        cut: Option<i64>,
    ) -> Result<Vec<Emitted>, Unsupported> {
        let mut groups: BTreeMap<Key, Vec<(usize, TimedRow<'a>)>> = BTreeMap::new();
        for (place, seen) in std::mem::take(&mut self.rows).into_iter().enumerate() {
            let key = match &query.body {
                Body::Group(group) => key_of(group, &seen.kept),
                Body::Raw(_) => Key(Vec::new()),
            };
            groups.entry(key).or_default().push((place, seen));
        }
        let mut by_end: BTreeMap<i64, Vec<Part<'a>>> = BTreeMap::new();
        let mut open = Vec::new();
        for rows in groups.into_values() {
            for mut run in self.runs(rows, gap) {
                run.rows.sort_by_key(|(place, _)| *place);
                let end = run.last + gap;
                let cut = cut.filter(|cut| end > *cut);
                let end = cut.map_or(end, |cut| cut.max(run.last));
                let rows = run.rows.into_iter().map(|(_, kept)| kept).collect();
                let part = Part { rows, window: Some((run.first, end)) };
                if cut.is_some() { open.push(part) } else { by_end.entry(end).or_default().push(part) }
            }
        }
        let mut emits: Vec<Vec<Part<'a>>> = by_end.into_values().collect();
        emits.extend(Some(open).filter(|open| !open.is_empty()));
        emits
            .into_iter()
            .map(|parts| {
                let bounds = parts.iter().filter_map(|part| part.window);
                let window = bounds.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
                Ok(Emitted { window, answer: result(query, &parts)? })
            })
            .collect()
    }

    /// The runs of one group. A row joins those that it meets. It is late if one of them is closed when it comes, if it
    /// meets none and would end where all is closed already, or if all is closed from two gaps behind it on.
    fn runs(&mut self, rows: Vec<(usize, TimedRow<'a>)>, gap: i64) -> Vec<Run<'a>> {
        let mut runs: Vec<Run<'a>> = Vec::new();
        for (place, seen) in rows {
            let meets = |run: &Run<'a>| run.first < seen.time + gap && seen.time < run.last + gap;
            let (met, apart): (Vec<_>, Vec<_>) = runs.into_iter().partition(meets);
            runs = apart;
            let meets_closed = met.iter().any(|run| !seen.is_before(run.last + gap));
            let is_far_behind = !seen.is_before(seen.time + 2 * gap);
            if meets_closed || is_far_behind || (met.is_empty() && !seen.is_before(seen.time + gap)) {
                self.late += 1;
                runs.extend(met);
                continue;
            }
            let mut run = Run { first: seen.time, last: seen.time, rows: vec![(place, seen.kept)] };
            for other in met {
                run.first = run.first.min(other.first);
                run.last = run.last.max(other.last);
                run.rows.extend(other.rows);
            }
            runs.push(run);
        }
        runs
    }
}
