#!/bin/sh
# Checks for the tools that building and testing need; installs missing ones where it may (root on Debian or Ubuntu),
# names them where it may not. Says nothing when all is there.
set -eu

PATH="$HOME/.cargo/bin:$PATH"

packages=""
need() { # need COMMAND PACKAGE...
    command=$1
    shift
    command -v "$command" >/dev/null 2>&1 || packages="$packages $*"
}

need cc gcc libc6-dev # zstd and mimalloc are built from C
need c++ g++          # librdkafka's build has a part in C++
need make make        # librdkafka and OpenSSL are built with it
# OpenSSL's configuration is a program in Perl, and Debian's base system has only some of its modules.
perl -MFindBin -MIPC::Cmd -MTime::Piece -e 1 >/dev/null 2>&1 || packages="$packages perl"
need curl curl        # the examples of README.md, which the tests run
need cargo rustup     # rust-toolchain.toml names the version; rustup fetches it

# What one test needs; without it that says that it was skipped.
wanted=""
command -v strace >/dev/null 2>&1 || wanted="strace"

missing() {
    echo "setup: missing tools. On Debian or Ubuntu: apt-get install$packages" >&2
    echo "setup: elsewhere: compilers of C and C++, make, perl, curl, and Rust by rustup (https://rustup.rs)" >&2
    exit 1
}

install() {
    apt-get update -qq &&
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends ca-certificates "$@"
}

if [ -n "$packages" ]; then
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
        missing
    fi
    echo "setup: installing$packages"
    # shellcheck disable=SC2086 # a list of words
    install $packages >&2 || missing
fi

if [ -n "$wanted" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "setup: installing $wanted"
    install "$wanted" >&2 || echo "setup: $wanted cannot be installed; what needs it is skipped" >&2
fi

# Lets rustup fetch the pinned toolchain now, so that what fails here is not taken for a failed build.
if ! version=$(cargo --version 2>&1); then
    echo "setup: cargo does not start: $version" >&2
    echo "setup: rust-toolchain.toml pins the toolchain; \`rustup toolchain install\` in this directory fetches it" >&2
    exit 1
fi
