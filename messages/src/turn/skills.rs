//! Which skills a turn has: chosen when it begins, journaled, and the same again after a crash.
//!
//! The choice itself is [`crate::skills::select`]. It narrows the turn's tools to those its
//! skills name, out of those policy and session leave, and never adds one. [`reselect`](super::reselect) has what
//! chooses again while the turn runs.

use super::Turn;
use super::layers::SKILLS_CAP;
use crate::agent::{Agent, RESULT, STATUS};
use crate::chat::{CallStatus, Message, complaint};
use crate::event::{AgentEvent, SkillChoice};
use crate::ids::{Ticket, ToolName};
use crate::llm::ModelProfile;
use crate::session_state::{OpenTurn, Session};
use crate::skills::{
    Asked, Layer, ReselectCause, SelectedSkill, SelectedSkills, Selection, Skill, SkillIndex, SkillQuery, SkillRules,
    SkillScores, is_eligible, matches, others, render, select,
};
use crate::store::Fact;
use crate::tools::ToolSet;
use crate::turn::Effect;
use std::borrow::Cow;
use std::sync::Arc;

/// How much of each part of a query is kept, in bytes.
const MOST_QUERY_BYTES: usize = 64 * 1024;

/// How many failed results are part of a query, and how much of each, in bytes.
const FAILED: (usize, usize) = (4, 2 * 1024);

#[derive(Debug, Clone, Copy)]
pub(super) struct Listed<'a> {
    pub(super) index: &'a Arc<SkillIndex>,
    pub(super) scores: Option<&'a SkillScores>,
}

#[derive(Debug)]
pub(super) struct Chosen {
    pub(super) text: String,
    pub(super) tools: Arc<ToolSet>,
    pub(super) told: Option<AgentEvent>,
    pub(super) index: Option<Arc<SkillIndex>>,
}

impl Chosen {
    pub(super) fn none(tools: &Arc<ToolSet>) -> Self {
        Self { text: String::new(), tools: Arc::clone(tools), told: None, index: None }
    }
}

impl Turn {
    /// Asks which skills there are, if any are configured.
    pub(super) fn ask_for_skills(&mut self, effects: &mut Vec<Effect>) -> Option<Ticket> {
        self.turn_config.as_ref()?.skills.as_ref()?;
        let cwd = self.cwd().or_else(|| self.turn_config.as_ref()?.roots.first().cloned());
        let query = Arc::new(self.skill_query()?);
        let ticket = self.ticket();
        effects.push(Effect::ListSkills { ticket, cwd, query });
        Some(ticket)
    }

    fn skill_query(&self) -> Option<SkillQuery> {
        let session = self.session.as_ref()?;
        let open = session.running()?;
        let causes = open.reselecting.as_ref().map(|reselecting| reselecting.due.clone()).unwrap_or_default();
        Some(SkillQuery {
            session: Some(session.id.clone()),
            text: self.wanted_skills(session, open),
            beside: beside(session, &causes),
            labels: open.input.labels.clone(),
            context: open.input.context.clone(),
            role: self.role(),
            causes,
        })
    }

    /// The role of the session: its sub-agent, the agent that its options name, or that of the configuration.
    pub(super) fn role(&self) -> Option<Arc<str>> {
        let own = self.own_agent().map(|agent| Arc::from(agent.name()));
        let named = || self.session.as_ref()?.options.agent.as_deref().map(Arc::from);
        own.or_else(named).or_else(|| self.turn_config.as_ref()?.skills.as_ref()?.role.as_deref().map(Arc::from))
    }

    /// The text that skills are chosen for: the names of those that a sub-agent is given, or the user's messages.
    fn wanted_skills(&self, session: &Session, open: &OpenTurn) -> String {
        let own = self.own_agent().and_then(Agent::own_skills);
        own.map_or_else(|| said_by_user(session, open), |names| names.join("\n"))
    }

    pub(super) fn skills_of_session<'i>(&self, index: &'i Arc<SkillIndex>) -> Cow<'i, Arc<SkillIndex>> {
        let Some(names) = self.own_agent().and_then(Agent::own_skills) else { return Cow::Borrowed(index) };
        let is_own = |skill: &&Arc<Skill>| names.iter().any(|name| name == skill.name());
        // Who gives an agent a skill has decided that it is for its role.
        let skills = index.skills.iter().filter(is_own).map(without_roles).collect();
        Cow::Owned(Arc::new(SkillIndex { skills, findings: Vec::new() }))
    }

    pub(super) fn may_use(&self, skill: &Skill, tools: &ToolSet) -> bool {
        is_eligible(skill, tools, self.role().as_deref())
    }

    /// The skills of the running turn: those it has, or those that are chosen now. What
    /// earlier skills left of its tools holds also where there are no skills any more.
    pub(super) fn choose_skills(
        &mut self,
        listed: Option<Listed<'_>>,
        profile: &ModelProfile,
        tools: &Arc<ToolSet>,
    ) -> Chosen {
        let is_configured = self.turn_config.as_ref().is_some_and(|turn_config| turn_config.skills.is_some());
        let nothing = Chosen::none(tools);
        let Some(open) = self.open_turn() else { return nothing };
        let Selection { chosen, dropped } = match (&open.skills, listed) {
            (None, None) => return nothing,
            (None, Some(_)) if !is_configured => return nothing,
            (Some(chosen), _) => Selection { chosen: (**chosen).clone(), dropped: Vec::new() },
            (None, Some(listed)) => {
                let Some(selection) = self.selection(listed, profile, tools) else { return nothing };
                self.record_in_turn(Fact::SkillsSelected(selection.chosen.clone()));
                selection
            }
        };
        let index = listed.map(|listed| Arc::clone(listed.index)).unwrap_or_default();
        let layer = render(&index, &chosen);
        let (tools, others) = self.shown_tools(&index, &chosen, &layer, tools);
        let is_silent = chosen.skills.is_empty() && dropped.is_empty();
        let (bytes, budget_bytes) = (layer.text.len() + others.len(), chosen.budget_bytes);
        let told = (!is_silent).then(|| AgentEvent::SkillsSelected {
            skills: layer.shown.iter().map(told_of).collect(),
            dropped: dropped.into_iter().chain(layer.missing).collect(),
            bytes: bytes as u64,
            budget_bytes,
        });
        let index = (is_configured && listed.is_some()).then_some(index);
        Chosen { tools, text: joined(layer.text, &others), told, index }
    }

    /// The best skills for the running turn as it is now.
    pub(super) fn selection(&self, listed: Listed<'_>, profile: &ModelProfile, tools: &ToolSet) -> Option<Selection> {
        let (session, turn_config) = (self.session.as_ref()?, self.turn_config.as_ref()?);
        let (open, rules) = (session.running()?, turn_config.skills.as_ref()?);
        let own = self.own_agent().and_then(Agent::own_skills);
        let rules = SkillRules { top_k: own.map_or(rules.top_k, <[String]>::len), ..rules.clone() };
        let reselecting = open.reselecting.as_deref();
        let index = self.skills_of_session(listed.index);
        let role = self.role();
        let asked = Asked {
            text: &self.wanted_skills(session, open),
            beside: &beside(session, reselecting.map_or(&[], |reselecting| &reselecting.due)),
            named: reselecting.map_or(&[], |reselecting| &reselecting.named),
            labels: &open.input.labels,
            tools,
            role: role.as_deref(),
            scores: listed.scores,
            context_tokens: profile.capabilities.context_tokens,
            most_bytes: SKILLS_CAP.saturating_sub(turn_config.layers.skills.len() + 2),
        };
        Some(select(&index, asked, &rules))
    }

    /// The tools as these skills limit them, and the table of the other skills. A model is offered to ask for a skill if
    /// the table has one.
    pub(super) fn shown_tools(
        &self,
        index: &Arc<SkillIndex>,
        chosen: &SelectedSkills,
        layer: &Layer,
        tools: &Arc<ToolSet>,
    ) -> (Arc<ToolSet>, String) {
        let mut left = limited(chosen.allow_tools.as_deref(), tools);
        if !left.tools().iter().any(|tool| is_use_skill(&tool.id)) {
            return (left, String::new());
        }
        let own = self.skills_of_session(index);
        let is_shown = |skill: &Skill| layer.shown.iter().any(|shown| shown.name == skill.name());
        let usable = own.skills.iter().map(|skill| &**skill).filter(|skill| !is_shown(skill));
        let usable = usable.filter(|skill| self.may_use(skill, &left));
        let others = others(usable, chosen.budget_bytes, layer.text.len() + 2);
        if others.is_empty() {
            let without = left.tools().iter().filter(|tool| !is_use_skill(&tool.id)).cloned().collect::<Vec<_>>();
            left = Arc::new(ToolSet::from(without));
        }
        (left, others)
    }
}

/// The tools that patterns leave, the one that asks for a skill, and those that follow tasks of agents: without them the
/// result of a task that began before could not be read.
pub(super) fn limited(patterns: Option<&[String]>, tools: &Arc<ToolSet>) -> Arc<ToolSet> {
    let Some(patterns) = patterns else { return Arc::clone(tools) };
    let is_meant = |name: &ToolName| patterns.iter().any(|pattern| matches(pattern, name.as_str()));
    let follows = |name: &ToolName| matches!(name.as_str(), STATUS | RESULT);
    let left = tools.tools().iter().filter(|tool| is_meant(&tool.id) || is_use_skill(&tool.id) || follows(&tool.id));
    Arc::new(ToolSet::from(left.cloned().collect::<Vec<_>>()))
}

fn is_use_skill(name: &ToolName) -> bool {
    name.as_str() == ToolName::USE_SKILL
}

fn without_roles(skill: &Arc<Skill>) -> Arc<Skill> {
    if skill.roles().next().is_none() {
        return Arc::clone(skill);
    }
    let mut skill = (**skill).clone();
    skill.front.metadata.remove("roles");
    Arc::new(skill)
}

pub(super) fn joined(layer: String, others: &str) -> String {
    match (layer.is_empty(), others.is_empty()) {
        (_, true) => layer,
        (true, false) => others.to_owned(),
        (false, false) => format!("{}\n\n{others}", layer.trim_end()),
    }
}

/// The user's messages of the turn, the newest first: answers to questions of the model are not part of it.
fn said_by_user(session: &Session, open: &OpenTurn) -> String {
    let behind = session.history.iter().skip(open.message_at + 1).chain(&open.steered);
    let steered = behind.rev().filter(|message| complaint(message).is_none()).filter_map(|message| match &**message {
        Message::User { parts } => Some(parts.iter().map(|part| part.as_text()).collect::<Vec<_>>().join("\n")),
        Message::Assistant { .. } | Message::Tool { .. } => None,
    });
    let mut text = steered.fold(String::new(), |text, said| text + &said + "\n");
    text.push_str(&open.input.text());
    text.truncate(text.floor_char_boundary(MOST_QUERY_BYTES));
    text
}

/// The texts of models and tools for which skills are chosen again.
fn beside(session: &Session, causes: &[ReselectCause]) -> String {
    let mut text = String::new();
    if causes.contains(&ReselectCause::Condensed) {
        text.push_str(session.summary.as_deref().unwrap_or_default());
    }
    if causes.contains(&ReselectCause::ToolErrors) {
        let (most, bytes) = FAILED;
        let failed = session.history.iter().rev().filter_map(|message| match &**message {
            // A wrong name of a skill says nothing of what is done, and its result names skills.
            Message::Tool { result } if is_failure(result.status) && result.name.as_str() != ToolName::USE_SKILL => {
                Some(result)
            }
            _other => None,
        });
        for result in failed.take(most) {
            let said = result.output.for_model();
            text.push_str(&format!("\n{} {}", result.name, &said[..said.floor_char_boundary(bytes)]));
        }
    }
    text.truncate(text.floor_char_boundary(MOST_QUERY_BYTES));
    text
}

fn is_failure(status: CallStatus) -> bool {
    matches!(status, CallStatus::Error | CallStatus::Denied | CallStatus::Unknown)
}

pub(super) fn told_of(skill: &SelectedSkill) -> SkillChoice {
    SkillChoice { name: skill.name.clone(), score: f64::from(skill.score_milli) / 1_000.0, form: skill.form }
}
