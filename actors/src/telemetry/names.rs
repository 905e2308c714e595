//! Names of the OpenTelemetry conventions for generative models, version 0.1.0 of their own repository.
#![expect(missing_docs, reason = "a constant says what it is by its value")]

pub const OPERATION: &str = "gen_ai.operation.name";
pub const PROVIDER: &str = "gen_ai.provider.name";
pub const AGENT: &str = "gen_ai.agent.name";
pub const CONVERSATION: &str = "gen_ai.conversation.id";
pub const REQUEST_MODEL: &str = "gen_ai.request.model";
pub const RESPONSE_MODEL: &str = "gen_ai.response.model";
pub const RESPONSE_ID: &str = "gen_ai.response.id";
pub const FINISH_REASONS: &str = "gen_ai.response.finish_reasons";
pub const INPUT_TOKENS: &str = "gen_ai.usage.input_tokens";
pub const OUTPUT_TOKENS: &str = "gen_ai.usage.output_tokens";
pub const TOKEN_TYPE: &str = "gen_ai.token.type";
pub const FIRST_CHUNK: &str = "gen_ai.response.time_to_first_chunk";
pub const INPUT_MESSAGES: &str = "gen_ai.input.messages";
pub const OUTPUT_MESSAGES: &str = "gen_ai.output.messages";
pub const ARGUMENTS: &str = "gen_ai.tool.call.arguments";
pub const RESULT: &str = "gen_ai.tool.call.result";
pub const TOOL: &str = "gen_ai.tool.name";
pub const CALL: &str = "gen_ai.tool.call.id";
pub const ERROR: &str = "error.type";

pub const INVOKE_AGENT: &str = "invoke_agent";
pub const CHAT: &str = "chat";
pub const EXECUTE_TOOL: &str = "execute_tool";

pub const AGENT_SECONDS: &str = "gen_ai.invoke_agent.duration";
pub const TOOL_SECONDS: &str = "gen_ai.execute_tool.duration";
pub const CHAT_SECONDS: &str = "gen_ai.client.operation.duration";
pub const TOKENS: &str = "gen_ai.client.token.usage";
pub const FIRST_CHUNK_SECONDS: &str = "gen_ai.client.operation.time_to_first_chunk";

/// Not of the conventions: the turn, the run of it, how it ended, what it cost, how long it waited before it began, which
/// actor was restarted, and what was dropped.
pub const TURN: &str = "bob.turn.id";
pub const SUBMISSION: &str = "bob.submission.id";
pub const FINISH: &str = "bob.finish_reason";
pub const STEPS: &str = "bob.steps";
pub const COST: &str = "bob.cost";
pub const QUEUE_WAIT: &str = "bob.queue.wait";
pub const RESTARTS: &str = "bob.actor.restarts";
pub const ACTOR: &str = "bob.actor.name";
pub const DROPPED: &str = "bob.telemetry.dropped";

pub const SERVICE: &str = "service.name";
