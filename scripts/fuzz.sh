#!/bin/sh
# Runs every test named fuzz_ of the workspace, for about so many seconds of a processor in all (60 when none are given).
#
#   scripts/fuzz.sh [SECONDS]
#
# The time is shared out evenly, and as many run at once as there are processors; each begins with its kept corpus
# (__fuzz__ beside the test). Building counts for nothing. A failure prints BOLERO_RANDOM_SEED=…; with that in the environment the same test fails alike again.
set -eu
cd "$(dirname "$0")/.."

seconds=${1:-60}
case $seconds in
'' | *[!0-9]*) echo "usage: scripts/fuzz.sh [SECONDS]" >&2 && exit 2 ;;
esac

# Each line: the folder of a package, a test program of it, the name of one of its tests.
tests=$(mktemp)
trap 'rm -f "$tests"' EXIT
cargo test --workspace --all-features --no-run --message-format=json |
    sed -n 's/.*"manifest_path":"\([^"]*\)\/Cargo.toml".*"profile":{[^}]*"test":true}.*"executable":"\([^"]*\)".*/\1 \2/p' | sort -u |
    while read -r folder program; do
        "$program" --list fuzz_ 2>/dev/null |
            sed -n 's/^\(\(.*::\)\{0,1\}fuzz_[^:]*\): test$/\1/p' |
            while read -r name; do echo "$folder $program $name"; done
    done >"$tests"

count=$(wc -l <"$tests")
[ "$count" -gt 0 ] || { echo "no test is named fuzz_" >&2 && exit 1; }
each_ms=$((seconds * 1000 / count))
echo "$count fuzz tests, ${each_ms} ms each"

# The iterations a test asks for are for a quick run; here only time counts. The working directory is that of the package,
# as under cargo test, so that the corpus is found. What a test says is shown when it has ended.
export BOLERO_RANDOM_TEST_TIME_MS=$each_ms BOLERO_RANDOM_ITERATIONS=1000000000
xargs -P "$(getconf _NPROCESSORS_ONLN)" -L 1 sh -c '
    cd "$0" && said=$("$1" --exact "$2" --nocapture 2>&1 </dev/null)
    code=$?
    printf "%s\n" "$said"
    exit "$code"
' <"$tests"
