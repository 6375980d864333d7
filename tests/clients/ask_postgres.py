"""Asks over PostgreSQL's protocol with psycopg.

usage: ask_postgres.py HOST PORT

crates/server/tests/server/clients.rs runs it.
"""

import datetime
import decimal
import sys
import threading
import uuid

import psycopg
from psycopg.rows import dict_row

import checks
from checks import fails, same

HOST, PORT = sys.argv[1], int(sys.argv[2])
UTC = datetime.timezone.utc

# Each with its text and what psycopg makes of it, in both forms of the protocol.
VALUES = [
    ("CAST(7 AS SMALLINT)", 7),
    ("CAST(7 AS INT)", 7),
    ("9223372036854775807", 9223372036854775807),
    ("-9223372036854775808", -9223372036854775808),
    ("0.1e0", 0.1),
    ("CAST(1.5 AS REAL)", 1.5),
    ("CAST('NaN' AS DOUBLE) = CAST('NaN' AS DOUBLE)", True),
    ("CAST('Infinity' AS DOUBLE)", float("inf")),
    ("CAST('12.340' AS DECIMAL(10, 3))", decimal.Decimal("12.340")),
    ("'ä\n\"x\" \\ '", 'ä\n"x" \\ '),
    ("''", ""),
    ("true", True),
    ("1 > 2", False),
    ("CAST(NULL AS BIGINT)", None),
    ("CAST(NULL AS VARCHAR)", None),
    ("DATE '2026-01-31'", datetime.date(2026, 1, 31)),
    ("CAST('12:34:56.5' AS TIME)", datetime.time(12, 34, 56, 500000)),
    ("CAST('2026-01-31T12:34:56.123456Z' AS TIMESTAMP)", datetime.datetime(2026, 1, 31, 12, 34, 56, 123456)),
    (
        "arrow_cast('2026-01-31T12:34:56.123456Z', 'Timestamp(Microsecond, Some(\"UTC\"))')",
        datetime.datetime(2026, 1, 31, 12, 34, 56, 123456, UTC),
    ),
    ("CAST('0001-01-01' AS DATE)", datetime.date(1, 1, 1)),
    ("[1, NULL, 3]", [1, None, 3]),
    ("[0.5, 1.5]", [0.5, 1.5]),
    ("['a', 'b c', NULL, '', 'q\"{,}']", ["a", "b c", None, "", 'q"{,}']),
    ("[true, false]", [True, False]),
    ("[DATE '2026-01-31']", [datetime.date(2026, 1, 31)]),
    ("MAP {'a': 1, 'b': 2}", {"a": 1, "b": 2}),
    ("{'x': 1, 'y': 'z'}", {"x": 1, "y": "z"}),
    ("[[1, 2], [3]]", [[1, 2], [3]]),
    ("arrow_cast('ab', 'Binary')", b"ab"),
]


def connect(**options):
    return psycopg.connect(host=HOST, port=PORT, user="anyone", dbname="swiftwater", **options)


def values_come_as_they_are():
    connection = connect(autocommit=True)
    wrong = []
    for binary in (False, True):
        for text, expected in VALUES:
            # With a parameter the extended protocol is spoken, else the simple one, unless binary values are wanted.
            for columns, parameters in ((f"{text} AS v", None), (f"{text} AS v, %s AS p", ("x",))):
                try:
                    row = connection.execute(f"SELECT {columns}", parameters, binary=binary).fetchone()
                    same(row, (expected, *(parameters or ())), text, "binary" if binary else "text")
                except (AssertionError, psycopg.Error) as error:
                    wrong.append(f"{text} {binary}: {error}")
    assert not wrong, "\n".join(wrong)


def parameters_are_taken():
    connection = connect()
    taken = [
        ("SELECT value FROM range(0, 10) WHERE value = %s", 7, 7),
        ("SELECT value FROM range(0, 10) WHERE value < %s ORDER BY value DESC LIMIT 1", 2.5, 2),
        ("SELECT count(*) FROM range(0, 10) WHERE (value > 3) = %s", True, 6),
        ("SELECT upper(%s)", "straße", "STRASSE"),
        ("SELECT coalesce(%s, 'none')", None, "none"),
        ("SELECT count(*) FROM range(0, 3) WHERE TIMESTAMP '2026-01-31 00:00:00' < %s",
         datetime.datetime(2026, 2, 1), 3),
        ("SELECT count(*) FROM range(0, 3) WHERE DATE '2026-01-31' = %s", datetime.date(2026, 1, 31), 3),
        ("SELECT count(*) FROM range(0, 3) WHERE CAST(value AS DECIMAL(10, 2)) >= %s", decimal.Decimal("1.00"), 2),
        ("SELECT count(*) FROM range(0, 3) WHERE value >= %s", decimal.Decimal("1.01"), 1),
        ("SELECT %s + 1", decimal.Decimal("-1.25"), decimal.Decimal("-0.25")),
        ("SELECT CAST(%s AS BIGINT) + 1", 9_000_000_000, 9_000_000_001),
        ("SELECT count(*) FROM range(0, 9) WHERE value = ANY(%s)", [1, 2, 70], 2),
        ("SELECT %s", [0.5, None], [0.5, None]),
        ("SELECT %s", b"\0\xff", b"\0\xff"),
        ("SELECT now() >= %s", datetime.datetime(2026, 1, 1, tzinfo=UTC), True),
        ("SELECT CAST('12:00:01' AS TIME) > %s", datetime.time(12), True),
        ("SELECT TIMESTAMP '2026-01-31 00:00:00' - %s", datetime.timedelta(days=1, hours=2.5),
         datetime.datetime(2026, 1, 29, 21, 30)),
        ("SELECT %s = '6ba7b810-9dad-11d1-80b4-00c04fd430c8'", uuid.UUID("6ba7b810-9dad-11d1-80b4-00c04fd430c8"), True),
    ]
    for binary in (False, True):
        cursor = connection.cursor(binary=binary)
        for text, value, expected in taken:
            for form in ("%s", "%b", "%t"):
                row = cursor.execute(text.replace("%s", form), (value,), prepare=form == "%b").fetchone()
                same(row, (expected,), text, repr(value), form, "binary" if binary else "text")
    row = connection.execute("SELECT %(a)s AS a, %(b)s AS b, %(a)s AS c", {"a": "x", "b": "y"}).fetchone()
    assert row == ("x", "y", "x"), row


def statements_are_prepared():
    connection = connect()
    connection.prepare_threshold = 2
    for number in range(20):
        row = connection.execute("SELECT count(*) FROM range(0, 100) WHERE value < %s", (number,)).fetchone()
        assert row == (number,), row
    cursor = connection.cursor()
    cursor.executemany("SELECT %s * 2 AS v", [(1,), (2,), (3,)], returning=True)
    doubled = []
    while True:
        doubled.append(cursor.fetchone()[0])
        if not cursor.nextset():
            break
    assert doubled == [2, 4, 6], doubled
    with connection.pipeline():
        cursors = [connection.execute("SELECT %s + 1 AS v", (number,)) for number in range(5)]
    assert [cursor.fetchone()[0] for cursor in cursors] == [1, 2, 3, 4, 5]


def parameters_of_the_server_are_shown():
    connection = connect(autocommit=True)
    for name, expected in (
        ("server_version", connection.info.parameter_status("server_version")),
        ("standard_conforming_strings", "on"),
        ("transaction isolation level", "read committed"),
    ):
        same(connection.execute(f"SHOW {name}").fetchone(), (expected,), name)


def columns_are_described():
    connection = connect()
    cursor = connection.cursor(row_factory=dict_row)
    cursor.execute("SELECT 1 AS number, 'x' AS text, 0.5e0 AS double, true AS truth")
    types = {column.name: column.type_code for column in cursor.description}
    assert types == {"number": 20, "text": 25, "double": 701, "truth": 16}, types
    assert cursor.fetchall() == [{"number": 1, "text": "x", "double": 0.5, "truth": True}]
    assert cursor.statusmessage == "SELECT 1", cursor.statusmessage
    cursor.execute("SELECT value FROM range(0, 5) WHERE value > 100")
    assert cursor.fetchall() == [] and cursor.description[0].name == "value"


def transactions_say_what_they_are():
    connection = connect()
    with connection.transaction():
        same(connection.execute("SELECT 1").fetchone(), (1,))
    idle = psycopg.pq.TransactionStatus.IDLE
    same(connection.info.transaction_status, idle)

    def fail():
        with connection.transaction():
            connection.execute("SELECT nope")

    fails(psycopg.errors.UndefinedColumn, fail)
    same(connection.info.transaction_status, idle)
    # One that failed takes nothing but its end.
    fails(psycopg.errors.UndefinedColumn, lambda: connection.execute("SELECT nope"))
    fails(psycopg.errors.InFailedSqlTransaction, lambda: connection.execute("SELECT 1"))
    connection.rollback()
    # What was written cannot be taken back, and whoever would have it so is told.
    connection.execute("CREATE TABLE clients_kept (a BIGINT)")
    connection.commit()
    connection.execute("INSERT INTO clients_kept VALUES (1)")
    error = fails(psycopg.errors.FeatureNotSupported, connection.rollback)
    assert "cannot be rolled back" in error.diag.message_primary, error
    same(connection.info.transaction_status, idle)
    same(connection.execute("SELECT count(*) FROM clients_kept").fetchone(), (1,))
    connection.rollback()
    connection.execute("DROP TABLE clients_kept")
    connection.commit()


def exhaust(running):
    """Reads what a copy gives; what was executed has been read."""
    if hasattr(running, "__enter__") and not isinstance(running, psycopg.Cursor):
        with running as copy:
            return list(copy)
    return running


def faults_have_their_states():
    connection = connect(autocommit=True)
    for text, state in [
        ("SELEC 1", "42601"),
        ("SELECT * FROM nowhere", "42P01"),
        ("SELECT nope FROM range(0, 1)", "42703"),
        ("SELECT no_such_function(1)", "42883"),
        ("SELECT 1 / 0", "22012"),
        ("SELECT CAST('x' AS BIGINT)", "22P02"),
        ("CREATE TABLE faults_twice (a BIGINT); CREATE TABLE faults_twice (a BIGINT)", "42P07"),
        ("GRANT ALL ON x TO y", "0A000"),
        ("COPY faults_twice TO STDOUT (FORMAT binary)", "0A000"),
        ("COPY nowhere TO STDOUT", "42P01"),
        ("COPY (SELECT nope FROM range(0, 1)) TO STDOUT", "42703"),
        ("COPY faults_twice (nope) FROM STDIN", "42703"),
        ("SAVEPOINT x", "0A000"),
        ("SELECT 'a' + 1", "42804"),
        ("SELECT CAST(3000000000 AS INT)", "22003"),
    ]:
        run = connection.cursor().copy if text.startswith("COPY") else connection.execute
        error = fails(psycopg.Error, lambda text=text: exhaust(run(text)), text)
        same(error.sqlstate, state, text, error)
        assert error.diag.message_primary, text
    text = "SELECT value,\n  nope FROM range(0, 1) WHERE value = %s"
    error = fails(psycopg.errors.UndefinedColumn, lambda: connection.execute(text, (1,)))
    same(error.diag.statement_position, "17")
    same(error.diag.message_hint, "Columns are: value.")
    connection.execute("DROP TABLE faults_twice")
    # The session goes on.
    same(connection.execute("SELECT 1").fetchone(), (1,))


def rows_are_written():
    connection = connect(autocommit=True)
    connection.execute("CREATE TABLE clients_t (a BIGINT, b VARCHAR, c DOUBLE)")
    cursor = connection.execute("INSERT INTO clients_t VALUES (1, 'x', 0.5), (2, NULL, NULL)")
    assert (cursor.rowcount, cursor.statusmessage) == (2, "INSERT 0 2"), cursor.statusmessage
    cursor = connection.execute("INSERT INTO clients_t VALUES (%s, %s, %s)", (3, "ä", None))
    assert cursor.rowcount == 1
    cursor = connection.cursor()
    cursor.executemany("INSERT INTO clients_t (a, b) VALUES (%s, %s)", [(4, "v"), (5, "w")])
    assert cursor.rowcount == 2
    rows = connection.execute("SELECT * FROM clients_t ORDER BY a").fetchall()
    assert rows == [(1, "x", 0.5), (2, None, None), (3, "ä", None), (4, "v", None), (5, "w", None)], rows
    connection.execute("DROP TABLE clients_t")


def streams_are_asked():
    connection = connect(autocommit=True)
    connection.execute(
        "CREATE STREAM clients_s (n LONG, t TIMESTAMP, tags LIST[STRING], counts MAP[LONG], doc JSON, ok BOOLEAN, x DOUBLE)"
    )
    connection.execute(
        "INSERT INTO clients_s (n, t, tags, ok, x) VALUES (1, TIMESTAMP '2026-01-31 12:00:00', ['a', 'b'], true, 0.5)"
    )
    row = connection.execute("SELECT n, t, tags, counts, ok, x FROM clients_s").fetchone()
    assert row[0] == 1 and row[2] == ["a", "b"] and row[3] is None and row[4] is True and row[5] == 0.5, row
    assert row[1] == datetime.datetime(2026, 1, 31, 12, tzinfo=UTC), row[1]
    connection.execute("DROP STREAM clients_s")


# What a table of all kinds of columns holds, and psycopg's types for them.
COPIED = "(n BIGINT, i INT, t VARCHAR, x DOUBLE, b BOOLEAN, d DATE, at TIMESTAMP, l BIGINT[], s VARCHAR[], y BYTEA)"
TYPES = ["int8", "int4", "text", "float8", "bool", "date", "timestamptz", "int8[]", "text[]", "bytea"]
ROWS = [
    (1, -1, "a\tb\\N\n\"c\"", 0.5, True, datetime.date(2026, 1, 31), datetime.datetime(2026, 1, 31, 12, 0, 1, 500000, UTC),
     [1, None], ["x,y", 'q"', None], b"\0\xff"),
    (None,) * 10,
    (2, 2, "", float("inf"), False, datetime.date(1, 1, 1), datetime.datetime(1969, 12, 31, 23, 59, 59, 0, UTC), [], [""], b""),
    (3, 3, "\\.", -0.25, None, None, None, None, None, None),
]


def rows_are_copied_both_ways():
    connection = connect(autocommit=True)
    cursor = connection.cursor()
    cursor.execute(f"CREATE TABLE copied {COPIED}")
    for form in ("", "(FORMAT csv)", "(FORMAT csv, HEADER, DELIMITER ';', NULL 'none')", "CSV HEADER"):
        cursor.execute("INSERT OVERWRITE copied SELECT * FROM copied WHERE false")
        if form:
            # Written by ourselves, in the form that came out.
            with cursor.copy(f"COPY copied FROM STDIN {form}") as copy:
                for piece in pieces[form]:
                    copy.write(piece)
        else:
            with cursor.copy("COPY copied FROM STDIN") as copy:
                for row in ROWS:
                    copy.write_row(row)
            pieces = {}
        same((cursor.rowcount, cursor.statusmessage), (4, "COPY 4"), form)
        rows = connection.execute("SELECT * FROM copied").fetchall()
        same(sorted(rows, key=repr), sorted(ROWS, key=repr), form)
        for other in ("(FORMAT csv)", "(FORMAT csv, HEADER, DELIMITER ';', NULL 'none')", "CSV HEADER"):
            with cursor.copy(f"COPY copied TO STDOUT {other}") as copy:
                # In pieces of three bytes.
                whole = b"".join(bytes(piece) for piece in copy)
                pieces[other] = [whole[at : at + 3] for at in range(0, len(whole), 3)]
    with cursor.copy("COPY (SELECT * FROM copied ORDER BY n NULLS FIRST) TO STDOUT") as copy:
        copy.set_types(TYPES)
        rows = list(copy.rows())
    same(rows, sorted(ROWS, key=lambda row: row[0] or 0))
    # Some columns, from a statement with parameters; the others are null.
    with cursor.copy("COPY copied (t, n) FROM STDIN", ()) as copy:
        copy.write_row(("late", 9))
    row = connection.execute("SELECT n, t, i FROM copied WHERE n = 9").fetchone()
    same(row, (9, "late", None))
    connection.execute("DROP TABLE copied")


def rows_are_copied_into_streams():
    connection = connect(autocommit=True)
    connection.execute("CREATE STREAM copied_s (n LONG NOT NULL, at TIMESTAMP, tags LIST[STRING], counts MAP[LONG])")
    cursor = connection.cursor()
    with cursor.copy("COPY copied_s FROM STDIN") as copy:
        for number in range(20_000):
            copy.write_row((number, datetime.datetime(2026, 1, 31, 12, tzinfo=UTC), ["a", f"{number}"], '{"k": 1}'))
    same(cursor.rowcount, 20_000)
    row = connection.execute("SELECT count(*), sum(n), min(at), max(tags[2]) FROM copied_s").fetchone()
    same(row, (20_000, 199_990_000, datetime.datetime(2026, 1, 31, 12, tzinfo=UTC), "9999"))
    same(connection.execute("SELECT counts FROM copied_s LIMIT 1").fetchone(), ({"k": 1},))
    with cursor.copy("COPY (SELECT n FROM copied_s WHERE n < 3 ORDER BY n) TO STDOUT") as copy:
        same([bytes(piece) for piece in copy], [b"0\n", b"1\n", b"2\n"])
    # What the stream refuses is told, and nothing is taken.
    def fail():
        with cursor.copy("COPY copied_s (at) FROM STDIN") as copy:
            copy.write_row((None,))

    fails(psycopg.Error, fail)
    same(connection.execute("SELECT count(*) FROM copied_s").fetchone(), (20_000,))
    connection.execute("DROP STREAM copied_s")


def copies_that_fail_put_nothing_in():
    connection = connect(autocommit=True)
    connection.execute("CREATE TABLE copied_f (a BIGINT, b VARCHAR)")
    cursor = connection.cursor()

    def copied(*pieces, raises=None):
        with cursor.copy("COPY copied_f FROM STDIN") as copy:
            for piece in pieces:
                copy.write(piece)
            if raises:
                raise raises

    many = "".join(f"{number}\tx\n" for number in range(30_000))
    for pieces, state, message in [
        ((many, "y\tx\n"), "22P02", "line 30001, column `a`: `y` is not a valid BIGINT"),
        (("1\tx\n2\n",), "22P04", "line 2: 1 values, expected 2"),
        ((b"1\t\xff\n",), "22P04", "line 1: a value is not UTF-8"),
    ]:
        error = fails(psycopg.Error, lambda pieces=pieces: copied(*pieces), message)
        same((error.sqlstate, error.diag.message_primary), (state, message))
    fails(ZeroDivisionError, lambda: copied(many, raises=ZeroDivisionError()))
    same(connection.execute("SELECT count(*) FROM copied_f").fetchone(), (0,))
    # In a transaction that has failed nothing is copied; what was copied stays.
    connection.autocommit = False
    copied("1\tx\n")
    error = fails(psycopg.errors.FeatureNotSupported, connection.rollback)
    assert "cannot be rolled back" in error.diag.message_primary, error
    same(connection.execute("SELECT * FROM copied_f").fetchall(), [(1, "x")])
    connection.execute("DROP TABLE copied_f")
    connection.commit()


def lists_are_searched():
    connection = connect()
    for text, parameters, expected in [
        ("value = ANY(%s)", ([1, 2, 70],), 2),
        ("value = ANY(%s)", ([],), 0),
        ("NOT value = ANY(%s)", ([1, 2],), 7),
        ("CAST(value AS VARCHAR) = ANY(%s)", (["1", "8", "x,y"],), 2),
        # Lists as texts of no type, as other drivers send them.
        ("value = ANY(%s)", ("{1,2,70}",), 2),
        ("value < %s AND value <> ALL(%s)", (4, "{1,2}"), 2),
        ("value = ANY(%s::BIGINT[])", ("{}",), 0),
        ("value = ANY('{1, 2,70}')", None, 2),
        ("value = ANY('{}')", None, 0),
        ("value <> ALL('{1,2}')", None, 7),
        ("CAST(value AS VARCHAR) = ANY('{1,\"8\",NULL}')", None, 2),
        ("value = ANY('{1,2}'::BIGINT[])", None, 2),
        ("value = ANY(CAST('{}' AS BIGINT[]))", None, 0),
        ("value = ANY(ARRAY[1, 2])", None, 2),
    ]:
        for binary in (False, True):
            cursor = connection.cursor(binary=binary)
            row = cursor.execute(f"SELECT count(*) FROM range(0, 9) WHERE {text}", parameters).fetchone()
            same(row, (expected,), text)
    error = fails(psycopg.Error, lambda: connection.execute("SELECT 1 WHERE 1 = ANY('x')"))
    same(error.sqlstate, "22P02", error)


def large_answers_come_whole_and_in_parts():
    connection = connect()
    cursor = connection.execute("SELECT value, repeat('x', 100) AS t FROM range(0, 200000)")
    count = total = 0
    for value, text in cursor:
        count, total = count + 1, total + value
        assert len(text) == 100
    assert (count, total) == (200_000, 19_999_900_000), (count, total)
    # Row by row, as it comes.
    cursor = connection.cursor()
    taken = 0
    for _ in cursor.stream("SELECT value FROM range(0, 100000) WHERE value >= %s", (0,)):
        taken += 1
    assert taken == 100_000, taken


def what_runs_is_cancelled():
    endless = "SELECT count(*) FROM range(0, 1000000000) a, range(0, 1000000000) b WHERE a.value + b.value = -1"
    for parameters in ((), (1,)):
        with connect() as connection:
            canceller = threading.Timer(0.2, connection.cancel_safe)
            canceller.start()
            text = endless + (" AND 1 = %s" if parameters else "")
            fails(psycopg.errors.QueryCanceled, lambda: connection.execute(text, parameters or None))
            canceller.join()
            connection.rollback()
            same(connection.execute("SELECT 1").fetchone(), (1,))


checks.run(
    values_come_as_they_are,
    parameters_are_taken,
    statements_are_prepared,
    parameters_of_the_server_are_shown,
    columns_are_described,
    transactions_say_what_they_are,
    faults_have_their_states,
    rows_are_written,
    streams_are_asked,
    rows_are_copied_both_ways,
    rows_are_copied_into_streams,
    copies_that_fail_put_nothing_in,
    lists_are_searched,
    large_answers_come_whole_and_in_parts,
    what_runs_is_cancelled,
)
