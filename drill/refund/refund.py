#!/usr/bin/env python3
"""The refund test: an agent is killed at every boundary of a turn that pays money back, and what became of the money is counted.

    drill/refund/refund.py --adapter bob --adapter langgraph

For each adapter, each boundary and each repetition: a new folder, a new ledger, one turn ("Refund order 7."), SIGKILL to the whole
process group at the boundary, and then the adapter's way to go on after a crash. docs/refund.md has the figures, and how to add a
framework. The exit code is 1 when Bob lost or doubled a refund, or said nothing about one.
"""

import argparse
import collections
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time

from adapter import Adapter, names
from shop import BOUNDARIES, DONE, NOT_KNOWN, Shop

# The kill behind an answer hits so many milliseconds after its last byte, another delay in each repetition: within them a
# framework writes down what it was answered.
DELAYS_MS = [0, 2, 5, 10, 20]
# A framework that has neither answered nor given up by then hangs.
WITHIN_S = 60
# How often a turn is resumed that does not say what became of it.
RESUMES = 3

RIGHT, LOST, DOUBLED, UNKNOWN, SILENT = VERDICTS = ["right", "lost", "doubled", "unknown", "silent"]


def kill(process):
    """Ends a process and its whole group, unless it has ended: its number may then be another's."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


class Turn:
    """One turn that is killed at one boundary, and everything that follows."""

    def __init__(self, adapter, folder, boundary, delay_ms, keyed):
        self.adapter, self.folder, self.boundary, self.delay_ms = adapter, folder, boundary, delay_ms
        self.process, self.started = None, threading.Event()
        self.is_hit = False
        self.runs = 0
        self.shop = Shop(folder / "ledger", keyed, self.reached)

    def reached(self, boundary):
        """Kills the framework when this is its boundary, the first time it is passed."""
        if boundary != self.boundary or self.is_hit:
            return False
        self.is_hit = True
        self.started.wait()
        process = self.process
        if boundary.endswith("answered"):
            time.sleep(self.delay_ms / 1_000)
        kill(process)
        return True

    def run(self, command):
        """Runs a command of the adapter to its end; returns what it said if it ended well."""
        self.runs += 1
        said = self.folder / f"said-{self.runs}"
        folder = str(self.folder)
        environment = {**os.environ, "REFUND_URL": self.shop.url, "REFUND_FOLDER": folder, "XDG_STATE_HOME": folder}
        with said.open("w") as out, said.with_suffix(".err").open("w") as err:
            self.process = subprocess.Popen(
                self.adapter.command(command),
                cwd=self.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
            self.started.set()
            try:
                self.process.wait(WITHIN_S)
            except subprocess.TimeoutExpired:
                kill(self.process)
        return said.read_text() if self.process.returncode == 0 else ""

    def judge(self):
        """Runs the turn, resumes it, and says what became of the refund."""
        said = self.run("start")
        while not (DONE in said or NOT_KNOWN in said) and self.runs <= RESUMES:
            said = self.run("resume")
        self.shop.close()
        if not self.is_hit:
            raise SystemExit(f"{self.adapter.name} did not pass “{self.boundary}”:\n{self.evidence()}")
        refunds = self.shop.refunds()
        if refunds > 1:
            return DOUBLED
        if NOT_KNOWN in said:
            return UNKNOWN
        if refunds == 0:
            return LOST
        return RIGHT if DONE in said else SILENT

    def evidence(self):
        """The end of what each run said."""
        return "\n".join(f"-- {file.name}\n{file.read_text()[-2_000:]}" for file in sorted(self.folder.glob("said-*")))


def row(adapter, boundary, arguments):
    """All repetitions of one boundary."""
    counts = collections.Counter()
    for repetition in range(arguments.times):
        with tempfile.TemporaryDirectory(prefix="refund-") as folder:
            delay_ms = DELAYS_MS[repetition % len(DELAYS_MS)]
            turn = Turn(adapter, pathlib.Path(folder).resolve(), boundary, delay_ms, arguments.keyed)
            verdict = turn.judge()
            counts[verdict] += 1
            if arguments.evidence and verdict in arguments.evidence:
                print(f"{adapter.name}, {boundary}, {delay_ms} ms: {verdict}\n{turn.evidence()}", file=sys.stderr)
    return {"boundary": boundary, "runs": arguments.times, **{verdict: counts[verdict] for verdict in VERDICTS}}


def line(cells):
    return f"{cells[0]:<18}" + "".join(f"{cell:>9}" for cell in cells[1:])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--adapter", action="append", choices=names(), help="may be repeated [default: bob]")
    parser.add_argument("--boundary", action="append", choices=BOUNDARIES, help="may be repeated [default: all]")
    parser.add_argument("--times", type=int, default=len(DELAYS_MS), help="repetitions of each boundary [default: 5]")
    parser.add_argument("--keyed", action="store_true", help="the order service takes idempotency keys")
    parser.add_argument("--json", action="store_true", help="one JSON object an adapter, a line each")
    parser.add_argument("--evidence", action="append", choices=VERDICTS, help="print what was said in runs with this verdict")
    parser.add_argument("--agent", default="target/debug/cli-agent", help="Bob [default: %(default)s]")
    arguments = parser.parse_args()
    has_failed = False
    for name in arguments.adapter or ["bob"]:
        adapter = Adapter(name, os.path.abspath(arguments.agent))
        adapter.install()
        version = adapter.version()
        if not arguments.json:
            print(f"\n{name}: {version}\n" + line(["boundary", "runs", *VERDICTS]))
        rows = []
        for boundary in arguments.boundary or BOUNDARIES:
            rows.append(row(adapter, boundary, arguments))
            if not arguments.json:
                print(line(list(rows[-1].values())), flush=True)
        total = {"boundary": "all", **{key: sum(each[key] for each in rows) for key in ["runs", *VERDICTS]}}
        if arguments.json:
            print(json.dumps({"adapter": name, "version": version, "keyed": arguments.keyed, "rows": rows, "total": total}))
        else:
            print(line(list(total.values())))
        has_failed |= name == "bob" and (total[LOST] + total[DOUBLED] + total[SILENT] > 0)
    sys.exit(1 if has_failed else 0)


if __name__ == "__main__":
    main()
