#!/bin/sh
# The load that the app was tested with, and its reports. SWIFTWATER_SERVER says which server (http://127.0.0.1:8080).
# load.sh [REQUESTS]: so many POSTs (500,000).
set -eu
swiftwater=${SWIFTWATER_BIN:-$(cd "$(dirname "$0")/../.." && pwd)/target/release/swiftwater}
requests=${1:-500000}
post='POST /swipe/{left|right}/ generate:swipes'

echo
echo "== $requests POSTs over 200 connections, up to 5 retries; beside them 5 GETs a second of random users"
# A user who has not swiped yet is not found, which is no failure.
"$swiftwater" bench load --quiet --expect 404 --rate 5 --connections 2 --duration 600s \
    'GET /matches/{1..50000}/' 'GET /stats/{1..50000}/' >"${TMPDIR:-/tmp}/swipes-gets.$$" &
gets=$!
"$swiftwater" bench load --quiet --connections 200 --requests "$requests" --retries 5 --producer load "$post"
kill -INT "$gets"
wait "$gets" || true
cat "${TMPDIR:-/tmp}/swipes-gets.$$"
rm -f "${TMPDIR:-/tmp}/swipes-gets.$$"

mixed=$((requests / 2))
echo
echo "== $mixed requests: a POST to four GETs of matches and four of stats"
"$swiftwater" bench load --quiet --connections 100 --requests "$mixed" --retries 5 --expect 404 --producer mixed \
    "1 $post" '4 GET /matches/{1..50000}/' '4 GET /stats/{1..50000}/'
