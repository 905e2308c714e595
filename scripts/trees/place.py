"""A folder for a run: configuration, script and store; and the rules of a scripted tree."""
import collections
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
WIDE = 4
SESSIONS = 1 + WIDE + WIDE * WIDE

CONFIG = """[runtime]
default_model = "demo:one"
max_concurrent_turns = 1024
shutdown_grace_ms = 2000

[providers.demo]
kind = "scripted"
script = "script.json"
max_concurrent = 4096

[policy]
allow_tools = ["local/*", "agent/*"]
mode = "auto"
require_high_risk_approval = false
ask = ["local/shell_exec(git push *)"]

[store]
kind = "sqlite"
path = "sessions.db"

[[subagents]]
id = "planner"
description = "Plans."
budget_ratio = 1.0
max_depth = 1

[[subagents]]
id = "leaf"
description = "Works."
budget_ratio = 1.0
"""


def call(name, **arguments):
    return {"name": name, "arguments": arguments}


def shell(command):
    return {"calls": [call("local/shell_exec", command=command)]}


def rule(when, *replies, **more):
    return {"when": when, "replies": list(replies), **more}


def quantile(values, part):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * part))]


def load():
    return f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors"


class RunFolder:
    """A folder with a configuration, a script and a store."""

    def __init__(self, args, rules, config=CONFIG):
        self.program, self.keep = os.path.abspath(args.program), args.keep
        self.folder = tempfile.mkdtemp(prefix="bob-tree-")
        self.write("agent.toml", config)
        self.write("script.json", json.dumps(rules))

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def write(self, name, text):
        with open(self.path(name), "w") as file:
            file.write(text)

    def command(self, *words):
        return [self.program, "--config", self.path("agent.toml"), *words]

    def start(self, *words, **how):
        return subprocess.Popen(self.command(*words), cwd=self.folder, **how)

    def run(self, *words, **how):
        return subprocess.run(
            self.command(*words), cwd=self.folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, **how
        )

    def of(self, root):
        """The records of a session and of each below it, from the store."""
        journals = collections.defaultdict(list)
        if not os.path.exists(self.path("sessions.db")):
            return journals
        with sqlite3.connect(f"file:{self.path('sessions.db')}?mode=ro", uri=True) as store:
            rows = store.execute(
                """SELECT id, line FROM records JOIN sessions ON number = session WHERE id = ? OR id LIKE ?
                   ORDER BY number, records.version""",
                (root, root + ".%"),
            )
            for session, line in rows:
                journals[session].append(json.loads(line)["record"])
        return journals

    def effects(self, number):
        try:
            with open(self.path("effects")) as file:
                return collections.Counter(line.strip() for line in file if line.startswith(f"{number}."))
        except FileNotFoundError:
            return collections.Counter()

    def remove(self):
        if self.keep:
            print(f"kept: {self.folder}", file=sys.stderr)
        else:
            shutil.rmtree(self.folder, ignore_errors=True)


def tree(run, leaf, delay=0):
    """The rules of a tree; `leaf` has the replies of the leaf of these numbers."""
    rules = [
        rule(f"leaf {run} {planner} {number}.", *leaf(planner, number), delay_ms=delay)
        for planner in range(WIDE)
        for number in range(WIDE)
    ]
    for planner in range(WIDE):
        calls = [call("agent/leaf", task=f"leaf {run} {planner} {number}.") for number in range(WIDE)]
        rules.append(rule(f"plan {run} {planner}.", {"calls": calls}, {"text": f"planned {planner}"}, delay_ms=delay))
    calls = [call("agent/planner", task=f"plan {run} {planner}.") for planner in range(WIDE)]
    return rules + [rule(f"go {run}.", {"calls": calls}, {"text": f"done {run}"}, delay_ms=delay)]


def wait(is_so, what):
    end = time.monotonic() + 60
    while not is_so():
        if time.monotonic() > end:
            sys.exit(f"tree.py: {what} did not come")
        time.sleep(0.002)
