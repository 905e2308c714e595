#!/usr/bin/env python3
"""Kills cli-agent at random instants while it works through batches, and checks what is left.

Each round starts `cli-agent batch --finish` in a process of its own, kills it with SIGKILL, and waits until nothing of it
runs any more. The instant is random; in one round of three it is a random time after the start, in one a few
milliseconds around a write to the journals, and in one a few milliseconds after a side effect. The model is scripted;
each line of a batch makes it call a tool of a real tool server (a child process) that appends a token of that line to a
file: a side effect that is not idempotent. A batch that is through is followed by the next one, in the same store. At
the end the last batch is finished without a kill. Then:

- every line has a result, and a result that was printed once is printed the same ever after (nothing acknowledged is lost);
- no token is in the file twice, and each call that ended well is in it once (no side effect runs twice);
- 5 s after each kill no process of the round is left;
- the journals, exported at the very end, still hold every input and every printed outcome of all batches, each once, and
  for every token in the file the intent that was to be written before it.

The checker trusts only what was printed, what is exported, the file of tokens and /proc.

usage: scripts/kill-loop.py [--rounds N] [--store sqlite|json] [--seed N] [--binary PATH]
exit:  0 when everything held, 1 when something did not, 2 for wrong arguments
"""
import argparse
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time

SESSIONS = 8
TURNS = 6
# An aimed kill waits for its write no longer than this.
AIMED_WITHIN_S = 30.0
GONE_WITHIN_S = 5.0
# What a kill waits for, and for how long it is put off then: an aimed one hits before, within or behind the next write.
AIMS = {"time": 0.0, "journal": 0.004, "effect": 0.006}


class Broken(Exception):
    """Something did not hold."""


class House:
    """A folder with a configuration, a store, and the tool server's file of tokens."""

    def __init__(self, binary, store):
        self.binary = binary
        self.folder = tempfile.mkdtemp(prefix="kill-loop-")
        self.tokens = os.path.join(self.folder, "tokens")
        self.results = {}
        self.batch = 0
        # Of all batches: which turn was told to have ended with what, by session.
        self.told = {}
        self.prompts = {}
        self.store = store
        # How long a process takes to its first write: longer under load, so kills by time go by it.
        self.pace = 0.5
        path = "sessions.db" if store == "sqlite" else "sessions"
        self.write("agent.toml", f"""
[runtime]
default_model = "demo:one"
[providers.demo]
kind = "scripted"
script = "script.json"
[policy]
allow_tools = ["mcp/drill/append"]
[[mcp.servers]]
id = "drill"
command = {json.dumps(binary)}
args = ["drill-server", "--log", {json.dumps(os.path.join(self.folder, "server.log"))}]
[store]
kind = "{store}"
path = "{path}"
""")

    def write(self, name, text):
        with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
            file.write(text)

    def begin_batch(self, number):
        """The lines of a batch, and the script that answers them."""
        rules, lines = [], []
        for turn in range(TURNS):
            for session in range(SESSIONS):
                token = f"b{number}s{session}t{turn}."
                call = {"name": "mcp/drill/append", "arguments": {"path": self.tokens, "line": token}}
                replies = [{"calls": [call]}, {"text": f"did {token}"}]
                rules.append({"when": token, "replies": replies, "delay_ms": 15})
                # Sessions of its own, so that reading long journals does not become all that is killed.
                name = f"b{number}s{session}"
                lines.append({"session": name, "prompt": f"do {token}"})
                self.prompts.setdefault(name, []).append(f"do {token}")
        self.write("script.json", json.dumps(rules))
        self.write("batch.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
        self.results = {}
        self.batch = number
        return len(lines)

    def start(self):
        command = [self.binary, "--config", "agent.toml", "batch", "batch.jsonl", "--finish", "--quiet"]
        return subprocess.Popen(command, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                stdin=subprocess.DEVNULL, text=True, start_new_session=True)

    def take(self, line):
        """A result that was printed is acknowledged: it stays what it is."""
        result = json.loads(line)
        kept = {key: result[key] for key in ("session_id", "finish_reason", "content", "turn_id")}
        if result["error"] is not None and result["error"]["kind"] == "invalid":
            raise Broken(f"a line was refused: {line}")
        before = self.results.setdefault(result["line"], (kept, result["tool_transcript"]))
        if before != (kept, result["tool_transcript"]):
            raise Broken(f"line {result['line']} was acknowledged as {before} and is {kept} now")
        self.told.setdefault(result["session_id"], {})[result["turn_id"]] = (result["finish_reason"], result["content"])

    def mark(self, aim):
        """What changes with each write that an aimed kill waits for."""
        if aim == "effect":
            paths = [self.tokens]
        elif self.store == "sqlite":
            paths = [os.path.join(self.folder, "sessions.db-wal")]
        else:
            folder = os.path.join(self.folder, "sessions")
            paths = [os.path.join(folder, f"b{self.batch}s{session}.jsonl") for session in range(SESSIONS)]
        marks = []
        for path in paths:
            try:
                seen = os.stat(path)
                marks.append((seen.st_size, seen.st_mtime_ns))
            except FileNotFoundError:
                marks.append(None)
        return marks

    def export(self, session):
        command = [self.binary, "--config", "agent.toml", "sessions", "export", session]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            raise Broken(f"session {session} cannot be exported: {done.stderr}")
        return [json.loads(line) for line in done.stdout.splitlines()]

    def check_journals(self):
        """That the journals hold what was said, what was told and what was to be done, each once. How many turns."""
        intended, turns = set(), 0
        for session in sorted(self.told):
            inputs, outcomes, asked = [], {}, {}
            for number, record in enumerate(self.export(session), start=1):
                if record["version"] != number:
                    raise Broken(f"{session}: record {record['version']} stands at {number}")
                body, turn = record["body"], record["turn"]
                if record["kind"] == "input":
                    inputs.append("".join(part["text"] for part in body["parts"]))
                elif record["kind"] == "answered":
                    asked.update({(turn, call["id"]): call["arguments"]["line"] for call in body["calls"]})
                elif record["kind"] == "intent":
                    intended.add(asked[turn, body["call"]])
                elif record["kind"] == "outcome":
                    if turn in outcomes:
                        raise Broken(f"{session}: turn {turn} ended twice")
                    outcomes[turn] = (body["finish_reason"], body["content"])
            if sorted(inputs) != sorted(self.prompts[session]):
                raise Broken(f"{session}: {len(inputs)} inputs are stored, {len(self.prompts[session])} were given")
            if outcomes != self.told[session]:
                raise Broken(f"{session}: what is stored is not what was told")
            turns += len(outcomes)
        with open(self.tokens, encoding="utf-8") as file:
            done = {line.split("\t")[0].strip() for line in file}
        if done - intended:
            raise Broken(f"side effects without an intent: {sorted(done - intended)}")
        if self.store == "sqlite":
            with sqlite3.connect(os.path.join(self.folder, "sessions.db")) as database:
                said = database.execute("PRAGMA integrity_check").fetchone()[0]
            if said != "ok":
                raise Broken(f"the database is damaged: {said}")
        return turns

    def is_anything_left(self):
        """The command lines of processes that belong to this folder."""
        left = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    words = file.read().replace(b"\0", b" ").decode(errors="replace")
                where = os.readlink(f"/proc/{pid}/cwd")
            except OSError:
                continue
            if int(pid) != os.getpid() and (self.folder in words or where == self.folder):
                left.append(f"{pid}: {words}")
        return left

    def wait_gone(self):
        began = time.monotonic()
        while left := self.is_anything_left():
            if time.monotonic() - began > GONE_WITHIN_S:
                raise Broken(f"left behind after {GONE_WITHIN_S} s: {left}")
            time.sleep(0.02)
        return time.monotonic() - began

    def check_tokens(self):
        counts = {}
        if os.path.exists(self.tokens):
            with open(self.tokens, encoding="utf-8") as file:
                for line in file:
                    token = line.split("\t")[0].strip()
                    counts[token] = counts.get(token, 0) + 1
        twice = [token for token, count in counts.items() if count > 1]
        if twice:
            raise Broken(f"side effects that ran twice: {twice}")
        unknown = 0
        for kept, transcript in self.results.values():
            if kept["finish_reason"] != "final":
                raise Broken(f"not finished: {kept}")
            for call in transcript:
                unknown += call["status"] == "unknown"
                token = call["arguments"]["line"]
                if call["status"] == "ok" and counts.get(token) != 1:
                    raise Broken(f"{token} is said to be done and is not in the file")
        return len(counts), unknown


def read_all(process, house, failures):
    try:
        for line in process.stdout:
            if line.endswith("\n"):
                house.take(line)
    except (Broken, ValueError, KeyError) as error:
        failures.append(error)


def wait_for_writes(process, house, aim, count, until):
    """Waits for so many writes, for the end of the process, or until then."""
    last, began, is_first = house.mark(aim), time.monotonic(), aim == "journal"
    while count > 0 and process.poll() is None and time.monotonic() < until:
        time.sleep(0.0005)
        now = house.mark(aim)
        if now != last:
            count, last = count - 1, now
            if is_first:
                house.pace, is_first = (house.pace + time.monotonic() - began) / 2, False
    return count == 0


def run(house, seconds, aim="time", count=0, delay=0.0):
    """One process: killed after so many seconds at the latest, or left to its end. Whether it came to its end, how long
    its processes were there after it, whether the kill met its aim, and whether it had written anything."""
    before = house.mark("journal")
    process, failures = house.start(), []
    until = time.monotonic() + seconds
    reader = threading.Thread(target=read_all, args=(process, house, failures))
    reader.start()
    hit = aim != "time" and wait_for_writes(process, house, aim, count, until)
    try:
        process.wait(timeout=delay if hit else max(0.0, until - time.monotonic()))
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.wait()
    # The pipes end with whoever holds them, so nobody is waited for who should be gone.
    gone = house.wait_gone()
    reader.join(timeout=GONE_WITHIN_S)
    said = process.stderr.read()
    if failures:
        raise failures[0]
    if process.returncode not in (0, -signal.SIGKILL):
        raise Broken(f"ended with {process.returncode}: {said[-2000:]}")
    return process.returncode == 0, gone, hit, house.mark("journal") != before


def main():
    parser = argparse.ArgumentParser(description="kills cli-agent at random instants and checks what is left")
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--store", choices=["sqlite", "json"], default="sqlite")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--binary", default="target/debug/cli-agent")
    arguments = parser.parse_args()
    chance = random.Random(arguments.seed)
    house = House(os.path.abspath(arguments.binary), arguments.store)
    kills, batches, tokens, unknown, slowest = 0, 1, 0, 0, 0.0
    aimed, working = dict.fromkeys(AIMS, 0), 0
    lines = house.begin_batch(batches)
    began = told = time.monotonic()
    try:
        while True:
            if kills < arguments.rounds:
                aim = chance.choice(list(AIMS))
                seconds = chance.uniform(0, 4) * house.pace if aim == "time" else AIMED_WITHIN_S
                ended, gone, hit, wrote = run(house, seconds, aim, chance.randint(1, 16), chance.uniform(0, AIMS[aim]))
            else:
                aim, (ended, gone, hit, wrote) = "time", run(house, 120)
            slowest = max(slowest, gone)
            kills += not ended
            if not ended:
                aimed[aim if hit else "time"] += 1
                working += wrote
            if ended:
                if len(house.results) != lines:
                    raise Broken(f"{lines - len(house.results)} lines have no result")
                tokens, doubts = house.check_tokens()
                unknown += doubts
                if kills >= arguments.rounds:
                    turns = house.check_journals()
                    break
                batches += 1
                lines = house.begin_batch(batches)
            if time.monotonic() - told > 5:
                told = time.monotonic()
                print(f"{kills} of {arguments.rounds} kills, {batches} batches", file=sys.stderr, flush=True)
    except Broken as error:
        print(f"FAIL after {kills} kills (seed {arguments.seed}, {arguments.store}): {error}\nsee {house.folder}")
        return 1
    shutil.rmtree(house.folder)
    print(f"PASS: {arguments.store}, seed {arguments.seed}: {kills} kills ({working} after the first write, "
          f"{aimed['journal']} aimed at a write of the journals, {aimed['effect']} at a side effect), {batches} batches of {lines} lines, {turns} turns, 0 results lost, "
          f"{tokens} side effects, none twice, {unknown} of unknown outcome, "
          f"nothing left {slowest:.2f} s after a kill, {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
