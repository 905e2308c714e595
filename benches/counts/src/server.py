"""A tool server with one tool, which answers with a line of so many bytes; usage: server.py SHAPE BYTES"""
import json
import sys

SHAPE, BYTES = sys.argv[1], int(sys.argv[2])
TEXT = '{"type":"text","text":"%s"}'
RESULTS = {
    "text": lambda: '{"content":[%s]}' % (TEXT % ("x" * BYTES)),
    "parts": lambda: '{"content":[%s]}' % ",".join([TEXT % "x"] * (BYTES // 27)),
    "brackets": lambda: '{"content":[%s],"a":%s}' % (TEXT % "x", "[" * (BYTES // 2 + 1) + "]" * (BYTES // 2 + 1)),
    "structure": lambda: '{"content":[%s],"structuredContent":{"a":[%s0]}}' % (TEXT % "x", "[]," * (BYTES // 3)),
}


def result(method):
    if method == "initialize":
        return json.dumps({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}})
    if method == "tools/list":
        hints = {"readOnlyHint": True}
        return json.dumps({"tools": [{"name": "get", "inputSchema": {"type": "object"}, "annotations": hints}]})
    return RESULTS[SHAPE]() if method == "tools/call" else "{}"


for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked and "method" in asked:
        sys.stdout.write('{"jsonrpc":"2.0","id":%s,"result":%s}\n' % (json.dumps(asked["id"]), result(asked["method"])))
        sys.stdout.flush()
