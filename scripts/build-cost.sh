#!/bin/sh
# What it costs to build the library from nothing, beside rig, in one run on one machine: packages, and seconds of CPU of
# a debug build. The table of docs/performance.md (what a build costs) is made of it.
#
#   scripts/build-cost.sh            needs the package registry; about ten minutes of CPU
#   scripts/build-cost.sh NAME...    only the rows of these names
set -eu
wanted=$(printf '%s\n' "$@")
cd "$(dirname "$0")/.."
here=$(pwd)

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# One line of the table: a name, and what a program that does nothing depends on.
row() {
    [ -z "$wanted" ] || printf '%s\n' "$wanted" | grep -qxF -- "$1" || return 0
    mkdir -p "$folder/src"
    rm -rf "$folder/target" "$folder/Cargo.lock"
    printf '[workspace]\n[package]\nname = "nothing"\nversion = "0.1.0"\nedition = "2024"\n[dependencies]\n%s\n' "$2" \
        >"$folder/Cargo.toml"
    echo 'fn main() {}' >"$folder/src/main.rs"
    (
        cd "$folder"
        cargo fetch --quiet
        cargo tree --quiet --edges normal,build --prefix none --format '{p}' >tree
        packages=$(sed 's/ (\*)$//' tree | sort -u | wc -l)
        # The second line is the CPU time of this shell's children, in minutes and seconds. In a pipe `times` would be
        # that of another process, which has none.
        times >before
        CARGO_TARGET_DIR="$folder/target" CARGO_INCREMENTAL=0 cargo build --quiet
        times >after
        seconds=$(cat before after | awk 'NR % 2 == 0 {
            sum = 0
            for (i = 1; i <= 2; i++) { split($i, part, /[ms]/); sum += part[1] * 60 + part[2] }
            if (NR == 2) before = sum; else printf "%d", sum - before
        }')
        # The program itself is one package.
        if [ "$seconds" -le 0 ] || [ "$packages" -le 1 ]; then
            echo "$1: $packages packages and $seconds s cannot be right" >&2
            exit 1
        fi
        printf '%-36s %4d packages %5d s of CPU\n' "$1" "$((packages - 1))" "$seconds"
    )
}

bob="path = \"$here/bin/bob\", package = \"bob-agents\", default-features = false"
row 'bob without features' "bob = { $bob }"
row 'bob with genai' "bob = { $bob, features = [\"genai\"] }"
row 'bob with genai, mcp and sqlite' "bob = { $bob, features = [\"genai\", \"mcp\", \"sqlite\"] }"
row 'rig-core 0.44 without features' 'rig-core = { version = "0.44", default-features = false }'
row 'rig 0.44' 'rig = "0.44"'
