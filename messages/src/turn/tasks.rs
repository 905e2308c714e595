//! Tasks: calls of sub-agents that work in the background, which have their result before the sub-agent has ended.
//!
//! The child of a call is written with its intent, so that a restart of the program has the same session work on. The end
//! of a child is a second result of the call: the fold keeps it with the task, and counts what was used. The end of a turn
//! waits for the children that end with it. The result of one that outlives its turn is an input of the session, written
//! when nothing is open.

use super::state::{Calling, Slot, State};
use super::{Child, Effect, Turn, TurnMessage, interrupted};
use crate::agent::{Delegation, RESULT, Task, TaskQuestion, child_of, result_input};
use crate::chat::{CallStatus, FinishReason, ToolCall, ToolResult};
use crate::event::CallState;
use crate::ids::{CallId, ResumeToken, SessionId, Ticket, TurnId};
use crate::options::OnParentEnd;
use crate::session_state::OpenCall;
use crate::store::{Ended, Fact};
use crate::submission::TurnNews;
use crate::tools::{CallTraits, Grant, ToolReturn};
use crate::turn_config::{OnRestart, TurnConfig};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What the machine waits for of sessions that work in the background.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Background {
    /// The questions for the outcomes of children, by call.
    asked: Vec<(CallId, Ticket)>,
    /// The end of the turn, which waits for them.
    ended: Option<Ended>,
    /// The children that end with it are notified when this version is durable.
    #[serde(default)]
    told_at: Option<u64>,
}

impl Turn {
    /// The child of a call, if it is to work in the background. Errors: why there is none, for the model.
    pub(super) fn task_of(&self, calling: &Calling, call: &ToolCall) -> Result<Option<Arc<Delegation>>, String> {
        if let Some(known) = self.child_in_background(call) {
            return Ok(Some(known));
        }
        let Some(agent) = self.agent_of(call).filter(|agent| agent.background().is_some()) else { return Ok(None) };
        let (Some(turn_config), Some(open)) = (&self.turn_config, self.open_turn()) else { return Ok(None) };
        let (context, _) = self.handed_down(calling, call)?;
        let token = ResumeToken::new(format!("{}-{}", open.input.token, call.id));
        let child = Delegation::of(agent, call, &context, turn_config.mode, (self.now.wall, token));
        let mut child = child.map_err(|error| error.to_string())?;
        if self.is_sub_agent() {
            // Its caller waits for one answer of this session, which is then given.
            child.end_with_caller();
        }
        Ok(Some(Arc::new(child)))
    }

    pub(super) fn intend(
        &mut self,
        calling: &Calling,
        at: usize,
        call: Arc<ToolCall>,
        (grant, traits): (Grant, CallTraits),
        effects: &mut Vec<Effect>,
    ) -> Slot {
        let known = self.open_calls().get(at);
        let (doubted, is_known) = known.map_or((false, false), |open| (open.intent.is_some(), open.task.is_some()));
        match self.task_of(calling, &call) {
            // Its child is named in the journal.
            Ok(Some(_)) if is_known => self.run(calling, call, grant, (false, doubted), effects),
            Ok(task) => {
                self.record_in_turn(Fact::Intent { call: call.id.clone(), traits, task });
                Slot::Recording { grant, until: self.await_durable(), doubted }
            }
            Err(why) => self.not_handed_down(&call, &why, doubted, effects),
        }
    }

    /// A call of an agent that is given no child gets its result.
    pub(super) fn not_handed_down(
        &mut self,
        call: &ToolCall,
        why: &str,
        doubted: bool,
        effects: &mut Vec<Effect>,
    ) -> Slot {
        let why = ToolReturn::note(CallStatus::Error, format!("not run: {why}"));
        if doubted {
            // The child that it began before a crash gets no further.
            self.tell_orphan(call, effects);
        }
        self.answer(call, if doubted { interrupted::doubted(&why) } else { why }, effects)
    }

    /// The child that works for a call of the open step, as it was written.
    pub(super) fn child_in_background(&self, call: &ToolCall) -> Option<Arc<Delegation>> {
        self.open_call(&call.id)?.task.clone()
    }

    /// The child of a call begins to work, or may have begun before a crash; the call has its result.
    pub(super) fn begin_task(
        &mut self,
        child: &Arc<Delegation>,
        call: &Arc<ToolCall>,
        doubted: bool,
        effects: &mut Vec<Effect>,
    ) -> Slot {
        self.called(call, CallState::Running, effects);
        self.delegate(call, child, doubted, effects);
        self.answer(call, crate::agent::begun(call, child), effects)
    }

    fn delegate(&mut self, call: &Arc<ToolCall>, child: &Arc<Delegation>, again: bool, effects: &mut Vec<Effect>) {
        let Some(turn_config) = self.turn_config.clone() else { return };
        // It is asked for again to go on with a turn that it began.
        let turn_config = match turn_config.on_restart {
            OnRestart::Resume => turn_config,
            OnRestart::Report => Arc::new(TurnConfig { on_restart: OnRestart::Resume, ..(*turn_config).clone() }),
        };
        self.ask_child(call, Child::Works { task: Arc::clone(child), turn_config, again }, effects);
    }

    fn ask_child(&mut self, call: &Arc<ToolCall>, child: Child, effects: &mut Vec<Effect>) {
        let ticket = self.ticket();
        self.background.get_or_insert_default().asked.push((call.id.clone(), ticket));
        effects.push(Effect::Child { ticket, call: Arc::clone(call), child: Box::new(child) });
    }

    pub(super) fn asks_child_of(&self, call: &CallId) -> bool {
        self.background.as_ref().is_some_and(|background| background.asked.iter().any(|(of, _)| of == call))
    }

    /// The children of tasks that end with the turn and are not asked: they could not be reached when they were asked again.
    /// They get no further.
    pub(super) fn lost_children(&self, how: FinishReason) -> Vec<SessionId> {
        let Some(session) = self.session.as_ref().filter(|session| !session.tasks.is_empty()) else {
            return Vec::new();
        };
        let Some(open) = session.running() else { return Vec::new() };
        let is_lost = |task: &&Task| task.ends_with(&open.input.turn, how) && !self.asks_child_of(&task.call.id);
        session.tasks.iter().filter(is_lost).map(|task| task.child.session.clone()).collect()
    }

    /// Ends the children in the background of a suspended turn that is given up: no answer of them is wanted.
    pub(super) fn give_up_tasks(&mut self, effects: &mut Vec<Effect>) {
        let Some(session) = &self.session else { return };
        let Some(open) = &session.open else { return };
        let ends = |task: &&Task| task.ends_with(&open.input.turn, FinishReason::Cancelled);
        let tasks: Vec<_> = session.tasks.iter().filter(ends).cloned().collect();
        if tasks.is_empty() {
            return;
        }
        let is_given_up = |call: &CallId| tasks.iter().any(|task| task.call.id == *call);
        if let Some(background) = &mut self.background {
            let given_up = background.asked.extract_if(.., |(call, _)| is_given_up(call));
            effects.extend(given_up.map(|(_, ticket)| Effect::Abandon { ticket }));
        }
        effects.push(Effect::Report(TurnNews::TasksEnd { children: tasks.iter().map(child_turn).collect() }));
        self.forget_background();
    }

    fn forget_background(&mut self) {
        if self.background.as_ref().is_some_and(|background| background.asked.is_empty() && background.ended.is_none())
        {
            self.background = None;
        }
    }

    /// Abandons all questions.
    pub(super) fn abandon_all(&mut self, effects: &mut Vec<Effect>) {
        self.background = None;
        effects.push(Effect::AbandonAll);
    }

    /// Asks again for what works in the background: for the running turn, and for those that have ended.
    pub(super) fn follow_tasks(&mut self, effects: &mut Vec<Effect>) {
        let Some(session) = self.session.as_ref().filter(|session| !session.tasks.is_empty()) else { return };
        // The tasks of one that is being closed do not work again.
        let runs = session.running().filter(|_| !matches!(self.state, State::Done(_))).map(|open| &open.input.turn);
        let is_followed = |task: &&Task| {
            let goes_on = task.on_parent_end() == OnParentEnd::Continue || runs == Some(&task.caller.turn);
            task.result.is_none() && goes_on && !self.asks_child_of(&task.call.id)
        };
        let open: Vec<_> = session.tasks.iter().filter(is_followed).cloned().collect();
        for task in open {
            self.delegate(&task.call, &task.child, true, effects);
        }
    }

    /// The answer to a call about a task, if it is known at once; `None` for other calls, and where it is waited for.
    pub(super) fn known_of_task(&self, call: &ToolCall) -> Option<ToolReturn> {
        let asked = TaskQuestion::of(call)?;
        let is_offered = self.frame.as_ref().is_some_and(|frame| frame.tools.get(&call.name).is_some());
        let task = self.session.as_ref()?.tasks.get(&asked.task);
        let waits = asked.wait_ms > 0 && task.is_some_and(|task| task.result.is_none());
        if waits || !is_offered {
            return None;
        }
        self.task_asked(call)
    }

    pub(super) fn task_asked(&self, call: &ToolCall) -> Option<ToolReturn> {
        let asked = TaskQuestion::of(call)?;
        let Some(task) = self.session.as_ref()?.tasks.get(&asked.task) else {
            let text =
                format!("the session has no task {}; its result was given already, or there was none", asked.task);
            return Some(ToolReturn::note(CallStatus::Error, text));
        };
        Some(if call.name.as_str() == RESULT { task.answer() } else { task.told() })
    }

    /// Takes the result of a child that has ended, or its outcome as it was read. Returns whether the message was one.
    pub(super) fn take_child_result(&mut self, message: &TurnMessage, effects: &mut Vec<Effect>) -> bool {
        let (TurnMessage::ToolReturned { ticket, returned }, Some(background)) = (message, &mut self.background) else {
            return false;
        };
        let Some(at) = background.asked.iter().position(|(_, asked)| asked == ticket) else { return false };
        let (call, _) = background.asked.remove(at);
        // As those that are told when a journal was read: an earlier program may have left something below it.
        let failed = returned.status == CallStatus::Error && returned.output.delegated.is_some();
        if let Some((child, turn)) = self.child_asked(&call).filter(|_| failed) {
            effects.push(Effect::Report(TurnNews::ChildGivenUp { child, turn }));
        }
        if let Some(session) = &self.session {
            match session.tasks.get(&call).filter(|task| task.result.is_none()) {
                // Its outcome is not known: [`Turn::follow_tasks`] asks for it again.
                Some(_) if returned.status == CallStatus::Unknown => {}
                Some(task) => {
                    let (of, turn) = (Arc::clone(&task.call), task.caller.turn.clone());
                    self.task_ended(&of, turn, (**returned).clone(), effects);
                }
                None => self.outcome_read(&call, returned, effects),
            }
            self.tasks_go_on(&call, effects);
        }
        self.forget_background();
        true
    }

    /// The session and the turn that work for this call.
    fn child_asked(&self, call: &CallId) -> Option<(SessionId, TurnId)> {
        let session = self.session.as_ref()?;
        match session.tasks.get(call) {
            Some(task) => Some(child_turn(task)),
            None => child_of(&session.id, &self.open_turn()?.input.turn, call),
        }
    }

    fn task_ended(&mut self, call: &ToolCall, turn: TurnId, returned: ToolReturn, effects: &mut Vec<Effect>) {
        let ToolReturn { status, output, duration_ms } = returned;
        let (id, name) = (call.id.clone(), call.name.clone());
        let result = Arc::new(ToolResult { call: id, name, status, output, duration_ms });
        self.record(Some(turn), Fact::Result(result));
        self.flush(effects);
    }

    /// The outcome of a child whose call is open: it is the result, if there is one.
    fn outcome_read(&mut self, call: &CallId, returned: &ToolReturn, effects: &mut Vec<Effect>) {
        let open = self.open_call(call).filter(|open| open.result.is_none());
        let open = open.map(|open| Arc::clone(&open.call)).filter(|_| returned.status != CallStatus::Unknown);
        if let Some(call) = open {
            self.answer(&call, returned.clone(), effects);
        }
    }

    /// Goes on where something waits for the end of a task.
    fn tasks_go_on(&mut self, task: &CallId, effects: &mut Vec<Effect>) {
        match std::mem::replace(&mut self.state, State::Idle) {
            State::CallTool(mut calling) if calling.entered => {
                self.answer_waiting(task, &mut calling, effects);
                self.advance(calling, effects);
            }
            State::Idle if !self.unrecovered => {
                if self.bring_result(effects) {
                    self.begin_next(effects);
                }
            }
            state => self.state = state,
        }
        self.end_behind_children(effects);
    }

    fn answer_waiting(&mut self, task: &CallId, calling: &mut Calling, effects: &mut Vec<Effect>) {
        for at in 0..calling.slots.len() {
            let ticket = match &calling.slots[at] {
                Slot::Running(running) => running.ticket,
                Slot::Checking { ticket, run: true } => *ticket,
                _waits_for_something_else => continue,
            };
            let Some(call) = self.call_at(at) else { continue };
            let waits = TaskQuestion::of(&call).is_some_and(|asked| asked.task == *task);
            let Some(answer) = self.known_of_task(&call).filter(|_| waits) else { continue };
            effects.push(Effect::Abandon { ticket });
            self.progressed(effects);
            calling.slots[at] = self.answer(&call, answer, effects);
        }
    }

    /// Lets the end of the turn wait for children that end with it, which are cancelled, and for outcomes that are being
    /// read. Returns whether it waits.
    pub(super) fn wait_for_children(&mut self, ended: &Ended, effects: &mut Vec<Effect>) -> bool {
        let is_read = |open: &OpenCall| open.result.is_none() && self.asks_child_of(&open.call.id);
        let reads = self.background.is_some() && self.open_calls().iter().any(is_read);
        if self.ending_with(ended).next().is_none() && !reads {
            return false;
        }
        // The answer for which they end is in the journal before.
        let told_at = self.outbox.has_unsent().then(|| self.await_durable());
        self.flush(effects);
        if let Some(background) = &mut self.background {
            background.ended = Some(ended.clone());
            background.told_at = told_at.or(background.told_at);
        }
        self.tell_the_end(false, effects);
        true
    }

    /// The tasks whose end is awaited, and which end with the turn.
    fn ending_with(&self, ended: &Ended) -> impl Iterator<Item = &Task> {
        let session = self.session.as_ref().filter(|_| self.background.is_some());
        let running = session.and_then(|session| Some((session, &session.running()?.input.turn)));
        let tasks = running.into_iter().flat_map(|(session, turn)| session.tasks.iter().map(move |task| (task, turn)));
        let how = ended.finish_reason;
        let ends = tasks.filter(move |(task, turn)| task.ends_with(turn, how) && self.asks_child_of(&task.call.id));
        ends.map(|(task, _)| task)
    }

    /// Tells the children of a turn that ends, when its answer is durable, or the store did not take it.
    pub(super) fn tell_the_end(&mut self, is_refused: bool, effects: &mut Vec<Effect>) {
        let Some(background) = &mut self.background else { return };
        if background.told_at.is_some_and(|version| version > self.outbox.durable && !is_refused) {
            return;
        }
        background.told_at = None;
        let Some(ended) = &self.background.as_ref().and_then(|background| background.ended.clone()) else { return };
        let children: Vec<_> = self.ending_with(ended).map(child_turn).collect();
        if !children.is_empty() {
            effects.push(Effect::Report(TurnNews::TasksEnd { children }));
        }
    }

    /// The turn ends, if all children have that its end waits for.
    fn end_behind_children(&mut self, effects: &mut Vec<Effect>) {
        let Some(ended) = self.background.as_mut().and_then(|background| background.ended.take()) else { return };
        if !matches!(self.state, State::Done(_)) || self.wait_for_children(&ended, effects) {
            return;
        }
        self.tell_orphans(effects);
        self.settle_calls(&[], effects);
        effects.push(Effect::Tell(TurnMessage::Done { ended: Box::new(ended) }));
    }

    /// Writes the result of a task that has outlived its turn as an input, if nothing is open and the turn that it begins
    /// would not be cut off. Returns whether it did.
    pub(super) fn bring_result(&mut self, effects: &mut Vec<Effect>) -> bool {
        let Some(session) = &self.session else { return false };
        if self.draining || session.open.is_some() || !session.waiting.is_empty() {
            return false;
        }
        let Some(task) = session.tasks.iter().find(|task| task.result.is_some()) else { return false };
        let input = Arc::new(result_input(task, self.now.wall));
        self.record(Some(input.turn.clone()), Fact::Input(input));
        self.flush(effects);
        true
    }

    /// Has the outcomes read of children that may have ended before a crash: those of open calls, and of tasks that end
    /// with the turn.
    pub(super) fn read_outcomes(&mut self, effects: &mut Vec<Effect>) {
        let (Some(session), Some(open)) = (&self.session, self.open_turn()) else { return };
        let ends = |task: &&Task| task.ends_with(&open.input.turn, FinishReason::Error);
        let tasks = session.tasks.iter().filter(ends).map(|task| (Arc::clone(&task.call), child_turn(task)));
        let begun = open.step.iter().flat_map(|step| &step.calls);
        let begun =
            begun.filter(|open| open.result.is_none() && open.intent.is_some() && super::agents::is_agent(&open.call));
        let named: Vec<(Arc<ToolCall>, (SessionId, TurnId))> = begun
            .filter_map(|call| Some((Arc::clone(&call.call), child_of(&session.id, &open.input.turn, &call.call.id)?)))
            .chain(tasks)
            .collect();
        for (call, (session, turn)) in named {
            self.ask_child(&call, Child::Worked { session, turn }, effects);
        }
    }
}

fn child_turn(task: &Task) -> (SessionId, TurnId) {
    (task.child.session.clone(), task.child.input.turn.clone())
}
