"""One tree: one transcript, one bill, one trace."""
import atexit
import json
import os
import signal
import subprocess
import threading
import time

from trees.journals import faults, parent_of, results, tokens
from trees.place import CONFIG, ROOT, SESSIONS, RunFolder, load, tree, wait


def receiver():
    """A receiver of telemetry, its port, and what it was sent."""
    script = os.path.join(ROOT, "scripts", "telemetry-receiver.sh")
    process = subprocess.Popen(["sh", script], stdout=subprocess.PIPE, text=True, start_new_session=True)
    first = process.stdout.readline()
    if not first:
        return process, None, []
    spans = []
    threading.Thread(target=lambda: spans.extend(json.loads(line) for line in process.stdout), daemon=True).start()
    return process, json.loads(first)["port"], spans


def whole(args):
    process, port, spans = receiver()
    atexit.register(lambda: process.poll() is None and os.killpg(process.pid, signal.SIGTERM))
    config = CONFIG + (f'\n[telemetry]\notlp_endpoint = "http://127.0.0.1:{port}"\n' if port else "")
    if args.model:
        config = config.replace("[policy]", f"""[providers.small]
kind = "openai"
base_url = "{args.model}"
api_key = "none"
timeout_ms = 1800000
max_concurrent = 1
temperature = 0.0
max_tokens = 48
capabilities = {{ native_tools = true, json_schema = true, system_role = true, context_tokens = 8192 }}

[policy]""")
        config += '\n[[subagents]]\nid = "asked"\ndescription = "Answers."\ninstructions = "Answer in one short sentence."\n'
        config += 'model = "small:smollm2-135m"\nallow_tools = []\nbudget_ratio = 1.0\n'
    rules = tree(0, lambda planner, leaf: ({"text": f"worked {planner} {leaf}"},))
    if args.model:
        words = ["France", "Italy", "Spain", "Japan"]
        for one in rules:
            for called in one["replies"][0].get("calls", []):
                if called["name"] == "agent/leaf":
                    number = int(called["arguments"]["task"].split()[-1].rstrip("."))
                    called["name"], called["arguments"] = "agent/asked", {"task": f"What is the capital of {words[number]}?"}
    folder = RunFolder(args, rules, config)
    began = time.monotonic()
    ran = folder.run("run", "--session", "r", "--output", "json", "go 0.", timeout=1800)
    took = time.monotonic() - began
    outcome, journals = json.loads(ran.stdout), folder.of("r")
    found = faults(journals, "r")
    if outcome["finish_reason"] != "final":
        found.append(f"it ended with {outcome['finish_reason']}")
    bill = outcome["usage"]["total_tokens"] + outcome["delegated"]["usage"]["total_tokens"]
    own = sum(tokens(records) for records in journals.values())
    if bill != own or outcome["delegated"]["sessions"] != SESSIONS - 1:
        found.append(f"the bill has {bill} tokens of {outcome['delegated']['sessions']} children, the journals {own}")
    listed = json.loads(folder.run("sessions", "list", "--children", "--json").stdout)["sessions"]
    if {one["session_id"] for one in listed} != set(journals):
        found.append(f"{len(listed)} sessions are listed, {len(journals)} have a journal")
    # The answer of each child is the result of its call, so the transcript of the root is that of the tree.
    for id, records in journals.items():
        if parent := parent_of(records):
            content = next(record["body"]["content"] for record in records if record["kind"] == "outcome")
            result = next(one for one in results(journals[parent["session"]]) if one["call"] == parent["call"])
            if result["status"] != "ok" or result["output"]["parts"][0].get("text") != content:
                found.append(f"{id}: it said {content!r}, its caller reads {result['output']['parts']}")
    traces = "no receiver of telemetry"
    if not port:
        found.append("there is no receiver of telemetry, so the trace was not looked at")
    if port:
        # A model call of each of the turns, and each turn; the calls of agents too.
        calls = sum(len(results(records)) for records in journals.values())
        answers = sum(record["kind"] == "answered" for records in journals.values() for record in records)
        expected = SESSIONS + calls + answers
        wait(lambda: sum(one["kind"] == "span" for one in spans) >= expected, f"{expected} spans")
        mine = [one for one in spans if one["kind"] == "span"]
        ids = {one["id"] for one in mine}
        lost = [one["name"] for one in mine if one["parent"] and one["parent"] not in ids]
        if len({one["trace"] for one in mine}) != 1 or len(mine) != expected or lost:
            found.append(f"{len(mine)} spans, {expected} expected, {len({one['trace'] for one in mine})} traces, without parent {lost}")
        traces = f"{len(mine)} spans in one trace"
    for fault in found:
        print(fault)
    leaves = "a real model" if args.model else "scripted"
    print(f"{len(journals)} sessions, leaves: {leaves}, {took:.1f} s, bill {bill} tokens, sum of the journals {own}, {traces}, {load()}")
    if args.model:
        print("an answer:", next(r["body"]["content"] for i, rs in journals.items() if i.count(".") == 2 for r in rs if r["kind"] == "outcome"))
    print(f"{len(found)} wrong")
    folder.remove()
    return not found
