use std::collections::BTreeMap;

use bytes::Bytes;
use proptest::prelude::*;
use swiftwater_event::{EventMeta, Offset, check_block};
use swiftwater_lang::{ParseOptions, parse};

use super::*;

const QUERY: &str = "SELECT k, j, COUNT(*) AS n, COUNT(x) AS c, SUM(x) AS s, AVG(x) AS m, MIN(x) AS lo, MAX(t) AS hi, \
     COUNT(DISTINCT x) AS d, APPROX_PERCENTILE_CONT(x, 0.5) AS p, SUM(x) FILTER (WHERE x > 0) AS f, \
     FIRST(x) AS first, LAST(t) AS last, ARG_MAX(t, x) AS top, COLLECT_LIST(x, 5) AS l, COLLECT_SET(x, 3) AS few, \
     COLLECT_SET(t) FILTER (WHERE x > 0) AS ts, LAST(l) AS ls, LAST(*) AS event \
     FROM STREAM() WHERE x IS NULL OR x != 13 GROUP BY k, j";

const PARTS: usize = 3;

fn keyed(text: &str) -> Result<KeyedQuery, Unfit> {
    let plan = parse(text, &ParseOptions::new(Dialect::Native, 0)).expect("a query").query;
    KeyedQuery::new(StandingQuery::compile(plan).expect("a query"))
}

fn batch(events: &[String], first: u64) -> EventBatch {
    let checked = check_block(Bytes::from(events.join("\n")), &Default::default(), 1);
    assert_eq!(checked.rejected, 0);
    checked.batch.with_meta(EventMeta { first: Offset(first), ..EventMeta::default() })
}

#[test]
fn what_cannot_be_a_view() {
    for (text, fault) in [
        ("SELECT * FROM STREAM()", Unfit::NoGroups),
        ("SELECT QUANTILE(x, LINEAR, 3) FROM STREAM()", Unfit::SeveralRows),
        ("SELECT COUNT(*) FROM STREAM() WINDOWING TUMBLING(5, TIME)", Unfit::Window),
        ("SELECT COUNT(*) FROM STREAM(s, 5000, TIME)", Unfit::End),
        ("SELECT k, COUNT(*) FROM STREAM() GROUP BY k LIMIT 3", Unfit::End),
        ("SELECT k, COUNT(*) AS n FROM STREAM() GROUP BY k ORDER BY n", Unfit::Order),
    ] {
        assert_eq!(keyed(text).map(|_| ()), Err(fault), "{text}");
    }
    assert_eq!(keyed(QUERY).map(|view| view.key_values()), Ok(2));
}

/// What is done to a view between its batches.
#[derive(Debug, Clone)]
enum Action {
    Batch(Vec<String>),
    Cut,
    Kept,
    PutBack,
    Evict(usize),
    /// All that was not kept is lost, and the events since the last cut that was kept come again.
    Crash,
}

fn event() -> impl Strategy<Value = String> {
    let key = prop_oneof![
        (0..6i64).prop_map(|k| k.to_string()),
        Just("\"a\"".into()),
        Just("null".into()),
        Just("1.5".into())
    ];
    let number = prop_oneof![
        (-9..20i64).prop_map(|x| x.to_string()),
        Just("1e300".to_owned()),
        Just("0.1".to_owned()),
        Just("\"no\"".to_owned()),
        Just("null".to_owned())
    ];
    (key, 0..3u8, number, 0..9u8).prop_map(|(k, j, x, t)| {
        format!(r#"{{"k":{k},"j":"j{j}","x":{x},"t":"t{t}","l":[{x},{{"t":{t}}}]}}"#)
    })
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        5 => proptest::collection::vec(event(), 1..20).prop_map(Action::Batch),
        2 => Just(Action::Cut),
        2 => Just(Action::Kept),
        1 => Just(Action::PutBack),
        2 => (0..9000usize).prop_map(Action::Evict),
        1 => Just(Action::Crash),
    ]
}

type Store = BTreeMap<Vec<u8>, Vec<u8>>;

/// A view with a store, as an engine has it.
struct Model {
    view: KeyedQuery,
    shard: Shard,
    parts: Vec<KeyedPart>,
    store: Store,
    /// The last cut, until it is kept, and the position that it is of.
    cut: Option<(Store, usize)>,
    position: usize,
    kept_position: usize,
}

impl Model {
    fn new() -> Model {
        let view = keyed(QUERY).expect("a view");
        let parts = (0..PARTS).map(|_| KeyedPart::new(&view, true).expect("it has groups")).collect();
        let shard = Shard::default();
        Model { view, shard, parts, store: Store::new(), cut: None, position: 0, kept_position: 0 }
    }

    fn take(&mut self, events: &[String], first: usize) {
        let fold = self.view.fold(&mut self.shard, &batch(events, first as u64));
        self.position = first + events.len();
        let Some(groups) = fold.groups else { return };
        for (part, chosen) in self.parts.iter_mut().zip(by_part(&groups, PARTS, 1000).0) {
            for key in part.lacks(&groups, &chosen) {
                if let Some(state) = self.store.get(&key.ordered) {
                    part.load(&key, state).expect("a state");
                }
            }
            part.merge(&groups, &chosen, self.position as u64);
        }
    }

    fn rows(&self) -> Vec<String> {
        let mut states = self.store.clone();
        for part in &self.parts {
            states.extend(part.unkept(|_| true));
        }
        let mut groups = self.view.no_groups().expect("it has groups");
        for (key, state) in &states {
            self.view.add_state(&mut groups, key, state).expect("a state");
        }
        let text = String::from_utf8(self.view.rows(groups, 0).text).expect("text");
        text.lines().map(str::to_owned).collect()
    }

    fn row(&self, values: &[Value<'_>]) -> Option<Row> {
        let key = Key::of(values);
        let here = self.parts[key.part(PARTS)].row(&self.view, &key, 0);
        here.unwrap_or_else(|| {
            let state = self.store.get(&key.ordered)?;
            self.view.row_of_state(&key, state, 0).expect("a state")
        })
    }
}

proptest! {
    #[test]
    fn a_view_is_the_query_over_all_its_events(actions in proptest::collection::vec(action(), 1..40)) {
        let mut model = Model::new();
        let mut events: Vec<String> = Vec::new();
        for action in actions {
            match action {
                Action::Batch(more) => {
                    model.take(&more, events.len());
                    events.extend(more);
                }
                Action::Cut if model.cut.is_none() => {
                    let mut changes = Changes::default();
                    model.parts.iter_mut().for_each(|part| part.cut(&mut changes));
                    let pairs = changes.iter().map(|(key, state)| (key.to_vec(), state.to_vec()));
                    model.cut = Some((pairs.collect(), model.position));
                }
                Action::Kept => {
                    if let Some((changes, position)) = model.cut.take() {
                        model.store.extend(changes);
                        model.kept_position = position;
                        model.parts.iter_mut().for_each(KeyedPart::kept);
                    }
                }
                Action::PutBack => {
                    model.cut = None;
                    model.parts.iter_mut().for_each(KeyedPart::put_back);
                }
                Action::Evict(bytes) => model.parts.iter_mut().for_each(|part| part.evict(bytes)),
                Action::Crash => {
                    let Model { store, kept_position, .. } = model;
                    model = Model { store, kept_position, position: kept_position, ..Model::new() };
                    for part in &mut model.parts {
                        *part = KeyedPart::new(&model.view, false).expect("it has groups");
                    }
                    // In other batches than before.
                    let again: Vec<String> = events[kept_position..].to_vec();
                    for (at, chunk) in again.chunks(7).enumerate() {
                        model.take(chunk, kept_position + 7 * at);
                    }
                }
                Action::Cut => {}
            }
        }
        let mut whole = Model::new();
        if !events.is_empty() {
            whole.take(&events, 0);
        }
        prop_assert_eq!(model.rows(), whole.rows());
        for k in [Value::Long(0), Value::Long(3), Value::String("a"), Value::Null, Value::Double(1.5), Value::Long(99)] {
            let values = [k, Value::String("j1")];
            prop_assert_eq!(model.row(&values).map(|row| row.json), whole.row(&values).map(|row| row.json));
        }
    }

    #[test]
    fn bytes_that_are_no_state_change_nothing(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
        let view = keyed(QUERY).expect("a view");
        let mut groups = view.no_groups().expect("it has groups");
        let key = Key::of(&[Value::Long(1), Value::Null]);
        if view.add_state(&mut groups, &key.ordered, &bytes).is_err() {
            prop_assert!(groups.is_empty());
        }
        view.rows(groups, 0);
    }
}
