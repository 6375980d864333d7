//! The parts of an event that many flights share, as JSON written once: airlines, routes, planes, weather.
//!
//! Knows nothing of time. About 6 MB, most of it the weather.

use std::collections::HashMap;

use super::pack::{Pack, Row, WEATHER_VALUES};
use crate::demo::{DemoError, text};

/// Many pieces of bytes in one buffer.
struct Pieces {
    bytes: Vec<u8>,
    ends: Vec<u32>,
}

impl Pieces {
    fn new() -> Pieces {
        Pieces { bytes: Vec::new(), ends: Vec::new() }
    }

    /// Ends the piece that was appended to `bytes`.
    fn end(&mut self) {
        self.ends.push(self.bytes.len() as u32);
    }

    fn get(&self, index: usize) -> &[u8] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] as usize };
        &self.bytes[start..self.ends[index] as usize]
    }
}

/// The parts from which events are made.
pub(super) struct Fragments {
    /// `"carrier":"UA",`
    carriers: Pieces,
    /// `"airline":{…},`
    airlines: Pieces,
    /// `"origin":{…},"dest":{…},`
    routes: Pieces,
    /// `"distance":1400,`
    distances: Pieces,
    /// `"tailnum":"N14228",`; the last one is for no tail number.
    tailnums: Pieces,
    /// `"plane":{…},`; the last one is for no tail number.
    planes: Pieces,
    /// `"weather":{…},`; the first one is for no weather.
    weather: Pieces,
    /// The piece of `weather` for each (origin, hour).
    weather_index: HashMap<(u16, u16), u32>,
    /// The index of each route's origin.
    route_origins: Vec<u16>,
}

impl Fragments {
    /// Writes them all.
    pub(super) fn new(pack: &Pack<'_>) -> Result<Fragments, DemoError> {
        let (carriers, airlines) = airlines(pack.airlines)?;
        let (routes, distances, route_origins) = routes(pack)?;
        let (tailnums, planes) = planes(pack)?;
        let (weather, weather_index) = weather(pack);
        Ok(Fragments {
            carriers,
            airlines,
            routes,
            distances,
            tailnums,
            planes,
            weather,
            weather_index,
            route_origins,
        })
    }

    /// Appends `"carrier"`, `"tailnum"`, `"origin"`, `"dest"`, `"airline"`, `"plane"`, `"weather"` and `"distance"`, each
    /// followed by a comma.
    pub(super) fn append(&self, row: &Row, out: &mut Vec<u8>) {
        let (carrier, route) = (usize::from(row.carrier), usize::from(row.route));
        let tailnum = row.tailnum.map_or(self.tailnums.ends.len() - 1, usize::from);
        // The hour of the schedule: the table's `time_hour` is the hour the departure was scheduled in.
        let hour = (self.route_origins[route], (row.scheduled() / 60) as u16);
        let weather = self.weather_index.get(&hour).map_or(0, |index| *index as usize);
        out.extend_from_slice(self.carriers.get(carrier));
        out.extend_from_slice(self.tailnums.get(tailnum));
        out.extend_from_slice(self.routes.get(route));
        out.extend_from_slice(self.airlines.get(carrier));
        out.extend_from_slice(self.planes.get(tailnum));
        out.extend_from_slice(self.weather.get(weather));
        out.extend_from_slice(self.distances.get(route));
    }
}

fn airlines(table: &str) -> Result<(Pieces, Pieces), DemoError> {
    let (mut carriers, mut airlines) = (Pieces::new(), Pieces::new());
    for line in table.lines().skip(1) {
        let [carrier, name] = fields(line)?;
        carriers.bytes.extend_from_slice(b"\"carrier\":");
        text::string(carrier, &mut carriers.bytes);
        carriers.bytes.push(b',');
        carriers.end();
        airlines.bytes.extend_from_slice(b"\"airline\":");
        object([("carrier", carrier, Is::Text), ("name", name, Is::Text)], &mut airlines.bytes);
        airlines.bytes.push(b',');
        airlines.end();
    }
    Ok((carriers, airlines))
}

fn routes(pack: &Pack<'_>) -> Result<(Pieces, Pieces, Vec<u16>), DemoError> {
    let mut airports = HashMap::new();
    for line in pack.airports.lines().skip(1) {
        let airport: [&str; 8] = fields(line)?;
        airports.insert(airport[0], airport);
    }
    // Four of the destinations are not in the table: of them only the code is known.
    let airport = |code, out: &mut Vec<u8>| {
        let [_, name, lat, lon, alt, tz, dst, tzone] = airports.get(code).copied().unwrap_or(["NA"; 8]);
        let position = [("lat", lat, Is::Number), ("lon", lon, Is::Number), ("alt", alt, Is::Number)];
        let zone = [("tz", tz, Is::Number), ("dst", dst, Is::Text), ("tzone", tzone, Is::Text)];
        let name = [("faa", code, Is::Text), ("name", name, Is::Text)];
        object(name.into_iter().chain(position).chain(zone), out);
        out.push(b',');
    };

    let (mut routes, mut distances, mut origins) = (Pieces::new(), Pieces::new(), Vec::new());
    for line in &pack.routes {
        let [origin, dest, distance] = fields(line)?;
        routes.bytes.extend_from_slice(b"\"origin\":");
        airport(origin, &mut routes.bytes);
        routes.bytes.extend_from_slice(b"\"dest\":");
        airport(dest, &mut routes.bytes);
        routes.end();
        distances.bytes.extend_from_slice(b"\"distance\":");
        value(distance, Is::Number, &mut distances.bytes);
        distances.bytes.push(b',');
        distances.end();
        let index = pack.origins.iter().position(|known| *known == origin);
        origins.push(index.ok_or(DemoError::Malformed { what: "a route from nowhere" })? as u16);
    }
    Ok((routes, distances, origins))
}

fn planes(pack: &Pack<'_>) -> Result<(Pieces, Pieces), DemoError> {
    let mut known = HashMap::new();
    for line in pack.planes.lines().skip(1) {
        let plane: [&str; 9] = fields(line)?;
        known.insert(plane[0], plane);
    }
    let (mut tailnums, mut planes) = (Pieces::new(), Pieces::new());
    for tailnum in pack.tailnums.iter().copied().chain(["NA"]) {
        tailnums.bytes.extend_from_slice(b"\"tailnum\":");
        value(tailnum, Is::Text, &mut tailnums.bytes);
        tailnums.bytes.push(b',');
        tailnums.end();
        planes.bytes.extend_from_slice(b"\"plane\":");
        match known.get(tailnum) {
            Some(&[_, year, kind, manufacturer, model, engines, seats, speed, engine]) => {
                let make = [("year", year, Is::Number), ("type", kind, Is::Text)];
                let model = [("manufacturer", manufacturer, Is::Text), ("model", model, Is::Text)];
                let size = [("engines", engines, Is::Number), ("seats", seats, Is::Number)];
                let engine = [("speed", speed, Is::Number), ("engine", engine, Is::Text)];
                object(make.into_iter().chain(model).chain(size).chain(engine), &mut planes.bytes);
            }
            None => planes.bytes.extend_from_slice(b"null"),
        }
        planes.bytes.push(b',');
        planes.end();
    }
    Ok((tailnums, planes))
}

fn weather(pack: &Pack<'_>) -> (Pieces, HashMap<(u16, u16), u32>) {
    let mut pieces = Pieces::new();
    pieces.bytes.extend_from_slice(b"\"weather\":null,");
    pieces.end();
    let mut index = HashMap::with_capacity(pack.weather.len());
    for hour in &pack.weather {
        index.insert((hour.origin, hour.hour), pieces.ends.len() as u32);
        pieces.bytes.extend_from_slice(b"\"weather\":");
        let values = WEATHER_VALUES.into_iter().zip(hour.values);
        object(values.map(|(name, value)| (name, value, Is::Number)), &mut pieces.bytes);
        pieces.bytes.push(b',');
        pieces.end();
    }
    (pieces, index)
}

/// The fields of a line; no field of these tables is quoted.
fn fields<const N: usize>(line: &str) -> Result<[&str; N], DemoError> {
    let mut found = line.split(',');
    let fields = std::array::from_fn(|_| found.next());
    if found.next().is_some() || fields.contains(&None) {
        return Err(DemoError::Malformed { what: "a line with another number of fields" });
    }
    Ok(fields.map(Option::unwrap_or_default))
}

/// The type of a field.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Is {
    Text,
    Number,
}

fn object<'a>(members: impl IntoIterator<Item = (&'a str, &'a str, Is)>, out: &mut Vec<u8>) {
    out.push(b'{');
    for (place, (name, member, is)) in members.into_iter().enumerate() {
        if place > 0 {
            out.push(b',');
        }
        text::string(name, out);
        out.push(b':');
        value(member, is, out);
    }
    out.push(b'}');
}

/// Appends a field; `NA` becomes `null`. Numbers keep their digits, except the few that are written `1e3`.
fn value(field: &str, is: Is, out: &mut Vec<u8>) {
    match is {
        _ if field == "NA" => out.extend_from_slice(b"null"),
        Is::Text => text::string(field, out),
        Is::Number if field.contains('e') => text::decimal_or_null(field.parse().ok(), out),
        Is::Number => out.extend_from_slice(field.as_bytes()),
    }
}
