#!/bin/sh
# What a change must pass: `make test` runs it. Every check runs, whatever became of those before it; the last lines
# count checks and tests, and what was skipped. CI=true: the lock file must already be right.
set -u
cd "$(dirname "$0")/.." || exit 1

CARGO=${CARGO:-cargo}
# What is built once needs no intermediate files for the next time: they would take half of the disk that this takes.
CARGO_INCREMENTAL=${CARGO_INCREMENTAL:-0}
export CARGO_INCREMENTAL
# Nor line numbers in backtraces: a panic names its own place, and compiling and linking take less time without them.
[ "${CI:-}" = true ] && export CARGO_PROFILE_DEV_DEBUG="${CARGO_PROFILE_DEV_DEBUG:-0}"
locked=""
[ "${CI:-}" = true ] && locked=--locked
log=$(mktemp)
status=$(mktemp)
# Folders of the tests that are left behind, as by servers that were killed, go with this one.
TMPDIR=$(mktemp -d)
export TMPDIR
trap 'rm -rf "$log" "$status" "$TMPDIR"' EXIT
passed=0 failed=0 skipped=0 summary=""

note() { # note RESULT NAME REMARK
    summary="$summary
$(printf 'check %-34s %s%s' "$2" "$1" "${3:+ ($3)}")"
}

check() { # check NAME COMMAND...
    name=$1
    shift
    printf '\n== %s: %s\n' "$name" "$*"
    began=$(date +%s)
    { "$@"; echo $? >"$status"; } 2>&1 | tee -a "$log"
    took="$(($(date +%s) - began)) s"
    if [ "$(cat "$status")" = 0 ]; then
        passed=$((passed + 1))
        note ok "$name" "$took"
    else
        failed=$((failed + 1))
        note FAILED "$name" "$took"
    fi
}

skip() { # skip NAME WHY
    printf '\n== %s: skipped: %s\n' "$1" "$2"
    skipped=$((skipped + 1))
    note skipped "$1" "$2"
}

# The tests link the system's OpenSSL where it is there. Releases have one of their own, which takes minutes to build.
if [ -z "${OPENSSL_NO_VENDOR:-}" ] && pkg-config --exists 'openssl >= 3' 2>/dev/null; then
    OPENSSL_NO_VENDOR=1
    export OPENSSL_NO_VENDOR
fi

check format "$CARGO" fmt --all --check
# Clippy is a compiler that also lints: with it in the compiler's place one run does both, where `cargo clippy` would compile
# everything once more than the tests do. These two variables are how `cargo clippy` itself asks for it.
RUSTC_WORKSPACE_WRAPPER=$(rustc --print sysroot)/bin/clippy-driver
CLIPPY_ARGS=-Dwarnings__CLIPPY_HACKERY__
export RUSTC_WORKSPACE_WRAPPER CLIPPY_ARGS
# The binary that `make run` builds, for crates/cli/tests/live_only.rs. First, as the full one takes its place.
# shellcheck disable=SC2086 # `locked` may be no word at all
check "build without history" "$CARGO" build -p swiftwater-cli --no-default-features $locked
target="${CARGO_TARGET_DIR:-target}"
if mkdir -p "$target/live-only" && cp "$target/debug/swiftwater" "$target/live-only/swiftwater"; then
    SWIFTWATER_LIVE_ONLY_BIN=$(cd "$target/live-only" && pwd)/swiftwater
    export SWIFTWATER_LIVE_ONLY_BIN
fi
# shellcheck disable=SC2086
check "build and lints" "$CARGO" test --workspace --all-targets --no-run $locked
# What some tests need from elsewhere; fetched first, so that one run of all tests uses it. Without it they say that they
# were skipped, and so does the count below.
# Clients from npm, for crates/server/tests/stomp.rs.
if ! command -v node >/dev/null 2>&1 || ! command -v npm >/dev/null 2>&1; then
    skip "STOMP clients from npm" "there is no node"
elif ! npm ci --prefix tests/stomp --no-audit --no-fund >/dev/null 2>&1; then
    skip "STOMP clients from npm" "npm ci --prefix tests/stomp failed: the registry cannot be reached"
fi
# The page at `/` (console/): what is committed is what its sources give, and it works in a browser.
if ! command -v node >/dev/null 2>&1 || ! command -v npm >/dev/null 2>&1; then
    skip "console" "there is no node"
elif ! npm ci --prefix console --ignore-scripts --no-audit --no-fund >/dev/null 2>&1; then
    skip "console" "npm ci --prefix console failed: the registry cannot be reached"
else
    check "console: sources and bytes" npm --prefix console run --silent check
    check "console: modules" npm --prefix console test --silent
    if command -v chromium >/dev/null 2>&1; then
        check "console: in a browser" npm --prefix console run --silent test:browser
        check "console: of a server" npm --prefix console run --silent test:server -- \
            "$(cd "$target" && pwd)/debug/swiftwater" "$(cd "$target" && pwd)/live-only/swiftwater"
    else
        skip "console: in a browser" "Debian has it in the package chromium"
    fi
fi
# Other readers of Delta Lake and an S3 server, for crates/store/tests/store/others.rs; clients of a server, for
# crates/server/tests/server/clients.rs.
python="$target/python"
if python3 -m venv "$python" >/dev/null 2>&1 &&
    "$python/bin/pip" install -q -r tests/delta/requirements.txt -r tests/clients/requirements.txt >/dev/null 2>&1; then
    SWIFTWATER_PYTHON=$(cd "$python" && pwd)/bin/python
    export SWIFTWATER_PYTHON
else
    skip "Delta readers, S3 and clients from PyPI" "there is no python3 with venv, or PyPI cannot be reached"
fi
# Programs that the tests of crates/server and crates/cli talk to, and by which one of these looks at system calls.
for program in psql:postgresql-client logger:bsdutils rsyslogd:rsyslog strace:strace nginx:nginx-light haproxy:haproxy \
    openssl:openssl; do
    if ! PATH="$PATH:/usr/sbin" command -v "${program%%:*}" >/dev/null 2>&1; then
        skip "a test with ${program%%:*}" "Debian has it in the package ${program##*:}"
    fi
done

# Unit, integration and documentation tests; among them the dependency arrows (crates/testkit/tests/rooms.rs) and the
# examples of README.md and docs (crates/testkit/tests/examples.rs).
# shellcheck disable=SC2086
check tests "$CARGO" test --workspace --no-fail-fast $locked

if "$CARGO" deny --version >/dev/null 2>&1; then
    check "licences, bans, sources" "$CARGO" deny check licenses bans sources
    if [ "${ADVISORIES:-}" = 1 ]; then
        check advisories "$CARGO" deny check advisories
    else
        skip advisories "ADVISORIES=1 fetches their database and looks"
    fi
else
    skip "licences, bans, sources" "cargo install --locked cargo-deny"
fi

echo "$summary"
echo
awk '/^test result:/ {
        for (i = 2; i <= NF; i++) {
            if ($i ~ /^passed/) passed += $(i - 1)
            if ($i ~ /^failed/) failed += $(i - 1)
            if ($i ~ /^ignored/) ignored += $(i - 1)
        }
    }
    END { printf "tests: %d passed, %d failed, %d skipped\n", passed, failed, ignored }' "$log"
echo "checks: $passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
