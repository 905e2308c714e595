//! Changes of the session's options: asked for at any moment, told when they are kept, in
//! force from the next turn.

use super::harness::Harness;
use super::monitor::{Monitor, says};
use crate::error::AgentError;
use crate::ids::RequestId;
use crate::llm::LlmRequest;
use crate::options::{Change, Configuring, OptionsPatch, SessionChange};
use crate::store::{Fact, Record};
use crate::turn::TurnMessage;
use crate::turn::tests::world::World;
use std::collections::BTreeSet;
use std::sync::Arc;

/// What is known of them, told independently of the fold.
#[derive(Debug, Default)]
pub(super) struct Changes {
    stored: BTreeSet<RequestId>,
    in_force: Option<String>,
    next: Option<String>,
    /// What the next prompt must tell.
    due: Vec<String>,
    /// What one must tell that is made when the open turn has ended, or is resumed.
    held: Vec<String>,
}

impl Harness {
    /// Somebody gives the session other instructions.
    pub(super) fn configure(&mut self) {
        self.changes += 1;
        let instructions = Change::Set(format!("be {};", self.changes));
        let notice = self.changes.is_multiple_of(2).then(|| format!("they did {};", self.changes).into());
        let change = SessionChange::Patch(Box::new(OptionsPatch { instructions, notice, ..OptionsPatch::default() }));
        let request_id = RequestId::new(format!("change {}", self.changes));
        let asked = Arc::new(Configuring { request_id, change });
        self.changing.push(Arc::clone(&asked));
        self.say_change(asked);
    }

    /// What nobody was told of yet is asked for again.
    pub(super) fn configure_again(&mut self) {
        for asked in self.changing.clone() {
            self.say_change(asked);
        }
    }

    fn say_change(&mut self, asked: Arc<Configuring>) {
        let turn_config = Arc::clone(&self.world.turn_config);
        self.say(TurnMessage::Configure { asked, turn_config });
    }

    pub(super) fn told_of_change(&mut self, request_id: &RequestId, result: &Result<(), AgentError>) {
        match result {
            Ok(()) => {
                self.changing.retain(|asked| asked.request_id != *request_id);
                self.monitor.saw("change told".to_owned());
                let kept = self.monitor.changes.stored.contains(request_id);
                self.monitor.must(kept, || format!("{request_id} is said to be kept and is not"));
            }
            Err(AgentError::Store(_)) => self.monitor.saw("change in doubt".to_owned()),
            Err(other) => self.monitor.must(false, || format!("{request_id} is refused: {other}")),
        }
    }
}

impl Monitor {
    /// A record is stored, of which the grammar has heard.
    pub(super) fn reads_options(&mut self, record: &Record) {
        match &record.fact {
            Fact::Configured { request_id, options, notice } => {
                match self.grammar.open {
                    Some(_) => self.changes.held.extend(notice.as_deref().map(str::to_owned)),
                    None => self.changes.due.extend(notice.as_deref().map(str::to_owned)),
                }
                let is_new = self.changes.stored.insert(request_id.clone());
                self.must(is_new, || format!("{request_id} is kept twice"));
                match self.grammar.open {
                    Some(_) => self.changes.next.clone_from(&options.instructions),
                    None => self.changes.in_force.clone_from(&options.instructions),
                }
            }
            Fact::Resumed { .. } => self.changes.due.append(&mut self.changes.held),
            Fact::Outcome(ended) if ended.suspended.is_none() => {
                self.changes.due.append(&mut self.changes.held);
                if let Some(next) = self.changes.next.take() {
                    self.changes.in_force = Some(next);
                }
            }
            _ => {}
        }
    }

    /// What happened outside is told once, with the next prompt. A history that was condensed may not have it any more.
    pub(super) fn infers_behind(&mut self, request: &LlmRequest, world: &World, is_whole: bool) {
        let history = world.turn.session().map_or(&[][..], |session| session.history.as_slice());
        for notice in self.changes.due.drain(..).filter(|_| is_whole).collect::<Vec<_>>() {
            let kept = history.iter().filter(|message| says(message, &notice)).count();
            let told = request.messages.iter().filter(|message| says(message, &notice)).count();
            self.must(told == kept && told <= 1, || format!("{notice:?} is kept {kept} times, and told {told} times"));
            if told == 1 {
                self.saw("prompt behind a notice".to_owned());
            }
        }
    }

    /// A turn keeps the options it began with, whatever is asked for meanwhile.
    pub(super) fn infers_under(&mut self, request: &LlmRequest) {
        let Some(in_force) = self.changes.in_force.clone() else { return };
        let told = request.system.contains(&in_force);
        self.must(told, || format!("a prompt is made without {in_force:?}, which is in force"));
        self.saw("prompt under changed options".to_owned());
    }
}
