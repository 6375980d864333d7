"""Runs each line of standard input, a statement as JSON text, and prints its time and rows as a line of JSON."""

import json
import sys
import time

import duckdb

connection = duckdb.connect()
print(duckdb.__version__, flush=True)
for line in sys.stdin:
    start = time.perf_counter()
    cursor = connection.execute(json.loads(line))
    rows = cursor.fetchall()
    seconds = time.perf_counter() - start
    names = [column[0] for column in cursor.description or []]
    rows = [dict(zip(names, row)) for row in rows]
    print(json.dumps({"seconds": seconds, "rows": rows}, default=float), flush=True)
