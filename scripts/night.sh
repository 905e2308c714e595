#!/bin/sh
# What takes too long for every change, in about four hours on two cores: an hour of fuzzing, a million simulated
# seeds, soaks at high rates, with 200 kills of each store, trees of agents, benchmarks, MCP conformance, both ends of the
# range of genai. Every phase runs, whatever became of the others;
# the exit code is 1 when one failed. The log of a failed phase names the seed that shows it again.
#
#   scripts/night.sh [SEED]     the first seed of the soaks; the number of today's date by default
set -u
cd "$(dirname "$0")/.."

seed=${1:-$(date +%Y%m%d)}
case $seed in
'' | *[!0-9]*) echo "usage: scripts/night.sh [SEED]" >&2 && exit 2 ;;
esac

failed=
phase() {
    started=$(date +%s)
    printf '\n== %s\n' "$*"
    "$@" || failed="$failed
  $*"
    printf -- '-- %d s: %s\n' "$(($(date +%s) - started))" "$*"
}

agent=target/release/cli-agent

phase cargo build --release --bins --features postgres
phase env BOB_SEEDS=1000000 cargo test --release -p bob-messages simulation
phase env BOB_SEEDS=100000 cargo test --release -p bob-messages owners::
phase env BOB_SEEDS=100000 cargo test --release -p bob-messages tree::
# Rules of commands against their oracles, damaged databases, and what runs of what was approved.
phase env BOB_SEEDS=50000 PROPTEST_CASES=5000 BOB_TEST_STORE_FLIPS=5000 cargo test --release --all-features -p bob-actors --lib -- \
    call_rules like pages_tests g12_no_call
phase env TENANT_INTERLEAVINGS=1000 cargo test --release --all-features --test whole tenants::apart
# What an interrupted answer has shown is kept: at 40 moments in CI.
phase cargo test --release --all-features --test whole -- ctrl_c_at_every_moment moments=200
# 200 kills of each store, two thirds of them aimed at a write of the journals or a side effect.
for store in sqlite json; do
    phase "$agent" soak --sessions 8 --duration 200s --think 100ms --seed "$seed" --store "$store" \
        --chaos process-kill=60/m,cancel=5%
done
phase "$agent" soak --sessions 8 --duration 200s --think 100ms --seed "$seed" --store postgres --chaos replica-kill=60/m
# Store failures and lost answers beside the usual chaos: the rates that found turns left open.
for at in $(seq 0 49); do
    phase "$agent" soak --sessions 40 --turns 4 --think 1s --seed "$((seed + at))" \
        --chaos default,process-kill=10/m,store-fail=5%,store-lost=2%
done
phase "$agent" soak --sessions 1000 --turns 20 --seed "$seed" --chaos default,process-kill=6/m
# Workers that share a database, which is the soak's own: kills every 5 s, pauses, restarts and lost answers of commits.
phase "$agent" soak --replicas 3 --store postgres --sessions 200 --duration 10m --seed "$seed" \
    --chaos default,database-restart=2/m,commit-cut=30/m
# How soon other workers go on behind a kill, turns a second beside SQLite, and what waits costs, each in a database that is removed.
shared() {
    script=$1
    shift
    POSTGRES_OPTIONS="-c max_connections=600" sh scripts/postgres.sh run sh -c \
        'exec python3 "$0" --database "$DATABASE_URL" "$@"' "scripts/$script" "$@"
}
phase shared takeover.py --program "$agent" --sessions 60 --kills 30
phase shared workers.py --program "$agent"
phase shared waits.py --program "$agent"
# An upgrade needs a program of fewer tables: BOB_OLDER_AGENT names one that was built with the feature postgres.
if [ -n "${BOB_OLDER_AGENT:-}" ]; then
    phase shared upgrade.py --old "$BOB_OLDER_AGENT" --new "$agent"
else
    printf '\nskipped: scripts/upgrade.py: BOB_OLDER_AGENT names no program of fewer tables\n'
fi
# Trees of agents: one transcript, bill and trace; kills at random instants; how soon a cancelled tree stops; many at once; large
# results beside small turns.
tree() {
    python3 scripts/tree.py "$@" --program "$agent"
}
phase tree whole
phase tree kill --times 200 --seed "$seed"
phase tree cancel --times 200
phase tree crowd --times 1000
phase tree large --times 3
# The measurements of docs/performance.md, small: that they run, not what they show.
race() {
    cargo bench -q --bench race -- "$@"
}
phase cargo build -q --release --manifest-path benches/peers/Cargo.toml --target-dir target/peers
phase race --rounds=1 --percent=5
phase race --mode=load --backend=mock --n=200
phase race --mode=hold --backend=mock --n=200 --latency=200
phase race --mode=idle --backend=mock --n=200 --warmup=20
phase race --mode=idle --backend=mock --n=200 --warmup=200 --conc=64 --passivate=1
phase race --mode=start --n=1
phase race --mode=deltas --words=1000 --k=0 --n=10
phase race --mode=cancel --n=100 --conc=100 --latency=200
phase race --mode=recover --store=sqlite --n=100
phase race --mode=activate --store=sqlite --turns=100 --n=3
phase scripts/exits.py --rounds 2
phase drill/refund/refund.py --agent "$agent" --times 10
phase benches/instructions.py
phase python3 scripts/readings.py --all
phase sh scripts/mcp-conformance.sh
phase sh scripts/genai-range.sh
phase sh scripts/package.sh --verify
phase sh scripts/semver.sh
# Each feature of the library alone: CI checks none and all of them.
for feature in $(sed -n '/^\[features\]/,/^\[dep/s/^\([a-z-]*\) = .*/\1/p' bin/bob/Cargo.toml); do
    phase cargo clippy -p bob-agents --no-default-features --features "$feature" -- -D warnings
done
phase sh scripts/build-cost.sh
# An hour on two cores.
phase sh scripts/fuzz.sh 7200

if [ -n "$failed" ]; then
    printf '\nfailed:%s\n' "$failed"
    exit 1
fi
printf '\nevery phase passed\n'
