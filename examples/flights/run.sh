#!/bin/sh
# The demo with views of its flights over a data directory, and what is asked of them. See README.md.
# run.sh [FLIGHTS]: asks when so many have left (5,000: eight seconds).
. "$(dirname "$0")/../server.sh"
here=$root/examples/flights
flights=${1:-5000}

start demo --no-host
"$swiftwater" sql --file "$here/flights.sql" >/dev/null

echo
echo "> the worst routes now: of the flights of the last second, three times"
"$swiftwater" query --quiet --output csv \
    "SELECT origin.faa AS origin, dest.faa AS destination, COUNT(*) AS flights, AVG(dep_delay) AS delay
     FROM STREAM(flights, 3000, TIME) WHERE dep_delay IS NOT NULL
     GROUP BY origin.faa, dest.faa HAVING flights >= 3 ORDER BY delay DESC LIMIT 5 WINDOWING TUMBLING(1000, TIME)"

counted() {
    "$swiftwater" sql --output ndjson "SELECT coalesce(sum(flights), 0) AS n FROM airports" | tr -dc 0-9
}
waited=0
until [ "$(counted)" -ge "$flights" ]; do
    waited=$((waited + 1))
    if [ "$waited" -gt 300 ] || ! kill -0 "$server"; then
        echo "no $flights flights were counted in 300 s" >&2
        exit 1
    fi
    sleep 1
done
ask "SELECT * FROM airports ORDER BY airport"
ask "SELECT * FROM routes WHERE flights >= 10 ORDER BY dep_delay DESC LIMIT 5"
ask "SELECT sky, sum(flights) AS flights, sum(cancelled) AS cancelled, sum(delay * departed) / sum(departed) AS delay
  FROM weather_delays GROUP BY sky ORDER BY delay DESC"
ask "SELECT (SELECT sum(flights) FROM airports) <= (SELECT count(*) FROM flights) AS kept"
echo
echo "> GET /v1/views/airports/keys/JFK"
curl -fsS "$SWIFTWATER_SERVER/v1/views/airports/keys/JFK"
echo
finish
