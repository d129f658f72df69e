# The targets that people and CI run. Each sets up what it needs.

CARGO ?= cargo
# On which RabbitMQs `make test` runs: installed, rabbitmq-4, or both, separated by commas.
LEVERET_TEST_BROKERS ?= installed
export LEVERET_TEST_BROKERS

# On which RabbitMQs `make torture` runs, and for how many minutes on each. More: tests/torture/settings.rs.
LEVERET_TORTURE_BROKERS ?= rabbitmq-4
LEVERET_TORTURE_MINUTES ?= 60

# For how many seconds `make fuzz` searches with each target.
FUZZ_SECONDS ?= 20

# On which RabbitMQ `make bench` measures: installed or rabbitmq-4.
LEVERET_BENCH_BROKER ?= installed

.DEFAULT_GOAL := help
.PHONY: help build demo bench bench-micro test test-chart test-monitoring test-image torture fuzz lint sbom ci clean setup-test

help: ## Show this help.
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

build: ## Build the release binary: target/release/leveret.
	$(CARGO) build --locked --release

demo: ## Run Leveret on a private RabbitMQ and watch delayed messages arrive.
	scripts/setup-toolchain
	scripts/setup-broker
	scripts/demo

bench: ## Measure Leveret and what people would use instead, for docs/performance.md: about two hours.
	scripts/setup-toolchain
ifeq ($(LEVERET_BENCH_BROKER),rabbitmq-4)
	scripts/setup-rabbitmq-4
else
	scripts/setup-broker
endif
	LEVERET_BENCH_BROKER=$(LEVERET_BENCH_BROKER) scripts/bench

test: setup-test ## Set up and pass every test, on the installed RabbitMQ.
	$(CARGO) test --locked --no-fail-fast

torture: ## Break everything that can break for an hour, on a cluster, and tell what came of the messages.
	$(MAKE) setup-test LEVERET_TEST_BROKERS=$(LEVERET_TORTURE_BROKERS)
	LEVERET_TEST_BROKERS=$(LEVERET_TORTURE_BROKERS) LEVERET_TORTURE_MINUTES=$(LEVERET_TORTURE_MINUTES) \
		$(CARGO) test --locked --release --test torture -- nothing_is_lost

fuzz: ## Search for bytes from outside that break what reads them, FUZZ_SECONDS for each target.
	scripts/setup-toolchain
	FUZZ_SECONDS=$(FUZZ_SECONDS) scripts/fuzz

# An external broker, given by its URI, needs no RabbitMQ here.
setup-test:
	scripts/setup-toolchain
	scripts/setup-test-tools
ifeq ($(LEVERET_TEST_AMQP_URI),)
ifneq ($(findstring installed,$(LEVERET_TEST_BROKERS)),)
	scripts/setup-broker
endif
ifneq ($(findstring rabbitmq-4,$(LEVERET_TEST_BROKERS)),)
	scripts/setup-rabbitmq-4
endif
endif

test-chart: ## Test the Helm chart and its alerts, with the real tools and without a cluster.
	scripts/setup-toolchain
	$(CARGO) build --locked
	scripts/test-chart

test-monitoring: ## Test dashboard and alerts with a real Prometheus, on private brokers, while things break.
	scripts/setup-toolchain
ifneq ($(findstring installed,$(LEVERET_TEST_BROKERS)),)
	scripts/setup-broker
endif
ifneq ($(findstring rabbitmq-4,$(LEVERET_TEST_BROKERS)),)
	scripts/setup-rabbitmq-4
endif
	$(CARGO) build --locked
	scripts/test-monitoring

test-image: ## Build the image on a base of Debian's packages, and run it as Kubernetes would; needs root.
	scripts/setup-toolchain
	scripts/test-image

lint: ## Check format, lints, documentation and dependencies.
	scripts/setup-toolchain rustfmt clippy
	$(CARGO) fmt --check
	$(CARGO) clippy --locked --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --no-deps
	scripts/check-dependencies

sbom: ## Write the bill of materials of the binary, CycloneDX: target/sbom.cdx.json.
	scripts/setup-toolchain
	mkdir -p target
	scripts/sbom >target/sbom.cdx.json

bench-micro: ## Measure the pieces by themselves: time and allocations.
	scripts/setup-toolchain
	$(CARGO) bench --locked --bench micro

ci: ## Everything that CI runs: lints, the chart, the tests on both RabbitMQs.
	.ci/run

clean: ## Remove what was built here; the cache of brokers stays.
	$(CARGO) clean
