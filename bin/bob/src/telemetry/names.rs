//! Names of the OpenTelemetry conventions for generative models, version 0.1.0 of their own repository.

pub(super) const OPERATION: &str = "gen_ai.operation.name";
pub(super) const PROVIDER: &str = "gen_ai.provider.name";
pub(super) const AGENT: &str = "gen_ai.agent.name";
pub(super) const CONVERSATION: &str = "gen_ai.conversation.id";
pub(super) const REQUEST_MODEL: &str = "gen_ai.request.model";
pub(super) const RESPONSE_MODEL: &str = "gen_ai.response.model";
pub(super) const RESPONSE_ID: &str = "gen_ai.response.id";
pub(super) const FINISH_REASONS: &str = "gen_ai.response.finish_reasons";
pub(super) const INPUT_TOKENS: &str = "gen_ai.usage.input_tokens";
pub(super) const OUTPUT_TOKENS: &str = "gen_ai.usage.output_tokens";
pub(super) const TOKEN_TYPE: &str = "gen_ai.token.type";
pub(super) const TOOL: &str = "gen_ai.tool.name";
pub(super) const CALL: &str = "gen_ai.tool.call.id";
pub(super) const ERROR: &str = "error.type";

pub(super) const INVOKE_AGENT: &str = "invoke_agent";
pub(super) const CHAT: &str = "chat";
pub(super) const EXECUTE_TOOL: &str = "execute_tool";

pub(super) const AGENT_SECONDS: &str = "gen_ai.invoke_agent.duration";
pub(super) const TOOL_SECONDS: &str = "gen_ai.execute_tool.duration";
pub(super) const CHAT_SECONDS: &str = "gen_ai.client.operation.duration";
pub(super) const TOKENS: &str = "gen_ai.client.token.usage";

/// Not of the conventions: the turn, the run of it, how it ended, and what was dropped.
pub(super) const TURN: &str = "bob.turn.id";
pub(super) const SUBMISSION: &str = "bob.submission.id";
pub(super) const FINISH: &str = "bob.finish_reason";
pub(super) const STEPS: &str = "bob.steps";
pub(super) const DROPPED: &str = "bob.telemetry.dropped";

pub(super) const SERVICE: &str = "service.name";
