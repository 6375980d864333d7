#!/bin/sh
# A broker, three nodes, and a query over all of them, one of which is killed while it is answered. See README.md.
# run.sh [EVENTS]: swipes that are sent, 500 per second (10,000: twenty seconds).
. "$(dirname "$0")/../server.sh"
events=${1:-10000}
export RUST_BACKTRACE=0

kafka=broker.sh
. "$root/examples/cluster/nodes.sh"
node a
node b
node c

echo
echo "> CREATE STREAM swipes FROM KAFKA (topic = 'swipes', partitions = 6, key = 'swiper') WITH (produce = true)"
"$swiftwater" sql --server "$node_a" \
    "CREATE STREAM swipes FROM KAFKA (topic = 'swipes', partitions = 6, key = 'swiper') WITH (produce = true)"
for name in a b c; do
    eval "address=\$node_$name"
    until_shown swipes "$swiftwater" sql --server "$address" "SHOW PARTITIONS"
    until_shown "\"node\":\"$name\"" "$swiftwater" sql --server "$node_a" --output ndjson "SHOW PARTITIONS"
done
"$swiftwater" cluster status --server "$node_a"

# A window has the events of all partitions, as it waits for those of the node that is killed.
seconds=$((events / 500 + 20))
query="SELECT COUNT(*) AS swipes FROM STREAM(swipes, ${seconds}000, TIME) WINDOWING TUMBLING(5000, TIME)"
echo
echo "> node a: $query"
"$swiftwater" query --server "$node_a" --wait-for-missing --quiet --output emits "$query" >"$work/emits" &
asked=$!
until_shown STREAM "$swiftwater" top --server "$node_a" --once

echo "> node b takes $events swipes, 500 per second; node c is killed meanwhile"
"$swiftwater" generate swipes --events "$events" --rate 500 | "$swiftwater" ingest swipes --server "$node_b" --quiet &
sent=$!
sleep $((events / 1000 + 1))
kill -9 "$process_c"
wait "$sent"
wait "$asked"

sed -n 's/.*"records":\[\([^]]*\)\].*"window":{\([^}]*\)}.*"cluster":\({[^}]*}\).*/\1 \3/p' "$work/emits"
counted=$(grep -o '"swipes":[0-9]*' "$work/emits" | awk -F: '{ n += $2 } END { print n + 0 }')
echo "all windows together: $counted of $events swipes"
"$swiftwater" cluster status --server "$node_a"
[ "$counted" = "$events" ]
