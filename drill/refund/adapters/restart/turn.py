"""No framework: a loop that keeps nothing and is started again after a crash. What the test must find, and a pattern for adapters."""

import json
import os
import urllib.request

URL = os.environ["REFUND_URL"]


def post(path, body, **headers):
    headers["Content-Type"] = "application/json"
    request = urllib.request.Request(URL + path, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request) as answer:
        return answer.read().decode()


tools = [{"type": "function", "function": {"name": name, "parameters": {"type": "object"}}} for name in ["order_lookup", "refund"]]
messages = [{"role": "user", "content": "Refund order 7."}]
while True:
    answer = json.loads(post("/v1/chat/completions", {"model": "model", "messages": messages, "tools": tools}))
    message = answer["choices"][0]["message"]
    messages.append(message)
    if not message.get("tool_calls"):
        break
    for call in message["tool_calls"]:
        name, arguments = call["function"]["name"], json.loads(call["function"]["arguments"])
        result = post(f"/tools/{name}", arguments, **{"Idempotency-Key": call["id"]})
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
print(message["content"])
