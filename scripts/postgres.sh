#!/bin/sh
# A PostgreSQL of its own for tests and for trying the store: a cluster in a folder, on a free loopback port, with a
# password that is drawn anew, and with fsync on.
#
#   sh scripts/postgres.sh run COMMAND…     runs a command with such a cluster, which is removed when the command ends
#   sh scripts/postgres.sh start FOLDER     starts one in FOLDER, which must be empty or missing, or hold one that was stopped
#   sh scripts/postgres.sh stop FOLDER      stops it; the folder stays
#   sh scripts/postgres.sh kill FOLDER      stops it as a crash would (pg_ctl stop -m immediate)
#   sh scripts/postgres.sh url FOLDER       prints its URL again
#
# `start` prints the URL, and nothing else, on stdout; progress goes to stderr. `run` sets DATABASE_URL, and
# BOB_TEST_POSTGRES to the same, which the tests of the store read.
#
# PostgreSQL is Debian's package postgresql-15, which is installed when it is missing and this runs as root. The server
# does not run as root: then the user `postgres` of the package runs it.

set -eu

package=postgresql-15
binaries=/usr/lib/postgresql/15/bin

say() {
    printf '%s\n' "$1" >&2
}

fail() {
    say "postgres.sh: $1"
    exit 1
}

install_it() {
    if [ -x "$binaries/initdb" ]; then
        return
    fi
    if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
        fail "PostgreSQL 15 is missing; install it (Debian: apt-get install $package)"
    fi
    # The package would start a cluster of its own on the usual port.
    mkdir -p /etc/postgresql-common/createcluster.d
    printf 'create_main_cluster = false\n' >/etc/postgresql-common/createcluster.d/no-main.conf
    apt-get update -q >&2
    DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$package" >&2
}

# Runs a program of PostgreSQL, as a user that it accepts. It must be able to enter the folder it is called from.
as_server() {
    if [ "$(id -u)" -eq 0 ]; then
        (cd / && runuser -u postgres -- "$@")
    else
        (cd / && "$@")
    fi
}

absolute() {
    case $1 in
    /*) printf '%s\n' "$1" ;;
    *) printf '%s/%s\n' "$PWD" "$1" ;;
    esac
}

draw() { # COUNT: hexadecimal digits
    od -An -N"$(($1 / 2))" -tx1 /dev/urandom | tr -d ' \n'
}

make() {
    mkdir -p "$folder"
    if [ -n "$(ls -A "$folder")" ]; then
        fail "$folder is not empty and holds no cluster; name another folder"
    fi
    password=$(draw 32)
    printf '%s\n' "$password" >"$folder/password"
    chmod 600 "$folder/password"
    if [ "$(id -u)" -eq 0 ]; then
        chown -R postgres: "$folder"
    fi
    as_server "$binaries/initdb" --pgdata="$folder/data" --username=bob --pwfile="$folder/password" \
        --auth=scram-sha-256 --encoding=UTF8 --locale=C --no-sync >"$folder/initdb.log" 2>&1 ||
        fail "the cluster could not be made: $(tail -n 3 "$folder/initdb.log")"
}

url() {
    printf 'postgres://bob:%s@127.0.0.1:%s/postgres\n' "$(cat "$folder/password")" "$(cat "$folder/port")"
}

start() {
    [ -d "$folder/data" ] || make
    # A cluster that was stopped keeps its port, so that those who know its URL find it again.
    port=
    [ ! -f "$folder/port" ] || port=$(cat "$folder/port")
    tries=20
    while :; do
        if [ -z "$port" ]; then
            port=$((20000 + 0x$(draw 4) % 12000))
        fi
        options="-c listen_addresses=127.0.0.1 -c port=$port -c unix_socket_directories= -c fsync=on"
        options="$options -c synchronous_commit=on -c max_connections=200"
        if as_server "$binaries/pg_ctl" start --pgdata="$folder/data" --log="$folder/log" --wait --silent \
            --options="$options ${POSTGRES_OPTIONS:-}" >&2; then
            break
        fi
        tries=$((tries - 1))
        if [ "$tries" -eq 0 ] || ! grep -q "Address already in use" "$folder/log"; then
            fail "the server did not start: $(tail -n 3 "$folder/log")"
        fi
        [ -f "$folder/port" ] || port=
    done
    printf '%s\n' "$port" >"$folder/port"
}

stop() { # MODE
    [ -d "$folder/data" ] || fail "$folder holds no cluster"
    as_server "$binaries/pg_ctl" stop --pgdata="$folder/data" --mode="$1" --wait --silent >&2
}

clean_up() {
    status=$?
    trap - EXIT INT TERM HUP
    stop immediate || :
    rm -rf "$folder"
    exit "$status"
}

usage() {
    sed -n '5,9p' "$0" | sed 's/^# *//' >&2
    exit 2
}

[ $# -ge 2 ] || usage
command=$1
shift
case $command in
run)
    install_it
    folder=$(mktemp -d "${TMPDIR:-/tmp}/bob-postgres.XXXXXX")
    trap clean_up EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
    start
    DATABASE_URL=$(url)
    BOB_TEST_POSTGRES=$DATABASE_URL
    export DATABASE_URL BOB_TEST_POSTGRES
    "$@"
    ;;
start)
    install_it
    folder=$(absolute "$1")
    start
    url
    ;;
stop | kill)
    folder=$(absolute "$1")
    case $command in stop) stop fast ;; kill) stop immediate ;; esac
    ;;
url)
    folder=$(absolute "$1")
    [ -f "$folder/port" ] || fail "$folder holds no cluster that was started"
    url
    ;;
*) usage ;;
esac
