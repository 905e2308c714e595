//! Whose turn it is at a provider that is full: sessions take turns, and interactive calls go before batch work.

use bob_messages::ids::SessionId;
use std::collections::{HashMap, VecDeque};

/// What waits for one provider. Plain data: it knows no clock and no task.
#[derive(Debug)]
pub(super) struct Fairness<T> {
    interactive: Ring<T>,
    batch: Ring<T>,
    last: u64,
}

/// Names one waiting item, so that it can leave before its turn.
#[derive(Debug, Clone)]
pub(super) struct Waiter {
    session: SessionId,
    interactive: bool,
    number: u64,
}

/// Sessions in the order of their turns; each is in the ring exactly while it is in the map.
#[derive(Debug)]
struct Ring<T> {
    turns: VecDeque<SessionId>,
    queues: HashMap<SessionId, VecDeque<(u64, T)>>,
}

impl<T> Default for Fairness<T> {
    fn default() -> Self {
        Self { interactive: Ring::default(), batch: Ring::default(), last: 0 }
    }
}

impl<T> Fairness<T> {
    pub(super) fn push(&mut self, session: &SessionId, interactive: bool, item: T) -> Waiter {
        self.last += 1;
        let number = self.last;
        self.ring(interactive).push(session, number, item);
        Waiter { session: session.clone(), interactive, number }
    }

    pub(super) fn next(&mut self) -> Option<T> {
        self.interactive.next().or_else(|| self.batch.next())
    }

    /// Takes an item out before its turn; `None` when it has had its turn.
    pub(super) fn remove(&mut self, waiter: &Waiter) -> Option<T> {
        let queue = self.ring(waiter.interactive).queues.get_mut(&waiter.session)?;
        let at = queue.iter().position(|(number, _)| *number == waiter.number)?;
        queue.remove(at).map(|(_, item)| item)
    }

    fn ring(&mut self, interactive: bool) -> &mut Ring<T> {
        if interactive { &mut self.interactive } else { &mut self.batch }
    }
}

impl<T> Default for Ring<T> {
    fn default() -> Self {
        Self { turns: VecDeque::new(), queues: HashMap::new() }
    }
}

impl<T> Ring<T> {
    fn push(&mut self, session: &SessionId, number: u64, item: T) {
        match self.queues.get_mut(session) {
            Some(queue) => queue.push_back((number, item)),
            None => {
                self.queues.insert(session.clone(), VecDeque::from([(number, item)]));
                self.turns.push_back(session.clone());
            }
        }
    }

    /// A session whose items all left keeps its turn until the ring comes by, so that
    /// leaving is cheap and coming back gains nothing.
    fn next(&mut self) -> Option<T> {
        loop {
            let session = self.turns.pop_front()?;
            let queue = self.queues.get_mut(&session)?;
            let item = queue.pop_front();
            if queue.is_empty() {
                self.queues.remove(&session);
            } else {
                self.turns.push_back(session);
            }
            if let Some((_, item)) = item {
                return Some(item);
            }
        }
    }
}

#[cfg(test)]
#[path = "fairness_tests.rs"]
mod tests;
