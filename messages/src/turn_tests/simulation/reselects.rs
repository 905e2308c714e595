//! Skills that are chosen again: once for what happened since, before the next prompt, and never without a skill that the
//! model was told it has. The causes are counted here a second time, from the records alone.

use super::monitor::Monitor;
use crate::chat::CallStatus;
use crate::ids::{ApprovalId, CallId, ToolName};
use crate::llm::LlmRequest;
use crate::outcome::SuspendReason;
use crate::skills::{ReselectCause, SelectedSkills};
use crate::store::{Fact, Record};
use crate::turn::tests::world::{Question, World};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What is known of the skills of the open turn.
#[derive(Debug, Default)]
pub(super) struct Reselects {
    chosen: Option<SelectedSkills>,
    /// The causes since the last selection.
    due: BTreeSet<ReselectCause>,
    /// The model is asked, and does not know yet what the user said.
    steered_behind: bool,
    failed: u32,
    /// Skills that the model was told it has.
    promised: BTreeSet<String>,
    calls: Vec<Called>,
    asked: BTreeMap<ApprovalId, CallId>,
    suspended: Option<SuspendReason>,
}

#[derive(Debug)]
struct Called {
    id: CallId,
    /// The skill that it asks for.
    skill: Option<String>,
    /// Whether it asks for a skill at all, perhaps without a name.
    asks_for_skill: bool,
    is_question: bool,
    is_refused: bool,
    result: Option<CallStatus>,
}

impl Reselects {
    fn read(&mut self, record: &Record) -> Result<(), String> {
        match &record.fact {
            Fact::Started { .. } => *self = Self::default(),
            Fact::SkillsSelected(skills) => self.chosen = Some(skills.clone()),
            Fact::SkillsReselected(again) => {
                let named: BTreeSet<_> = again.causes.iter().copied().collect();
                // It may be taken up before the answer that it is behind, by an actor that asks again.
                self.hears_behind();
                if self.due.is_empty() || named != self.due || named.len() != again.causes.len() {
                    return Err(format!("skills are chosen again for {:?}, and {:?} is due", again.causes, self.due));
                }
                let before =
                    self.chosen.replace(again.skills.clone()).ok_or("skills are chosen again for the first time")?;
                if before.budget_bytes != again.skills.budget_bytes {
                    return Err("the budget of skills changed within a turn".to_owned());
                }
                if !named.contains(&ReselectCause::Steered) && before.allow_tools != again.skills.allow_tools {
                    return Err("a model's or a tool's words changed which tools there are".to_owned());
                }
                let has = |name: &&String| again.skills.skills.iter().any(|skill| skill.name == **name);
                if let Some(lost) = self.promised.iter().find(|name| !has(name)) {
                    return Err(format!("the model was told it has the skill {lost}, which is not chosen"));
                }
                self.due.clear();
            }
            Fact::Steered { behind: true, .. } => self.steered_behind = true,
            Fact::Steered { .. } => self.notes(ReselectCause::Steered),
            Fact::Condensed(_) => self.notes(ReselectCause::Condensed),
            Fact::Answered(answered) => {
                self.hears_behind();
                self.calls = answered
                    .calls
                    .iter()
                    .map(|call| Called {
                        id: call.id.clone(),
                        skill: (call.name.as_str() == ToolName::USE_SKILL)
                            .then(|| call.arguments.get("name").and_then(Value::as_str).map(str::to_owned))
                            .flatten(),
                        asks_for_skill: call.name.as_str() == ToolName::USE_SKILL,
                        is_question: call.name.is_ask_user(),
                        is_refused: false,
                        result: None,
                    })
                    .collect();
            }
            Fact::Malformed { .. } => self.hears_behind(),
            Fact::ApprovalAsked { approval, call, .. } => {
                self.asked.insert(approval.clone(), call.clone());
            }
            Fact::ApprovalDecided { approval, allowed, .. } => {
                let of = self.asked.get(approval).cloned();
                let call = self.calls.iter_mut().find(|call| Some(&call.id) == of.as_ref() && call.result.is_none());
                call.into_iter().for_each(|call| call.is_refused = !allowed);
            }
            Fact::Result(result) => self.ends(&result.call, result.status),
            Fact::Outcome(ended) => self.suspended = ended.suspended.as_ref().map(|suspended| suspended.reason),
            Fact::Resumed { .. } if self.suspended.take() == Some(SuspendReason::AskUser) => {
                // The answer to a question is its result.
                let is_open = |call: &&Called| call.is_question && call.result.is_none();
                if let Some(id) = self.calls.iter().find(is_open).map(|call| call.id.clone()) {
                    self.ends(&id, CallStatus::Ok);
                }
            }
            _other => {}
        }
        Ok(())
    }

    fn notes(&mut self, cause: ReselectCause) {
        if self.chosen.is_some() {
            self.due.insert(cause);
        }
    }

    fn hears_behind(&mut self) {
        if std::mem::take(&mut self.steered_behind) {
            self.notes(ReselectCause::Steered);
        }
    }

    fn ends(&mut self, call: &CallId, status: CallStatus) {
        let open = self.calls.iter_mut().find(|open| open.id == *call && open.result.is_none());
        open.into_iter().for_each(|open| open.result = Some(status));
        if self.calls.iter().any(|open| open.result.is_none()) {
            return;
        }
        for call in std::mem::take(&mut self.calls) {
            match call.result {
                Some(CallStatus::Ok) => {
                    self.failed = 0;
                    if let Some(skill) = call.skill.filter(|_| self.chosen.is_some())
                        && self.promised.insert(skill)
                    {
                        self.notes(ReselectCause::UseSkill);
                    }
                }
                Some(CallStatus::Error | CallStatus::Denied | CallStatus::Unknown)
                    if !call.is_refused && !call.asks_for_skill =>
                {
                    self.failed += 1;
                    if self.failed == 2 {
                        self.failed = 0;
                        self.notes(ReselectCause::ToolErrors);
                    }
                }
                _neither => {}
            }
        }
    }
}

impl Monitor {
    pub(super) fn reads_skills(&mut self, record: &Record) {
        if let Err(why) = self.reselects.read(record) {
            self.must(false, || why);
        }
        if let Fact::SkillsReselected(again) = &record.fact {
            again.causes.iter().for_each(|cause| self.saw(format!("reselected for {cause:?}")));
        }
    }

    /// The skills of a turn as they are stored, or about to be; and nothing is due when the model is asked.
    pub(super) fn skills_of(&mut self, request: &LlmRequest, world: &World) -> Option<SelectedSkills> {
        let open = self.shadow.running().filter(|open| open.input.turn == request.turn)?;
        let stored = open.skills.as_deref().cloned();
        let own = world.turn.outbox.epoch;
        let on_the_way = world.questions.iter().filter_map(|question| match question {
            Question::Append(_, append, _) if append.epoch == own => Some(&append.records),
            _other => None,
        });
        // What the store does not take goes with the next append.
        let on_the_way = on_the_way.flatten().chain(world.turn.unsent());
        let mut again = on_the_way.filter_map(|record: &Arc<Record>| match &record.fact {
            Fact::SkillsReselected(again) => Some(again.skills.clone()),
            _other => None,
        });
        let again = again.next_back();
        let is_late = again.is_none() && !self.reselects.due.is_empty() && own == world.epoch;
        let due = self.reselects.due.clone();
        self.must(!is_late, || format!("the model is asked while skills are to be chosen again for {due:?}"));
        again.or(stored)
    }
}
