#!/usr/bin/env python3
"""Trees of agents with the real program: what they cost, how soon they stop, and what a kill leaves of them.

A tree is a root that calls four planners, each of which calls four leaves: three levels, 21 sessions. Root and planners are
scripted. Store: sqlite, in a folder for the run that is removed at the end.

  whole    one tree; the journals must have one transcript, one bill and one trace. --model URL has the leaves ask a real model there
           (scripts/local-model.sh). The trace is received by scripts/telemetry-receiver.sh, if that is installed or can be
  cancel   cancels at the root while leaves hang in the model (two of each planner's), in a tool (one) and in an approval (one), and measures until
           no model call is open, no process of a tool lives and the last outcome is in the journals. The verdict is the p99 of this
           above what an empty task of another process takes at the same time
  kill     kill -9 at a random instant of a tree, then `run --finish`: each side effect at most once, each child begun once, the
           sums right, no turn open
  crowd    many parents with four children each in one `batch`: the time of all, and of a parent, against the ideal
  large    small turns of other sessions without and with results of 60 MiB in one: the p99 of a turn, and the middle read by the model

usage: scripts/tree.py {whole,cancel,kill,crowd,large} --program cli-agent [--times 200] [--seed 1] [--keep]

Exits with 1 if what is looked at does not hold. All that is printed goes to stdout; the load is part of it.
"""
import argparse
import atexit
import collections
import glob
import json
import os
import pty
import random
import select
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
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


class House:
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


def parent_of(records):
    return next((record["body"]["parent"] for record in records if record["kind"] == "options"), None)


def tokens(records):
    """What the session's own model calls used."""
    return sum(
        record["body"]["cost"]["usage"]["total_tokens"]
        for record in records
        if record["kind"] == "answered" and record["body"].get("cost")
    )


def results(records):
    return [record["body"] for record in records if record["kind"] == "result"]


def faults(journals, root, whole=True):
    """What is wrong with the journals of a tree whose root has ended."""
    found = []
    below = {id: parent_of(records) for id, records in journals.items() if id == root or id.startswith(root + ".")}
    children = collections.defaultdict(list)
    for id, parent in below.items():
        if parent:
            children[parent["session"]].append(id)
    begun_by = collections.Counter((parent["session"], parent["turn"], parent["call"]) for parent in below.values() if parent)
    found += [f"{call}: {count} children of one call" for call, count in begun_by.items() if count > 1]
    for id in below:
        kinds = collections.Counter((record["kind"], record["turn"]) for record in journals[id])
        for (kind, turn), count in kinds.items():
            if kind == "started" and count > 1:
                found.append(f"{id}: the turn {turn} began {count} times")
            if kind == "input" and kinds[("outcome", turn)] != 1:
                found.append(f"{id}: the turn {turn} has {kinds[('outcome', turn)]} outcomes")
        calls = collections.Counter((record["turn"], record["body"]["call"]) for record in journals[id] if record["kind"] == "result")
        found += [f"{id}: {count} results of {call}" for call, count in calls.items() if count > 1]

    def used(id):
        return tokens(journals[id]) + sum(used(child) for child in children[id])

    for id in below:
        for child in children[id]:
            name = parent_of(journals[child])["call"]
            result = next((result for result in results(journals[id]) if result["call"] == name), None)
            if result is None or result["status"] == "unknown":
                continue
            counted = (result["output"].get("delegated") or {}).get("usage", {}).get("total_tokens", 0)
            if counted != used(child):
                found.append(f"{id}: {counted} tokens are on the bill for {name}, {used(child)} were used")
    if whole and len(below) != SESSIONS:
        found.append(f"{len(below)} sessions, not {SESSIONS}")
    return found


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


def kill(args):
    draw, wrong, whole, seen, number = random.Random(args.seed), 0, None, collections.Counter(), 0
    house = House(args, [])
    while seen["killed"] < args.times:
        root = f"r{number}"
        leaf = lambda planner, leaf: (shell(f"echo {number}.{planner}.{leaf} >> effects"), {"text": "worked"})
        house.write("script.json", json.dumps([*tree(number, leaf, delay=15), rule("after.", {"text": "yes"})]))
        process = house.start("run", "--session", root, f"go {number}.", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        began = time.monotonic()
        try:
            # The first one is not killed: it tells how long a tree takes.
            process.wait(None if whole is None else draw.uniform(0, whole))
            whole = min(whole or 60, time.monotonic() - began)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            seen["killed"] += 1
            before = house.of(root)
            is_over = any(record["kind"] == "outcome" for record in before.get(root, []))
            seen["before the journal had it" if not before else "when it was over" if is_over else "while it ran"] += 1
        again = house.run("run", "--finish", "--session", root, "after.")
        journals = house.of(root)
        found = faults(journals, root, whole=False)
        if again.returncode != 0:
            found.append(f"run --finish ended with {again.returncode}: {again.stderr[-300:]}")
        ended = collections.Counter(
            result["status"] for records in journals.values() for result in results(records) if result["name"] == "local/shell_exec"
        )
        effects = house.effects(number)
        done = sum(effects.values())
        if max(effects.values(), default=0) > 1:
            found.append(f"side effects more than once: {effects}")
        if not ended["ok"] <= done <= ended["ok"] + ended["unknown"]:
            found.append(f"{done} side effects of {dict(ended)}")
        seen.update({"side effects": done, "calls in doubt": ended["unknown"], "sessions": len(journals)})
        for fault in found:
            print(f"{root}: {fault}")
        wrong += bool(found)
        number += 1
    print(f"{number} trees, seed {args.seed}, the quickest whole one {whole * 1000:.0f} ms, {load()}")
    print(", ".join(f"{name}: {count}" for name, count in seen.items()))
    print(f"{wrong} wrong")
    house.remove()
    return wrong == 0


class Held:
    """A model that never answers; knows when its calls begin and end."""

    def __init__(self):
        self.server = socket.create_server(("127.0.0.1", 0))
        self.port = self.server.getsockname()[1]
        self.open, self.closed = set(), 0.0
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        poll = select.epoll()
        poll.register(self.server, select.EPOLLIN)
        sockets = {}
        while True:
            for file, _ in poll.poll():
                if file == self.server.fileno():
                    one, _ = self.server.accept()
                    sockets[one.fileno()] = one
                    poll.register(one, select.EPOLLIN)
                    continue
                try:
                    read = sockets[file].recv(1 << 20)
                except ConnectionError:
                    read = b""
                if read:
                    self.open.add(file)
                    continue
                self.closed = time.time()
                self.open.discard(file)
                poll.unregister(file)
                sockets.pop(file).close()


PROBE = """
import sys, threading, time
while True:
    due = time.monotonic() + 0.005
    time.sleep(0.005)
    task = threading.Thread(target=lambda: None)
    task.start()
    task.join()
    print(time.time(), (time.monotonic() - due) * 1000, flush=True)
"""


def tools_of(mark):
    found = []
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(path, "rb") as file:
                words = file.read().split(b"\0")
        except OSError:
            continue
        if words[:2] == [b"sleep", mark]:
            found.append(path)
    return found


def lives(path, mark):
    try:
        with open(path, "rb") as file:
            return mark in file.read()
    except OSError:
        return False


def cancel(args):
    held = Held()
    config = CONFIG.replace("[policy]", f"""[providers.held]
kind = "openai"
base_url = "http://127.0.0.1:{held.port}/v1/"
api_key = "none"
timeout_ms = 600000
max_concurrent = 4096

[policy]""") + """
[[subagents]]
id = "thinker"
description = "Thinks."
model = "held:one"
budget_ratio = 1.0
"""
    mark = str(900_000_000 + os.getpid())
    rules = [
        rule("tool.", shell(f"exec sleep {mark}")),
        rule("approval.", shell("git push away")),
        rule("plan", {"calls": [call("agent/thinker", task="think 1."), call("agent/thinker", task="think 2."),
                                call("agent/leaf", task="tool."), call("agent/leaf", task="approval.")]}),
        rule("go", {"calls": [call("agent/planner", task=f"plan {number}") for number in range(WIDE)]}),
    ]
    house = House(args, rules, config)
    terminal, inner = pty.openpty()
    chat = house.start("chat", "--plain", "--session", "r", stdin=inner, stdout=inner, stderr=inner, start_new_session=True)
    threading.Thread(target=lambda: [None for _ in iter(lambda: os.read(terminal, 65536), b"")], daemon=True).start()
    probe = subprocess.Popen([sys.executable, "-c", PROBE], stdout=subprocess.PIPE, text=True)
    empty = []
    threading.Thread(target=lambda: empty.extend(tuple(map(float, line.split())) for line in probe.stdout), daemon=True).start()
    address = house.path("sessions.db-control", f"{chat.pid}.sock")
    wait(lambda: os.path.exists(address), "the control socket")
    control = socket.socket(socket.AF_UNIX)
    control.connect(address)
    lines = control.makefile("rw")
    lines.readline()

    def ask(**what):
        lines.write(json.dumps({"v": 1, "id": 1, "ask": what}) + "\n")
        lines.flush()
        return json.loads(lines.readline())["answer"]


    def newest(kind, seen):
        """The records of this kind of turns that are not in `seen`."""
        if not os.path.exists(house.path("sessions.db")):
            return []
        with sqlite3.connect(f"file:{house.path('sessions.db')}?mode=ro", uri=True) as store:
            rows = store.execute("SELECT line FROM records WHERE line LIKE ?", (f'%"kind":"{kind}"%',)).fetchall()
        return [record for (line,) in rows if (record := json.loads(line)["record"])["turn"] not in seen]

    took, above, parts, seen, wrong = [], [], collections.defaultdict(list), set(), 0
    try:
        for number in range(args.times):
            time.sleep(0.05)
            os.write(terminal, f"go {number}\r".encode())
            wait(lambda: len(held.open) == 2 * WIDE, "the calls of the model")
            wait(lambda: len(tools_of(mark.encode())) == WIDE, "the tools")
            wait(lambda: len(newest(args.asked, seen)) == WIDE, "the approvals")
            tools = tools_of(mark.encode())
            began = time.time()
            ask(type="cancel", session="r")
            ended = None
            while tools:
                tools = [path for path in tools if lives(path, mark.encode())]
                ended = time.time()
                time.sleep(0.0005)
            wait(lambda: not held.open, "the end of the calls of the model")
            wait(lambda: len(newest("outcome", seen)) == SESSIONS, "the outcomes")
            outcomes = newest("outcome", seen)
            last = max(record["at"] for record in outcomes) / 1000 + 0.001
            for name, at in (("model", held.closed), ("tool", ended), ("outcome", last)):
                parts[name].append((at - began) * 1000)
            took.append(max(parts[name][-1] for name in parts))
            time.sleep(0.02)
            # The empty tasks that were due meanwhile, and the one before and behind.
            until = began + took[-1] / 1000
            beside = [ms for at, ms in empty if at > began - 0.006 and at - ms / 1000 < until + 0.006]
            above.append(took[-1] - max(beside, default=0))
            seen |= {record["turn"] for record in outcomes} | {record["turn"] for record in newest(args.asked, seen)}
            if any(record["body"]["finish_reason"] != "cancelled" for record in outcomes):
                wrong += 1
                print(f"cancel {number}: {collections.Counter(record['body']['finish_reason'] for record in outcomes)}")
        time.sleep(0.5)
        look = ask(type="look")
        running = [part for part in look["tree"] if part["name"] == "sessions"][0]["children"]
        running = [one["name"] for one in running if one["state"] in ("running", "waiting")]
        if running or look["metrics"]["sessions"]["running"]:
            wrong += 1
            print(f"still running: {running}")
    finally:
        probe.kill()
        chat.kill()
        chat.wait()
    if not took:
        return False
    empty = [ms for _, ms in empty]
    print(f"{len(took)} cancels of {SESSIONS} sessions, {load()}\n\n| until | p50 | p99 | most |\n|---|---|---|---|")
    for name, values in [*parts.items(), ("nothing runs", took), ("an empty task", empty), ("nothing runs, above the empty tasks of the same time", above)]:
        print(f"| {name} | {quantile(values, 0.5):.1f} ms | {quantile(values, 0.99):.1f} ms | {max(values):.1f} ms |")
    print(f"\n{wrong} wrong")
    house.remove()
    return wrong == 0 and quantile(above, 0.99) < 50


def receiver():
    """A receiver of telemetry, its port, and what it was sent."""
    script = os.path.join(ROOT, "scripts", "telemetry-receiver.sh")
    process = subprocess.Popen(["sh", script], stdout=subprocess.PIPE, text=True, start_new_session=True)
    first = process.stdout.readline()
    if not first:
        return process, None, []
    spans = []
    threading.Thread(target=lambda: spans.extend(json.loads(line) for line in process.stdout), daemon=True).start()
    return process, json.loads(first)["port"], spans


def whole(args):
    process, port, spans = receiver()
    atexit.register(lambda: process.poll() is None and os.killpg(process.pid, signal.SIGTERM))
    config = CONFIG + (f'\n[telemetry]\notlp_endpoint = "http://127.0.0.1:{port}"\n' if port else "")
    if args.model:
        config = config.replace("[policy]", f"""[providers.small]
kind = "openai"
base_url = "{args.model}"
api_key = "none"
timeout_ms = 1800000
max_concurrent = 1
temperature = 0.0
max_tokens = 48
capabilities = {{ native_tools = true, json_schema = true, system_role = true, context_tokens = 8192 }}

[policy]""")
        config += '\n[[subagents]]\nid = "asked"\ndescription = "Answers."\ninstructions = "Answer in one short sentence."\n'
        config += 'model = "small:smollm2-135m"\nallow_tools = []\nbudget_ratio = 1.0\n'
    rules = tree(0, lambda planner, leaf: ({"text": f"worked {planner} {leaf}"},))
    if args.model:
        words = ["France", "Italy", "Spain", "Japan"]
        for one in rules:
            for called in one["replies"][0].get("calls", []):
                if called["name"] == "agent/leaf":
                    number = int(called["arguments"]["task"].split()[-1].rstrip("."))
                    called["name"], called["arguments"] = "agent/asked", {"task": f"What is the capital of {words[number]}?"}
    house = House(args, rules, config)
    began = time.monotonic()
    ran = house.run("run", "--session", "r", "--output", "json", "go 0.")
    took = time.monotonic() - began
    outcome, journals = json.loads(ran.stdout), house.of("r")
    found = faults(journals, "r")
    if outcome["finish_reason"] != "final":
        found.append(f"it ended with {outcome['finish_reason']}")
    bill = outcome["usage"]["total_tokens"] + outcome["delegated"]["usage"]["total_tokens"]
    own = sum(tokens(records) for records in journals.values())
    if bill != own or outcome["delegated"]["sessions"] != SESSIONS - 1:
        found.append(f"the bill has {bill} tokens of {outcome['delegated']['sessions']} children, the journals {own}")
    listed = json.loads(house.run("sessions", "list", "--children", "--json").stdout)["sessions"]
    if {one["session_id"] for one in listed} != set(journals):
        found.append(f"{len(listed)} sessions are listed, {len(journals)} have a journal")
    # The answer of each child is the result of its call, so the transcript of the root is that of the tree.
    for id, records in journals.items():
        if parent := parent_of(records):
            content = next(record["body"]["content"] for record in records if record["kind"] == "outcome")
            result = next(one for one in results(journals[parent["session"]]) if one["call"] == parent["call"])
            if result["status"] != "ok" or result["output"]["parts"][0].get("text") != content:
                found.append(f"{id}: it said {content!r}, its caller reads {result['output']['parts']}")
    traces = "no receiver of telemetry"
    if port:
        # A model call of each of the turns, and each turn; the calls of agents too.
        calls = sum(len(results(records)) for records in journals.values())
        answers = sum(record["kind"] == "answered" for records in journals.values() for record in records)
        expected = SESSIONS + calls + answers
        wait(lambda: sum(one["kind"] == "span" for one in spans) >= expected, f"{expected} spans")
        mine = [one for one in spans if one["kind"] == "span"]
        ids = {one["id"] for one in mine}
        lost = [one["name"] for one in mine if one["parent"] and one["parent"] not in ids]
        if len({one["trace"] for one in mine}) != 1 or len(mine) != expected or lost:
            found.append(f"{len(mine)} spans, {expected} expected, {len({one['trace'] for one in mine})} traces, without parent {lost}")
        traces = f"{len(mine)} spans in one trace"
    for fault in found:
        print(fault)
    leaves = "a real model" if args.model else "scripted"
    print(f"{len(journals)} sessions, leaves: {leaves}, {took:.1f} s, bill {bill} tokens, sum of the journals {own}, {traces}, {load()}")
    if args.model:
        print("an answer:", next(r["body"]["content"] for i, rs in journals.items() if i.count(".") == 2 for r in rs if r["kind"] == "outcome"))
    print(f"{len(found)} wrong")
    house.remove()
    return not found


def crowd(args):
    """`--times` parents with four children each; a model call takes a second, so a parent takes three at best."""
    right = True
    print(f"{args.times} parents with {WIDE} children each, a model call takes 1 s: a parent takes 3 s at best\n")
    print("| store | turns at a time | ideal | wall | a parent: p50 | p99 | most | calls of agents that failed | load |\n|---|---|---|---|---|---|---|---|---|")
    for kind in ("memory", "sqlite"):
        for places in (1024, 64):
            calls = [call("agent/leaf", task=f"leaf {number}") for number in range(WIDE)]
            rules = [rule("leaf", {"text": "worked"}, delay_ms=1000), rule("go", {"calls": calls}, {"text": "done"}, delay_ms=1000)]
            store = 'kind = "memory"\n' if kind == "memory" else 'kind = "sqlite"\npath = "sessions.db"\n'
            config = CONFIG.replace('kind = "sqlite"\npath = "sessions.db"\n', store)
            config = config.replace("max_concurrent_turns = 1024", f"max_concurrent_turns = {places}")
            house = House(args, rules, config)
            house.write("lines.jsonl", "".join(json.dumps({"session": f"s{n}", "prompt": "go"}) + "\n" for n in range(args.times)))
            began = time.monotonic()
            ran = house.run("batch", "--quiet", "--concurrency", str(places), "lines.jsonl", timeout=600)
            wall = time.monotonic() - began
            lines = [json.loads(line) for line in ran.stdout.splitlines()]
            took = [line["duration_ms"] / 1000 for line in lines]
            failed = sum(one["status"] != "ok" for line in lines for one in line["tool_transcript"])
            ideal = -(-args.times // places) * 3
            right &= ran.returncode == 0 and len(lines) == args.times and failed == 0
            right &= all(line["delegated"]["sessions"] == WIDE for line in lines)
            figures = f"{quantile(took, 0.5):.2f} s | {quantile(took, 0.99):.2f} s | {max(took):.2f} s"
            print(f"| {kind} | {places} | {ideal} s | {wall:.1f} s | {figures} | {failed} | {os.getloadavg()[0]:.1f} |", flush=True)
            house.remove()
    return right


SERVER = """
import json, sys
size = 60 << 20
line = "0123456789abcde\\n"
text = line * (size // len(line) // 2) + "the heron stands here\\n" + line * (size // len(line) // 2)
large = json.dumps(text)
for message in sys.stdin:
    message = json.loads(message)
    if "id" not in message:
        continue
    if message["method"] == "initialize":
        result = json.dumps({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "large", "version": "1"}})
    elif message["method"] == "tools/list":
        result = json.dumps({"tools": [{"name": "make", "description": "Makes much.", "inputSchema": {"type": "object"},
                                        "annotations": {"readOnlyHint": True}}]})
    elif message["method"] == "tools/call":
        result = '{"content": [{"type": "text", "text": ' + large + '}]}'
    else:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "no"}}), flush=True)
        continue
    print('{"jsonrpc": "2.0", "id": ' + json.dumps(message["id"]) + ', "result": ' + result + "}", flush=True)
"""


def large(args):
    config = CONFIG.replace('["local/*", "agent/*"]', '["local/*", "mcp/large/*"]').replace("[store]", f"""[[mcp.servers]]
id = "large"
transport = "stdio"
command = "{sys.executable}"
args = ["server.py"]
start = "eager"
tool_timeout_ms = 600000

[store]""")
    middle = (60 << 20) // 2
    begin = [rule("make", {"calls": [call("mcp/large/make")]}, {"text": "made"}), rule("small", {"text": "yes"}, delay_ms=20)]
    right, ratios = True, []
    print("| round | without: p50 | p99 | with: p50 | p99 | ratio of p99 | large results | load |\n|---|---|---|---|---|---|---|---|")
    for round in range(args.times):
        figures, made = {}, 0
        for what in ("without", "with"):
            house = House(args, begin, config)
            house.write("server.py", SERVER)
            lines = [{"session": f"s{n % 40}", "prompt": "small"} for n in range(4000)]
            if what == "with":
                # Spread over the whole batch.
                for at in range(6):
                    lines.insert(at * 600, {"session": "big", "prompt": "make"})
            house.write("lines.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
            ran = house.run("batch", "--quiet", "--concurrency", "16", "lines.jsonl", timeout=600)
            ended = [json.loads(line) for line in ran.stdout.splitlines()]
            right &= ran.returncode == 0
            figures[what] = [line["duration_ms"] for line in ended if line["session_id"] != "big"]
            if what == "with":
                made = sum(len(line["tool_transcript"]) for line in ended if line["session_id"] == "big")
                listed = json.loads(house.run("artifacts", "list", "big", "--json").stdout)
                artifact = listed["artifacts"][0]
                reads = {"calls": [call("local/read_artifact", id=artifact["id"], offset=middle - 64, length=200)]}
                house.write("script.json", json.dumps([rule("read", reads, {"text": "read"})]))
                read = json.loads(house.run("run", "--session", "big", "--output", "json", "read").stdout)
                if "the heron stands here" not in read["tool_transcript"][0]["result"]:
                    right = False
                    print("the middle was not read:", read["tool_transcript"])
            house.remove()
        without, among = figures["without"], figures["with"]
        ratios.append(quantile(among, 0.99) / quantile(without, 0.99))
        print(
            f"| {round + 1} | {quantile(without, 0.5)} ms | {quantile(without, 0.99)} ms | {quantile(among, 0.5)} ms | {quantile(among, 0.99)} ms "
            f"| {ratios[-1]:.2f} | {made} of {artifact['bytes'] >> 20} MiB | {os.getloadavg()[0]:.1f} |", flush=True,
        )
    print(f"\nratio: median {quantile(ratios, 0.5):.2f}; the middle was {'' if right else 'NOT '}read by the model in each round")
    return right


def wait(is_so, what):
    end = time.monotonic() + 60
    while not is_so():
        if time.monotonic() > end:
            sys.exit(f"tree.py: {what} did not come")
        time.sleep(0.002)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["whole", "cancel", "kill", "crowd", "large"])
    parser.add_argument("--program", required=True)
    parser.add_argument("--times", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--model", help="the base URL of a model for the leaves of `whole`")
    parser.add_argument("--asked", default="approval_asked", help=argparse.SUPPRESS)
    parser.add_argument("--keep", action="store_true", help="keep the folder")
    args = parser.parse_args()
    sys.exit(0 if globals()[args.what](args) else 1)


if __name__ == "__main__":
    main()
