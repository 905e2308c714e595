//! Adding, removing and replacing children while the others run.
//!
//! A removed child is stopped like any other. Its successor starts only when its last actor has ended, so that the
//! two never live at the same time.

use super::start::KILLED_LIMIT;
use super::{ChildEvent, ChildSet, ChildSpec, Next, Phase, StartNews, SupervisorMessage, end};
use ractor::ActorCell;

impl ChildSet {
    /// Replaces the child with this name, or removes it if there is no successor. A successor of an unknown name is
    /// added at the end. Does not wait.
    pub fn replace(&mut self, name: &str, successor: Option<ChildSpec>) {
        let Some(index) = self.children.iter().position(|child| child.spec.name == name) else {
            if let Some(spec) = successor {
                let child = self.child(spec);
                self.children.push(child);
                self.restart_after(self.children.len() - 1, 0);
            }
            return;
        };
        let successor = successor.map(Box::new);
        let me = self.me.clone();
        let child = &mut self.children[index];
        let key = child.key;
        match std::mem::replace(&mut child.phase, Phase::Stopped) {
            Phase::Running { actor, .. } => {
                end(actor.clone(), "it was removed", child.spec.shutdown_ms);
                child.enter(Phase::Removing { actor: Some(actor), successor });
            }
            Phase::Removing { actor, .. } => child.phase = Phase::Removing { actor, successor },
            Phase::Restarting(restart) => {
                child.enter(Phase::Removing { actor: None, successor });
                tokio::spawn(async move {
                    let actor = restart.abandon(KILLED_LIMIT).await;
                    // Fails only when the supervisor has ended.
                    let _ended = me.send_message(SupervisorMessage::News(StartNews::Abandoned { child: key, actor }));
                });
            }
            Phase::GaveUp | Phase::Stopped => {
                child.phase = Phase::Removing { actor: None, successor };
                self.left(index);
            }
        }
    }

    /// Handles the end of an abandoned restart, which may have started the child after all.
    pub(super) fn abandoned(&mut self, key: u64, actor: Option<ActorCell>) -> Next {
        let Some(index) = self.children.iter().position(|child| child.key == key) else { return Next::Continue };
        let child = &mut self.children[index];
        let Phase::Removing { actor: waits_for, .. } = &mut child.phase else { return Next::Continue };
        match actor {
            Some(actor) if self.unclaimed.remove(&actor.get_id()).is_none() => {
                *waits_for = Some(actor.clone());
                end(actor, "it was removed", child.spec.shutdown_ms);
            }
            Some(_) | None => self.left(index),
        }
        self.drop_unclaimed();
        Next::Continue
    }

    pub(super) fn left(&mut self, index: usize) {
        let child = self.children.remove(index);
        (child.spec.on_down)();
        (child.spec.on_event)(ChildEvent::Stopped);
        if let Phase::Removing { successor: Some(spec), .. } = child.phase {
            let child = self.child(*spec);
            self.children.insert(index, child);
            self.restart_after(index, 0);
        }
    }
}
