//! Statements of one kind that go together: what is asked while one of them runs goes into the next one.
//!
//! So they share its transaction and its sync, and one that comes alone waits for nothing. What many ask again and again may
//! be kept [apart](Together::apart): then it goes together also where each statement is done at once.

use std::cell::{Cell, RefCell};
use std::time::Duration;
use tokio::sync::oneshot::error::TryRecvError;
use tokio::sync::{Mutex, oneshot};
use tokio::time::{Instant, sleep_until};

/// The most questions of one statement, unless they are kept apart.
const MOST: usize = 128;

/// What waits for the next statement of its kind. The tasks of one connection share it.
pub(super) struct Together<Q, A> {
    waiting: RefCell<Vec<(Q, oneshot::Sender<A>)>>,
    /// Held while a statement runs.
    running: Mutex<()>,
    /// The most questions of one statement.
    most: usize,
    /// From the beginning of one statement until that of the next one, at least.
    apart: Duration,
    /// When the last statement may be followed by the next one.
    next: Cell<Option<Instant>>,
}

impl<Q, A> Default for Together<Q, A> {
    fn default() -> Self {
        Self::apart(MOST, Duration::ZERO)
    }
}

impl<Q, A> Together<Q, A> {
    /// Statements of so many questions that begin so far apart.
    pub(super) fn apart(most: usize, apart: Duration) -> Self {
        Self { waiting: RefCell::default(), running: Mutex::default(), most, apart, next: Cell::default() }
    }

    /// Asks with those that wait by then. `send` answers each question in its place.
    ///
    /// `None` when the statement in which it was failed, or had no answer for it; why is known to the task that sent it. It may
    /// have been done, so it has to be one that can be asked again.
    pub(super) async fn ask<E>(
        &self,
        question: Q,
        send: impl AsyncFnOnce(Vec<Q>) -> Result<Vec<A>, E>,
    ) -> Result<Option<A>, E> {
        let (ours, mut answer) = oneshot::channel();
        self.waiting.borrow_mut().push((question, ours));
        let _running = self.running.lock().await;
        // The asker before this one may have sent this question with its own.
        match answer.try_recv() {
            Ok(answer) => return Ok(Some(answer)),
            Err(TryRecvError::Closed) => return Ok(None),
            Err(TryRecvError::Empty) => {}
        }
        if let Some(next) = self.next.get() {
            sleep_until(next).await;
        }
        self.next.set((!self.apart.is_zero()).then(|| Instant::now() + self.apart));
        let (questions, askers): (Vec<Q>, Vec<_>) = {
            let mut waiting = self.waiting.borrow_mut();
            // Nothing is claimed for an asker that went away: a claim would fence the present owner of the session.
            waiting.retain(|(_, asker)| !asker.is_closed());
            let most = waiting.len().min(self.most);
            waiting.drain(..most).unzip()
        };
        for (asker, answer) in askers.into_iter().zip(send(questions).await?) {
            // One that went away needs none.
            let _gone = asker.send(answer);
        }
        Ok(answer.try_recv().ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::future::join_all;
    use tokio::task::yield_now;

    /// Asks ten questions at once. `send` says what its statement answers.
    async fn ten(
        send: impl Fn(&[u32]) -> Result<Vec<u32>, &'static str>,
    ) -> (Vec<usize>, Vec<Result<Option<u32>, &'static str>>) {
        let (together, statements) = (Together::default(), RefCell::new(Vec::new()));
        let asked = (0..10).map(|question| {
            together.ask(question, async |questions| {
                statements.borrow_mut().push(questions.len());
                yield_now().await;
                send(&questions)
            })
        });
        let answers = join_all(asked).await;
        (statements.into_inner(), answers)
    }

    #[tokio::test]
    async fn what_comes_while_a_statement_runs_goes_into_the_next_one() {
        let (statements, answers) = ten(|questions| Ok(questions.iter().map(|question| question * 2).collect())).await;
        assert_eq!(statements, [1, 9]);
        assert_eq!(answers, (0..10).map(|question| Ok(Some(question * 2))).collect::<Vec<_>>());
    }

    #[tokio::test(start_paused = true)]
    async fn statements_that_are_kept_apart_have_what_comes_meanwhile_and_the_first_one_waits_for_nothing() {
        let (together, statements) = (Together::apart(3, Duration::from_millis(100)), RefCell::new(Vec::new()));
        let began = Instant::now();
        let ask = async |question: u64| {
            tokio::time::sleep(Duration::from_millis(10 * question)).await;
            let send = async |questions: Vec<u64>| {
                statements.borrow_mut().push((began.elapsed().as_millis(), questions.clone()));
                Ok::<_, ()>(questions)
            };
            assert_eq!(together.ask(question, send).await, Ok(Some(question)));
        };
        join_all((0..5).map(ask)).await;
        assert_eq!(statements.into_inner(), [(0, vec![0]), (100, vec![1, 2, 3]), (200, vec![4])]);
    }

    #[tokio::test]
    async fn after_a_failure_the_others_ask_alone() {
        let (statements, answers) =
            ten(|questions| if questions.len() > 1 { Err("broken") } else { Ok(vec![7]) }).await;
        assert_eq!(statements, [1, 9]);
        assert_eq!(answers[..2], [Ok(Some(7)), Err("broken")]);
        assert!(answers[2..].iter().all(|answer| *answer == Ok(None)), "{answers:?}");
    }
}
