//! One attempt at a time to get a token, for all who wait for one.
//!
//! An attempt is a task of its own and goes on when those who wait for it give up: an authorization server may have
//! replaced the token already, and its successor must be written. Each step of an attempt has a time limit.

use super::Client;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Clone, PartialEq, Eq)]
pub(super) enum Purpose {
    /// The next request, if there is a token or an old one can be renewed.
    Renew,
    /// A request that was refused with the token `used`.
    Replace {
        used: Option<String>,
        /// 401 or 403, and the `WWW-Authenticate` header or nothing.
        status: u16,
        header: String,
    },
    /// A person or a program asks to sign in, also with a good token.
    LogIn,
}

impl Purpose {
    /// Whether a token serves that was got for another purpose.
    fn takes(&self, token: &str) -> bool {
        match self {
            Self::Renew => true,
            Self::Replace { used, .. } => used.as_deref() != Some(token),
            Self::LogIn => false,
        }
    }
}

/// The token, if there is one; or why there is none.
pub(super) type Outcome = Result<Option<String>, String>;

#[derive(Clone)]
struct Attempt {
    purpose: Purpose,
    outcome: Shared<BoxFuture<'static, Outcome>>,
}

/// The attempt that is under way.
#[derive(Default)]
pub(super) struct Attempts(Mutex<Option<Attempt>>);

impl Attempts {
    fn slot(&self) -> MutexGuard<'_, Option<Attempt>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Resolves when it ends.
    pub(super) fn under_way(&self) -> Option<Shared<BoxFuture<'static, Outcome>>> {
        self.slot().as_ref().map(|attempt| attempt.outcome.clone())
    }
}

/// Makes room for the next attempt when one ends, also by a panic.
struct Ends(Arc<Client>);

impl Drop for Ends {
    fn drop(&mut self) {
        *self.0.attempts.slot() = None;
    }
}

impl Client {
    /// The outcome of an attempt: of the one under way, if it serves this purpose, or of a new one.
    pub(super) async fn got(self: &Arc<Self>, purpose: &Purpose) -> Outcome {
        loop {
            let (attempt, is_own) = self.attempt(purpose);
            let outcome = attempt.outcome.await;
            let serves = outcome.as_ref().is_ok_and(|token| token.as_deref().is_some_and(|token| purpose.takes(token)));
            if is_own || serves || attempt.purpose == *purpose {
                return outcome;
            }
        }
    }

    /// The attempt under way, or a new one for this purpose; and whether it is new.
    fn attempt(self: &Arc<Self>, purpose: &Purpose) -> (Attempt, bool) {
        let mut slot = self.attempts.slot();
        if let Some(attempt) = &*slot {
            return (attempt.clone(), false);
        }
        let (ends, own) = (Ends(Arc::clone(self)), purpose.clone());
        let task = tokio::spawn(async move {
            let outcome = ends.0.perform(own).await;
            drop(ends);
            outcome
        });
        let outcome =
            async { task.await.unwrap_or_else(|_| Err("has no token because of an internal error".to_owned())) };
        let attempt = Attempt { purpose: purpose.clone(), outcome: outcome.boxed().shared() };
        *slot = Some(attempt.clone());
        (attempt, true)
    }
}
