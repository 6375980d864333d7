//! Counts and sums of whole numbers, with all cells of a group side by side.
//!
//! The many sums of an event then cost one pass over adjacent words, without a check of each value's kind.
//!
//! A word is a sum of 64 bits, and cannot overflow: each lane has a bound on the distance of its words from 0. Before the
//! bound would exceed 63 bits, the lane is flushed into the wide cells of its aggregate ([`SumCell`]), which exist from
//! then on. The values of a batch in which some are not whole go there too. The value of a group is its word plus its
//! wide cell.
//!
//! ```text
//! group := rows, a word for each lane          rows without a value for a lane are counted separately, in `misses`
//! ```

use swiftwater_event::Value;
use swiftwater_lang::{Dialect, plan::AggregateFunction};

use super::{
    cells::{Cells, SumCell},
    group_input::{InputForm, InputValues, PASSED_OVER, SelectedRows},
};
use crate::matching::prefetch;

/// Rows ahead whose cells are asked for: about as many as can be underway at once.
const AHEAD: usize = 8;

/// The place of an aggregate's cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lane {
    /// The cells are in the aggregate's [`Cells`].
    None,
    /// The rows themselves: COUNT(*).
    Rows,
    /// This word: COUNT(x).
    Count(usize),
    /// This word, and its [`Cells`] once there are any: SUM, AVG.
    Sum(usize),
}

/// The counts and sums of all groups.
#[derive(Debug, Clone, Default)]
pub(crate) struct PackedCounters {
    /// The lanes by aggregate.
    of: Vec<Lane>,
    /// Words of a group; 0: there are no lanes.
    width: usize,
    words: Vec<i64>,
    /// The missed counts, in the layout of `words`; empty if nothing was missed yet.
    misses: Vec<i64>,
    /// The bound of each word's absolute values.
    bounds: Vec<u64>,
}

/// The input of a batch for lanes.
#[derive(Debug, Default)]
pub(crate) struct CounterInput {
    width: usize,
    /// The words by row: 1, and the values.
    words: Vec<i64>,
    /// The bound of each word's absolute values.
    greatest: Vec<u64>,
    /// Rows, ascending, each with a word of which it has no value, and whether it has one that cannot be used.
    misses: Vec<(u32, u32, bool)>,
    /// The start of each row's misses among them; empty if there are none.
    miss_starts: Vec<u32>,
    /// Words of which no row has a value here.
    missed: Vec<usize>,
}

impl PackedCounters {
    /// The counters of aggregates, each a function with a flag for its argument.
    pub(crate) fn new(
        aggregates: impl Iterator<Item = (AggregateFunction, bool)>,
        dialect: Dialect,
    ) -> PackedCounters {
        let mut width = 1;
        let mut lane = |(function, has_argument)| {
            let lane = match (InputForm::of(function, dialect), has_argument) {
                (InputForm::Ones, false) => return Lane::Rows,
                (InputForm::Ones, true) => Lane::Count(width),
                (InputForm::Wholes, true) => Lane::Sum(width),
                _ => return Lane::None,
            };
            width += 1;
            lane
        };
        let of: Vec<Lane> = aggregates.map(&mut lane).collect();
        PackedCounters::of(of, width)
    }

    fn of(of: Vec<Lane>, width: usize) -> PackedCounters {
        let width = if of.iter().all(|lane| *lane == Lane::None) { 0 } else { width };
        PackedCounters { of, width, bounds: vec![0; width], ..PackedCounters::default() }
    }

    /// The same without groups.
    pub(crate) fn emptied(&self) -> PackedCounters {
        PackedCounters::of(self.of.clone(), self.width.max(1))
    }

    /// True if an aggregate has no cells of its own.
    pub(crate) fn has(&self, aggregate: usize) -> bool {
        self.of.get(aggregate).is_some_and(|lane| *lane != Lane::None)
    }

    /// Adds words for all groups below `groups`.
    pub(crate) fn resize(&mut self, groups: usize) {
        self.words.resize(groups * self.width, 0);
        if !self.misses.is_empty() {
            self.misses.resize(groups * self.width, 0);
        }
    }

    /// Bytes of a group.
    pub(crate) fn group_bytes(&self) -> usize {
        let kinds = if self.misses.is_empty() { 1 } else { 2 };
        self.width * size_of::<i64>() * kinds
    }

    /// Takes in rows; all their groups have words. Returns the number of values that could not be used for their type.
    pub(crate) fn update(
        &mut self,
        rows: SelectedRows<'_>,
        input: &CounterInput,
        cells: &mut [Cells],
    ) -> u64 {
        if self.width == 0 {
            return 0;
        }
        if self.width == 1 || input.words.is_empty() {
            // Only rows are counted.
            rows.iter().for_each(|(group, _)| self.words[group * self.width] += 1);
            return 0;
        }
        let width = self.width;
        self.widen_for(&input.greatest, rows.len() as u64, cells);
        // A few groups are all in the cache already.
        let is_far = self.words.len() > 1 << 15;
        for (at, (group, row)) in rows.iter().enumerate() {
            if is_far && let Some(ahead) = rows.group_at(at + AHEAD) {
                let start = ahead as usize * width;
                (0..width).step_by(8).for_each(|word| prefetch(&self.words, start + word));
            }
            let ours = &mut self.words[group * width..][..width];
            let theirs = &input.words[row * width..][..width];
            // The bounds say that nothing overflows.
            ours.iter_mut().zip(theirs).for_each(|(word, more)| *word = word.wrapping_add(*more));
        }
        self.miss(rows, input)
    }

    fn miss(&mut self, rows: SelectedRows<'_>, input: &CounterInput) -> u64 {
        let mut mistyped = 0;
        if input.misses.is_empty() && input.missed.is_empty() {
            return 0;
        }
        if self.misses.is_empty() {
            self.misses = vec![0; self.words.len()];
        }
        for (group, row) in rows.iter() {
            let ours = &mut self.misses[group * self.width..][..self.width];
            input.missed.iter().for_each(|&word| ours[word] += 1);
            for &(_, word, is_mistyped) in input.misses_of(row) {
                ours[word as usize] += 1;
                mistyped += u64::from(is_mistyped);
            }
        }
        mistyped
    }

    /// Takes in the words of another partial: its group `g` is our group `group_of[g]`, where it is not passed over.
    pub(crate) fn merge(&mut self, other: &PackedCounters, group_of: &[u32], cells: &mut [Cells]) {
        if self.width == 0 {
            return;
        }
        self.widen_for(&other.bounds, 1, cells);
        let width = self.width;
        if !other.misses.is_empty() && self.misses.is_empty() {
            self.misses = vec![0; self.words.len()];
        }
        for (ours, theirs) in [(&mut self.words, &other.words), (&mut self.misses, &other.misses)] {
            let pairs = group_of.iter().zip(theirs.chunks_exact(width));
            for (&group, theirs) in pairs.filter(|(group, _)| **group != PASSED_OVER) {
                let ours = &mut ours[group as usize * width..][..width];
                ours.iter_mut().zip(theirs).for_each(|(word, more)| *word = word.wrapping_add(*more));
            }
        }
    }

    /// Retracts the words of another partial: the inverse of [`PackedCounters::merge`]. Counts that are in wide cells here
    /// leave negative words, for which the cells make up.
    pub(crate) fn retract(&mut self, other: &PackedCounters, group_of: &[u32], cells: &mut [Cells]) {
        if self.width == 0 {
            return;
        }
        self.widen_for(&other.bounds, 1, cells);
        let width = self.width;
        if !other.misses.is_empty() && self.misses.is_empty() {
            self.misses = vec![0; self.words.len()];
        }
        for (ours, theirs) in [(&mut self.words, &other.words), (&mut self.misses, &other.misses)] {
            let pairs = group_of.iter().zip(theirs.chunks_exact(width));
            for (&group, theirs) in pairs.filter(|(group, _)| **group != PASSED_OVER) {
                let ours = &mut ours[group as usize * width..][..width];
                ours.iter_mut().zip(theirs).for_each(|(word, less)| *word = word.wrapping_sub(*less));
            }
        }
    }

    /// Makes room so that values up to these can be added so often.
    fn widen_for(&mut self, greatest: &[u64], times: u64, cells: &mut [Cells]) {
        for (word, greatest) in greatest.iter().enumerate().skip(1) {
            let more = greatest.saturating_mul(times);
            let fits = |bound: u64| bound.checked_add(more).filter(|bound| *bound <= i64::MAX as u64);
            self.bounds[word] = match fits(self.bounds[word]) {
                Some(bound) => bound,
                // It is a bound for the sum of all groups: what the greatest is, is far less.
                None => fits(self.greatest(word)).unwrap_or_else(|| {
                    self.pour(word, cells);
                    more
                }),
            };
        }
    }

    /// The largest absolute value of a lane's words.
    fn greatest(&self, word: usize) -> u64 {
        let words = self.words.iter().skip(word).step_by(self.width);
        words.map(|word| word.unsigned_abs()).max().unwrap_or(0)
    }

    /// Moves a lane's sums into the wide cells.
    fn pour(&mut self, word: usize, cells: &mut [Cells]) {
        let Some(aggregate) = self.of.iter().position(|lane| *lane == Lane::Sum(word)) else { return };
        let groups = self.words.len() / self.width;
        cells[aggregate].resize(groups);
        let (Cells::Sum(wide) | Cells::Average(wide)) = &mut cells[aggregate] else { return };
        for (cell, words) in wide.iter_mut().zip(self.words.chunks_exact_mut(self.width)) {
            cell.add_whole(i128::from(std::mem::take(&mut words[word])));
        }
    }

    /// Retains the lanes of these aggregates, in this order, as they are without the others.
    pub(crate) fn pick(&mut self, places: &[usize]) {
        let mut from = vec![0];
        let of: Vec<Lane> = places
            .iter()
            .map(|&place| {
                let lane = self.of[place];
                let to = from.len();
                match lane {
                    Lane::Count(word) | Lane::Sum(word) => from.push(word),
                    Lane::None | Lane::Rows => {}
                }
                match lane {
                    Lane::Count(_) => Lane::Count(to),
                    Lane::Sum(_) => Lane::Sum(to),
                    other => other,
                }
            })
            .collect();
        let mut picked = PackedCounters::of(of, from.len());
        if picked.width > 0 {
            let pick = |words: &[i64]| -> Vec<i64> {
                words
                    .chunks_exact(self.width)
                    .flat_map(|group| from.iter().map(|&word| group[word]))
                    .collect()
            };
            picked.words = pick(&self.words);
            picked.misses = pick(&self.misses);
            picked.bounds = from.iter().map(|&word| self.bounds[word]).collect();
        }
        *self = picked;
    }

    /// The count of a group.
    pub(crate) fn count(&self, aggregate: usize, group: usize) -> u64 {
        match self.of[aggregate] {
            Lane::Rows => self.words[group * self.width] as u64,
            Lane::Count(word) => self.words[group * self.width + word] as u64,
            Lane::Sum(word) => {
                let misses = self.misses.get(group * self.width + word).copied().unwrap_or(0);
                (self.words[group * self.width] - misses) as u64
            }
            Lane::None => 0,
        }
    }

    /// A group's sum, with what its wide cell has.
    pub(crate) fn sum(&self, aggregate: usize, group: usize, wide: &[SumCell]) -> SumCell {
        let mut cell = wide.get(group).cloned().unwrap_or_default();
        if let Lane::Sum(word) = self.of[aggregate] {
            cell.add_wholes(self.words[group * self.width + word], self.count(aggregate, group));
        }
        cell
    }

    /// Appends a group: the count of each aggregate, and its sum if it fits a word; returns true if it does. Sums that do not
    /// fit count as missed here.
    pub(crate) fn push(&mut self, values: &[Option<(u64, i64)>]) {
        if self.width == 0 {
            return;
        }
        let start = self.words.len();
        self.words.resize(start + self.width, 0);
        let rows = values.iter().flatten().map(|(count, _)| *count).max().unwrap_or(0);
        self.words[start] = rows as i64;
        let mut misses = vec![0; self.width];
        for (lane, value) in self.of.iter().zip(values) {
            let (count, sum) = value.unwrap_or_default();
            match *lane {
                Lane::Count(word) => self.words[start + word] = count as i64,
                Lane::Sum(word) => {
                    self.words[start + word] = sum;
                    self.bounds[word] = self.bounds[word].max(sum.unsigned_abs());
                    misses[word] = (rows - count) as i64;
                }
                Lane::None | Lane::Rows => {}
            }
        }
        if self.misses.is_empty() && misses.iter().any(|misses| *misses != 0) {
            self.misses = vec![0; start];
        }
        if !self.misses.is_empty() || start == 0 && misses.iter().any(|misses| *misses != 0) {
            self.misses.extend(misses);
        }
    }

    /// Makes a group one that nothing came to.
    pub(crate) fn reset(&mut self, group: usize) {
        let words = group * self.width..(group + 1) * self.width;
        self.words[words.clone()].fill(0);
        if let Some(misses) = self.misses.get_mut(words) {
            misses.fill(0);
        }
    }

    /// Forgets the groups from this one on.
    pub(crate) fn truncate(&mut self, groups: usize) {
        self.words.truncate(groups * self.width);
        self.misses.truncate(groups * self.width);
    }
}

impl CounterInput {
    /// The input of so many rows, from the input of each aggregate. Values that become words are removed from `taken`; they
    /// stay if they are not all whole, or too great to be added up.
    pub(crate) fn of(rows: usize, aggregates: &mut [(InputForm, InputValues<'_>)]) -> CounterInput {
        let is_laned = |taken: &(InputForm, InputValues<'_>)| {
            matches!(taken, (InputForm::Ones | InputForm::Wholes, InputValues::Values(_)))
        };
        let width = 1 + aggregates.iter().filter(|taken| is_laned(taken)).count();
        let mut input = CounterInput { width, greatest: vec![0; width], ..CounterInput::default() };
        input.greatest[0] = 1;
        if width == 1 {
            return input;
        }
        input.words = vec![0; rows * width];
        input.words.iter_mut().step_by(width).for_each(|word| *word = 1);
        let mut word = 0;
        for (form, taken) in aggregates.iter_mut().filter(|taken| is_laned(taken)) {
            word += 1;
            let InputValues::Values(values) = taken else { continue };
            if *form == InputForm::Ones {
                input.count(word, values);
            } else if !input.add(word, values) {
                // The wide cells take them in.
                input.missed.push(word);
                continue;
            }
            *taken = InputValues::Words;
        }
        if !input.misses.is_empty() {
            input.misses.sort_unstable_by_key(|(row, ..)| *row);
            input.miss_starts = vec![0; rows + 1];
            input.misses.iter().for_each(|(row, ..)| input.miss_starts[*row as usize + 1] += 1);
            (0..rows).for_each(|row| input.miss_starts[row + 1] += input.miss_starts[row]);
        }
        input
    }

    fn count(&mut self, word: usize, values: &[Value<'_>]) {
        self.greatest[word] = 1;
        let words = self.words[word..].iter_mut().step_by(self.width);
        for (into, value) in words.zip(values) {
            *into = i64::from(!matches!(value, Value::Null | Value::Error));
        }
    }

    /// False, and nothing is taken: some are not whole, or too great.
    fn add(&mut self, word: usize, values: &[Value<'_>]) -> bool {
        let (mut greatest, misses) = (0, self.misses.len());
        let words = self.words[word..].iter_mut().step_by(self.width);
        for (row, (into, value)) in words.zip(values).enumerate() {
            let whole = match *value {
                Value::Integer(whole) => i64::from(whole),
                Value::Long(whole) => whole,
                Value::Float(_) | Value::Double(_) => {
                    greatest = u64::MAX;
                    break;
                }
                ref other => {
                    let is_mistyped = !matches!(other, Value::Null | Value::Error);
                    self.misses.push((row as u32, word as u32, is_mistyped));
                    continue;
                }
            };
            greatest = greatest.max(whole.unsigned_abs());
            *into = whole;
        }
        if greatest.checked_mul(values.len() as u64).is_none_or(|sum| sum > i64::MAX as u64 / 2) {
            self.misses.truncate(misses);
            self.words[word..].iter_mut().step_by(self.width).for_each(|word| *word = 0);
            return false;
        }
        self.greatest[word] = greatest;
        true
    }

    fn misses_of(&self, row: usize) -> &[(u32, u32, bool)] {
        match self.miss_starts.get(row..row + 2) {
            Some(&[from, to]) => &self.misses[from as usize..to as usize],
            _ => &[],
        }
    }
}
