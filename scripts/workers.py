#!/usr/bin/env python3
"""Measures turns a second, and how long turns take, with SQLite beside PostgreSQL and with one to three workers.

Each round runs every case once, one after the other, so that what else the machine does is in all of them; the table has
the medians over the rounds, and the ratio to the first case. The model is scripted and answers at once, so what is
measured is the runtime and the store. Cases:

  sqlite          `batch` of sessions with a turn each, one process, a database in a new folder
  postgres        the same, in a new schema
  N workers       as many messages put into the inbox by SQL before N processes of `work` begin

The clock starts behind as many outcomes as turns run at a time (64 in each process), so that neither the start of the
processes is in the time, nor the work on turns that had begun before it.

usage: scripts/workers.py --program cli-agent --database URL [--turns 1500] [--rounds 3] [--workers 3]

The database is one for trying, as `scripts/postgres.sh start FOLDER` makes it; the schemas are removed at the end. The
program needs the feature postgres.
"""
import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from database import configured, postgres, sql

# How many turns run at a time in each process.
CONCURRENCY = 64


class Place:
    """A new folder with a configuration, and for PostgreSQL a new schema."""

    def __init__(self, args, kind):
        self.args, self.kind = args, kind
        self.folder = tempfile.mkdtemp(prefix="bob-workers-")
        self.url = args.database
        store = 'kind = "sqlite"\npath = "sessions.db"'
        if kind == "postgres":
            self.schema = f"figures_{os.getpid()}_{time.monotonic_ns()}"
            sql(self.url, f"CREATE SCHEMA {self.schema}")
            join = "&" if "?" in self.url else "?"
            self.url += f"{join}options=-c%20search_path%3D{self.schema}"
            store = postgres(self.url)
        self.config = os.path.join(self.folder, "agent.toml")
        with open(self.config, "w") as file:
            file.write(configured(store))
        with open(os.path.join(self.folder, "script.json"), "w") as file:
            json.dump([{"replies": [{"text": "Hello."}]}], file)

    def command(self, *arguments):
        return [self.args.program, "--config", self.config, *arguments]

    def remove(self):
        if self.kind == "postgres":
            sql(self.args.database, f"SET client_min_messages = warning; DROP SCHEMA {self.schema} CASCADE")
        shutil.rmtree(self.folder, ignore_errors=True)


def figures(ended, processes):
    """Turns a second, p50 and p99 of (time of the report, duration in ms)."""
    times = sorted(when for when, _ in ended)[processes * CONCURRENCY :]
    took = sorted(duration for _, duration in ended)
    at = lambda part: took[min(len(took) - 1, int(len(took) * part))]
    return (len(times) - 1) / max(times[-1] - times[0], 1e-6), at(0.50), at(0.99)


def read(process, ended):
    for line in process.stdout:
        result = json.loads(line)
        if result.get("finish_reason") != "final":
            # In a thread, where an exit would end that alone.
            print(f"workers.py: a turn did not end: {line}", file=sys.stderr, flush=True)
            os._exit(1)
        ended.append((time.monotonic(), result["duration_ms"]))


def batch(args, kind):
    place = Place(args, kind)
    lines = "".join(json.dumps({"session": f"s{number}", "prompt": "hi"}) + "\n" for number in range(args.turns))
    with open(os.path.join(place.folder, "input.jsonl"), "w") as file:
        file.write(lines)
    command = place.command("batch", "--quiet", "--concurrency", str(CONCURRENCY), os.path.join(place.folder, "input.jsonl"))
    with open(os.path.join(place.folder, "errors"), "w+") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        ended = []
        read(process, ended)
        if process.wait() != 0 or len(ended) != args.turns:
            errors.seek(0)
            sys.exit(f"workers.py: batch ended with {process.returncode}, {len(ended)} turns: {errors.read()}")
    place.remove()
    return figures(ended, 1)


def work(args, count):
    place = Place(args, "postgres")
    # The tables are made by the first message.
    put = subprocess.run(
        place.command("submit", "--no-wait", "--session", "s0", "--request-id", "r", "hi"), capture_output=True, text=True
    )
    if put.returncode != 0:
        sys.exit(f"workers.py: submit: {put.stderr}")
    sql(
        place.url,
        f"""INSERT INTO bob_inbox (session, request, message)
            SELECT 's' || n, 'r', replace(message, '"session":"s0"', '"session":"s' || n || '"')
            FROM bob_inbox, generate_series(1, {args.turns - 1}) n WHERE session = 's0'""",
    )
    ended, workers, readers = [], [], []
    with open(os.path.join(place.folder, "errors"), "w+") as errors:
        for _ in range(count):
            worker = subprocess.Popen(
                place.command("work", "--json", "--concurrency", str(CONCURRENCY)), stdout=subprocess.PIPE, stderr=errors, text=True
            )
            workers.append(worker)
            readers.append(threading.Thread(target=read, args=(worker, ended), daemon=True))
            readers[-1].start()
        until = time.monotonic() + 300
        while len(ended) < args.turns and time.monotonic() < until and all(w.poll() is None for w in workers):
            time.sleep(0.02)
        for worker in workers:
            worker.send_signal(signal.SIGTERM)
        for worker, reader in zip(workers, readers):
            worker.wait()
            reader.join()
        left = sql(place.url, "SELECT count(*) FROM bob_inbox")
        if len(ended) != args.turns or left != "0":
            errors.seek(0)
            sys.exit(f"workers.py: {len(ended)} of {args.turns} turns, {left} messages left: {errors.read()}")
    place.remove()
    return figures(ended, count)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--database", required=True)
    parser.add_argument("--turns", type=int, default=1500)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=3)
    args = parser.parse_args()
    args.program = os.path.abspath(args.program)
    if args.turns < 2 * CONCURRENCY * args.workers:
        sys.exit(f"workers.py: --turns must be at least {2 * CONCURRENCY * args.workers}, with {args.workers} workers")
    cases = {"sqlite": lambda: batch(args, "sqlite"), "postgres": lambda: batch(args, "postgres")}
    for count in range(1, args.workers + 1):
        name = "1 worker" if count == 1 else f"{count} workers"
        cases[name] = lambda count=count: work(args, count)
    measured = {name: [] for name in cases}
    for round_number in range(args.rounds):
        for name, case in cases.items():
            measured[name].append(case())
            rate, p50, p99 = measured[name][-1]
            print(f"round {round_number + 1}, {name}: {rate:.0f} turns/s, p50 {p50} ms, p99 {p99} ms", file=sys.stderr)
    load = os.getloadavg()[0]
    first = statistics.median(rate for rate, _, _ in measured["sqlite"])
    print(f"{args.turns} turns, {args.rounds} rounds, load at the end {load:.1f} on {os.cpu_count()} processors\n")
    print("| case | turns/s (lowest to highest) | to sqlite | p50 | p99 |")
    print("|---|---|---|---|---|")
    for name, rounds in measured.items():
        rates = sorted(rate for rate, _, _ in rounds)
        p50, p99 = (statistics.median(values) for values in list(zip(*rounds))[1:])
        print(
            f"| {name} | {statistics.median(rates):.0f} ({rates[0]:.0f} to {rates[-1]:.0f}) "
            f"| {statistics.median(rates) / first:.2f} | {p50:.0f} ms | {p99:.0f} ms |"
        )


if __name__ == "__main__":
    main()
