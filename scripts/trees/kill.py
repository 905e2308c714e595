"""`kill -9` at random instants of a tree."""
import collections
import json
import random
import signal
import subprocess
import time

from trees.journals import faults, results
from trees.place import RunFolder, load, rule, shell, tree


def kill(args):
    draw, wrong, whole, seen, number = random.Random(args.seed), 0, None, collections.Counter(), 0
    folder = RunFolder(args, [])
    while seen["killed"] < args.times:
        root = f"r{number}"
        leaf = lambda planner, leaf: (shell(f"echo {number}.{planner}.{leaf} >> effects"), {"text": "worked"})
        folder.write("script.json", json.dumps([*tree(number, leaf, delay=15), rule("after.", {"text": "yes"})]))
        process = folder.start("run", "--session", root, f"go {number}.", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        began = time.monotonic()
        try:
            # The first one is not killed: it tells how long a tree takes.
            process.wait(None if whole is None else draw.uniform(0, whole))
            whole = min(whole or 60, time.monotonic() - began)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            seen["killed"] += 1
            before = folder.of(root)
            is_over = any(record["kind"] == "outcome" for record in before.get(root, []))
            seen["before the journal had it" if not before else "when it was over" if is_over else "while it ran"] += 1
        again = folder.run("run", "--finish", "--session", root, "after.", timeout=120)
        journals = folder.of(root)
        found = faults(journals, root, whole=False)
        if again.returncode != 0:
            found.append(f"run --finish ended with {again.returncode}: {again.stderr[-300:]}")
        ended = collections.Counter(
            result["status"] for records in journals.values() for result in results(records) if result["name"] == "local/shell_exec"
        )
        effects = folder.effects(number)
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
    folder.remove()
    return wrong == 0
