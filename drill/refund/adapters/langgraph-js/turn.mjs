// LangGraph.js: LangChain's agent with the SQLite checkpointer, durability "sync", and each call of a tool inside a task.
//
// As https://docs.langchain.com/oss/javascript/langgraph/durable-execution recommends it; a run that was interrupted is resumed by
// calling the graph with the same thread and no input.

import { readFileSync } from 'node:fs'

import { task } from '@langchain/langgraph'
import { SqliteSaver } from '@langchain/langgraph-checkpoint-sqlite'
import { ChatOpenAI } from '@langchain/openai'
import { createAgent, tool } from 'langchain'
import { z } from 'zod'

const packages = ['@langchain/langgraph', 'langchain', '@langchain/langgraph-checkpoint-sqlite']
const { REFUND_URL: url, REFUND_FOLDER: folder } = process.env

const call = task('call', async (name, order, key) => {
  const headers = { 'Content-Type': 'application/json', 'Idempotency-Key': key }
  const answer = await fetch(`${url}/tools/${name}`, { method: 'POST', headers, body: JSON.stringify({ order }) })
  return await answer.text()
})

const offer = (name, description) =>
  tool(({ order }, runtime) => call(name, order, runtime.toolCallId ?? runtime.toolCall?.id ?? ''), {
    name,
    description,
    schema: z.object({ order: z.string() }),
  })

async function turn(command) {
  const agent = createAgent({
    model: new ChatOpenAI({ model: 'model', apiKey: 'none', configuration: { baseURL: `${url}/v1` } }),
    tools: [offer('order_lookup', 'Shows an order.'), offer('refund', 'Pays the price of an order back.')],
    checkpointer: SqliteSaver.fromConnString(`${folder}/checkpoints.db`),
  })
  const asked = { messages: [{ role: 'user', content: 'Refund order 7.' }] }
  const thread = { configurable: { thread_id: 'order-7' }, durability: 'sync' }
  const state = await agent.invoke(command === 'start' ? asked : null, thread)
  return state.messages.at(-1).content
}

const version = name => JSON.parse(readFileSync(new URL(`node_modules/${name}/package.json`, import.meta.url))).version
const [command] = process.argv.slice(2)
console.log(command === 'version' ? packages.map(name => `${name} ${version(name)}`).join(', ') : await turn(command))
