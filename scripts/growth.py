#!/usr/bin/env python3
"""Fails when a turn costs more than it did: in what models are asked, in instructions, or in allocations.

What models are asked is counted exactly, from the journals of the fixtures: the bytes of every prompt (a token is about
four), all together and in each scripted scene; 3 % more is too much. It changes only when fixtures are recorded anew,
which a changed prompt makes necessary.

Instructions and calls of the allocator are counted by callgrind, in an optimised program that runs turns without HTTP,
tool servers and SQLite (benches/counts). Each figure is the difference of two runs of different length, so that what a
start costs falls out. 2 % more is too much; 2 % less is told, so that the baseline follows. Instructions depend on the
compiler and on the C library, so they are judged by the toolchain that the baseline names, and only shown by another
one; allocations are always judged.

The P95 of a turn under the load of benches/counts/src/profile.rs is judged as a ratio to that of a plain loop with the
same calls, in rounds of both. One round that keeps the ratio is enough, since what a turn waits for is in all of them;
when none does on a machine that was busy with other things, nothing is judged, and that is said.

usage: scripts/growth.sh [--accept] [--without-counts] [--program BOB-COUNTS]
exit:  0 no growth, 1 growth, or fixtures that the baseline does not know, 2 it could not be counted
"""
import argparse
import concurrent.futures
import json
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FIXTURES = os.path.join(ROOT, "tests", "fixtures", "tapes")
BASELINE = os.path.join(ROOT, "tests", "fixtures", "growth.json")
MOST_PROMPT = 1.03
MOST = 1.02
AGAIN = 2
# The runs, by name: sessions, turns of each, words of the answer, and whether it is read and the session then rests.
RUNS = {
    "few": ["--sessions=100", "--turns=1", "--words=1"],
    "many": ["--sessions=400", "--turns=1", "--words=1"],
    "further": ["--sessions=100", "--turns=4", "--words=1"],
    "rested": ["--sessions=100", "--turns=1", "--words=1", "--rest"],
    "taken up": ["--sessions=100", "--turns=4", "--words=1", "--rest"],
    "long": ["--sessions=3", "--turns=150", "--words=1"],
    "longer": ["--sessions=3", "--turns=250", "--words=1"],
    "pieces": ["--sessions=50", "--turns=1", "--words=20", "--read"],
    "more pieces": ["--sessions=50", "--turns=1", "--words=520", "--read"],
}
# What is judged: the shorter and the longer run, how often the longer does more of it, and of what.
COUNTED = {
    "a step of a new session": ("few", "many", 300 * 4),
    "a step of a further turn": ("few", "further", 300 * 4),
    "a turn of a session that had left memory": ("rested", "taken up", 300),
    "a step behind 150 turns of history": ("long", "longer", 3 * 100 * 4),
    "a piece of an answer that is read as it comes": ("pieces", "more pieces", 50 * 500),
}
# The P95 of a turn is at most so many times that of a loop with the same calls, in one of so many rounds. A round is one of a
# busy machine if a thread that sleeps was late for so large a part of it.
MOST_P95 = 1.25
ROUNDS = 6
BUSY = 0.05
ALLOCATORS = {"malloc", "calloc", "realloc", "posix_memalign", "aligned_alloc", "memalign"}


def give_up(text):
    print(f"growth: {text}", file=sys.stderr)
    sys.exit(2)


def prompts():
    """Bytes and turns of each journal, by its name."""
    counted = {}
    for folder, inner, names in os.walk(FIXTURES):
        # Journals of older programs are not recorded anew.
        inner[:] = [name for name in inner if name != "older"]
        for name in names:
            if not name.endswith(".journal"):
                continue
            path = os.path.join(folder, name)
            counted[os.path.relpath(path, FIXTURES)] = journal(path)
    if not counted:
        give_up(f"there are no journals in {FIXTURES}")
    return dict(sorted(counted.items()))


def journal(path):
    bytes_, steps, turns = 0, 0, 0
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            record = json.loads(line)
            cost = record["body"].get("cost") if isinstance(record["body"], dict) else None
            if cost:
                bytes_, steps = bytes_ + cost["prompt_bytes"], steps + 1
            turns += record["kind"] == "outcome"
    return {"turns": turns, "steps": steps, "prompt_bytes": bytes_}


def run(command, **options):
    """What a program said; without it nothing can be counted."""
    try:
        return subprocess.run(command, text=True, cwd=ROOT, check=False, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
    except OSError as error:
        give_up(f"{command[0]} does not start: {error}")


def toolchain():
    rustc = run(["rustc", "--version"]).stdout.strip()
    return f"{rustc}, {platform.machine()}, {' '.join(platform.libc_ver())}, {run(['valgrind', '--version']).stdout.strip()}"


def build(features=()):
    """The program that is counted."""
    # Alone, so that no other package of the workspace gives its dependencies features.
    built = run(["cargo", "build", "--release", "--package", "bob-counts", *features, "--message-format=json"])
    if built.returncode != 0:
        give_up(f"the program that is counted does not build:\n{built.stderr[-2000:]}")
    messages = [json.loads(line) for line in built.stdout.splitlines() if line.startswith("{")]
    paths = [m.get("executable") for m in messages if m.get("target", {}).get("name") == "bob-counts"]
    return next((path for path in paths if path), None) or give_up("cargo names no program bob-counts")


def count(program, arguments):
    """Instructions and calls of the allocator of one whole run."""
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "callgrind")
        played = run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", program, *arguments])
        collected = re.search(r"Collected : (\d+)", played.stderr)
        if played.returncode != 0 or not collected:
            give_up(f"a run failed:\n{played.stdout[-1000:]}\n{played.stderr[-2000:]}")
        return int(collected[1]), allocations(out)


def allocations(path):
    """How often the allocator is called, from a file of callgrind's, but not by itself."""
    names, caller, called, calls = {}, "", "", 0

    def name(text):
        # A name is written out once, behind a number; later there is only the number.
        number, _, written = text.strip().partition(" ")
        return names.setdefault(number, written.split("'")[0])

    with open(path, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if line.startswith("fn="):
                caller = name(line[3:])
            elif line.startswith("cfn="):
                called = name(line[4:])
            elif line.startswith("calls=") and called in ALLOCATORS and caller not in ALLOCATORS:
                calls += int(line[6:].split()[0])
    return calls


def counts(program, of=COUNTED):
    """Instructions and allocations of each of these, by its name."""
    needed = sorted({name for one in of for name in COUNTED[one][:2]})
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as runs:
        done = dict(zip(needed, runs.map(lambda name: count(program, RUNS[name]), needed)))
    found = {}
    for one in of:
        short, long, times = COUNTED[one]
        both = [(more - less) / times for less, more in zip(done[short], done[long])]
        found[one] = {"instructions": round(both[0]), "allocations": round(both[1], 2)}
    return found


def median(several):
    """Of counts that were made several times, the middle ones."""
    return {one: {what: statistics.median(found[one][what] for found in several) for what in several[0][one]} for one in several[0]}


def judge(what, before, now, most):
    """Whether this did not grow; says so, and that it fell."""
    change = now / before if before else 1.0
    verdict = f"GROWN by more than {100 * (most - 1):.0f} %" if change > most else "ok"
    if change < 2 - most:
        verdict = f"fell by more than {100 * (most - 1):.0f} %: --accept keeps it that way"
    print(f"{what}: {now:,.10g}, {100 * (change - 1):+.2f} % on {before:,.10g}: {verdict}")
    return change <= most


def judge_prompts(before, now):
    both = [name for name in now if name in before]
    strange = sorted(set(now) ^ set(before))
    for name in strange:
        print(f"{name} is not in both, and cannot be compared; --accept takes the fixtures as they are")
    per_turn = lambda side: round(sum(side[name]["prompt_bytes"] for name in both) / max(1, sum(side[name]["turns"] for name in both)), 1)
    fine = judge("prompt bytes a turn", per_turn(before), per_turn(now), MOST_PROMPT) and not strange
    for name in both:
        one, other = before[name], now[name]
        if one != other:
            # What a real model says is its own affair; a scripted one says the same until something is changed.
            grown = not name.startswith("real") and other["prompt_bytes"] > MOST_PROMPT * one["prompt_bytes"]
            fine &= not grown
            print(f"  {name}: {one['prompt_bytes']} -> {other['prompt_bytes']} bytes, {one['steps']} -> {other['steps']} steps"
                  + (": GROWN by more than 3 %" if grown else ""))
    return fine


def judge_counts(before, now, again):
    """`again` counts some once more. A busy machine adds a little: growth is what stays when it is counted again."""
    known = before["instructions"].get(toolchain())
    limits = {(one, "allocations"): limit for one, limit in before["allocations"].items()}
    if known:
        limits.update({(one, "instructions"): limit for one, limit in known.items()})
    for _ in range(AGAIN):
        grown = sorted({one for (one, what), limit in limits.items() if now[one][what] > MOST * limit})
        for one, recounted in (again(grown) if grown else {}).items():
            now[one] = {what: min(now[one][what], recounted[what]) for what in recounted}
    fine = True
    for one, found in now.items():
        for what, value in found.items():
            if (one, what) in limits:
                fine &= judge(f"{what} of {one}", limits[one, what], value, MOST)
            else:
                print(f"{what} of {one}: {value:,.10g}: not judged")
    if not known:
        print(f"the baseline has no instructions of {toolchain()}; --accept adds them")
    return fine


def judge_p95(program):
    """Whether a turn takes no longer under load than it may, beside a loop."""
    played = run([program, f"--profile={ROUNDS}"])
    if played.returncode != 0:
        give_up(f"the load did not run:\n{played.stdout[-1000:]}\n{played.stderr[-2000:]}")
    rounds = [json.loads(line) for line in played.stdout.splitlines()]
    best = min(rounds, key=lambda one: one["ratio"])
    is_busy = best["ratio"] > MOST_P95 and statistics.median(one["late"] for one in rounds) > BUSY
    verdict = "ok" if best["ratio"] <= MOST_P95 else "not judged: busy" if is_busy else f"MORE than {MOST_P95} times in each of {ROUNDS} rounds"
    print(f"P95 of a turn under load: {best['bob_p95_ms']:.1f} ms, {best['ratio']:.3f} times the {best['loop_p95_ms']:.1f} ms of a loop "
          f"(rounds: {', '.join(format(one['ratio'], '.3f') for one in rounds)}): {verdict}")
    return best["ratio"] <= MOST_P95 or is_busy


def main():
    parser = argparse.ArgumentParser(usage="scripts/growth.sh [--accept] [--without-counts] [--program BOB-COUNTS]")
    parser.add_argument("--accept", action="store_true", help="what is counted now is the baseline from now on")
    parser.add_argument("--without-counts", action="store_true", help="count only what models are asked")
    parser.add_argument("--program", help="the program of benches/counts; built if it is not named")
    chosen = parser.parse_args()
    asked, counted, program = prompts(), None, chosen.program
    if not chosen.without_counts:
        if not shutil.which("valgrind"):
            give_up("valgrind is missing (Debian: apt-get install valgrind); --without-counts does without it")
        program = program or build()
        counted = counts(program)
    before = {"prompts": {}, "allocations": {}, "instructions": {}}
    if os.path.exists(BASELINE):
        with open(BASELINE, encoding="utf-8") as file:
            before.update(json.load(file))
    elif not chosen.accept:
        give_up("there is no baseline; make one with --accept")
    if chosen.accept:
        before["prompts"] = asked
        if counted:
            counted = median([counted, *(counts(program) for _ in range(AGAIN))])
            of = lambda what: {one: found[what] for one, found in counted.items()}
            before["allocations"] = of("allocations")
            before["instructions"][toolchain()] = of("instructions")
        with open(BASELINE, "w", encoding="utf-8") as file:
            json.dump(before, file, indent=1)
            file.write("\n")
        print(f"accepted: {os.path.relpath(BASELINE, ROOT)}")
        return 0
    fine = judge_prompts(before["prompts"], asked)
    if counted:
        fine &= judge_counts(before, counted, lambda of: counts(program, of))
        fine &= judge_p95(program)
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
