//! ReselectSkills: the skills of a running turn are chosen again, once for what happened since they were chosen.
//!
//! Causes are facts of the journal ([`Reselecting`](crate::skills::Reselecting)): a steer message, a condensed history,
//! two failed calls in a row, and a skill that the model asked for. Before the next prompt the skills are listed again;
//! the new selection is journaled, then the prompt is built with it.
//!
//! A message of the user may change which tools the skills of the turn leave. Text of a model or a tool changes only the
//! instructions: no tool is lost in the middle of the work, and none is gained by asking for a skill.

use super::prompt::Frame;
use super::skills::{Listed, joined, limited, told_of};
use super::state::{Reselect, State};
use super::{Effect, Turn, TurnMessage};
use crate::chat::{CallStatus, ToolCall};
use crate::event::AgentEvent;
use crate::ids::ToolName;
use crate::session_state::used_skill;
use crate::skills::{ReselectCause, Reselected, SkillIndex, SkillScores, admit, render};
use crate::store::Fact;
use crate::tools::ToolReturn;
use std::sync::Arc;

/// How many skills are named to a model that asks for one that is not there.
const NAMED: usize = 20;

impl Turn {
    /// Asks for the skills and enters `ReselectSkills`, if something happened since they were chosen. Returns whether it did.
    pub(super) fn start_reselection(&mut self, effects: &mut Vec<Effect>) -> bool {
        let has_skills = self.frame.as_ref().is_some_and(|frame| frame.skilled.is_some());
        let reselecting = self.open_turn().filter(|_| has_skills).and_then(|open| open.reselecting.as_ref());
        let Some(causes) = reselecting.filter(|open| !open.due.is_empty()).map(|open| open.causes) else {
            return false;
        };
        // A port may read a disk: what the turn has so far is not kept until it answers.
        self.flush(effects);
        let Some(awaiting) = self.ask_for_skills(effects) else { return false };
        self.state = State::ReselectSkills(Reselect { awaiting, causes });
        true
    }

    pub(super) fn reselect_skills(
        &mut self,
        wait: Reselect,
        index: Arc<SkillIndex>,
        scores: Option<&SkillScores>,
        effects: &mut Vec<Effect>,
    ) {
        let Some(open) = self.open_turn() else { return };
        let (Some(reselecting), Some(before)) = (&open.reselecting, &open.skills) else { return };
        let (causes, step) = (reselecting.due.clone(), open.spent.steps + 1);
        let is_late = reselecting.causes != wait.causes;
        let allow_tools = before.allow_tools.clone();
        // They were listed for less than has happened by now.
        if is_late && self.start_reselection(effects) {
            return;
        }
        let Some((skilled, profile)) =
            self.frame.as_ref().and_then(|frame| Some((frame.skilled.as_ref()?, &frame.profile)))
        else {
            return;
        };
        // A port that failed lists none: the skills are those that were known.
        let index = if index.skills.is_empty() { Arc::clone(&skilled.index) } else { index };
        let (offered, profile) = (Arc::clone(&skilled.offered), Arc::clone(profile));
        let mut of_user = causes.iter().copied().map(ReselectCause::is_of_user);
        // The scores of a port consider all text, also that of tools.
        let is_of_user = if scores.is_some() { of_user.all(|is_it| is_it) } else { of_user.any(|is_it| is_it) };
        let tools = if is_of_user { Arc::clone(&offered) } else { limited(allow_tools.as_deref(), &offered) };
        let Some(selection) = self.selection(Listed { index: &index, scores }, &profile, &tools) else { return };
        let mut chosen = selection.chosen;
        if !is_of_user {
            chosen.allow_tools = allow_tools;
        }
        let again = Reselected { causes: causes.clone(), skills: chosen.clone() };
        self.record_in_turn(Fact::SkillsReselected(Box::new(again)));
        let layer = render(&index, &chosen);
        let (tools, others) = self.shown_tools(&index, &chosen, &layer, &offered);
        let bytes = (layer.text.len() + others.len()) as u64;
        let told = AgentEvent::SkillsReselected {
            causes,
            skills: layer.shown.iter().map(told_of).collect(),
            dropped: selection.dropped.into_iter().chain(layer.missing).collect(),
            bytes,
            budget_bytes: chosen.budget_bytes,
        };
        self.emit(effects, || told.in_step(step));
        let (Some(session), Some(frame)) = (&self.session, &mut self.frame) else { return };
        frame.set_skills(session, &joined(layer.text, &others), tools, index);
        self.state = State::BuildPrompt;
        effects.push(Effect::Tell(TurnMessage::BuildPrompt));
    }

    /// The answer to a model that asks for a skill; `None` for any other call, and in a turn without skills.
    pub(super) fn skill_asked(&self, call: &ToolCall) -> Option<ToolReturn> {
        if call.name.as_str() != ToolName::USE_SKILL {
            return None;
        }
        let Frame { skilled, tools, .. } = self.frame.as_ref()?;
        let open = self.open_turn()?;
        let budget_bytes = open.skills.as_ref()?.budget_bytes;
        let index = self.skills_of_session(&skilled.as_ref()?.index);
        let usable = || index.skills.iter().filter(|skill| self.may_use(skill, tools)).map(|skill| skill.name());
        let wanted = used_skill(call).unwrap_or_default();
        let refused = |text: String| Some(ToolReturn::note(CallStatus::Error, text));
        if !usable().any(|name| name == wanted) {
            let mut names: Vec<_> = usable().collect();
            names.sort_unstable();
            names.truncate(NAMED);
            let wanted = &wanted[..wanted.floor_char_boundary(64)];
            return refused(format!("there is no skill `{wanted}` here; skills are: {}", names.join(", ")));
        }
        let of_step = self.open_calls().iter().filter(|open| {
            let result = open.result.as_ref();
            result.is_some_and(|result| result.status == CallStatus::Ok)
        });
        let mut named = open.reselecting.as_ref().map(|reselecting| reselecting.named.clone()).unwrap_or_default();
        named.extend(of_step.filter_map(|open| used_skill(&open.call)).map(str::to_owned));
        if named.iter().any(|name| name == wanted) {
            return Some(ToolReturn::text(format!("the skill `{wanted}` is part of the instructions already")));
        }
        let before = named.join(", ");
        named.push(wanted.to_owned());
        if !admit(&index, &named, budget_bytes) {
            let beside = if before.is_empty() { String::new() } else { format!(" beside {before}") };
            let limit = format!("the {budget_bytes} bytes that skills may take");
            return refused(format!("the skill `{wanted}` does not fit into {limit}{beside}"));
        }
        Some(ToolReturn::text(format!("the skill `{wanted}` is part of the instructions from the next step on")))
    }
}
