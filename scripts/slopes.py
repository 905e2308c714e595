#!/usr/bin/env python3
"""Prints how the cost of a turn grows with what there is: instructions, counted by callgrind, in one table.

Each figure is the difference of two runs of `benches/counts`, so that what a start costs falls out. The slope is the
exponent between two neighbouring sizes: 0 is constant, 1 is linear.

usage: scripts/slopes.py [--program BOB-COUNTS] [--only WORD]
needs: valgrind
"""
import argparse
import concurrent.futures
import math
import os

import growth


def messages(size):
    """A turn without calls leaves two messages."""
    return ["--sessions=1", "--calls=0", "--words=1", "--history=10000000"], [f"--turns={size // 2}"], [f"--turns={size // 2 + 50}"], 50


def activations(size):
    long = size // 2 + 12
    return ["--sessions=1", "--calls=0", "--words=1", f"--rest-from={size // 2}"], [f"--turns={size // 2 + 2}"], [f"--turns={long}"], 10


def tools(size):
    return ["--sessions=1", "--words=1", f"--tools={size}"], ["--turns=5"], ["--turns=25"], 20


def results(size):
    return ["--turns=1", "--words=1", f"--bytes={size}"], ["--sessions=4"], ["--sessions=12"], 8


def readers(size):
    return ["--sessions=1", "--turns=1", "--calls=0", f"--readers={size}"], ["--words=20"], ["--words=120"], 100


def stored(size):
    return ["--sessions=1", "--turns=1", "--words=1", f"--stored={size}"], ["--lists=1"], ["--lists=11"], 10


ROWS = [
    ("a turn behind so many messages, all of them sent", messages, [10, 100, 1_000, 10_000]),
    ("a turn of a session of so many messages that had left memory, 50 sent", activations, [10, 100, 1_000, 10_000]),
    ("a turn with so many further tools on offer", tools, [10, 100, 500]),
    ("a turn with three results of so many bytes", results, [1 << 10, 1 << 15, 1 << 20]),
    ("a piece of an answer for so many readers", readers, [1, 10, 100, 1_000]),
    ("the newest 100 of so many stored sessions", stored, [1_000, 10_000, 100_000]),
]


def main():
    parser = argparse.ArgumentParser(usage="scripts/slopes.py [--program BOB-COUNTS] [--only WORD]")
    parser.add_argument("--program", help="the program of benches/counts; built if it is not named")
    parser.add_argument("--only", default="", help="only rows with this word in their name")
    chosen = parser.parse_args()
    program = chosen.program or growth.build()
    rows = [row for row in ROWS if chosen.only in row[0]]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        run = lambda arguments: pool.submit(growth.count, program, arguments)
        started = []
        for name, arguments_of, sizes in rows:
            for size in sizes:
                same, short, long, times = arguments_of(size)
                started.append((name, size, run([*same, *short]), run([*same, *long]), times))
        print("| | size | instructions | slope |\n|---|---|---|---|")
        before = {}
        for name, size, short, long, times in started:
            cost = (long.result()[0] - short.result()[0]) / times
            smaller = before.get(name)
            slope = f"{math.log(cost / smaller[1]) / math.log(size / smaller[0]):.2f}" if smaller else ""
            before[name] = (size, cost)
            print(f"| {name if not smaller else ''} | {size:,} | {cost:,.0f} | {slope} |", flush=True)


if __name__ == "__main__":
    main()
