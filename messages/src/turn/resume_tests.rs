//! A turn whose actor crashes ends like the turn of an actor that does not, as long
//! as model and tools always say the same to the same question and calls may run again.

use super::chance::{Setup, setups};
use super::simulation::{Dice, Moods, reply};
use super::world::{Question, World, input, verdict};
use super::{Recover, ResumeReply, TurnMessage};
use crate::chat::{CallStatus, Message};
use crate::ids::{ResumeToken, TurnId};
use crate::session::{Session, TurnInput};
use crate::sessions::{Decision, TurnNews, TurnOutcome};
use crate::tools::{CallTraits, ToolOutput, ToolReturn, Verdict};
use crate::trace::fnv64;
use proptest::prelude::*;
use std::collections::VecDeque;
use std::sync::Arc;

/// After so many further messages the actor is gone, and whether what it had sent
/// to the store still arrives.
type Crash = (usize, bool);

struct Life {
    world: World,
    setup: Setup,
    seed: u64,
    owed: Option<(TurnId, TurnMessage)>,
    heard: usize,
    messages: usize,
    submissions: u32,
    ends: Vec<TurnOutcome>,
    crashes: VecDeque<Crash>,
}

impl Life {
    /// Three inputs, one after the other; a suspended turn is resumed.
    fn lived(setup: &Setup, seed: u64, crashes: &[Crash]) -> (Vec<TurnOutcome>, Vec<Arc<Message>>) {
        let mut life = Self {
            world: World::new(setup.brief()),
            setup: setup.clone(),
            seed,
            owed: None,
            heard: 0,
            messages: 0,
            submissions: 0,
            ends: Vec::new(),
            crashes: crashes.iter().copied().collect(),
        };
        for number in 0..3 {
            let submission = life.next_submission();
            let said = input(life.submissions, &format!("message {number}"), life.setup.limits);
            let input = Arc::new(TurnInput { approvals: life.setup.approvals, ..said });
            life.submit(submission, TurnMessage::Start { input, brief: Arc::clone(&life.world.brief) });
            while let Some((token, question)) = life.suspended() {
                let submission = life.next_submission();
                let reply = match life.decision(&question) {
                    Decision::Deny { reason } => ResumeReply::Answer(reason),
                    decision => ResumeReply::Decision(decision),
                };
                let brief = Arc::clone(&life.world.brief);
                life.submit(
                    submission.clone(),
                    TurnMessage::Resume { submission, token, reply: Box::new(reply), brief },
                );
            }
        }
        let history = life.world.folded().history;
        (life.ends, history)
    }

    fn next_submission(&mut self) -> TurnId {
        self.submissions += 1;
        TurnId::new(format!("t{}", self.submissions))
    }

    fn suspended(&self) -> Option<(ResumeToken, String)> {
        let last = self.ends.last()?;
        Some((last.token.clone()?, last.question.clone()?))
    }

    fn submit(&mut self, submission: TurnId, message: TurnMessage) {
        self.owed = Some((submission, message.clone()));
        self.say(message);
        for _ in 0..2_000 {
            if self.owed.is_none() && self.world.questions.is_empty() {
                return;
            }
            self.go_on();
        }
        panic!("it goes on for ever");
    }

    fn go_on(&mut self) {
        if self.world.questions.is_empty() {
            let step = self.world.turn.session().and_then(Session::running).and_then(|open| open.step.as_ref());
            let asked = |open: &&crate::session::OpenCall| open.approval.as_ref().is_some_and(|a| a.allowed.is_none());
            let open = step.and_then(|step| step.calls.iter().find(asked)).expect("somebody is asked something");
            let approval = open.approval.as_ref().expect("it asks").id.clone();
            let decision = self.decision(&format!("{}{}", open.call.name, open.call.arguments));
            return self.say(TurnMessage::Decided { approval, decision: Box::new(decision) });
        }
        let question = self.world.questions.remove(0);
        let message = match &question {
            Question::Infer(ticket, request) => {
                let asked = serde_json::to_string(&request.messages).expect("messages are JSON");
                let said = reply(Moods::ALL, request, &mut Dice::new(fnv64(asked.as_bytes()), self.seed));
                TurnMessage::ParseAction { ticket: *ticket, result: said.map(Arc::new) }
            }
            Question::Call(_, call) | Question::Ran(_, call) => {
                let (status, output) = match self.hash(&format!("{}{}", call.name, call.arguments)) % 3 {
                    0 => (CallStatus::Error, ToolOutput::error("failed")),
                    _ => (CallStatus::Ok, ToolOutput::text(format!("{} is done", call.name))),
                };
                question.returned(ToolReturn { status, output, duration_ms: 1 }).expect("a call")
            }
            Question::Check(ticket, check) if !check.run => {
                TurnMessage::Checked { ticket: *ticket, verdict: Some(may_run_again(verdict(check))) }
            }
            question => match self.world.works(question) {
                Some(message) => message,
                None => return,
            },
        };
        self.say(message);
    }

    fn hash(&self, text: &str) -> u64 {
        fnv64(text.as_bytes()) ^ self.seed
    }

    fn decision(&self, about: &str) -> Decision {
        match self.hash(about) % 3 {
            0 => Decision::Deny { reason: "not this one".into() },
            1 => Decision::Edit { arguments: serde_json::json!({"a": 7}) },
            _ => Decision::AllowOnce,
        }
    }

    fn say(&mut self, message: TurnMessage) {
        self.world.say(message);
        self.hear();
        self.messages += 1;
        if self.crashes.front().is_some_and(|(after, _)| self.messages > *after) {
            let (_, stored) = self.crashes.pop_front().unwrap_or_default();
            self.messages = 0;
            self.crash(stored);
        }
    }

    fn hear(&mut self) {
        for news in &self.world.news[self.heard..] {
            match news {
                TurnNews::Finished { submission, outcome } => {
                    if self.owed.as_ref().is_some_and(|(owed, _)| owed == submission) {
                        self.owed = None;
                        self.ends.push((**outcome).clone());
                    }
                }
                TurnNews::Refused { submission, error } => panic!("{submission} was refused: {error}"),
                TurnNews::Began { .. }
                | TurnNews::Accepted { .. }
                | TurnNews::Paused { .. }
                | TurnNews::Unpaused { .. }
                | TurnNews::Left => {}
            }
        }
        self.heard = self.world.news.len();
    }

    fn crash(&mut self, stored: bool) {
        for question in std::mem::take(&mut self.world.questions) {
            if let (Question::Append(_, append, _), true) = (question, stored) {
                self.world.store(&append).expect("the owner writes");
            }
        }
        self.world.crash();
        let brief = Arc::clone(&self.world.brief);
        self.say(TurnMessage::Wake { brief, recover: Recover::Continue });
        if let Some((_, message)) = self.owed.clone() {
            self.say(message);
        }
    }
}

fn may_run_again(verdict: Verdict) -> Verdict {
    match verdict {
        Verdict::Allow { grant, traits } => Verdict::Allow { grant, traits: CallTraits { idempotent: true, ..traits } },
        verdict => verdict,
    }
}

/// What must be the same: everything but times.
fn timeless(outcome: TurnOutcome) -> TurnOutcome {
    // A token names a version of the journal; a crash may have added records before it.
    TurnOutcome { duration_ms: 0, token: None, ..outcome }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn resumed_equals_live(
        setup in setups(),
        seed in any::<u64>(),
        crashes in proptest::collection::vec((0_usize..25, any::<bool>()), 1..6),
    ) {
        let (live, history) = Life::lived(&setup, seed, &[]);
        let (resumed, resumed_history) = Life::lived(&setup, seed, &crashes);
        let (live, resumed): (Vec<_>, Vec<_>) =
            (live.into_iter().map(timeless).collect(), resumed.into_iter().map(timeless).collect());
        prop_assert_eq!(resumed, live);
        prop_assert_eq!(resumed_history, history);
    }
}
