#!/bin/sh
# Whether the adapter of real providers holds with the oldest and the newest version of genai that Cargo.toml admits.
#
#   scripts/genai-range.sh [VERSION...]    these versions instead of the two ends
#
# Each is tried in a copy of the checkout, so that Cargo.lock keeps its version: the tests of the adapter in bob-actors,
# which have recorded and made-up answers of providers. It needs the package registry.
set -eu
cd "$(dirname "$0")/.."

range=$(sed -n 's/^genai = { version = "\([^"]*\)".*/\1/p' Cargo.toml)
oldest=$(printf '%s' "$range" | sed -n 's/^>=\([0-9.]*\), <.*/\1/p')
[ -n "$oldest" ] || { echo "Cargo.toml names no range of genai: '$range'" >&2 && exit 1; }

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
git ls-files -z | xargs -0 tar -cf - | tar -xf - -C "$copy"
[ $# -gt 0 ] || set -- "$oldest" newest

failed=
for version in "$@"; do
    if [ "$version" = newest ]; then
        (cd "$copy" && cargo update -q -p genai)
    else
        (cd "$copy" && cargo update -q -p genai --precise "$version")
    fi
    found=$(sed -n '/^name = "genai"$/{n;s/version = "\(.*\)"/\1/p;}' "$copy/Cargo.lock")
    printf '\n== genai %s\n' "$found"
    CARGO_TARGET_DIR="$PWD/target/genai" cargo test --manifest-path "$copy/Cargo.toml" --locked \
        -p bob-actors --no-default-features --features genai --lib -- llm:: || failed="$failed $found"
done

[ -z "$failed" ] || { echo "fails with genai$failed; Cargo.toml admits $range" >&2 && exit 1; }
printf '\nhold: genai %s of %s\n' "$*" "$range"
