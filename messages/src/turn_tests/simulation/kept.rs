//! What the store keeps: each record is read once, when it is durable, and must fit what
//! was said to the machine and what a strict provider accepts.

use super::decisions::said;
use super::monitor::Monitor;
use crate::approvals::Scope;
use crate::chat::{CallStatus, Message};
use crate::ids::{ApprovalId, ToolName, TurnId};
use crate::input::{ResumeReply, TurnInput};
use crate::outcome::SuspendReason;
use crate::session_state::{OpenCall, Session};
use crate::store::{Fact, Record, StepCost};
use std::sync::Arc;

impl Monitor {
    /// Records that are stored now.
    pub(super) fn reads(&mut self, stored: &[Arc<Record>], owner: u64) {
        let known = usize::try_from(self.shadow.version).unwrap_or(usize::MAX).min(stored.len());
        for record in &stored[known..] {
            let asked = &self.asked;
            let limits = |turn: &TurnId| asked.get(turn).map(|input| input.limits);
            if let Err(why) = self.grammar.read(record, owner, limits) {
                return self.must(false, || format!("the journal is wrong at {}: {why}", record.version));
            }
            self.matches_what_was_said(record);
            self.starts_clock(record);
            self.counts_runs(record);
            self.reads_options(record);
            self.reads_decision(record);
            self.reads_skills(record);
            self.saw(kind(&record.fact).to_owned());
            self.shadow.apply(record);
            self.twin.apply(record);
            if matches!(record.fact, Fact::Snapshot(_)) {
                let found = Session::fold_latest(record.session.clone(), None, std::slice::from_ref(record));
                self.must(found.as_ref() == Some(&self.twin), || "a snapshot is not the session".to_owned());
            }
            for message in self.shadow.history.iter().skip(self.pairing.messages) {
                if let Err(why) = self.pairing.read(message) {
                    self.broken.get_or_insert(why);
                }
            }
            let owed = self.pairing.owed();
            self.must(owed.is_none(), || format!("a provider would refuse the history: {owed:?} has no result"));
            if let (Fact::Outcome(_), Some(last)) = (&record.fact, &self.shadow.last) {
                self.outcomes.push(Arc::clone(last));
            }
            self.last = Some(Arc::clone(record));
        }
    }

    /// What is stored in this life of the machine was handed in by a caller who waits for it: its clock runs.
    fn starts_clock(&mut self, record: &Record) {
        match &record.fact {
            Fact::Input(input) => self.life.running.insert(input.turn.clone()),
            Fact::Resumed { submission, .. } => self.life.running.insert(submission.clone()),
            _no_request => false,
        };
    }

    fn matches_what_was_said(&mut self, record: &Record) {
        match &record.fact {
            Fact::Input(input) => {
                // Its limits are counted by the grammar.
                let asked = self.asked.get(&input.turn);
                let same = asked.is_none_or(|asked| TurnInput { limits: input.limits, ..asked.clone() } == **input);
                self.must(same, || format!("{} was asked something else", input.turn));
            }
            Fact::Answered(answered) => self.responds_once(&answered.cost),
            Fact::Malformed { cost, .. } => self.responds_once(cost),
            Fact::Result(result) => {
                let returned = self.returned.get(&(record.epoch, result.call.clone()));
                let same = returned.is_none_or(|back| {
                    // Refused where it was to run again after a crash: whether it ran before is unknown.
                    let doubted = back.status == CallStatus::Denied
                        && result.status == CallStatus::Unknown
                        && result.output.plain().ends_with(&back.output.plain());
                    // The machine itself says whether there is room for a skill.
                    let is_skill = result.name.as_str() == ToolName::USE_SKILL && back.status == CallStatus::Ok;
                    doubted || is_skill || back.status == result.status && back.output == result.output
                });
                self.must(same, || format!("{} returned something else than is journaled", result.call));
            }
            Fact::ApprovalDecided { approval, allowed, scope, .. } => self.decided_so(approval, *allowed, *scope),
            Fact::Steered { request_id: Some(request), parts, .. } => self.keeps_steer(request, parts),
            Fact::Resumed { submission, .. } => {
                let suspension = self.shadow.open.as_ref().and_then(|open| open.suspended.as_ref());
                self.resumes_approval = suspension.is_some_and(|open| open.reason == SuspendReason::ApprovalRequired);
                // A question that is given up is closed under the name of whoever was told it.
                if self.shadow.open.as_ref().is_some_and(|open| open.submission == *submission) {
                    return;
                }
                let open = self.shadow.open.as_ref().and_then(|open| open.suspended.clone());
                let said = self.resumes.get(submission).map(|(token, _)| token.clone());
                let token = open.as_ref().map(|open| open.token.clone());
                let same = said.is_none() || said == token;
                self.must(same, || format!("{submission} answers another question than it was given the token of"));
                let told = token.and_then(|token| self.questions.get(&token).cloned());
                let same = told.is_none() || told == open.map(|open| open.question);
                self.must(same, || format!("{submission} answers {told:?}, which is not asked any more"));
            }
            Fact::Condensed(condensed) => {
                let written = condensed.summary.as_ref().is_none_or(|summary| self.summaries.remove(&**summary));
                self.must(written, || format!("nobody wrote this summary, or it is taken twice: {condensed:?}"));
                let history = &self.shadow.history;
                let first = history.len().checked_sub(condensed.keeps).and_then(|at| history.get(at));
                let apart = first.is_none_or(|first| matches!(**first, Message::Tool { .. }));
                self.must(!apart, || "a call is parted from its result".to_owned());
            }
            _ => {}
        }
    }

    /// A response of the model is journaled once.
    fn responds_once(&mut self, cost: &StepCost) {
        let new = cost.response_id.clone().is_none_or(|response| self.responses.insert(response));
        self.must(new, || "one response of the model is taken for two".to_owned());
    }

    /// A decision in the journal is one that a person made about that call.
    fn decided_so(&mut self, approval: &ApprovalId, allowed: bool, scope: Option<Scope>) {
        let resumed = match self.last.as_ref().map(|record| &record.fact) {
            // What a person says to the model decides about no call; a call of the same step may be decided just then.
            Some(Fact::Resumed { submission, .. }) if self.resumes_approval => self.resumes.get(submission),
            _ => None,
        };
        if let Some((_, reply)) = resumed {
            let so = said(reply) == (allowed, scope);
            let is_meant = match reply {
                ResumeReply::Decided { approval: meant, .. } => meant == approval,
                ResumeReply::Answer(_) | ResumeReply::Decision(_) => true,
            };
            self.must(is_meant, || format!("{approval} is decided and another was meant"));
            return self.must(so, || format!("{approval} is decided otherwise than was said"));
        }
        let calls = self.grammar.open.as_ref().map_or(&[][..], |open| &open.calls);
        let call = calls.iter().find(|call| call.approval.as_ref().is_some_and(|(asked, _)| asked == approval));
        let proposed = call.map(|call| call.name.clone());
        let arguments = self.shadow.open.as_ref().and_then(|open| open.step.as_ref()).and_then(|step| {
            let asked = |open: &&OpenCall| open.approval.as_ref().is_some_and(|asked| asked.id == *approval);
            step.calls.iter().find(asked).map(|open| serde_json::Value::clone(&open.call.arguments))
        });
        let so = self.decided.iter().any(|said| {
            let saw = said.seen.as_ref().is_none_or(|seen| {
                Some(&seen.name) == proposed.as_ref() && Some(&seen.arguments) == arguments.as_ref()
            });
            said.approval == *approval && (said.allowed, said.scope) == (allowed, scope) && saw
        });
        // Judged anew after a lasting decision about such calls.
        let so = so || scope.is_none() && self.stands_for(allowed);
        self.must(so, || format!("{approval} is decided as nobody who saw the call has said"));
    }
}

fn kind(fact: &Fact) -> &'static str {
    match fact {
        Fact::Options(_) => "options",
        Fact::Input(_) => "input",
        Fact::Started { .. } => "started",
        Fact::Answered(_) => "answered",
        Fact::Malformed { .. } => "malformed",
        Fact::Intent { .. } => "intent",
        Fact::ApprovalAsked { .. } => "approval asked",
        Fact::ApprovalDecided { .. } => "approval decided",
        Fact::Result(_) => "result",
        Fact::Steered { .. } => "steered",
        Fact::Resumed { .. } => "resumed",
        Fact::Withdrawn => "withdrawn",
        Fact::Outcome(_) => "outcome",
        Fact::Configured { .. } => "configured",
        Fact::Condensed(condensed) if condensed.summary.is_some() => "summarised",
        Fact::Condensed(_) => "truncated",
        Fact::SkillsSelected(_) => "skills selected",
        Fact::SkillsReselected(_) => "skills reselected",
        Fact::Waits { .. } => "waits outside",
        Fact::LimitAsked { .. } => "limit asked",
        Fact::LimitDecided { .. } => "limit decided",
        Fact::Snapshot(_) => "snapshot",
    }
}
