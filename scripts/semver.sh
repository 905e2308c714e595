#!/bin/sh
# What changed in the library's interface since another commit, by cargo-semver-checks: a break of what is public fails.
#
#   scripts/semver.sh [REVISION]     by default the commit in scripts/semver-baseline: that of the last version, or of the last
#                                    break that was decided since (docs/packages.md)
#
# Without a REVISION it fails at once when docs/api-breaks.txt is another one than at that commit: then a break was decided
# since, and would be reported as one that was not.
#
# The tool is installed on first use under .tools/semver, from the package registry: 13 minutes of CPU, which is why no
# phase of CI does it. The rustdoc of both revisions is built in target/semver-checks. It looks at what the package
# bob-agents declares itself; what it exports from the packages below is in docs/api.txt, which a test compares with
# docs/api-baseline.txt in every run of the tests.
set -eu
cd "$(dirname "$0")/.."

if [ $# -eq 0 ]; then
    baseline=$(cat scripts/semver-baseline)
    if ! git merge-base --is-ancestor "$baseline" HEAD; then
        echo "scripts/semver-baseline names $baseline, which is no ancestor of HEAD" >&2
        exit 1
    fi
    if ! git diff --quiet "$baseline" -- docs/api-breaks.txt; then
        echo "scripts/semver-baseline is stale: docs/api-breaks.txt is another one than at $baseline." >&2
        echo "Write the newest of the commits that changed it into scripts/semver-baseline (docs/packages.md):" >&2
        git log --max-count=5 --format='  %H %as %s' "$baseline..HEAD" -- docs/api-breaks.txt >&2
        exit 1
    fi
else
    baseline=$1
fi

version=0.51.0
tool=.tools/semver/bin/cargo-semver-checks
if ! [ -x "$tool" ] || [ "$("$tool" --version)" != "cargo-semver-checks $version" ]; then
    cargo install --quiet --locked --root .tools/semver --version "$version" cargo-semver-checks
fi
printf 'compared with %s\n' "$baseline"
exec "$tool" semver-checks --package bob-agents --all-features --release-type minor --baseline-rev "$baseline"
