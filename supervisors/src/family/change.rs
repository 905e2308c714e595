//! Children that come, go, or give way to another, while the rest of the family lives.
//!
//! A child that leaves is stopped like any other; only when its last actor has ended
//! does the one in its place start, so that the two never live at the same time.

use super::start::KILLED_LIMIT;
use super::{ChildSpec, Family, FamilyNews, Fate, Next, Phase, SupervisorMessage, end};
use ractor::ActorCell;

impl Family {
    /// Puts a child in the place of the one with this name, or of none: then it comes
    /// last. Without a successor the one with this name leaves. Nobody is waited for.
    pub fn replace(&mut self, name: &str, by: Option<ChildSpec>) {
        let Some(index) = self.children.iter().position(|child| child.spec.name == name) else {
            if let Some(spec) = by {
                let child = self.child(spec);
                self.children.push(child);
                self.restart_after(self.children.len() - 1, 0);
            }
            return;
        };
        let by = by.map(Box::new);
        let me = self.me.clone();
        let child = &mut self.children[index];
        let key = child.key;
        match std::mem::replace(&mut child.phase, Phase::Stopped) {
            Phase::Running { actor, .. } => {
                end(actor.clone(), "it is not wanted any more", child.spec.shutdown_ms);
                child.enter(Phase::Leaving { actor: Some(actor), by });
            }
            Phase::Leaving { actor, .. } => child.phase = Phase::Leaving { actor, by },
            Phase::Restarting(restart) => {
                child.enter(Phase::Leaving { actor: None, by });
                tokio::spawn(async move {
                    let actor = restart.abandon(KILLED_LIMIT).await;
                    // A supervisor that has ended needs no news.
                    let _ended = me.send_message(SupervisorMessage::News(FamilyNews::Abandoned { child: key, actor }));
                });
            }
            Phase::GaveUp | Phase::Stopped => {
                child.phase = Phase::Leaving { actor: None, by };
                self.left(index);
            }
        }
    }

    /// A restart that was abandoned came to its end, perhaps too late.
    pub(super) fn abandoned(&mut self, key: u64, actor: Option<ActorCell>) -> Next {
        let Some(index) = self.children.iter().position(|child| child.key == key) else { return Next::GoOn };
        let child = &mut self.children[index];
        let Phase::Leaving { actor: waits_for, .. } = &mut child.phase else { return Next::GoOn };
        match actor {
            Some(actor) if self.early.remove(&actor.get_id()).is_none() => {
                *waits_for = Some(actor.clone());
                end(actor, "it is not wanted any more", child.spec.shutdown_ms);
            }
            Some(_) | None => self.left(index),
        }
        self.forget_early();
        Next::GoOn
    }

    /// A child that leaves has no actor any more.
    pub(super) fn left(&mut self, index: usize) {
        let child = self.children.remove(index);
        (child.spec.on_down)();
        (child.spec.on_fate)(Fate::Stopped);
        if let Phase::Leaving { by: Some(spec), .. } = child.phase {
            let child = self.child(*spec);
            self.children.insert(index, child);
            self.restart_after(index, 0);
        }
    }
}
