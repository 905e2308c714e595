"""What a framework under test talks to: a scripted model, two tools, and the ledger of refunds.

One HTTP server on a loopback port is all three:

    POST /v1/chat/completions     the model, in OpenAI's format, streamed when that is asked for
    POST /mcp                     the tools by the Model Context Protocol (streamable HTTP, without sessions)
    POST /tools/NAME              the tools for a function of the framework's own: arguments in, text out

At each boundary of a turn it calls `reached(name)`. When that returns true, the framework has just been killed, and the request is
dropped as it is.
"""

import http.server
import json
import os
import sys
import threading
import uuid

ORDER = "7"
DONE = f"Order {ORDER} is refunded."
NOT_KNOWN = f"Whether order {ORDER} is refunded is not known."

# In the order in which a turn passes them. "asked": the request is here, and nothing has been done about it; "done": the refund is
# in the ledger, and the answer is not sent; "answered": the answer is sent, up to its last byte.
BOUNDARIES = [
    "model 1 asked",
    "model 1 answered",
    "lookup asked",
    "lookup answered",
    "model 2 asked",
    "model 2 answered",
    "refund asked",
    "refund done",
    "refund answered",
    "model 3 asked",
    "model 3 answered",
]


def tools(keyed):
    """The tools as a server lists them. With `keyed` the refund says of itself that it may be called again."""
    order = {"type": "object", "properties": {"order": {"type": "string"}}, "required": ["order"]}
    effect = {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": keyed}
    return [
        {
            "name": "order_lookup",
            "description": "Shows an order.",
            "inputSchema": order,
            "annotations": {"readOnlyHint": True},
        },
        {"name": "refund", "description": "Pays the price of an order back.", "inputSchema": order, "annotations": effect},
    ]


class Killed(Exception):
    """The client of this request is gone."""


class Server(http.server.ThreadingHTTPServer):
    """A server that takes it as it comes when a client is gone."""

    daemon_threads = True

    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class Shop:
    """The server, which ends with `close`. With `keyed`, a refund with the idempotency key of an earlier one pays nothing."""

    def __init__(self, ledger, keyed, reached):
        self.ledger, self.keyed, self.reached = ledger, keyed, reached
        self.lock = threading.Lock()
        self.server = Server(("127.0.0.1", 0), type("Bound", (Door,), {"shop": self}))
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=[0.05], daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def at(self, boundary):
        if self.reached(boundary):
            raise Killed

    def refunds(self):
        """How often the order was refunded."""
        return len(self.lines())

    def lines(self):
        return self.ledger.read_text().splitlines() if self.ledger.exists() else []

    def use(self, tool, arguments, key):
        """Does what a tool does, and says the result."""
        order = arguments["order"]
        if tool == "order_lookup":
            self.at("lookup asked")
            return f"Order {order}: one kettle, 49.00 EUR, paid."
        self.at("refund asked")
        with self.lock:
            if not (self.keyed and key and f"{order}\t{key}" in self.lines()):
                with self.ledger.open("a") as ledger:
                    ledger.write(f"{order}\t{key or '-'}\n")
                    ledger.flush()
                    os.fsync(ledger.fileno())
        self.at("refund done")
        return f"Receipt: order {order} refunded, 49.00 EUR."


def plain(name):
    """Which of the two tools is called so: a framework may put the name of a server before that of its tool."""
    return next((tool for tool in ("order_lookup", "refund") if name.endswith(tool)), None)


def decide(messages, tools):
    """The model: the number of its step, the tool it calls, and what it says. It knows nothing but what it is sent."""
    results, calls = {}, {}
    for message in messages:
        for call in message.get("tool_calls") or []:
            calls[call["id"]] = plain(call["function"]["name"])
        if message["role"] == "tool":
            content = message["content"]
            if not isinstance(content, str):
                content = " ".join(part.get("text", "") for part in content)
            results[calls[message["tool_call_id"]]] = content
    if "refund" in results:
        is_paid = "Receipt: " in results["refund"]
        return 3, None, DONE if is_paid else f"{NOT_KNOWN} The tool said: {results['refund']}"
    step, wanted = (2, "refund") if "order_lookup" in results else (1, "order_lookup")
    offered = next((name for name in tools if plain(name) == wanted), None)
    return step, offered, None if offered else f"I would call {wanted}, and am not offered it."


class Door(http.server.BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        try:
            if self.path.endswith("/chat/completions"):
                self.infer(body)
            elif self.path == "/mcp":
                self.speak(body)
            else:
                tool = self.path.removeprefix("/tools/")
                text = self.shop.use(tool, body, self.headers["Idempotency-Key"])
                self.answer(text.encode(), "text/plain", tool)
        except (Killed, ConnectionError):
            self.close_connection = True

    def do_GET(self):
        self.send_error(405)

    do_DELETE = do_GET

    def infer(self, body):
        step, tool, said = decide(body["messages"], [tool["function"]["name"] for tool in body.get("tools", [])])
        self.shop.at(f"model {step} asked")
        message = {"role": "assistant", "content": said}
        if tool:
            # A model that is asked again calls by another id.
            function = {"name": tool, "arguments": json.dumps({"order": ORDER})}
            message["tool_calls"] = [{"index": 0, "id": f"call_{uuid.uuid4().hex}", "type": "function", "function": function}]
        streams = body.get("stream")
        choice = {"index": 0, "finish_reason": "tool_calls" if tool else "stop", "delta" if streams else "message": message}
        answer = {
            "id": f"chatcmpl-{uuid.uuid4().hex}",
            "object": "chat.completion.chunk" if streams else "chat.completion",
            "created": 1_760_000_000,
            "model": body["model"],
            "choices": [choice],
            "usage": {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110},
        }
        if streams:
            self.answer(f"data: {json.dumps(answer)}\n\ndata: [DONE]\n\n".encode(), "text/event-stream")
        else:
            self.answer(json.dumps(answer).encode(), "application/json")
        self.shop.at(f"model {step} answered")

    def speak(self, body):
        """The part of the protocol that a server of tools needs."""
        if "id" not in body:
            self.send_response(202)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        params, tool = body.get("params") or {}, None
        if body["method"] == "initialize":
            about = {"name": "shop", "version": "1"}
            result = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": about}
        elif body["method"] == "tools/list":
            result = {"tools": tools(self.shop.keyed)}
        elif body["method"] == "tools/call":
            tool = params["name"]
            meta = params.get("_meta") or {}
            key = next((meta[name] for name in meta if name.lower().endswith("idempotencykey")), None)
            result = {"content": [{"type": "text", "text": self.shop.use(tool, params["arguments"], key)}], "isError": False}
        else:
            result = {}
        answer = {"jsonrpc": "2.0", "id": body["id"], "result": result}
        self.answer(json.dumps(answer).encode(), "application/json", tool)

    def answer(self, body, kind, tool=None):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()
        if tool:
            self.shop.at("lookup answered" if tool == "order_lookup" else "refund answered")

    def log_message(self, *_arguments):
        """A server that says nothing."""
