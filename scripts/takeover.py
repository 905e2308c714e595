#!/usr/bin/env python3
"""Measures how soon other workers go on with the sessions of one that is killed.

Each round has several processes of `work` with turns whose model does not answer, kills one of them (kill -9), and looks at the
tables every few milliseconds:

  noted     from the kill until its row is noted as dead: the break was seen and looked at again
  claimed   from the kill until a session that it had has another owner, for each of its sessions
  behind    from the note until then

Then another process takes the place of the one that was killed.

usage: scripts/takeover.py --program cli-agent --database URL [--workers 3] [--sessions 60] [--kills 10]

The database is one for trying, as `scripts/postgres.sh start FOLDER` makes it; the schema is removed at the end. The program
needs the feature postgres.
"""
import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from database import PSQL, configured, postgres

# Between two looks at the tables, in seconds.
APART = 0.005


class Database:
    """One connection, so that a look costs no start of a process."""

    def __init__(self, url):
        self.psql = subprocess.Popen(
            [PSQL, "-v", "ON_ERROR_STOP=1", "-Atq", url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def rows(self, text):
        self.psql.stdin.write(f"{text};\n\\echo end-of-answer\n")
        self.psql.stdin.flush()
        rows = []
        for line in self.psql.stdout:
            if line == "end-of-answer\n":
                return rows
            rows.append(line.rstrip("\n"))
        sys.exit(f"{os.path.basename(sys.argv[0])}: psql ended")


def until(what, is_so):
    end = time.monotonic() + 120
    while not is_so():
        if time.monotonic() > end:
            sys.exit(f"{os.path.basename(sys.argv[0])}: {what} did not come")
        time.sleep(0.02)


def quantiles(values):
    values = sorted(values)
    at = lambda part: values[min(len(values) - 1, int(len(values) * part))]
    return f"{len(values)} | {at(0.5):.0f} ms | {at(0.9):.0f} ms | {values[-1]:.0f} ms"


class Workers:
    def __init__(self, args, config, errors):
        self.args, self.config, self.errors, self.all = args, config, errors, []

    def begin(self):
        command = [self.args.program, "--config", self.config, "work", "--json", "--concurrency", str(self.args.sessions)]
        self.all.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=self.errors))

    def end(self):
        for worker in self.all:
            worker.kill()
            worker.wait()


def killed(database, worker):
    """Kills it. Answers when its row was noted as dead, and when each of its sessions had another owner, in ms."""
    number = database.rows(f"SELECT number FROM bob_nodes WHERE name LIKE '%process {worker.pid})' AND NOT dead")[0]
    had = set(database.rows(f"SELECT id FROM bob_sessions WHERE node = {number} AND state = 'running'"))
    look = f"""SELECT 'noted' FROM bob_nodes WHERE number = {number} AND dead
        UNION ALL SELECT id FROM bob_sessions WHERE node = {number}"""
    began, noted, claimed = time.monotonic(), None, []
    worker.send_signal(signal.SIGKILL)
    worker.wait()
    while had:
        rows = set(database.rows(look))
        after = (time.monotonic() - began) * 1000
        if noted is None and "noted" in rows:
            noted = after
        gone = had - rows
        claimed += [after] * len(gone)
        had -= gone
        if after > 60_000:
            sys.exit(f"takeover.py: {len(had)} sessions were not taken")
        time.sleep(APART)
    return noted if noted is not None else claimed[0], claimed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--database", required=True)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--sessions", type=int, default=60)
    parser.add_argument("--kills", type=int, default=10)
    args = parser.parse_args()
    args.program = os.path.abspath(args.program)
    folder = tempfile.mkdtemp(prefix="bob-takeover-")
    schema = f"takeover_{os.getpid()}"
    admin = Database(args.database)
    admin.rows(f"CREATE SCHEMA {schema}")
    url = f"{args.database}{'&' if '?' in args.database else '?'}options=-c%20search_path%3D{schema}"
    config = os.path.join(folder, "agent.toml")
    with open(config, "w") as file:
        file.write(configured(postgres(url), "turn_timeout_ms = 3600000\n"))
    with open(os.path.join(folder, "script.json"), "w") as file:
        json.dump([{"replies": [{"text": "Hello."}], "stall": True}], file)
    put = [args.program, "--config", config, "submit", "--no-wait", "--session", "s0", "--request-id", "r", "hi"]
    # The tables are made by the first message.
    if (done := subprocess.run(put, capture_output=True, text=True)).returncode != 0:
        sys.exit(f"takeover.py: submit: {done.stderr}")
    database = Database(url)
    database.rows(
        f"""INSERT INTO bob_inbox (session, request, message)
            SELECT 's' || n, 'r', replace(message, '"session":"s0"', '"session":"s' || n || '"')
            FROM bob_inbox, generate_series(1, {args.sessions - 1}) n WHERE session = 's0'"""
    )
    noted, claimed, behind = [], [], []
    with open(os.path.join(folder, "errors"), "w") as errors:
        workers = Workers(args, config, errors)
        try:
            for _ in range(args.workers):
                workers.begin()
            living = "SELECT count(*) FROM bob_nodes n WHERE NOT dead AND EXISTS (SELECT FROM bob_sessions s WHERE s.node = n.number)"
            running = "SELECT count(*) FROM bob_sessions WHERE state = 'running' AND node IS NOT NULL"
            until("a turn of each session", lambda: database.rows(running) == [str(args.sessions)])
            for number in range(args.kills):
                # The one that has the most.
                most = database.rows(
                    """SELECT n.name FROM bob_sessions s JOIN bob_nodes n ON n.number = s.node
                       GROUP BY n.name ORDER BY count(*) DESC LIMIT 1"""
                )[0]
                worker = next(worker for worker in workers.all if f"process {worker.pid})" in most)
                workers.all.remove(worker)
                note, claims = killed(database, worker)
                noted.append(note)
                claimed += claims
                behind += [max(claim - note, 0) for claim in claims]
                print(f"kill {number + 1}: noted {note:.0f} ms, {len(claims)} sessions, the last {claims[-1]:.0f} ms", file=sys.stderr)
                entered = database.rows("SELECT count(*) FROM bob_nodes")
                workers.begin()
                until("another worker", lambda: database.rows("SELECT count(*) FROM bob_nodes") != entered)
        finally:
            workers.end()
            admin.rows(f"SET client_min_messages = warning; DROP SCHEMA {schema} CASCADE")
            shutil.rmtree(folder, ignore_errors=True)
    load = os.getloadavg()[0]
    print(f"{args.workers} workers, {args.sessions} sessions, load at the end {load:.1f} on {os.cpu_count()} processors\n")
    print("| from the kill | count | p50 | p90 | most |\n|---|---|---|---|---|")
    print(f"| until the death is noted | {quantiles(noted)} |")
    print(f"| until a session is claimed | {quantiles(claimed)} |")
    print(f"| from the note until then | {quantiles(behind)} |")


if __name__ == "__main__":
    main()
