#!/bin/sh
# The whole example: a server, its SQL, records, and their rollups held against the grand total. See README.md.
# run.sh [RECORDS]: so many (200,000), over eleven minutes of their own time: two windows are closed, and one is open.
. "$(dirname "$0")/../server.sh"
here=$root/examples/telecom
records=${1:-200000}
rate=$(awk "BEGIN { print $records / 660 }")

start serve
"$swiftwater" sql --file "$here/telecom.sql" >/dev/null
# A hundredth is no JSON: counted, and the rest goes on.
"$swiftwater" generate telecom --events "$records" --event-rate "$rate" --variant corrupt |
    "$swiftwater" ingest probes --allow-rejected

# Each dimension by itself adds up to the same, which is what a plain sum over the records gives.
ask "SELECT count(DISTINCT records) AS totals, min(records) AS records, min(bytesDl) AS bytesDl
  FROM (SELECT window_start, dimensions, sum(records) AS records, sum(bytesDl) AS bytesDl FROM rollups
        GROUP BY window_start, dimensions)
  GROUP BY window_start ORDER BY window_start LIMIT 5"
ask "SELECT date_bin(INTERVAL '5 minutes', tsEnd) AS window_start, count(*) AS records, sum(bytesDl) AS bytesDl FROM probes
  GROUP BY 1 ORDER BY 1 LIMIT 5"
ask "SELECT window_start, radio_region, svc_cat, records, bytes, drops, rttSrvMs FROM chosen
  WHERE radio_region IS NOT NULL ORDER BY bytes DESC LIMIT 5"
# A sink delivers closed windows when its view has them on disk, a second later at most: all but the last are closed.
closed="SELECT count(*) FROM rollups WHERE window_start < (SELECT max(window_start) FROM rollups)"
for _ in $(seq 300); do
    delivered=$("$swiftwater" sql --output csv "SELECT (SELECT count(*) FROM rollup_rows) = ($closed) AS is_all")
    case $delivered in *true*) break ;; esac
    sleep 0.1
done
ask "SELECT count(*) AS rows, count(DISTINCT window_start) AS windows FROM rollup_rows"
finish
