#!/bin/sh
# The library from outside: builds the workspace in examples/embedding, which depends on it alone, runs its tests and its
# programs. No provider, no key and no network are needed once the packages are there.
set -eu
cd "$(dirname "$0")/../examples/embedding"
# What the checkout has compiled is not compiled again.
CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$(cd ../.. && pwd)/target}
export CARGO_TARGET_DIR

cargo fmt --check
# For a test of the package its programs are built, too, with the features of the library that its tests have. All that they
# add is in the modules `testing` and `telemetry`: programs that do not name these are the same without them.
if grep -nwE 'testing|telemetry' src/bin/*.rs; then
    echo "a program uses what is for tests" >&2
    exit 1
fi
cargo test --quiet --locked --test library
for source in src/bin/*.rs; do
    program=$(basename "$source" .rs)
    printf '\n-- %s\n' "$program"
    "$CARGO_TARGET_DIR/debug/$program"
done
