#!/bin/sh
# Packs every package of the workspace as it would be published, into target/package, and looks at what is in it.
#
#   scripts/package.sh            packs only: some seconds, no network
#   scripts/package.sh --verify   builds each package from what was packed, too: as long as a build from nothing
set -eu
cd "$(dirname "$0")/.."

verify=--no-verify
case ${1:-} in
'') ;;
--verify) verify= ;;
*) echo "usage: scripts/package.sh [--verify]" >&2 && exit 2 ;;
esac

folder=${CARGO_TARGET_DIR:-target}/package
rm -f "$folder"/*.crate
# What is not committed yet is packed, too: it is what is checked.
cargo package --workspace --quiet --allow-dirty --offline $verify

failed=
complain() {
    echo "$1" >&2
    failed=yes
}

# A package that may be published has its licences, and neither tests of the whole nor what they read.
for name in bob-messages bob-actors bob-supervisors bob-agents bob-config bob-drill; do
    packed=$(echo "$folder/$name"-[0-9]*.crate)
    [ -f "$packed" ] || { complain "$name was not packed" && continue; }
    files=$(tar -tzf "$packed" | sed 's|^[^/]*/||')
    for file in Cargo.toml LICENSE-APACHE LICENSE-MIT src/lib.rs; do
        echo "$files" | grep -qx "$file" || complain "$name is packed without $file"
    done
    foreign=$(echo "$files" | grep -E '^(tests|\.ci|\.bob|target)/' | head -3)
    [ -z "$foreign" ] || complain "$name is packed with $foreign"
    bytes=$(wc -c <"$packed")
    [ "$bytes" -lt 2000000 ] || complain "$name has $bytes bytes packed; the registry's limit is 10 MB"
    printf '%-16s %4s files, %5s kB\n' "$name" "$(echo "$files" | wc -l)" "$((bytes / 1000))"
done
[ -z "$failed" ]
