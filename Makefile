# Two commands are the whole set-up on a fresh Debian or Ubuntu machine: make run, make test.

# Where set-up puts the Rust that it chose, if the usual one is too old.
export PATH := $(CURDIR)/target/rust/bin:$(PATH)
CARGO ?= cargo
# Cargo builds libbpf, which does not build in a path with a space.
ifneq ($(words $(CURDIR)),1)
export CARGO_TARGET_DIR := $(shell scripts/target-without-space)
endif
# Programs that are read speak English, and tests that run as another user can read what was built,
# whatever the locale and the umask of whoever starts make.
export LC_ALL := C.UTF-8
XTASK = umask 022; $(CARGO) xtask
BINARY = $$(ls target/*/release/vmnoise target/release/vmnoise 2>/dev/null | head -1)

.PHONY: help run build programs install deb image check test test-rest test-all lab-full mutations fuzz bench papers examples soak chaos sbom weight validate setup clean

help:
	@echo "make run       build vmnoise and measure this machine for 10 s; ends with what was lost, who took it, and where the page is"
	@echo "make install   build all programs and put them below PREFIX (/usr/local): manual, completions, units"
	@echo "make deb       the same as a package for Debian and Ubuntu, in target"
	@echo "make image     vmnoise serve as an image for podman, from scratch"
	@echo "make check     format, lints, unit tests and 2,500 streams of the laws, without root: minutes"
	@echo "make test      the same, real events, the microVM, one lab of each kind"
	@echo "make test-all  make test, then all other labs, browser, fuzz and engine tests"
	@echo "make lab-full  vmnoise in every kernel that Debian has, newer ones too"
	@echo "make mutations puts deliberate faults into the code, and runs the tests that have to notice"
	@echo "make fuzz      inputs without end (SECONDS=3600) for all that reads what others say"
	@echo "make bench     speeds and costs, beside their peers; nothing is asserted"
	@echo "make papers    runs the papers' experiments in emulation, into target/papers (an hour)"
	@echo "make examples  records examples, and renews their pages and the pictures in docs/examples"
	@echo "make soak      an hour of measuring (SECONDS=3600): memory stays, nothing is lost"
	@echo "make chaos     an hour of faults around runs (SECONDS=3600): each goes on or says why it ends"
	@echo "make sbom      what the binary is made of (CycloneDX), and the licences of that, beside it"
	@echo "make weight    what the binary and the page of make run are made of, in bytes"
	@echo "make validate  compares osnoise with the kernel itself, has the audit find faults, and renews docs/validation.md"

run:
	@scripts/timed set-up $(MAKE) --silent setup
	@scripts/timed build $(MAKE) --silent build
	@scripts/run $(BINARY)

build: setup
	@$(CARGO) build --locked --release --package vmnoise

programs: setup
	@$(CARGO) build --locked --release --package vmnoise --package vmnoise-serve

install: programs
	@scripts/install $$(dirname $(BINARY))

deb: programs
	@scripts/deb $$(dirname $(BINARY))

image: programs
	@podman build --tag vmnoise --file packaging/container/Containerfile $$(dirname $(BINARY))

check: setup
	@VMNOISE_TEST_TOOLS=1 scripts/setup
	@$(XTASK) check

test: setup
	@VMNOISE_TEST_TOOLS=1 scripts/setup
	@$(XTASK) test

# The tests that `make test` leaves out.
test-rest: setup
	@VMNOISE_TEST_TOOLS=1 VMNOISE_REST_TOOLS=1 scripts/setup
	@$(XTASK) rest

test-all: test
	@$(MAKE) --no-print-directory test-rest

lab-full: setup
	@VMNOISE_TEST_TOOLS=1 VMNOISE_REST_TOOLS=1 VMNOISE_ENGINE_TOOLS=1 scripts/setup
	@$(XTASK) lab-full

mutations: setup
	@VMNOISE_TEST_TOOLS=1 VMNOISE_REST_TOOLS=1 scripts/setup
	@$(XTASK) mutations

bench: setup
	@VMNOISE_BENCH_TOOLS=1 scripts/setup
	@$(CARGO) xtask bench

papers: build
	@VMNOISE_TEST_TOOLS=1 scripts/setup
	@$(CARGO) build --quiet --package vmnoise-testbed --package vmnoise-lab --bins
	@scripts/papers

examples: build
	@VMNOISE_TEST_TOOLS=1 VMNOISE_EXAMPLE_TOOLS=1 scripts/setup
	@$(CARGO) build --quiet --package vmnoise-testbed --bins
	@scripts/examples

SECONDS ?= 3600
# What make soak measures with, a part of the time each.
SOAK ?= osnoise microvm serve

soak: programs
	@$(CARGO) run --quiet --package vmnoise-testbed --bin soak -- $(SECONDS) $(SOAK)

# CHAOS_SEED=N brings the same faults about in the same order.
chaos: build
	@VMNOISE_TEST_TOOLS=1 scripts/setup
	@$(CARGO) build --quiet --package vmnoise-testbed --bins
	@$(CARGO) run --quiet --package vmnoise-testbed --bin chaos -- $(SECONDS) $(CHAOS_SEED)

sbom: build
	@$(CARGO) xtask sbom $$(dirname $(BINARY))

weight: run
	@$(CARGO) xtask weight target/report.html

fuzz: setup
	@$(CARGO) run --quiet --locked --profile fuzz --package vmnoise-fuzz -- search --seconds $(SECONDS)

validate: build
	@VMNOISE_TEST_TOOLS=1 VMNOISE_ENGINE_TOOLS=1 scripts/setup
	@$(CARGO) build --quiet --package vmnoise-testbed --bins
	@$(CARGO) run --quiet --package vmnoise-testbed --bin validate

setup:
	@scripts/setup

clean:
	@$(CARGO) clean
