"""Many parents with children at once."""
import json
import os
import time

from trees.place import CONFIG, WIDE, RunFolder, call, quantile, rule


def crowd(args):
    """`--times` parents with four children each; a model call takes a second, so a parent takes three at best.
    The slowest of a hundred takes less than half as long again as the middle one."""
    right = True
    print(f"{args.times} parents with {WIDE} children each, a model call takes 1 s: a parent takes 3 s at best\n")
    print("| store | turns at a time | ideal | wall | a parent: p50 | p99 | most | calls of agents that failed | load |\n|---|---|---|---|---|---|---|---|---|")
    for kind in ("memory", "sqlite"):
        for places in (1024, 64):
            calls = [call("agent/leaf", task=f"leaf {number}") for number in range(WIDE)]
            rules = [rule("leaf", {"text": "worked"}, delay_ms=1000), rule("go", {"calls": calls}, {"text": "done"}, delay_ms=1000)]
            store = 'kind = "memory"\n' if kind == "memory" else 'kind = "sqlite"\npath = "sessions.db"\n'
            config = CONFIG.replace('kind = "sqlite"\npath = "sessions.db"\n', store)
            config = config.replace("max_concurrent_turns = 1024", f"max_concurrent_turns = {places}")
            folder = RunFolder(args, rules, config)
            folder.write("lines.jsonl", "".join(json.dumps({"session": f"s{n}", "prompt": "go"}) + "\n" for n in range(args.times)))
            began = time.monotonic()
            ran = folder.run("batch", "--quiet", "--concurrency", str(places), "lines.jsonl", timeout=600)
            wall = time.monotonic() - began
            lines = [json.loads(line) for line in ran.stdout.splitlines()]
            took = [line["duration_ms"] / 1000 for line in lines]
            failed = sum(one["status"] != "ok" for line in lines for one in line["tool_transcript"])
            ideal = -(-args.times // places) * 3
            right &= ran.returncode == 0 and len(lines) == args.times and failed == 0
            right &= all(line["delegated"]["sessions"] == WIDE for line in lines)
            right &= quantile(took, 0.99) < 1.5 * quantile(took, 0.5)
            figures = f"{quantile(took, 0.5):.2f} s | {quantile(took, 0.99):.2f} s | {max(took):.2f} s"
            print(f"| {kind} | {places} | {ideal} s | {wall:.1f} s | {figures} | {failed} | {os.getloadavg()[0]:.1f} |", flush=True)
            folder.remove()
    return right
