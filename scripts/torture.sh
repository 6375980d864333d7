#!/bin/sh
# Long runs, for a night rather than a change: `make torture`.
#   SOAK_SECONDS   tests that can go on longer than a change should wait read it (default 3600)
#   SOAK_CASES     random queries of each kind that are held against the oracle (default 100000)
#   SWIFTWATER_ENGINE_CRASH_STEP   calls between the crashes of the whole engine (default 1: at each)
#   TORTURE_SEED   chooses what is killed and when, of brokers of Kafka among others (default 1)
#   KILLS          kills of a server under load (default 200)
#   WORKER_KILLS   kills of workers under SQL statements (default 300)
#   MIRI_CASES     of each property test under Miri, which is some hundred times slower (default 4)
#   FUZZ_SECONDS   per fuzz target (default 3600); needs a nightly toolchain and cargo-fuzz
# Every part runs, whatever became of those before it; the last line counts.
set -u
cd "$(dirname "$0")/.." || exit 1

CARGO=${CARGO:-cargo}
passed=0 failed=0 skipped=0

part() { # part NAME COMMAND...
    name=$1
    shift
    printf '\n== %s: %s\n' "$name" "$*"
    if "$@"; then
        echo "torture $name: ok"
        passed=$((passed + 1))
    else
        echo "torture $name: FAILED"
        failed=$((failed + 1))
    fi
}

skip() { # skip NAME WHY
    printf '\n== %s: skipped: %s\n' "$1" "$2"
    skipped=$((skipped + 1))
}

SOAK_SECONDS=${SOAK_SECONDS:-3600}
SOAK_CASES=${SOAK_CASES:-100000}
PROPTEST_CASES=${PROPTEST_CASES:-20000}
MIRI_CASES=${MIRI_CASES:-4}
FUZZ_SECONDS=${FUZZ_SECONDS:-3600}
KILLS=${KILLS:-200}
WORKER_KILLS=${WORKER_KILLS:-300}
# At each call of the whole engine there is a crash, not at every so many.
SWIFTWATER_ENGINE_CRASH_STEP=${SWIFTWATER_ENGINE_CRASH_STEP:-1}
export SOAK_SECONDS SOAK_CASES PROPTEST_CASES KILLS WORKER_KILLS SWIFTWATER_ENGINE_CRASH_STEP

# Fuzzing goes on beside the soaks: a busy machine is part of what they are for, and both take an hour.
logs=$(mktemp -d)
fuzzing=""
if ! "$CARGO" +nightly fuzz --version >/dev/null 2>&1; then
    skip fuzzing "rustup toolchain install nightly; cargo install --locked cargo-fuzz"
elif "$CARGO" +nightly fuzz build; then
    for target in $("$CARGO" +nightly fuzz list); do
        "$CARGO" +nightly fuzz run "$target" -- -max_total_time="$FUZZ_SECONDS" -rss_limit_mb=4096 -timeout=20 \
            >"$logs/$target" 2>&1 &
        fuzzing="$fuzzing $target:$!"
    done
else
    part fuzzing false
fi

part "soaks, kills, long property tests" "$CARGO" test --release --workspace --no-fail-fast
if command -v java >/dev/null && command -v mvn >/dev/null; then
    part "a cluster whose node is killed" sh examples/cluster/run.sh 20000
    part "a cluster whose brokers are killed" sh tests/kafka/cluster.sh 30000
else
    skip "a cluster whose node is killed" "Java or Maven is missing"
    skip "a cluster whose brokers are killed" "Java or Maven is missing"
fi
if command -v valgrind >/dev/null 2>&1; then
    part "instructions an event" "$CARGO" test --release --workspace --test instructions -- --nocapture
else
    skip "instructions an event" "there is no valgrind"
fi
# With the vectors that Miri knows, and without any.
if "$CARGO" +nightly miri --version >/dev/null 2>&1; then
    for features in "" "-C target-feature=+avx2,+bmi1,+bmi2,+lzcnt,+popcnt"; do
        part "unsafe code under Miri, ${features:-no vectors}" env PROPTEST_CASES="$MIRI_CASES" MIRIFLAGS=-Zmiri-disable-isolation \
            RUSTFLAGS="$features" "$CARGO" +nightly miri test -p swiftwater-event --lib
    done
else
    skip "unsafe code under Miri" "rustup component add miri rust-src --toolchain nightly"
fi
for one in $fuzzing; do
    target=${one%%:*}
    printf '\n== waiting for fuzz %s\n' "$target"
    part "fuzz $target" wait "${one##*:}"
    tail -n 3 "$logs/$target"
done

echo
echo "torture: $passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
