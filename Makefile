# `make test` is all that a change must pass, `make demo` shows that it works.

CARGO ?= cargo
TARGET := $(or $(CARGO_TARGET_DIR),target)
BERTH := $(TARGET)/release/berth
PARTS = $(sort $(patsubst test-long-%,%,$(filter test-long-%,$(shell sed -n 's/^\(test-long-[a-z-]*\):.*/\1/p' Makefile))))
# What the tests were built with. An optimised build takes as long as half of all tests.
TESTED := $(TARGET)/debug/berth

.PHONY: test-long build test demo lab lab-small bench man fmt lint unit clients deny

build:
	$(CARGO) build --release --locked -p berth-cli

test:
	scripts/setup
	$(MAKE) fmt lint unit
	$(MAKE) clients deny lab-small BERTH=$(TESTED)

demo:
	scripts/demo

# Seconds each: they show that the experiments work, not how fast anything is.
lab: build
	$(MAKE) lab-small

lab-small:
	$(BERTH) lab run density --scale small --out $(TARGET)/lab/density-small
	$(BERTH) lab run updates --scale small --out $(TARGET)/lab/updates-small
	$(BERTH) lab run restart --scale small --out $(TARGET)/lab/restart-small
	$(BERTH) lab run state --scale small --out $(TARGET)/lab/state-small
	$(BERTH) lab run state --part c --scale small --polls 3 --out $(TARGET)/lab/state-beside-small
	$(BERTH) lab run failover --scale small --out $(TARGET)/lab/failover-small
	$(BERTH) lab run failover --scale small --mode cold --tls-connections 60 --out $(TARGET)/lab/failover-cold-small
	$(BERTH) lab run liveness --scale small --out $(TARGET)/lab/liveness-small
	$(BERTH) lab run density --scale small --secure --out $(TARGET)/lab/density-secure-small
	$(BERTH) lab run connect --scale small --out $(TARGET)/lab/connect-small
	$(BERTH) lab run revoke --scale small --out $(TARGET)/lab/revoke-small
	$(BERTH) lab run writes --scale small --dispatch --nodes 5 --out $(TARGET)/lab/dispatches-small
	$(BERTH) lab run soak --scale small --out $(TARGET)/lab/soak-small
	scripts/lab-launch $(BERTH) $(TARGET)/lab/launch-small

bench: build
	$(CARGO) bench --locked -p berth-cli --bench slice
	$(CARGO) bench --locked -p berth-cli --bench commands
	$(CARGO) bench --locked -p berth-model --bench ended
	$(CARGO) bench --locked -p berth-jobfile --bench hostile
	$(CARGO) bench --locked -p berth-server --bench blocked_readers
	$(CARGO) bench --locked -p berth-server --bench event_stream
	$(CARGO) bench --locked -p berth-scheduler --bench engine
	$(CARGO) build --release --locked -p berth-agent --example agent
	$(CARGO) bench --locked -p berth-agent --bench images
	$(CARGO) bench --locked -p berth-agent --bench tasks
	$(BERTH) lab run density --scale medium --out $(TARGET)/lab/density
	$(BERTH) lab run updates --scale medium --out $(TARGET)/lab/updates

# The long form of a part of the tests: `make test-long PART=sim`. Each takes half an hour at most, besides its build; it is ended
# after BUDGET_S, and says what it took.
BUDGET_S ?= 2700

test-long:
	@[ -n "$(PART)" ] || { echo "say which part with PART=: $(PARTS)" >&2; exit 2; }
	@echo "PART=$(PART): $(BUDGET_S) s at most, with its build"
	@begun=$$(date +%s); code=0; timeout -k 30 $(BUDGET_S) $(MAKE) test-long-$(PART) || code=$$?; \
	took=$$(( $$(date +%s) - begun )); echo "PART=$(PART): $$took s of $(BUDGET_S), exit code $$code"; exit $$code

test-long-sim:
	$(CARGO) run --release --locked -p berth-sim -- --seeds 0..1000
	$(CARGO) run --release --locked -p berth-sim -- --bugs
	$(CARGO) run --release --locked -p berth-sim -- --twice 0..50

# The same of three servers and of five.
test-long-sim-servers:
	$(CARGO) run --release --locked -p berth-sim -- --servers 3 --seeds 0..300
	$(CARGO) run --release --locked -p berth-sim -- --servers 5 --seeds 0..100
	$(CARGO) run --release --locked -p berth-sim -- --servers 3 --bugs
	$(CARGO) run --release --locked -p berth-sim -- --servers 3 --twice 0..50

# The leader of three real servers is killed fifty times under load, and stopped as often; their disks are slow and full. Times
# are printed and judged.
SERVERS_TEST := $(CARGO) test --release --locked -p berth-cli --test servers -- --test-threads=1 --nocapture

test-long-servers:
	BERTH_TEST_ROUNDS=50 $(SERVERS_TEST) --skip kills:: --skip membership:: --skip partitions:: --skip links:: --skip clocks::

# Servers die two hundred times, each at another step of what it does to its disk.
test-long-steps:
	BERTH_TEST_ROUNDS=50 $(SERVERS_TEST) kills::

# Servers are taken in and out a hundred times under load.
test-long-membership:
	BERTH_TEST_ROUNDS=50 $(SERVERS_TEST) membership::

# Leaders and followers are cut off a hundred times, in one direction or both, and stand still for up to a minute. A leader is cut
# off with a follower and its agent, for longer than a node may be silent.
test-long-partitions:
	BERTH_TEST_ROUNDS=50 $(SERVERS_TEST) partitions::

# Links between servers, and between agents and servers, damage what they carry or carry it byte by byte, two hundred times;
# clocks of servers and of agents step by hours.
test-long-links:
	BERTH_TEST_ROUNDS=50 $(SERVERS_TEST) links:: clocks::

# An agent is killed two thousand times while it starts and stops tasks; nothing is begun twice, and nothing is left. Two hundred
# tasks outlive an agent that is killed fifty times.
test-long-agents:
	$(CARGO) build --release --locked -p berth-agent --examples
	BERTH_TEST_ROUNDS=50 $(CARGO) test --release --locked -p berth-agent --test reattach -- --nocapture
	BERTH_TEST_ROUNDS=1000 $(CARGO) test --release --locked -p berth-agent --test cycles -- --nocapture

# A server and its agent are killed a hundred times while jobs come in, tasks run and batch work ends; nothing is lost, none of it is
# begun twice, and events and states agree.
test-long-survival:
	BERTH_TEST_ROUNDS=100 $(CARGO) test --release --locked -p berth-cli --test survival -- --nocapture

# Nodes have a hundred faults (links in either direction, pauses, deaths, full disks, wrong clocks, a server that restarts) while jobs
# change; then allocations and processes are compared.
test-long-nodes:
	BERTH_TEST_ROUNDS=100 $(CARGO) test --release --locked -p berth-cli --test node_faults -- --nocapture

# All servers are down for ten minutes while tasks run: nothing happens to these, and soon all is known again.
test-long-outage:
	BERTH_TEST_ROUNDS=600 $(CARGO) test --release --locked -p berth-cli --test agents all_servers_are_down -- --nocapture

# Three servers and their agents are upgraded from the last build of an older version of the log, go back, and are upgraded again.
LOG_VERSION_CHANGED = $(shell git log -1 --format=%H -G'ENTRY_VERSION: u8 =' -- crates/model/src/command/entry.rs)
OLDER := $(TARGET)/older

test-long-upgrades:
	rm -rf $(OLDER)/source && git worktree prune
	git worktree add --detach $(OLDER)/source $(LOG_VERSION_CHANGED)^
	cd $(OLDER)/source && CARGO_TARGET_DIR=$(abspath $(OLDER)) $(CARGO) build --release --locked -p berth-cli
	git worktree remove --force $(OLDER)/source
	BERTH_OLDER=$(abspath $(OLDER))/release/berth $(CARGO) test --release --locked -p berth-cli --test builds -- --nocapture

# Servers on disks of their own lose their power five hundred times while clients write; it takes the right to mount.
test-long-power:
	BERTH_TEST_ROUNDS=250 $(CARGO) test --release --locked -p berth-cli --test disks -- --test-threads=1 --nocapture

# Every bit of a mebibyte of the log flips, one by one.
test-long-bits:
	BERTH_TEST_ROUNDS=1 $(CARGO) test --release --locked -p berth-replication --lib -- of_a_mebibyte

# Servers that are far behind get snapshots while writes go on.
test-long-snapshots:
	BERTH_TEST_ROUNDS=20 $(CARGO) test --release --locked -p berth-replication --lib -- far_behind

# Histories of clients of three real servers, under a hundred and fifty faults, are judged.
test-long-linearizability:
	BERTH_TEST_ROUNDS=150 $(CARGO) test --release --locked -p berth-cli --test linearizability -- --nocapture

# A hundred thousand random histories of the pure controller, with entries that are refused, late, lost or unknown; as many of
# several servers.
test-long-histories:
	HISTORIES=100000 $(CARGO) test --release --locked -p berth-controller --test histories --test servers -- --nocapture

# Made-up and damaged input, and random input beside simple models of the same: many times what `make test` tries.
test-long-fuzz: export PROPTEST_CASES ?= 5000
test-long-fuzz:
	$(CARGO) test --release --locked -p berth-jobfile --test hostile --test round_trip
	$(CARGO) test --release --locked -p berth-template --test go -- properties::
	$(CARGO) test --release --locked -p berth-model --lib --test hostile --test histories
	$(CARGO) test --release --locked -p berth-scheduler --lib --test stories
	$(CARGO) test --release --locked -p berth-agent --lib -- fuzz:: corpus:: submission:: destinations:: survival:: updates::
	$(CARGO) test --release --locked -p berth-server --lib -- fuzz:: damaged::

# Readers and peers that mean harm, at their full strength; memory and what a client waits are judged.
test-long-hostile: build
	$(BERTH) lab run hostile --scale full --runs 1 --out $(TARGET)/lab/hostile

# Half an hour of everything that changes a cluster; what the server holds after each minute's garbage collection is judged. The
# full scale lasts an hour.
test-long-soak: build
	$(BERTH) lab run soak --scale full --rounds 29 --runs 1 --out $(TARGET)/lab/soak

# Each fault of crates/cli/tests/planted/faults.toml is put back into a copy of the code, and the tests that are there to find it must
# fail. `PLANTED=word` takes those whose row has the word. The copy is built in a folder of its own.
PLANTED_RUN = CARGO_TARGET_DIR=$(abspath $(TARGET))/planted $(CARGO) run --locked -p berth-cli --example planted

test-long-planted: export PLANTED_PACKAGES = berth-api berth-model berth-jobfile berth-scheduler berth-controller berth-replication berth-lab \
	berth-sim
test-long-planted:
	$(PLANTED_RUN)

test-long-planted-server: export PLANTED_PACKAGES = berth-server
test-long-planted-server:
	$(PLANTED_RUN)

test-long-planted-agent: export PLANTED_PACKAGES = berth-agent
test-long-planted-agent:
	$(PLANTED_RUN)

# Of the command line, and with real servers and agents.
test-long-planted-cli: export PLANTED_PACKAGES = berth-cli
test-long-planted-cli:
	$(PLANTED_RUN)

# The test suites of Nomad's Go package and of python-nomad, against this build; clients/ecosystem lists what cannot pass, and why.
test-long-ecosystem:
	scripts/ecosystem

# Manual pages: `man -l target/man/berth.1`.
man: build
	$(BERTH) man $(TARGET)/man

fmt:
	$(CARGO) fmt --all -- --check

lint:
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

unit:
	CARGO="$(CARGO)" scripts/unit

clients:
	scripts/clients

deny:
	scripts/deny
