//! Hooks at questions and at the end of turns: told by the feed, each in a task of its own.

use super::program::HookPoint;
use super::wire::{self, Answer, AtQuestion};
use super::{HookPrograms, Hooked};
use crate::feed::EventSink;
use bob_messages::event::{AgentEvent, Envelope};
use bob_messages::ids::{ApprovalId, SessionId};
use futures_util::future::BoxFuture;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::watch;

/// How many of them may be under way; further ones are left out.
const MOST_UNDER_WAY: usize = 256;

/// Answers a question about a call with a no, for this reason.
pub type Refuse = dyn Fn(SessionId, ApprovalId, String) -> BoxFuture<'static, ()> + Send + Sync;

#[derive(Default)]
pub(super) struct Events {
    under_way: watch::Sender<usize>,
    refuse: OnceLock<Arc<Refuse>>,
}

struct UnderWay(HookPrograms);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.0.events.under_way.send_modify(|count| *count -= 1);
    }
}

impl HookPrograms {
    /// Where a hook's answers to questions go. Set once, when the runtime is there.
    #[doc(hidden)]
    pub fn refuse_by(&self, refuse: Arc<Refuse>) {
        let _the_first_stays = self.0.events.refuse.set(refuse);
    }

    /// Waits until the hooks of all events told so far have ended, each within its own time, at most for this long.
    pub async fn idle(&self, limit: Duration) {
        let mut under_way = self.0.events.under_way.subscribe();
        let _left = tokio::time::timeout(limit, under_way.wait_for(|count| *count == 0)).await;
    }

    /// How long the hooks of an event may take together.
    pub fn longest(&self) -> Duration {
        let is_of_event = |hook: &&Arc<Hooked>| matches!(hook.program.on, HookPoint::Question | HookPoint::TurnEnd);
        self.0.hooks.iter().filter(is_of_event).map(|hook| hook.program.time_limit).sum()
    }

    async fn tell(&self, hooks: Vec<Arc<Hooked>>, event: &Envelope) {
        for Hooked { program, .. } in hooks.iter().map(|hook| &**hook) {
            let said = self.0.runs.run(program, wire::of_event(program, event)).await;
            let said = match program.on {
                HookPoint::Question => said.and_then(|said| wire::read::<AtQuestion>(&said)),
                // There is nothing to decide.
                HookPoint::BeforeCall | HookPoint::AfterCall | HookPoint::TurnEnd => {
                    said.map(|_| AtQuestion::default())
                }
            };
            match said {
                Ok(AtQuestion { decision: None, reason: _ }) => {}
                Ok(AtQuestion { decision: Some(Answer::Deny), reason }) => {
                    self.refuse(&program.name, event, reason).await
                }
                Err(why) => program.failed(&why),
            }
        }
    }

    async fn refuse(&self, name: &str, event: &Envelope, reason: Option<String>) {
        let (Some(session), AgentEvent::ApprovalRequested { approval_id, .. }) = (&event.session_id, &event.event)
        else {
            tracing::warn!(target: "bob::hook", hook = name, "a question of the model is for a person to answer");
            return;
        };
        let reason = match reason {
            Some(reason) => format!("the hook {name} denies it: {reason}"),
            None => format!("the hook {name} denies it"),
        };
        if let Some(refuse) = self.0.events.refuse.get() {
            refuse(session.clone(), approval_id.clone(), reason).await;
        }
    }
}

impl EventSink for HookPrograms {
    fn emit(&self, event: &Envelope) {
        let hooks: Vec<_> = self.0.hooks.iter().filter(|hook| hook.program.on.is_at(event)).cloned().collect();
        if hooks.is_empty() {
            return;
        }
        let Ok(runtime) = Handle::try_current() else { return };
        let mut is_full = false;
        self.0.events.under_way.send_modify(|count| {
            is_full = *count >= MOST_UNDER_WAY;
            *count += usize::from(!is_full);
        });
        if is_full {
            tracing::warn!(target: "bob::hook", "hooks of {MOST_UNDER_WAY} events are under way; those of one are left out");
            return;
        }
        let (under_way, event) = (UnderWay(self.clone()), event.clone());
        runtime.spawn(async move { under_way.0.tell(hooks, &event).await });
    }
}
