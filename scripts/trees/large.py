"""Large results beside small turns."""
import json
import os
import sys

from trees.place import CONFIG, RunFolder, call, quantile, rule

# How much longer turns may take beside large results: what else runs on the machine is in both figures.
MOST = 2.0

SERVER = """
import json, sys
size = 60 << 20
line = "0123456789abcde\\n"
text = line * (size // len(line) // 2) + "the heron stands here\\n" + line * (size // len(line) // 2)
large = json.dumps(text)
for message in sys.stdin:
    message = json.loads(message)
    if "id" not in message:
        continue
    if message["method"] == "initialize":
        result = json.dumps({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "large", "version": "1"}})
    elif message["method"] == "tools/list":
        result = json.dumps({"tools": [{"name": "make", "description": "Makes much.", "inputSchema": {"type": "object"},
                                        "annotations": {"readOnlyHint": True}}]})
    elif message["method"] == "tools/call":
        result = '{"content": [{"type": "text", "text": ' + large + '}]}'
    else:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "no"}}), flush=True)
        continue
    print('{"jsonrpc": "2.0", "id": ' + json.dumps(message["id"]) + ', "result": ' + result + "}", flush=True)
"""


def large(args):
    config = CONFIG.replace('["local/*", "agent/*"]', '["local/*", "mcp/large/*"]').replace("[store]", f"""[[mcp.servers]]
id = "large"
transport = "stdio"
command = "{sys.executable}"
args = ["server.py"]
start = "eager"
tool_timeout_ms = 600000

[store]""")
    middle = (60 << 20) // 2
    begin = [rule("make", {"calls": [call("mcp/large/make")]}, {"text": "made"}), rule("small", {"text": "yes"}, delay_ms=20)]
    right, ratios = True, []
    print("| round | without: p50 | p99 | with: p50 | p99 | ratio of p99 | large results | load |\n|---|---|---|---|---|---|---|---|")
    for round in range(args.times):
        figures, made = {}, 0
        for what in ("without", "with"):
            folder = RunFolder(args, begin, config)
            folder.write("server.py", SERVER)
            lines = [{"session": f"s{n % 40}", "prompt": "small"} for n in range(4000)]
            if what == "with":
                # Spread over the whole batch.
                for at in range(6):
                    lines.insert(at * 600, {"session": "big", "prompt": "make"})
            folder.write("lines.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
            ran = folder.run("batch", "--quiet", "--concurrency", "16", "lines.jsonl", timeout=600)
            ended = [json.loads(line) for line in ran.stdout.splitlines()]
            right &= ran.returncode == 0
            figures[what] = [line["duration_ms"] for line in ended if line["session_id"] != "big"]
            if what == "with":
                # Six were asked for.
                made = sum(len(line["tool_transcript"]) for line in ended if line["session_id"] == "big")
                right &= made == 6
                listed = json.loads(folder.run("artifacts", "list", "big", "--json").stdout)
                artifact = listed["artifacts"][0]
                reads = {"calls": [call("local/read_artifact", id=artifact["id"], offset=middle - 64, length=200)]}
                folder.write("script.json", json.dumps([rule("read", reads, {"text": "read"})]))
                read = json.loads(folder.run("run", "--session", "big", "--output", "json", "read").stdout)
                if "the heron stands here" not in read["tool_transcript"][0]["result"]:
                    right = False
                    print("the middle was not read:", read["tool_transcript"])
            folder.remove()
        without, among = figures["without"], figures["with"]
        ratios.append(quantile(among, 0.99) / quantile(without, 0.99))
        print(
            f"| {round + 1} | {quantile(without, 0.5)} ms | {quantile(without, 0.99)} ms | {quantile(among, 0.5)} ms | {quantile(among, 0.99)} ms "
            f"| {ratios[-1]:.2f} | {made} of {artifact['bytes'] >> 20} MiB | {os.getloadavg()[0]:.1f} |", flush=True,
        )
    right &= quantile(ratios, 0.5) < MOST
    print(f"\nratio: median {quantile(ratios, 0.5):.2f}; less than {MOST} is right; {'right' if right else 'WRONG'}")
    return right
