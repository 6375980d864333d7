//! Checks that all parsers return the same values: those that `serde_json` finds in the text.

use anyhow::{Context, bail};
use arrow_array::{
    Array, BooleanArray, Float64Array, Int64Array, ListArray, MapArray, StringArray, StringViewArray,
};
use serde_json::{Map, Value};

use super::{Contestant, blocks::Block, columns::Field};

/// Blocks that are compared.
const BLOCKS: usize = 4;

/// The first difference of anybody, in words.
pub(super) fn fault(
    contestants: &mut [Box<dyn Contestant>],
    wanted: &[Field],
    blocks: &[Block],
) -> anyhow::Result<Option<String>> {
    for block in blocks.iter().step_by(blocks.len().div_ceil(BLOCKS)) {
        let rows = 0..block.batch.len();
        let truth: Vec<Value> = rows
            .map(|row| serde_json::from_slice(block.batch.event(row)).context("an event is no JSON"))
            .collect::<anyhow::Result<_>>()?;
        for contestant in contestants.iter_mut() {
            let columns = contestant.decode(block)?;
            let name = contestant.name();
            if columns.len() != wanted.len() {
                return Ok(Some(format!("{name} made {} columns, not {}", columns.len(), wanted.len())));
            }
            for (column, field) in columns.iter().zip(wanted) {
                if column.len() != truth.len() {
                    return Ok(Some(format!("{name} made {} rows, not {}", column.len(), truth.len())));
                }
                for (row, event) in truth.iter().enumerate() {
                    let (found, right) = (cell(column.as_ref(), row)?, &event[&field.name]);
                    if found != *right {
                        return Ok(Some(format!("{name} has {found} for {}, not {right}", field.name)));
                    }
                }
            }
        }
    }
    Ok(None)
}

/// A cell as JSON.
fn cell(array: &dyn Array, row: usize) -> anyhow::Result<Value> {
    let any = array.as_any();
    if array.is_null(row) {
        return Ok(Value::Null);
    }
    Ok(if let Some(texts) = any.downcast_ref::<StringViewArray>() {
        texts.value(row).into()
    } else if let Some(texts) = any.downcast_ref::<StringArray>() {
        texts.value(row).into()
    } else if let Some(longs) = any.downcast_ref::<Int64Array>() {
        longs.value(row).into()
    } else if let Some(doubles) = any.downcast_ref::<Float64Array>() {
        doubles.value(row).into()
    } else if let Some(booleans) = any.downcast_ref::<BooleanArray>() {
        booleans.value(row).into()
    } else if let Some(lists) = any.downcast_ref::<ListArray>() {
        let items = lists.value(row);
        (0..items.len()).map(|item| cell(items.as_ref(), item)).collect::<anyhow::Result<Vec<_>>>()?.into()
    } else if let Some(maps) = any.downcast_ref::<MapArray>() {
        let entries = maps.value(row);
        let mut object = Map::new();
        for entry in 0..entries.len() {
            let key = cell(entries.column(0).as_ref(), entry)?;
            let key = key.as_str().context("a key is no text")?.to_owned();
            object.insert(key, cell(entries.column(1).as_ref(), entry)?);
        }
        object.into()
    } else {
        bail!("a column has the type {}", array.data_type())
    })
}
