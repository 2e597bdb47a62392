# `make test` is all that a change must pass, `make demo` shows that it works.

CARGO ?= cargo

.PHONY: build test demo bench fmt lint unit clients deny

build:
	$(CARGO) build --release --locked -p berth-cli

test:
	scripts/setup
	$(MAKE) fmt lint unit clients deny

demo:
	scripts/demo

bench:
	$(CARGO) bench --locked -p berth-cli --bench slice

fmt:
	$(CARGO) fmt --all -- --check

lint:
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

unit:
	$(CARGO) test --workspace --locked

clients:
	scripts/clients

deny:
	scripts/deny
