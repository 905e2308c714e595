#!/usr/bin/env python3
"""Replaces workers of an older program by those of a newer one while turns are submitted all the time, and checks what is left.

Workers of the old program begin. At a quarter of the turns those of the new one begin beside them, of which the first one
changes the tables. The old ones end one by one, in turn by `kill -9` and by SIGTERM: one as the new ones begin, the next one as
soon as it has said that the tables are newer. Each turn calls a tool once, which appends a line to a file. Senders use the old
program until it is refused, and the new one from then on.

Checked at the end:

  each accepted message has one input and one outcome in its journal, and the inbox is empty
  no journal has a gap, and no epoch falls
  a call of the tool is in the file at most once, and exactly once where its result says so
  the version of the tables moved once
  each old worker that was left said so, and none claimed a session behind that

usage: scripts/upgrade.py --old cli-agent-of-before --new cli-agent --database URL [--turns 600] [--workers 3] [--sessions 60]

The database is one for trying, as `scripts/postgres.sh start FOLDER` makes it; the schema is removed at the end. Both programs
need the feature postgres, and the old one fewer tables.
"""
import argparse
import collections
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

from takeover import Database, until

CONFIG = """[runtime]
default_model = "demo:one"
max_concurrent_turns = 64

[policy]
mode = "auto"

[providers.demo]
kind = "scripted"
script = "script.json"

[[mcp.servers]]
id = "ledger"
command = {python}
args = [{script}, "--serve", {ledger}]

[store]
kind = "postgres"
url = {url}
"""

# Noted beside the tables: when their version moved, and who claimed a session.
NOTES = """
CREATE TABLE upgrade_moves (was integer, is_now integer);
CREATE FUNCTION upgrade_moved() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$ BEGIN
    INSERT INTO upgrade_moves VALUES (OLD.version, NEW.version); RETURN NULL; END $$;
CREATE TRIGGER upgrade_moved AFTER UPDATE ON bob_meta FOR EACH ROW WHEN (OLD.version <> NEW.version) EXECUTE FUNCTION upgrade_moved();
CREATE TABLE upgrade_claims (at timestamptz, session text, process text);
CREATE FUNCTION upgrade_claimed() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$ BEGIN
    INSERT INTO upgrade_claims SELECT statement_timestamp(), NEW.id, name FROM bob_nodes WHERE number = NEW.node; RETURN NULL; END $$;
CREATE TRIGGER upgrade_claimed AFTER INSERT OR UPDATE OF epoch ON bob_sessions
    FOR EACH ROW WHEN (NEW.node IS NOT NULL) EXECUTE FUNCTION upgrade_claimed();
"""

# Of each request: inputs, outcomes and the reason of the last one, how its call ended, how long it took in ms, and when it ended.
ENDED = """
WITH records AS (SELECT line::jsonb -> 'record' AS r, line::jsonb -> 'record' ->> 'kind' AS kind FROM bob_records),
     turns AS (SELECT max(r -> 'body' ->> 'request_id') FILTER (WHERE kind = 'input') AS request,
         count(*) FILTER (WHERE kind = 'input') AS inputs, count(*) FILTER (WHERE kind = 'outcome') AS outcomes,
         max(r -> 'body' ->> 'finish_reason') FILTER (WHERE kind = 'outcome') AS reason,
         max(r -> 'body' ->> 'status') FILTER (WHERE kind = 'result') AS status, min((r ->> 'at')::bigint) AS began,
         max((r ->> 'at')::bigint) FILTER (WHERE kind = 'outcome') AS ended FROM records GROUP BY r ->> 'turn')
SELECT request, sum(inputs), sum(outcomes), max(reason), max(status), max(ended - began), max(ended) FROM turns
WHERE request IS NOT NULL GROUP BY request
"""

BAD = {
    "journals with a gap": """SELECT count(*) FROM bob_sessions s JOIN (SELECT session, count(*) AS records, max(version) AS last
        FROM bob_records GROUP BY session) r ON r.session = s.number WHERE s.version <> records OR s.version <> last""",
    "epochs that fall": """SELECT count(*) FROM (SELECT epoch < lag(epoch) OVER (PARTITION BY session ORDER BY version) AS falls FROM
        (SELECT session, version, (line::jsonb -> 'record' ->> 'epoch')::bigint AS epoch FROM bob_records) r) f WHERE falls""",
}

TOO_NEW = "use the newer program"


def serve(ledger):
    """A tool server: its tool `note` appends a line to a file."""
    schema = {"type": "object", "properties": {"line": {"type": "string"}}}
    hello = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "ledger", "version": "1"}}
    answers = {"initialize": hello, "tools/list": {"tools": [{"name": "note", "inputSchema": schema}]}, "ping": {}}
    answers["tools/call"] = {"content": [{"type": "text", "text": "noted"}]}
    for asked in map(json.loads, sys.stdin):
        if asked["method"] == "tools/call":
            with open(ledger, "a") as file:
                file.write(asked["params"]["arguments"]["line"] + "\n")
            # Long enough that a kill meets some behind their effect.
            time.sleep(0.3)
        known = asked["method"] in answers
        said = {"result": answers[asked["method"]]} if known else {"error": {"code": -32601, "message": "there is no such method"}}
        if "id" in asked:
            print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **said}), flush=True)


class Place:
    def __init__(self, args):
        self.args, self.folder = args, tempfile.mkdtemp(prefix="bob-upgrade-")
        self.schema = f"upgrade_{os.getpid()}"
        (admin := Database(args.database)).rows(f"CREATE SCHEMA {self.schema}")
        url = f"{args.database}{'&' if '?' in args.database else '?'}options=-c%20search_path%3D{self.schema}"
        self.config, self.ledger = (os.path.join(self.folder, name) for name in ("agent.toml", "ledger"))
        values = {"python": sys.executable, "script": os.path.abspath(__file__), "ledger": self.ledger, "url": url}
        with open(self.config, "w") as file:
            file.write(CONFIG.format(**{key: json.dumps(value) for key, value in values.items()}))
        call = lambda n: {"calls": [{"name": "mcp/ledger/note", "arguments": {"line": f"r{n}"}}]}
        rule = lambda n: {"when": f"<{n}>", "replies": [call(n), {"text": "Noted."}], "delay_ms": 300}
        with open(os.path.join(self.folder, "script.json"), "w") as file:
            json.dump([rule(n) for n in range(args.turns)], file)
        self.admin, self.database = admin, Database(url)


class Worker:
    def __init__(self, place, program):
        self.errors = open(tempfile.mktemp(prefix="worker-", dir=place.folder), "w+")
        command = [program, "--config", place.config, "work", "--concurrency", "8"]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=self.errors)
        self.name = f"process {self.process.pid})"

    def end(self, how):
        self.process.send_signal(how)
        return self.process.wait(60)

    def said(self):
        return os.pread(self.errors.fileno(), 1 << 20, 0).decode()


class Sender(threading.Thread):
    """Submits each second message until there are no more. What the old program refuses is sent by the new one."""

    def __init__(self, place, first):
        super().__init__(daemon=True)
        self.place, self.numbers, self.accepted, self.failed = place, range(first, place.args.turns, 2), [], []
        self.programs = [place.args.old, place.args.new]

    def run(self):
        for n in self.numbers:
            done = self.submit(self.programs[0], n)
            if TOO_NEW in done.stderr and len(self.programs) > 1:
                self.programs.pop(0)
                done = self.submit(self.programs[0], n)
            (self.accepted if done.returncode == 0 else self.failed).append(f"r{n}" if done.returncode == 0 else done.stderr)

    def submit(self, program, n):
        to = ["--session", f"s{n % self.place.args.sessions}", "--request-id", f"r{n}"]
        command = [program, "--config", self.place.config, "submit", "--no-wait", *to, f"<{n}>"]
        return subprocess.run(command, capture_output=True, text=True)


def replaced(place, senders, workers):
    """Begins the new workers and ends the old ones. Answers when the tables had moved, by the clock of the database."""
    args, old, asked = place.args, list(workers), place.database.rows

    def accepted():
        if failed := [failed for sender in senders for failed in sender.failed]:
            sys.exit(f"upgrade.py: submit: {failed}")
        return sum(len(sender.accepted) for sender in senders)

    def end(number):
        how = (signal.SIGKILL, signal.SIGTERM)[number % 2]
        print(f"{accepted()} accepted: {how.name} ends an old worker, with {old[number].end(how)}", file=sys.stderr)

    until("a quarter of the turns", lambda: accepted() >= args.turns // 4)
    workers += [Worker(place, args.new) for _ in range(args.workers)]
    end(0)
    until("the newer tables", lambda: asked("SELECT count(*) FROM upgrade_moves") != ["0"])
    moved = asked("SELECT clock_timestamp()")[0]
    until("a word of old workers", lambda: all(TOO_NEW in worker.said() for worker in old[1:]))
    for number in range(1, len(old)):
        # The first of them has turns still.
        until("more turns", lambda: number == 1 or accepted() >= args.turns * (1 + number) // (2 + len(old)))
        end(number)
    until("the last message", lambda: accepted() == args.turns)
    until("an outcome of each message", lambda: asked("SELECT count(*) FROM bob_inbox WHERE refusal IS NULL") == ["0"])
    return moved


def check(place, senders, old, moved):
    wrong, rows = [], place.database.rows
    accepted = {request for sender in senders for request in sender.accepted}
    ended = {row[0]: row[1:] for row in (row.split("|") for row in rows(ENDED))}
    wrong += [f"{request}: {ended.get(request, 'no input')}" for request in accepted if ended.get(request, [])[:3] != ["1", "1", "final"]]
    noted, statuses = open(place.ledger).read().split(), {request: row[3] for request, row in ended.items()}
    wrong += [f"{request} is noted {noted.count(request)} times" for request in accepted if noted.count(request) > 1]
    wrong += [f"{request}: its result says ok, and it is not noted" for request in accepted - set(noted) if statuses.get(request) == "ok"]
    wrong += [f"{rows(query)[0]} {what}" for what, query in BAD.items() if rows(query) != ["0"]]
    wrong += [f"refused: {row}" for row in rows("SELECT request, refusal FROM bob_inbox")]
    moves = rows("SELECT was, is_now FROM upgrade_moves")
    wrong += [] if len(moves) == 1 else [f"the tables moved: {moves}"]
    late = rows(f"SELECT session, process FROM upgrade_claims WHERE at > '{moved}'")
    wrong += [f"an old worker claimed {row}" for row in late if any(worker.name in row for worker in old)]
    times = sorted(int(row[4]) for row in ended.values() if row[4])
    ends = sorted(int(row[5]) for row in ended.values() if row[5])
    print(f"| accepted | {len(accepted)} |\n| outcomes | {sum(int(row[1]) for row in ended.values())} |")
    print(f"| results of calls | {dict(collections.Counter(statuses.values()))} |\n| effects | {len(noted)}, {len(noted) - len(set(noted))} of them twice |")
    print(f"| versions of the tables | {[row.replace('|', ' to ') for row in moves]} |")
    print(f"| senders of the old program that were refused | {sum(len(sender.programs) == 1 for sender in senders)} |")
    claims = [any(worker.name in row for worker in old) for row in rows("SELECT process FROM upgrade_claims")]
    print(f"| claims by old workers, by new ones | {sum(claims)}, {len(claims) - sum(claims)} |")
    print(f"| from the input to the outcome | {times[len(times) // 2]} ms (p50), {times[-1]} ms at most |")
    print(f"| longest time without an outcome | {max(b - a for a, b in zip(ends, ends[1:]))} ms |")
    return wrong


def main():
    if sys.argv[1:2] == ["--serve"]:
        return serve(sys.argv[2])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--old", "--new", "--database"):
        parser.add_argument(name, required=True)
    for name, value in (("--turns", 600), ("--workers", 3), ("--sessions", 60)):
        parser.add_argument(name, type=int, default=value)
    args = parser.parse_args()
    args.old, args.new = os.path.abspath(args.old), os.path.abspath(args.new)
    place, workers = Place(args), []
    senders = [Sender(place, first) for first in (0, 1)]
    try:
        senders[0].submit(args.old, 0).check_returncode()
        # The first message made the tables.
        place.database.rows(NOTES)
        old = [Worker(place, args.old) for _ in range(args.workers)]
        workers += old
        senders[0].start(), senders[1].start()
        moved = replaced(place, senders, workers)
        bad = [worker.said() for worker in workers[args.workers :] if worker.end(signal.SIGTERM) != 0]
        wrong = bad + check(place, senders, old, moved)
    finally:
        for worker in workers:
            worker.end(signal.SIGKILL)
        place.admin.rows(f"SET client_min_messages = warning; DROP SCHEMA {place.schema} CASCADE")
        shutil.rmtree(place.folder, ignore_errors=True)
    sys.exit("upgrade.py: " + "\n".join(wrong) if wrong else 0)


if __name__ == "__main__":
    main()
