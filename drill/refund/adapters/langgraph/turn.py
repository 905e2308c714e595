"""LangGraph: LangChain's agent with the SQLite checkpointer, durability "sync", and each call of a tool inside a task.

As https://docs.langchain.com/oss/python/langgraph/durable-execution recommends it; a run that was interrupted is resumed by calling
the graph with the same thread and no input.
"""

import importlib.metadata
import os
import sys
import urllib.request
from typing import Annotated

URL, FOLDER = os.environ.get("REFUND_URL", ""), os.environ.get("REFUND_FOLDER", "")


def version():
    packages = ["langgraph", "langchain", "langgraph-checkpoint-sqlite"]
    return ", ".join(f"{package} {importlib.metadata.version(package)}" for package in packages)


def main(command):
    from langchain.agents import create_agent
    from langchain_core.tools import InjectedToolCallId, tool
    from langchain_openai import ChatOpenAI
    from langgraph.checkpoint.sqlite import SqliteSaver
    from langgraph.func import task

    @task
    def call(name: str, order: str, key: str) -> str:
        body = f'{{"order": "{order}"}}'.encode()
        headers = {"Content-Type": "application/json", "Idempotency-Key": key}
        with urllib.request.urlopen(urllib.request.Request(f"{URL}/tools/{name}", body, headers)) as answer:
            return answer.read().decode()

    @tool
    def order_lookup(order: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> str:
        """Shows an order."""
        return call("order_lookup", order, tool_call_id).result()

    @tool
    def refund(order: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> str:
        """Pays the price of an order back."""
        return call("refund", order, tool_call_id).result()

    model = ChatOpenAI(model="model", base_url=f"{URL}/v1", api_key="none")
    with SqliteSaver.from_conn_string(f"{FOLDER}/checkpoints.db") as checkpointer:
        agent = create_agent(model, [order_lookup, refund], checkpointer=checkpointer)
        asked = {"messages": [{"role": "user", "content": "Refund order 7."}]}
        thread = {"configurable": {"thread_id": "order-7"}}
        state = agent.invoke(asked if command == "start" else None, thread, durability="sync")
        print(state["messages"][-1].content)


if sys.argv[1] == "version":
    print(version())
else:
    main(sys.argv[1])
