//! Single-use replies, with detection of abandonment.
//!
//! A [`Reply`] is passed to the actor that is asked. It is used exactly once, and answers `None` when it is dropped,
//! so no caller waits for an actor that died. A caller that no longer needs the answer drops its [`Interest`]; the
//! worker observes that through [`Reply::abandoned`]. A caller may also receive notes before the answer.

mod pulse;
mod so_far;

pub use pulse::{Pulse, Signs};
pub use so_far::{MOST_BYTES as MOST_SO_FAR_BYTES, SoFar};

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::oneshot;

/// Where the answer to one question goes.
pub struct Reply<T> {
    to: Option<To<T>>,
    /// Resolves when the asker has dropped its [`Interest`]; `None` when it cannot.
    interest: Option<oneshot::Receiver<()>>,
    /// Receives the reply if it is dropped before it was used.
    if_unheard: Option<Unheard<T>>,
    /// Holds output produced before the answer.
    so_far: SoFar,
}

/// Receives an unused reply.
type Unheard<T> = Box<dyn FnOnce(Reply<T>) + Send>;

enum To<T> {
    /// A callback for the answer.
    Once(Box<dyn FnOnce(Option<T>) + Send>),
    /// A callback for the answer and for notes.
    Noted(Box<dyn FnMut(Option<T>) + Send>),
}

/// Held by the asker for as long as it wants the answer.
#[derive(Debug)]
#[must_use = "dropping the interest abandons the question"]
pub struct Interest(#[allow(dead_code, reason = "held for its drop")] oneshot::Sender<()>);

/// The answer, for an asker that can wait. Dropping it abandons the question.
#[derive(Debug)]
pub struct Answer<T> {
    receiver: oneshot::Receiver<Option<T>>,
    _interest: Interest,
}

impl<T: Send + 'static> Reply<T> {
    /// A reply that calls `to` exactly once: with the answer, or with `None` if it was dropped.
    pub fn to(to: impl FnOnce(Option<T>) + Send + 'static) -> Self {
        Self { to: Some(To::Once(Box::new(to))), interest: None, if_unheard: None, so_far: SoFar::default() }
    }

    /// A reply as by [`Reply::to`] to a question that may be abandoned: the asker keeps the interest.
    pub fn abandonable(to: impl FnOnce(Option<T>) + Send + 'static) -> (Self, Interest) {
        let (held, watched) = oneshot::channel();
        (
            Self {
                to: Some(To::Once(Box::new(to))),
                interest: Some(watched),
                if_unheard: None,
                so_far: SoFar::default(),
            },
            Interest(held),
        )
    }

    /// A reply for an asker that follows the progress: `to` is called for each
    /// note, and then exactly once as in [`Reply::to`].
    pub fn noted(to: impl FnMut(Option<T>) + Send + 'static) -> (Self, Interest) {
        let (held, watched) = oneshot::channel();
        (
            Self {
                to: Some(To::Noted(Box::new(to))),
                interest: Some(watched),
                if_unheard: None,
                so_far: SoFar::default(),
            },
            Interest(held),
        )
    }

    /// A reply and the future of its answer.
    pub fn channel() -> (Self, Answer<T>) {
        let (sender, receiver) = oneshot::channel();
        let (reply, interest) = Self::abandonable(move |answer| drop(sender.send(answer)));
        (reply, Answer { receiver, _interest: interest })
    }

    /// Calls `then` with the reply, instead of answering `None`, if it is dropped unused: the actor ended before it
    /// began. An abandoned reply is not passed on.
    #[must_use]
    pub fn if_unheard(mut self, then: impl FnOnce(Self) + Send + 'static) -> Self {
        self.if_unheard = Some(Box::new(then));
        self
    }

    /// Converts to a reply of another type, by `with`. The new reply does not report abandonment.
    #[must_use]
    pub fn map<U: Send + 'static>(self, with: impl FnOnce(U) -> T + Send + 'static) -> Reply<U> {
        Reply::to(move |answer: Option<U>| {
            if let Some(answer) = answer {
                self.send(with(answer));
            }
        })
    }

    /// Stores output produced before the answer in `so_far`, which the caller reads.
    #[must_use]
    pub fn keeping(mut self, so_far: &SoFar) -> Self {
        self.so_far = so_far.clone();
        self
    }

    /// Output produced so far, for the worker to extend.
    pub fn so_far(&self) -> &SoFar {
        &self.so_far
    }

    /// Gives the answer. An asker that went away costs nothing.
    pub fn send(mut self, answer: T) {
        self.end(Some(answer));
    }

    /// Sends a note; the answer is still required. Ignored if the caller receives no notes.
    pub fn note(&mut self, note: T) {
        self.if_unheard = None;
        if let Some(To::Noted(to)) = &mut self.to {
            to(Some(note));
        }
    }

    /// Waits until the answer is no longer needed.
    pub async fn abandoned(&mut self) {
        match &mut self.interest {
            Some(interest) => drop(interest.await),
            None => std::future::pending().await,
        }
    }
}

impl<T> Reply<T> {
    /// Whether the answer is no longer needed.
    pub fn is_abandoned(&mut self) -> bool {
        self.interest
            .as_mut()
            .is_some_and(|interest| matches!(interest.try_recv(), Err(oneshot::error::TryRecvError::Closed)))
    }

    fn end(&mut self, answer: Option<T>) {
        if answer.is_none()
            && self.to.is_some()
            && !self.is_abandoned()
            && let Some(then) = self.if_unheard.take()
        {
            let (to, interest) = (self.to.take(), self.interest.take());
            let so_far = self.so_far.clone();
            return then(Self { to, interest, if_unheard: None, so_far });
        }
        match self.to.take() {
            Some(To::Once(to)) => to(answer),
            Some(To::Noted(mut to)) => to(answer),
            None => {}
        }
    }
}

impl<T> Drop for Reply<T> {
    fn drop(&mut self) {
        self.end(None);
    }
}

impl<T> fmt::Debug for Reply<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reply")
    }
}

impl<T> Future for Answer<T> {
    /// `None`: the reply was dropped.
    type Output = Option<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.receiver).poll(context).map(|answer| answer.ok().flatten())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Waker;

    fn now<F: Future + Unpin>(mut future: F) -> Option<F::Output> {
        match Pin::new(&mut future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        }
    }

    #[test]
    fn an_answer_arrives() {
        let (reply, answer) = Reply::channel();
        reply.send(7);
        assert_eq!(now(answer), Some(Some(7)));
    }

    #[test]
    fn a_dropped_reply_answers_none() {
        let (reply, answer) = Reply::<u8>::channel();
        drop(reply);
        assert_eq!(now(answer), Some(None));
    }

    #[test]
    fn a_reply_that_is_dropped_unheard_comes_back_once() {
        let (reply, answer) = Reply::channel();
        drop(reply.if_unheard(|reply| reply.send(2)));
        assert_eq!(now(answer), Some(Some(2)));

        let (reply, answer) = Reply::<u8>::channel();
        drop(reply.if_unheard(drop));
        assert_eq!(now(answer), Some(None));

        let (reply, answer) = Reply::channel();
        reply.if_unheard(|_| panic!("it was answered")).send(3);
        assert_eq!(now(answer), Some(Some(3)));

        let (reply, answer) = Reply::<u8>::channel();
        drop(answer);
        drop(reply.if_unheard(|_| panic!("nobody waits")));

        let (mut reply, answer) = Reply::channel();
        reply = reply.if_unheard(|_| panic!("it had begun"));
        reply.note(4);
        drop(reply);
        assert_eq!(now(answer), Some(None));
    }

    #[test]
    fn a_reply_is_given_an_answer_of_another_kind() {
        let (reply, answer) = Reply::channel();
        reply.map(|number: u8| number.to_string()).send(7);
        assert_eq!(now(answer), Some(Some("7".to_owned())));

        let (reply, answer) = Reply::channel();
        drop(reply.if_unheard(|reply| reply.send(2)).map(|number: u8| number + 1));
        assert_eq!(now(answer), Some(Some(2)));
    }

    #[test]
    fn a_dropped_answer_abandons_the_question() {
        let (mut reply, answer) = Reply::<u8>::channel();
        assert!(!reply.is_abandoned());
        assert!(now(Box::pin(reply.abandoned())).is_none());
        drop(answer);
        assert!(reply.is_abandoned());
        reply.send(1);
    }

    #[test]
    fn notes_come_before_the_one_answer() {
        let (told, heard) = std::sync::mpsc::channel();
        let (mut reply, _interest) = Reply::noted(move |word| told.send(word).expect("it is heard"));
        reply.note(1);
        reply.send(2);
        assert_eq!(heard.iter().collect::<Vec<_>>(), [Some(1), Some(2)]);
        let (mut reply, answer) = Reply::channel();
        reply.note(1);
        reply.send(2);
        assert_eq!(now(answer), Some(Some(2)), "who asked for no notes hears none");
    }

    #[test]
    fn a_question_without_interest_is_never_abandoned() {
        let mut reply = Reply::<u8>::to(drop);
        assert!(!reply.is_abandoned());
        assert!(now(Box::pin(reply.abandoned())).is_none());
    }
}
