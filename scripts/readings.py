#!/usr/bin/env python3
"""Fails when it costs too much to read what others send: an answer of a provider, a line of a tool server, a journal.

8 MiB of anything cost less than a second of a processor, and twice as much of it costs twice as much. Both are counted in
instructions, which a busy machine does not change: a second is taken to be 5 x 10^9 of them, where the machine of the first
counts did 7 to 12 x 10^9. Each shape of benches/counts/src/readings.rs is read at 4 and at 8 MiB by an
optimised program under cachegrind; what a turn of nothing costs is taken off before the two are compared.

With --all also what comes over HTTP or from a tool server (others.rs), whose packages take long to build.

usage: scripts/readings.py [--all] [--program BOB-COUNTS] [WORD ...]     only the shapes whose names have one of the words
exit:  0 all are in bounds, 1 one is not, 2 it could not be counted
"""
import argparse
import concurrent.futures
import os
import re
import shutil
import sys

from growth import build, give_up, run

MIB = 1 << 20
# As much as an answer may have, but for its envelope.
SIZES = [4 * MIB - 2048, 8 * MIB - 4096]
MOST = 5_000_000_000
# What is read twice as long costs so many times as much. Growing buffers are copied, a little more of them or less.
MOST_GROWTH = 2.2
# Below this a shape is refused early, and how often something is copied until then is no growth.
LEAST = 20_000_000
# Under valgrind an instruction that copies a block counts as one for each byte; without it the copies are those of vectors.
TUNABLES = {"GLIBC_TUNABLES": "glibc.cpu.x86_rep_movsb_threshold=0x100000000"}


def count(program, name, size):
    """Instructions of a whole run, and what became of the reading."""
    played = run(["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null",
                  program, f"--reading={name}", f"--bytes={size}"], env={**os.environ, **TUNABLES})
    counted = re.search(r"I +refs: +([\d,]+)", played.stderr)
    if played.returncode != 0 or not counted:
        give_up(f"a run of {name!r} failed:\n{played.stdout[-1000:]}\n{played.stderr[-2000:]}")
    return int(counted[1].replace(",", "")), played.stdout.strip().splitlines()[-1]


def judge(name, nothing, runs):
    """Whether this reading is in bounds; says so."""
    (half, _), (whole, outcome) = runs
    grown = (whole - nothing) / max(half - nothing, 1)
    dear = whole > MOST
    steep = grown > MOST_GROWTH and whole - nothing > LEAST
    verdict = "MORE than a second" if dear else f"GROWS by more than {MOST_GROWTH} times" if steep else "ok"
    print(f"{name}: {whole / 1e6:,.0f} million instructions, {grown:.2f} times those of half of it: {verdict} ({outcome[:90]})", flush=True)
    return not dear and not steep


def main():
    parser = argparse.ArgumentParser(usage="scripts/readings.py [--all] [--program BOB-COUNTS] [WORD ...]")
    parser.add_argument("--all", action="store_true", help="also what comes over HTTP or from a tool server")
    parser.add_argument("--program", help="the program of benches/counts; built if it is not named")
    parser.add_argument("words", nargs="*", metavar="WORD")
    chosen = parser.parse_args()
    if not shutil.which("valgrind"):
        give_up("valgrind is missing (Debian: apt-get install valgrind)")
    program = chosen.program or build(["--features", "others"] if chosen.all else [])
    names = [name for name in run([program, "--readings"]).stdout.splitlines()
             if not chosen.words or any(word in name for word in chosen.words)]
    if not names:
        give_up("no shape has such a name")
    runs, fine = concurrent.futures.ThreadPoolExecutor(os.cpu_count()), True
    try:
        # A shape at no size is what begins and ends it.
        asked = {name: [runs.submit(count, program, name, size) for size in [0, *SIZES]] for name in names}
        for name, (nothing, *counted) in asked.items():
            fine &= judge(name, nothing.result()[0], [one.result() for one in counted])
    finally:
        runs.shutdown(cancel_futures=True)
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
