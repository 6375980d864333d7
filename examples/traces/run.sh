#!/bin/sh
# The whole example: a server, its SQL, the messages of so many activities (10,000), and searches of them. See README.md.
. "$(dirname "$0")/../server.sh"
here=$root/examples/traces
activities=${1:-10000}

start serve
"$swiftwater" sql --file "$here/traces.sql" >/dev/null
awk -v activities="$activities" -f "$here/messages.awk" | "$swiftwater" ingest messages
awk -v activities="$activities" -v orders=1 -f "$here/messages.awk" | "$swiftwater" ingest orders

# Prints a request, and its answer.
activity() {
    echo
    echo "> activity $*"
    "$swiftwater" activity "$@"
}

# The messages of one activity, and the order that names it.
activity activity-000009
# The order's other activity, too.
activity activity-000009 --depth 1
# The order, its activities and their messages.
activity 4 --depth 1

echo
echo "> activities whose payment failed"
curl -sS "$SWIFTWATER_SERVER/v1/activities/search" -H 'Content-Type: application/json' -d '{
  "and": [{"stream": "messages", "q": "service:payment status:FAILED"},
          {"not": {"stream": "messages", "q": "service:stock status:FAILED"}}],
  "limit": 3}'

ask "SELECT service, status, count(*) AS messages FROM messages GROUP BY service, status ORDER BY service, status"
finish
