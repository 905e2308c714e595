//! Which skills a turn has: chosen once, journaled, and the same again after a crash.
//!
//! The choice itself is [`crate::skills::select`]. It narrows the turn's tools to those its
//! skills name, out of those policy and session leave, and never adds one.

use super::Turn;
use super::prompt::SKILLS_CAP;
use crate::agent::Agent;
use crate::event::{AgentEvent, SkillChoice};
use crate::ids::Ticket;
use crate::llm::ModelProfile;
use crate::skills::{Asked, SelectedSkill, SelectedSkills, Selection, SkillIndex, SkillRules, matches, render, select};
use crate::store::Fact;
use crate::tools::ToolSet;
use crate::turn::Effect;
use std::sync::Arc;

/// What a turn gets of its skills.
#[derive(Debug, Default)]
pub(super) struct Chosen {
    /// The layer of the prompt.
    pub(super) text: String,
    /// The turn's tools, when its skills limit them.
    pub(super) tools: Option<Arc<ToolSet>>,
    /// The event that tells of it.
    pub(super) told: Option<AgentEvent>,
}

impl Turn {
    /// Asks which skills there are, if any are configured.
    pub(super) fn ask_for_skills(&mut self, effects: &mut Vec<Effect>) -> Option<Ticket> {
        self.turn_config.as_ref()?.skills?;
        let cwd = self.cwd().or_else(|| self.turn_config.as_ref()?.roots.first().cloned());
        let ticket = self.ticket();
        effects.push(Effect::ListSkills { ticket, cwd });
        Some(ticket)
    }

    /// The skills of the running turn: those it has, or those that are chosen now. What
    /// earlier skills left of its tools holds also where there are no skills any more.
    pub(super) fn choose_skills(
        &mut self,
        index: Option<&SkillIndex>,
        profile: &ModelProfile,
        tools: &ToolSet,
    ) -> Chosen {
        let rules = self
            .turn_config
            .as_ref()
            .and_then(|turn_config| Some((turn_config.skills?, turn_config.layers.skills.len())));
        let Some(open) = self.open_turn() else { return Chosen::default() };
        let nothing = SkillIndex::default();
        let Selection { chosen, dropped } = match (&open.skills, rules, index) {
            (None, None, _) | (None, _, None) => return Chosen::default(),
            (Some(chosen), _, _) => Selection { chosen: chosen.clone(), dropped: Vec::new() },
            (None, Some((rules, beside)), Some(index)) => {
                let own = self.own_agent().and_then(Agent::own_skills);
                let text = own.map_or_else(|| open.input.text(), |names| names.join("\n"));
                let named = own.map(|names| SkillIndex {
                    skills: index
                        .skills
                        .iter()
                        .filter(|skill| names.iter().any(|name| name == skill.name()))
                        .cloned()
                        .collect(),
                    ..index.clone()
                });
                let rules = SkillRules { top_k: own.map_or(rules.top_k, <[String]>::len), ..rules };
                let asked = Asked {
                    text: &text,
                    labels: &open.input.labels,
                    tools,
                    context_tokens: profile.capabilities.context_tokens,
                    most_bytes: SKILLS_CAP.saturating_sub(beside + 2),
                };
                let selection = select(named.as_ref().unwrap_or(index), asked, &rules);
                self.record_in_turn(Fact::SkillsSelected(selection.chosen.clone()));
                selection
            }
        };
        let layer = render(index.unwrap_or(&nothing), &chosen);
        let is_silent = chosen.skills.is_empty() && dropped.is_empty();
        let told = (!is_silent).then(|| AgentEvent::SkillsSelected {
            skills: layer.shown.iter().map(told_of).collect(),
            dropped: dropped.into_iter().chain(layer.missing).collect(),
            bytes: layer.text.len() as u64,
            budget_bytes: chosen.budget_bytes,
        });
        Chosen { tools: limited(&chosen, tools), text: layer.text, told }
    }
}

fn told_of(skill: &SelectedSkill) -> SkillChoice {
    SkillChoice { name: skill.name.clone(), score: f64::from(skill.score_milli) / 1_000.0, form: skill.form }
}

/// The tools that are left; `None` when the skills limit nothing.
fn limited(chosen: &SelectedSkills, tools: &ToolSet) -> Option<Arc<ToolSet>> {
    let patterns = chosen.allow_tools.as_ref()?;
    let is_meant = |name: &str| patterns.iter().any(|pattern| matches(pattern, name));
    let left: Vec<_> = tools.tools().iter().filter(|tool| is_meant(tool.id.as_str())).cloned().collect();
    Some(Arc::new(ToolSet::from(left)))
}
