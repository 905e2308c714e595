//! The driver: performs the machine's effects and decides nothing.

use super::stopwatch::Stopwatch;
use super::{Finished, RunnerRequest};
use bob_actors::clock;
use bob_actors::compactor::written;
use bob_actors::llm::{LlmPort, tokens_per_kb};
use bob_actors::tools::output::check;
use bob_actors::tools::{Gate, Invocation, Policy, ProgressRoom};
use bob_messages::approvals::Decision;
use bob_messages::chat::{CallStatus, ToolCall};
use bob_messages::condense::CondenseRequest;
use bob_messages::context::RequestContext;
use bob_messages::error::AgentError;
use bob_messages::event::AgentEvent;
use bob_messages::ids::{ApprovalId, CallId, ResumeToken, SessionId, Ticket, TurnId};
use bob_messages::input::{ApprovalsMode, TurnInput};
use bob_messages::llm::{LlmRequest, ModelProfile};
use bob_messages::outcome::{EndReason, TurnOutcome};
use bob_messages::store::{Claim, Record};
use bob_messages::submission::TurnNews;
use bob_messages::tools::{CallContext, ToolDescriptor, ToolOutput, ToolReturn, ToolSet, Verdict};
use bob_messages::turn::{Effect, Turn, TurnMessage};
use bob_messages::turn_config::{OnRestart, TurnConfig};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
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
    ended: Option<Result<Box<TurnOutcome>, AgentError>>,
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
        let RunnerRequest { session, input, turn_config, tools, policy, limits, mode, context, journal } = request;
        context.as_deref().map_or(Ok(()), RequestContext::check)?;
        let name = turn_config.default_model.clone();
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
        let submission = TurnId::new(uuid::Uuid::now_v7().to_string());
        let token = ResumeToken::new(uuid::Uuid::new_v4().simple().to_string());
        let (at, approvals) = (clock::now(), ApprovalsMode::Wait);
        let input =
            TurnInput { at, mode, approvals, limits, context, ..TurnInput::bare(submission.clone(), token, input) };
        let input = Arc::new(input);
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
            ended: None,
            stopwatch: Stopwatch::default(),
        };
        // A turn that an earlier process left is reported in the journal, not finished here; files are its owner's.
        let turn_config = Arc::new(TurnConfig {
            on_restart: OnRestart::Report,
            reads_files: false,
            snapshot_every: 0,
            ..turn_config
        });
        run.tell(TurnMessage::Start { input, turn_config }, gate, &mut BTreeMap::new());
        match run.ended {
            Some(Err(error)) => Err(error),
            Some(Ok(_)) | None => Ok(run),
        }
    }

    /// Calls the model until the caller must act.
    pub(super) async fn infer(&mut self, model: &dyn LlmPort) -> Stand {
        let until = Instant::now() + Duration::from_millis(self.turn_timeout_ms);
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
                (None, None) => return Stand::Calls(self.pending.iter().map(|held| Arc::clone(&held.call)).collect()),
            }
        }
    }

    /// Why a pending call needs a person first, if it does.
    pub(super) fn approval_wanted(&self, call: &CallId) -> Option<&str> {
        self.pending.iter().find(|held| held.call.id == *call).and_then(|held| match &held.held {
            Held::Approval(reason, _) => Some(reason.as_str()),
            Held::Verdict(_) => None,
        })
    }

    /// Takes the results of all pending calls, and with them that they may run.
    pub(super) fn give(&mut self, results: Vec<(CallId, ToolOutput)>) {
        let mut results = results.into_iter().map(|(call, output)| (call, returned(output))).collect();
        for Pending { ticket, call, held, .. } in std::mem::take(&mut self.pending) {
            let message = match held {
                Held::Verdict(verdict) => {
                    TurnMessage::Checked { ticket, verdict: Some(ran(verdict, &call, &mut results)) }
                }
                Held::Approval(_, Some(approval)) => {
                    TurnMessage::Decided { approval, decision: Box::new(Decision::AllowOnce), asker: None }
                }
                // The machine has no open question, so it waits for none.
                Held::Approval(_, None) => TurnMessage::Checked { ticket, verdict: None },
            };
            self.tell(message, self.gate(), &mut results);
        }
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
        self.tell(message, self.gate(), &mut BTreeMap::new());
    }

    /// The gate of this turn. That it opens was seen when the turn began; one that was
    /// loaded from elsewhere and does not open lets no call through.
    fn gate(&self) -> Option<Gate> {
        Gate::new([self.tools.clone()], self.policy.clone()).ok()
    }

    /// Sends a message to the machine and answers its questions until it waits.
    fn tell(&mut self, message: TurnMessage, gate: impl Into<Option<Gate>>, results: &mut Results) {
        let mut gate = gate.into();
        let mut queue = VecDeque::from([message]);
        while let Some(message) = queue.pop_front() {
            for effect in self.turn.apply(self.stopwatch.moment(), message) {
                queue.extend(self.perform(effect, gate.as_mut(), results));
            }
        }
    }

    /// Performs one effect; returns an immediate reply.
    fn perform(&mut self, effect: Effect, gate: Option<&mut Gate>, results: &mut Results) -> Option<TurnMessage> {
        match effect {
            Effect::Tell(message) => Some(message),
            Effect::Claim { ticket, .. } => {
                let last = self.journal.last();
                let epoch = last.map_or(0, |record| record.epoch) + 1;
                let version = last.map_or(0, |record| record.version);
                let claim = Claim { epoch, version, records: self.journal.clone() };
                Some(TurnMessage::Loaded { ticket, result: Ok(claim) })
            }
            Effect::Append { ticket, append, .. } => {
                self.journal.extend(append.records);
                let version = self.journal.last().map_or(0, |record| record.version);
                Some(TurnMessage::Saved { ticket, result: Ok(version) })
            }
            Effect::ListTools { ticket, .. } => {
                let offered = gate.map(|gate| gate.offered().to_vec()).unwrap_or_default();
                Some(TurnMessage::ToolsListed { ticket, tools: Arc::new(ToolSet::from(offered)), servers: Vec::new() })
            }
            Effect::Profile { ticket, .. } => {
                Some(TurnMessage::Profiled { ticket, result: Ok(Arc::clone(&self.profile)) })
            }
            Effect::ReadLayers { ticket, .. } => Some(TurnMessage::LayersRead { ticket, result: Ok(Arc::default()) }),
            // Skills belong to a runtime; a turn configuration that has rules for them gets none here.
            Effect::ListSkills { ticket, .. } => {
                Some(TurnMessage::SkillsListed { ticket, index: Arc::default(), scores: None })
            }
            Effect::CheckOutput { ticket, schema, output } => {
                Some(TurnMessage::OutputChecked { ticket, result: check(&schema, &output) })
            }
            Effect::Infer { ticket, request, .. } => {
                self.asked = Some((ticket, request));
                None
            }
            Effect::Condense { ticket, request } => {
                self.condensing = Some((ticket, request));
                None
            }
            Effect::Check { ticket, check, context } => {
                let nobody = || Verdict::Deny { reason: "the rules of this turn cannot be read".to_owned() };
                let verdict = gate.map_or_else(nobody, |gate| gate.check(&check, &context));
                let call = check.call;
                match &verdict {
                    Verdict::Deny { .. } | Verdict::Invalid { .. } | Verdict::Unavailable { .. } | Verdict::Ran(_) => {
                        return Some(TurnMessage::Checked { ticket, verdict: Some(verdict) });
                    }
                    Verdict::Allow { .. } | Verdict::Running if results.contains_key(&call.id) => {
                        let verdict = Some(ran(verdict, &call, results));
                        return Some(TurnMessage::Checked { ticket, verdict });
                    }
                    Verdict::Ask { reason, .. } => {
                        let held = Held::Approval(reason.clone(), None);
                        self.pending.push(Pending { ticket, call, context, held });
                        return Some(TurnMessage::Checked { ticket, verdict: Some(verdict) });
                    }
                    Verdict::Allow { .. } | Verdict::Running => {}
                }
                self.pending.push(Pending { ticket, call, context, held: Held::Verdict(verdict) });
                None
            }
            Effect::Call { ticket, call, .. } => {
                let nothing = || ToolReturn::note(CallStatus::Unknown, "outcome unknown: there is no result");
                let returned = Box::new(results.remove(&call.id).unwrap_or_else(nothing));
                Some(TurnMessage::ToolReturned { ticket, returned })
            }
            // Without a runtime no session works for another one.
            Effect::Child { ticket, .. } => {
                let nobody = ToolReturn::note(CallStatus::Error, "not run: sub-agents need a runtime");
                Some(TurnMessage::ToolReturned { ticket, returned: Box::new(nobody) })
            }
            // Without a runtime nothing is remembered: the caller decides each time.
            Effect::Remember(_) | Effect::GiveUp { .. } => None,
            Effect::Report(news) => {
                self.hear(news);
                None
            }
            Effect::Emit(event) => {
                if let AgentEvent::ApprovalRequested { approval_id, call, .. } = event.event {
                    self.name_approval(&call.id, approval_id);
                }
                None
            }
            Effect::Release { .. } | Effect::Abandon { .. } | Effect::AbandonAll => None,
        }
    }

    fn hear(&mut self, news: TurnNews) {
        match news {
            // The runner's journal keeps all appends, also those of a cancelled turn.
            TurnNews::Finished { submission, outcome } if submission == self.submission => {
                self.ended = Some(Ok(Box::new(TurnOutcome { saved: true, ..*outcome })));
            }
            TurnNews::Refused { submission, error } if submission == self.submission => self.ended = Some(Err(error)),
            TurnNews::Finished { .. }
            | TurnNews::Refused { .. }
            | TurnNews::Began { .. }
            | TurnNews::Paused { .. }
            | TurnNews::AtLimit { .. }
            | TurnNews::GivenUp { .. }
            | TurnNews::Unpaused { .. }
            | TurnNews::Configured { .. }
            | TurnNews::Steered { .. }
            | TurnNews::Orphaned { .. }
            | TurnNews::ChildGivenUp { .. }
            | TurnNews::TasksEnd { .. }
            | TurnNews::Closed
            | TurnNews::NotOpen { .. }
            | TurnNews::Flushed
            | TurnNews::Decided { .. }
            | TurnNews::Left => {}
        }
    }

    fn name_approval(&mut self, call: &CallId, name: ApprovalId) {
        let held = self.pending.iter_mut().find(|held| held.call.id == *call);
        if let Some(Pending { held: Held::Approval(_, id), .. }) = held {
            *id = Some(name);
        }
    }

    fn failed(&self, error: AgentError) -> Box<TurnOutcome> {
        Box::new(TurnOutcome::failed(self.session.clone(), self.submission.clone(), error))
    }
}

/// The results that were given and not taken yet.
type Results = BTreeMap<CallId, ToolReturn>;

/// A call without side effects has run when its result is available.
fn ran(verdict: Verdict, call: &ToolCall, results: &mut Results) -> Verdict {
    match verdict {
        Verdict::Running => results.remove(&call.id).map_or(Verdict::Running, |result| Verdict::Ran(Box::new(result))),
        verdict => verdict,
    }
}

fn returned(output: ToolOutput) -> ToolReturn {
    let status = if output.is_error { CallStatus::Error } else { CallStatus::Ok };
    // The caller supplies results when they are ready, so none waits.
    ToolReturn { status, output: ToolOutput { waits_for: None, ..output }, duration_ms: 0 }
}
