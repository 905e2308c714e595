//! Log records of turns: flat, with ids, for readers of lines instead of spans.
//!
//! Under the target `bob::turn`, `info` has a record for each turn, tool call and retry, `debug` one for each step.
//! They contain names and measurements, and no text of users, models or tools.

use super::tool_name;
use bob_messages::event::{AgentEvent, Envelope};
use bob_messages::ids::SessionId;
use serde::Serialize;
use tracing::{debug, info};

pub(super) fn log(envelope: &Envelope, session: &SessionId) {
    let (turn, step) = (envelope.turn_id.as_ref().map(tracing::field::display), envelope.step);
    match &envelope.event {
        AgentEvent::TurnStarted { model, tools, .. } => {
            debug!(target: "bob::turn", parent: None, %session, turn, %model, tools = tools.len(), "turn started");
        }
        AgentEvent::LlmCompleted { model, latency_ms, usage, stop_reason, .. } => {
            let usage = usage.unwrap_or_default();
            debug!(
                target: "bob::turn", parent: None,
                %session, turn, step, %model, stop_reason = word(stop_reason),
                input_tokens = usage.input_tokens, output_tokens = usage.output_tokens, duration_ms = latency_ms,
                "model call ended"
            );
        }
        AgentEvent::LlmFailed { error } => {
            debug!(
                target: "bob::turn", parent: None,
                %session, turn, step, error = error.kind(), is_retryable = error.is_retryable(), "model call failed"
            );
        }
        AgentEvent::LlmRetried { attempt, of, delay_ms, model, .. } => {
            info!(
                target: "bob::turn", parent: None,
                %session, turn, step, %model, attempt, of, delay_ms, "model call is tried again"
            );
        }
        AgentEvent::ToolCompleted { result } => {
            info!(
                target: "bob::turn", parent: None,
                %session, turn, step, call = %result.call, tool = %tool_name(&result.name), status = word(&result.status),
                duration_ms = result.duration_ms, "tool call ended"
            );
        }
        AgentEvent::TurnFinished { outcome } => {
            info!(
                target: "bob::turn", parent: None,
                %session, turn, finish_reason = word(&outcome.finish_reason),
                guard_reason = outcome.guard_reason.map(|guard| word(&guard)),
                error = outcome.error.as_ref().map(|error| error.kind()),
                steps = outcome.steps,
                input_tokens = outcome.usage.input_tokens, output_tokens = outcome.usage.output_tokens,
                duration_ms = outcome.duration_ms, "turn ended"
            );
        }
        _not_logged => {}
    }
}

pub(super) fn word(value: &impl Serialize) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    value.as_str().unwrap_or_default().to_owned()
}
