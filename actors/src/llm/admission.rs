//! Places at the providers.
//!
//! Shared by the tasks of all calls, so that it survives a restart of the LlmActor:
//! a call that has a place or waits for one holds a guard, and the guard's drop is the
//! only way to give it back, whether a call ended, was abandoned or panicked.

use super::fairness::{Fairness, Waiter};
use bob_messages::ids::SessionId;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// Who is being served where, and who waits. Clones share it.
#[derive(Debug, Clone, Default)]
pub(super) struct Admission(Arc<Mutex<HashMap<String, Gate>>>);

#[derive(Debug, Default)]
struct Gate {
    inside: usize,
    waiting: Fairness<oneshot::Sender<()>>,
}

/// A place at a provider; dropping it lets the next one in.
#[derive(Debug)]
pub(super) struct Place {
    /// `None` at a provider that takes any number.
    gate: Option<(Admission, String)>,
}

/// A call that waits for its place. Dropping it leaves the queue, or gives back the
/// place it was given and never took.
struct Waiting {
    admission: Admission,
    provider: String,
    waiter: Waiter,
    taken: bool,
}

impl Admission {
    /// Waits for a place at `provider`, which takes `most` calls at once (at least
    /// one). Cancel-safe: dropping the future leaves the queue.
    pub(super) async fn enter(&self, provider: &str, most: usize, session: &SessionId, interactive: bool) -> Place {
        if most == usize::MAX {
            return Place { gate: None };
        }
        let (mut waiting, turn) = match self.try_enter(provider, most, session, interactive) {
            Ok(place) => return place,
            Err(waiting) => waiting,
        };
        // The other half is dropped only once it was used, so there is no error to hear.
        let _admitted = turn.await;
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
        if gate.inside < most.max(1) {
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
            match gate.waiting.next() {
                // One that goes away just now, on another thread, finds that it had its
                // turn, and hands the place on.
                Some(next) => drop(next.send(())),
                None => gate.inside = gate.inside.saturating_sub(1),
            }
        }
    }

    fn gates(&self) -> MutexGuard<'_, HashMap<String, Gate>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
