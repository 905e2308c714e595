#!/bin/sh
# A receiver of telemetry that is not ours (the package `oteltap`): prints what it is sent as lines of JSON. And a tool
# server that is not ours and sends spans of its own: `mcp-server-time`, whose library makes a span of each request below
# the one in its `_meta`, started by the launcher of OpenTelemetry's own library. The tests of telemetry use both. They are
# installed on first use under .tools/otel beside this repository's files; delete that folder to be rid of them.
#
#   sh scripts/telemetry-receiver.sh                  receives on a free port of 127.0.0.1, which its first line names
#   sh scripts/telemetry-receiver.sh --tool-server    serves on its pipes and sends to where the OTEL_* variables say
#   sh scripts/telemetry-receiver.sh --install-only   installs and ends
#
# Exits with 69 when the packages cannot be had.
set -eu

packages="oteltap==1.0.0 opentelemetry-proto==1.45.2 protobuf==7.36.2 mcp-server-time==2026.10.19 mcp==2.3.0
    opentelemetry-distro==0.66b2 opentelemetry-sdk==1.45.2 opentelemetry-exporter-otlp-proto-http==1.45.2"

scripts=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)
tools=$(dirname -- "$scripts")/.tools
venv=$tools/otel

fail() {
    printf '%s\n' "$1" >&2
    exit 69
}

installed() {
    [ -f "$venv/installed" ] && [ "$(cat -- "$venv/installed")" = "$packages" ]
}

install() {
    printf 'installing a receiver of telemetry and a tool server (once; 100 MB on disk) into %s\n' "$venv" >&2
    attempt=$venv.attempt
    rm -rf -- "$attempt"
    python3 -m venv "$attempt" >&2 || fail "cannot make a Python virtual environment in $attempt"
    # shellcheck disable=SC2086
    "$attempt/bin/python" -m pip install --quiet --disable-pip-version-check --no-input --only-binary :all: $packages >&2 ||
        fail "the installation failed (see above); it needs the package registry pypi.org, or an index set in pip's own configuration"
    printf '%s\n' "$packages" >"$attempt/installed"
    rm -rf -- "$venv"
    mv -- "$attempt" "$venv"
}

if ! installed; then
    python3 -c 'import ensurepip, venv' 2>/dev/null || fail "python3 with its venv module is missing (Debian: apt-get install python3-venv)"
    mkdir -p -- "$tools"
    # One at a time: the others wait, and find it installed.
    exec 9>"$tools/otel.lock"
    python3 -c 'import fcntl; fcntl.flock(9, fcntl.LOCK_EX)' || fail "cannot lock $tools/otel.lock"
    installed || install
    exec 9>&-
fi
case ${1-} in
'') exec "$venv/bin/python" "$scripts/telemetry_receiver.py" ;;
# By its interpreter: the first line of an installed program names the folder in which it was installed first.
--tool-server) exec "$venv/bin/python" "$venv/bin/opentelemetry-instrument" "$venv/bin/python" -m mcp_server_time ;;
--install-only) ;;
*) printf 'usage: sh scripts/telemetry-receiver.sh [--tool-server | --install-only]\n' >&2 && exit 2 ;;
esac
