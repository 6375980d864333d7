#!/bin/sh
# Three brokers, two nodes, and a query over both nodes: each broker is killed in turn while events arrive, and each event is
# counted once.
# cluster.sh [EVENTS]: swipes that are sent, 500 per second (30,000: a minute).
. "$(dirname "$0")/../../examples/server.sh"
events=${1:-30000}
export RUST_BACKTRACE=0

brokers=$(bash "$root/tests/kafka/brokers.sh" start "$work/brokers")
nodes=
leave_all() {
    for process in $nodes; do
        kill "$process" 2>/dev/null || true
    done
    bash "$root/tests/kafka/brokers.sh" stop "$work/brokers" >/dev/null 2>&1 || true
    leave
}
trap leave_all EXIT
echo "brokers on $brokers"

# Starts a node; its address is in node_NAME then.
node() {
    cat >"$work/$1.toml" <<END
[server]
listen = ["127.0.0.1:0"]
[data]
dir = "$work/$1"
[kafka.main]
brokers = "$brokers"
[cluster]
name = "example"
node_id = "$1"
session_timeout_ms = "6s"
[log]
filter = "error"
END
    mkfifo "$work/$1.ready"
    "$swiftwater" serve --config "$work/$1.toml" >"$work/$1.ready" &
    nodes="$nodes $!"
    read -r line <"$work/$1.ready"
    eval "node_$1=\${line#listening on }"
    echo "node $1 on ${line#listening on }"
}
node a
node b

# Runs what follows until its output has a line like this, for a minute.
until_shown() {
    wanted=$1
    shift
    tries=0
    until "$@" 2>/dev/null | grep -q "$wanted"; do
        tries=$((tries + 1))
        [ "$tries" -lt 300 ] || { echo "no \`$wanted\` from: $*" >&2; exit 1; }
        sleep 0.2
    done
}

# A broker may not know the topic yet that another one has just made.
until_shown changed "$swiftwater" sql --server "$node_a" \
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
