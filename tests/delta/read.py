"""Reads tables with other programs' Delta readers, and prints what they find.

usage: read.py DIRECTORY TABLE...

One line a table and reader: TABLE READER ROWS DISTINCT_OFFSETS SUM_OF_OFFSETS MAX_TIME NON_NULLS..., the last for each
column in the order of their names. crates/store/tests/store/others.rs compares them with its own answers.
"""

import pathlib
import sys

import deltalake
import duckdb
import duckdb_ext
import pyarrow as pa
import pyarrow.compute as pc


def with_delta():
    connection = duckdb.connect()
    version = connection.execute("PRAGMA version").fetchone()[0]
    for root in duckdb_ext.__path__:
        for extension in pathlib.Path(root, "extensions", version).glob("*/delta.duckdb_extension"):
            connection.load_extension(str(extension))
            return connection
    raise FileNotFoundError(f"no delta extension for DuckDB {version}")


def by_duckdb(path):
    connection = with_delta()
    table = f"delta_scan('{path}')"
    columns = [row[0] for row in connection.execute(f"DESCRIBE SELECT * FROM {table}").fetchall()]
    non_nulls = ", ".join(f'COUNT("{name}")' for name in sorted(columns))
    return connection.execute(
        f"SELECT COUNT(*), COUNT(DISTINCT _offset), SUM(_offset), epoch_us(MAX(_time)), {non_nulls} FROM {table}"
    ).fetchone()


def by_delta_rs(path):
    table = pa.table(deltalake.DeltaTable(path).to_pyarrow_table())
    offsets, times = table["_offset"], table["_time"]
    latest = pc.max(times).cast(pa.int64()).as_py()
    non_nulls = [table.num_rows - table[name].null_count for name in sorted(table.column_names)]
    return table.num_rows, pc.count_distinct(offsets).as_py(), pc.sum(offsets).as_py(), latest, *non_nulls


if __name__ == "__main__":
    for name in sys.argv[2:]:
        for reader, read in (("duckdb", by_duckdb), ("delta-rs", by_delta_rs)):
            print(name, reader, *read(f"{sys.argv[1]}/{name}"))
