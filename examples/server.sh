# Sourced by the examples' run.sh: a server of their own, over a directory that is gone afterwards.
#
# SWIFTWATER_BIN  the binary [target/release/swiftwater]
# LISTEN          the address [127.0.0.1:0, any free port]
# STAY            1: the server stays when all is done, until Ctrl-C

set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
swiftwater=${SWIFTWATER_BIN:-$root/target/release/swiftwater}
if ! [ -x "$swiftwater" ]; then
    echo "there is no $swiftwater: build it with \`cargo build --release -p swiftwater-cli\`" >&2
    exit 2
fi
work=$(mktemp -d)
server=
leave() {
    if [ -n "$server" ]; then
        kill "$server" 2>/dev/null || true
        wait "$server" 2>/dev/null || true
    fi
    rm -rf "$work"
}
trap leave EXIT
trap 'exit 130' INT TERM

# Starts `serve` or `demo`, whichever is named, and waits until it is ready; what follows are further flags.
start() {
    mkfifo "$work/ready"
    "$swiftwater" "$@" --listen "${LISTEN:-127.0.0.1:0}" --data "$work/data" --log warn >"$work/ready" &
    server=$!
    # Held open, so that what else is printed has somewhere to go.
    exec 3<"$work/ready"
    read -r line <&3
    SWIFTWATER_SERVER=${line#listening on }
    export SWIFTWATER_SERVER
    echo "listening on $SWIFTWATER_SERVER"
}

# Says what is asked, and asks it.
ask() {
    echo
    echo "> $1"
    "$swiftwater" sql --output table "$1"
}

# The end: leaves, or stays.
finish() {
    if [ "${STAY:-}" = 1 ]; then
        echo
        echo "the server stays on $SWIFTWATER_SERVER until Ctrl-C"
        wait "$server"
    fi
}
