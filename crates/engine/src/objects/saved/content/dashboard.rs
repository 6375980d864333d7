//! The form of a dashboard, version 1, as `dashboard-1.json` has it, and the rules that a schema cannot have: names are unique, panels are
//! within the grid, and parameters name variables.

use std::ops::RangeInclusive;

use serde_json::Value;

use super::checker::{Faults, Members, Place, check_unique};

pub(super) const TITLE_CHARS: RangeInclusive<usize> = 1..=200;
const TEXT_CHARS: RangeInclusive<usize> = 1..=1_048_576;
const VARIABLES_MAX: usize = 50;
const PANELS_MAX: usize = 100;
const PARAMETERS_MAX: usize = 1000;
const MARKDOWN_CHARS_MAX: usize = 65_536;
const COLUMNS: u64 = 12;
const REFRESH_MS: RangeInclusive<u64> = 1_000..=86_400_000;

/// The forms in which a result is shown.
pub(super) const FORMS: [&str; 15] = [
    "auto",
    "table",
    "json",
    "line",
    "area",
    "bar",
    "stacked",
    "histogram",
    "heat",
    "bands",
    "top",
    "value",
    "gauge",
    "pivot",
    "map",
];

pub(super) fn check(value: &Value, faults: &mut Faults) {
    let known = ["version", "title", "description", "variables", "time", "zone", "refresh_ms", "panels"];
    let Some(members) = Place::root(value).object(&known, faults) else { return };
    check_version(&members, faults);
    check_title(&members, faults);
    if let Some(description) = members.optional("description") {
        description.text(0..=4_096, faults);
    }
    let variables =
        members.optional("variables").map(|list| list.list(0..=VARIABLES_MAX, faults)).unwrap_or_default();
    let variables: Vec<(String, &str)> =
        variables.iter().filter_map(|variable| check_variable(variable, faults)).collect();
    check_unique("variable", variables.iter().cloned(), faults);
    let names: Vec<&str> = variables.iter().map(|(_, name)| *name).collect();
    check_time(&members, faults);
    check_refresh(&members, faults);
    let Some(panels) = members.required("panels", faults) else { return };
    let panels = panels.list(0..=PANELS_MAX, faults);
    let ids: Vec<_> = panels.iter().filter_map(|panel| check_panel(panel, &names, faults)).collect();
    check_unique("panel", ids, faults);
}

pub(super) fn check_version(members: &Members<'_>, faults: &mut Faults) {
    if let Some(version) = members.required("version", faults)
        && version.value.as_u64() != Some(1)
    {
        faults.add(&version.path, "this server knows version 1");
    }
}

pub(super) fn check_title(members: &Members<'_>, faults: &mut Faults) {
    members.required("title", faults).map(|title| title.text(TITLE_CHARS, faults));
}

/// The members `time` and `zone`.
pub(super) fn check_time(members: &Members<'_>, faults: &mut Faults) {
    if let Some(zone) = members.optional("zone") {
        zone.text(1..=64, faults);
    }
    let Some(time) = members.optional("time") else { return };
    let Some(range) = time.object(&["last_ms", "from", "to"], faults) else { return };
    match range.optional("last_ms") {
        Some(last) => {
            last.integer(1_000..=u64::MAX, faults);
            if range.len() > 1 {
                faults.add(&time.path, "`last_ms` excludes `from` and `to`");
            }
        }
        None => {
            for bound in ["from", "to"] {
                range.required(bound, faults).map(|bound| bound.text(1..=64, faults));
            }
        }
    }
}

fn check_refresh(members: &Members<'_>, faults: &mut Faults) {
    if let Some(refresh) = members.optional("refresh_ms") {
        refresh.integer(REFRESH_MS, faults);
    }
}

/// Returns the place and the name.
fn check_variable<'v>(variable: &Place<'v>, faults: &mut Faults) -> Option<(String, &'v str)> {
    let members = variable.object(&["name", "label", "kind", "default", "values", "sql"], faults)?;
    if let Some(label) = members.optional("label") {
        label.text(0..=200, faults);
    }
    if let Some(default) = members.optional("default") {
        default.scalar(faults);
    }
    let kind =
        members.required("kind", faults).and_then(|kind| kind.one_of(&["text", "list", "query"], faults));
    for (member, of) in [("values", "list"), ("sql", "query")] {
        match members.optional(member) {
            Some(place) if kind.is_some_and(|kind| kind != of) => {
                faults.add(&place.path, format!("only a variable of kind `{of}` has it"));
            }
            Some(place) if member == "values" => {
                place.list(0..=1000, faults).iter().for_each(|value| value.scalar(faults))
            }
            Some(place) => {
                place.text(TEXT_CHARS, faults);
            }
            None if kind == Some(of) => drop(members.required(member, faults)),
            None => {}
        }
    }
    let name = members.required("name", faults)?;
    let text = name.text(1..=64, faults)?;
    let is_word =
        |(at, c): (usize, char)| c == '_' || c.is_ascii_alphabetic() || at > 0 && c.is_ascii_digit();
    if !text.chars().enumerate().all(is_word) {
        faults.add(&name.path, "a name has letters, digits and `_`, and begins with no digit");
    }
    Some((name.path, text))
}

/// Returns the place and the id.
fn check_panel<'v>(panel: &Place<'v>, variables: &[&str], faults: &mut Faults) -> Option<(String, &'v str)> {
    let known = ["id", "title", "x", "y", "w", "h", "source", "show", "refresh_ms"];
    let members = panel.object(&known, faults)?;
    if let Some(title) = members.optional("title") {
        title.text(0..=200, faults);
    }
    let mut side = |name: &str, range| members.required(name, faults)?.integer(range, faults);
    let (x, w) = (side("x", 0..=COLUMNS - 1), side("w", 1..=COLUMNS));
    side("y", 0..=9_999);
    side("h", 1..=40);
    if x.zip(w).is_some_and(|(x, w)| x + w > COLUMNS) {
        faults.add(&panel.path, "x + w is more than 12, the columns of the grid");
    }
    check_refresh(&members, faults);
    check_show(&members, faults);
    if let Some(source) = members.required("source", faults) {
        check_source(&source, variables, faults);
    }
    let id = members.required("id", faults)?;
    Some((id.path.clone(), id.text(1..=64, faults)?))
}

/// The member `show`.
pub(super) fn check_show(members: &Members<'_>, faults: &mut Faults) {
    let Some(show) = members.optional("show").and_then(|show| show.object(&["as", "options"], faults)) else {
        return;
    };
    show.required("as", faults).map(|form| form.one_of(&FORMS, faults));
    if let Some(options) = show.optional("options") {
        options.any_object(faults);
    }
}

fn check_source(source: &Place<'_>, variables: &[&str], faults: &mut Faults) {
    let kinds = ["live", "view", "sql", "search", "metrics", "text"];
    let Some(any) = source.any_object(faults) else { return };
    let Some(kind) = any.required("kind", faults).and_then(|kind| kind.one_of(&kinds, faults)) else {
        return;
    };
    // The members that there may be, and of those the texts that there must be.
    let (known, texts): (&[&str], &[(&str, RangeInclusive<usize>)]) = match kind {
        "live" if any.optional("saved").is_some() => {
            (&["kind", "saved", "parameters"], &[("saved", 1..=255)])
        }
        "live" => (&["kind", "text", "dialect", "parameters"], &[("text", TEXT_CHARS)]),
        "view" => (&["kind", "view", "prefix", "limit"], &[("view", 1..=255)]),
        "sql" => (&["kind", "text", "parameters"], &[("text", TEXT_CHARS)]),
        "search" => (&["kind", "table", "query", "limit"], &[("table", 1..=255), ("query", 0..=65_536)]),
        "metrics" => (&["kind", "families"], &[]),
        _ => (&["kind", "markdown"], &[("markdown", 0..=MARKDOWN_CHARS_MAX)]),
    };
    let Some(members) = source.object(known, faults) else { return };
    for (name, size) in texts {
        members.required(name, faults).map(|text| text.text(size.clone(), faults));
    }
    if kind == "metrics" {
        let families = members.required("families", faults);
        for family in families.map(|families| families.list(1..=20, faults)).unwrap_or_default() {
            family.text(1..=255, faults);
        }
    }
    if let Some(dialect) = members.optional("dialect") {
        dialect.one_of(&["native", "bullet"], faults);
    }
    if let Some(prefix) = members.optional("prefix") {
        prefix.text(0..=65_536, faults);
    }
    if let Some(limit) = members.optional("limit") {
        limit.integer(1..=if kind == "view" { 10_000 } else { 1_000 }, faults);
    }
    if let Some(parameters) = members.optional("parameters") {
        check_parameters(&parameters, variables, faults);
    }
}

/// A list of scalars, of `{"variable": name}` and of `{"time": "from" | "to"}`.
pub(super) fn check_parameters(parameters: &Place<'_>, variables: &[&str], faults: &mut Faults) {
    for parameter in parameters.list(0..=PARAMETERS_MAX, faults) {
        if !parameter.value.is_object() {
            parameter.scalar(faults);
            continue;
        }
        let Some(members) = parameter.object(&["variable", "time"], faults) else { continue };
        match (members.optional("variable"), members.optional("time")) {
            (Some(variable), None) => {
                let name = variable.text(1..=64, faults);
                if name.is_some_and(|name| !variables.contains(&name)) {
                    faults.add(&variable.path, "there is no variable of this name");
                }
            }
            (None, Some(time)) => {
                time.one_of(&["from", "to"], faults);
            }
            _ => faults.add(&parameter.path, "one of `variable` and `time` is expected"),
        }
    }
}
