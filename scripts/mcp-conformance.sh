#!/bin/sh
# Runs the conformance suite of the Model Context Protocol against this runtime as a client.
#
#   sh scripts/mcp-conformance.sh                  the scenarios that must pass; fails if one does not
#   sh scripts/mcp-conformance.sh --few            those of them that are run for every change, of both revisions
#   sh scripts/mcp-conformance.sh --all            all that the revisions 2025-11-25 and 2026-07-28 ask of a client, for reading
#   sh scripts/mcp-conformance.sh --install-only   install and end
#
# The suite is installed pinned under .tools/conformance beside this repository's files, and a Node.js
# that runs it by scripts/node.sh where the system's is too old; delete .tools to be rid of them.
# Results and the output of each scenario are left in .tools/conformance/results.

set -eu

suite_package=@modelcontextprotocol/conformance@0.2.0-alpha.12

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P)
tools=$root/.tools/conformance
marker=$tools/installed
pins=$suite_package
suite=$tools/npm/node_modules/@modelcontextprotocol/conformance/dist/index.js
# All that counts for a revision: scenarios of the older one, then those of the newer one.
core='initialize
tools_call
sse-retry
elicitation-sep1034-client-defaults
json-schema-2020-12-preservation
auth/metadata-default
auth/metadata-var1
auth/metadata-var2
auth/metadata-var3
auth/basic-cimd
auth/scope-from-www-authenticate
auth/scope-from-scopes-supported
auth/scope-omitted-when-undefined
auth/scope-step-up
auth/scope-retry-limit
auth/token-endpoint-auth-basic
auth/token-endpoint-auth-post
auth/token-endpoint-auth-none
auth/pre-registration
auth/client-credentials-basic
tools_call --spec-version 2026-07-28
request-metadata --spec-version 2026-07-28
sep-2322-client-request-state --spec-version 2026-07-28
http-standard-headers --spec-version 2026-07-28
http-custom-headers --spec-version 2026-07-28
http-invalid-tool-headers --spec-version 2026-07-28
json-schema-ref-no-deref --spec-version 2026-07-28
auth/metadata-default --spec-version 2026-07-28
auth/basic-cimd --spec-version 2026-07-28
auth/scope-step-up --spec-version 2026-07-28
auth/resource-mismatch --spec-version 2026-07-28
auth/offline-access-scope --spec-version 2026-07-28
auth/authorization-server-migration --spec-version 2026-07-28
auth/iss-supported --spec-version 2026-07-28
auth/iss-wrong-issuer --spec-version 2026-07-28
auth/metadata-issuer-mismatch --spec-version 2026-07-28
auth/metadata-var1 --spec-version 2026-07-28
auth/metadata-var2 --spec-version 2026-07-28
auth/metadata-var3 --spec-version 2026-07-28
auth/scope-from-www-authenticate --spec-version 2026-07-28
auth/scope-from-scopes-supported --spec-version 2026-07-28
auth/scope-omitted-when-undefined --spec-version 2026-07-28
auth/scope-retry-limit --spec-version 2026-07-28
auth/token-endpoint-auth-basic --spec-version 2026-07-28
auth/token-endpoint-auth-post --spec-version 2026-07-28
auth/token-endpoint-auth-none --spec-version 2026-07-28
auth/pre-registration --spec-version 2026-07-28
auth/offline-access-not-supported --spec-version 2026-07-28
auth/iss-not-advertised --spec-version 2026-07-28
auth/iss-supported-missing --spec-version 2026-07-28
auth/iss-unexpected --spec-version 2026-07-28
auth/iss-normalized --spec-version 2026-07-28'

# Each way that is different: a call, a form, a form that is the result of a call, signing in; for both revisions.
few='initialize
tools_call
elicitation-sep1034-client-defaults
auth/metadata-default
tools_call --spec-version 2026-07-28
sep-2322-client-request-state --spec-version 2026-07-28
auth/metadata-default --spec-version 2026-07-28'

say() {
    printf '%s\n' "$1" >&2
}

fail() {
    say "$1"
    exit 1
}

# The suite does not start with an older one.
NODE_MAJOR=22
export NODE_MAJOR
with_node() {
    sh "$root/scripts/node.sh" "$@"
}

install() {
    with_node --install-only
    mkdir -p -- "$tools"
    if [ -f "$marker" ] && [ "$(cat -- "$marker")" = "$pins" ] && [ -f "$suite" ]; then
        return
    fi
    say "installing $suite_package"
    rm -rf -- "$tools/npm" "$marker"
    mkdir -p -- "$tools/npm"
    with_node npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$tools/npm" "$suite_package" >&2 ||
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
mkdir -p -- "$results/auth"

if [ "${1-}" = --all ]; then
    for revision in 2025-11-25 2026-07-28; do
        with_node node --no-deprecation "$suite" client --command "$client" --requirements "$revision" \
            -o "$results/$revision" || say "not everything that $revision asks of a client passed (see above)"
    done
    exit 0
fi

[ "${1-}" != --few ] || core=$few
failed=
while read -r scenario options; do
    # One for each revision.
    log=$results/$scenario${options:+.${options##* }}.log
    # The options are words of our own.
    # shellcheck disable=SC2086
    if with_node node --no-deprecation "$suite" client --command "$client" --scenario "$scenario" $options \
        -o "$results" --timeout 30000 </dev/null >"$log" 2>&1; then
        printf 'passed  %s\n' "$scenario${options:+ ($options)}"
    else
        printf 'FAILED  %s\n' "$scenario${options:+ ($options)}"
        cat -- "$log"
        failed="$failed $scenario"
    fi
done <<END
$core
END
[ -z "$failed" ] || fail "the conformance suite found faults:$failed"
