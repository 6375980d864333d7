"""Reads answers of `POST /v1/sql` as Arrow streams with pyarrow.

usage: read_arrow.py URL

crates/server/tests/server/clients.rs runs it.
"""

import datetime
import decimal
import http.client
import json
import sys
import urllib.error
import urllib.parse
import urllib.request

import pyarrow as pa

import checks
from checks import fails, same

URL = sys.argv[1]
UTC = datetime.timezone.utc
MEDIA_TYPE = "application/vnd.apache.arrow.stream"


def answer(text, **fields):
    request = urllib.request.Request(
        f"{URL}/v1/sql", text.encode(), {"accept": MEDIA_TYPE, "content-type": "text/plain", **fields}
    )
    response = urllib.request.urlopen(request, timeout=120)
    same(response.headers["content-type"], MEDIA_TYPE)
    return response


def table(text):
    with answer(text) as response, pa.ipc.open_stream(response) as reader:
        found = reader.read_all()
    found.validate(full=True)
    return found


def types_are_arrows_own():
    for text, ty, value in [
        ("CAST(7 AS SMALLINT)", pa.int16(), 7),
        ("CAST(7 AS INT)", pa.int32(), 7),
        ("9223372036854775807", pa.int64(), 9223372036854775807),
        ("CAST(1.5 AS REAL)", pa.float32(), 1.5),
        ("0.1e0", pa.float64(), 0.1),
        ("CAST('12.340' AS DECIMAL(10, 3))", pa.decimal128(10, 3), decimal.Decimal("12.340")),
        ("'ä'", pa.string(), "ä"),
        ("arrow_cast('a longer text than a view holds inline', 'Utf8View')", pa.string(),
         "a longer text than a view holds inline"),
        ("arrow_cast('ab', 'BinaryView')", pa.binary(), b"ab"),
        ("arrow_cast('x', 'Dictionary(Int32, Utf8)')", pa.string(), "x"),
        ("true", pa.bool_(), True),
        ("CAST(NULL AS BIGINT)", pa.int64(), None),
        ("NULL", pa.null(), None),
        ("DATE '2026-01-31'", pa.date32(), datetime.date(2026, 1, 31)),
        ("arrow_cast('2026-01-31T12:34:56.123456Z', 'Timestamp(Microsecond, Some(\"UTC\"))')",
         pa.timestamp("us", "UTC"), datetime.datetime(2026, 1, 31, 12, 34, 56, 123456, UTC)),
        ("[1, NULL, 3]", pa.list_(pa.int64()), [1, None, 3]),
        ("[arrow_cast('v', 'Utf8View')]", pa.list_(pa.string()), ["v"]),
        ("MAP {'a': 1, 'b': NULL}", None, [("a", 1), ("b", None)]),
        ("{'x': 1, 'y': arrow_cast('z', 'Utf8View')}", None, {"x": 1, "y": "z"}),
    ]:
        found = table(f"SELECT {text} AS v")
        if ty is not None:
            assert found.schema.field("v").type.equals(ty, check_metadata=False), (text, found.schema)
        same(found.column("v").to_pylist(), [value], text)


def streams_and_their_nulls_are_read():
    table("CREATE STREAM arrow_s (n LONG, t STRING, at TIMESTAMP, tags LIST[STRING], counts MAP[LONG], x DOUBLE)")
    events = [
        {"n": 1, "t": "a text that is longer than twelve bytes", "at": "2026-01-31T12:00:00Z", "tags": ["a", None],
         "counts": {"k": 5}, "x": 0.5},
        {"n": 2},
        {"n": 3, "t": "", "tags": [], "counts": {}, "other": [1, {"y": None}]},
    ]
    body = "\n".join(map(json.dumps, events)).encode()
    with urllib.request.urlopen(urllib.request.Request(f"{URL}/v1/streams/arrow_s/events", body)) as response:
        same(json.load(response)["accepted"], 3)
    found = table("SELECT * FROM arrow_s ORDER BY n")
    rows = found.to_pylist()
    same([row["t"] for row in rows], ["a text that is longer than twelve bytes", None, ""])
    same([row["at"] for row in rows], [datetime.datetime(2026, 1, 31, 12, tzinfo=UTC), None, None])
    same([row["tags"] for row in rows], [["a", None], None, []])
    same([row["counts"] for row in rows], [[("k", 5)], None, []])
    same([row["x"] for row in rows], [0.5, None, None])
    same(json.loads(rows[2]["_event"])["other"], [1, {"y": None}])
    assert not any(pa.types.is_string_view(field.type) or pa.types.is_binary_view(field.type)
                   for field in found.schema), found.schema


def no_rows_have_columns_all_the_same():
    found = table("SELECT n, t FROM arrow_s WHERE n > 100")
    same((found.num_rows, found.column_names), (0, ["n", "t"]))


def rows_come_before_the_last_is_known():
    # The second half of the rows never comes: whoever waits for all would wait for ever.
    endless = """SELECT value AS v FROM range(0, 100000)
                 UNION ALL SELECT count(*) FROM range(0, 1000000000) a, range(0, 1000000000) b
                           WHERE a.value + b.value = -1"""
    response = answer(endless, **{"swiftwater-statement": "arrow-endless"})
    reader = pa.ipc.open_stream(response)
    rows = 0
    while rows < 100_000:
        rows += reader.read_next_batch().num_rows
    request = urllib.request.Request(f"{URL}/v1/sql/arrow-endless", method="DELETE")
    with urllib.request.urlopen(request) as ended:
        same(ended.status, 204)
    # What was cut off is not taken for the end.
    fails((pa.ArrowException, OSError, http.client.IncompleteRead), reader.read_all)


def large_answers_are_streamed():
    with answer("SELECT value AS v, repeat('x', 100) AS t FROM range(0, 1000000)") as response:
        reader = pa.ipc.open_stream(response)
        batches = rows = total = 0
        for batch in reader:
            batches, rows, total = batches + 1, rows + batch.num_rows, total + sum(batch.column("v").to_pylist())
    same((rows, total), (1_000_000, 499_999_500_000))
    assert batches > 50, batches


def a_failure_in_mid_stream_is_not_the_end():
    text = "SELECT 10 / (value - 900000) AS v FROM range(0, 1000000)"
    with answer(text, **{"swiftwater-statement": "arrow-late"}) as response:
        reader = pa.ipc.open_stream(response)
        rows = reader.read_next_batch().num_rows
        assert rows > 0
        fails((pa.ArrowException, OSError, http.client.IncompleteRead), reader.read_all)
    with urllib.request.urlopen(f"{URL}/v1/sql/arrow-late") as response:
        same(json.load(response)["error"]["detail"], "divide by zero error")


def a_failure_before_the_first_rows_is_a_problem():
    error = fails(urllib.error.HTTPError, lambda: answer("SELECT nope FROM range(0, 1)"))
    same((error.code, error.headers["content-type"]), (404, "application/problem+json"))
    same(json.load(error)["hint"], "Columns are: value.")


checks.run(
    types_are_arrows_own,
    streams_and_their_nulls_are_read,
    no_rows_have_columns_all_the_same,
    rows_come_before_the_last_is_known,
    large_answers_are_streamed,
    a_failure_in_mid_stream_is_not_the_end,
    a_failure_before_the_first_rows_is_a_problem,
)
