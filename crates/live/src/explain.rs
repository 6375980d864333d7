//! Describes how a query runs, as text for people: decoding, matching, residual and operators.

use std::fmt::Write;

use swiftwater_lang::plan::Body;

use crate::{
    matching::{
        Access, body_is_late,
        filter::{Filter, Operand},
    },
    standing::{CompiledBody, StandingQuery, joined, split_filter},
};

/// Explains how a query runs: the decoded paths, the search for its events, the other tests, and the operations on
/// them.
pub fn explain(query: &StandingQuery) -> String {
    let mut out = String::new();
    let plan = &query.plan;
    let mut line = |name: &str, text: String| {
        let _ = writeln!(out, "{name:<10} {text}");
    };
    let stream = plan.stream.as_ref().map_or("the default stream".to_owned(), |stream| stream.to_string());
    line("stream", stream);
    if let Some(share) = plan.sample {
        line("sample", format!("{share} of the events, by their place"));
    }
    line(
        "duration",
        plan.duration_ms.map_or("while its client is connected".to_owned(), |ms| format!("{ms} ms")),
    );
    let wants = |wants: Vec<&swiftwater_event::Want>| {
        let mut texts: Vec<String> = wants.iter().map(|want| format!("{} {}", want.path, want.ty)).collect();
        texts.sort();
        texts.dedup();
        if texts.is_empty() { "nothing".to_owned() } else { texts.join(", ") }
    };
    let is_late = body_is_late(query);
    let (all, matched) = if is_late {
        (query.filter_wants().collect(), query.body_wants.as_slice().iter().collect())
    } else {
        (query.filter_wants().chain(query.body_wants.as_slice()).collect(), Vec::new())
    };
    line("decode", format!("of every event: {}", wants(all)));
    if is_late {
        line("", format!("of matched events: {}", wants(matched)));
    }
    let (filter, _) = split_filter(plan);
    let parts = filter.as_ref().map(|filter| Filter::of(filter, plan.dialect));
    let access = parts.as_ref().and_then(|(filter, _)| Access::choose(filter, None));
    let mut residual = Vec::new();
    match (&access, &parts) {
        (Some(access), Some((filter, operands))) => {
            let is_by = |operand: &&Operand<'_>| operand.node == Some(access.node);
            let by = joined(operands.iter().filter(is_by).map(|operand| operand.expr.clone()).collect());
            line(
                "access",
                format!("{} by {}", by.map_or(String::new(), |by| by.to_string()), access.how(filter)),
            );
            let is_left = |operand: &&Operand<'_>| !(is_by(operand) && operand.is_proven && access.proves);
            residual.extend(operands.iter().filter(is_left).map(|operand| operand.expr.clone()));
        }
        _ => {
            line("access", "none: every event is a candidate".to_owned());
            residual.extend(filter.clone());
        }
    }
    line("residual", joined(residual).map_or("none".to_owned(), |residual| residual.to_string()));
    for view in &plan.views {
        if view.join.is_some() {
            line("join", format!("{view}, each key looked up once for some events"));
            continue;
        }
        let kind = if view.is_outer { "outer explode" } else { "explode" };
        line("view", format!("{kind} {} as {}", view.expr, view.columns.join(", ")));
    }
    if let Some(views) = &query.views
        && views.filter.is_some()
    {
        line("", "rows are filtered by the conditions on the views' columns".to_owned());
    }
    for (place, text) in plan
        .pattern
        .iter()
        .flat_map(|pattern| pattern.to_string().lines().map(str::to_owned).collect::<Vec<_>>())
        .enumerate()
    {
        match place {
            0 => line("pattern", text.trim_start_matches("pattern ").to_owned()),
            _ => line("", text),
        }
    }
    match (&query.body, &plan.body) {
        (CompiledBody::Raw { star, columns, order }, _) => {
            let star = star.iter().map(|_| "*".to_owned());
            let names: Vec<String> =
                star.chain(columns.iter().map(|column| column.name.to_string())).collect();
            let of = if plan.views.is_empty() { "event" } else { "row of the views" };
            line(
                "operator",
                match plan.pattern {
                    Some(_) => "one record per match, found key by key in the order of the stream".to_owned(),
                    None => format!("raw: one record per {of}"),
                },
            );
            line("columns", names.join(", "));
            if !order.is_empty() {
                let how = if plan.dialect.sorts_first_n() {
                    "the first rows, sorted"
                } else {
                    "the top rows of all"
                };
                line("order", how.to_owned());
            }
        }
        (CompiledBody::Group(group), Body::Group(logical)) => {
            let keys: Vec<String> = logical.keys.iter().map(ToString::to_string).collect();
            let keys = match (&*keys, logical.sets.len()) {
                ([], 0) => "one group".to_owned(),
                (keys, 0) => format!("groups by {}", keys.join(", ")),
                (keys, sets) => format!("groups by {sets} sets of {}", keys.join(", ")),
            };
            line(
                "operator",
                match plan.pattern {
                    Some(_) => format!("{keys}; {} aggregates over matches", logical.aggregates.len()),
                    None => {
                        format!("{keys}; {} aggregates, mergeable: on every shard", logical.aggregates.len())
                    }
                },
            );
            let names: Vec<&str> = group.columns.iter().map(|column| &*column.name).collect();
            line("columns", names.join(", "));
        }
        (CompiledBody::Group(_), Body::Raw(_)) => {}
    }
    line("window", plan.window.to_string());
    if let Some(limit) = plan.limit {
        line("limit", limit.to_string());
    }
    if let Some(outer) = &query.outer {
        let _ = writeln!(out, "over the records of each result:");
        // These are the inner query's.
        let is_inner =
            |text: &str| ["stream ", "duration ", "window "].iter().any(|own| text.starts_with(own));
        for text in explain(outer).lines().filter(|text| !is_inner(text)) {
            let _ = writeln!(out, "  {text}");
        }
    }
    out
}
