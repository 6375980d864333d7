# `make help` lists what there is. Works with CARGO_TARGET_DIR set and unset.

TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
CARGO ?= cargo
RUN_ARGS ?=
BENCH_ARGS ?=
SEEDS_ARGS ?=
KAFKA_ARGS ?=
PYTHON ?= python3
BIN_DIR ?= $(HOME)/.local/bin

# rustup's directory, for shells that were opened before it was installed.
export PATH := $(HOME)/.cargo/bin:$(PATH)
export CARGO
export FUZZ_SECONDS SOAK_SECONDS

.PHONY: help setup run build install test torture bench bench-seeds bench-kafka console docs fmt

help: ## List these targets.
	@sed -n 's/^\([a-z-]*\):[^#]*## /\1\t/p' Makefile | while IFS="$$(printf '\t')" read -r target what; do \
		printf '  make %-11s %s\n' "$$target" "$$what"; done

setup: ## Check that the tools to build with are there; as root, install missing ones.
	@sh scripts/setup.sh

run: setup ## Build live queries alone, in minutes, and start the demo (RUN_ARGS="--listen 127.0.0.1:9000").
	$(CARGO) build --profile quick -p swiftwater-cli --no-default-features
	$(TARGET_DIR)/quick/swiftwater demo $(RUN_ARGS)

build: setup ## Build everything, stored streams and SQL too, into target/release.
	$(CARGO) build --release -p swiftwater-cli

install: build ## Build everything; copy the stripped binary and its debug lines to ~/.local/bin (BIN_DIR="/usr/local/bin").
	install -D -m 755 $(TARGET_DIR)/release/swiftwater $(BIN_DIR)/swiftwater
	objcopy --only-keep-debug $(BIN_DIR)/swiftwater $(BIN_DIR)/swiftwater.debug
	chmod 644 $(BIN_DIR)/swiftwater.debug
	strip $(BIN_DIR)/swiftwater
	cd $(BIN_DIR) && objcopy --add-gnu-debuglink=swiftwater.debug swiftwater

test: setup ## Format, lints, all tests, licences: what a change must pass.
	@sh scripts/check.sh

torture: setup ## Long runs: soaks, kills, fuzzing (SOAK_SECONDS, FUZZ_SECONDS per target, default 3600).
	@sh scripts/torture.sh

console: ## Build the page at / from console/ into console/dist, which is committed; needs Node 20.
	npm ci --prefix console --ignore-scripts --no-audit --no-fund
	npm --prefix console run build

bench: setup ## All benchmarks; writes bench/RESULTS.md, bench/results/ (BENCH_ARGS="--quick").
	$(CARGO) build --release -p swiftwater-cli
	RUSTFLAGS="-C target-cpu=native" $(CARGO) build --release -p swiftwater-bench --target-dir $(TARGET_DIR)/native
	SWIFTWATER_BENCH_NATIVE=$(abspath $(TARGET_DIR))/native/release/swiftwater-bench \
		$(CARGO) run --release -p swiftwater-bench -- $(or $(BENCH_ARGS),--write)

bench-seeds: setup ## Published experiments run again, the short form (SEEDS_ARGS="--output html").
	$(CARGO) build --release -p swiftwater-cli
	$(TARGET_DIR)/release/swiftwater bench seeds $(SEEDS_ARGS)

bench-kafka: setup ## Streams, sinks and clusters over a broker of its own; needs Java 17, Maven, and confluent-kafka for PYTHON.
	$(CARGO) build --release -p swiftwater-cli
	$(PYTHON) bench/kafka.py $(TARGET_DIR)/release/swiftwater $(KAFKA_ARGS)
	$(PYTHON) bench/cluster.py $(TARGET_DIR)/release/swiftwater
	$(PYTHON) bench/cluster.py $(TARGET_DIR)/release/swiftwater --queries groupings
	$(PYTHON) bench/cluster.py $(TARGET_DIR)/release/swiftwater --latency 5000 --nodes 2

docs: setup ## The documentation as a book with search, in target/book; installs mdbook if it is missing.
	@command -v mdbook >/dev/null || { \
		echo "mdbook is missing: installing it with cargo install --locked mdbook"; \
		$(CARGO) install --locked mdbook; }
	@mkdir -p $(TARGET_DIR)/book/bench $(TARGET_DIR)/book/config
	mdbook build --dest-dir $(abspath $(TARGET_DIR))/book/docs
	@cp -R bench/results $(TARGET_DIR)/book/bench/
	@cp config/default.toml $(TARGET_DIR)/book/config/
	@cp -R examples $(TARGET_DIR)/book/
	@echo "open $(TARGET_DIR)/book/docs/index.html"

fmt: setup ## Format the code.
	$(CARGO) fmt --all
