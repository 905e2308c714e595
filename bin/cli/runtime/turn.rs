//! Follows one turn: passes its events to the display, and the signals of this process to the turn.
//!
//! The first Ctrl-C cancels the turn and keeps everything else alive. A second signal gives up waiting for its outcome,
//! and a third one ends the process on the spot. SIGTERM and SIGHUP shut the runtime down, which gives the turn its grace.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bob::events::{AgentEvents, AgentStream, Envelope, EventsFrom};
use bob::sessions::{FinishReason, ResumeReply, ResumeToken, TurnId, TurnOutcome};
use bob::{AgentError, AgentRequest, AgentRunResult, AgentRuntime, SessionId};
use futures_util::future::BoxFuture;
use tokio::time::Instant;

use crate::exit::{Exit, Failure};
use crate::runtime::OpenRuntime;
use crate::runtime::signals::{Caught, Signals};

/// How long the outcome is still waited for after a second signal.
const LAST_WAIT: Duration = Duration::from_millis(1_500);

pub(crate) struct Ended {
    pub(crate) outcome: Box<TurnOutcome>,
    /// The final event, if there was one.
    pub(crate) event: Option<Arc<Envelope>>,
    pub(crate) caught: Option<Interrupted>,
    /// Why it could not be shown to its end.
    pub(crate) unread: Option<io::Error>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interrupted {
    /// Ctrl-C, once: the turn was cancelled, and the program may go on.
    Once,
    /// A signal that ends the program; the first one determines how.
    ToLeave(Caught),
}

impl Interrupted {
    /// The exit code of a program that ends for it.
    pub(crate) fn exit(self) -> Exit {
        match self {
            Self::Once => Exit::Interrupted,
            Self::ToLeave(caught) => caught.exit(),
        }
    }

    fn of(caught: &[Caught]) -> Option<Self> {
        match caught {
            [] => None,
            [Caught::Interrupt] => Some(Self::Once),
            [first, ..] => Some(Self::ToLeave(*first)),
        }
    }
}

pub(crate) enum Work {
    Say(Box<AgentRequest>),
    Resume(SessionId, ResumeToken, ResumeReply),
    /// One that was handed in already.
    Begun(Box<AgentStream>),
    Finish(SessionId),
}

enum Source {
    Turn(Box<AgentStream>),
    /// The events of a session, how each of its turns ends, and how it did.
    Turns(Box<AgentEvents>, Ends, Option<EndsOf>),
}

type EndsOf = Result<Vec<AgentRunResult>, AgentError>;
type Ends = BoxFuture<'static, EndsOf>;

impl Work {
    fn session(&self) -> SessionId {
        match self {
            Self::Say(request) => request.session.clone(),
            Self::Begun(stream) => stream.session().clone(),
            Self::Resume(session, ..) | Self::Finish(session) => session.clone(),
        }
    }

    async fn begin(self, opened: &OpenRuntime) -> Result<Source, AgentError> {
        let runtime = opened.runtime.clone();
        Ok(match self {
            Self::Say(request) => Source::Turn(Box::new(runtime.run_stream(*request).await?.with_children())),
            Self::Resume(_session, token, said) => {
                Source::Turn(Box::new(runtime.resume_stream(token, said).await?.with_children()))
            }
            Self::Begun(stream) => Source::Turn(Box::new(stream.with_children())),
            Self::Finish(session) => {
                let events = runtime.subscribe(session.clone(), EventsFrom::Now).await?;
                Source::Turns(Box::new(events), Box::pin(async move { runtime.finish(session).await }), None)
            }
        })
    }
}

impl Source {
    /// Returns the next event; `None` after the end of the last turn. Cancel-safe.
    async fn next(&mut self) -> Option<Arc<Envelope>> {
        match self {
            Self::Turn(stream) => stream.next_event().await,
            Self::Turns(events, ends, ended) => tokio::select! {
                biased;
                // Events lost to a detached reader are replaced by the outcomes.
                Some(Ok(event)) = events.next() => Some(event),
                all = ends => {
                    *ended = Some(all);
                    None
                }
            },
        }
    }
}

/// Runs one turn and shows each of its events but the last, and those of its sub-agents, which have another session; of several turns the last event of each but the last one
/// is shown, too. When an event cannot be shown, the turn is cancelled.
pub(crate) async fn follow(
    opened: &OpenRuntime,
    work: Work,
    signals: &mut Signals,
    mut show: impl FnMut(&Envelope) -> io::Result<()>,
) -> Result<Ended, Failure> {
    let session = work.session();
    let mut source = work.begin(opened).await?;
    let (mut caught, mut unread, mut deadline) = (Vec::new(), None, None);
    // The last event so far, if a turn ended with it; another may follow.
    let mut last: Option<Arc<Envelope>> = None;
    loop {
        let event = tokio::select! {
            biased;
            signal = signals.next() => {
                caught.push(signal);
                obey(opened, &session, &caught, &mut deadline);
                continue;
            }
            event = source.next() => event,
            () = until(deadline) => break,
        };
        let Some(event) = event else { break };
        // A sub-agent has an end of its own.
        let is_last = event.event.is_terminal().is_some() && event.session_id.as_ref() == Some(&session);
        let before = last.take();
        let mut shown = before.iter().chain((!is_last).then_some(&event));
        if unread.is_none()
            && let Err(error) = shown.try_for_each(|event| show(event))
        {
            unread = Some(error);
            opened.runtime.cancel(session.clone()).await;
        }
        last = is_last.then_some(event);
    }
    let outcome = match source {
        Source::Turn(stream) => match stream.ended() {
            Some(ended) => ended.clone()?.response().clone(),
            None => without_outcome(opened, session, stream.turn().clone(), !caught.is_empty()),
        },
        Source::Turns(.., ended) => {
            let ends = ended.transpose()?.unwrap_or_default();
            let nothing = || TurnOutcome::bare(session, TurnId::new(""), FinishReason::Final, "");
            ends.last().map_or_else(|| TurnOutcome { saved: true, ..nothing() }, |end| end.response().clone())
        }
    };
    Ok(Ended { outcome: Box::new(outcome), event: last, caught: Interrupted::of(&caught), unread })
}

fn obey(opened: &OpenRuntime, session: &SessionId, caught: &[Caught], deadline: &mut Option<Instant>) {
    match caught {
        [Caught::Interrupt] => cancel(opened, session),
        [Caught::HangUp | Caught::Terminate] => {
            let runtime = opened.runtime.clone();
            tokio::spawn(async move { runtime.shutdown().await });
        }
        [_, second] => {
            cancel(opened, session);
            *deadline = Some(Instant::now() + LAST_WAIT);
            if *second != Caught::Interrupt {
                let runtime = opened.runtime.clone();
                tokio::spawn(async move { runtime.shutdown().await });
            }
        }
        // Child processes that still run are ended by the watcher after this process.
        [first, ..] => first.exit().leave(),
        [] => {}
    }
}

fn cancel(opened: &OpenRuntime, session: &SessionId) {
    let (runtime, session) = (opened.runtime.clone(), session.clone());
    tokio::spawn(async move { runtime.cancel(session).await });
}

/// Ends at the deadline; never without one. Cancel-safe.
pub(crate) async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// The outcome of a turn whose stream broke off.
fn without_outcome(opened: &OpenRuntime, session: SessionId, turn: TurnId, is_cancelled: bool) -> TurnOutcome {
    if is_cancelled {
        let content = "Cancelled; what the turn did until then is in the session.";
        return TurnOutcome::bare(session, turn, FinishReason::Cancelled, content);
    }
    let gave_up = opened.runtime.ended().borrow().is_some();
    let text = if gave_up { "the runtime gave up; see its log" } else { "the turn ended without an outcome" };
    TurnOutcome::failed(session, turn, AgentError::Internal(text.to_owned()))
}
