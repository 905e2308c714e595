//! Sub-agents: which of them a turn is offered, how many run beside each other, and what a call of one hands down.
//!
//! A call of a sub-agent has side effects as far as the journal is concerned, so its intent is durable first, and it may
//! be made again, since the session that works for it is named after it. Calls of sub-agents run beside each other, unlike
//! others with side effects: each is a conversation of its own.

use super::state::{Calling, Slot};
use super::{Effect, Turn};
use crate::agent::{Agent, Caller, NAMESPACE, Task, session_of};
use crate::chat::{Message, ToolCall};
use crate::limits::Limits;
use crate::session_state::{OpenCall, Session};
use crate::submission::TurnNews;
use crate::tools::{AgentLine, CallContext, ToolSet};
use crate::turn_config::TurnConfig;
use std::sync::Arc;

/// The answer to a question of a sub-agent to the user.
pub(super) const NOBODY_TO_ASK: &str = "not asked: an agent that works for another one has no user to ask; decide yourself, or say in your answer what is missing";

/// The result of a call of a sub-agent that waits for something outside.
pub(super) const NOTHING_OUTSIDE: &str =
    "the tool waits for something outside, which an agent that works for another one cannot; say so in your answer";

/// How many bytes of a conversation a sub-agent receives, and of each message of it.
const TOLD_BYTES: (usize, usize) = (6 * 1024, 600);

/// The calls of a step that are of sub-agents: which may begin now.
#[derive(Debug)]
pub(super) struct AtWork {
    /// For each call whether it is one.
    are_agents: Vec<bool>,
    /// How many more may begin.
    left: usize,
    /// The first call that has to run alone; no sub-agent behind it may begin.
    behind: usize,
}

impl AtWork {
    pub(super) fn may_begin(&self, at: usize) -> bool {
        self.left > 0 && at < self.behind && self.are_agents.get(at) == Some(&true)
    }

    /// Whether there is a place for the call, if it is one of an agent.
    pub(super) fn has_place(&self, at: usize) -> bool {
        self.left > 0 || self.are_agents.get(at) != Some(&true)
    }
}

impl Turn {
    /// How turns are run here; `None` before the first message that says it.
    pub fn turn_config(&self) -> Option<&Arc<TurnConfig>> {
        self.turn_config.as_ref()
    }

    /// The calls of the open step, in the model's order.
    pub fn calls(&self) -> impl Iterator<Item = &Arc<ToolCall>> {
        self.open_calls().iter().map(|open| &open.call)
    }

    /// Whether the session works for a call of an agent.
    pub fn is_sub_agent(&self) -> bool {
        let parent = self.session.as_ref().and_then(|session| session.options.parent.as_ref());
        parent.is_some_and(|parent| parent.line.is_some())
    }

    /// The agents above and with the session, if it works for a call of an agent.
    pub(super) fn agents_above(&self) -> Vec<String> {
        let parent = self.session.as_ref().and_then(|session| session.options.parent.as_ref());
        parent.and_then(|parent| parent.line.as_ref()).map(|line| line.agents.clone()).unwrap_or_default()
    }

    /// A question to a person, with the agents above and with the session.
    pub(super) fn with_agents_above(&self, question: String) -> String {
        match self.agents_above().join(" > ").as_str() {
            "" => question,
            agents => format!("{question} (asked by the agent {agents})"),
        }
    }

    /// The sub-agent that the session is of, if it works for a call.
    pub(super) fn own_agent(&self) -> Option<&Agent> {
        let name = self.session.as_ref()?.options.parent.as_ref()?.line.as_ref()?.agents.last()?;
        self.turn_config.as_ref()?.subagents.iter().find(|agent| agent.name() == name)
    }

    /// The sub-agent that a call is of.
    pub fn agent_of(&self, call: &ToolCall) -> Option<&Agent> {
        let name = call.name.as_str().strip_prefix(NAMESPACE)?;
        self.turn_config.as_ref()?.subagents.iter().find(|agent| agent.name() == name)
    }

    /// Reports the sessions that may still work for calls of a turn that is closed without being continued. If the turn
    /// is stopped while it runs, the supervisor knows its children. Children of tasks are reported at the turn's end.
    pub(super) fn tell_orphans(&self, effects: &mut Vec<Effect>) {
        let begun = |open: &&OpenCall| open.result.is_none() && open.intent.is_some() && is_agent(&open.call);
        self.open_calls().iter().filter(begun).for_each(|open| self.tell_orphan(&open.call, effects));
    }

    /// Tells which session may still work for a call that gets no answer of it.
    pub(super) fn tell_orphan(&self, call: &ToolCall, effects: &mut Vec<Effect>) {
        let (Some(session), Some(open)) = (&self.session, self.open_turn()) else { return };
        if let Some(child) = session_of(&session.id, &open.input.turn, &call.id) {
            effects.push(Effect::Report(TurnNews::Orphaned { child }));
        }
    }

    /// Tells it of a call that began before a crash and was not reached when it was asked again.
    pub(super) fn tell_lost(&self, call: &ToolCall, is_lost: bool, effects: &mut Vec<Effect>) {
        if is_lost && is_agent(call) {
            self.tell_orphan(call, effects);
        }
    }

    /// These tools without the agents that cannot be called from this session.
    pub(super) fn offered(&self, tools: &Arc<ToolSet>) -> Arc<ToolSet> {
        let (Some(session), Some(turn_config)) = (&self.session, &self.turn_config) else { return Arc::clone(tools) };
        if turn_config.subagents.is_empty() {
            return Arc::clone(tools);
        }
        let line = AgentLine::of(&session.options);
        let refused: Vec<_> = turn_config.subagents.iter().filter(|agent| line.refuses(agent).is_some()).collect();
        if refused.is_empty() {
            return Arc::clone(tools);
        }
        let mut left = turn_config.subagents.iter().filter(|agent| line.refuses(agent).is_none());
        let has_tasks = left.any(|agent| agent.background().is_some()) || !session.tasks.is_empty();
        let is_refused = |name: &str| {
            let Some(name) = name.strip_prefix(NAMESPACE) else { return false };
            refused.iter().any(|agent| agent.name() == name) || Agent::is_taken(name) && !has_tasks
        };
        let left: Vec<_> = tools.tools().iter().filter(|tool| !is_refused(tool.id.as_str())).cloned().collect();
        Arc::new(ToolSet::from(left))
    }

    /// Which calls of the step are of sub-agents, and how many more of them may begin.
    pub(super) fn agents_at_work(&self, slots: &[Slot]) -> AtWork {
        let Some(turn_config) = self.turn_config.as_ref().filter(|turn_config| !turn_config.subagents.is_empty())
        else {
            return AtWork { are_agents: Vec::new(), left: 0, behind: 0 };
        };
        let are_agents: Vec<_> = self.open_calls().iter().map(|open| self.agent_of(&open.call).is_some()).collect();
        let is_agent = |at: usize| are_agents.get(at) == Some(&true);
        let works = |slot: &Slot| matches!(slot, Slot::Running(_) | Slot::Recording { .. });
        let working = slots.iter().enumerate().filter(|(at, slot)| is_agent(*at) && works(slot)).count();
        let working = working + self.tasks_at_work().filter(|task| self.asks_child_of(&task.call.id)).count();
        let is_alone = |(at, slot): (usize, &Slot)| match slot {
            Slot::Finished | Slot::Question | Slot::Waiting => false,
            Slot::Running(running) => !running.read_only && !is_agent(at),
            Slot::Granted { traits, .. } => !traits.read_only && !is_agent(at),
            Slot::Recording { .. } => !is_agent(at),
            Slot::Checking { .. } | Slot::Asking(_) | Slot::Rejudging { .. } | Slot::Noting { .. } => true,
        };
        let behind = slots.iter().enumerate().position(is_alone).unwrap_or(slots.len());
        AtWork { left: turn_config.max_parallel_subagents.max(1).saturating_sub(working), are_agents, behind }
    }

    /// The tasks of the running turn that have not ended.
    fn tasks_at_work(&self) -> impl Iterator<Item = &Task> {
        let session = self.session.as_ref().filter(|session| !session.tasks.is_empty());
        let running = session.and_then(|session| Some((session, &session.running()?.input.turn)));
        let tasks = running.into_iter().flat_map(|(session, turn)| session.tasks.iter().map(move |task| (task, turn)));
        tasks.filter(|(task, turn)| task.result.is_none() && task.caller.turn == **turn).map(|(task, _)| task)
    }

    /// The context of a call. For a call of a sub-agent it has the terms of the child, whose limits are reserved.
    /// Errors: why the agent cannot be called, for the model.
    pub(super) fn handed_down(
        &self,
        calling: &Calling,
        call: &ToolCall,
    ) -> Result<(Arc<CallContext>, Option<Box<Limits>>), String> {
        let as_it_is = || Ok((self.context_of(&call.id, &calling.context), None));
        let Some(agent) = self.agent_of(call) else { return as_it_is() };
        let (Some(session), Some(frame)) = (&self.session, &self.frame) else { return as_it_is() };
        let Some(open) = session.running() else { return as_it_is() };
        let limits = open.limits();
        let mut whole = open.spent.left_of(limits, self.now.left_of(limits.turn_timeout_ms));
        let inline = calling.slots.iter().filter_map(|slot| match slot {
            Slot::Running(running) => running.holds.as_deref(),
            _holds_nothing => None,
        });
        let begins = self.open_calls().iter().filter(|open| open.result.is_none() && open.call.id != call.id);
        let begins = begins.filter_map(|open| Some(&open.task.as_ref()?.input.limits));
        let is_of_step = |task: &&Task| self.open_calls().iter().any(|open| open.call.id == task.call.id);
        let (of_step, earlier): (Vec<_>, Vec<_>) = self.tasks_at_work().partition(is_of_step);
        earlier.iter().for_each(|task| whole.hold(&task.child.input.limits));
        let asking = self.open_calls().iter().filter(|open| open.result.is_none() && open.call.id != call.id);
        let asking = asking.filter_map(|open| Some(&open.below.as_ref()?.asked.limits));
        let mut left = whole;
        let of_step = of_step.iter().map(|task| &task.child.input.limits);
        inline.chain(begins).chain(asking).chain(of_step).for_each(|held| left.hold(held));
        let caller = Caller {
            line: AgentLine::of(&session.options),
            limits,
            left,
            whole,
            among: self.without_child(calling, call),
            tools: &frame.tools,
            allow: calling.context.allow.as_ref(),
            model: &open.model,
            interactive: open.input.interactive,
        };
        let terms = agent.terms(caller, || told(session))?;
        let held = terms.limits;
        let context = CallContext { child: Some(Arc::new(terms)), ..(*calling.context).clone() };
        Ok((Arc::new(context), Some(Box::new(held))))
    }

    /// How many calls of agents in the step have no child yet, with this one.
    fn without_child(&self, calling: &Calling, call: &ToolCall) -> u32 {
        let waits = |(at, open): &(usize, &OpenCall)| {
            let runs = matches!(calling.slots.get(*at), Some(Slot::Running(running)) if running.holds.is_some());
            let has_child = runs || open.task.is_some() || open.below.is_some() || open.result.is_some();
            open.call.id != call.id && !has_child && self.agent_of(&open.call).is_some()
        };
        u32::try_from(self.open_calls().iter().enumerate().filter(waits).count()).unwrap_or(u32::MAX).saturating_add(1)
    }
}

pub(super) fn is_agent(call: &ToolCall) -> bool {
    call.name.as_str().starts_with(NAMESPACE)
}

/// The conversation in short: its summary, and the beginnings of its newest messages.
fn told(session: &Session) -> Option<Arc<str>> {
    let (most, of_each) = TOLD_BYTES;
    let mut lines = Vec::new();
    let mut bytes = session.summary.as_ref().map_or(0, |summary| summary.len().min(most / 2));
    for message in session.history.iter().rev() {
        let (who, text) = match &**message {
            Message::User { parts } => ("user", parts.iter().map(|part| part.as_text()).collect::<Vec<_>>().join(" ")),
            Message::Assistant { text, .. } => ("assistant", text.clone()),
            Message::Tool { .. } => continue,
        };
        let short = &text[..text.floor_char_boundary(of_each)];
        if short.trim().is_empty() {
            continue;
        }
        let line = format!("{who}: {}{}", short.trim(), if short.len() < text.len() { " …" } else { "" });
        bytes += line.len() + 1;
        if bytes > most {
            break;
        }
        lines.push(line);
    }
    lines.extend(session.summary.as_ref().map(|summary| summary[..summary.floor_char_boundary(most / 2)].to_owned()));
    lines.reverse();
    (!lines.is_empty()).then(|| lines.join("\n").into())
}
