"""Runs statements over Delta tables with DuckDB, and holds the rows against those that another engine wrote.

usage: published.py DIRECTORY STATEMENT...

Each statement is `INSERT OVERWRITE|INTO TABLE name SELECT …`. Of one that overwrites, its rows must be the table's; of
another, they must be among them. Prints `ok NAME` for each, or fails. crates/cli/tests/published.rs runs it.
"""

import math
import pathlib
import re
import sys

from read import with_delta


def tables_of(directory):
    return [path.name for path in pathlib.Path(directory).iterdir() if (path / "_delta_log").is_dir()]


def is_same(one, other):
    if isinstance(one, str) or one is None:
        return one == other
    # Sums of doubles are had in another order; a FLOAT comes as the double that it is.
    return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)


def are_same(one, other):
    return len(one) == len(other) and all(map(is_same, one, other))


def main(directory, statements):
    connection = with_delta()
    for table in tables_of(directory):
        connection.execute(f"CREATE VIEW {table} AS SELECT * FROM delta_scan('{directory}/{table}')")
    for statement in statements:
        overwrites, table, query = re.fullmatch(r"INSERT (OVERWRITE|INTO) TABLE (\w+) (.*)", statement).groups()
        # What only Hive and Spark take so: text in double quotes, a join without a condition.
        query = re.sub(r'"(\w+)"', r"'\1'", query).replace(") as a1 join ", ") as a1 cross join ")
        expected = connection.execute(query).fetchall()
        found = connection.execute(f"SELECT * FROM delta_scan('{directory}/{table}')").fetchall()
        missing = [row for row in expected if not any(are_same(row, other) for other in found)]
        assert not missing, f"{table}: {missing[:3]} is not among {found[:3]}"
        if overwrites == "OVERWRITE":
            assert len(found) == len(expected), f"{table}: {len(found)} rows, expected {len(expected)}"
        print("ok", table)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
