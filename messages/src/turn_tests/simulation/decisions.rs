//! What people decide about calls, told independently of the fold: a decision is about a tool
//! as it was shown, for one call, for the session or for ever, and nothing else.

use super::harness::Harness;
use super::monitor::Monitor;
use super::plan::Fault;
use crate::approvals::{Decision, Scope, Standing};
use crate::chat::{CallStatus, ToolCall};
use crate::ids::{ApprovalId, CallId};
use crate::input::ResumeReply;
use crate::store::{Append, Fact, Record};
use crate::tools::{CheckRequest, ToolReturn};
use crate::turn::Effect;
use crate::turn::approvals::understood;
use crate::turn::tests::world::{Question, World, definition, seal};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What is known of them.
#[derive(Debug, Default)]
pub(super) struct Decisions {
    /// What was asked about each call last: by which name, and how its tool was shown.
    asked: BTreeMap<CallId, (ApprovalId, String)>,
    /// Calls that somebody allowed, each with its tool as it was shown.
    allowed: BTreeMap<CallId, String>,
    /// What stands for further calls of the one tool that asks: as it was shown, and whether they may run.
    stands: Option<(String, bool)>,
    /// Of which definitions all calls were allowed, for the session or for ever.
    beyond: BTreeSet<String>,
    /// The last lasting decision that leaves with the effects that are performed now: what it stands for, where its question
    /// is stored.
    leaving: Option<Option<(String, bool)>>,
}

impl Harness {
    /// The tools become others under their names.
    pub(super) fn drift(&mut self) {
        self.world.tool_changes += 1;
    }

    /// The tools' room lets a call through that arrives with a grant for its tool as it is now, and for no other.
    pub(super) fn refused_at_the_door(&mut self, call: &ToolCall) -> Option<ToolReturn> {
        if self.plan.has(Fault::Drift) && self.tools.rarely(8) {
            // They have done so while the call was on its way.
            self.drift();
        }
        let now = self.world.tool_changes;
        let is_good = self.grants.get(&call.id).is_some_and(|grant| grant.seal == seal(call, now));
        if self.sabotage.lets_through(is_good) {
            self.monitor.runs_as_shown(call, &definition(now));
            return None;
        }
        self.monitor.saw("refused at the door".to_owned());
        Some(ToolReturn::note(CallStatus::Denied, "denied: it has changed since; call it again"))
    }
}

impl Monitor {
    /// A record of an approval is stored.
    pub(super) fn reads_decision(&mut self, record: &Record) {
        match &record.fact {
            Fact::ApprovalAsked { approval, call, tool, .. } => {
                let definition = tool.as_ref().map(|tool| tool.definition.clone()).unwrap_or_default();
                let before = self.decisions.asked.insert(call.clone(), (approval.clone(), definition.clone()));
                if let Some((_, before)) = before {
                    self.must(before != definition, || format!("a person is asked again about {call} as it was"));
                    self.saw("asked again".to_owned());
                }
                self.decisions.allowed.remove(call);
            }
            Fact::ApprovalDecided { approval, allowed, scope, .. } => {
                let asked = self.decisions.asked.iter().find(|(_, (asked, _))| asked == approval);
                let Some((call, definition)) = asked.map(|(call, (_, shown))| (call.clone(), shown.clone())) else {
                    return;
                };
                if scope.is_some() {
                    self.decisions.stands = Some((definition.clone(), *allowed));
                    self.saw(format!("stands {allowed}"));
                }
                if *allowed && scope.is_some() {
                    self.decisions.beyond.insert(definition.clone());
                }
                if *allowed {
                    self.decisions.allowed.insert(call, definition);
                }
            }
            _ => {}
        }
    }

    /// Whether a lasting decision says so about further calls.
    pub(super) fn stands_for(&self, allowed: bool) -> bool {
        let lasting = self.decisions.stands.as_ref().map(|(_, allowed)| *allowed);
        lasting == Some(allowed) || self.life.remembered.contains(&allowed)
    }

    /// A call of a tool that asks runs: somebody allowed this very call, or such calls, of the tool as it is now.
    fn runs_as_shown(&mut self, call: &ToolCall, now: &str) {
        if call.name.own_name() != "ask" {
            return;
        }
        let own = self.decisions.allowed.get(&call.id).is_some_and(|shown| shown == now);
        let fine = own || self.decisions.beyond.contains(now);
        self.must(fine, || format!("{} runs as {now}, and nobody allowed that", call.id));
        self.saw(if own { "ran as it was shown" } else { "ran as such calls may" }.to_owned());
    }

    /// These effects are performed next. A decision is on its way to the store behind the checks that follow from it.
    pub(super) fn looks_ahead(&mut self, effects: &[Effect]) {
        let appends = effects.iter().filter_map(|effect| match effect {
            Effect::Append { append, .. } => Some(append),
            _ => None,
        });
        let mut lasting = appends.flat_map(|append| &append.records).filter_map(|record| match &record.fact {
            Fact::ApprovalDecided { approval, allowed, scope: Some(_), .. } => Some((approval, *allowed)),
            _ => None,
        });
        self.decisions.leaving = lasting.next_back().map(|(approval, allowed)| {
            let asked = self.decisions.asked.values().find(|(asked, _)| asked == approval);
            asked.map(|(_, shown)| (shown.clone(), allowed))
        });
    }

    /// Whoever judges a call is told what stands about its tool.
    pub(super) fn is_told_what_stands(&mut self, check: &CheckRequest, world: &World) {
        let stands = match &self.decisions.leaving {
            Some(leaving) => leaving.clone(),
            None => self.decisions.stands.clone(),
        };
        let Some((definition, allowed)) = stands else { return };
        let owns = world.turn.outbox.epoch == world.epoch;
        if check.call.name.own_name() != "ask" || !owns || decides_more(world) {
            return;
        }
        let same = |standing: &Arc<Standing>| standing.definition == definition && standing.allowed == allowed;
        let told = check.standing.iter().any(same);
        self.must(told, || format!("{} is judged without what was decided about such calls", check.call.id));
    }

    /// Something is remembered for ever, which somebody said.
    pub(super) fn remembers(&mut self, standing: &Standing) {
        let so = (standing.allowed, Some(Scope::Always));
        let decided = self.decided.iter().any(|said| (said.allowed, said.scope) == so);
        let resumed = self.resumes.values().any(|(_, reply)| said(reply) == so);
        self.must(decided || resumed, || format!("nobody said for ever that {standing:?}"));
        self.life.remembered.insert(standing.allowed);
        if standing.allowed {
            self.decisions.beyond.insert(standing.definition.clone());
        }
        self.saw("remembered".to_owned());
    }

    /// What was decided for ever is remembered before it is on its way to the store.
    pub(super) fn remembers_before(&mut self, append: &Append) {
        for record in &append.records {
            let Fact::ApprovalDecided { approval, allowed, scope: Some(Scope::Always), .. } = &record.fact else {
                continue;
            };
            let kept = self.life.remembered.contains(allowed);
            self.must(kept, || format!("{approval} was decided for ever and is not remembered"));
        }
    }
}

/// What a decision comes to: whether it allows, and how far it reaches beyond its call.
pub(super) fn comes_to(decision: &Decision) -> (bool, Option<Scope>) {
    let decision = understood(decision.clone());
    (!matches!(decision, Decision::Deny { .. } | Decision::DenyAlways { .. }), decision.scope())
}

/// The same of what a suspended turn is resumed with.
pub(super) fn said(reply: &ResumeReply) -> (bool, Option<Scope>) {
    match reply {
        ResumeReply::Answer(_) => (false, None),
        ResumeReply::Decision(decision) | ResumeReply::Decided { decision, .. } => comes_to(decision),
    }
}

/// Whether the machine knows of decisions that are not stored yet.
fn decides_more(world: &World) -> bool {
    let decides = |record: &Arc<Record>| matches!(record.fact, Fact::ApprovalDecided { .. });
    let on_the_way = world.questions.iter().any(|question| match question {
        Question::Append(_, append, _) => append.records.iter().any(decides),
        _ => false,
    });
    on_the_way || world.turn.unsent().iter().any(decides)
}
