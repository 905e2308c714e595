#!/usr/bin/env python3
"""How long `cli-agent` takes to end, over and over, with the real binary and real tool servers.

Each way of ending is run ROUNDS times in a folder of its own, with a scripted model, the sqlite store and two healthy drill
servers, and once with a deaf one and one that ignores TERM as well. Printed are the median, the 99th percentile and the
longest time, in milliseconds, and how many processes were left (0 is promised).

    scripts/exits.py [--rounds 50] [--agent target/release/cli-agent]
"""

import argparse
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

GRACE_MS = 200


def configuration(agent, modes):
    servers = ""
    for name, mode in modes:
        arguments = ["drill-server", "--log", f"{name}.log"] + (["--mode", mode] if mode else [])
        servers += f'[[mcp.servers]]\nid = "{name}"\ncommand = "{agent}"\nargs = {json.dumps(arguments)}\n'
    return (
        f'[runtime]\ndefault_model = "demo:one"\nshutdown_grace_ms = {GRACE_MS}\n'
        '[providers.demo]\nkind = "scripted"\nscript = "script.json"\n' + servers
    )


def ready(folder, modes):
    """Waits until every server has been asked for its tools, or has become deaf before that."""
    deadline = time.monotonic() + 60
    logs = [(folder / f"{name}.log", '"deaf"' if mode == "deaf" else "tools/list") for name, mode in modes]
    while not all(log.exists() and word in log.read_text() for log, word in logs):
        if time.monotonic() > deadline:
            raise SystemExit("a tool server does not get ready")
        time.sleep(0.005)


def left(folder):
    """Processes that work in this folder."""
    count = 0
    for process in pathlib.Path("/proc").iterdir():
        try:
            count += process.name.isdigit() and os.readlink(process / "cwd") == str(folder)
        except OSError:
            pass
    return count


def start(agent, folder, *arguments):
    command = [agent, "--config", "agent.toml", *arguments]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=folder, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL)


def at_the_end_of_run(agent, folder, modes):
    """From the answer of `run` to its end."""
    program = start(agent, folder, "run", "hi")
    program.stdout.readline()
    return program, time.monotonic()


def at_the_end_of_input(agent, folder, modes):
    """From the end of the input of `chat` to its end."""
    program = start(agent, folder, "chat")
    if ("deaf", "deaf") not in modes:
        program.stdin.write(b"hi\n")
        program.stdin.flush()
        program.stdout.readline()
    ready(folder, modes)
    began = time.monotonic()
    program.stdin.close()
    return program, began


def by_term(agent, folder, modes):
    """From SIGTERM in the middle of a turn of `run` to its end; the turn has its grace."""
    program = start(agent, folder, "run", "--session", "s", "stall")
    ready(folder, modes)
    shown = [agent, "--config", "agent.toml", "sessions", "show", "s"]
    while b"stall" not in subprocess.run(shown, cwd=folder, capture_output=True, check=False).stdout:
        pass
    began = time.monotonic()
    program.send_signal(signal.SIGTERM)
    return program, began


def measure(agent, name, end, modes, rounds):
    took, remained = [], 0
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as path:
            folder = pathlib.Path(path).resolve()
            (folder / "agent.toml").write_text(configuration(agent, modes))
            stall = {"when": "stall", "replies": ["stall"]}
            (folder / "script.json").write_text(json.dumps([stall, {"replies": [{"text": "hello"}]}]))
            program, began = end(agent, folder, modes)
            program.wait(timeout=60)
            took.append((time.monotonic() - began) * 1_000)
            remained += left(folder)
    took.sort()
    p99 = took[min(len(took) - 1, round((len(took) - 1) * 0.99))]
    print(f"{name:<52} n {len(took)}  p50 {took[len(took) // 2]:.0f}  p99 {p99:.0f}  max {took[-1]:.0f}  left {remained}")
    return remained


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--agent", default="target/release/cli-agent")
    arguments = parser.parse_args()
    agent = str(pathlib.Path(arguments.agent).resolve())
    healthy = [("one", ""), ("two", "launcher")]
    hard = healthy + [("deaf", "deaf"), ("stubborn", "ignore-term")]
    few = max(1, arguments.rounds // 5)
    remained = 0
    for name, end, modes, rounds in [
        ("run, from its answer", at_the_end_of_run, healthy, arguments.rounds),
        ("chat, from the end of its input", at_the_end_of_input, healthy, arguments.rounds),
        (f"SIGTERM in a turn, grace {GRACE_MS} ms", by_term, healthy, arguments.rounds),
        ("chat, with a deaf and a stubborn server", at_the_end_of_input, hard, few),
        (f"SIGTERM, with both, grace {GRACE_MS} ms", by_term, hard, few),
    ]:
        remained += measure(agent, name, end, modes, rounds)
    sys.exit(1 if remained else 0)


if __name__ == "__main__":
    main()
