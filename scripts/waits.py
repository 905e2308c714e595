#!/usr/bin/env python3
"""Measures what processes that wait cost a PostgreSQL: statements a second while nothing happens.

Messages are submitted that no worker takes, each by a process of `submit` that waits for its outcome, first without and then
with --follow.

usage: scripts/waits.py --program cli-agent --database URL [--processes 100] [--seconds 20]

The database is one for trying, as `scripts/postgres.sh start FOLDER` makes it, with at least three connections for each process:

    POSTGRES_OPTIONS="-c max_connections=600" sh scripts/postgres.sh start FOLDER

A database of its own is made there, and dropped at the end. What is counted are its commits: each statement is one. The program
needs the feature postgres.
"""
import argparse
import os
import subprocess
import tempfile
import time
from urllib.parse import urlsplit, urlunsplit

from database import configured, postgres, sql


def measure(args, folder, database, options):
    waiting = []
    try:
        for number in range(args.processes):
            command = [args.program, "--config", "agent.toml", "submit", "--session", f"s{number}{''.join(options)}"]
            environment = {**os.environ, "XDG_STATE_HOME": folder, "XDG_RUNTIME_DIR": folder}
            waiting.append(
                subprocess.Popen(
                    [*command, *options, "hi"], cwd=folder, env=environment,
                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                )
            )
        # They wait when all messages are there.
        while sql(database, "SELECT to_regclass('bob_inbox') IS NOT NULL") != "t":
            time.sleep(0.1)
        while int(sql(database, "SELECT count(*) FROM bob_inbox")) < args.processes:
            time.sleep(0.1)
        # The server counts some seconds late.
        time.sleep(12)
        name = urlsplit(database).path[1:]
        count = f"SELECT xact_commit FROM pg_stat_database WHERE datname = '{name}'"
        before, began = int(sql(args.database, count)), time.monotonic()
        time.sleep(args.seconds)
        asked = (int(sql(args.database, count)) - before) / (time.monotonic() - began)
        print(f"{args.processes} processes of submit {' '.join(options)}: {asked:.0f} statements a second")
    finally:
        for process in waiting:
            process.kill()
        for process in waiting:
            process.wait()
        sql(database, "DELETE FROM bob_inbox")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--program", required=True)
    parser.add_argument("--database", required=True)
    parser.add_argument("--processes", type=int, default=100)
    parser.add_argument("--seconds", type=int, default=20)
    args = parser.parse_args()
    args.program = os.path.abspath(args.program)
    name = f"bob_waits_{os.getpid()}"
    database = urlunsplit(urlsplit(args.database)._replace(path=f"/{name}"))
    sql(args.database, f"CREATE DATABASE {name}")
    try:
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "agent.toml"), "w") as config:
                config.write(configured(postgres(database)))
            with open(os.path.join(folder, "script.json"), "w") as script:
                script.write('[{"replies": [{"text": "hello"}]}]')
            for options in [], ["--follow"]:
                measure(args, folder, database, options)
    finally:
        sql(args.database, f"DROP DATABASE {name} WITH (FORCE)")


if __name__ == "__main__":
    main()
