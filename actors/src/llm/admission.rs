//! Places at the providers.
//!
//! Shared by the tasks of all calls, so that it survives a restart of the LlmActor:
//! a call that has a place or waits for one holds a guard, and the guard's drop is the
//! only way to give it back, whether a call ended, was abandoned or panicked.

use super::fairness::{Fairness, Waiter};
use bob_messages::ids::SessionId;
use bob_messages::share::Share;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::timeout;

/// Between two looks of a call that waits at what this process has of the limit.
const LOOKED_EACH: Duration = Duration::from_secs(1);

/// Who is being served where, and who waits. Clones share it.
#[derive(Clone, Default)]
pub(super) struct Admission {
    gates: Arc<Mutex<HashMap<String, Gate>>>,
    /// Which of the processes that have a limit together this one is, if there are others.
    share: Option<ShareOf>,
}

/// Says which of several processes this one is.
pub(super) type ShareOf = Arc<dyn Fn() -> Share + Send + Sync>;

/// How many calls a provider takes at once.
#[derive(Debug, Clone, Copy)]
pub(super) struct Most {
    pub(super) calls: usize,
    /// Whether it is the limit of all processes together; a server of this machine has its own.
    pub(super) is_shared: bool,
}

impl std::fmt::Debug for Admission {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Admission").field("gates", &self.gates).finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct Gate {
    /// How many may be inside, as of the last look.
    most: usize,
    inside: usize,
    waiting: Fairness<oneshot::Sender<()>>,
}

/// A place at a provider; dropping it lets the next one in.
#[derive(Debug)]
pub(super) struct Place {
    /// `None` at a provider that takes any number.
    gate: Option<(Admission, String)>,
}

/// A call that waits for its place. Dropping it leaves the queue, or gives back the place it was given and never took.
struct Waiting {
    admission: Admission,
    provider: String,
    waiter: Waiter,
    taken: bool,
}

impl Admission {
    /// Places of one of several processes.
    #[must_use]
    pub(super) fn shared(self, share: ShareOf) -> Self {
        Self { share: Some(share), ..self }
    }

    /// What this process has of a limit now.
    fn part_of(&self, most: Most) -> usize {
        match &self.share {
            Some(share) if most.is_shared => share().part_of(most.calls),
            Some(_) | None => most.calls,
        }
    }

    /// Waits for a place at `provider`, which takes `most` calls at once (at least
    /// one). Cancel-safe: dropping the future leaves the queue.
    pub(super) async fn enter(&self, provider: &str, most: Most, session: &SessionId, interactive: bool) -> Place {
        if most.calls == usize::MAX {
            return Place { gate: None };
        }
        match self.try_enter(provider, self.part_of(most), session, interactive) {
            Ok(place) => place,
            // In a box, since most calls have their place at once and its timer is large.
            Err((waiting, turn)) => Box::pin(self.wait(provider, most, waiting, turn)).await,
        }
    }

    async fn wait(&self, provider: &str, most: Most, mut waiting: Waiting, mut turn: oneshot::Receiver<()>) -> Place {
        // The other half is dropped only once it was used, so there is no error to hear.
        match &self.share {
            Some(_) if most.is_shared => {
                while timeout(LOOKED_EACH, &mut turn).await.is_err() {
                    // A process that ended has left its part to the others.
                    if let Some(gate) = self.gates().get_mut(provider) {
                        gate.resize(self.part_of(most));
                    }
                }
            }
            Some(_) | None => drop(turn.await),
        }
        waiting.taken = true;
        self.place(provider)
    }

    fn try_enter(
        &self,
        provider: &str,
        most: usize,
        session: &SessionId,
        interactive: bool,
    ) -> Result<Place, (Waiting, oneshot::Receiver<()>)> {
        let mut gates = self.gates();
        let gate = gates.entry(provider.to_owned()).or_default();
        gate.resize(most);
        if gate.inside < gate.most {
            gate.inside += 1;
            return Ok(self.place(provider));
        }
        let (admit, turn) = oneshot::channel();
        let waiter = gate.waiting.push(session, interactive, admit);
        Err((Waiting { admission: self.clone(), provider: provider.to_owned(), waiter, taken: false }, turn))
    }

    fn place(&self, provider: &str) -> Place {
        Place { gate: Some((self.clone(), provider.to_owned())) }
    }

    /// Hands a place to the next one, or frees it.
    fn leave(&self, provider: &str) {
        if let Some(gate) = self.gates().get_mut(provider) {
            let next = if gate.inside > gate.most { None } else { gate.waiting.next() };
            match next {
                // One that goes away just now, on another thread, finds that it had its turn, and hands the place on.
                Some(next) => drop(next.send(())),
                None => gate.inside = gate.inside.saturating_sub(1),
            }
        }
    }

    fn gates(&self) -> MutexGuard<'_, HashMap<String, Gate>> {
        self.gates.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Gate {
    /// So many may be inside from now on. Lets in those that wait and have a place; those that are inside stay.
    fn resize(&mut self, most: usize) {
        self.most = most.max(1);
        while self.inside < self.most {
            let Some(next) = self.waiting.next() else { return };
            self.inside += 1;
            // One that goes away just now hands the place on.
            let _there_or_gone = next.send(());
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some((admission, provider)) = self.gate.take() {
            admission.leave(&provider);
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if self.taken {
            return;
        }
        let was_waiting = match self.admission.gates().get_mut(&self.provider) {
            Some(gate) => gate.waiting.remove(&self.waiter).is_some(),
            None => true,
        };
        if !was_waiting {
            self.admission.leave(&self.provider);
        }
    }
}

#[cfg(test)]
#[path = "admission_tests.rs"]
mod tests;
