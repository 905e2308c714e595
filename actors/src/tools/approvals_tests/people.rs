//! Those who are asked: what they were shown, and what they say, about which question and when.

use super::*;

/// A call as a person was shown it.
pub(super) struct Shown {
    pub(super) call: Arc<ToolCall>,
    pub(super) definition: String,
    pub(super) exact: bool,
    pub(super) said: Vec<Decision>,
}

impl World {
    pub(super) fn show(&mut self, question: &ApprovalQuestion) {
        let definition = self.definition_asked(&question.approval_id).unwrap_or_default();
        let (call, exact) = (Arc::clone(&question.call), question.exact);
        let shown = Shown { call, definition, exact, said: Vec::new() };
        self.shown.entry(question.approval_id.clone()).or_insert(shown);
    }

    /// Whoever has a token sees what the turn is suspended on.
    pub(super) fn show_suspended(&mut self) {
        let open =
            self.turn.session().and_then(|session| session.open.as_ref()).filter(|open| open.suspended.is_some());
        let calls = open.and_then(|open| open.step.as_ref()).map_or(&[][..], |step| &step.calls);
        for open in calls.iter().filter(|open| open.result.is_none()) {
            let Some((asked, tool)) = open.approval.as_ref().and_then(|asked| Some((asked, asked.tool.as_ref()?)))
            else {
                continue;
            };
            self.shown.entry(asked.id.clone()).or_insert_with(|| Shown {
                call: Arc::clone(&open.call),
                definition: tool.definition.clone(),
                exact: tool.exact,
                said: Vec::new(),
            });
        }
    }

    fn definition_asked(&self, approval: &ApprovalId) -> Option<String> {
        let step = self.turn.session()?.running()?.step.as_ref()?;
        let asked = step.calls.iter().filter_map(|open| open.approval.as_ref()).find(|asked| asked.id == *approval)?;
        asked.tool.as_ref().map(|tool| tool.definition.clone())
    }

    fn decision(&mut self) -> Decision {
        let reason = || "no".to_owned();
        match self.dice.u32(..9) {
            0..=2 => Decision::AllowOnce,
            3 => Decision::AllowSession,
            4 => Decision::AllowAlways,
            5 => Decision::Edit { arguments: json!({"command": (["a", "b", "d"][self.dice.usize(..3)])}) },
            6 => Decision::Edit { arguments: [Value::Null, json!({"command": 1})][self.dice.usize(..2)].clone() },
            7 => Decision::DenyAlways { reason: reason() },
            _ => Decision::Deny { reason: reason() },
        }
    }

    /// As the machine hears it.
    fn heard(&self, decision: Decision) -> Decision {
        match (self.defect, decision) {
            (Some(Defect::WidensScope), Decision::AllowOnce) => Decision::AllowSession,
            (Some(Defect::HearsYes), Decision::Deny { .. }) => Decision::AllowOnce,
            (_, decision) => decision,
        }
    }

    pub(super) fn person(&mut self) {
        if self.shown.is_empty() {
            return;
        }
        // Mostly about the newest questions, sometimes about one of long ago.
        let back = if self.dice.u32(..4) == 0 { self.dice.usize(..self.shown.len()) } else { 0 };
        let approval = self.shown.keys().rev().nth(back).cloned().unwrap();
        let decision = self.decision();
        let suspended = self.turn.session().and_then(|session| session.open.as_ref()?.suspended.clone());
        if let Some(suspension) = suspended {
            let token = match self.dice.u32(..3) {
                0 if !self.tokens.is_empty() => self.tokens[self.dice.usize(..self.tokens.len())].clone(),
                _ => suspension.token,
            };
            // A token is of the first question that is open in its turn.
            let open = self.turn.session().and_then(|session| session.open.as_ref()?.step.clone());
            let first = open.and_then(|step| {
                step.calls.into_iter().find_map(|open| open.approval.filter(|asked| asked.allowed.is_none()))
            });
            if let Some(shown) = first.and_then(|asked| self.shown.get_mut(&asked.id)) {
                shown.said.push(decision.clone());
            }
            let reply = Box::new(ResumeReply::Decision(self.heard(decision)));
            self.inputs += 1;
            let submission = TurnId::new(format!("t{}", self.inputs));
            return self.say(TurnMessage::Resume {
                submission,
                token,
                reply,
                parent: None,
                turn_config: self.turn_config(),
            });
        }
        if let Some(shown) = self.shown.get_mut(&approval) {
            shown.said.push(decision.clone());
        }
        let (decision, asker) = (Box::new(self.heard(decision)), self.dice.bool().then_some(Ticket(1)));
        self.say(TurnMessage::Decided { approval, decision, asker });
    }

    pub(super) fn expires(&mut self) {
        let Some(approval) = self.shown.keys().last().cloned() else { return };
        let decision = Box::new(Decision::Deny { reason: "nobody decided in time".to_owned() });
        self.say(TurnMessage::Decided { approval, decision, asker: None });
    }
}
