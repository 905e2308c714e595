//! A turn whose actor crashes ends like the turn of an actor that does not, as long
//! as model and tools always say the same to the same question and calls may run again.

use super::chance::{Setup, setups};
use super::simulation::{Dice, Moods, reply};
use super::world::{Question, World, assert_paired, input, verdict};
use crate::approvals::Decision;
use crate::chat::{CallStatus, Message};
use crate::ids::{ResumeToken, TurnId};
use crate::input::{ResumeReply, TurnInput};
use crate::outcome::TurnOutcome;
use crate::session_state::Session;
use crate::submission::TurnNews;
use crate::tools::{CallTraits, ToolOutput, ToolReturn, Verdict};
use crate::trace::fnv64;
use crate::turn::{Recover, TurnMessage};
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
        let mut life = Self::new(setup, seed, crashes);
        life.live();
        let history = life.world.folded().history;
        (life.ends, history)
    }

    fn new(setup: &Setup, seed: u64, crashes: &[Crash]) -> Self {
        Self {
            world: World::new(setup.turn_config()),
            setup: setup.clone(),
            seed,
            owed: None,
            heard: 0,
            messages: 0,
            submissions: 0,
            ends: Vec::new(),
            crashes: crashes.iter().copied().collect(),
        }
    }

    fn live(&mut self) {
        for number in 0..3 {
            self.start(&format!("message {number}"));
            while let Some((token, question)) = self.suspended() {
                let submission = self.next_submission();
                let reply = match self.decision(&question) {
                    Decision::Deny { reason } => ResumeReply::Answer(reason),
                    decision => ResumeReply::Decision(decision),
                };
                let turn_config = Arc::clone(&self.world.turn_config);
                self.submit(
                    submission.clone(),
                    TurnMessage::Resume { submission, token, reply: Box::new(reply), parent: None, turn_config },
                );
            }
        }
    }

    /// Says something and waits for what comes of it.
    fn start(&mut self, text: &str) {
        let submission = self.next_submission();
        let said = input(self.submissions, text, self.setup.limits);
        let input = Arc::new(TurnInput { approvals: self.setup.approvals, ..said });
        let turn_config = Arc::clone(&self.world.turn_config);
        self.submit(submission, TurnMessage::Start { input, turn_config });
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
            let asked =
                |open: &&crate::session_state::OpenCall| open.approval.as_ref().is_some_and(|a| a.allowed.is_none());
            let open = step.and_then(|step| step.calls.iter().find(asked)).expect("somebody is asked something");
            let approval = open.approval.as_ref().expect("it asks").id.clone();
            let decision = self.decision(&format!("{}{}", open.call.name, open.call.arguments));
            return self.say(TurnMessage::Decided { approval, decision: Box::new(decision), asker: None });
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
                TurnMessage::Checked { ticket: *ticket, verdict: Some(may_run_again(verdict(check, 0, &[]))) }
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
                | TurnNews::Paused { .. }
                | TurnNews::AtLimit { .. }
                | TurnNews::GivenUp { .. }
                | TurnNews::Unpaused { .. }
                | TurnNews::Configured { .. }
                | TurnNews::Steered { .. }
                | TurnNews::Orphaned { .. }
                | TurnNews::ChildGivenUp { .. }
                | TurnNews::TasksEnd { .. }
                | TurnNews::Closed
                | TurnNews::NotOpen { .. }
                | TurnNews::Flushed
                | TurnNews::BetweenSteps
                | TurnNews::Decided { .. }
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
        let turn_config = Arc::clone(&self.world.turn_config);
        self.say(TurnMessage::Wake { turn_config, recover: Recover::Continue });
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

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// The world asserts of every prompt and of every state that a strict provider takes it.
    #[test]
    fn s8_any_beginning_of_a_journal_is_repaired_once_and_goes_on(setup in setups(), seed in any::<u64>()) {
        // There is room for one input behind the turn that is finished first.
        let setup = Setup { max_waiting: setup.max_waiting.max(1), ..setup };
        let mut life = Life::new(&setup, seed, &[]);
        life.live();
        let journal = life.world.stored;
        for end in 0..=journal.len() {
            let mut next = Life::new(&setup, seed, &[]);
            next.world.stored = journal[..end].to_vec();
            next.world.epoch = life.world.epoch;
            // Names that no earlier submission had.
            next.submissions = 100;
            next.start("go on");
            prop_assert!(next.world.stored.starts_with(&journal[..end]), "nothing that was written is changed");
            prop_assert_eq!(next.ends.len(), 1, "the new input was answered, behind {} records", end);
            let (repaired, records) = (next.world.folded(), next.world.stored.len());
            prop_assert!(repaired.running().is_none());
            assert_paired(&repaired.history);
            // Whoever reads it now finds nothing to repair.
            next.crash(true);
            while !next.world.questions.is_empty() {
                next.go_on();
            }
            prop_assert_eq!(next.world.stored.len(), records);
            prop_assert_eq!(next.world.folded(), repaired);
        }
    }
}
