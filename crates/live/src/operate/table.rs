//! The state of an aggregate that returns rows, for many groups: distributions and TOP. Update, merge, evaluate.

use bumpalo::Bump;
use swiftwater_event::Value;
use swiftwater_lang::{Dialect, plan::TableFunction};
use swiftwater_sketch::{Frequent, Quantiles, SketchSizes};

use super::{
    cells::image::{InvalidState, push_bytes, read_bytes},
    group_input::{InputValues, SelectedRows},
    points::{distribution_rows, wrong_points},
    sketch_cells::{SEPARATOR, merge_sketches, update_frequent, update_quantiles},
    sketch_meta::{SketchMeta, frequent_meta, quantiles_meta},
};
use crate::{expr::decode_group_value, standing::CompiledTable};

/// Rows of TOP where it states none.
const TOP_ROWS_DEFAULT: u64 = 500;

/// One sketch per group.
#[derive(Debug, Clone)]
pub(crate) enum TableCells {
    Distribution { cells: Vec<Quantiles>, k: u16 },
    Top { cells: Vec<Frequent>, entries: u32 },
}

impl TableCells {
    pub(crate) fn new(function: &TableFunction, sizes: &SketchSizes) -> TableCells {
        match function {
            TableFunction::Top { .. } => TableCells::Top { cells: Vec::new(), entries: sizes.top_entries },
            _ => TableCells::Distribution { cells: Vec::new(), k: sizes.quantile_k },
        }
    }

    /// The same without groups.
    pub(crate) fn emptied(&self) -> TableCells {
        match *self {
            TableCells::Distribution { k, .. } => TableCells::Distribution { cells: Vec::new(), k },
            TableCells::Top { entries, .. } => TableCells::Top { cells: Vec::new(), entries },
        }
    }

    /// Adds cells for all groups below `groups`.
    pub(crate) fn resize(&mut self, groups: usize) {
        match self {
            TableCells::Distribution { cells, k } => cells.resize_with(groups, || Quantiles::new(*k)),
            TableCells::Top { cells, entries } => cells.resize_with(groups, || Frequent::new(*entries)),
        }
    }

    /// Bytes of one cell, without what it keeps on the heap.
    pub(crate) fn cell_bytes(&self) -> usize {
        match self {
            TableCells::Distribution { .. } => size_of::<Quantiles>(),
            TableCells::Top { .. } => size_of::<Frequent>(),
        }
    }

    /// Takes in rows; returns the number of values that could not be used for their type, and the new bytes on the
    /// heap.
    pub(crate) fn update(&mut self, rows: SelectedRows<'_>, taken: &InputValues<'_>) -> (u64, isize) {
        match (self, taken) {
            (TableCells::Distribution { cells, .. }, InputValues::Numbers(numbers)) => {
                update_quantiles(cells, rows, numbers)
            }
            (TableCells::Top { cells, .. }, InputValues::Combinations(combinations)) => {
                (0, update_frequent(cells, rows, combinations))
            }
            // Without arguments there is nothing to take in; other forms are those of other aggregates.
            _ => (0, 0),
        }
    }

    /// Takes in the cells of another partial: its group `g` is our group `group_of[g]`.
    pub(crate) fn merge(&mut self, other: &TableCells, group_of: &[u32]) -> isize {
        match (self, other) {
            (
                TableCells::Distribution { cells: ours, .. },
                TableCells::Distribution { cells: theirs, .. },
            ) => merge_sketches(ours, theirs, group_of, Quantiles::merge, Quantiles::bytes),
            (TableCells::Top { cells: ours, .. }, TableCells::Top { cells: theirs, .. }) => {
                merge_sketches(ours, theirs, group_of, Frequent::merge, Frequent::bytes)
            }
            _ => unreachable!("partials of one query have the same aggregates"),
        }
    }

    /// Makes a group's cell a new one. Returns the change of bytes on the heap.
    pub(crate) fn reset(&mut self, group: usize) -> isize {
        let before = self.heap_bytes(group) as isize;
        match self {
            TableCells::Distribution { cells, k } => cells[group] = Quantiles::new(*k),
            TableCells::Top { cells, entries } => cells[group] = Frequent::new(*entries),
        }
        self.heap_bytes(group) as isize - before
    }

    /// Bytes of a group's cell on the heap.
    pub(crate) fn heap_bytes(&self, group: usize) -> usize {
        match self {
            TableCells::Distribution { cells, .. } => cells[group].bytes(),
            TableCells::Top { cells, .. } => cells[group].bytes(),
        }
    }

    /// Appends a group's state, as those of other sketches are kept.
    pub(crate) fn encode(&self, group: usize, out: &mut Vec<u8>) {
        match self {
            TableCells::Distribution { cells, .. } => push_bytes(&cells[group].serialize(), out),
            TableCells::Top { cells, .. } => push_bytes(&cells[group].serialize(), out),
        }
    }

    /// Appends a cell with the state that `bytes` begin with.
    pub(crate) fn decode(&mut self, bytes: &mut &[u8]) -> Result<(), InvalidState> {
        let sketch = read_bytes(bytes)?;
        match self {
            TableCells::Distribution { cells, .. } => {
                cells.push(Quantiles::deserialize(sketch).map_err(|_| InvalidState)?);
            }
            TableCells::Top { cells, .. } => {
                cells.push(Frequent::deserialize(sketch).map_err(|_| InvalidState)?)
            }
        }
        Ok(())
    }

    /// The reason why Bullet cannot evaluate a distribution at its points.
    pub(crate) fn failure(&self, table: &CompiledTable, groups: &[u32]) -> Option<&'static str> {
        let TableCells::Distribution { cells, .. } = self else { return None };
        let mut sketches = groups.iter().filter_map(|&group| cells.get(group as usize));
        sketches.find_map(|sketch| wrong_points(&table.function, sketch, table.points_max))
    }

    /// The rows of a group as one value: a list of maps. Native only.
    pub(crate) fn list<'a>(&self, table: &CompiledTable, group: u32, arena: &'a Bump) -> Value<'a> {
        let (columns, place_of_row) = self.evaluate(table, &[group], Dialect::Native, arena);
        let names: Vec<&'a str> = table.listed.iter().map(|name| &*arena.alloc_str(name)).collect();
        let row = |row: usize| {
            let values = names.iter().zip(&columns).map(|(&name, column)| (name, column[row]));
            Value::Map(arena.alloc_slice_fill_iter(values.collect::<Vec<_>>()))
        };
        Value::List(arena.alloc_slice_fill_iter((0..place_of_row.len()).map(row).collect::<Vec<_>>()))
    }

    /// The rows of these groups, as columns; answers to which of them each row belongs, by place.
    pub(crate) fn evaluate<'a>(
        &self,
        table: &CompiledTable,
        groups: &[u32],
        dialect: Dialect,
        arena: &'a Bump,
    ) -> (Vec<Vec<Value<'a>>>, Vec<u32>) {
        let mut columns = vec![Vec::new(); table.function.columns(table.arguments.len())];
        let mut place_of_row = Vec::new();
        for (place, &group) in groups.iter().enumerate() {
            let rows = match self {
                TableCells::Distribution { cells, .. } => distribution_rows(
                    &table.function,
                    &cells[group as usize],
                    table.points_max,
                    dialect,
                    arena,
                    &mut columns,
                ),
                TableCells::Top { cells, .. } => {
                    top_rows(table, &cells[group as usize], dialect, arena, &mut columns)
                }
            };
            place_of_row.extend(std::iter::repeat_n(place as u32, rows));
        }
        (columns, place_of_row)
    }

    /// The metadata of the least exact sketch.
    pub(crate) fn meta(&self, table: &CompiledTable) -> Option<SketchMeta> {
        match self {
            TableCells::Distribution { cells, .. } => quantiles_meta(&table.text, cells),
            TableCells::Top { cells, .. } => frequent_meta(&table.text, cells),
        }
    }
}

fn top_rows<'a>(
    table: &CompiledTable,
    sketch: &Frequent,
    dialect: Dialect,
    arena: &'a Bump,
    columns: &mut [Vec<Value<'a>>],
) -> usize {
    let TableFunction::Top { count, threshold } = table.function else { return 0 };
    let count = if count == 0 { TOP_ROWS_DEFAULT } else { count };
    let count = dialect.groups_max().map_or(count, |most| count.min(most));
    let items = sketch.evaluate(usize::try_from(count).unwrap_or(usize::MAX), threshold.unwrap_or(0));
    let arguments = table.arguments.len();
    for item in &items {
        if dialect.keys_are_text() {
            // A separator within a value shifts the values after it, as it does in Bullet.
            let text: &'a str = arena.alloc_str(&String::from_utf8_lossy(&item.value));
            let mut parts = text.split(SEPARATOR);
            for column in &mut columns[..arguments] {
                column.push(Value::String(parts.next().unwrap_or_default()));
            }
        } else {
            let mut rest = &item.value[..];
            for column in &mut columns[..arguments] {
                let (value, after) = decode_group_value(rest, arena);
                column.push(value);
                rest = after;
            }
        }
        columns[arguments].push(Value::Long(i64::try_from(item.count).unwrap_or(i64::MAX)));
    }
    items.len()
}
