"""Sends Parquet and CSV that pyarrow wrote, over HTTP.

usage: send_tables.py URL

crates/server/tests/server/clients.rs runs it.
"""

import datetime
import decimal
import gzip
import io
import json
import sys
import urllib.error
import urllib.request

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

import checks
from checks import fails, same

URL = sys.argv[1]
UTC = datetime.timezone.utc
PARQUET = "application/vnd.apache.parquet"


def sql(text):
    request = urllib.request.Request(f"{URL}/v1/sql", text.encode(), {"accept": "application/json"})
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def send(stream, body, content_type, **fields):
    fields = {"content-type": content_type, **{name.replace("_", "-"): value for name, value in fields.items()}}
    request = urllib.request.Request(f"{URL}/v1/streams/{stream}/events", body, fields)
    with urllib.request.urlopen(request, timeout=120) as answer:
        return json.load(answer)


def parquet(table, **options):
    out = io.BytesIO()
    pq.write_table(table, out, **options)
    return out.getvalue()


COLUMNS = {
    "i8": (pa.int8(), [1, None], [1, None]),
    "u64": (pa.uint64(), [2**64 - 1, 0], [2**64 - 1, 0]),
    "i64": (pa.int64(), [-(2**63), None], [-(2**63), None]),
    "f32": (pa.float32(), [0.1, float("-inf")], [0.1, "-Infinity"]),
    "f64": (pa.float64(), [0.1, float("nan")], [0.1, "NaN"]),
    "dec": (pa.decimal128(20, 3), [decimal.Decimal("-12.340"), None], [-12.34, None]),
    "s": (pa.string(), ["ä \"q\" \n\t\\", ""], ["ä \"q\" \n\t\\", ""]),
    "large": (pa.large_string(), ["x" * 5000, None], ["x" * 5000, None]),
    "dict": (pa.dictionary(pa.int32(), pa.string()), ["a", "b"], ["a", "b"]),
    "bin": (pa.binary(), [b"\x00\xff", None], ["AP8=", None]),
    "b": (pa.bool_(), [True, None], [True, None]),
    "date": (pa.date32(), [datetime.date(2026, 1, 31), None], ["2026-01-31", None]),
    "ts": (pa.timestamp("us", "UTC"), [datetime.datetime(2026, 1, 31, 12, 0, 0, 5, UTC), None],
           ["2026-01-31T12:00:00.000005Z", None]),
    "ms": (pa.timestamp("ms"), [datetime.datetime(2026, 1, 31, 12), None], ["2026-01-31T12:00:00.000Z", None]),
    "list": (pa.list_(pa.int64()), [[1, None, 3], []], [[1, None, 3], []]),
    "struct": (pa.struct([("x", pa.int64()), ("y", pa.list_(pa.string()))]), [{"x": 1, "y": ["a"]}, None],
               [{"x": 1, "y": ["a"]}, None]),
    "map": (pa.map_(pa.string(), pa.float64()), [[("k", 0.5)], []], [{"k": 0.5}, {}]),
    "none": (pa.null(), [None, None], [None, None]),
}


def rows_become_events_of_the_same_types():
    table = pa.table({name: pa.array(values, ty) for name, (ty, values, _) in COLUMNS.items()})
    sql("CREATE STREAM pq_types (i64 LONG)")
    same(send("pq_types", parquet(table), PARQUET)["accepted"], 2)
    rows = sql("SELECT i64, _event FROM pq_types ORDER BY _offset")
    for place, row in enumerate(rows):
        event = json.loads(row["_event"])
        for name, (_, _, expected) in COLUMNS.items():
            found = event.get(name)
            same(found, expected[place], name)
    same(rows[0]["i64"], -(2**63))


def files_of_every_packing_are_read():
    for packing in ("NONE", "SNAPPY", "GZIP", "BROTLI", "LZ4", "ZSTD"):
        stream = f"pq_{packing.lower()}"
        sql(f"CREATE STREAM {stream} (n LONG)")
        table = pa.table({"n": range(50_000), "t": [f"text {n % 100}" for n in range(50_000)]})
        body = parquet(table, compression=packing, row_group_size=7_000, data_page_version="2.0")
        told = send(stream, body, PARQUET)
        same((told["accepted"], told["rejected"]), (50_000, 0), packing)
        same(sql(f"SELECT count(*) AS c, sum(n) AS s FROM {stream}"), [{"c": 50_000, "s": 1_249_975_000}], packing)
    told = send("pq_zstd", gzip.compress(parquet(table)), PARQUET, content_encoding="gzip")
    same(told["accepted"], 50_000)


def a_refused_row_is_named():
    sql("CREATE STREAM pq_refused (n LONG CHECK (n <> 5))")
    table = pa.table({"n": pa.array(range(10), pa.int64())})
    told = send("pq_refused", parquet(table), PARQUET)
    same((told["accepted"], told["rejected"]), (9, 1))
    # Rows count from 1.
    same((told["errors"][0]["line"], told["errors"][0]["path"]), (6, "n"))
    same(sql("SELECT count(*) AS c, sum(n) AS s FROM pq_refused"), [{"c": 9, "s": 40}])


def numbered_files_are_stored_once():
    sql("CREATE STREAM pq_once (n LONG)")
    body = parquet(pa.table({"n": range(1000)}))
    for repeated in (False, True):
        told = send("pq_once", body, PARQUET, swiftwater_producer="files", swiftwater_sequence="1")
        same(told.get("repeated", False), repeated)
    same(sql("SELECT count(*) AS c FROM pq_once"), [{"c": 1000}])


def what_is_no_parquet_is_refused():
    good = parquet(pa.table({"n": range(1000), "t": [str(n) for n in range(1000)]}))
    damaged = bytearray(good)
    for at in range(4, len(damaged) - 400, 7):
        damaged[at] ^= 0x5A
    for body in (b"", b"PAR1", b"{}", good[:-10], good[:100] + b"PAR1", bytes(damaged)):
        error = fails(urllib.error.HTTPError, lambda body=body: send("pq_odd", body, PARQUET), len(body))
        problem = json.load(error)
        same((error.code, problem["type"]), (400, "urn:swiftwater:problem:body-corrupt"), problem)
    # The server goes on.
    same(send("pq_odd", good, PARQUET)["accepted"], 1000)


def csv_becomes_events():
    table = pa.table({"n": range(20_000), "x": [n / 4 for n in range(20_000)], "t": ['a "q",\nä'] * 20_000})
    out = io.BytesIO()
    pa.csv.write_csv(table, out)
    sql("CREATE STREAM csv_s (n LONG, x DOUBLE, t STRING)")
    told = send("csv_s", out.getvalue(), "text/csv")
    same((told["accepted"], told["rejected"]), (20_000, 0))
    same(sql("SELECT count(*) AS c, sum(n) AS n, sum(x) AS x, min(t) AS a, max(t) AS b FROM csv_s"),
         [{"c": 20_000, "n": 199_990_000, "x": 49_997_500.0, "a": 'a "q",\nä', "b": 'a "q",\nä'}])


checks.run(
    rows_become_events_of_the_same_types,
    files_of_every_packing_are_read,
    a_refused_row_is_named,
    numbered_files_are_stored_once,
    what_is_no_parquet_is_refused,
    csv_becomes_events,
)
