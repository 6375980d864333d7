//! Reads the embedded pack into rows and tables. `examples/flights/pack.py`, which writes it, documents the format.
//!
//! Knows nothing of JSON or of replaying.

use crate::demo::DemoError;

/// The pack, as `examples/flights/pack.py` wrote it.
const PACK: &[u8] =
    include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/flights/flights.pack.zst"));
/// Limit of the unpacked size; it is 8.4 MB now.
const PACK_BYTES_MAX: usize = 32 << 20;

/// The mark of a missing value in a column of 16-bit values.
pub(super) const MISSING: i16 = i16::MIN;
/// 2013-01-01T00:00:00Z in minutes since 1970-01-01T00:00:00Z.
pub(super) const YEAR_START_MINUTES: i64 = 22_616_640;
/// New York's daylight saving time in 2013, in local minutes of the year. The hour that came twice is taken as summer
/// time, which is right for every flight of the year.
const SUMMER: std::ops::Range<i32> = 68 * 1440 + 180..306 * 1440 + 120;
/// The measured values of an hour's weather, in the order of the pack and of the event.
pub(super) const WEATHER_VALUES: [&str; 9] =
    ["temp", "dewp", "humid", "wind_dir", "wind_speed", "wind_gust", "precip", "pressure", "visib"];

/// One flight; all else about it is in the tables that it points into.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    /// The scheduled departure, in local minutes since 2013-01-01T00:00.
    pub(super) departure: i32,
    /// The scheduled minutes from departure to arrival as the two clocks show it, modulo a day.
    pub(super) block: i16,
    /// A line of `Pack::routes`.
    pub(super) route: u16,
    /// A row of the airlines.
    pub(super) carrier: u16,
    /// The flight's number.
    pub(super) flight: u16,
    /// A line of `Pack::tailnums`, if known.
    pub(super) tailnum: Option<u16>,
    /// Minutes, or `MISSING` where the flight was cancelled.
    pub(super) dep_delay: i16,
    /// Minutes, or `MISSING` where the flight was cancelled or diverted.
    pub(super) arr_delay: i16,
    /// Minutes, or `MISSING` where the flight was cancelled or diverted.
    pub(super) air_time: i16,
    /// The local minute of the day of an arrival that is known though `arr_delay` is missing, or `MISSING`.
    pub(super) landed: i16,
}

impl Row {
    /// The scheduled departure in UTC, in minutes since 2013-01-01T00:00Z.
    pub(super) fn scheduled(&self) -> i32 {
        self.departure + if SUMMER.contains(&self.departure) { 240 } else { 300 }
    }

    /// Time of the flight: its departure, or, if it was cancelled, its scheduled departure; minutes as above.
    pub(super) fn happened(&self) -> i32 {
        self.scheduled() + self.departure_delay().unwrap_or(0)
    }

    /// Minutes from the scheduled to the actual departure; none if the flight was cancelled.
    pub(super) fn departure_delay(&self) -> Option<i32> {
        (self.dep_delay != MISSING).then_some(i32::from(self.dep_delay))
    }

    /// The scheduled arrival, in minutes of the day on the destination's clock.
    pub(super) fn scheduled_arrival(&self) -> i32 {
        (self.departure + i32::from(self.block)).rem_euclid(1440)
    }

    /// The arrival, in minutes of the day on the destination's clock, if known.
    pub(super) fn arrival(&self) -> Option<i32> {
        if self.arr_delay != MISSING {
            return Some((self.scheduled_arrival() + i32::from(self.arr_delay)).rem_euclid(1440));
        }
        (self.landed != MISSING).then_some(i32::from(self.landed))
    }
}

/// An hour's weather at an airport.
#[derive(Debug)]
pub(super) struct Weather<'a> {
    /// A line of `Pack::origins`.
    pub(super) origin: u16,
    /// UTC hours since 2013-01-01T00:00Z.
    pub(super) hour: u16,
    /// The values in the order of `WEATHER_VALUES`, as text of the table; `NA` is missing.
    pub(super) values: [&'a str; 9],
}

/// The unpacked tables; those that are text are CSV files as they were.
pub(super) struct Pack<'a> {
    pub(super) airlines: &'a str,
    pub(super) airports: &'a str,
    pub(super) planes: &'a str,
    /// The codes of the airports of departure.
    pub(super) origins: Vec<&'a str>,
    /// `origin,dest,distance`.
    pub(super) routes: Vec<&'a str>,
    pub(super) tailnums: Vec<&'a str>,
    pub(super) weather: Vec<Weather<'a>>,
    /// The rows in the order of the pack: by schedule, then by day.
    pub(super) rows: Vec<Row>,
}

/// The embedded pack, decompressed.
pub(super) fn decompress() -> Result<Vec<u8>, DemoError> {
    let bytes = zstd::bulk::Decompressor::upper_bound(PACK).unwrap_or(PACK_BYTES_MAX).min(PACK_BYTES_MAX);
    zstd::bulk::decompress(PACK, bytes).map_err(DemoError::Decompress)
}

/// Reads a decompressed pack.
pub(super) fn read(bytes: &[u8]) -> Result<Pack<'_>, DemoError> {
    let rest = bytes.strip_prefix(b"SWFL1\n").ok_or(DemoError::Malformed { what: "unknown header" })?;
    let mut reader = Reader { rest };
    let (airlines, airports, planes) = (reader.text()?, reader.text()?, reader.text()?);
    let weather = read_weather(&mut reader)?;
    let origins: Vec<&str> = reader.text()?.lines().collect();
    let routes: Vec<&str> = reader.text()?.lines().collect();
    let tailnums: Vec<&str> = reader.text()?.lines().collect();
    let rows = read_rows(&mut reader)?;
    if !reader.rest.is_empty() {
        return Err(DemoError::Malformed { what: "bytes after the last column" });
    }

    let carriers = airlines.lines().count().saturating_sub(1);
    let known = |row: &Row| {
        usize::from(row.route) < routes.len()
            && usize::from(row.carrier) < carriers
            && row.tailnum.is_none_or(|tailnum| usize::from(tailnum) < tailnums.len())
    };
    if !rows.iter().all(known) || weather.iter().any(|hour| usize::from(hour.origin) >= origins.len()) {
        return Err(DemoError::Malformed { what: "an index beyond its table" });
    }
    Ok(Pack { airlines, airports, planes, origins, routes, tailnums, weather, rows })
}

fn read_weather<'a>(reader: &mut Reader<'a>) -> Result<Vec<Weather<'a>>, DemoError> {
    let origins = reader.column()?;
    let hours = reader.differences()?;
    same_length(&[origins.len(), hours.len()])?;
    let hour = |(&origin, &hour)| Weather { origin: origin as u16, hour: hour as u16, values: [""; 9] };
    let mut weather: Vec<Weather<'a>> = origins.iter().zip(&hours).map(hour).collect();
    for value in 0..WEATHER_VALUES.len() {
        let values: Vec<&str> = reader.text()?.lines().collect();
        let indexes = reader.differences()?;
        same_length(&[weather.len(), indexes.len()])?;
        for (hour, index) in weather.iter_mut().zip(indexes) {
            let text = values.get(usize::from(index as u16));
            hour.values[value] = text.ok_or(DemoError::Malformed { what: "an index beyond its table" })?;
        }
    }
    Ok(weather)
}

fn read_rows(reader: &mut Reader<'_>) -> Result<Vec<Row>, DemoError> {
    let days = reader.differences()?;
    let (routes, carriers, flights) = (reader.differences()?, reader.differences()?, reader.differences()?);
    let (departures, blocks) = (reader.differences()?, reader.differences()?);
    let (tailnums, delays, late) = (reader.column()?, reader.column()?, reader.column()?);
    let (air_times, landed) = (reader.column()?, reader.column()?);
    same_length(&[days.len(), routes.len(), carriers.len(), flights.len(), departures.len(), blocks.len()])?;
    same_length(&[days.len(), tailnums.len(), delays.len(), late.len(), air_times.len(), landed.len()])?;

    let mut last_air_time = 0i16;
    let row = |at: usize| {
        if air_times[at] != MISSING {
            last_air_time = last_air_time.wrapping_add(air_times[at]);
        }
        Row {
            departure: i32::from(days[at]) * 1440 + i32::from(departures[at]),
            block: blocks[at],
            route: routes[at] as u16,
            carrier: carriers[at] as u16,
            flight: flights[at] as u16,
            tailnum: (tailnums[at] != MISSING).then_some(tailnums[at] as u16),
            dep_delay: delays[at],
            arr_delay: if late[at] == MISSING { MISSING } else { delays[at].wrapping_add(late[at]) },
            air_time: if air_times[at] == MISSING { MISSING } else { last_air_time },
            landed: landed[at],
        }
    };
    Ok((0..days.len()).map(row).collect())
}

fn same_length(lengths: &[usize]) -> Result<(), DemoError> {
    let same = lengths.iter().all(|length| *length == lengths[0]);
    same.then_some(()).ok_or(DemoError::Malformed { what: "columns of different lengths" })
}

/// The rest to read.
struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn bytes(&mut self, length: usize) -> Result<&'a [u8], DemoError> {
        let (bytes, rest) =
            self.rest.split_at_checked(length).ok_or(DemoError::Malformed { what: "too short" })?;
        self.rest = rest;
        Ok(bytes)
    }

    fn length(&mut self) -> Result<usize, DemoError> {
        let bytes = self.bytes(4)?.try_into().expect("four bytes were asked for");
        Ok(u32::from_le_bytes(bytes) as usize)
    }

    fn text(&mut self) -> Result<&'a str, DemoError> {
        let length = self.length()?;
        let bytes = self.bytes(length)?;
        std::str::from_utf8(bytes).map_err(|_| DemoError::Malformed { what: "text is not UTF-8" })
    }

    fn column(&mut self) -> Result<Vec<i16>, DemoError> {
        let length = self.length()?;
        let (low, high) = (self.bytes(length)?, self.bytes(length)?);
        Ok(low.iter().zip(high).map(|(&low, &high)| i16::from_le_bytes([low, high])).collect())
    }

    /// A column of differences, added up.
    fn differences(&mut self) -> Result<Vec<i16>, DemoError> {
        let mut column = self.column()?;
        let mut sum = 0i16;
        for value in &mut column {
            sum = sum.wrapping_add(*value);
            *value = sum;
        }
        Ok(column)
    }
}
