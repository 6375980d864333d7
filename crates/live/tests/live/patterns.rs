//! Compares pattern matches with those of plain loops over all events.
//!
//! The answers do not depend on how events are split over batches and shards, nor on when the clock is checked.
//!
//! The loops compute the match of each event separately. Then they drop matches that share events with an earlier match,
//! in the order in which matches are complete.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value as Json, json};
use swiftwater_event::{CheckLimits, EventMeta, check_block};
use swiftwater_lang::{Dialect, ParseOptions, parse};
use swiftwater_live::{
    Collector, CollectorLimits, Index, ResultSet, Shard, SlicePlan, Slices, SourcePosition, StandingQuery,
    StepInput, explain,
};
use swiftwater_testkit::{Rng, fewest};

const START: i64 = 1000;
const NAMES: [&str; 5] = ["A", "B", "C", "D", "E"];
const KINDS: [&str; 4] = ["a", "b", "c", "d"];

/// A step of a pattern: its variable, its least and most events, and what must be absent behind it.
#[derive(Debug, Clone)]
struct Element {
    variable: usize,
    least: usize,
    most: Option<usize>,
    absent: Vec<usize>,
}

/// The condition for an event to be a variable's.
#[derive(Debug, Clone, Default)]
struct Condition {
    /// Its kind is one of these.
    kinds: Option<Vec<&'static str>>,
    /// Its x is more than that of the last event of another variable.
    more_than: Option<usize>,
    /// The maximum number of events of another variable.
    at_most: Option<(usize, u64)>,
}

#[derive(Debug, Clone)]
struct Spec {
    elements: Vec<Element>,
    conditions: Vec<Condition>,
    within: i64,
    skips_past: bool,
    lateness: Option<i64>,
    has_keys: bool,
}

#[derive(Debug, Clone)]
struct Event {
    arrival: i64,
    json: Json,
}

impl Event {
    fn x(&self) -> Option<i64> {
        self.json["x"].as_i64()
    }
}

impl Spec {
    fn random(rng: &mut Rng) -> Spec {
        let count = 1 + rng.below(4);
        let mut elements: Vec<Element> = Vec::new();
        let mut variables = 0;
        for place in 0..count {
            // A variable may come twice.
            let variable = if place > 0 && rng.chance(0.1) { rng.below(variables) } else { variables };
            variables = variables.max(variable + 1);
            let (least, most) = match rng.below(8) {
                0 => (0, Some(1)),
                1 => (1, None),
                2 => (2, Some(3)),
                3 => (2, Some(2)),
                4 if count > 1 => (0, None),
                _ => (1, Some(1)),
            };
            elements.push(Element { variable, least, most, absent: Vec::new() });
        }
        if elements.iter().all(|element| element.least == 0) {
            elements[0].least = 1;
        }
        if rng.chance(0.5) {
            let place = rng.below(elements.len());
            elements[place].absent.push(variables);
            variables += 1;
        }
        let taken = |variable: usize| elements.iter().position(|element| element.variable == variable);
        let conditions = (0..variables).map(|variable| {
            let kinds = match rng.below(6) {
                0 => None,
                1 => Some(vec![KINDS[variable % 4], KINDS[(variable + 1) % 4]]),
                _ => Some(vec![KINDS[variable % 4]]),
            };
            let last = elements
                .iter()
                .rposition(|element| element.variable == variable || element.absent.contains(&variable));
            let others: Vec<usize> = (0..variables)
                .filter(|other| *other != variable)
                .filter(|other| taken(*other).is_some_and(|first| Some(first) <= last))
                .collect();
            let mut condition = Condition { kinds, ..Condition::default() };
            if !others.is_empty() && rng.chance(0.3) {
                condition.more_than = Some(rng.pick(&others));
            }
            if !others.is_empty() && rng.chance(0.1) {
                condition.at_most = Some((rng.pick(&others), 1 + rng.below(2) as u64));
            }
            condition
        });
        let conditions = conditions.collect();
        Spec {
            elements,
            conditions,
            within: rng.pick(&[5, 20, 60, 1000]),
            skips_past: rng.chance(0.5),
            lateness: rng.chance(0.4).then(|| rng.pick(&[0, 5, 20])),
            has_keys: rng.chance(0.8),
        }
    }

    fn variables(&self) -> Vec<usize> {
        let mut variables: Vec<usize> = self.elements.iter().map(|element| element.variable).collect();
        variables.sort_unstable();
        variables.dedup();
        variables
    }

    fn recognize(&self) -> String {
        let steps = self.elements.iter().map(|element| {
            let most = element.most.map_or(String::new(), |most| most.to_string());
            let absent: String =
                element.absent.iter().map(|absent| format!(" !{}", NAMES[*absent])).collect();
            format!("{}{{{},{most}}}{absent}", NAMES[element.variable], element.least)
        });
        let steps: Vec<String> = steps.collect();
        let defines: Vec<String> = self
            .conditions
            .iter()
            .enumerate()
            .filter_map(|(variable, condition)| {
                let kinds =
                    condition.kinds.as_ref().map(|kinds| format!("kind IN ('{}')", kinds.join("', '")));
                let more =
                    condition.more_than.map(|other| format!("{}.x > {}.x", NAMES[variable], NAMES[other]));
                let few =
                    condition.at_most.map(|(other, most)| format!("COUNT({}.*) <= {most}", NAMES[other]));
                let parts: Vec<String> = kinds.into_iter().chain(more).chain(few).collect();
                (!parts.is_empty()).then(|| format!("{} AS {}", NAMES[variable], parts.join(" AND ")))
            })
            .collect();
        let mut measures =
            vec!["COUNT(*) AS n".to_owned(), "match_start AS s".to_owned(), "match_end AS e".to_owned()];
        for variable in self.variables() {
            let v = NAMES[variable];
            measures.push(format!(
                "FIRST({v}.x) AS f{v}, {v}.x AS l{v}, COUNT({v}.*) AS n{v}, COUNT({v}.x) AS c{v}, SUM({v}.x) AS s{v}, MIN({v}.x) AS m{v}"
            ));
        }
        format!(
            "FROM STREAM() MATCH_RECOGNIZE ({}{} MEASURES {} AFTER MATCH SKIP {} PATTERN ({}) WITHIN {}{}{})",
            if self.has_keys { "PARTITION BY k " } else { "" },
            self.lateness.map_or(String::new(), |late| match late {
                0 => "ORDER BY EVENT(ts)".to_owned(),
                late => format!("ORDER BY EVENT(ts, {late})"),
            }),
            measures.join(", "),
            if self.skips_past { "PAST LAST ROW" } else { "TO NEXT ROW" },
            steps.join(" "),
            self.within,
            if defines.is_empty() { "" } else { " DEFINE " },
            defines.join(", ")
        )
    }

    fn may_be(&self, variable: usize, event: &Event, taken: &[(usize, &Event)]) -> bool {
        let condition = &self.conditions[variable];
        let kind = event.json["kind"].as_str().unwrap_or_default();
        let last = |of: usize| {
            taken.iter().rev().find(|(variable, _)| *variable == of).and_then(|(_, event)| event.x())
        };
        let count = |of: usize| taken.iter().filter(|(variable, _)| *variable == of).count() as u64;
        condition.kinds.as_ref().is_none_or(|kinds| kinds.contains(&kind))
            && condition
                .more_than
                .is_none_or(|other| last(other).zip(event.x()).is_some_and(|(last, x)| x > last))
            && condition.at_most.is_none_or(|(other, most)| count(other) <= most)
    }

    /// True if nothing is needed behind a step that has so many events.
    fn is_whole(&self, step: usize, count: usize) -> bool {
        count >= self.elements[step].least && self.elements[step + 1..].iter().all(|later| later.least == 0)
    }

    /// The match that begins with the first of these events: its events, with their places, and its completion (at the place
    /// of an event, or `None`: when its time is over).
    fn from<'e>(&self, events: &[(i64, &'e Event)], end: i64) -> Option<ExpectedMatch<'e>> {
        let over = events[0].0 + self.within;
        let waits = self.elements.last().is_some_and(|last| !last.absent.is_empty());
        let mut taken: Vec<(usize, &Event)> = Vec::new();
        let mut last = 0;
        // Before the first event, step -1 has all it needs.
        let (mut step, mut count) = (-1_isize, 0);
        for (place, (at, event)) in events.iter().enumerate() {
            if *at >= over {
                break;
            }
            let has_least = step < 0 || count >= self.elements[step as usize].least;
            let mut goes_to = None;
            for next in (0..self.elements.len()).rev().filter(|next| *next as isize >= step) {
                let is_next = next as isize > step;
                let between = &self.elements[((step + 1).max(0) as usize).min(next)..next];
                let is_open = if is_next {
                    has_least && between.iter().all(|passed| passed.least == 0)
                } else {
                    self.elements[next].most.is_none_or(|most| count < most)
                };
                if is_open && self.may_be(self.elements[next].variable, event, &taken) {
                    goes_to = Some(next);
                    break;
                }
            }
            if let Some(next) = goes_to {
                count = if next as isize == step { count + 1 } else { 1 };
                step = next as isize;
                taken.push((self.elements[next].variable, event));
                last = place;
                if !waits && self.is_whole(next, count) {
                    return Some(ExpectedMatch { taken, last, end: *at, at_event: Some(place) });
                }
                continue;
            }
            if step < 0 {
                // It begins with its first event or not at all.
                return None;
            }
            let here = step as usize;
            let behind = self.elements[here + 1..].iter().take_while(|later| later.least == 0);
            let gaps = std::iter::once(&self.elements[here]).chain(behind);
            if has_least && gaps.flat_map(|gap| &gap.absent).any(|absent| self.may_be(*absent, event, &taken))
            {
                return None;
            }
        }
        let is_over = waits && step >= 0 && self.is_whole(step as usize, count) && over <= end;
        is_over.then_some(ExpectedMatch { taken, last, end: over, at_event: None })
    }

    /// All matches, in the order in which they are complete.
    fn all(&self, events: &[(i64, &Event)], end: i64) -> Vec<Map<String, Json>> {
        let key = |event: &Event| if self.has_keys { event.json["k"].clone() } else { Json::Null };
        let mut found: Vec<Complete<'_>> = Vec::new();
        for (begin, (_, first)) in events.iter().enumerate() {
            let places: Vec<usize> =
                (begin..events.len()).filter(|place| key(events[*place].1) == key(first)).collect();
            let own: Vec<(i64, &Event)> = places.iter().map(|place| events[*place]).collect();
            if let Some(mut one) = self.from(&own, end) {
                one.last = places[one.last];
                let complete = match one.at_event {
                    // All events before it were there before.
                    Some(place) => (one.end, 1 + places[place], begin),
                    None => (one.end, 0, begin),
                };
                found.push((complete, begin, key(first).to_string(), one));
            }
        }
        found.sort_by_key(|(complete, ..)| *complete);
        let mut records = Vec::new();
        let mut used: std::collections::HashMap<String, usize> = std::collections::HashMap::new();
        for (_, begin, key, one) in found {
            if self.skips_past {
                if used.get(&key).is_some_and(|last| begin <= *last) {
                    continue;
                }
                used.insert(key.clone(), one.last);
            }
            records.push(self.record(&key, events[begin].0, &one));
        }
        records
    }

    fn record(&self, key: &str, start: i64, found: &ExpectedMatch<'_>) -> Map<String, Json> {
        let mut record = Map::new();
        if self.has_keys {
            record.insert("k".to_owned(), serde_json::from_str(key).expect("a key"));
        }
        record.insert("n".to_owned(), json!(found.taken.len()));
        record.insert("s".to_owned(), json!(start));
        record.insert("e".to_owned(), json!(found.end));
        for variable in self.variables() {
            let of = || found.taken.iter().filter(|(of, _)| *of == variable).map(|(_, event)| event.x());
            let known: Vec<i64> = of().flatten().collect();
            let v = NAMES[variable];
            record.insert(format!("f{v}"), json!(of().next().flatten()));
            record.insert(format!("l{v}"), json!(of().next_back().flatten()));
            record.insert(format!("n{v}"), json!(of().count()));
            record.insert(format!("c{v}"), json!(known.len()));
            record.insert(format!("s{v}"), json!((!known.is_empty()).then(|| known.iter().sum::<i64>())));
            record.insert(format!("m{v}"), json!(known.iter().min()));
        }
        record
    }

    /// The matches of a stream that ends at an instant, and how many events came too late.
    fn answer(&self, stream: &[Event], end: i64) -> (Vec<Map<String, Json>>, u64) {
        let Some(lateness) = self.lateness else {
            let events: Vec<(i64, &Event)> = stream.iter().map(|event| (event.arrival, event)).collect();
            return (self.all(&events, end), 0);
        };
        let (mut events, mut late, mut peak) = (Vec::new(), 0, None);
        let wanted = |event: &Event| {
            (0..self.conditions.len()).any(|variable| {
                let kinds = &self.conditions[variable].kinds;
                kinds
                    .as_ref()
                    .is_none_or(|kinds| kinds.contains(&event.json["kind"].as_str().unwrap_or_default()))
            })
        };
        for event in stream {
            let Some(at) = event.json["ts"].as_i64() else { continue };
            if peak.is_some_and(|peak: i64| at < peak - lateness) {
                late += u64::from(wanted(event));
            } else {
                events.push((at, event));
            }
            peak = Some(peak.map_or(at, |peak| peak.max(at)));
        }
        events.sort_by_key(|(at, _)| *at);
        (self.all(&events, peak.unwrap_or(i64::MIN)), late)
    }
}

/// The completion of a match (one by time is before the events of that time), its beginning, its key, and the match.
type Complete<'e> = ((i64, usize, usize), usize, String, ExpectedMatch<'e>);

struct ExpectedMatch<'e> {
    taken: Vec<(usize, &'e Event)>,
    last: usize,
    end: i64,
    at_event: Option<usize>,
}

fn stream(rng: &mut Rng, count: usize) -> Vec<Event> {
    let mut arrival = START;
    let event = |_| {
        arrival += rng.pick(&[0, 0, 1, 2, 7, 30]);
        let ts = if rng.chance(0.05) { json!(null) } else { json!(arrival - rng.below(25) as i64) };
        let x = if rng.chance(0.1) { json!(null) } else { json!(rng.below(10)) };
        let json = json!({"k": rng.below(3), "kind": rng.pick(&["a", "b", "c", "d", "e"]), "x": x, "ts": ts});
        Event { arrival, json }
    };
    (0..count).map(event).collect()
}

/// The way a stream is looked at.
struct InputSplit {
    shards: usize,
    rng: Rng,
}

/// Records, with the start of their window.
type Records = Vec<(Option<i64>, Map<String, Json>)>;

/// The answer of a query, and the numbers of late events and of those taken in.
fn run(text: &str, events: &[Event], end: i64, deal: &mut InputSplit) -> (Records, u64, usize) {
    let plan = parse(text, &ParseOptions::new(Dialect::Native, 0))
        .unwrap_or_else(|why| panic!("{text}\n{why}"))
        .query;
    let query = Arc::new(StandingQuery::compile(plan).expect(text));
    let limits = CollectorLimits {
        one_answer: false,
        answer_rows_default: 1 << 20,
        emits_empty_windows: false,
        times: false,
        closes_singly: false,
        pattern_partials_max: 1000,
    };
    let mut collector = Collector::new(Arc::clone(&query), START, START, limits);
    let slice_plan = Arc::new(SlicePlan::of(&query, START));
    let index = Index::default().with_slices(0, &query, &slice_plan);
    let mut shards: Vec<Shard> = (0..deal.shards).map(|_| Shard::default()).collect();
    let (mut slices, mut results): (Slices, Vec<ResultSet>) = (Slices::default(), Vec::new());
    let mut taken = 0;
    let mut rest = events;
    while !rest.is_empty() && !collector.is_done() {
        let (batch, behind) = rest.split_at((1 + deal.rng.below(12)).min(rest.len()));
        let text: Vec<String> = batch.iter().map(|event| event.json.to_string()).collect();
        let checked =
            check_block(Bytes::from(text.join("\n").into_bytes()), &CheckLimits::default(), 1).batch;
        let arrivals: Vec<i64> = batch.iter().map(|event| event.arrival).collect();
        let checked = checked.with_meta(EventMeta { arrival: arrivals[0], ..EventMeta::default() });
        let input = StepInput {
            batch: &checked,
            arrivals: &arrivals,
            before: None,
            place: SourcePosition::Number((events.len() - rest.len()) as u64),
            now_micros: 0,
            record_bytes_max: usize::MAX,
            nanos: &|| 0,
        };
        // As the engine does: nothing is looked at that arrives when something is due.
        if collector.due().is_some_and(|due| due <= arrivals[0]) {
            collector.close_by_arrival(arrivals[0], &mut slices, 0, &mut results);
        }
        let mut steps = Vec::new();
        shards[deal.rng.below(deal.shards)].step(&index, &input, &mut steps);
        for step in steps {
            if let Some(chunk) = step.pattern {
                let rows: Vec<u32> = chunk.events.iter().map(|event| event.row).collect();
                let count = collector.pattern_events(*chunk, &mut slices, 0, &mut results);
                taken = count
                    .checked_sub(1)
                    .map_or(taken, |last| events.len() - rest.len() + rows[last] as usize + 1);
            }
            if let Some(timed) = step.timed {
                collector.timed(*timed, &mut slices, 0, &mut results);
            }
        }
        rest = behind;
        if deal.rng.chance(0.3) {
            let until = rest.first().map_or(end, |next| next.arrival);
            let now = arrivals[arrivals.len() - 1].max(until - deal.rng.below(4) as i64);
            collector.close_by_arrival(now, &mut slices, 0, &mut results);
        }
    }
    collector.finish(end, &mut slices, 0, &mut results);
    assert_eq!(collector.failure(), None);
    let mut records = Vec::new();
    for result in &results {
        for line in result.text.split_inclusive(|&byte| byte == b'\n') {
            records.push((
                result.window.map(|window| window.start),
                serde_json::from_slice(line).expect("JSON"),
            ));
        }
    }
    (records, collector.late(), taken)
}

#[derive(Debug, Clone)]
struct Case {
    seed: u64,
    spec: Spec,
    events: Vec<Event>,
}

impl Case {
    fn new(seed: u64) -> Case {
        let mut rng = Rng::new(seed);
        let spec = Spec::random(&mut rng);
        let count = 5 + rng.below(80);
        Case { seed, spec, events: stream(&mut rng, count) }
    }

    fn end(&self) -> i64 {
        self.events.last().map_or(START, |last| last.arrival) + (self.seed % 3) as i64 * 50
    }

    fn deal(&self, salt: u64) -> InputSplit {
        let mut rng = Rng::new(self.seed ^ salt);
        InputSplit { shards: 1 + rng.below(3), rng }
    }

    fn check(&self, check: impl Fn(&Case) -> Result<(), String>) {
        let Err(why) = check(self) else { return };
        let fails = |events: &[Event]| check(&Case { events: events.to_vec(), ..self.clone() }).is_err();
        let few = Case { events: fewest(&self.events, fails), ..self.clone() };
        let why = check(&few).err().unwrap_or(why);
        let events: Vec<String> =
            few.events.iter().map(|event| format!("{} {}", event.arrival, event.json)).collect();
        panic!(
            "seed {}, until {}\n{}\n{}\n{why}",
            self.seed,
            few.end(),
            self.spec.recognize(),
            events.join("\n")
        );
    }
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, got: T, expected: T) -> Result<(), String> {
    if got == expected { Ok(()) } else { Err(format!("{what}\ngot      {got:?}\nexpected {expected:?}")) }
}

#[test]
fn matches_are_those_of_a_plain_loop() {
    let mut found = 0;
    for seed in 0..1000 {
        let case = Case::new(seed);
        let text = format!("SELECT * {}", case.spec.recognize());
        case.check(|case| {
            let (expected, late) = case.spec.answer(&case.events, case.end());
            for salt in [1, 2] {
                let (got, got_late, _) = run(&text, &case.events, case.end(), &mut case.deal(salt));
                let got: Vec<_> = got.into_iter().map(|(_, record)| record).collect();
                same("matches", &got, &expected)?;
                same("late", got_late, late)?;
            }
            Ok(())
        });
        found += case.spec.answer(&case.events, case.end()).0.len();
    }
    assert!(found > 3_000, "{found}");
}

#[test]
fn limit_takes_the_first_matches_and_no_event_behind_them() {
    for seed in 10_000..10_300 {
        let case = Case::new(seed);
        let text = format!("SELECT * {} LIMIT 2", case.spec.recognize());
        case.check(|case| {
            let (mut expected, _) = case.spec.answer(&case.events, case.end());
            expected.truncate(2);
            let (got, _, taken) = run(&text, &case.events, case.end(), &mut case.deal(1));
            let got: Vec<_> = got.into_iter().map(|(_, record)| record).collect();
            same("matches", &got, &expected)?;
            let (again, _, taken_again) = run(&text, &case.events, case.end(), &mut case.deal(2));
            same("matches", again.len(), expected.len())?;
            if case.spec.lateness.is_none() {
                same("events", taken, taken_again)?;
            }
            Ok(())
        });
    }
}

#[test]
fn matches_are_filtered_ordered_and_grouped_by_windows() {
    for seed in 20_000..20_300 {
        let mut case = Case::new(seed);
        (case.spec.lateness, case.spec.has_keys) = (None, true);
        let recognize = case.spec.recognize();
        case.check(|case| {
            let (all, _) = case.spec.answer(&case.events, case.end());
            let of = |record: &Map<String, Json>, name: &str| record[name].as_i64().unwrap_or_default();
            let start = |record: &Map<String, Json>| START + (of(record, "e") - START).div_euclid(40) * 40;
            let kept: Vec<_> = all.iter().filter(|record| of(record, "n") > 1 && of(record, "k") != 1).collect();
            let condition = "WHERE n > 1 AND k IN (0, 2)";

            let text = format!("SELECT e, n {recognize} {condition} WINDOWING TUMBLING(40, TIME)");
            let (got, ..) = run(&text, &case.events, case.end(), &mut case.deal(1));
            let expected: Vec<_> = kept.iter().map(|record| (Some(start(record)), of(record, "e"))).collect();
            same("windows", got.iter().map(|(at, record)| (*at, of(record, "e"))).collect(), expected)?;

            let text = format!(
                "SELECT k, COUNT(*) AS c, SUM(n) AS s {recognize} {condition} GROUP BY k WINDOWING TUMBLING(40, TIME)"
            );
            let mut groups = std::collections::BTreeMap::new();
            for record in &kept {
                let group = groups.entry((start(record), of(record, "k"))).or_insert((0, 0));
                *group = (group.0 + 1, group.1 + of(record, "n"));
            }
            let (got, ..) = run(&text, &case.events, case.end(), &mut case.deal(2));
            let got: Vec<_> = got
                .iter()
                .map(|(at, record)| ((at.unwrap_or(0), of(record, "k")), (of(record, "c"), of(record, "s"))))
                .collect();
            same("groups", got, groups.into_iter().collect())?;

            let text = format!("SELECT COUNT(*) AS c {recognize} WINDOWING TUMBLING(3, RECORD)");
            let (got, ..) = run(&text, &case.events, case.end(), &mut case.deal(3));
            let sizes: Vec<i64> = all.chunks(3).map(|chunk| chunk.len() as i64).collect();
            same("records", got.iter().map(|(_, record)| of(record, "c")).collect(), sizes)?;

            let text = format!("SELECT k, COUNT(*) AS c {recognize} GROUP BY k WINDOWING SESSION(30, TIME)");
            let (got, ..) = run(&text, &case.events, case.end(), &mut case.deal(4));
            let total: i64 = got.iter().map(|(_, record)| of(record, "c")).sum();
            same("sessions", total, all.len() as i64)?;

            let text = format!("SELECT FIRST(e) AS f, LAST(e) AS l, COLLECT_LIST(n) AS ns {recognize}");
            let (got, ..) = run(&text, &case.events, case.end(), &mut case.deal(6));
            let ends = |at: Option<&Map<String, Json>>| at.map(|record| of(record, "e"));
            let numbers: Vec<i64> = all.iter().map(|record| of(record, "n")).take(1000).collect();
            let expected = (ends(all.first()), ends(all.last()), numbers);
            let list = |record: &Map<String, Json>| -> Vec<i64> {
                record["ns"].as_array().into_iter().flatten().filter_map(Json::as_i64).collect()
            };
            let got = got.iter().map(|(_, record)| (record["f"].as_i64(), record["l"].as_i64(), list(record)));
            same("order", got.collect(), vec![expected])?;

            let text = format!("SELECT COUNT(*) AS c, MAX(n) AS m FROM (SELECT n {recognize})");
            let (got, ..) = run(&text, &case.events, case.end(), &mut case.deal(5));
            let most = all.iter().map(|record| of(record, "n")).max();
            let got = got.iter().map(|(_, record)| (of(record, "c"), record["m"].as_i64())).collect();
            same("outer", got, vec![(all.len() as i64, most)])
        });
    }
}

fn answers(recognize: &str, events: &[(i64, Json)], end: i64) -> Vec<String> {
    let events: Vec<Event> =
        events.iter().map(|(at, json)| Event { arrival: START + at, json: json.clone() }).collect();
    let text = format!("SELECT * FROM STREAM() MATCH_RECOGNIZE ({recognize})");
    let (got, ..) = run(&text, &events, START + end, &mut InputSplit { shards: 1, rng: Rng::new(1) });
    got.iter().map(|(_, record)| Json::from(record.clone()).to_string()).collect()
}

#[test]
fn a_match_takes_less_than_its_time() {
    let pattern = "MEASURES B.x AS x PATTERN (A B) WITHIN 10 DEFINE A AS x = 0, B AS x > 0";
    assert_eq!(answers(pattern, &[(0, json!({"x": 0})), (9, json!({"x": 1}))], 99), [r#"{"x":1}"#]);
    assert!(answers(pattern, &[(0, json!({"x": 0})), (10, json!({"x": 1}))], 99).is_empty());
}

#[test]
fn absence_is_known_when_the_time_is_over() {
    let pattern = "MEASURES A.x AS x, match_end - match_start AS took PATTERN (A !B) WITHIN 10 DEFINE A AS x = 0, B AS x > 0";
    assert_eq!(answers(pattern, &[(0, json!({"x": 0}))], 10), [r#"{"x":0,"took":10}"#]);
    assert!(answers(pattern, &[(0, json!({"x": 0}))], 9).is_empty());
    assert!(answers(pattern, &[(0, json!({"x": 0})), (9, json!({"x": 5}))], 99).is_empty());
    assert_eq!(answers(pattern, &[(0, json!({"x": 0})), (10, json!({"x": 5}))], 10).len(), 1);
}

#[test]
fn any_event_absent_means_the_very_next_one() {
    let pattern = "MEASURES B.x AS x PATTERN (A !Other B) WITHIN 10 DEFINE A AS x = 0, B AS x > 5";
    assert_eq!(answers(pattern, &[(0, json!({"x": 0})), (1, json!({"x": 6}))], 99).len(), 1);
    let between = [(0, json!({"x": 0})), (1, json!({"x": 3})), (2, json!({"x": 6}))];
    assert!(answers(pattern, &between, 99).is_empty());
}

#[test]
fn too_many_matches_of_one_key_are_told() {
    let text = "SELECT * FROM STREAM() MATCH_RECOGNIZE (PARTITION BY k PATTERN (A B) WITHIN 10 DEFINE A AS x = 0, B AS x > 0)";
    let plan = parse(text, &ParseOptions::new(Dialect::Native, 0)).expect(text).query;
    let query = Arc::new(StandingQuery::compile(plan).expect(text));
    let limits = CollectorLimits { pattern_partials_max: 2, ..crate::support::ONE_ANSWER };
    let mut collector = Collector::new(Arc::clone(&query), 0, 0, limits);
    let index = Index::default().with(0, &query);
    let mut bytes = Vec::new();
    for k in [1, 1, 2, 1] {
        let batch = crate::support::batch_of(&[format!(r#"{{"k": {k}, "x": 0}}"#)]);
        let mut steps = Vec::new();
        Shard::default().step(&index, &crate::support::input_of(&batch), &mut steps);
        let chunk = steps.remove(0).pattern.expect("an event");
        collector.pattern_events(*chunk, &mut Slices::default(), 0, &mut Vec::new());
        bytes.push(collector.bytes());
    }
    assert!(bytes[0] < bytes[1] && bytes[1] < bytes[2], "{bytes:?}");
    let failure = collector.failure().expect("a failure");
    assert!(failure.contains("more than 2 matches") && failure.contains("pattern_partials_max"), "{failure}");
}

#[test]
fn what_is_over_is_let_go_of() {
    let text = "SELECT * FROM STREAM() MATCH_RECOGNIZE (PARTITION BY k MEASURES LAST(A.t) AS t PATTERN (A B) WITHIN 10 DEFINE A AS x = 0, B AS x > 0)";
    let plan = parse(text, &ParseOptions::new(Dialect::Native, 0)).expect(text).query;
    let query = Arc::new(StandingQuery::compile(plan).expect(text));
    let mut collector = Collector::new(Arc::clone(&query), 0, 0, crate::support::ONE_ANSWER);
    let index = Index::default().with(0, &query);
    let events: Vec<String> = (0..50).map(|k| format!(r#"{{"k": {k}, "x": 0, "t": "some text"}}"#)).collect();
    let batch = crate::support::batch_of(&events);
    let mut steps = Vec::new();
    Shard::default().step(&index, &crate::support::input_of(&batch), &mut steps);
    let chunk = steps.remove(0).pattern.expect("events");
    collector.pattern_events(*chunk, &mut Slices::default(), 0, &mut Vec::new());
    assert!(collector.bytes() > 50 * 100);
    collector.close_by_arrival(9, &mut Slices::default(), 0, &mut Vec::new());
    assert!(collector.bytes() > 50 * 100);
    collector.close_by_arrival(10, &mut Slices::default(), 0, &mut Vec::new());
    assert_eq!(collector.bytes(), 0);
}

#[test]
fn a_pattern_is_explained() {
    let text = "SELECT * FROM STREAM(s) MATCH_RECOGNIZE (PARTITION BY user MEASURES COUNT(F.*) AS n
        PATTERN (F{3,} !S) WITHIN 1000 DEFINE F AS kind = 'failed', S AS kind = 'good') WHERE user = 'x'";
    let plan = parse(text, &ParseOptions::new(Dialect::Native, 0)).expect(text).query;
    let explained = explain(&StandingQuery::compile(plan).expect(text));
    for line in [
        "access     user = 'x' by ",
        "pattern    F{3,} !S within 1000 ms of arrival, no event in two matches",
        "           F is kind = 'failed'",
        "operator   one record per match, found key by key in the order of the stream",
        "columns    user, n",
    ] {
        assert!(explained.contains(line), "{line}\n{explained}");
    }
}
