#!/bin/sh
# Three brokers, two nodes, and a query over both nodes: each broker is killed in turn while events arrive, and each event is
# counted once.
# cluster.sh [EVENTS]: swipes that are sent, 500 per second (30,000: a minute).
. "$(dirname "$0")/../../examples/server.sh"
events=${1:-30000}
export RUST_BACKTRACE=0

kafka=brokers.sh
. "$root/examples/cluster/nodes.sh"
node a
node b

"$swiftwater" sql --server "$node_a" \
    "CREATE STREAM swipes FROM KAFKA (topic = 'swipes', partitions = 6, key = 'swiper') WITH (produce = true)"
for name in a b; do
    eval "address=\$node_$name"
    until_shown swipes "$swiftwater" sql --server "$address" "SHOW PARTITIONS"
    until_shown "\"node\":\"$name\"" "$swiftwater" sql --server "$node_a" --output ndjson "SHOW PARTITIONS"
done

seconds=$((events / 500 + 40))
query="SELECT COUNT(*) AS swipes FROM STREAM(swipes, ${seconds}000, TIME) WINDOWING TUMBLING(5000, TIME)"
"$swiftwater" query --server "$node_a" --wait-for-missing --quiet --output emits "$query" >"$work/emits" &
asked=$!
until_shown STREAM "$swiftwater" top --server "$node_a" --once

echo "node b takes $events swipes, 500 per second; each broker is killed meanwhile"
"$swiftwater" generate swipes --events "$events" --rate 500 | "$swiftwater" ingest swipes --server "$node_b" --quiet &
sent=$!
for broker in 1 2 3; do
    sleep $((events / 2500 + 1))
    bash "$root/tests/kafka/brokers.sh" kill "$work/brokers" "$broker"
    sleep 5
    bash "$root/tests/kafka/brokers.sh" run "$work/brokers" "$broker"
done
wait "$sent"
wait "$asked"

counted=$(grep -o '"swipes":[0-9]*' "$work/emits" | awk -F: '{ n += $2 } END { print n + 0 }')
echo "all windows together: $counted of $events swipes"
[ "$counted" = "$events" ] || {
    cat "$work/emits"
    "$swiftwater" cluster status --server "$node_a"
    exit 1
}
