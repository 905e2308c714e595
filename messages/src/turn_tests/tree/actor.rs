//! The driver of one machine: each effect is something on its way.

use super::lanes::{Item, Lane};
use super::supervisor::{Caller, How};
use super::{Actor, Defect, Pending, Tree};
use crate::agent::{Delegation, agent_of};
use crate::chat::{CallStatus, ToolCall, ToolOutput};
use crate::ids::{ResumeToken, SessionId, Ticket};
use crate::llm::ModelProfile;
use crate::options::SessionOptions;
use crate::permission::PermissionMode;
use crate::session_state::Session;
use crate::skills::matches;
use crate::store::{Append, Fact};
use crate::submission::TurnNews;
use crate::tools::{CallContext, ToolReturn, ToolSet};
use crate::turn::tests::world::{model, tools_with};
use crate::turn::{Child, Effect, TurnMessage};
use crate::turn_config::OnRestart;
use std::sync::Arc;

impl Tree {
    /// Sends a message to an actor that lives.
    pub(super) fn send_to(&mut self, actor: u64, message: TurnMessage) {
        if self.actors.contains_key(&actor) {
            self.lanes.push(Lane::Mailbox(actor), Item::Message(message));
        }
    }

    /// Answers a question of an actor, if the answer is still wanted.
    pub(super) fn answer_to(&mut self, actor: u64, ticket: Ticket, message: TurnMessage) {
        if self.actors.get(&actor).is_some_and(|actor| actor.wanted.contains(&ticket)) {
            self.send_to(actor, message);
        }
    }

    pub(super) fn returns(&mut self, actor: u64, ticket: Ticket, returned: ToolReturn) {
        self.answer_to(actor, ticket, TurnMessage::ToolReturned { ticket, returned: Box::new(returned) });
    }

    /// An actor handles a message; it may die in the middle.
    pub(super) fn tell(&mut self, id: u64, message: TurnMessage) {
        let dies_behind = self.fault(self.plan.kills, 150).then(|| self.dice.pick(4));
        let mut known = vec![message];
        while let Some(message) = known.pop() {
            let Some(actor) = self.actors.get_mut(&id) else { return };
            if let Some(ticket) = message.answers() {
                actor.wanted.remove(&ticket);
            }
            if let TurnMessage::Loaded { result: Ok(_), .. } = &message {
                let journal = self.journals.get(&actor.session);
                actor.written = journal.map(|journal| journal.records.clone()).unwrap_or_default();
            }
            let effects = actor.turn.apply(self.now, message);
            for (performed, effect) in effects.into_iter().enumerate() {
                if dies_behind == Some(performed) {
                    self.saw("an actor dies in the middle");
                    return self.dies(id, false);
                }
                known.extend(self.perform(id, effect));
            }
        }
    }

    /// Performs one effect, as the actor of a turn does. Returns an answer that is at hand.
    pub(super) fn perform(&mut self, id: u64, effect: Effect) -> Option<TurnMessage> {
        let actor = self.actors.get_mut(&id)?;
        let session = actor.session.clone();
        match effect {
            Effect::Tell(message) => self.send_to(id, message),
            Effect::Claim { ticket, whole, .. } => {
                self.lanes.push(Lane::Store(session), Item::Claim { actor: id, ticket, whole });
            }
            Effect::Append { ticket, confirm, pause_ms, append } => {
                self.writes(id, &append);
                let lane = if pause_ms > 0 { Lane::Paused(id, ticket) } else { Lane::Store(session) };
                self.lanes.push(lane, Item::Append { actor: id, ticket, confirm, append, closing: false });
            }
            Effect::ListTools { ticket, allow, .. } => {
                let all = tools_with(&self.plan.turn_config(OnRestart::Report).subagents);
                let fits = |name: &str| allow.as_ref().is_none_or(|allow| allow.iter().any(|one| matches(one, name)));
                let left: Vec<_> = all.tools().iter().filter(|tool| fits(tool.id.as_str())).cloned().collect();
                let (tools, servers) = (Arc::new(ToolSet::from(left)), Vec::new());
                return Some(TurnMessage::ToolsListed { ticket, tools, servers });
            }
            Effect::Profile { ticket, .. } => {
                let world = crate::turn::tests::world::World::new(crate::turn_config::TurnConfig::new(model()));
                let profile = ModelProfile {
                    model: model(),
                    capabilities: world.capabilities,
                    price: world.price,
                    tokens_per_kb: crate::llm::TOKENS_PER_KB,
                };
                return Some(TurnMessage::Profiled { ticket, result: Ok(Arc::new(profile)) });
            }
            Effect::Infer { ticket, request, .. } => {
                actor.wanted.insert(ticket);
                self.works_below(&session, "a model is asked");
                self.infers(&session, &request);
                self.lanes.push(Lane::Work(id, ticket), Item::Infer(request));
            }
            Effect::Check { ticket, check, .. } => {
                actor.wanted.insert(ticket);
                self.lanes.push(Lane::Work(id, ticket), Item::Check(check));
            }
            Effect::Call { ticket, call, context, .. } => {
                actor.wanted.insert(ticket);
                self.works_below(&session, "a tool runs");
                self.runs(&session, &call, &context);
                if let Some(terms) = &context.child {
                    let records = self.actors.get(&id).map(Actor::records).unwrap_or_default();
                    self.hands_down(id, &call.id, (&terms.limits, &terms.line), &records);
                }
                self.lanes.push(Lane::Work(id, ticket), Item::Call(call, context));
            }
            Effect::Child { ticket, call, child } => {
                actor.wanted.insert(ticket);
                match *child {
                    Child::Worked { session, turn } => {
                        self.lanes.push(Lane::Work(id, ticket), Item::Read { call, session, turn });
                    }
                    child => {
                        self.lanes.push(Lane::Report(id), Item::Child { ticket, call, child: Box::new(child) });
                    }
                }
            }
            Effect::Abandon { ticket } => {
                actor.wanted.remove(&ticket);
                self.lanes.retain(|lane| *lane != Lane::Work(id, ticket));
            }
            Effect::AbandonAll => {
                actor.wanted.clear();
                self.lanes.retain(|lane| !matches!(lane, Lane::Work(of, _) if *of == id));
            }
            Effect::Report(news) => self.lanes.push(Lane::Report(id), Item::News(news)),
            Effect::Release { .. } | Effect::GiveUp { .. } | Effect::Remember(_) | Effect::Emit(_) => {}
            effect @ (Effect::ReadLayers { .. }
            | Effect::ListSkills { .. }
            | Effect::CheckOutput { .. }
            | Effect::Condense { .. }) => unreachable!("{effect:?}"),
        }
        None
    }

    /// Notes what an actor appends, before the store has accepted or refused it.
    fn writes(&mut self, id: u64, append: &Append) {
        let Some(actor) = self.actors.get_mut(&id) else { return };
        actor.written.truncate(usize::try_from(append.expected_version).unwrap_or(usize::MAX));
        for record in &append.records {
            let Some(actor) = self.actors.get_mut(&id) else { return };
            actor.written.push(Arc::clone(record));
            if let Fact::Intent { call, task: Some(task), .. } = &record.fact {
                let parent = task.input.options.as_ref().and_then(|options| options.parent.as_ref());
                let line = parent.and_then(|parent| parent.line.clone()).unwrap_or_default();
                // What an earlier turn wrote is sent again as it was.
                let runs = self.actors.get(&id).and_then(Actor::running);
                if runs.is_none_or(|(turn, _)| record.turn.as_ref() != Some(&turn)) {
                    continue;
                }
                // As it was when that was decided.
                let records = self.actors.get(&id).map(|actor| actor.written.clone()).unwrap_or_default();
                self.hands_down(id, call, (&task.input.limits, &line), &records);
            }
        }
    }

    /// A call of an agent becomes a submission.
    pub(super) fn delegate(&mut self, actor: u64, ticket: Ticket, call: Arc<ToolCall>, context: &CallContext) {
        let config = self.plan.turn_config(OnRestart::Resume);
        let agent = config.subagents.iter().find(|agent| agent.name() == agent_of(&call)).expect("an agent");
        let token = ResumeToken::new(format!("token{}", self.now));
        match Delegation::of(agent, &call, context, PermissionMode::Ask, (self.now, token)) {
            Ok(child) => {
                let caller = Caller::Call { actor, ticket, call, how: How::Inline };
                self.works_for_a_call(child, caller, false);
            }
            Err(why) => self.returns(actor, ticket, ToolReturn::note(CallStatus::Error, why.to_string())),
        }
    }

    /// Has a session work for a call.
    fn works_for_a_call(&mut self, mut child: Delegation, caller: Caller, is_repeated: bool) {
        self.sabotages(&mut child);
        let turn_config = self.plan.turn_config(OnRestart::Resume);
        let input = Arc::new(child.input);
        let parent = input.options.as_ref().and_then(|options| options.parent.clone());
        self.watch.parents.extend(parent.map(|parent| (child.session.clone(), parent)));
        let request = TurnMessage::Start { input: Arc::clone(&input), turn_config: Arc::clone(&turn_config) };
        let submission = input.turn.clone();
        let pending = Pending { submission, request, callers: vec![caller], is_repeated, cancelled: false };
        self.submit(&child.session, pending, &turn_config);
    }

    /// What a broken driver does to what a call hands down.
    fn sabotages(&mut self, child: &mut Delegation) {
        let mut options: SessionOptions = child.input.options.as_deref().cloned().unwrap_or_default();
        let Some(parent) = options.parent.as_mut() else { return };
        match self.defect {
            Some(Defect::BeginsAnother) if self.journals.contains_key(&child.session) => {
                if let Ok(other) = SessionId::parse(&format!("{}x", child.session)) {
                    child.session = other;
                }
            }
            Some(Defect::ForgetsLine) => {
                let mut line = parent.line.as_deref().cloned().unwrap_or_default();
                (line.levels, line.agents) = (3, line.agents.split_off(line.agents.len().saturating_sub(1)));
                parent.line = Some(Arc::new(line));
            }
            Some(Defect::HandsDownAll) => child.input.limits = self.plan.limits,
            _ => {}
        }
        child.input.options = Some(Arc::new(options));
    }

    /// What an actor asks the supervisor for.
    pub(super) fn child(&mut self, actor: u64, ticket: Ticket, call: Arc<ToolCall>, child: Child) {
        match child {
            Child::Works { task, again, .. } => {
                let caller = Caller::Call { actor, ticket, call, how: How::Works { again } };
                self.works_for_a_call((*task).clone(), caller, again);
            }
            Child::Resumes { resumption, turn_config } => {
                self.saw("a decision is handed down");
                let mut resumption = *resumption;
                if self.has(Defect::ConfusesChildren) {
                    self.confuse(&mut resumption);
                }
                let asks: Box<ToolOutput> = Box::new(resumption.not_taken());
                let (session, turn) = (resumption.child.session.clone(), resumption.child.turn.clone());
                let request = TurnMessage::Resume {
                    submission: resumption.submission.clone(),
                    token: resumption.child.token,
                    reply: Box::new(crate::input::ResumeReply::Decision(resumption.decision)),
                    parent: Some(Box::new(resumption.parent)),
                    turn_config: Arc::clone(&turn_config),
                };
                let callers = vec![Caller::Call { actor, ticket, call, how: How::Resumes { asks, turn } }];
                let submission = resumption.submission;
                let pending = Pending { submission, request, callers, is_repeated: false, cancelled: false };
                self.submit(&session, pending, &turn_config);
            }
            Child::Worked { .. } => unreachable!("only its journal is read"),
        }
    }

    /// Another session that is suspended has the decision.
    fn confuse(&mut self, resumption: &mut crate::agent::Resumption) {
        let others = self.journals.iter().filter(|(id, _)| **id != resumption.child.session);
        let mut suspended = others.filter_map(|(id, journal)| {
            let session = Session::fold(id.clone(), &journal.records);
            let open = session.open.as_ref()?;
            open.input.works_for()?;
            Some((id.clone(), open.input.turn.clone(), open.suspended.as_ref()?.token.clone()))
        });
        if let Some((session, turn, token)) = suspended.next_back() {
            (resumption.child.session, resumption.child.turn, resumption.child.token) = (session, turn, token);
        }
    }

    /// A stopped actor closes its turn, and ends.
    pub(super) fn stops(&mut self, id: u64) {
        let Some(actor) = self.actors.get_mut(&id) else { return };
        let Some((reason, submission)) = actor.ending.clone() else { return };
        let session = actor.session.clone();
        let (mut news, mut appended) = (Vec::new(), false);
        for effect in actor.turn.apply(self.now, TurnMessage::Stopped { reason, submission }) {
            match effect {
                Effect::Append { ticket, append, .. } => {
                    appended = true;
                    let item = Item::Append { actor: id, ticket, confirm: true, append, closing: true };
                    self.lanes.push(Lane::Store(session.clone()), item);
                }
                Effect::Report(last @ TurnNews::Finished { .. }) => news.push(last),
                effect => drop(self.perform(id, effect)),
            }
        }
        self.lanes.push(Lane::Closing(id), Item::Closing { news, appended, saved: None });
        self.dies(id, true);
    }

    /// An actor is gone. What it had sent is on its way.
    pub(super) fn dies(&mut self, id: u64, polite: bool) {
        if self.actors.remove(&id).is_some() {
            self.lanes.retain(|lane| match lane {
                Lane::Mailbox(of) | Lane::Stop(of) | Lane::Work(of, _) => *of != id,
                _ => true,
            });
            self.lanes.push(Lane::Report(id), Item::Ended { polite });
        }
    }

    pub(super) fn new_actor(&mut self, session: &SessionId) -> u64 {
        self.born += 1;
        let mut turn = crate::turn::Turn::new(session.clone());
        turn.watched(false);
        let actor =
            Actor { session: session.clone(), turn, wanted: Default::default(), ending: None, written: Vec::new() };
        self.homes.insert(self.born, session.clone());
        self.actors.insert(self.born, actor);
        self.born
    }
}
