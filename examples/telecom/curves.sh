#!/bin/sh
# How fast records are flattened and rolled up, as one thing changes at a time, in one process with no server and no disk.
# curves.sh [RECORDS]: so many (500,000) for each point; the file of them lies in $TMPDIR (/tmp), 2 KB a record.
set -eu
swiftwater=${SWIFTWATER_BIN:-$(cd "$(dirname "$0")/../.." && pwd)/target/release/swiftwater}
records=${1:-500000}
# Half a million groups of 62 dimensions take more than a query is given.
export SWIFTWATER_ENGINE__QUERY_STATE_BYTES_MAX=16GiB
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

dims="probe.id probe.vendor probe.sw probe.site probe.link probe.iface rec.type rec.procedure rec.close sub.hash sub.segment
sub.plan sub.contract sub.homeMcc sub.homeMnc sub.roaming dev.tac dev.vendor dev.model dev.os dev.osVer dev.type dev.volte
dev.cat radio.rat radio.mcc radio.mnc radio.tac radio.enb radio.cell radio.sector radio.band radio.earfcn radio.cellType
radio.vendor radio.region core.mme core.sgw core.pgw core.pcrf core.apn core.pdnType core.qci core.arp core.bearer svc.app
svc.cat svc.proto svc.l4 svc.host svc.cdn svc.tls svc.httpClass svc.video svc.country svc.asn out.status out.layer out.cause
out.sub out.stage out.retry"
measures="bytesUl bytesDl pktsUl pktsDl durMs setupMs ttfbMs dnsMs rttCliMs rttSrvMs retxUl retxDl ooo zeroWin attempts
successes drops handovers hoFails radioActiveMs"

# The first so many of the words that follow, set apart by commas; measures as sums.
first() {
    count=$1
    shift
    echo "$@" | cut -d' ' -f"1-$count" | sed 's/ /, /g'
}
sums() {
    first "$1" $measures | sed 's/[A-Za-z]*/SUM(meas.&)/g; s/SUM(meas.)//g'
}
now() {
    # Nanoseconds, where `date` has them.
    date +%s%N | sed 's/N$/000000000/'
}
# Asks of a file and tells how long it took: point NAME FILE CELLS QUERY [FLAGS].
point() {
    name=$1 file=$2 cells=$3 query=$4
    shift 4
    began=$(now)
    "$swiftwater" query --quiet --input "$file" --output ndjson "$@" "$query" >"$work/out"
    took=$(($(now) - began))
    bytes=$(wc -c <"$file")
    awk -v name="$name" -v ns="$took" -v n="$records" -v bytes="$bytes" -v cells="$cells" -v groups="$(wc -l <"$work/out")" \
        'BEGIN { s = ns / 1e9; printf "%-28s %10d rows %12.0f records/s %8.0f MB/s %14.0f cells/s\n",
                 name, groups, n / s, bytes / s / 1e6, n * cells / s }'
}
make() {
    file=$1
    shift
    "$swiftwater" generate telecom --quiet --events "$records" --output "$file" "$@"
}

even=$work/even.ndjson
make "$even" --skew 0
echo "L1 groups: 2 dimensions together, 2 measures"
for keys in "radio.band, rec.type" "core.apn, radio.band" "radio.enb, radio.region" "svc.host, svc.app" "sub.hash, sub.plan" \
    "sub.hash, svc.host"; do
    point "  $keys" "$even" 2 "SELECT $keys, $(sums 2) FROM STREAM() GROUP BY $keys"
done

echo "L2 width: so many dimensions, each by itself, and measures"
for width in 2/2 6/4 12/8 24/12 40/16 62/20; do
    d=${width%/*} m=${width#*/}
    point "  $width" "$even" $((d * m)) \
        "SELECT $(first "$d" $dims), $(sums "$m") FROM STREAM() GROUP BY GROUPING SETS ($(first "$d" $dims))"
done
point "  62/20, one key" "$even" 20 "SELECT $(sums 20) FROM STREAM() GROUP BY $(first 62 $dims)"

echo "L3 threads: 6 dimensions that 10,000 groups have, 4 measures"
keys="radio.enb, radio.tac, radio.region, radio.vendor, radio.mcc, radio.mnc"
for shards in 1 2 4 8; do
    point "  $shards" "$even" 4 "SELECT $keys, $(sums 4) FROM STREAM() GROUP BY $keys" --shards "$shards"
done

all="SELECT $(first 62 $dims), $(sums 20) FROM STREAM() GROUP BY GROUPING SETS ($(first 62 $dims))"
echo "L4 size of a record, 62/20"
for noise in 0 2 8 20; do
    make "$work/sized.ndjson" --skew 0 --noise "$noise"
    point "  $(($(wc -c <"$work/sized.ndjson") / records)) bytes" "$work/sized.ndjson" 1240 "$all"
done
rm "$work/sized.ndjson"

echo "L5 emits by the records' own time (a hundred records a second), 62/20"
make "$work/timed.ndjson" --event-rate 100
for window in 300000 60000 10000 1000; do
    point "  every $((window / 1000)) s" "$work/timed.ndjson" 1240 "$all WINDOWING TUMBLING($window, EVENT(tsEnd, 5000))"
done
rm "$work/timed.ndjson"

echo "L6 skew, 62/20"
for skew in 0 0.5 1 1.5; do
    make "$work/skewed.ndjson" --skew "$skew"
    point "  $skew" "$work/skewed.ndjson" 1240 "$all"
done
