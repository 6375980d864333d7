use std::{collections::BTreeMap, convert::Infallible};

use bytes::Bytes;
use proptest::prelude::*;
use swiftwater_event::check_block;
use swiftwater_lang::{Dialect, ParseOptions, parse};
use swiftwater_sketch::SketchSizes;

use super::*;
use crate::StandingQuery;

const QUERIES: [&str; 6] = [
    "SELECT k, j, COUNT(*) AS n, COUNT(x) AS c, SUM(x) AS s, AVG(x) AS m, SUM(x) FILTER (WHERE x > 0) AS f, \
     COUNT(*) FILTER (WHERE j = 'j0') AS zeros FROM STREAM(v) WHERE x IS NULL OR x != 13 GROUP BY k, j",
    "SELECT SUM(x) AS s, AVG(x * 1e300) AS m, SUM(x * 1e300 * 1e300) AS overflows FROM STREAM(v)",
    "SELECT DISTINCT k FROM STREAM(v)",
    "SELECT x % 3 AS third, SUM(x) + 1 AS s FROM STREAM(v) GROUP BY x % 3 HAVING SUM(x) > 4",
    "SELECT k, j, SUM(x) AS s, GROUPING(k, j) AS g FROM STREAM(v) GROUP BY CUBE (k, j)",
    "SELECT e, SUM(x) AS s FROM STREAM(v) LATERAL VIEW EXPLODE(l) AS e GROUP BY e",
];

fn plain(text: &str) -> KeyedQuery {
    let plan = parse(text, &ParseOptions::new(Dialect::Native, 0)).expect("a query").query;
    KeyedQuery::new(StandingQuery::compile(plan).expect("a query"), None).expect("a view")
}

fn of_rows(text: &str) -> Result<KeyedQuery, UnsupportedView> {
    let mut plan = parse(text, &ParseOptions::new(Dialect::Native, 0)).expect("a query").query;
    let counting = count_rows(&mut plan)?;
    let query = StandingQuery::compile_view(plan, SketchSizes::default(), None).expect("a query");
    Ok(KeyedQuery::new(query, None)?.of_rows(counting))
}

fn batch<'r>(rows: impl Iterator<Item = &'r String>) -> EventBatch {
    let rows: Vec<&str> = rows.map(String::as_str).collect();
    let checked = check_block(Bytes::from(rows.join("\n")), &Default::default(), 1);
    assert_eq!(checked.rejected, 0);
    checked.batch
}

fn row() -> impl Strategy<Value = String> {
    let key = prop_oneof![(0..3i64).prop_map(|k| k.to_string()), Just("\"a\"".into()), Just("null".into()),];
    let number = prop_oneof![
        4 => (-9..20i64).prop_map(|x| x.to_string()),
        1 => Just("9223372036854775807".to_owned()),
        1 => Just("-9e18".to_owned()),
        1 => Just("1e300".to_owned()),
        1 => Just("1e-300".to_owned()),
        2 => Just("0.1".to_owned()),
        1 => Just("-1e308".to_owned()),
        1 => Just("\"no\"".to_owned()),
        1 => Just("null".to_owned())
    ];
    (key, 0..3u8, number).prop_map(|(k, j, x)| format!(r#"{{"k":{k},"j":"j{j}","x":{x},"l":[{j},{x},"l"]}}"#))
}

/// The rows of a view of rows, as a query over them would give them that had seen no others.
fn expected(text: &str, rows: &BTreeMap<u8, String>) -> String {
    let view = plain(text);
    let fold = view.fold(&mut Shard::default(), &batch(rows.values()), ViewTime::default());
    let groups = fold.groups.or_else(|| view.no_groups()).expect("it has groups");
    String::from_utf8(view.rows(groups, 0).text.into()).expect("text")
}

/// The rows of the persisted states.
fn rows_of(view: &KeyedQuery, kept: &BTreeMap<Vec<u8>, Vec<u8>>) -> String {
    let mut groups = view.no_groups().expect("it has groups");
    for (key, state) in kept {
        view.add_state(&mut groups, key, state, 0).expect("a state");
    }
    String::from_utf8(view.rows(groups, 0).text.into()).expect("text")
}

#[test]
fn what_cannot_be_a_view_of_rows() {
    for (text, fault) in [
        ("SELECT MAX(x) FROM STREAM(v)", UnsupportedView::NotTakenOut(AggregateFunction::Max)),
        (
            "SELECT COUNT(DISTINCT x) FROM STREAM(v)",
            UnsupportedView::NotTakenOut(AggregateFunction::CountDistinct),
        ),
        (
            "SELECT k, LAST(*) FROM STREAM(v) GROUP BY k",
            UnsupportedView::NotTakenOut(AggregateFunction::LastEvent),
        ),
        ("SELECT TOP(3, x) FROM STREAM(v)", UnsupportedView::RowsNotTakenOut),
        ("SELECT COUNT(*) FROM STREAM(v) WINDOWING TUMBLING(10, TIME)", UnsupportedView::WindowsOfRows),
        ("SELECT * FROM STREAM(v)", UnsupportedView::NoGroups),
        ("SELECT k, COUNT(*) FROM STREAM(v) GROUP BY k LIMIT 1", UnsupportedView::End),
    ] {
        assert_eq!(of_rows(text).map(|_| ()), Err(fault), "{text}");
    }
    let fault = of_rows("SELECT COUNT(DISTINCT x) FROM STREAM(v)").expect_err("it cannot be");
    assert!(fault.to_string().contains("COUNT, SUM or AVG, not COUNT(DISTINCT …)"), "{fault}");
}

#[test]
fn what_was_never_there_cannot_be_taken_out() {
    let view = of_rows(QUERIES[0]).expect("a view");
    let mut fold = RowsFold::default();
    let row = r#"{"k":1,"x":2}"#.to_owned();
    view.fold_rows(&mut Shard::default(), &batch([&row].into_iter()), false, &mut fold);
    let changes = view.changes_by_rows(&fold, 1, 100, |_| Ok::<_, Infallible>(None));
    assert!(matches!(changes, Err(RowsError::NotThere)));
}

proptest! {
    #[test]
    fn a_view_of_rows_is_the_query_over_those_that_are_there(
        which in 0..QUERIES.len(),
        steps in proptest::collection::vec(
            proptest::collection::vec((0..12u8, proptest::option::weighted(0.7, row())), 1..12),
            1..12,
        ),
    ) {
        let view = of_rows(QUERIES[which]).expect("a view");
        let (mut kept, mut rows) = (BTreeMap::new(), BTreeMap::new());
        let mut shard = Shard::default();
        for (position, step) in (1..).zip(steps) {
            let changed: BTreeMap<u8, Option<String>> = step.into_iter().collect();
            let mut fold = RowsFold::default();
            let went: Vec<String> = changed.keys().filter_map(|id| rows.get(id).cloned()).collect();
            let came: Vec<String> = changed.values().flatten().cloned().collect();
            // In pieces, and what comes first or last is one.
            for some in came.chunks(5) {
                view.fold_rows(&mut shard, &batch(some.iter()), true, &mut fold);
            }
            for some in went.chunks(4) {
                view.fold_rows(&mut shard, &batch(some.iter()), false, &mut fold);
            }
            for (id, row) in changed {
                match row {
                    Some(row) => rows.insert(id, row),
                    None => rows.remove(&id),
                };
            }
            let state_of = |key: &Key| Ok::<_, Infallible>(kept.get(&key.ordered).cloned());
            let changes = view.changes_by_rows(&fold, position, 1000, state_of).expect("it can be taken in");
            prop_assert_eq!(changes.keys.len(), changes.states.len());
            for (key, state) in changes.states.iter() {
                match state {
                    Some(state) => kept.insert(key.to_vec(), state.to_vec()),
                    None => kept.remove(key),
                };
            }
            prop_assert_eq!(rows_of(&view, &kept), expected(QUERIES[which], &rows));
        }
    }
}
