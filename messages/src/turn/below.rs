//! Sub-agents that are suspended: what they ask suspends the turn that called them, and what a person decides is handed
//! down to them.
//!
//! A call whose sub-agent is suspended has no result. Its turn is suspended when nothing else of the step is left to do,
//! with a token of its own: the token of the sub-agent is for its caller only. The decision is written before it is handed
//! down, with the submission that brought it; the sub-agent takes a submission once, so it may be handed down again after
//! a crash. A call that gets its result otherwise gives its sub-agent up, and that is closed where it is suspended.

use super::server_waits::MOST_WORDS_BYTES;
use super::state::{Slot, State};
use super::{Child, Effect, Turn, TurnMessage, agents};
use crate::agent::{NAMESPACE, Resumption};
use crate::chat::{Asking, CallStatus, ToolCall};
use crate::event::CallState;
use crate::ids::{ApprovalId, TurnId};
use crate::options::ParentTurn;
use crate::outcome::EndReason;
use crate::session_state::{GivenUp, OpenCall, OpenTurn};
use crate::store::{AskedBelow, Fact};
use crate::submission::TurnNews;
use crate::tools::{AgentLine, ToolReturn};
use crate::turn_config::{OnRestart, TurnConfig};
use std::sync::Arc;

/// The result of a call whose sub-agent was suspended when its turn ended.
pub(crate) const ENDED_ASKING: &str =
    "outcome unknown: the turn ended while the agent waited for a person; the call it asked about was not run";

impl Turn {
    /// A call came back since its sub-agent was suspended; `None` for any other.
    pub(super) fn suspend_on_child(
        &mut self,
        call: &Arc<ToolCall>,
        slot: &Slot,
        returned: &mut ToolReturn,
        effects: &mut Vec<Effect>,
    ) -> Option<Slot> {
        let is_meant = agents::is_agent(call) && returned.status == CallStatus::Ok;
        let child = Asking::of(&returned.output).filter(|_| is_meant)?;
        let mut question = returned.output.waits_for.take()?;
        question.truncate(question.floor_char_boundary(MOST_WORDS_BYTES));
        let known = self.open_call(&call.id)?.below.as_deref();
        let held = match slot {
            Slot::Running(running) => running.holds.as_deref(),
            _holds_nothing => None,
        };
        let held = held.or(known.map(|known| &known.asked.limits));
        let limits = *held.or(self.open_turn().map(OpenTurn::limits))?;
        let times = known.map_or(0, |known| known.times) + 1;
        let approval = ApprovalId::new(self.owned(format!("{}-{}-below{times}", self.id, call.id)));
        let child = Some(Box::new(AskedBelow { approval, child, limits }));
        self.called(call, CallState::AwaitingApproval, effects);
        self.record_in_turn(Fact::Waits { call: call.id.clone(), what: question, child, server: None });
        Some(Slot::Waiting)
    }

    pub(super) fn hand_down(&mut self, at: usize, effects: &mut Vec<Effect>) -> Slot {
        let Some((call, child)) = self.resumption(at) else { return Slot::Waiting };
        let ticket = self.ticket();
        self.called(&call, CallState::Running, effects);
        effects.push(Effect::Child { ticket, call, child: Box::new(child) });
        self.running(ticket, false, false)
    }

    fn resumption(&self, at: usize) -> Option<(Arc<ToolCall>, Child)> {
        let (session, turn_config) = (self.session.as_ref()?, self.turn_config.as_ref()?);
        let (turn, open) = (&session.running()?.input.turn, self.open_calls().get(at)?);
        let below = open.below.as_deref()?;
        let (submission, decision) = below.decided.clone()?;
        // One of its own at each level, by which readers of events distinguish the ends of the turns.
        let submission = TurnId::new(format!("{submission}-{}", open.call.id));
        let mut line = AgentLine::of(&session.options);
        line.agents.extend(open.call.name.as_str().strip_prefix(NAMESPACE).map(str::to_owned));
        let parent = ParentTurn {
            session: session.id.clone(),
            turn: turn.clone(),
            call: open.call.id.clone(),
            depth: session.options.parent.as_ref().map_or(0, |parent| parent.depth) + 1,
            line: Some(Arc::new(line)),
            on_parent_end: None,
        };
        // It goes on with what it does already if the decision was handed down before a crash.
        let turn_config = Arc::new(TurnConfig { on_restart: OnRestart::Resume, ..(**turn_config).clone() });
        let resumption = Resumption {
            child: below.asked.child.clone(),
            question: below.question.clone(),
            submission,
            decision,
            limits: below.asked.limits,
            tenant: session.tenant.clone(),
            parent,
        };
        Some((Arc::clone(&open.call), Child::Resumes { resumption: Box::new(resumption), turn_config }))
    }

    /// A call whose sub-agent was suspended gets its result at the end of its turn. What it used until then counts.
    pub(super) fn ended_asking(open: &OpenCall, returned: ToolReturn) -> ToolReturn {
        let Some(below) = open.below.as_deref() else { return returned };
        let mut returned = match below.decided {
            None => ToolReturn::note(CallStatus::Unknown, ENDED_ASKING),
            Some(_) => returned,
        };
        returned.output.delegated = Some(Box::new(below.asked.child.used));
        returned
    }

    /// A call whose sub-agent went on, and whose result does not say what was used, or less than was used until it was
    /// suspended: that counts.
    pub(super) fn counted_below(&self, call: &ToolCall, mut returned: ToolReturn) -> ToolReturn {
        let open = self.open_call(&call.id);
        if let Some(below) = open.and_then(|open| open.below.as_deref()) {
            let known = below.asked.child.used;
            let is_said = returned.output.delegated.as_ref().is_some_and(|said| said.steps >= known.steps);
            if !is_said {
                returned.output.delegated = Some(Box::new(known));
            }
        }
        returned
    }

    /// Tells which suspended turns of sub-agents are to be closed, since their calls have ended.
    pub(super) fn tell_given_up(&self, effects: &mut Vec<Effect>) {
        self.tell_of(|given_up| !given_up.failed, effects);
    }

    /// Also those that have failed: a program that stopped may have closed them, and not what worked for them. They are told when
    /// a turn has ended and when a journal was read, and not each time: most failures leave nothing behind.
    pub(super) fn tell_all_given_up(&self, effects: &mut Vec<Effect>) {
        self.tell_of(|_| true, effects);
    }

    fn tell_of(&self, is_meant: impl Fn(&GivenUp) -> bool, effects: &mut Vec<Effect>) {
        let given_up = self.session.iter().flat_map(|session| &session.given_up);
        effects.extend(given_up.filter(|given_up| is_meant(given_up)).map(|given_up| {
            let (child, turn) = (given_up.session.clone(), given_up.turn.clone());
            Effect::Report(TurnNews::ChildGivenUp { child, turn })
        }));
    }

    /// The call has ended that this turn works for. One whose suspension is not durable yet is closed when it is.
    pub(super) fn given_up(&mut self, turn: TurnId, turn_config: Arc<TurnConfig>, effects: &mut Vec<Effect>) {
        let open = self.session.as_ref().and_then(|session| session.open.as_ref());
        let is_suspended = open.is_some_and(|open| open.input.turn == turn && open.suspended.is_some());
        match is_suspended && !matches!(self.state, State::Idle) {
            true => self.deferred.push(TurnMessage::GivenUp { turn, turn_config }),
            false => self.close_given_up(&turn, effects),
        }
    }

    /// The turn is suspended, durably: it is closed if it was given up meanwhile.
    pub(super) fn close_deferred(&mut self, effects: &mut Vec<Effect>) {
        let is_given_up = |request: &mut TurnMessage| matches!(request, TurnMessage::GivenUp { .. });
        let given_up: Vec<_> = self.deferred.extract_if(.., is_given_up).collect();
        for request in given_up {
            self.step(request, effects);
        }
    }

    /// Closes the turn if it is suspended, since the call that it works for has ended, and those below it. So it does with one
    /// that an earlier program left open: it is not continued. One that runs is cancelled by its caller.
    fn close_given_up(&mut self, turn: &TurnId, effects: &mut Vec<Effect>) {
        let open = self.session.as_ref().and_then(|session| session.open.as_ref());
        let open = open.filter(|open| open.input.turn == *turn).map(|open| open.suspended.is_some());
        match open {
            Some(true) => {
                self.close_suspended(effects);
                self.flush(effects);
            }
            Some(false) if self.unrecovered && matches!(self.state, State::Idle) => {
                self.close(EndReason::Cancelled, effects);
            }
            Some(false) | None => {}
        }
        self.tell_all_given_up(effects);
        effects.push(Effect::Report(TurnNews::Closed));
    }

    /// Whether the suspended turn is one of a call, whose caller alone may resume it.
    pub(super) fn is_resumed_by_caller(open: &OpenTurn) -> bool {
        open.input.works_for().is_some()
    }
}
