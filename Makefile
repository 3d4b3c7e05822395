# Everything a run needs is a variable with a default; `make verify NEMESIS=pause SEED=7` sets two of them. An empty one
# leaves the default to the program: EXECUTORS means nothing to WORKLOAD=lock, and is refused there.
NEMESIS   ?= pause
BACKEND   ?= pg
ETCD_MEMBERS ?=
WORKLOAD  ?= payout
DURATION  ?= 30s
EXECUTORS ?=
SEED      ?=
FENCING   ?= on
FLAGS     ?=
ONLY      ?=
ROUNDS    ?=
MIXES     ?=
JOBS      ?=
INTO      ?=
FUZZTIME  ?= 60s

# A negative control runs each of these; FENCING=rail-off, say, runs that one alone.
CONTROLS  := $(if $(filter on,$(FENCING)),payment-off rail-off off,$(FENCING))

GO        ?= go

# A mistyped variable would leave its default in force, and so would one that the target does not take.
takes_verify           := NEMESIS BACKEND ETCD_MEMBERS WORKLOAD DURATION EXECUTORS SEED FENCING FLAGS KEEP GO
takes_negative-control := $(takes_verify)
takes_mutants          := ONLY INTO FLAGS KEEP GO
takes_sweep            := BACKEND ETCD_MEMBERS SEED FLAGS KEEP GO
takes_soak             := NEMESIS BACKEND ETCD_MEMBERS WORKLOAD DURATION SEED ROUNDS MIXES JOBS INTO FLAGS KEEP GO
takes_bench            := FLAGS GO
takes_golden           := FLAGS GO
takes_fuzz             := FUZZTIME GO
takes_doctor           := FLAGS GO
VARIABLES := NEMESIS BACKEND ETCD_MEMBERS WORKLOAD DURATION EXECUTORS SEED FENCING FLAGS ONLY ROUNDS MIXES JOBS INTO KEEP FUZZTIME GO
empty     :=
space     := $(empty) $(empty)
given     := $(foreach v,$(subst \$(space),_,$(MAKEOVERRIDES)),$(firstword $(subst =, ,$(v))))
mistyped  := $(filter-out $(VARIABLES),$(given))
ifneq ($(mistyped),)
$(error $(firstword $(mistyped)) is no variable of this Makefile; there are $(VARIABLES))
endif
# What the environment sets for others is no mistake, but for a soak that it seems to change.
asked     := $(or $(MAKECMDGOALS),help)
unused    := $(filter-out GO $(foreach t,$(asked),$(takes_$(t))),$(given)) \
             $(if $(filter soak,$(asked)),$(foreach v,EXECUTORS FENCING ONLY,$(if $(filter environment%,$(origin $(v))),$(v))))
ifneq ($(strip $(unused)),)
$(error $(strip $(unused)): make $(asked) takes no such variable$(foreach t,$(asked),$(if $(takes_$(t)),; $(t) takes $(takes_$(t)))))
endif
run_flags  = --nemesis "$(NEMESIS)" --backend "$(BACKEND)" --workload "$(WORKLOAD)" --duration "$(DURATION)" \
             $(if $(EXECUTORS),--executors "$(EXECUTORS)") $(if $(ETCD_MEMBERS),--etcd-members "$(ETCD_MEMBERS)") $(if $(SEED),--seed "$(SEED)") $(FLAGS)

# A soak takes all there is of what is not given: what is a default for one run is none for it.
own        = $(if $(filter-out file,$(origin $(1))),$($(1)))
soak_flags = $(foreach v,NEMESIS BACKEND WORKLOAD,$(if $(call own,$(v)),--$(lower_$(v)) "$(call own,$(v))")) \
             $(if $(call own,DURATION),--duration "$(DURATION)",$(if $(ROUNDS)$(INTO),,--duration 8h)) \
             $(if $(ROUNDS),--rounds "$(ROUNDS)") $(if $(MIXES),--mixes "$(MIXES)") $(if $(JOBS),--jobs "$(JOBS)") $(if $(INTO),--into "$(INTO)") \
             $(if $(ETCD_MEMBERS),--etcd-members "$(ETCD_MEMBERS)") $(if $(SEED),--first-seed "$(SEED)") $(FLAGS)
lower_NEMESIS  := nemesis
lower_BACKEND  := backend
lower_WORKLOAD := workload

.PHONY: verify negative-control mutants sweep soak build test lint bench bundle golden fuzz clean help

help: ## print the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20

verify: build ## run the system, break it, judge it; the report is runs/latest/report.html
	bin/fenceproof verify $(run_flags) $(if $(filter-out on,$(FENCING)),--fencing $(FENCING))

negative-control: build ## switch the fences off and assert that exactly the right invariants fall
	@for f in $(CONTROLS); do bin/fenceproof verify $(run_flags) --fencing $$f --control || exit; done

mutants: build ## break the system on purpose, build by build, and see each one caught by the right invariant; ONLY=name,name; INTO=FOLDER goes on
	bin/fenceproof mutants $(if $(ONLY),--only "$(ONLY)",--doc docs/mutants.md) $(if $(INTO),--into "$(INTO)") $(FLAGS)

sweep: build ## lose, duplicate and delay a message of every endpoint, and count what was carried out; BACKEND=pg|etcd
	bin/fenceproof sweep --backend "$(BACKEND)" $(if $(ETCD_MEMBERS),--etcd-members "$(ETCD_MEMBERS)") $(if $(SEED),--seed "$(SEED)") $(FLAGS)

soak: build ## every nemesis but sweep on every backend and workload, round after round, DURATION=8h or ROUNDS=9 long; MIXES=1 adds mixes; INTO=FOLDER goes on
	bin/fenceproof soak $(soak_flags)

build: ## build the suite and the services into bin/
	@mkdir -p bin
	$(GO) build -o bin/ ./checker/cmd/... ./system/cmd/...

# What many goroutines share is tested under the race detector as well.
CONCURRENT := ./checker/history ./checker/wiretap ./checker/witness ./checker/run ./nemesis/... ./workloads \
              ./system/wire ./system/service ./system/executor ./system/reconciler ./system/lock/...

# Tests that run the built programs do not link them: a result that Go remembers knows nothing of a program that has changed since.
test: build lint ## every test, with a short pause run and a short negative control on real processes
	$(GO) test -count=1 ./...
	$(GO) test -race $(CONCURRENT)

lint: ## gofmt, vet and staticcheck
	@unformatted=$$(gofmt -l $$($(GO) list -f '{{.Dir}}' ./...)); test -z "$$unformatted" || { echo "gofmt would change:"; echo "$$unformatted"; exit 1; }
	$(GO) vet ./...
	$(GO) tool staticcheck ./...

bench: build ## measure each bar beside what it is compared with, and write docs/benchmarks.md (about ten minutes)
	bin/fenceproof-bench $(FLAGS)

bundle: ## rebuild the report's page after a change of its sources
	$(GO) run ./reports/bundle

golden: ## make the golden histories anew, and name what differs from the stored ones; FLAGS="-replace NAME" overwrites it
	$(GO) run ./checker/golden/regenerate $(FLAGS)

# The tests replay what a fuzzer has found before; this looks for more, one target after the other. Go would take a minute to
# make each new input smaller, which is most of the time.
fuzz: ## send every reader and decoder what nobody should, each for FUZZTIME=60s; what is found stays in testdata/fuzz
	@for d in $$($(GO) list -f '{{.Dir}}' ./...); do \
	  for f in $$(cat $$d/*_test.go 2>/dev/null | sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p'); do \
	    echo "$$f in $$d"; \
	    $(GO) test -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1s -parallel 1 $$d || exit; \
	  done; done

# What is going on runs from bin/, so nothing is built before it is known that nothing is.
clean: ## remove old runs and built binaries; the binaries stay while a run is going on
	@if [ -x bin/fenceproof ]; then bin/fenceproof clean --idle; else $(GO) run ./checker/cmd/fenceproof clean --idle --bin bin; fi
	rm -rf bin

.PHONY: doctor
doctor: build ## say what this machine lacks, and the command that mends it
	bin/fenceproof doctor $(FLAGS)
