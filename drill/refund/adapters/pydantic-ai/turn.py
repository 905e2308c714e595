"""Pydantic AI: an agent with the capability `DBOSDurability`, inside a DBOS workflow, each call of a tool a DBOS step; SQLite.

As https://ai.pydantic.dev/durable_execution/dbos recommends it; launching DBOS again recovers the workflows that were interrupted.
"""

import asyncio
import importlib.metadata
import os
import sys
import urllib.request

URL, FOLDER = os.environ.get("REFUND_URL", ""), os.environ.get("REFUND_FOLDER", "")


def version():
    packages = ["pydantic-ai-slim", "dbos"]
    return ", ".join(f"{package} {importlib.metadata.version(package)}" for package in packages)


async def main(command):
    from dbos import DBOS, SetWorkflowID
    from pydantic_ai import Agent, RunContext
    from pydantic_ai.durable_exec.dbos import DBOSDurability
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    DBOS(config={"name": "refund", "system_database_url": f"sqlite:///{FOLDER}/dbos.sqlite", "run_admin_server": False})
    provider = OpenAIProvider(base_url=f"{URL}/v1", api_key="none")
    agent = Agent(OpenAIChatModel("model", provider=provider), name="refund", capabilities=[DBOSDurability()])

    @DBOS.step()
    def call(name: str, order: str, key: str) -> str:
        body = f'{{"order": "{order}"}}'.encode()
        headers = {"Content-Type": "application/json", "Idempotency-Key": key}
        with urllib.request.urlopen(urllib.request.Request(f"{URL}/tools/{name}", body, headers)) as answer:
            return answer.read().decode()

    @agent.tool
    async def order_lookup(context: RunContext, order: str) -> str:
        """Shows an order."""
        return call("order_lookup", order, context.tool_call_id)

    @agent.tool
    async def refund(context: RunContext, order: str) -> str:
        """Pays the price of an order back."""
        return call("refund", order, context.tool_call_id)

    @DBOS.workflow()
    async def turn(prompt: str) -> str:
        return (await agent.run(prompt)).output

    DBOS.launch()
    if command == "start":
        with SetWorkflowID("order-7"):
            handle = await DBOS.start_workflow_async(turn, "Refund order 7.")
    else:
        handle = await DBOS.retrieve_workflow_async("order-7")
    print(await handle.get_result())
    DBOS.destroy()


if sys.argv[1] == "version":
    print(version())
else:
    asyncio.run(main(sys.argv[1]))
