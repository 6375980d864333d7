//! Replaces the types of a planned query by the types of the events' own values.
//!
//! A record of Bullet's carries the types of its fields. Bullet evaluates it by those, whatever the schema declared when
//! the query was checked. JSON events carry no types, so a caller passes the types separately, and they replace the
//! planned ones.

use swiftwater_event::{Path, Step, Type};

use crate::{
    Schema,
    plan::{Body, Expr, LateralView, Query, Window, WindowClock},
};

/// Wants every path of the event as what `types` says that it is, and any other as whatever is there. The records of
/// an inner query have the types that it gives them: an outer query stays as it is.
pub(crate) fn retype(query: &mut Query, types: &Schema) {
    let each = &mut |expr: &mut Expr| retype_expr(expr, types);
    query.filter.iter_mut().for_each(&mut *each);
    query.views.iter_mut().for_each(|LateralView { expr, .. }| each(expr));
    if let Window::Time { clock: WindowClock::Event { time, .. }, .. }
    | Window::Session { clock: WindowClock::Event { time, .. }, .. } = &mut query.window
    {
        each(time);
    }
    match &mut query.body {
        Body::Raw(raw) => {
            raw.columns.iter_mut().for_each(|column| each(&mut column.expr));
            query.order_by.iter_mut().for_each(|key| each(&mut key.expr));
        }
        Body::Group(group) => {
            group.keys.iter_mut().for_each(&mut *each);
            for aggregate in &mut group.aggregates {
                aggregate.arguments.iter_mut().chain(&mut aggregate.filter).for_each(&mut *each);
            }
            group.table.iter_mut().flat_map(|table| &mut table.arguments).for_each(&mut *each);
        }
    }
}

fn retype_expr(expr: &mut Expr, types: &Schema) {
    match expr {
        Expr::Path { path, ty } => *ty = type_at(path, types),
        Expr::Call { args, .. } => args.iter_mut().for_each(|arg| retype_expr(arg, types)),
        Expr::Literal(_) | Expr::Slot(_) => {}
    }
}

/// The type of the value at a path's end; ANY where nothing is said of it.
fn type_at(path: &Path, types: &Schema) -> Type {
    let mut steps = path.steps().iter();
    let Some(Step::Key(field)) = steps.next() else { return Type::Any };
    let mut ty = types.field(field).unwrap_or(&Type::Any);
    for step in steps {
        ty = match (ty, step) {
            (Type::Map(inner), Step::Key(_)) | (Type::List(inner), Step::Index(_)) => inner,
            _ => &Type::Any,
        };
    }
    ty.clone()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Dialect, ParseOptions, parse};

    #[test]
    fn paths_take_the_types_that_the_events_have() {
        let schema = Schema::from_json(r#"{"n": "STRING", "o": "LONG", "m": "MAP[LONG]"}"#).unwrap();
        let types = Schema::from_json(r#"{"n": "FLOAT", "m": "MAP[DOUBLE]"}"#).unwrap();
        let options = ParseOptions { schema: Some(&schema), ..ParseOptions::new(Dialect::Bullet, 0) };
        let text = "SELECT n, o + 1 FROM STREAM() WHERE m.k > 5 AND SIZEOF(m) > 1 ORDER BY n";
        let mut query = parse(text, &options).unwrap().query;
        retype(&mut query, &types);
        let paths: Vec<String> = query.paths().into_iter().map(|(path, ty)| format!("{path} {ty}")).collect();
        assert_eq!(paths, ["m MAP[DOUBLE]", "m.k DOUBLE", "n FLOAT", "o ANY"]);
    }
}
