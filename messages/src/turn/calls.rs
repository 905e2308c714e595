//! CallTool: the calls of one step are checked, run and answered.
//!
//! Read-only calls run concurrently, and so do calls of sub-agents. Any other call runs
//! alone, after all calls before it. A call with side effects runs only when its intent
//! is durable. Every call has exactly one result; the history has them in call order.

use super::approvals::{approved, decided, denied};
use super::state::{Calling, Slot, State};
use super::{Effect, Turn, TurnMessage, agents, interrupted};
use crate::chat::{CallStatus, ToolCall};
use crate::event::CallState;
use crate::ids::{CallId, Ticket};
use crate::input::ApprovalsMode;
use crate::session_state::OpenCall;
use crate::store::StoreError;
use crate::tools::{CheckRequest, Risk, ToolReturn, Verdict};
use std::sync::Arc;

/// The result of a call whose actor ended while it ran.
const GONE: &str = "outcome unknown: the tool's actor went away during the call";

impl Turn {
    pub(super) fn enter_calls(&mut self, effects: &mut Vec<Effect>) {
        let Some(context) = self.context() else { return };
        self.state = State::CallTool(Calling { entered: false, context, slots: Vec::new() });
        effects.push(Effect::Tell(TurnMessage::CallTool));
    }

    /// Gives each call its slot: calls that a guard forbids are answered, the others are checked.
    pub(super) fn call_tool(&mut self, mut calling: Calling, effects: &mut Vec<Effect>) {
        let refused = self.open_calls().iter().find_map(|open| open.refused.filter(|_| open.result.is_none()));
        if refused.is_some_and(|guard| self.ask_at_limit(guard, effects)) {
            return;
        }
        calling.entered = true;
        calling.slots.reserve_exact(self.open_calls().len());
        let (mut answers, mut asked_again, mut handed_down) = (Vec::new(), Vec::new(), Vec::new());
        let (mut tickets, suspends, mut blocked) = (self.tickets, self.approvals() == ApprovalsMode::Suspend, false);
        for (at, open) in self.open_calls().iter().enumerate() {
            let asked = open.approval.as_ref();
            let slot = if open.result.is_some() {
                Slot::Finished
            } else if open.refused.is_some() {
                answers.push((
                    Arc::clone(&open.call),
                    ToolReturn::note(CallStatus::Cancelled, "not run: the turn has reached a limit"),
                ));
                Slot::Finished
            } else if let Some(below) = &open.below {
                handed_down.extend(below.decided.is_some().then_some(at));
                Slot::Waiting
            } else if let Some(outside) = open.outside.as_ref().filter(|_| open.is_permitted()) {
                let is_task = outside.server.as_ref().map(|wait| wait.is_task());
                match (&outside.came, is_task) {
                    (Some(reply), None | Some(true)) if is_task.is_none() || !reply.is_empty() => {
                        answers.push((Arc::clone(&open.call), ToolReturn::text(reply)));
                        Slot::Finished
                    }
                    (_, None) | (None, Some(false)) => Slot::Waiting,
                    (_, Some(true)) | (Some(_), Some(false)) => {
                        tickets += 1;
                        let run = !blocked && self.only_reads(&open.call);
                        blocked |= !run;
                        Slot::Checking { ticket: Ticket(tickets), run }
                    }
                }
            } else if let Some(answer) = self.known_of_task(&open.call) {
                answers.push((Arc::clone(&open.call), answer));
                Slot::Finished
            } else if open.call.name.is_ask_user() && self.is_sub_agent() {
                answers.push((Arc::clone(&open.call), ToolReturn::note(CallStatus::Error, agents::NOBODY_TO_ASK)));
                Slot::Finished
            } else if open.call.name.is_ask_user() {
                Slot::Question
            } else {
                match asked.map(|asked| (asked, asked.allowed)) {
                    Some((asked, None)) => {
                        blocked |= !suspends;
                        asked_again.push(at);
                        self.asked_before(&open.call, &asked.id, &mut tickets)
                    }
                    Some((asked, Some(false))) => {
                        let denied = ToolReturn::note(CallStatus::Denied, denied(&asked.reason));
                        answers.push((Arc::clone(&open.call), denied));
                        Slot::Finished
                    }
                    Some((_, Some(true))) | None => {
                        tickets += 1;
                        let run = !blocked && asked.is_none() && self.only_reads(&open.call);
                        blocked |= !run;
                        Slot::Checking { ticket: Ticket(tickets), run }
                    }
                }
            };
            self.called(&open.call, CallState::Proposed, effects);
            if let Some((asked, allowed)) = asked.and_then(|asked| Some((asked, asked.allowed?)))
                && open.result.is_none()
            {
                // It was decided while the turn was suspended, or before a crash.
                self.emit(effects, || decided(asked.id.clone(), &open.call, allowed));
            }
            calling.slots.push(slot);
        }
        for (call, returned) in answers {
            match returned.status {
                // Its server may have begun.
                CallStatus::Denied => self.refuse_call(&call, returned, effects),
                _ended => self.answer(&call, returned, effects),
            };
        }
        for at in asked_again {
            self.ask_person(at, effects);
        }
        self.tickets = tickets;
        for at in handed_down {
            calling.slots[at] = self.hand_down(at, effects);
        }
        for (at, slot) in calling.slots.iter().enumerate() {
            let (ticket, check) = match slot {
                Slot::Checking { ticket, run } => (*ticket, self.check_of(at, *run)),
                Slot::Rejudging { ticket, .. } => (*ticket, self.recheck_of(at)),
                _not_asked => continue,
            };
            let Some(check) = check else { continue };
            let context = self.context_of(&check.call.id, &calling.context);
            effects.push(Effect::Check { ticket, check, context });
        }
        self.advance(calling, effects);
    }

    pub(super) fn checked(
        &mut self,
        mut calling: Calling,
        ticket: Ticket,
        verdict: Option<Verdict>,
        effects: &mut Vec<Effect>,
    ) {
        let at = calling.slots.iter().position(|slot| match slot {
            Slot::Checking { ticket: awaiting, .. } => *awaiting == ticket,
            // It was noted as running; its result comes under the same ticket.
            Slot::Running(running) => running.ticket == ticket && matches!(verdict, Some(Verdict::Ran(_)) | None),
            Slot::Rejudging { ticket: awaiting, .. } => *awaiting == ticket,
            Slot::Asking(_)
            | Slot::Granted { .. }
            | Slot::Recording { .. }
            | Slot::Noting { .. }
            | Slot::Finished
            | Slot::Question
            | Slot::Waiting => false,
        });
        let Some((at, call)) = at.and_then(|at| Some((at, self.call_at(at)?))) else {
            self.state = State::CallTool(calling);
            return;
        };
        if let Slot::Rejudging { approval, .. } = &calling.slots[at] {
            let approval = approval.clone();
            return self.rejudged(calling, (at, approval), verdict, effects);
        }
        let is_running = matches!(calling.slots[at], Slot::Running(_));
        if !matches!(verdict, Some(Verdict::Running)) {
            self.progressed(effects);
        }
        calling.slots[at] = match verdict {
            Some(Verdict::Running) => {
                self.called(&call, CallState::Running, effects);
                // The call takes long: the model's reply is stored now and not after it.
                self.flush(effects);
                self.running(ticket, true, false)
            }
            Some(Verdict::Ran(returned)) => {
                if !is_running {
                    self.called(&call, CallState::Running, effects);
                }
                self.came_back(&call, *returned, effects)
            }
            // The server has the call; it could only not be asked for the result.
            Some(Verdict::Unavailable { why }) if self.is_held(&call.id) => {
                self.came_back(&call, ToolReturn::not_run(why), effects)
            }
            None if self.is_held(&call.id) => {
                self.came_back(&call, ToolReturn::note(CallStatus::Unknown, GONE), effects)
            }
            None if is_running => self.answer(&call, ToolReturn::note(CallStatus::Unknown, GONE), effects),
            Some(Verdict::Allow { grant, traits }) if grant.call == call.id => Slot::Granted { grant, traits },
            Some(Verdict::Ask { risk, reason, tool }) => self.ask(&call, risk, reason, tool, effects),
            Some(Verdict::Deny { reason }) => {
                self.refuse_call(&call, ToolReturn::note(CallStatus::Denied, denied(&reason)), effects)
            }
            Some(Verdict::Invalid { complaint }) => {
                self.refuse_call(&call, ToolReturn::note(CallStatus::Error, complaint), effects)
            }
            Some(Verdict::Unavailable { why }) => self.refuse_call(&call, ToolReturn::not_run(why), effects),
            // Without a verdict, or with the permission of another call.
            Some(Verdict::Allow { .. }) | None => {
                let why = "not run: the call was not checked against the policy";
                self.refuse_call(&call, ToolReturn::note(CallStatus::Error, why), effects)
            }
        };
        self.advance(calling, effects);
    }

    pub(super) fn tool_returned(
        &mut self,
        mut calling: Calling,
        ticket: Ticket,
        returned: ToolReturn,
        effects: &mut Vec<Effect>,
    ) {
        let runs = |slot: &Slot| matches!(slot, Slot::Running(running) if running.ticket == ticket);
        let at = calling.slots.iter().position(runs);
        if let Some((at, call)) = at.and_then(|at| Some((at, self.call_at(at)?))) {
            self.progressed(effects);
            let is_doubted = matches!(&calling.slots[at], Slot::Running(running) if running.doubted);
            self.tell_lost(&call, is_doubted && returned.status == CallStatus::Cancelled, effects);
            let mut returned = self.as_it_is_known(&calling.slots[at], returned);
            calling.slots[at] = match self.suspend_on_child(&call, &calling.slots[at], &mut returned, effects) {
                Some(waits) => waits,
                None => self.came_back(&call, self.counted_below(&call, returned), effects),
            };
            self.flush(effects);
            self.advance(calling, effects);
        } else {
            self.state = State::CallTool(calling);
        }
    }

    /// Records became durable, or could not: intents that waited for it go on.
    pub(super) fn intents_stored(
        &mut self,
        mut calling: Calling,
        result: Result<u64, StoreError>,
        effects: &mut Vec<Effect>,
    ) {
        let durable = self.outbox.durable;
        // Without a waiting intent nothing continues, so the refused records are not sent again at
        // once: with a full disk that would be an endless loop.
        let mut happened = result.is_ok();
        for at in 0..calling.slots.len() {
            if let Slot::Noting { until } = calling.slots[at]
                && (result.is_err() || until <= durable)
            {
                // Without the record the task is lost in a crash, and only there.
                calling.slots[at] = self.follow(at, &calling.context, effects);
                happened = true;
                continue;
            }
            let Slot::Recording { grant, until, doubted } = &calling.slots[at] else { continue };
            happened = true;
            let (grant, until, doubted) = (grant.clone(), *until, *doubted);
            let Some(call) = self.call_at(at) else { continue };
            calling.slots[at] = match &result {
                Ok(_) if until <= durable => self.run(&calling, call, grant, (false, doubted), effects),
                Ok(_) => continue,
                Err(error) => {
                    let text = format!("not run: it could not be journaled first ({error})");
                    let why = ToolReturn::note(CallStatus::Error, text);
                    self.tell_lost(&call, doubted, effects);
                    self.answer(&call, if doubted { interrupted::doubted(&why) } else { why }, effects)
                }
            };
        }
        if happened {
            self.advance(calling, effects);
        } else {
            self.state = State::CallTool(calling);
        }
    }

    /// Starts what may start now; goes on when every call has its result.
    pub(super) fn advance(&mut self, mut calling: Calling, effects: &mut Vec<Effect>) {
        if self.open_turn().is_some_and(|open| open.step.is_none()) {
            return self.go_on(effects);
        }
        let suspends = self.approvals() == ApprovalsMode::Suspend;
        // A call may run that was judged and started at once, and one behind a question to a person
        // may be about to; one with side effects runs alone.
        let may_run_behind = |slot: &Slot| {
            let is_begun = matches!(slot, Slot::Running(_) | Slot::Recording { .. } | Slot::Noting { .. });
            is_begun || matches!(slot, Slot::Checking { run: true, .. })
        };
        let (mut unfinished, mut blocked, mut person) = (false, false, None);
        let mut agents = self.agents_at_work(&calling.slots);
        for at in 0..calling.slots.len() {
            match &calling.slots[at] {
                Slot::Finished => {}
                Slot::Question | Slot::Waiting => person = person.or(Some(at)),
                Slot::Asking(_) if suspends => person = person.or(Some(at)),
                Slot::Checking { .. }
                | Slot::Asking(_)
                | Slot::Rejudging { .. }
                | Slot::Recording { .. }
                | Slot::Noting { .. } => (unfinished, blocked) = (true, true),
                Slot::Running(running) => (unfinished, blocked) = (true, blocked || !running.read_only),
                Slot::Granted { grant, traits } => {
                    let (grant, traits) = (grant.clone(), *traits);
                    let may_run = match traits.read_only {
                        true => !blocked,
                        false if agents.may_begin(at) => true,
                        false => agents.has_place(at) && !unfinished && !calling.slots.iter().any(may_run_behind),
                    };
                    if let Some(call) = self.call_at(at).filter(|_| may_run) {
                        calling.slots[at] = if traits.read_only || self.is_task(&call.id) {
                            self.run(&calling, call, grant, (traits.read_only, false), effects)
                        } else {
                            self.intend(&calling, at, call, (grant, traits), effects)
                        };
                        // A call that was given no child takes no place.
                        agents = self.agents_at_work(&calling.slots);
                    }
                    if !matches!(calling.slots[at], Slot::Finished) {
                        (unfinished, blocked) = (true, blocked || !traits.read_only);
                    }
                }
            }
        }
        // What the tools room is about to judge is written with its intents.
        if !calling.slots.iter().any(|slot| matches!(slot, Slot::Checking { .. })) {
            self.flush(effects);
        }
        match person.filter(|_| !unfinished) {
            Some(at) => self.suspend(at, effects),
            // The last call got its result here.
            None if self.open_turn().is_some_and(|open| open.step.is_none()) => self.go_on(effects),
            None => self.state = State::CallTool(calling),
        }
    }

    /// Whether a call changes nothing and is of a kind that seldom needs a person, by the definitions of this turn's
    /// tools. The tools room decides.
    pub(super) fn only_reads(&self, call: &ToolCall) -> bool {
        let tool = self.frame.as_ref().and_then(|frame| frame.tools.get(&call.name));
        tool.is_some_and(|tool| tool.read_only && tool.risk < Risk::High)
    }

    pub(super) fn open_calls(&self) -> &[OpenCall] {
        let open = self.open_turn();
        open.and_then(|open| open.step.as_ref()).map_or(&[], |step| step.calls.as_slice())
    }

    pub(super) fn open_call(&self, id: &CallId) -> Option<&OpenCall> {
        self.open_calls().iter().find(|open| open.call.id == *id)
    }

    /// The question to the tools room about a call that waits to be judged.
    pub(super) fn check_of(&self, at: usize, run: bool) -> Option<CheckRequest> {
        let open = self.open_calls().get(at)?;
        let (call, approved) = (Arc::clone(&open.call), open.approval.as_ref().and_then(approved));
        Some(CheckRequest { call, approved, standing: self.standing(&open.call), run })
    }

    pub(super) fn call_at(&self, at: usize) -> Option<Arc<ToolCall>> {
        self.open_calls().get(at).map(|open| Arc::clone(&open.call))
    }
}
