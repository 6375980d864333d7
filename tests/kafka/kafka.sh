# Functions of the scripts that start brokers of Apache Kafka for tests. Each broker has a directory with its settings
# (broker.properties), its log, the id of its process (broker.pid) and its data.

tests=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
version=$(sed -n 's:.*<kafka.version>\(.*\)</kafka.version>.*:\1:p' "$tests/pom.xml")
jars=${XDG_CACHE_HOME:-$HOME/.cache}/swiftwater/kafka-$version

die() { # die TEXT [EXIT_CODE]; 77 is that of a machine which cannot run Kafka
    echo "$(basename "$0"): $1" >&2
    exit "${2:-1}"
}

port_is_open() { (: <"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# Ports below 32768 are not handed out to clients, so that one which is free now is free in a moment.
free_port() {
    local try port
    for try in $(seq 50); do
        port=$((10240 + (RANDOM * 7 + try) % 20000))
        port_is_open "$port" || { echo "$port"; return; }
    done
    die "there is no free port"
}

# Maven writes beside the final directory, so that an interrupted download is not taken for a complete one.
fetch_jars() {
    [ ! -d "$jars" ] || return 0
    command -v mvn >/dev/null || die "Maven is missing, which fetches Kafka: install maven" 77
    mkdir -p "$(dirname "$jars")"
    local new
    new=$(mktemp -d "$jars.XXXX")
    if ! mvn -q -B -Dstyle.color=never -f "$tests/pom.xml" dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$new" >&2; then
        rm -rf "$new"
        die "Maven cannot fetch Kafka $version" 77
    fi
    mv -T "$new" "$jars" 2>/dev/null || rm -rf "$new" # another start was faster
}

require_kafka() {
    command -v java >/dev/null || die "Java is missing, which runs Kafka: install a JRE of version 17 or later" 77
    fetch_jars
}

# True if the broker of directory $1 runs: the id in its file may belong to another process by now.
runs() {
    [ -s "$1/broker.pid" ] &&
        tr '\0' ' ' <"/proc/$(cat "$1/broker.pid")/cmdline" 2>/dev/null | grep -qF "kafka.Kafka $1/broker.properties"
}

format() { # format DIRECTORY [OPTION…]: makes the data of a broker, unless it has some
    local of=$1
    shift
    [ ! -e "$of/data/meta.properties" ] || return 0
    java -Xmx256m -cp "$jars/*" -Dorg.slf4j.simpleLogger.defaultLogLevel=warn -XX:TieredStopAtLevel=1 kafka.tools.StorageTool format \
        -t AAAAAAAAAAAAAAAAAAAAAg -c "$of/broker.properties" "$@" >"$of/broker.log" 2>&1 ||
        die "Kafka cannot format $of/data: see $of/broker.log"
}

launch() { # launch DIRECTORY MEBIBYTES
    # In a session of its own: a signal for the test's group does not reach it.
    setsid java -Xms128m "-Xmx$2m" -cp "$jars/*" -Dorg.slf4j.simpleLogger.defaultLogLevel=warn kafka.Kafka "$1/broker.properties" \
        >>"$1/broker.log" 2>&1 </dev/null &
    echo $! >"$1/broker.pid"
}

await() { # await DIRECTORY PORT: until the broker serves
    for _ in $(seq 600); do
        ! port_is_open "$2" || return 0
        kill -0 "$(cat "$1/broker.pid")" 2>/dev/null || die "Kafka ended: $(tail -n 5 "$1/broker.log")"
        sleep 0.1
    done
    signal "$1" TERM
    die "Kafka does not serve after 60 s: see $1/broker.log"
}

signal() { # signal DIRECTORY SIGNAL: ends the broker by it, if it runs
    if runs "$1"; then
        kill "-$2" "$(cat "$1/broker.pid")"
        for _ in $(seq 100); do
            runs "$1" || break
            sleep 0.1
        done
        ! runs "$1" || kill -KILL "$(cat "$1/broker.pid")"
    fi
    rm -f "$1/broker.pid"
}
