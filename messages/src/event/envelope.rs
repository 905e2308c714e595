//! The one envelope of stream and sink.

use super::{AgentEvent, StepEvent};
use crate::ids::{SessionId, TenantId, TurnId};
use crate::options::ParentTurn;
use crate::outcome::TurnOutcome;
use crate::{Millis, trace};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::sync::Arc;

/// The version of the event schema.
pub const SCHEMA: u32 = 1;

/// One event and where it belongs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Envelope {
    /// The version of the schema.
    pub schema: u32,
    /// Rises by one within a turn, from 1; of the tree's events, since the runtime began.
    pub seq: u64,
    /// When it happened.
    pub time: Millis,
    /// Whose turn; `None` for an event of the tree, which belongs to no session.
    pub session_id: Option<SessionId>,
    /// The tenant whose turn it is. An input that is cancelled before its turn began has an event without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<TenantId>,
    /// The epoch of the session's owner, under which the record of the event is written, if it has one. `None` where the
    /// event is of no turn that has begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
    /// The call that the session works for, if it is that of a sub-agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Arc<ParentTurn>>,
    /// Which turn; `None` for an event of the tree.
    pub turn_id: Option<TurnId>,
    /// The trace: 32 hex digits. All zeros, which W3C Trace Context keeps for "none", for an event of the tree.
    pub trace_id: String,
    /// The span: 16 hex digits; all zeros for an event of the tree.
    pub span_id: String,
    /// The span around it.
    pub parent_span_id: Option<String>,
    /// Which step, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u32>,
    /// The event.
    pub event: AgentEvent,
}

impl Envelope {
    /// The last event of a turn of which no other event was seen.
    pub fn finished(at: Millis, outcome: Box<TurnOutcome>) -> Self {
        let (session, turn) = (outcome.session_id.clone(), outcome.turn_id.clone());
        Self::of_turn(&session, &turn, at, 1, None, AgentEvent::TurnFinished { outcome })
    }

    /// An event of a turn, under the trace of the request that began it.
    pub fn of_turn(
        session: &SessionId,
        turn: &TurnId,
        at: Millis,
        seq: u64,
        traceparent: Option<&str>,
        event: impl Into<StepEvent>,
    ) -> Self {
        let StepEvent { step, event } = event.into();
        let turn_span = trace::turn_span(turn);
        let step_span = step.map(|step| trace::step_span(turn, step));
        let (span_id, parent_span_id) = match (event.call(), step_span) {
            (Some(call), around) => (trace::call_span(turn, call.as_str()), Some(around.unwrap_or(turn_span))),
            (None, Some(step)) => (step, Some(turn_span)),
            (None, None) => (turn_span, traceparent.and_then(trace::parent_span).map(str::to_owned)),
        };
        Self {
            schema: SCHEMA,
            seq,
            time: at,
            session_id: Some(session.clone()),
            tenant: None,
            epoch: None,
            parent: None,
            turn_id: Some(turn.clone()),
            trace_id: trace::trace_id(turn, traceparent),
            span_id,
            parent_span_id,
            step,
            event,
        }
    }

    /// An event of the tree: of a process or an actor that serves every session.
    pub fn of_tree(seq: u64, at: Millis, event: AgentEvent) -> Self {
        Self {
            schema: SCHEMA,
            seq,
            time: at,
            session_id: None,
            tenant: None,
            epoch: None,
            parent: None,
            turn_id: None,
            trace_id: "0".repeat(32),
            span_id: "0".repeat(16),
            parent_span_id: None,
            step: None,
            event,
        }
    }

    /// Converts to one flat JSON object: the keys of envelope and event; `call_id`, `tool` and `arguments` of a call;
    /// all keys of the outcome for `turn.finished`. Readers must ignore unknown keys.
    pub fn to_json(&self) -> Value {
        let mut flat = Map::new();
        let mut lift = |value: Value| {
            if let Value::Object(keys) = value {
                flat.extend(keys);
            }
        };
        let mut event = serde_json::to_value(&self.event).unwrap_or_default();
        if let Some(inner) = event.as_object_mut() {
            for nested in ["call", "result", "outcome"] {
                if let Some(Value::Object(mut keys)) = inner.remove(nested) {
                    let name = keys.remove("name");
                    let id = keys.remove("id").or_else(|| keys.remove("call"));
                    if let Some(name) = name {
                        keys.insert("tool".into(), name);
                    }
                    if let Some(id) = id {
                        keys.insert("call_id".into(), id);
                    }
                    lift(Value::Object(keys));
                }
            }
        }
        if let (Some(step), Some(inner)) = (self.step, event.as_object_mut()) {
            inner.shift_insert(1, "step".into(), step.into());
        }
        lift(event);
        lift(serde_json::json!({
            "schema": self.schema, "seq": self.seq, "time": self.time,
            "session_id": self.session_id, "turn_id": self.turn_id,
            "trace_id": self.trace_id, "span_id": self.span_id, "parent_span_id": self.parent_span_id,
        }));
        if let Some(tenant) = &self.tenant {
            flat.insert("tenant".into(), tenant.as_str().into());
        }
        if let Some(epoch) = self.epoch {
            flat.insert("epoch".into(), epoch.into());
        }
        if let Some(parent) = &self.parent {
            flat.insert("parent".into(), serde_json::to_value(parent).unwrap_or_default());
        }
        Value::Object(flat)
    }
}
