// Mastra: a durable agent whose runs are checkpointed in LibSQL, with the recovery of its runs switched on.
//
// As https://mastra.ai/docs/harness/durable-agents recommends it; what was interrupted is recovered by the run's id, as
// `recovery: { durableAgents: 'auto' }` does at the start of a server.

import { readFileSync } from 'node:fs'

import { Mastra } from '@mastra/core'
import { Agent } from '@mastra/core/agent'
import { createDurableAgent } from '@mastra/core/agent/durable'
import { createTool } from '@mastra/core/tools'
import { LibSQLStore } from '@mastra/libsql'
import { z } from 'zod'

const packages = ['@mastra/core', '@mastra/libsql']
if (process.argv[2] === 'version') {
  const version = name => JSON.parse(readFileSync(new URL(`node_modules/${name}/package.json`, import.meta.url))).version
  console.log(packages.map(name => `${name} ${version(name)}`).join(', '))
  process.exit(0)
}

const { REFUND_URL: url, REFUND_FOLDER: folder } = process.env

const tool = (id, description) =>
  createTool({
    id,
    description,
    inputSchema: z.object({ order: z.string() }),
    execute: async (input, context) => {
      const headers = { 'Content-Type': 'application/json', 'Idempotency-Key': context.agent?.toolCallId ?? '' }
      const answer = await fetch(`${url}/tools/${id}`, { method: 'POST', headers, body: JSON.stringify(input) })
      return await answer.text()
    },
  })

const refunder = new Agent({
  id: 'refunder',
  name: 'Refunder',
  instructions: 'You refund orders.',
  model: { id: 'shop/model', url: `${url}/v1`, apiKey: 'none' },
  tools: { order_lookup: tool('order_lookup', 'Shows an order.'), refund: tool('refund', 'Pays the price of an order back.') },
})
const agent = createDurableAgent({ agent: refunder })
new Mastra({
  agents: { refunder: agent },
  storage: new LibSQLStore({ id: 'refund', url: `file:${folder}/mastra.db` }),
  recovery: { durableAgents: 'auto' },
  logger: false,
})

const runId = 'order-7'
const begin = () => agent.stream('Refund order 7.', { runId })
const { output } = await (process.argv[2] === 'start' ? begin() : agent.recover(runId))
console.log(await output.text)
process.exit(0)
