# `make` alone lists the targets. Each does its own set-up.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LINTER := bin/tools/golangci-lint
GOFILES = $(shell git ls-files --cached --others --exclude-standard '*.go')

# Handed through: make test TESTFLAGS='-shuffle=on -run=Claim', make bench BENCH='deliver|fair' ROUNDS=5
TESTFLAGS ?=
DEMOFLAGS ?=
BENCH ?= .
ROUNDS ?= 3

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' Makefile

.PHONY: build
build: ## build bin/whctl
	CGO_ENABLED=0 go build -trimpath -ldflags '-X main.version=$(VERSION)' -o bin/whctl ./cmd/whctl

.PHONY: demo
demo: postgres build ## run the story of twelve enrolments on a private Postgres
	bin/whctl demo $(DEMOFLAGS)

# Not cached (-count=1): the tests depend on programs that go test does not watch.
.PHONY: test
test: test-tools lint verify ## everything a change has to pass: lint, vet, law, man pages, all tests with the race detector
	go vet ./...
	go -C internal/bench vet ./...
	go -C internal/bench test ./...
	CGO_ENABLED=1 go test -race -count=1 -timeout=12m $(TESTFLAGS) ./...

.PHONY: test-short
test-short: postgres ## the quick tests
	go test -short $(TESTFLAGS) ./...

.PHONY: lint
lint: $(LINTER) ## run golangci-lint
	$(LINTER) run
	cd internal/bench && $(CURDIR)/$(LINTER) run

.PHONY: fmt
fmt: $(LINTER) ## format the Go code
	$(LINTER) fmt

# In a module of its own: River's modules must not choose the versions of ours.
BENCHMARK = CGO_ENABLED=0 go -C internal/bench build -trimpath -o '$(CURDIR)/bin/bench' . && bin/bench -only '$(BENCH)' -rounds '$(ROUNDS)'

.PHONY: bench
bench: postgres build ## measure all (BENCHMARKS.md); BENCH chooses what, ROUNDS how often
	$(BENCHMARK)

.PHONY: bench-quick
bench-quick: postgres build ## measure with fewer rows, in less than three minutes on a quiet machine
	$(BENCHMARK) -quick

.PHONY: man
man: ## write the man pages anew
	go run ./internal/mangen -out man

.PHONY: verify
verify: ## formatting, modules and man pages are as they should be
	@unformatted=$$(gofmt -l $(GOFILES)); [ -z "$$unformatted" ] || { echo "not formatted, make fmt does it: $$unformatted" >&2; exit 1; }
	go mod tidy -diff
	go -C internal/bench mod tidy -diff
	go mod verify
	go -C internal/bench mod verify
	go run ./internal/mangen -check -out man

.PHONY: postgres
postgres: ## find Postgres' programs, or install Debian's
	@.ci/need postgres

# Besides Postgres: what some tests put before it, and the race detector's linker.
.PHONY: test-tools
test-tools:
	@.ci/need postgres pgbouncer faketime cc

.PHONY: clean
clean: ## remove what was built
	rm -rf bin

# In a module of its own: its 400 modules must not choose the versions of ours.
$(LINTER): internal/tools/go.mod internal/tools/go.sum
	go -C internal/tools build -ldflags '-s -w' -o '$(CURDIR)/$@' github.com/golangci/golangci-lint/v2/cmd/golangci-lint
