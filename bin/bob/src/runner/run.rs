//! The driver: takes a turn from one answer to the next, and decides nothing.

mod children;
mod effects;

use super::stopwatch::Stopwatch;
use super::{Finished, RunnerRequest};
use bob_actors::clock;
use bob_actors::compactor::written;
use bob_actors::llm::{LlmPort, tokens_per_kb};
use bob_actors::tools::{Gate, Invocation, Policy, ProgressRoom};
use bob_messages::agent::Delegation;
use bob_messages::approvals::Decision;
use bob_messages::chat::{CallStatus, ToolCall};
use bob_messages::condense::CondenseRequest;
use bob_messages::context::RequestContext;
use bob_messages::error::AgentError;
use bob_messages::ids::{ApprovalId, CallId, SessionId, Ticket, TurnId};
use bob_messages::input::{ApprovalsMode, TurnInput};
use bob_messages::llm::{LlmRequest, ModelProfile};
use bob_messages::outcome::{EndReason, TurnOutcome};
use bob_messages::store::Record;
use bob_messages::tools::{CallContext, ToolDescriptor, ToolOutput, ToolReturn, Verdict};
use bob_messages::turn::{Turn, TurnMessage};
use bob_messages::turn_config::{OnRestart, TurnConfig};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Run {
    session: SessionId,
    turn: Turn,
    submission: TurnId,
    profile: Arc<ModelProfile>,
    tools: Vec<ToolDescriptor>,
    policy: Policy,
    turn_timeout_ms: u64,
    pub(super) journal: Vec<Arc<Record>>,
    asked: Option<(Ticket, Arc<LlmRequest>)>,
    /// A summary is to be written.
    #[serde(default)]
    condensing: Option<(Ticket, Arc<CondenseRequest>)>,
    /// Calls that wait for their results, in call order.
    pending: Vec<Pending>,
    /// Results that were given and not taken yet: a call runs behind another one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    given: BTreeMap<CallId, ToolReturn>,
    ended: Option<Result<Box<TurnOutcome>, AgentError>>,
    /// How long models were asked, in the processes that had the turn.
    #[serde(default)]
    inferred_ms: u64,
    /// How long the turn has run in the processes that had it.
    #[serde(default)]
    stopwatch: Stopwatch,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Pending {
    ticket: Ticket,
    call: Arc<ToolCall>,
    context: Arc<CallContext>,
    held: Held,
}

/// The message that the machine receives when a call has a result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum Held {
    /// The verdict; `Running` for a call that changes nothing.
    Verdict(Verdict),
    /// The approval: its reason, and the question's id once known.
    Approval(String, Option<ApprovalId>),
    /// The result of a call that the machine runs now; with the child that works for it, if it is one of an agent.
    Called(Option<Box<Delegation>>),
}

/// The state of a turn that waits for its caller.
pub(super) enum Stand {
    /// It is over.
    Over(Box<TurnOutcome>),
    /// It waits for results of these calls.
    Calls(Vec<Arc<ToolCall>>),
}

impl Run {
    pub(super) fn begin(request: RunnerRequest, model: &dyn LlmPort) -> Result<Self, AgentError> {
        let RunnerRequest {
            session,
            input,
            turn_config,
            tools,
            policy,
            limits,
            mode,
            context,
            journal,
            agents,
            works_for,
        } = request;
        let agents = if agents.is_empty() { turn_config.subagents.to_vec() } else { agents };
        let (agents, tools) = children::offered(agents, tools)?;
        context.as_deref().map_or(Ok(()), RequestContext::check)?;
        let name = turn_config.default_model.clone();
        if name.is_selector() {
            let text = format!("{name} is a selector, which needs the catalogue of a runtime; name a model");
            return Err(AgentError::Invalid(text));
        }
        let capabilities = model.capabilities(&name)?;
        if input.iter().all(|part| part.bytes() == 0) {
            return Err(AgentError::Invalid("the input is empty: say something".into()));
        }
        if let Some(part) = input.iter().find(|part| !capabilities.takes(part)) {
            return Err(AgentError::Invalid(format!("the model {name} does not take {} parts", part.kind())));
        }
        if let Some(record) = journal.iter().find(|record| record.session != session) {
            let text = format!("the journal is of the session {}, not of {session}", record.session);
            return Err(AgentError::Invalid(text));
        }
        let gate = Gate::new([tools.clone()], policy.clone()).map_err(|why| AgentError::Invalid(why.to_string()))?;
        let own = || TurnInput::bare(TurnId::new(uuid::Uuid::now_v7().to_string()), children::secret(), Vec::new());
        let own = works_for.map_or_else(own, |input| *input);
        let (at, approvals, submission) = (clock::now(), ApprovalsMode::Wait, own.turn.clone());
        let input = Arc::new(TurnInput { at, parts: input, mode, approvals, limits, context, ..own });
        let mut run = Self {
            turn: Turn::new(session.clone()),
            session,
            submission,
            profile: Arc::new(ModelProfile {
                price: model.price(&name),
                tokens_per_kb: tokens_per_kb(model, &name),
                model: name,
                capabilities,
            }),
            tools,
            policy,
            turn_timeout_ms: limits.turn_timeout_ms,
            journal,
            asked: None,
            condensing: None,
            pending: Vec::new(),
            given: BTreeMap::new(),
            ended: None,
            inferred_ms: 0,
            stopwatch: Stopwatch::default(),
        };
        // A turn that an earlier process left is reported in the journal, not finished here; files are its owner's.
        let turn_config = Arc::new(TurnConfig {
            on_restart: OnRestart::Report,
            reads_files: false,
            snapshot_every: 0,
            mode: run.policy.default_mode(),
            subagents: agents,
            ..turn_config
        });
        run.tell(TurnMessage::Start { input, turn_config }, gate);
        match run.ended {
            Some(Err(error)) => Err(error),
            Some(Ok(_)) | None => Ok(run),
        }
    }

    /// Calls the model until the caller must act.
    pub(super) async fn infer(&mut self, model: &dyn LlmPort) -> Stand {
        let began = Instant::now();
        let stand = self.infer_until(model, began + self.time_left()).await;
        let took = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.inferred_ms = self.inferred_ms.saturating_add(took);
        stand
    }

    async fn infer_until(&mut self, model: &dyn LlmPort, until: Instant) -> Stand {
        loop {
            if let Some((ticket, request)) = self.condensing.take() {
                let within_ms = request.within_ms;
                let question = Arc::new(request.question());
                let answer = model.complete(Arc::clone(&question), &question.model);
                let within = Instant::now() + Duration::from_millis(request.within_ms);
                let message = match tokio::time::timeout_at(until.min(within), answer).await {
                    Ok(answer) => {
                        let result = written(answer.map(Arc::new)).map(Arc::new).map_err(AgentError::Llm);
                        TurnMessage::Condensed { ticket, result }
                    }
                    Err(_) if Instant::now() >= until => {
                        TurnMessage::Stopped { reason: EndReason::TurnTimeout, submission: None }
                    }
                    Err(_) => {
                        let late = AgentError::timeout("the summary was not written in time", "summary", within_ms);
                        TurnMessage::Condensed { ticket, result: Err(late) }
                    }
                };
                self.say(message);
                continue;
            }
            match (self.ended.clone(), self.asked.take()) {
                (Some(ended), _) => return Stand::Over(ended.unwrap_or_else(|error| self.failed(error))),
                (None, Some((ticket, request))) => {
                    let answer = model.complete(Arc::clone(&request), &request.model);
                    let message = match tokio::time::timeout_at(until, answer).await {
                        Ok(result) => TurnMessage::ParseAction { ticket, result: result.map(Arc::new) },
                        Err(_) => TurnMessage::Stopped { reason: EndReason::TurnTimeout, submission: None },
                    };
                    self.say(message);
                }
                (None, None) if self.pending.is_empty() => {
                    return Stand::Over(self.failed(AgentError::Internal("the turn waits for nothing".into())));
                }
                (None, None) => return Stand::Calls(self.pending()),
            }
        }
    }

    /// Why a pending call needs a person first, if it does.
    pub(super) fn approval_wanted(&self, call: &CallId) -> Option<&str> {
        self.pending.iter().find(|held| held.call.id == *call).and_then(|held| match &held.held {
            Held::Approval(reason, _) => Some(reason.as_str()),
            Held::Verdict(_) | Held::Called(_) => None,
        })
    }

    /// Takes the results of all pending calls, and with them that they may run.
    pub(super) fn give(&mut self, results: Vec<(CallId, ToolOutput)>) {
        self.given.extend(results.into_iter().map(|(call, output)| (call, returned(output))));
        for Pending { ticket, call, held, .. } in std::mem::take(&mut self.pending) {
            let message = match held {
                Held::Verdict(verdict) => TurnMessage::Checked { ticket, verdict: Some(self.ran(verdict, &call)) },
                Held::Called(_) => TurnMessage::ToolReturned { ticket, returned: Box::new(self.taken(&call)) },
                Held::Approval(_, Some(approval)) => {
                    TurnMessage::Decided { approval, decision: Box::new(Decision::AllowOnce), asker: None }
                }
                // The machine has no open question, so it waits for none.
                Held::Approval(_, None) => TurnMessage::Checked { ticket, verdict: None },
            };
            self.say(message);
        }
    }

    /// The calls that wait for their results, in call order.
    pub(super) fn pending(&mut self) -> Vec<Arc<ToolCall>> {
        let order: Vec<_> = self.turn.calls().map(|call| call.id.clone()).collect();
        self.pending.sort_by_key(|held| order.iter().position(|call| *call == held.call.id));
        self.pending.iter().map(|held| Arc::clone(&held.call)).collect()
    }

    /// Ends the turn; open calls get results.
    pub(super) fn cancel(mut self, reason: String) -> Finished {
        self.say(TurnMessage::Dismissed { words: reason });
        let outcome = self.ended.clone().unwrap_or(Err(AgentError::Internal("the turn had ended".into())));
        Finished { response: outcome.unwrap_or_else(|error| self.failed(error)), journal: self.journal }
    }

    pub(super) fn invocation(&self, call: &Arc<ToolCall>) -> Option<(Invocation, Duration)> {
        let held = self.pending.iter().find(|held| held.call.id == call.id)?;
        let limit = Duration::from_millis(held.context.tool_timeout_ms);
        let tool = self.tools.iter().find(|tool| tool.id == call.name);
        let invocation = Invocation {
            call: Arc::clone(call),
            context: Arc::clone(&held.context),
            deadline: Instant::now() + limit,
            may_repeat: tool.is_some_and(|tool| tool.read_only || tool.idempotent),
            progress: ProgressRoom::unread(),
        };
        Some((invocation, limit))
    }

    fn say(&mut self, message: TurnMessage) {
        self.tell(message, self.gate());
    }

    /// The gate of this turn. That it opens was seen when the turn began; one that was
    /// loaded from elsewhere and does not open lets no call through.
    fn gate(&self) -> Option<Gate> {
        Gate::new([self.tools.clone()], self.policy.clone()).ok()
    }

    fn failed(&self, error: AgentError) -> Box<TurnOutcome> {
        Box::new(TurnOutcome::failed(self.session.clone(), self.submission.clone(), error))
    }
}

fn returned(output: ToolOutput) -> ToolReturn {
    let status = if output.is_error { CallStatus::Error } else { CallStatus::Ok };
    // The caller supplies results when they are ready, so none waits.
    ToolReturn { status, output: ToolOutput { waits_for: None, ..output }, duration_ms: 0 }
}
