#!/usr/bin/env bash
# One Apache Kafka broker for tests, on the loopback interface, without encryption. Who connects to the printed address may
# do everything. A second listener, whose address is in DIRECTORY/sasl.address, requires SASL: `admin` may do everything there,
# `reader` nothing; their passwords are `admin-password` and `reader-password`.
#
#   broker.sh start DIRECTORY [PORT]   starts a broker and prints its address when it serves; PORT 0 (the default) is a free one
#   broker.sh stop DIRECTORY           stops it; its data remain
#
# Needs Java 17 and, for the first start, Maven. SWIFTWATER_KAFKA_PROPERTIES names a file of further settings of the broker.
set -euo pipefail

tests=$(cd "$(dirname "$0")" && pwd)
version=$(sed -n 's:.*<kafka.version>\(.*\)</kafka.version>.*:\1:p' "$tests/pom.xml")
jars=${XDG_CACHE_HOME:-$HOME/.cache}/swiftwater/kafka-$version

die() {
    echo "broker.sh: $1" >&2
    exit "${2:-1}"
}

# True if process $1 is the broker of the directory: its id may belong to another process by now.
runs() { tr '\0' ' ' <"/proc/$1/cmdline" 2>/dev/null | grep -qF "kafka.Kafka $directory/broker.properties"; }

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

write_properties() { # write_properties PORT CONTROLLER_PORT SASL_PORT
    local modules=org.apache.kafka.common.security
    cat <<END
node.id=1
process.roles=broker,controller
controller.listener.names=CONTROL
controller.quorum.voters=1@127.0.0.1:$2
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROL:PLAINTEXT,SECURE:SASL_PLAINTEXT
listeners=PLAINTEXT://127.0.0.1:$1,CONTROL://127.0.0.1:$2,SECURE://127.0.0.1:$3
advertised.listeners=PLAINTEXT://127.0.0.1:$1,SECURE://127.0.0.1:$3
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER
listener.name.secure.plain.sasl.jaas.config=$modules.plain.PlainLoginModule required \\
  user_admin="admin-password" user_reader="reader-password";
listener.name.secure.scram-sha-256.sasl.jaas.config=$modules.scram.ScramLoginModule required;
listener.name.secure.scram-sha-512.sasl.jaas.config=$modules.scram.ScramLoginModule required;
listener.name.secure.oauthbearer.sasl.jaas.config=$modules.oauthbearer.OAuthBearerLoginModule required \\
  unsecuredLoginStringClaim_sub="broker";
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS;User:admin
log.dirs=$directory/data
message.max.bytes=20971520
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
group.consumer.min.heartbeat.interval.ms=200
group.consumer.heartbeat.interval.ms=500
group.consumer.min.session.timeout.ms=6000
group.consumer.session.timeout.ms=6000
END
    [ -z "${SWIFTWATER_KAFKA_PROPERTIES:-}" ] || cat "$SWIFTWATER_KAFKA_PROPERTIES"
}

start() {
    local port=${1:-0} sasl_port pid
    command -v java >/dev/null || die "Java is missing, which runs Kafka: install a JRE of version 17 or later" 77
    fetch_jars
    mkdir -p "$directory"
    directory=$(cd "$directory" && pwd)
    if [ -s "$directory/broker.pid" ] && runs "$(cat "$directory/broker.pid")"; then
        die "a broker of $directory is running: stop it first"
    fi
    [ "$port" != 0 ] || port=$(free_port)
    sasl_port=$(free_port)
    echo "127.0.0.1:$sasl_port" >"$directory/sasl.address"
    write_properties "$port" "$(free_port)" "$sasl_port" >"$directory/broker.properties"
    local kafka=(java -Xms128m -Xmx512m -cp "$jars/*" -Dorg.slf4j.simpleLogger.defaultLogLevel=warn)
    if [ ! -e "$directory/data/meta.properties" ]; then
        "${kafka[@]}" -XX:TieredStopAtLevel=1 kafka.tools.StorageTool format \
            -t AAAAAAAAAAAAAAAAAAAAAg -c "$directory/broker.properties" \
            -S 'SCRAM-SHA-256=[name=admin,password=admin-password]' \
            -S 'SCRAM-SHA-512=[name=admin,password=admin-password]' >"$directory/broker.log" 2>&1 ||
            die "Kafka cannot format $directory/data: see $directory/broker.log"
    fi
    # In a session of its own: a signal for the test's group does not reach it.
    setsid "${kafka[@]}" kafka.Kafka "$directory/broker.properties" >>"$directory/broker.log" 2>&1 </dev/null &
    pid=$!
    echo "$pid" >"$directory/broker.pid"
    for _ in $(seq 600); do
        if port_is_open "$port"; then
            echo "127.0.0.1:$port"
            return
        fi
        kill -0 "$pid" 2>/dev/null || die "Kafka ended: $(tail -n 5 "$directory/broker.log")"
        sleep 0.1
    done
    stop
    die "Kafka does not serve after 60 s: see $directory/broker.log"
}

stop() {
    local pid
    directory=$(cd "$directory" 2>/dev/null && pwd) || return 0
    [ -s "$directory/broker.pid" ] || return 0
    pid=$(cat "$directory/broker.pid")
    if runs "$pid"; then
        kill "$pid"
        for _ in $(seq 100); do
            runs "$pid" || break
            sleep 0.1
        done
        ! runs "$pid" || kill -KILL "$pid"
    fi
    rm -f "$directory/broker.pid"
}

[ $# -ge 2 ] || die "usage: broker.sh start DIRECTORY [PORT] | stop DIRECTORY" 2
command=$1 directory=$2
case $command in
start) start "${3:-0}" ;;
stop) stop ;;
*) die "there is no command \`$command\`: use start or stop" 2 ;;
esac
