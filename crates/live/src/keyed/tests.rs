use std::collections::BTreeMap;

use bytes::Bytes;
use proptest::prelude::*;
use swiftwater_event::{EventMeta, Offset, check_block};
use swiftwater_lang::{ParseOptions, Schema, TimeBounds, parse};
use swiftwater_sketch::SketchSizes;

use super::*;

const QUERY: &str = "SELECT k, j, COUNT(*) AS n, COUNT(x) AS c, SUM(x) AS s, AVG(x) AS m, MIN(x) AS lo, MAX(t) AS hi, \
     COUNT(DISTINCT x) AS d, APPROX_PERCENTILE_CONT(x, 0.5) AS p, SUM(x) FILTER (WHERE x > 0) AS f, \
     FIRST(x) AS first, LAST(t) AS last, ARG_MAX(t, x) AS top, COLLECT_LIST(x, 5) AS l, COLLECT_SET(x, 3) AS few, \
     COLLECT_SET(t) FILTER (WHERE x > 0) AS ts, LAST(l) AS ls, LAST(*) AS event, TOP(3, x, t) AS most \
     FROM STREAM() WHERE x IS NULL OR x != 13 GROUP BY k, j";

/// The same by grouping sets, by windows, and by both.
const OTHERS: [&str; 5] = [
    "SELECT k, j, COUNT(*) AS n, SUM(x) AS s, AVG(x) AS m, MIN(x) AS lo, GROUPING(k, j) AS g, QUANTILE(x, LINEAR, 3) AS q FROM STREAM() \
     GROUP BY CUBE (k, j)",
    "SELECT k, window_start, window_end, COUNT(*) AS n, SUM(x) AS s FROM STREAM() WHERE x IS NULL OR x != 13 GROUP BY k \
     WINDOWING TUMBLING(10, EVENT(ts, 5))",
    "SELECT k, j, window_start, COUNT(x) AS n, SUM(x) AS s, GROUPING(k) AS g FROM STREAM() \
     GROUP BY GROUPING SETS ((k, j), (), j) WINDOWING TUMBLING(10, EVENT(ts, 5))",
    "SELECT k, j, window_start, COUNT(*) AS n, SUM(x) AS s, COLLECT_SET(t, 2) AS few, FREQ(x, MANUAL, 0, 5) FROM STREAM() GROUP BY ROLLUP (k, j) \
     WINDOWING EVERY(10, EVENT(ts, 5), LAST, 25, EVENT)",
    "SELECT k, window_start, window_end, COUNT(*) AS n, MAX(x) AS hi FROM STREAM() GROUP BY k \
     WINDOWING EVERY(30, TIME, LAST, 100, TIME)",
];

const PARTS: usize = 3;

/// The condition that deletes keys in the second property, and the time after which they expire.
const DELETE_WHEN: &str = "t = 't0'";
const TTL_MS: u64 = 60;

fn keyed(text: &str) -> Result<KeyedQuery, UnsupportedView> {
    let options = ParseOptions { lists_rows: true, ..ParseOptions::new(Dialect::Native, 0) };
    let plan = parse(text, &options).expect("a query").query;
    KeyedQuery::new(StandingQuery::compile(plan).expect("a query"), None)
}

/// A view over a stream whose time goes on with the clock when it has had no event for a second.
fn going_on(text: &str) -> KeyedQuery {
    let bounds = TimeBounds { lateness_ms: 300, max_ahead_ms: None, idle_after_ms: Some(1000) };
    let schema = Schema::new([("ts".into(), swiftwater_event::Type::LONG)]).with_watermark("ts", bounds);
    let options = ParseOptions { schema: Some(&schema), ..ParseOptions::new(Dialect::Native, 0) };
    let plan = parse(text, &options).expect("a query").query;
    KeyedQuery::new(StandingQuery::compile(plan).expect("a query"), None).expect("a view")
}

/// A view whose keys come and go.
fn deleting() -> KeyedQuery {
    let options = ParseOptions { lists_rows: true, ..ParseOptions::new(Dialect::Native, 0) };
    let plan = parse(QUERY, &options).expect("a query").query;
    let condition = swiftwater_lang::parse_expression(DELETE_WHEN, &options).expect("a condition");
    let query = StandingQuery::compile_view(plan, SketchSizes::default(), Some(&condition));
    KeyedQuery::new(query.expect("a query"), Some(TTL_MS)).expect("a view")
}

fn batch(events: &[Event], first: u64) -> EventBatch {
    let arrival = events.first().map_or(0, |event| event.arrival);
    let events: Vec<&str> = events.iter().map(|event| &*event.text).collect();
    let checked = check_block(Bytes::from(events.join("\n")), &Default::default(), 1);
    assert_eq!(checked.rejected, 0);
    checked.batch.with_meta(EventMeta { first: Offset(first), arrival, ..EventMeta::default() })
}

#[test]
fn what_cannot_be_a_view() {
    for (text, fault) in [
        ("SELECT * FROM STREAM()", UnsupportedView::NoGroups),
        (
            "SELECT k, COUNT(*) FROM STREAM() MATCH_RECOGNIZE (PARTITION BY k PATTERN (A) WITHIN 5) GROUP BY k",
            UnsupportedView::Pattern,
        ),
        ("SELECT COUNT(*) FROM STREAM() WINDOWING TUMBLING(5, RECORD)", UnsupportedView::Window),
        ("SELECT COUNT(*) FROM STREAM() WINDOWING EVERY(5, TIME, ALL)", UnsupportedView::Window),
        (
            "SELECT COUNT(*) FROM STREAM() WINDOWING EVERY(5, TIME, LAST, 7201, TIME)",
            UnsupportedView::Overlap { holding: 1441, most: 1440 },
        ),
        ("SELECT k, COUNT(*) FROM STREAM() GROUP BY k WINDOWING SESSION(5, TIME)", UnsupportedView::Window),
        ("SELECT COUNT(*) FROM STREAM(s, 5000, TIME)", UnsupportedView::End),
        ("SELECT k, COUNT(*) FROM STREAM() GROUP BY k LIMIT 3", UnsupportedView::End),
        ("SELECT k, COUNT(*) AS n FROM STREAM() GROUP BY k ORDER BY n", UnsupportedView::Order),
    ] {
        assert_eq!(keyed(text).map(|_| ()), Err(fault), "{text}");
    }
    let rows = parse("SELECT QUANTILE(x, LINEAR, 3) FROM STREAM()", &ParseOptions::new(Dialect::Native, 0));
    let rows = StandingQuery::compile(rows.expect("a query").query).expect("a query");
    assert_eq!(KeyedQuery::new(rows, None).map(|_| ()), Err(UnsupportedView::SeveralRows));
    assert_eq!(keyed(QUERY).map(|view| view.key_values()), Ok(2));
    let day = "SELECT COUNT(*) FROM STREAM() WINDOWING EVERY(60000, TIME, LAST, 86400000, TIME)";
    assert_eq!(keyed(day).map(|view| view.key_values()), Ok(1));
}

#[test]
fn values_of_a_key_are_called_as_columns_or_as_what_they_are() {
    for (text, expected) in [
        ("SELECT COUNT(*) AS n, k AS kk FROM STREAM() GROUP BY k", "[Some(1)] kk"),
        (
            "SELECT COUNT(*) AS n FROM STREAM() LATERAL VIEW EXPLODE(l) AS e GROUP BY a.b, e, x + 1",
            "[None, None, None] a.b, e, an expression",
        ),
        (
            "SELECT k, COUNT(*) AS n FROM STREAM() GROUP BY k WINDOWING TUMBLING(10, TIME)",
            "[None, Some(0)] window_start, k",
        ),
        (
            "SELECT window_start, k, COUNT(*) AS n FROM STREAM() GROUP BY window_start, k \
             WINDOWING TUMBLING(10, TIME)",
            "[Some(0), Some(1)] window_start, k",
        ),
        (
            "SELECT k, j, COUNT(*) AS n, window_start AS w FROM STREAM() GROUP BY ROLLUP (k, j) \
             WINDOWING TUMBLING(10, TIME)",
            "[Some(3), None, None, None] w, the set's number, the set's keys",
        ),
        (
            "SELECT window_start AS w, k, TOP(2, x) AS best, COUNT(*) AS n FROM STREAM() GROUP BY k \
             WINDOWING TUMBLING(10, TIME)",
            "[Some(0), Some(1)] w, k",
        ),
        (
            "SELECT TOP(2, x) AS best, GROUPING(k) AS g, window_start AS w FROM STREAM() GROUP BY ROLLUP (k) \
             WINDOWING TUMBLING(10, TIME)",
            "[Some(2), None, None] w, the set's number, the set's keys",
        ),
        (
            "SELECT k, COUNT(*) AS n FROM STREAM() GROUP BY ROLLUP (k)",
            "[None, None] the set's number, the set's keys",
        ),
    ] {
        let view = keyed(text).expect("a view");
        assert_eq!(format!("{:?} {}", view.key_columns(), view.key_names().join(", ")), expected, "{text}");
    }
}

/// The rows of a view of these events, that came together.
fn rows_of(text: &str, events: &[&str]) -> Vec<String> {
    let mut model = Model::new(keyed(text).expect("a view"));
    let event = |text: &&str| Event { arrival: 0, text: (*text).to_owned() };
    model.take(&events.iter().map(event).collect::<Vec<_>>(), 0, events.len());
    model.rows(0)
}

#[test]
fn grouping_before_a_list_of_rows_is_a_number() {
    let query =
        "SELECT a, GROUPING(a) AS g, COUNT(*) AS c, TOP(2, n) AS top FROM STREAM() GROUP BY ROLLUP (a)";
    let of_p = r#"{"a":"p","g":0,"c":1,"top":[{"n":5,"Count":1}]}"#;
    let total = r#"{"a":null,"g":1,"c":1,"top":[{"n":5,"Count":1}]}"#;
    let events = [r#"{"a":"p","n":5}"#];
    assert_eq!(rows_of(query, &events), [of_p, total]);
    assert_eq!(rows_of(&format!("{query} HAVING g = 1"), &events), [total]);
}

#[test]
fn a_window_in_group_by_is_that_of_the_row() {
    let window = "WINDOWING TUMBLING(1000, EVENT(ts, 0))";
    let events = [r#"{"k":"a","ts":1500}"#, r#"{"k":"a","ts":1700}"#, r#"{"k":"b","ts":2100}"#];
    let by = |items: &str, keys: &str| {
        let text = format!("SELECT {items}, COUNT(*) AS c FROM STREAM() GROUP BY {keys} {window}");
        rows_of(&text, &events)
    };
    assert_eq!(
        by("window_start, k", "window_start, k"),
        [r#"{"window_start":1000,"k":"a","c":2}"#, r#"{"window_start":2000,"k":"b","c":1}"#]
    );
    assert_eq!(
        by("window_end", "window_start, window_end"),
        [r#"{"window_end":2000,"c":2}"#, r#"{"window_end":3000,"c":1}"#]
    );
    let alone = format!("SELECT window_start FROM STREAM() GROUP BY window_start {window}");
    assert_eq!(rows_of(&alone, &events), [r#"{"window_start":1000}"#, r#"{"window_start":2000}"#]);
}

/// An event, and when it arrived.
#[derive(Debug, Clone)]
struct Event {
    arrival: Millis,
    text: String,
}

/// An action on a view between its batches.
#[derive(Debug, Clone)]
enum Action {
    /// Events that arrive together, so many milliseconds after those before.
    Batch(Millis, Vec<String>),
    Cut,
    Kept,
    PutBack,
    Evict(usize),
    /// Deletes expired keys.
    DeletePast,
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
    let time = prop_oneof![9 => (0..60i64).prop_map(|ts| ts.to_string()), 1 => Just("null".to_owned())];
    (key, 0..3u8, number, 0..9u8, time).prop_map(|(k, j, x, t, ts)| {
        format!(r#"{{"k":{k},"j":"j{j}","x":{x},"t":"t{t}","l":[{x},{{"t":{t}}}],"ts":{ts}}}"#)
    })
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        5 => (0..40i64, proptest::collection::vec(event(), 1..20)).prop_map(|(ms, events)| Action::Batch(ms, events)),
        2 => Just(Action::Cut),
        2 => Just(Action::Kept),
        1 => Just(Action::PutBack),
        2 => (0..9000usize).prop_map(Action::Evict),
        1 => Just(Action::DeletePast),
        1 => Just(Action::Crash),
    ]
}

type Store = BTreeMap<Vec<u8>, Vec<u8>>;

/// Keys with their states, or deleted.
type Cut = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// A view with a store, as an engine has it.
struct Model {
    view: KeyedQuery,
    shard: Shard,
    parts: Vec<KeyedPart>,
    store: Store,
    /// The last cut, until it is kept, and the position and time that it is of.
    cut: Option<(Cut, (usize, ViewTime))>,
    position: usize,
    time: ViewTime,
    late: u64,
    kept: (usize, ViewTime),
}

impl Model {
    fn new(view: KeyedQuery) -> Model {
        let parts = (0..PARTS).map(|_| KeyedPart::new(&view, true).expect("it has groups")).collect();
        let shard = Shard::default();
        Model {
            view,
            shard,
            parts,
            store: Store::new(),
            cut: None,
            position: 0,
            time: ViewTime::default(),
            late: 0,
            kept: (0, ViewTime::default()),
        }
    }

    /// Takes events in, in batches of at most so many that arrived together.
    fn take(&mut self, events: &[Event], first: usize, most: usize) {
        let together = events.chunk_by(|a, b| a.arrival == b.arrival).flat_map(|events| events.chunks(most));
        together.fold(first, |first, events| self.fold_batch(events, first));
    }

    fn fold_batch(&mut self, events: &[Event], first: usize) -> usize {
        let fold = self.view.fold(&mut self.shard, &batch(events, first as u64), self.time);
        self.time = fold.time;
        self.late += fold.late;
        self.position = first + events.len();
        let at = (self.position as u64, events[0].arrival);
        let Some(groups) = fold.groups else { return self.position };
        for (part, chosen) in self.parts.iter_mut().zip(by_part(&groups, PARTS, 1000).0) {
            for key in part.lacks(&groups, &chosen) {
                if let Some(state) = self.store.get(&key.ordered) {
                    part.load(&self.view, &key, state).expect("a state");
                }
            }
            part.merge(&self.view, &groups, &chosen, at);
        }
        self.position
    }

    fn delete_past(&mut self, now: Millis) {
        for (ordered, state) in &self.store {
            if self.view.is_state_past(state, now).expect("a state") {
                let key = Key::of_ordered(ordered).expect("a key");
                self.parts[key.part(PARTS)].delete_past(&self.view, &key, now);
            }
        }
    }

    fn rows(&self, now: Millis) -> Vec<String> {
        let mut states = self.store.clone();
        for (key, state) in self.parts.iter().flat_map(|part| part.unkept(&self.view, |_| true)) {
            store_state(&mut states, key, state);
        }
        let mut groups = self.view.no_groups().expect("it has groups");
        for (key, state) in &states {
            self.view.add_state(&mut groups, key, state, now).expect("a state");
        }
        let text = String::from_utf8(self.view.rows(groups, 0).text.into()).expect("text");
        text.lines().map(str::to_owned).collect()
    }

    fn row(&self, values: &[Value<'_>], now: Millis) -> Option<String> {
        let key = Key::of(values);
        let here = self.parts[key.part(PARTS)].row(&self.view, &key, now);
        let row = here.unwrap_or_else(|| {
            let state = self.store.get(&key.ordered)?;
            self.view.row_of_state(&key, state, now).expect("a state")
        });
        let shown = self.parts[key.part(PARTS)].shown_of(&self.view, &key).unwrap_or_else(|| {
            let state = self.store.get(&key.ordered).map(|state| &state[..]);
            self.view.shown_by_states([(&key.ordered[..], state)]).expect("a state")[0]
        });
        if row.is_some() || self.view.ttl_ms().is_none() {
            assert_eq!(shown, row.as_ref().and_then(Row::shown), "what a row shows is all of it");
        }
        let row = row.map(|row| String::from_utf8(row.json).expect("text"));
        assert_eq!(self.looked_at(&key, now), row, "values that are looked at are those of the row");
        row
    }

    /// A row from its values, as who looks at them in their place has them.
    fn looked_at(&self, key: &Key, now: Millis) -> Option<String> {
        let CompiledBody::Group(group) = &self.view.query.body else { return None };
        let look = |values: &[Value<'_>], _| {
            let mut row = vec![b'{'];
            for (column, value) in group.columns.iter().zip(values) {
                row.extend_from_slice(if row.len() > 1 { b"," } else { b"" });
                row.extend_from_slice(column.json_name.as_bytes());
                write_json(value, &mut row);
            }
            row.push(b'}');
            String::from_utf8(row).expect("text")
        };
        let (part, mut scratch, arena) = (&self.parts[key.part(PARTS)], Scratch::default(), Bump::new());
        match part.find(key) {
            KeyLocation::Here(group) => part.with_row(&self.view, group, now, (&mut scratch, &arena), look),
            KeyLocation::Nowhere => None,
            KeyLocation::Elsewhere => {
                let (state, within) = (self.store.get(&key.ordered)?, (&mut scratch, &arena));
                self.view.with_row_of_state(key.as_group(), state, now, within, look).expect("a state")
            }
        }
    }
}

fn store_state(store: &mut Store, key: Vec<u8>, state: Option<Vec<u8>>) {
    match state {
        Some(state) => store.insert(key, state),
        None => store.remove(&key),
    };
}

#[test]
fn what_a_batch_changes_is_told_from_what_a_row_shows() {
    let view = keyed(
        "SELECT k, FIRST(x) AS f, MAX(x) AS hi, COLLECT_SET(t) AS ts FROM STREAM() GROUP BY k HAVING COUNT(*) > 1",
    );
    let (view, mut shard) = (view.expect("a view"), Shard::default());
    let mut part = KeyedPart::new(&view, true).expect("it has groups");
    for (first, (text, is_shown)) in [
        (r#"{"k":1,"x":5,"t":"a"}"#, false),
        (r#"{"k":1,"x":3,"t":"a"}"#, true),
        (r#"{"k":1,"x":5,"t":"a"}"#, false),
        (r#"{"k":2,"x":5,"t":"a"}"#, false),
        (r#"{"k":1,"x":6,"t":"a"}"#, true),
        (r#"{"k":1,"t":"a"}"#, false),
        (r#"{"k":1,"t":"b"}"#, true),
    ]
    .into_iter()
    .enumerate()
    {
        let event = Event { arrival: 0, text: text.to_owned() };
        let groups = view.fold(&mut shard, &batch(&[event], first as u64), ViewTime::default()).groups;
        let groups = groups.expect("it is of the event");
        let before = part.shown(&view, &groups, &[0], 0);
        part.merge(&view, &groups, &[0], (first as u64 + 1, 0));
        assert_eq!(before != part.shown(&view, &groups, &[0], 0), is_shown, "{text}");
    }
}

/// Applies all that to a view; returns it, and the events.
fn act(new: fn() -> KeyedQuery, actions: Vec<Action>) -> (Model, Vec<Event>) {
    let mut model = Model::new(new());
    let mut events: Vec<Event> = Vec::new();
    let latest = |events: &[Event]| events.last().map_or(0, |event| event.arrival);
    for action in actions {
        match action {
            Action::Batch(ms, more) => {
                let arrival = latest(&events) + ms;
                let more: Vec<Event> = more.into_iter().map(|text| Event { arrival, text }).collect();
                model.take(&more, events.len(), usize::MAX);
                events.extend(more);
            }
            Action::Cut if model.cut.is_none() => {
                let mut changes = Changes::default();
                model.parts.iter_mut().for_each(|part| part.cut(&model.view, &mut changes));
                let pairs = changes.iter().map(|(key, state)| (key.to_vec(), state.map(<[u8]>::to_vec)));
                model.cut = Some((pairs.collect(), (model.position, model.time)));
            }
            Action::Kept => {
                if let Some((changes, at)) = model.cut.take() {
                    changes.into_iter().for_each(|(key, state)| store_state(&mut model.store, key, state));
                    model.kept = at;
                    model.parts.iter_mut().for_each(KeyedPart::checkpoint_committed);
                }
            }
            Action::PutBack => {
                model.cut = None;
                model.parts.iter_mut().for_each(KeyedPart::checkpoint_failed);
            }
            Action::Evict(bytes) => model.parts.iter_mut().for_each(|part| part.evict(bytes)),
            Action::DeletePast => model.delete_past(latest(&events)),
            Action::Crash => {
                let Model { store, kept, .. } = model;
                model = Model { store, kept, position: kept.0, time: kept.1, ..Model::new(new()) };
                for part in &mut model.parts {
                    *part = KeyedPart::new(&model.view, false).expect("it has groups");
                }
                // In other batches than before.
                model.take(&events[kept.0..], kept.0, 7);
            }
            Action::Cut => {}
        }
    }
    (model, events)
}

/// Different keys, by their values.
fn some_keys() -> Vec<[Value<'static>; 2]> {
    let first = [
        Value::Long(0),
        Value::Long(3),
        Value::String("a"),
        Value::Null,
        Value::Double(1.5),
        Value::Long(99),
    ];
    first.into_iter().map(|k| [k, Value::String("j1")]).collect()
}

/// The events that count in the end: of each key those behind the last one that deletes it, and behind the last gap.
fn counting(events: &[Event], now: Millis) -> Vec<Event> {
    let mut of_keys: BTreeMap<String, (Millis, Vec<(usize, Event)>)> = BTreeMap::new();
    for (place, event) in events.iter().enumerate() {
        let json: serde_json::Value = serde_json::from_str(&event.text).expect("JSON");
        // An event that the filter excludes is no event of the key.
        if json["x"] == 13 || json["x"] == "no" {
            continue;
        }
        let (latest, counting) = of_keys.entry(format!("{} {}", json["k"], json["j"])).or_default();
        if event.arrival - *latest >= TTL_MS as Millis {
            counting.clear();
        }
        *latest = event.arrival;
        match json["t"] == "t0" {
            true => counting.clear(),
            false => counting.push((place, event.clone())),
        }
    }
    of_keys.retain(|_, (latest, _)| now - *latest < TTL_MS as Millis);
    let mut all: Vec<(usize, Event)> = of_keys.into_values().flat_map(|(_, events)| events).collect();
    all.sort_by_key(|(place, _)| *place);
    all.into_iter().map(|(_, event)| event).collect()
}

proptest! {
    #[test]
    fn a_view_is_the_query_over_all_its_events(
        which in 0..6usize,
        actions in proptest::collection::vec(action(), 1..40),
    ) {
        let all: [fn() -> KeyedQuery; 6] = [
            || keyed(QUERY).expect("a view"),
            || keyed(OTHERS[0]).expect("a view"),
            || keyed(OTHERS[1]).expect("a view"),
            || keyed(OTHERS[2]).expect("a view"),
            || keyed(OTHERS[3]).expect("a view"),
            || keyed(OTHERS[4]).expect("a view"),
        ];
        let (model, events) = act(all[which], actions);
        let mut whole = Model::new(all[which]());
        whole.take(&events, 0, usize::MAX);
        prop_assert_eq!(model.rows(0), whole.rows(0));
        prop_assert_eq!(model.time, whole.time);
        // The window and the set that a key begins with.
        let lead = match which {
            0 => vec![],
            1 => vec![Value::Long(0)],
            2 => vec![Value::Long(20)],
            3 => vec![Value::Long(20), Value::Long(0)],
            4 => vec![Value::Long(15), Value::Long(0)],
            _ => vec![Value::Long(-40)],
        };
        for key in some_keys() {
            let rest = if which == 2 || which == 5 { &key[..1] } else { &key };
            let key = [&lead, rest].concat();
            prop_assert_eq!(model.row(&key, 0), whole.row(&key, 0));
        }
    }

    #[test]
    fn keys_that_are_deleted_are_nowhere(
        actions in proptest::collection::vec(action(), 1..40),
        later in 0..80i64,
    ) {
        let (model, events) = act(deleting, actions);
        let now = events.last().map_or(0, |event| event.arrival) + later;
        let mut whole = Model::new(keyed(QUERY).expect("a view"));
        whole.take(&counting(&events, now), 0, usize::MAX);
        prop_assert_eq!(model.rows(now), whole.rows(now));
        for key in some_keys() {
            prop_assert_eq!(model.row(&key, now), whole.row(&key, now));
        }
    }

    #[test]
    fn an_event_is_in_each_window_that_holds_it_and_is_open(
        events in proptest::collection::vec((0..90i64, -9..9i64), 0..60),
        batch in 1..9usize,
        (by_arrival, from_its_start) in any::<(bool, bool)>(),
        size in 1..45i64,
    ) {
        // The first so many of each ten milliseconds, or those before their end.
        let size = if from_its_start { size.min(10) } else { size };
        let (clock, first) = (if by_arrival { "TIME" } else { "EVENT" }, if from_its_start { "FIRST" } else { "LAST" });
        let of = if by_arrival { "TIME" } else { "EVENT(ts, 5)" };
        let text = format!(
            "SELECT window_start, window_end, COUNT(*) AS n, SUM(x) AS s FROM STREAM() \
             WINDOWING EVERY(10, {of}, {first}, {size}, {clock})"
        );
        let mut model = Model::new(keyed(&text).expect("a view"));
        let event = |(ts, x): &(i64, i64)| {
            Event { arrival: if by_arrival { *ts } else { 0 }, text: format!(r#"{{"ts":{ts},"x":{x}}}"#) }
        };
        let texts: Vec<Event> = events.iter().map(event).collect();
        model.take(&texts, 0, batch);
        let (mut expected, mut latest, mut late) = (BTreeMap::<i64, (i64, i64)>::new(), i64::MIN, 0);
        for (ts, x) in events {
            // By arrival, a clock that was set back stands still.
            let (at, watermark) = if by_arrival { (ts.max(latest), i64::MIN) } else { (ts, latest.saturating_sub(5)) };
            let starts = (-10..20).map(|n| if from_its_start { n * 10 } else { n * 10 - size });
            let holding: Vec<i64> = starts.filter(|&start| start <= at && at < start + size).collect();
            late += u64::from(!holding.is_empty() && holding.iter().all(|start| start + size <= watermark));
            for start in holding.into_iter().filter(|start| start + size > watermark) {
                let cell = expected.entry(start).or_default();
                *cell = (cell.0 + 1, cell.1 + x);
            }
            latest = latest.max(ts);
        }
        let rows = expected.iter().map(|(start, (n, s))| {
            format!(r#"{{"window_start":{start},"window_end":{},"n":{n},"s":{s}}}"#, start + size)
        });
        prop_assert_eq!(model.rows(0), rows.collect::<Vec<_>>());
        prop_assert_eq!(model.late, late);
    }

    #[test]
    fn when_it_was_looked_whether_time_goes_on_makes_no_difference(
        events in proptest::collection::vec((0..3000i64, -2500..500i64, 0..9i64, any::<bool>()), 1..40),
        most in 1..9usize,
        later in 0..5000i64,
    ) {
        const TEXT: &str = "SELECT window_start, COUNT(*) AS n FROM STREAM() WHERE x > 2 GROUP BY () \
             WINDOWING EVERY(700, EVENT, LAST, 1500, EVENT)";
        let (mut model, mut whole) = (Model::new(going_on(TEXT)), Model::new(going_on(TEXT)));
        // Simulated time: an hour behind the clock.
        let mut arrival = 3_600_000;
        for (number, &(after, ahead, x, looks)) in events.iter().enumerate() {
            let before = arrival;
            arrival += after;
            if looks {
                for now in [before + after / 2, arrival] {
                    let windows = *model.view.windows().expect("windows");
                    model.time = windows.advanced_to(model.time, now);
                    prop_assert!(windows.advanced_to(model.time, before) == model.time);
                }
            }
            let text = format!(r#"{{"ts":{},"x":{x}}}"#, arrival - 3_600_000 + ahead);
            let event = [Event { arrival, text }];
            model.take(&event, number, most);
            whole.take(&event, number, usize::MAX);
        }
        let windows = *whole.view.windows().expect("windows");
        for model in [&mut model, &mut whole] {
            model.time = windows.advanced_to(model.time, arrival + later);
        }
        prop_assert_eq!(model.time, whole.time);
        prop_assert_eq!(model.late, whole.late);
        prop_assert_eq!(model.rows(0), whole.rows(0));
        let idle = whole.time.peak.time;
        let expected = if later < 1000 { None } else { Some(()) };
        prop_assert_eq!((whole.time.peak.arrival == arrival + later && later > 0).then_some(()), expected);
        // A window closes when it is due, and not a millisecond before.
        let start = windows.first_open(idle).expect("time has come");
        if let Some(due) = windows.idle_due(whole.time) {
            let open = |until: Millis| windows.first_open(windows.advanced_to(whole.time, until).peak.time);
            prop_assert!(open(due) > Some(start));
            prop_assert!(due <= arrival + 1000 || open(due - 1) <= Some(start));
        }
        // In the end all windows are closed that hold anything, and one more.
        let (mut time, mut ticks) = (whole.time, 0);
        while let Some(due) = windows.idle_due(time) {
            time = windows.advanced_to(time, due);
            ticks += 1;
        }
        let last = events.iter().scan(0, |at, (after, ahead, ..)| { *at += after; Some(*at + ahead) }).max();
        let last = last.map(|last| last + 700);
        prop_assert!(ticks <= 5 && windows.first_open(time.peak.time) > last, "{ticks} {last:?}");
    }

    #[test]
    fn bytes_that_are_no_state_change_nothing(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
        let view = keyed(QUERY).expect("a view");
        let mut groups = view.no_groups().expect("it has groups");
        let key = Key::of(&[Value::Long(1), Value::Null]);
        if view.add_state(&mut groups, &key.ordered, &bytes, 0).is_err() {
            prop_assert!(groups.is_empty());
        }
        view.rows(groups, 0);
    }
}
