# Sourced by scripts that start nodes of a cluster over brokers of their own, behind server.sh; all end with the script.

# `kafka` is the script of tests/kafka that starts the brokers.
brokers_script=$root/tests/kafka/$kafka
brokers=$(bash "$brokers_script" start "$work/brokers")
nodes=
leave_all() {
    for process in $nodes; do
        kill "$process" 2>/dev/null || true
    done
    bash "$brokers_script" stop "$work/brokers" >/dev/null 2>&1 || true
    leave
}
trap leave_all EXIT
echo "brokers on $brokers"

# Starts a node; its address is in node_NAME then, and its process in process_NAME.
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
    eval "process_$1=$!"
    read -r line <"$work/$1.ready"
    eval "node_$1=\${line#listening on }"
    echo "node $1 on ${line#listening on }"
}

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
