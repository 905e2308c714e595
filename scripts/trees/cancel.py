"""Cancels at the root of a tree, and how soon nothing runs."""
import collections
import glob
import json
import os
import pty
import select
import socket
import sqlite3
import subprocess
import sys
import threading
import time

from trees.place import CONFIG, SESSIONS, WIDE, RunFolder, call, load, quantile, rule, shell, wait


class SilentModel:
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
    held = SilentModel()
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
    folder = RunFolder(args, rules, config)
    terminal, inner = pty.openpty()
    chat = folder.start("chat", "--plain", "--session", "r", stdin=inner, stdout=inner, stderr=inner, start_new_session=True)
    threading.Thread(target=lambda: [None for _ in iter(lambda: os.read(terminal, 65536), b"")], daemon=True).start()
    probe = subprocess.Popen([sys.executable, "-c", PROBE], stdout=subprocess.PIPE, text=True)
    empty = []
    threading.Thread(target=lambda: empty.extend(tuple(map(float, line.split())) for line in probe.stdout), daemon=True).start()
    address = folder.path("sessions.db-control", f"{chat.pid}.sock")
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
        if not os.path.exists(folder.path("sessions.db")):
            return []
        with sqlite3.connect(f"file:{folder.path('sessions.db')}?mode=ro", uri=True) as store:
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
    folder.remove()
    return wrong == 0 and quantile(above, 0.99) < 50
