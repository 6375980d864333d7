#!/usr/bin/env bash
# A cluster of Apache Kafka brokers for tests, on the loopback interface, without encryption and identities. Each is a controller,
# too. Topics have three replicas, of which two must have a message before it is acknowledged; so have those of offsets and
# transactions. With a single broker there is one replica.
#
#   brokers.sh start DIRECTORY [COUNT]   starts brokers, 3 by default, and prints their addresses, separated by commas, when all serve
#   brokers.sh run DIRECTORY NUMBER      starts broker NUMBER (from 1) again, at its address and with its data, until it serves
#   brokers.sh kill DIRECTORY NUMBER     kills it (SIGKILL)
#   brokers.sh stop DIRECTORY [NUMBER]   stops it, or all; their data remain
#
# Broker NUMBER has the directory DIRECTORY/NUMBER. Needs Java 17 and, for the first start, Maven.
set -euo pipefail

. "$(dirname "${BASH_SOURCE[0]}")/kafka.sh"

write_properties() { # write_properties NUMBER PORT CONTROLLER_PORT VOTERS REPLICAS
    cat <<END
node.id=$1
process.roles=broker,controller
controller.listener.names=CONTROL
controller.quorum.voters=$4
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROL:PLAINTEXT
listeners=PLAINTEXT://127.0.0.1:$2,CONTROL://127.0.0.1:$3
advertised.listeners=PLAINTEXT://127.0.0.1:$2
log.dirs=$directory/$1/data
default.replication.factor=$5
min.insync.replicas=$((($5 + 1) / 2))
offsets.topic.num.partitions=1
offsets.topic.replication.factor=$5
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=$5
transaction.state.log.min.isr=$((($5 + 1) / 2))
group.initial.rebalance.delay.ms=0
group.consumer.min.heartbeat.interval.ms=200
group.consumer.heartbeat.interval.ms=500
group.consumer.min.session.timeout.ms=6000
group.consumer.session.timeout.ms=6000
broker.heartbeat.interval.ms=500
broker.session.timeout.ms=3000
END
}

start() {
    local count=$1 number ports=() controller_ports=() voters='' addresses='' replicas jobs=()
    require_kafka
    mkdir -p "$directory"
    directory=$(cd "$directory" && pwd)
    [ ! -e "$directory/ports" ] || die "$directory has brokers already: use run"
    replicas=$((count < 3 ? 1 : 3))
    for number in $(seq "$count"); do
        # Two of them may be equal by chance.
        while :; do
            set -- "$(free_port)" "$(free_port)"
            [[ " ${ports[*]} ${controller_ports[*]} $1 " != *" $2 "* && " ${ports[*]} ${controller_ports[*]} " != *" $1 "* ]] && break
        done
        ports+=("$1") controller_ports+=("$2")
        voters+=${voters:+,}$number@127.0.0.1:$2
        addresses+=${addresses:+,}127.0.0.1:$1
    done
    for number in $(seq "$count"); do
        mkdir -p "$directory/$number"
        write_properties "$number" "${ports[number - 1]}" "${controller_ports[number - 1]}" "$voters" "$replicas" \
            >"$directory/$number/broker.properties"
        format "$directory/$number" &
        jobs+=($!)
    done
    for number in "${jobs[@]}"; do
        wait "$number"
    done
    printf '%s\n' "${ports[@]}" >"$directory/ports"
    for number in $(seq "$count"); do
        launch "$directory/$number" 384
    done
    for number in $(seq "$count"); do
        await "$directory/$number" "${ports[number - 1]}"
    done
    echo "$addresses"
}

run() { # run NUMBER
    local port
    port=$(sed -n "$1p" "$directory/ports")
    ! runs "$directory/$1" || die "broker $1 of $directory is running"
    launch "$directory/$1" 384
    await "$directory/$1" "$port"
}

[ $# -ge 2 ] || die "usage: brokers.sh start DIRECTORY [COUNT] | run DIRECTORY NUMBER | kill DIRECTORY NUMBER | stop DIRECTORY [NUMBER]" 2
command=$1 directory=$2 number=${3:-}
case $command in
start)
    start "${number:-3}"
    exit
    ;;
stop | run | kill) ;;
*) die "there is no command \`$command\`: use start, run, kill or stop" 2 ;;
esac
[ "$command" != stop ] || [ -e "$directory/ports" ] || exit 0
directory=$(cd "$directory" && pwd)
if [ "$command$number" = stop ]; then
    # All at once: a controller without the others would wait for them.
    for number in $(seq "$(wc -l <"$directory/ports")"); do
        signal "$directory/$number" TERM &
    done
    wait
    exit
fi
[ -d "$directory/$number" ] && [ -n "$number" ] || die "$directory has no broker \`$number\`" 2
case $command in
run) run "$number" ;;
kill) signal "$directory/$number" KILL ;;
stop) signal "$directory/$number" TERM ;;
esac
