#!/bin/sh
# The library from outside: builds the workspace in examples/embedding, which depends on it alone, runs its tests and its
# programs. No provider, no key and no network are needed once the packages are there.
set -eu
cd "$(dirname "$0")/../examples/embedding"
# What the checkout has compiled is not compiled again.
CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$(cd ../.. && pwd)/target}
export CARGO_TARGET_DIR

cargo fmt --check
cargo test --quiet --locked --test library
cargo build --quiet --locked --bins
for source in src/bin/*.rs; do
    program=$(basename "$source" .rs)
    printf '\n-- %s\n' "$program"
    "$CARGO_TARGET_DIR/debug/$program"
done
