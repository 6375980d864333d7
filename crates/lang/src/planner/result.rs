//! Determines the types of a grouped result's columns, as far as they follow from the types of the events.

use swiftwater_event::Type;

use super::{
    check::{Ty, result_type},
    table::list_type,
};
use crate::plan::{Aggregate, AggregateFunction, Expr, Group};

/// The type of a column's values; ANY where it is not known.
/// `slots`: those of the slots over events.
pub(super) fn type_of(column: &Expr, group: &Group, slots: &[Ty]) -> Type {
    match of_slots(column, group, slots) {
        Ty::Known(ty) => ty,
        Ty::Unknown | Ty::Null => Type::Any,
    }
}

/// The type of an expression over the slots of a group.
fn of_slots(expr: &Expr, group: &Group, slots: &[Ty]) -> Ty {
    let behind = group.keys.len() + group.aggregates.len();
    let of_slot = |slot: usize| match group.keys.get(slot) {
        Some(key) => of_event(key, slots),
        None => match group.aggregates.get(slot - group.keys.len()) {
            Some(aggregate) => of_aggregate(aggregate, slots),
            None => match &group.table {
                None => Ty::Known(Type::LONG),
                Some(table) if slot == behind && !table.listed.is_empty() => list_type(table),
                Some(table) if slot >= behind + table.slots() => Ty::Known(Type::LONG),
                Some(_) => Ty::Unknown,
            },
        },
    };
    of(expr, &of_slot)
}

/// The type of an expression over an event.
pub(super) fn of_event(expr: &Expr, slots: &[Ty]) -> Ty {
    of(expr, &|slot| slots.get(slot).cloned().unwrap_or(Ty::Unknown))
}

fn of(expr: &Expr, of_slot: &impl Fn(usize) -> Ty) -> Ty {
    match expr {
        Expr::Literal(literal) => Ty::of(literal),
        Expr::Path { ty, .. } => ty.clone().into(),
        Expr::Slot(slot) => of_slot(*slot),
        Expr::Call { function, args } => {
            let args: Vec<Ty> = args.iter().map(|arg| of(arg, of_slot)).collect();
            result_type(function, &args)
        }
    }
}

fn of_aggregate(aggregate: &Aggregate, slots: &[Ty]) -> Ty {
    let argument = || aggregate.arguments.first().map_or(Ty::Unknown, |argument| of_event(argument, slots));
    match aggregate.function {
        AggregateFunction::Count | AggregateFunction::CountDistinct => Ty::Known(Type::LONG),
        AggregateFunction::Avg | AggregateFunction::Percentile { .. } => Ty::Known(Type::DOUBLE),
        AggregateFunction::Min
        | AggregateFunction::Max
        | AggregateFunction::First
        | AggregateFunction::Last
        | AggregateFunction::ArgMin
        | AggregateFunction::ArgMax => argument(),
        // An event has values of several types.
        AggregateFunction::FirstEvent | AggregateFunction::LastEvent => Ty::Unknown,
        AggregateFunction::CollectList { .. } | AggregateFunction::CollectSet { .. } => list_of(argument()),
        // Whole numbers add up to one, as far as they fit; others to a DOUBLE.
        AggregateFunction::Sum => match argument() {
            Ty::Known(ty) if ty == Type::INTEGER || ty == Type::LONG => Ty::Known(Type::LONG),
            Ty::Known(ty) if ty == Type::FLOAT || ty == Type::DOUBLE => Ty::Known(Type::DOUBLE),
            _ => Ty::Unknown,
        },
    }
}

/// A list of such values; not known where a list of them has no type.
pub(super) fn list_of(element: Ty) -> Ty {
    match element {
        Ty::Known(ty) => Type::list(ty).map_or(Ty::Unknown, Ty::Known),
        Ty::Unknown | Ty::Null => Ty::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use crate::{Dialect, ParseOptions, Schema, parse_typed};

    #[test]
    fn columns_have_the_types_of_what_they_are_made_of() {
        let schema =
            Schema::from_json(r#"{"i": "INTEGER", "f": "FLOAT", "t": "STRING", "m": "MAP[LONG]"}"#).unwrap();
        let options = ParseOptions { schema: Some(&schema), ..ParseOptions::new(Dialect::Native, 0) };
        let text = "SELECT t, m.k AS k, i + 1 AS j, COUNT(*) AS n, SUM(i) AS si, SUM(f) AS sf, MIN(t) AS lo, MAX(i) AS hi, \
             AVG(i) AS m, COUNT(DISTINCT t) AS d, SUM(i) / COUNT(*) AS q, COUNT(*) > 5 AS many, SUM(other) AS o, \
             FIRST(t) AS first, LAST(m) AS last, ARG_MAX(i, f) AS top, COLLECT_LIST(i) AS l, COLLECT_SET(m, 5) AS ms, \
             ARRAY_AGG(other) AS others \
             FROM STREAM() GROUP BY t, m.k, i + 1";
        let (_, columns) = parse_typed(text, &options).unwrap();
        let told: Vec<String> = columns.unwrap().iter().map(|(name, ty)| format!("{name} {ty}")).collect();
        assert_eq!(
            told,
            [
                "t STRING",
                "k LONG",
                "j INTEGER",
                "n LONG",
                "si LONG",
                "sf DOUBLE",
                "lo STRING",
                "hi INTEGER",
                "m DOUBLE",
                "d LONG",
                "q LONG",
                "many BOOLEAN",
                "o ANY",
                "first STRING",
                "last MAP[LONG]",
                "top INTEGER",
                "l LIST[INTEGER]",
                "ms LIST[MAP[LONG]]",
                "others ANY"
            ]
        );
        assert_eq!(parse_typed("SELECT * FROM STREAM()", &options).unwrap().1, None);
    }

    #[test]
    fn a_case_has_the_type_that_all_its_values_have_and_explode_that_of_the_elements() {
        let schema = Schema::from_json(
            r#"{"i": "INTEGER", "g": "LONG", "d": "DOUBLE", "l": "LIST[STRING]", "m": "MAP[LONG]"}"#,
        )
        .unwrap();
        let options = ParseOptions { schema: Some(&schema), ..ParseOptions::new(Dialect::Native, 0) };
        let text = "SELECT CASE WHEN d > 1 THEN 'a' WHEN d > 0 THEN 'b' END AS t, \
             CASE i WHEN 1 THEN i ELSE g END AS whole, CASE WHEN i > 1 THEN d ELSE 0 END AS number, \
             CASE WHEN i > 1 THEN 'a' ELSE 1 END AS either, LAST(CASE WHEN i > 1 THEN l END) AS list, \
             CASE WHEN i > 1 THEN 'a' ELSE other END AS other, CASE WHEN i > 1 THEN NULL END AS none, \
             SUM(CASE WHEN i > 1 THEN 1 ELSE 0 END) AS some, e, k, MAX(v) AS most \
             FROM STREAM() LATERAL VIEW EXPLODE(l) AS e LATERAL VIEW EXPLODE(m) AS (k, v) \
             GROUP BY d, i, g, other, e, k";
        let (_, columns) = parse_typed(text, &options).unwrap();
        let told: Vec<String> = columns.unwrap().iter().map(|(name, ty)| format!("{name} {ty}")).collect();
        let expected = [
            "t STRING",
            "whole LONG",
            "number DOUBLE",
            "either ANY",
            "list ANY",
            "other ANY",
            "none ANY",
            "some LONG",
            "e STRING",
            "k STRING",
            "most LONG",
        ];
        assert_eq!(told, expected);
    }
}
