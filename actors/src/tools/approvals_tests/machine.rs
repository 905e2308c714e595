//! The world around the machine: what it asks for, and the real gate or dice that answer.

use super::*;

/// What the machine waits for.
#[derive(Clone)]
pub(super) enum Waits {
    Own(TurnMessage),
    Claim(Ticket),
    Append(Ticket, Append, bool),
    Tools(Ticket),
    Profile(Ticket),
    Infer(Ticket),
    Check(Ticket, CheckRequest, Arc<CallContext>),
    Call(Ticket, Arc<ToolCall>, Grant, Arc<CallContext>),
}

impl World {
    pub(super) fn say(&mut self, message: TurnMessage) {
        self.now += 1;
        self.past.push(message.clone());
        for effect in self.turn.apply(self.now, message) {
            match effect {
                Effect::Tell(message) => self.waits.push(Waits::Own(message)),
                Effect::Claim { ticket, .. } => self.waits.push(Waits::Claim(ticket)),
                Effect::Append { ticket, confirm, append, .. } => {
                    self.waits.push(Waits::Append(ticket, append, confirm))
                }
                Effect::ListTools { ticket, .. } => self.waits.push(Waits::Tools(ticket)),
                Effect::Profile { ticket, .. } => self.waits.push(Waits::Profile(ticket)),
                Effect::Infer { ticket, .. } => self.waits.push(Waits::Infer(ticket)),
                Effect::Check { ticket, check, context } => self.waits.push(Waits::Check(ticket, check, context)),
                Effect::Call { ticket, call, grant, context } => {
                    self.waits.push(Waits::Call(ticket, call, grant, context));
                }
                Effect::Remember(standing) => standing.join(&mut self.memory),
                Effect::Report(TurnNews::Paused { question, .. }) => self.show(&question),
                Effect::Report(TurnNews::Finished { outcome, .. }) => self.tokens.extend(outcome.token),
                Effect::AbandonAll
                | Effect::Release { .. }
                | Effect::GiveUp { .. }
                | Effect::Report(_)
                | Effect::Emit(_) => {}
                // The briefs here want none of it, and the histories are short.
                Effect::ReadLayers { .. }
                | Effect::ListSkills { .. }
                | Effect::CheckOutput { .. }
                | Effect::Child { .. }
                | Effect::Abandon { .. }
                | Effect::Condense { .. } => panic!("nobody answers this here"),
            }
        }
        self.show_suspended();
    }

    /// Answers one thing the machine waits for.
    pub(super) fn answer(&mut self, waits: Waits) {
        let message = match waits {
            Waits::Own(message) => message,
            Waits::Claim(ticket) => {
                self.epoch += 1;
                let (epoch, version, records) = (self.epoch, self.stored.len() as u64, self.stored.clone());
                TurnMessage::Loaded { ticket, result: Ok(Claim { epoch, version, records }) }
            }
            Waits::Append(ticket, append, confirm) => {
                let result = self.store(append);
                if !confirm && result.is_ok() {
                    return;
                }
                TurnMessage::Saved { ticket, result }
            }
            Waits::Tools(ticket) => {
                let tools = Arc::new(ToolSet::from(self.gate.offered().to_vec()));
                TurnMessage::ToolsListed { ticket, tools, servers: Vec::new() }
            }
            Waits::Profile(ticket) => {
                let capabilities = Capabilities { native_tools: true, ..Capabilities::default() };
                TurnMessage::Profiled {
                    ticket,
                    result: Ok(Arc::new(ModelProfile {
                        model: name(),
                        capabilities,
                        price: None,
                        tokens_per_kb: bob_messages::llm::TOKENS_PER_KB,
                    })),
                }
            }
            Waits::Infer(ticket) => TurnMessage::ParseAction { ticket, result: Ok(Arc::new(self.model())) },
            Waits::Check(ticket, check, context) => {
                let check = self.damaged(check);
                let verdict = match self.gate.judge(&check, &context) {
                    Judged::Told(verdict) => verdict,
                    Judged::MayRun(_) => unreachable!("nothing here only reads"),
                };
                TurnMessage::Checked { ticket, verdict: Some(verdict) }
            }
            Waits::Call(ticket, call, grant, context) => {
                let returned = Box::new(self.tool(&call, &grant, &context));
                TurnMessage::ToolReturned { ticket, returned }
            }
        };
        self.say(message);
    }

    fn damaged(&self, mut check: CheckRequest) -> CheckRequest {
        check.standing.extend(self.memory.iter().filter(|standing| standing.tool == check.call.name).cloned());
        if self.defect == Some(Defect::IgnoresDefinition)
            && let Some(tool) = check.approved.as_mut().and_then(|approved| approved.tool.as_mut())
        {
            Arc::make_mut(tool).definition = self.definition(&check.call.name);
        }
        if self.defect == Some(Defect::ForgetsExactness) {
            for standing in &mut check.standing {
                Arc::make_mut(standing).arguments = None;
            }
        }
        check
    }

    pub(super) fn definition(&self, name: &ToolName) -> String {
        let tools = tools(self.version);
        let tool = tools.iter().find(|tool| tool.id == *name).unwrap();
        crate::tools::grant::Definition::of(tool).digest()
    }

    fn store(&mut self, append: Append) -> Result<u64, StoreError> {
        if append.epoch < self.epoch {
            return Err(StoreError::Fenced { epoch: self.epoch });
        }
        let version = self.stored.len() as u64;
        if append.expected_version != version {
            return Err(StoreError::Conflict { version });
        }
        self.stored.extend(append.records);
        Ok(self.stored.len() as u64)
    }

    fn model(&mut self) -> LlmAnswer {
        self.steps += 1;
        let count = if self.steps.is_multiple_of(4) { 0 } else { self.dice.usize(1..=3) };
        let calls: Vec<_> = (0..count)
            .map(|_| {
                let name = ["demo/pay", "demo/sh"][self.dice.usize(..2)];
                RawCall::new(name, json!({"command": (["a", "b"][self.dice.usize(..2)])}).to_string())
            })
            .collect();
        LlmAnswer::text(name(), if calls.is_empty() { "done".to_owned() } else { String::new() })
            .with_stop_reason(if calls.is_empty() { StopReason::Stop } else { StopReason::ToolCalls })
            .with_calls(calls)
            .with_latency_ms(1)
    }

    /// A call reaches its tool, if its grant is good.
    fn tool(&mut self, call: &ToolCall, grant: &Grant, context: &CallContext) -> ToolReturn {
        let mut call = call.clone();
        match self.defect {
            Some(Defect::ChangesArguments) => call.arguments = json!({"command": "c"}).into(),
            _ => {
                if self.gate.admit(&call, grant, context).is_err() {
                    return ToolReturn::note(CallStatus::Denied, ToolError::new("the grant is not good").to_string());
                }
            }
        }
        let times = if self.defect == Some(Defect::RunsTwice) { 2 } else { 1 };
        for _ in 0..times {
            self.runs(&call);
        }
        ToolReturn::note(CallStatus::Ok, "ran")
    }
}
