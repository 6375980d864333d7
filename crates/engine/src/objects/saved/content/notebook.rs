//! The form of a notebook, version 1, as `notebook-1.json` has it.

use serde_json::Value;

use super::{
    checker::{Faults, Place, check_unique},
    dashboard::{check_parameters, check_show, check_time, check_title, check_version},
};

const CELLS_MAX: usize = 1000;

pub(super) fn check(value: &Value, faults: &mut Faults) {
    let Some(members) = Place::root(value).object(&["version", "title", "time", "zone", "cells"], faults)
    else {
        return;
    };
    check_version(&members, faults);
    check_title(&members, faults);
    check_time(&members, faults);
    let Some(cells) = members.required("cells", faults) else { return };
    let cells = cells.list(0..=CELLS_MAX, faults);
    let ids: Vec<_> = cells.iter().filter_map(|cell| check_cell(cell, faults)).collect();
    check_unique("cell", ids, faults);
}

/// Returns the place and the id.
fn check_cell<'v>(cell: &Place<'v>, faults: &mut Faults) -> Option<(String, &'v str)> {
    let known = ["id", "kind", "text", "dialect", "parameters", "show"];
    let members = cell.object(&known, faults)?;
    members.required("kind", faults).map(|kind| kind.one_of(&["sql", "live", "markdown"], faults));
    members.required("text", faults).map(|text| text.text(0..=1_048_576, faults));
    if let Some(dialect) = members.optional("dialect") {
        dialect.one_of(&["native", "bullet"], faults);
    }
    if let Some(parameters) = members.optional("parameters") {
        check_parameters(&parameters, &[], faults);
    }
    check_show(&members, faults);
    let id = members.required("id", faults)?;
    Some((id.path.clone(), id.text(1..=64, faults)?))
}
