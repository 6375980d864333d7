#!/usr/bin/env bash
# One Apache Kafka broker for tests, on the loopback interface. Who connects to the printed address may
# do everything. A second listener, whose address is in DIRECTORY/sasl.address, requires SASL: `admin` may do everything there,
# `reader` nothing; their passwords are `admin-password` and `reader-password`.
#
#   broker.sh start DIRECTORY [PORT [tls]]   starts a broker and prints its address when it serves; PORT 0 (the default) is a free one
#   broker.sh stop DIRECTORY                 stops it; its data remain
#
# With `tls` there are two more listeners. That of DIRECTORY/tls.address requires TLS and SASL, with the identities above. That of
# DIRECTORY/certificate.address requires a client certificate. DIRECTORY/tls has the files, in PEM: ca.pem is the authority of the
# broker's certificate, which is valid for 127.0.0.1 alone, and of the clients' certificates; admin.pem and admin.key are those of
# a client that may do everything; other-ca.pem, other.pem and other.key are those of an authority that the broker does not know.
#
# Needs Java 17, for `tls` openssl and, for the first start, Maven. SWIFTWATER_KAFKA_PROPERTIES names a file of further settings
# of the broker.
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

make_authority() { # make_authority NAME
    openssl req -x509 -config openssl.cnf -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 36500 -subj "/CN=$1" \
        -keyout "$1.key" -out "$1.pem"
}

make_certificate() { # make_certificate NAME AUTHORITY USE
    openssl req -new -config openssl.cnf -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$1" \
        -keyout "$1.key" -out "$1.request" &&
        openssl x509 -req -in "$1.request" -CA "$2.pem" -CAkey "$2.key" -set_serial 1 -days 36500 \
            -extfile openssl.cnf -extensions "$3" -out "$1.pem"
}

# Written beside the final directory, so that an interrupted start leaves no half of them.
make_certificates() {
    local new=$directory/tls.new
    rm -rf "$new"
    mkdir "$new"
    cat >"$new/openssl.cnf" <<END
[req]
distinguished_name = name
x509_extensions = authority
[name]
[authority]
basicConstraints = critical, CA:TRUE
[broker]
subjectAltName = IP:127.0.0.1
[client]
extendedKeyUsage = clientAuth
END
    if ! (
        cd "$new" &&
            make_authority ca && make_authority other-ca &&
            make_certificate broker ca broker &&
            make_certificate admin ca client && make_certificate other other-ca client &&
            cat broker.key broker.pem >broker.keys
    ) >"$directory/openssl.log" 2>&1; then
        die "openssl cannot make certificates: $(tail -n 5 "$directory/openssl.log")"
    fi
    mv "$new" "$directory/tls"
}

write_properties() { # write_properties PORT CONTROLLER_PORT SASL_PORT [TLS_PORT CERTIFICATE_PORT]
    local modules=org.apache.kafka.common.security more_protocols= more_listeners=
    if [ $# = 5 ]; then
        more_protocols=,TLS:SASL_SSL,CERTIFICATE:SSL
        more_listeners=,TLS://127.0.0.1:$4,CERTIFICATE://127.0.0.1:$5
        cat <<END
ssl.keystore.type=PEM
ssl.keystore.location=$directory/tls/broker.keys
ssl.truststore.type=PEM
ssl.truststore.location=$directory/tls/ca.pem
listener.name.certificate.ssl.client.auth=required
listener.name.tls.scram-sha-256.sasl.jaas.config=$modules.scram.ScramLoginModule required;
listener.name.tls.scram-sha-512.sasl.jaas.config=$modules.scram.ScramLoginModule required;
listener.name.tls.sasl.enabled.mechanisms=SCRAM-SHA-256,SCRAM-SHA-512
END
    fi
    cat <<END
node.id=1
process.roles=broker,controller
controller.listener.names=CONTROL
controller.quorum.voters=1@127.0.0.1:$2
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROL:PLAINTEXT,SECURE:SASL_PLAINTEXT$more_protocols
listeners=PLAINTEXT://127.0.0.1:$1,CONTROL://127.0.0.1:$2,SECURE://127.0.0.1:$3$more_listeners
advertised.listeners=PLAINTEXT://127.0.0.1:$1,SECURE://127.0.0.1:$3$more_listeners
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER
listener.name.secure.plain.sasl.jaas.config=$modules.plain.PlainLoginModule required \\
  user_admin="admin-password" user_reader="reader-password";
listener.name.secure.scram-sha-256.sasl.jaas.config=$modules.scram.ScramLoginModule required;
listener.name.secure.scram-sha-512.sasl.jaas.config=$modules.scram.ScramLoginModule required;
listener.name.secure.oauthbearer.sasl.jaas.config=$modules.oauthbearer.OAuthBearerLoginModule required \\
  unsecuredLoginStringClaim_sub="broker";
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS;User:admin;User:CN=admin
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
    local port=$1 tls=$2 sasl_port tls_ports=() pid
    command -v java >/dev/null || die "Java is missing, which runs Kafka: install a JRE of version 17 or later" 77
    [ -z "$tls" ] || command -v openssl >/dev/null || die "openssl is missing, which makes certificates: install openssl" 77
    fetch_jars
    mkdir -p "$directory"
    directory=$(cd "$directory" && pwd)
    if [ -s "$directory/broker.pid" ] && runs "$(cat "$directory/broker.pid")"; then
        die "a broker of $directory is running: stop it first"
    fi
    [ "$port" != 0 ] || port=$(free_port)
    sasl_port=$(free_port)
    echo "127.0.0.1:$sasl_port" >"$directory/sasl.address"
    if [ -n "$tls" ]; then
        [ -d "$directory/tls" ] || make_certificates
        tls_ports=("$(free_port)" "$(free_port)")
        echo "127.0.0.1:${tls_ports[0]}" >"$directory/tls.address"
        echo "127.0.0.1:${tls_ports[1]}" >"$directory/certificate.address"
    fi
    write_properties "$port" "$(free_port)" "$sasl_port" "${tls_ports[@]}" >"$directory/broker.properties"
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

[ $# -ge 2 ] || die "usage: broker.sh start DIRECTORY [PORT [tls]] | stop DIRECTORY" 2
command=$1 directory=$2
case $command in
start)
    [ "${4:-tls}" = tls ] || die "there is no option \`$4\`: use tls, or nothing" 2
    start "${3:-0}" "${4:-}"
    ;;
stop) stop ;;
*) die "there is no command \`$command\`: use start or stop" 2 ;;
esac
