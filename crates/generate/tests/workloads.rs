//! Tests that events match their workloads: fields, numbers of values, dependencies between values, sizes; and that they are
//! the same on every machine.

#![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::Value;
use swiftwater_generate::{
    DIMENSIONS, LogsSettings, MEASURES, SwipesSettings, TelecomSettings, Workload, WorkloadError,
};

fn text(workload: Workload, seed: u64, count: usize) -> String {
    let mut events = workload.begin(seed).unwrap();
    let mut out = Vec::new();
    (0..count).for_each(|_| events.push(&mut out));
    String::from_utf8(out).unwrap()
}

fn generate(workload: Workload, seed: u64, count: usize) -> (String, Vec<Value>) {
    let text = text(workload, seed, count);
    let events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(events.len(), count);
    (text, events)
}

fn telecom(skew: f64) -> Workload {
    Workload::Telecom(TelecomSettings { skew, ..TelecomSettings::default() })
}

fn flows() -> Workload {
    Workload::Telecom(TelecomSettings { flows: true, ..TelecomSettings::default() })
}

fn swipes(settings: SwipesSettings) -> Workload {
    Workload::Swipes(settings)
}

/// FNV-1a of 64 bits.
fn hash(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[test]
fn the_same_seed_gives_the_same_bytes_on_every_machine() {
    let workloads = [
        ("smart-home", Workload::SmartHome, 0xe5d0_dd66_8c77_758b),
        ("articles", Workload::Articles, 0x0380_6d4c_065e_e0f7),
        ("logs", Workload::Logs(LogsSettings::default()), 0x4dec_a4c8_b544_c384),
        ("swipes", swipes(SwipesSettings::default()), 0xf822_a16d_967b_1f7e),
        (
            "swipes, skewed",
            swipes(SwipesSettings { skew: 1.2, posted: true, ..SwipesSettings::default() }),
            0xcca1_82ea_2849_37e6,
        ),
        ("telecom", telecom(1.0), 0xabfd_0d7e_7dc7_79db),
        ("telecom, flows", flows(), 0xe380_5c2c_1190_17ca),
    ];
    let found = workloads.map(|(name, workload, _)| (name, hash(text(workload, 7, 2000).as_bytes())));
    let expected = workloads.map(|(name, _, hash)| (name, hash));
    assert_eq!(found, expected);
    for (name, workload, _) in workloads {
        assert_ne!(text(workload, 7, 10), text(workload, 8, 10), "{name}");
    }
}

#[test]
fn smart_home_events_are_as_published() {
    let (text, events) = generate(Workload::SmartHome, 1, 20_000);
    let distinct =
        |field: &str| events.iter().map(|event| event[field].to_string()).collect::<HashSet<_>>().len();
    assert_eq!((distinct("metro_area"), distinct("state")), (10, 9));
    assert_eq!((distinct("house_id"), distinct("device_id")), (21, 7));
    assert!(distinct("power_reading") > 19_000);
    let mut state_of: HashMap<String, String> = HashMap::new();
    for event in &events {
        let keys: Vec<_> = event.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(keys.len(), 6, "{keys:?}");
        let state = state_of.entry(event["metro_area"].to_string()).or_insert(event["state"].to_string());
        assert_eq!(*state, event["state"].to_string());
        let power = event["power_reading"].as_f64().unwrap();
        assert!((0.0..1000.0).contains(&power), "{power}");
        assert!((1..=21).contains(&event["house_id"].as_i64().unwrap()));
        assert!((1..=7).contains(&event["device_id"].as_i64().unwrap()));
        assert!(event["is_peak"].is_boolean());
    }
    let high = events.iter().filter(|event| event["power_reading"].as_f64().unwrap() > 950.0).count();
    // One event in ten has the factor 10, and one of these in twenty is above 950.
    assert!((50..150).contains(&high), "{high}");
    let peaks = events.iter().filter(|event| event["is_peak"] == true).count();
    assert!((9_700..10_300).contains(&peaks), "{peaks}");
    let bytes = text.len() / events.len();
    assert!((105..130).contains(&bytes), "{bytes}");
}

#[test]
fn articles_are_as_published() {
    let (text, events) = generate(Workload::Articles, 1, 3000);
    let fields = [
        "sha1",
        "title",
        "revision_ts",
        "contributor_username",
        "contributor_id",
        "comment",
        "model",
        "format",
        "text",
        "length",
    ];
    for event in &events {
        let object = event.as_object().unwrap();
        assert!(fields.iter().all(|field| object.contains_key(*field)) && object.len() == fields.len());
        let length = event["text"].as_str().unwrap().chars().count();
        assert_eq!(event["length"].as_u64().unwrap() as usize, length);
        assert!(event["revision_ts"].is_i64() && event["contributor_id"].is_i64());
    }
    let bytes = text.len() / events.len();
    assert!((3200..3800).contains(&bytes), "{bytes}");
    let packed = zstd::bulk::compress(text.as_bytes(), 3).unwrap().len();
    let ratio = text.len() as f64 / packed as f64;
    // English articles shrink to about a third.
    assert!((2.2..3.8).contains(&ratio), "{ratio}");
    let contributors: HashSet<_> = events.iter().map(|event| event["contributor_id"].as_i64()).collect();
    assert!(contributors.len() > 1000 && contributors.len() < 2950, "{}", contributors.len());
}

#[test]
fn log_lines_have_their_size_and_twelve_lines_a_trace() {
    let (text, events) = generate(Workload::Logs(LogsSettings::default()), 1, 10_000);
    let bytes = text.len() / events.len();
    assert!((330..=370).contains(&bytes), "{bytes}");
    let mut traces: HashMap<&str, (usize, HashSet<&str>)> = HashMap::new();
    for event in &events {
        let keys = event.as_object().unwrap().len();
        assert_eq!(keys, if event.get("stack").is_some() { 10 } else { 9 }, "{event}");
        assert!(event["host"].as_str().unwrap().starts_with(event["service"].as_str().unwrap()));
        assert!((200..600).contains(&event["status"].as_i64().unwrap()));
        assert!(event["duration_ms"].as_f64().unwrap() >= 0.0);
        let (lines, services) = traces.entry(event["trace_id"].as_str().unwrap()).or_default();
        *lines += 1;
        services.insert(event["service"].as_str().unwrap());
    }
    let whole = traces.values().filter(|(lines, _)| *lines == 12).count();
    assert!(traces.len() - whole <= 64 && traces.values().all(|(lines, _)| *lines <= 12), "{whole}");
    let services = traces.values().filter(|(lines, services)| *lines == 12 && services.len() > 1).count();
    assert!(services * 100 > whole * 95, "{services} of {whole} traces are of several services");
    let stacks: Vec<&str> = events.iter().filter_map(|event| event["stack"].as_str()).collect();
    assert!((20..60).contains(&stacks.len()), "{}", stacks.len());
    assert!(stacks.iter().all(|stack| (1000..6000).contains(&stack.len()) && stack.contains("\n\tat ")));
}

#[test]
fn log_lines_have_frequent_and_rare_words_and_other_scripts() {
    let (text, events) = generate(Workload::Logs(LogsSettings::default()), 1, 10_000);
    let messages: Vec<&str> = events.iter().map(|event| event["message"].as_str().unwrap()).collect();
    let with = |words: &str| messages.iter().filter(|message| message.contains(words)).count();
    for word in ["connection", "timeout"] {
        assert!((800..1200).contains(&with(word)), "{word}: {}", with(word));
    }
    assert!((150..450).contains(&with("connection timeout")), "{}", with("connection timeout"));
    let mut words: HashMap<&str, usize> = HashMap::new();
    for word in
        text.split(|c: char| !c.is_alphanumeric()).filter(|word| word.chars().all(char::is_alphabetic))
    {
        *words.entry(word).or_default() += 1;
    }
    let rare = words.values().filter(|count| **count == 1).count();
    assert!(rare > 2000, "{rare} words are in one line alone");
    let translated = text.lines().filter(|line| !line.is_ascii()).count();
    assert!((160..=240).contains(&translated), "{translated}");
    for script in ["用户", "ユーザー", "사용자", "ผู้ใช้", "الاتصال", "Соединение", "भुगतान", "🎉"]
    {
        assert!(with(script) > 3, "{script}: {}", with(script));
    }
}

#[test]
fn log_lines_come_at_their_rate() {
    let settings = LogsSettings { start_ms: 1_709_251_199_000, events_per_second: 200.0 };
    let (_, events) = generate(Workload::Logs(settings), 1, 401);
    assert_eq!(
        (&events[0]["ts"], &events[199]["ts"]),
        (&"2024-02-29T23:59:59.000Z".into(), &"2024-02-29T23:59:59.995Z".into())
    );
    assert_eq!(events[400]["ts"], "2024-03-01T00:00:01.000Z");
}

#[test]
fn swipes_are_as_published() {
    let (text, events) =
        generate(swipes(SwipesSettings { posted: true, ..SwipesSettings::default() }), 1, 5000);
    for event in &events {
        assert_eq!(event.as_object().unwrap().len(), 3);
        for field in ["swiper", "swipee"] {
            let id: i64 = event[field].as_str().unwrap().parse().unwrap();
            assert!((1..=50_000).contains(&id), "{id}");
        }
        assert_eq!(event["comment"].as_str().unwrap().len(), 256);
    }
    assert!((290..310).contains(&(text.len() / 5000)), "{}", text.len() / 5000);
    let settings = SwipesSettings { swipers: 5000, swipees: 1_000_000, ..SwipesSettings::default() };
    let (_, events) = generate(swipes(settings), 1, 5000);
    let most = |field: &str| events.iter().filter_map(|event| event[field].as_i64()).max();
    assert!((4_900..=5000).contains(&most("swiper").unwrap()), "{:?}", most("swiper"));
    assert!((990_000..=1_000_000).contains(&most("swipee").unwrap()), "{:?}", most("swipee"));
    let right = events.iter().filter(|event| event["direction"] == "right").count();
    let left = events.iter().filter(|event| event["direction"] == "left").count();
    assert!(right + left == 5000 && (2300..2700).contains(&right), "{right}, {left}");
}

/// The dimensions of probes' records, with the maximum number of values.
const VALUES_MAX: [(&str, usize); 62] = [
    ("probe.id", 64),
    ("probe.vendor", 49),
    ("probe.sw", 49),
    ("probe.site", 40),
    ("probe.link", 256),
    ("probe.iface", 49),
    ("rec.type", 49),
    ("rec.procedure", 49),
    ("rec.close", 49),
    ("sub.hash", 1_000_000),
    ("sub.segment", 49),
    ("sub.plan", 60),
    ("sub.contract", 49),
    ("sub.homeMcc", 200),
    ("sub.homeMnc", 600),
    ("sub.roaming", 2),
    ("dev.tac", 20_000),
    ("dev.vendor", 300),
    ("dev.model", 5_000),
    ("dev.os", 49),
    ("dev.osVer", 200),
    ("dev.type", 49),
    ("dev.volte", 2),
    ("dev.cat", 49),
    ("radio.rat", 49),
    ("radio.mcc", 49),
    ("radio.mnc", 49),
    ("radio.tac", 500),
    ("radio.enb", 10_000),
    ("radio.cell", 50_000),
    ("radio.sector", 49),
    ("radio.band", 49),
    ("radio.earfcn", 60),
    ("radio.cellType", 49),
    ("radio.vendor", 49),
    ("radio.region", 30),
    ("core.mme", 16),
    ("core.sgw", 16),
    ("core.pgw", 16),
    ("core.pcrf", 8),
    ("core.apn", 100),
    ("core.pdnType", 49),
    ("core.qci", 49),
    ("core.arp", 49),
    ("core.bearer", 49),
    ("svc.app", 500),
    ("svc.cat", 30),
    ("svc.proto", 49),
    ("svc.l4", 49),
    ("svc.host", 100_000),
    ("svc.cdn", 49),
    ("svc.tls", 49),
    ("svc.httpClass", 49),
    ("svc.video", 2),
    ("svc.country", 200),
    ("svc.asn", 5_000),
    ("out.status", 49),
    ("out.layer", 49),
    ("out.cause", 300),
    ("out.sub", 100),
    ("out.stage", 49),
    ("out.retry", 2),
];

/// The functional dependencies.
const FOLLOWS: [(&str, &[&str]); 10] = [
    ("probe.link", &["probe.id", "probe.iface"]),
    ("probe.id", &["probe.vendor", "probe.sw", "probe.site"]),
    ("sub.hash", &["sub.segment", "sub.plan", "sub.contract", "sub.homeMnc", "sub.roaming"]),
    ("sub.homeMnc", &["sub.homeMcc"]),
    ("dev.tac", &["dev.vendor", "dev.model", "dev.os", "dev.osVer", "dev.type", "dev.volte", "dev.cat"]),
    (
        "radio.cell",
        &["radio.enb", "radio.sector", "radio.band", "radio.earfcn", "radio.cellType", "radio.rat"],
    ),
    ("radio.enb", &["radio.tac", "radio.region", "radio.vendor", "radio.mcc", "radio.mnc"]),
    ("svc.host", &["svc.app", "svc.cdn", "svc.country", "svc.asn"]),
    ("svc.app", &["svc.cat", "svc.proto", "svc.l4", "svc.video"]),
    ("out.cause", &["out.status", "out.layer"]),
];

#[test]
fn dimensions_are_those_of_the_workload() {
    assert_eq!(DIMENSIONS, VALUES_MAX.map(|(path, _)| path));
}

fn at<'a>(event: &'a Value, path: &str) -> &'a Value {
    let (object, field) = path.split_once('.').unwrap();
    &event[object][field]
}

#[test]
fn telecom_records_have_their_fields_and_follow_their_dependencies() {
    let (text, events) = generate(telecom(0.0), 1, 20_000);
    let mut values: BTreeMap<&str, HashSet<String>> = BTreeMap::new();
    let mut follows: HashMap<(&str, &str, String), String> = HashMap::new();
    for (seq, event) in events.iter().enumerate() {
        assert_eq!(event["seq"], seq);
        let duration = event["tsEnd"].as_i64().unwrap() - event["tsStart"].as_i64().unwrap();
        assert_eq!(event["meas"]["durMs"].as_i64(), Some(duration));
        for (path, _) in VALUES_MAX {
            let value = at(event, path);
            assert!(value.is_string() || value.is_number() || value.is_boolean(), "{path}: {value}");
            values.entry(path).or_default().insert(value.to_string());
        }
        for name in MEASURES {
            assert!(event["meas"][name].as_i64().is_some_and(|measure| measure >= 0), "{name}: {event}");
        }
        assert_eq!(event["meas"].as_object().unwrap().len(), 20);
        let meas = |name: &str| event["meas"][name].as_i64().unwrap();
        assert!(meas("successes") <= meas("attempts") && meas("hoFails") <= meas("handovers"));
        for (from, all) in FOLLOWS {
            for to in all {
                let key = (from, *to, at(event, from).to_string());
                let first = follows.entry(key).or_insert_with(|| at(event, to).to_string());
                assert_eq!(*first, at(event, to).to_string(), "{from} says {to}");
            }
        }
    }
    for (path, most) in VALUES_MAX {
        let found = values[path].len();
        assert!(found <= most && found > 1 || path == "radio.mcc", "{path}: {found} values");
        // A dimension with few values has all of them.
        assert!(most >= 300 || most == 49 || found == most, "{path}: {found} values of {most}");
    }
    let bytes = text.len() / events.len();
    assert!((1900..2200).contains(&bytes), "{bytes}");
    // The share of the record that no query reads.
    let raw: usize = events.iter().map(|event| event["raw"].to_string().len() + 7).sum();
    let share = raw as f64 / text.len() as f64;
    assert!((0.35..0.45).contains(&share), "{share}");
}

#[test]
fn telecom_rollups_add_up_to_the_grand_total() {
    let (_, events) = generate(telecom(1.0), 3, 5000);
    let grand: i64 = events.iter().map(|event| event["meas"]["bytesDl"].as_i64().unwrap()).sum();
    for (path, _) in VALUES_MAX {
        let mut rollup: HashMap<String, i64> = HashMap::new();
        for event in &events {
            *rollup.entry(at(event, path).to_string()).or_default() +=
                event["meas"]["bytesDl"].as_i64().unwrap();
        }
        assert_eq!(rollup.values().sum::<i64>(), grand, "{path}");
    }
}

#[test]
fn skew_makes_some_values_frequent() {
    let most = |skew| {
        let (_, events) = generate(telecom(skew), 1, 5000);
        let mut counts: HashMap<i64, usize> = HashMap::new();
        events
            .iter()
            .for_each(|event| *counts.entry(event["radio"]["cell"].as_i64().unwrap()).or_default() += 1);
        counts.into_values().max().unwrap()
    };
    let (even, zipf, steep) = (most(0.0), most(1.0), most(1.5));
    assert!(even < 10 && (300..600).contains(&zipf) && steep > 1500, "{even}, {zipf}, {steep}");
}

#[test]
fn flows_have_services_and_measures_of_their_own() {
    let (_, events) = generate(flows(), 1, 2000);
    let mut lengths = HashSet::new();
    for event in &events {
        assert!(event.get("svc").is_none() && event.get("meas").is_none());
        let flows = event["flows"].as_array().unwrap();
        lengths.insert(flows.len());
        for flow in flows {
            assert_eq!(flow["svc"].as_object().unwrap().len(), 11);
            assert_eq!(flow["meas"].as_object().unwrap().len(), 20);
        }
    }
    let mut lengths: Vec<_> = lengths.into_iter().collect();
    lengths.sort_unstable();
    assert_eq!(lengths, [1, 2, 3, 4, 5, 6, 7, 8]);
}

#[test]
fn records_come_at_their_rate() {
    let settings =
        TelecomSettings { start_ms: 5_000_000, events_per_second: 200.0, ..TelecomSettings::default() };
    let (_, events) = generate(Workload::Telecom(settings), 1, 401);
    assert_eq!((&events[0]["tsEnd"], &events[400]["tsEnd"]), (&5_000_000.into(), &5_002_000.into()));
}

#[test]
fn noise_makes_records_larger_and_nothing_else() {
    let of = |noise| {
        let settings = TelecomSettings { noise, ..TelecomSettings::default() };
        let (text, events) = generate(Workload::Telecom(settings), 1, 500);
        let elements = events[7]["raw"]["ies"].as_array().unwrap().len();
        (text.len() / 500, elements)
    };
    let (none, two, many) = (of(0), of(2), of(20));
    assert_eq!((none.1, two.1, many.1), (0, 2, 20));
    assert!((1200..1500).contains(&none.0) && (6500..8500).contains(&many.0), "{none:?}, {many:?}");
}

#[test]
fn settings_out_of_range_are_refused() {
    let refused = |workload: Workload| workload.begin(1).err().unwrap();
    assert_eq!(refused(telecom(-0.1)), WorkloadError::Skew(-0.1));
    assert_eq!(refused(telecom(f64::INFINITY)), WorkloadError::Skew(f64::INFINITY));
    assert_eq!(
        refused(swipes(SwipesSettings { swipers: 0, ..SwipesSettings::default() })),
        WorkloadError::Users(0)
    );
    let rate = TelecomSettings { events_per_second: 0.0, ..TelecomSettings::default() };
    assert_eq!(refused(Workload::Telecom(rate)), WorkloadError::Rate(0.0));
    let rate = LogsSettings { events_per_second: f64::INFINITY, ..LogsSettings::default() };
    assert_eq!(refused(Workload::Logs(rate)), WorkloadError::Rate(f64::INFINITY));
}
