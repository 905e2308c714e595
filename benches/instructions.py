#!/usr/bin/env python3
"""Instructions that one turn and one step take, counted by callgrind.

Two runs of different length are compared, so what a start costs falls out, and the
machine may be busy with something else: counts hardly move. Two figures are printed:
a new session with its one turn (its actor is started for it), and a further turn of a
session whose actor is there. Both in one thread, with the scripted model and the
memory store.

With --profile=dist the program is built as it is given to other people.

usage: benches/instructions.py [--profile=PROFILE] [folder for callgrind's files]
needs: valgrind
"""
import argparse
import json
import re
import subprocess
import sys

STEPS = 4
WARMUP = 20


def program(profile):
    """Builds the race; the path of its program."""
    build = ["cargo", "bench", "--profile", profile, "--bench", "race", "--no-run", "--message-format=json"]
    built = subprocess.run(build, stdout=subprocess.PIPE, text=True, check=True)
    messages = [json.loads(line) for line in built.stdout.splitlines() if line.startswith("{")]
    paths = [m.get("executable") for m in messages if m.get("target", {}).get("name") == "race"]
    return next(path for path in paths if path)


def count(race, sessions, turns, folder):
    """Instructions of one whole run."""
    out = f"{folder}/callgrind.out.race.{sessions}x{turns}"
    command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", race, "--mode=load", "--backend=mock",
               "--threads=1", f"--warmup={WARMUP}", f"--n={sessions}", f"--turns={turns}"]
    run = subprocess.run(command, capture_output=True, text=True)
    collected = re.search(r"Collected : (\d+)", run.stderr)
    if run.returncode != 0 or not collected:
        sys.exit(f"the run failed:\n{run.stderr[-2000:]}")
    return int(collected[1])


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--profile", default="bench")
    options.add_argument("folder", nargs="?", default=".")
    given = options.parse_args()
    folder, race = given.folder, program(given.profile)
    short, long, twice = (count(race, *run, folder) for run in [(100, 1), (600, 1), (600, 2)])
    new = (long - short) / 500
    # The first session and those of the warm-up run two turns as well.
    further = (twice - long) / (600 + WARMUP + 1)
    for name, turn in [("new session", new), ("further turn", further)]:
        print(f"{name}: {turn:,.0f} instructions a turn, {turn / STEPS:,.0f} a step", flush=True)


if __name__ == "__main__":
    main()
