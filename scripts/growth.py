#!/usr/bin/env python3
"""Fails when a recorded turn costs more than 3 % more than it did: in what models are asked (all together, and in each
scripted scene), or in instructions.

What models are asked is counted exactly, from the journals of the fixtures: the bytes of every prompt (a token is about
four). It changes only when fixtures are recorded anew, which a changed prompt makes necessary.

Instructions are counted by callgrind while the fixtures without a clock are replayed once and three times, so that what
a start costs falls out; what the tape itself costs is taken off. They depend on the compiler, so they are judged by the
toolchain that the baseline names, and only shown by another one. They hardly depend on the machine.

usage: scripts/growth.sh [--accept] [--without-instructions] [--program TESTS]
exit:  0 no growth, 1 growth, or fixtures that the baseline does not know, 2 it could not be counted
"""
import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FIXTURES = os.path.join(ROOT, "tests", "fixtures", "tapes")
BASELINE = os.path.join(ROOT, "tests", "fixtures", "growth.json")
MOST = 1.03
AGAIN = 2
# What looks things up on a tape, and would hide what a turn costs.
OF_THE_TAPE = ("bob_actors::tape::replay::Tape::asked", "bob_actors::tape::replay::Tape::called")


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
    return f"{rustc}, {platform.machine()}, dev profile"


def workload():
    """The test program that replays; built already where the tests have run."""
    build = ["cargo", "test", "--workspace", "--all-features", "--no-run", "--message-format=json"]
    built = run(build)
    if built.returncode != 0:
        give_up(f"the tests do not build:\n{built.stderr[-2000:]}")
    messages = [json.loads(line) for line in built.stdout.splitlines() if line.startswith("{")]
    paths = [m.get("executable") for m in messages if m.get("target", {}).get("name") == "tapes"]
    return next((path for path in paths if path), None) or give_up("cargo names no program of tests/tapes.rs")


def count(program, repeats, folder):
    """Instructions and turns of one run, without those of the tape."""
    out = os.path.join(folder, f"callgrind.{repeats}")
    command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", program, "--exact", "--nocapture",
               "--test-threads=1", "fixtures::the_recorded_turns_are_a_workload"]
    environment = dict(os.environ, BOB_GROWTH_REPEATS=str(repeats))
    played = run(command, env=environment)
    collected, turns = re.search(r"Collected : (\d+)", played.stderr), re.search(r"turns: (\d+)", played.stdout)
    if played.returncode != 0 or not collected or not turns:
        give_up(f"the workload failed:\n{played.stdout[-1000:]}\n{played.stderr[-2000:]}")
    annotate = ["callgrind_annotate", "--inclusive=yes", "--threshold=100", out]
    listed = run(annotate).stdout
    tape = 0
    for function in OF_THE_TAPE:
        found = [line for line in listed.splitlines() if f":{function}" in line and "closure" not in line]
        if not found:
            give_up(f"callgrind does not know {function}: has it another name now?")
        tape += max(int(line.split()[0].replace(",", "")) for line in found)
    return int(collected[1]) - tape, int(turns[1])


def instructions(program):
    """Instructions of one turn."""
    if not shutil.which("valgrind"):
        give_up("valgrind is missing (Debian: apt-get install valgrind); --without-instructions leaves them out")
    program = program or workload()
    with tempfile.TemporaryDirectory() as folder:
        (once, turns), (thrice, more) = (count(program, repeats, folder) for repeats in (1, 3))
    return {"toolchain": toolchain(), "turns": turns, "per_turn": round((thrice - once) / (more - turns))}


def judge(what, before, now):
    grown = now / before if before else 1.0
    verdict = "GROWN by more than 3 %" if grown > MOST else "ok"
    print(f"{what}: {now:,.0f} a turn, {100 * (grown - 1):+.2f} % on {before:,.0f}: {verdict}")
    return grown <= MOST


def main():
    parser = argparse.ArgumentParser(usage="scripts/growth.sh [--accept] [--without-instructions] [--program TESTS]")
    parser.add_argument("--accept", action="store_true", help="what is counted now is the baseline from now on")
    parser.add_argument("--without-instructions", action="store_true", help="count only what models are asked")
    parser.add_argument("--program", help="the built program of tests/tapes.rs; built as the whole workspace's if it is not named")
    chosen = parser.parse_args()
    now = {"prompts": prompts()}
    if not chosen.without_instructions:
        now["instructions"] = instructions(chosen.program)
    before = {}
    if os.path.exists(BASELINE):
        with open(BASELINE, encoding="utf-8") as file:
            before = json.load(file)
    if chosen.accept:
        with open(BASELINE, "w", encoding="utf-8") as file:
            json.dump({**before, **now}, file, indent=1)
            file.write("\n")
        print(f"accepted: {os.path.relpath(BASELINE, ROOT)}")
        return 0
    if not before:
        give_up("there is no baseline; make one with --accept")
    both = [name for name in now["prompts"] if name in before["prompts"]]
    strange = sorted(set(now["prompts"]) ^ set(before["prompts"]))
    for name in strange:
        print(f"{name} is not in both, and cannot be compared; --accept takes the fixtures as they are")
    per_turn = lambda side: sum(side[name]["prompt_bytes"] for name in both) / max(1, sum(side[name]["turns"] for name in both))
    fine = judge("prompt bytes", per_turn(before["prompts"]), per_turn(now["prompts"])) and not strange
    for name in both:
        one, other = before["prompts"][name], now["prompts"][name]
        if one != other:
            # What a real model says is its own affair; a scripted one says the same until something is changed.
            grown = not name.startswith("real") and other["prompt_bytes"] > MOST * one["prompt_bytes"]
            fine &= not grown
            print(f"  {name}: {one['prompt_bytes']} -> {other['prompt_bytes']} bytes, {one['steps']} -> {other['steps']} steps"
                  + (": GROWN by more than 3 %" if grown else ""))
    if "instructions" in now and "instructions" in before:
        if now["instructions"]["toolchain"] != before["instructions"]["toolchain"]:
            print(f"instructions: {now['instructions']['per_turn']:,} a turn with {now['instructions']['toolchain']}; the baseline "
                  f"is of {before['instructions']['toolchain']}, so they are not judged: --accept makes one for this toolchain")
        else:
            # A busy machine adds a little, since clocks run on while it waits: growth is what stays when it is counted again.
            baseline, least = before["instructions"]["per_turn"], now["instructions"]["per_turn"]
            for _ in range(AGAIN):
                if least > MOST * baseline:
                    least = min(least, instructions(chosen.program)["per_turn"])
            fine &= judge("instructions", baseline, least)
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
