//! Compiles the SELECT of an endpoint over a view into the plan that finds the view's rows by their key.
//!
//! The condition states the whole key, or its first values. A further condition needs the whole key.

use swiftwater_event::Type;
use swiftwater_lang::{
    ddl::{
        Answer, CreateEndpoint, ElseClause, EndpointColumn, RowSource,
        endpoint::{
            ENDPOINT_ROWS_DEFAULT,
            plan::{Lookup, PlannedExpr, lookup, parse_over_row},
        },
    },
    plan::{Expr, Function},
};
use swiftwater_live::expr::Program;

use super::{at, kind, program, shown};
use crate::{
    EngineError,
    objects::{
        endpoints::{
            select::{NoRow, RowsPlan, SelectPlan, ShownColumn},
            unfit,
        },
        views::View,
    },
};

/// The plan of a lookup in a view's rows.
pub(super) fn compile_lookup(
    create: &CreateEndpoint,
    columns: &[EndpointColumn],
    source: &RowSource,
    otherwise: Option<&ElseClause>,
    view: &View,
) -> Result<SelectPlan, EngineError> {
    let keys = view.query.key_columns();
    let found = match &source.condition {
        None => Lookup { key: Vec::new(), rest: None },
        Some(condition) => lookup(condition, &view.columns, &create.parameters, &keys)
            .map_err(|errors| at(errors, condition))?,
    };
    let is_whole = found.key.len() == keys.len();
    if !is_whole && found.rest.is_some() {
        return Err(refuse_condition(source, view, &found.key));
    }
    let key = compile_key(view, &found.key)?;
    let answer = create.options.answer.unwrap_or(if is_whole { Answer::Object } else { Answer::Rows });
    if answer == Answer::Object && !is_whole {
        return Err(refuse_object(source, view));
    }
    let (columns, mut uses_now) = compile_columns(create, columns, view)?;
    if let Some(rest) = &found.rest {
        uses_now |= uses_time(rest, create, view);
    }
    let otherwise = match otherwise {
        None => NoRow::Usual,
        Some(ElseClause::Status(refusal)) => NoRow::Status(refusal.clone()),
        Some(ElseClause::Row(columns)) => NoRow::Row(shown(columns, create)?),
    };
    Ok(SelectPlan {
        uses_now,
        columns,
        source: Some(RowsPlan {
            view: source.view.clone(),
            key,
            is_whole,
            rest: found.rest.as_ref().map(program).transpose()?,
            limit: source.limit.unwrap_or(ENDPOINT_ROWS_DEFAULT),
            view_columns: view.columns.len(),
        }),
        otherwise,
        answer,
    })
}

/// The error of a condition that states a part of the key, `key`, and more.
fn refuse_condition(source: &RowSource, view: &View, key: &[PlannedExpr]) -> EngineError {
    let keys = view.query.key_columns();
    let names = view.query.key_names();
    let selected = count_selected(&keys);
    if !key.is_empty() && selected == keys.len() {
        return unfit(
            format!(
                "a further condition needs the whole key, and the first {} of its {} values are stated",
                key.len(),
                keys.len()
            ),
            "State the whole key, by `column = …`, or leave the further condition out. POST /v1/sql runs any \
             query.",
        );
    }
    let message = match names.is_empty() {
        true => "these rows cannot be found by their key".to_owned(),
        false => format!(
            "these rows cannot be found by their key: the key of view `{}` is ({})",
            source.view,
            names.join(", ")
        ),
    };
    let hint = match selected {
        all if all == keys.len() => {
            "State its first values, each by `column = …`, joined by AND. POST /v1/sql runs any query."
        }
        0 => "The view does not select the first value of its key. POST /v1/sql runs any query.",
        _ => {
            "State its first values that the view selects, each by `column = …`, joined by AND. POST /v1/sql \
             runs any query."
        }
    };
    unfit(message, hint)
}

/// The number of the first values of a view's key that it selects.
fn count_selected(keys: &[Option<usize>]) -> usize {
    keys.iter().take_while(|column| column.is_some()).count()
}

/// Compiles the stated values of a view's key, each of which can be equal to that of a row.
fn compile_key(view: &View, stated: &[PlannedExpr]) -> Result<Vec<Program>, EngineError> {
    let keys = view.query.key_columns();
    let names = view.query.key_names();
    let mut key = Vec::new();
    for (place, (expr, ty)) in stated.iter().enumerate() {
        let of_view = keys[place].map(|column| &view.columns[column].1);
        if let (Some(ty), Some(of_view)) = (ty, of_view)
            && *of_view != Type::Any
            && kind(ty) != kind(of_view)
        {
            let message = format!("`{}` is {of_view}, and is compared with {ty}", names[place]);
            return Err(unfit(message, "Declare the parameter with this type, or write CAST(… AS …)."));
        }
        key.push(program(expr)?);
    }
    Ok(key)
}

/// The error of an answer that is to be one object, where several rows may be found.
fn refuse_object(source: &RowSource, view: &View) -> EngineError {
    let keys = view.query.key_columns();
    let message = format!(
        "the condition may find several rows: the key of view `{}` is ({})",
        source.view,
        view.query.key_names().join(", ")
    );
    let hint = match count_selected(&keys) == keys.len() {
        true => "State all values of the key, or write `answer = rows`.",
        false => "Write `answer = rows`: the view does not select all values of its key.",
    };
    unfit(message, hint)
}

/// Compiles columns over a view's rows. Returns also whether any depends on when the request comes.
fn compile_columns(
    create: &CreateEndpoint,
    columns: &[EndpointColumn],
    view: &View,
) -> Result<(Vec<ShownColumn>, bool), EngineError> {
    let (mut compiled, mut uses_now) = (Vec::new(), false);
    for column in columns {
        let (expr, ty) = parse_over_row(&column.text, &view.columns, &create.parameters)
            .map_err(|errors| at(errors, &column.text))?;
        uses_now |= uses_time(&expr, create, view);
        compiled.push(ShownColumn::new(&column.name, ty, program(&expr)?));
    }
    Ok((compiled, uses_now))
}

/// True if an expression over a view's row depends on when the request comes.
fn uses_time(expr: &Expr, create: &CreateEndpoint, view: &View) -> bool {
    let now = view.columns.len() + create.parameters.len();
    let mut uses_now = false;
    expr.visit(&mut |part| uses_now |= is_now(part, now));
    uses_now
}

/// True if a part of an expression depends on when the request comes.
fn is_now(part: &Expr, now: usize) -> bool {
    match part {
        Expr::Slot(slot) => *slot == now,
        Expr::Call { function: Function::UnixTimestamp, args } => args.is_empty(),
        _ => false,
    }
}
