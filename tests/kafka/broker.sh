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

. "$(dirname "${BASH_SOURCE[0]}")/kafka.sh"

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
    local port=$1 tls=$2 sasl_port tls_ports=()
    [ -z "$tls" ] || command -v openssl >/dev/null || die "openssl is missing, which makes certificates: install openssl" 77
    require_kafka
    mkdir -p "$directory"
    directory=$(cd "$directory" && pwd)
    ! runs "$directory" || die "a broker of $directory is running: stop it first"
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
    format "$directory" -S 'SCRAM-SHA-256=[name=admin,password=admin-password]' -S 'SCRAM-SHA-512=[name=admin,password=admin-password]'
    launch "$directory" 512
    await "$directory" "$port"
    echo "127.0.0.1:$port"
}

stop() {
    directory=$(cd "$directory" 2>/dev/null && pwd) || return 0
    signal "$directory" TERM
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
