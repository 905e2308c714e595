//! Questions to a person, and decisions.
//!
//! A question is put to the approval port in a task of its own, which ends with the question. Every decision is sent
//! to the session's actor, which reports whether it counts. The caller receives that, or that the actor ended first.

use super::SessionsState;
use crate::session_table::ApprovalTask;
use bob_actors::approvals::ApprovalPort;
use bob_actors::rooms::Rooms;
use bob_messages::approvals::{ApprovalQuestion, Decision, Heard, LimitQuestion};
use bob_messages::ids::{ApprovalId, SessionId, Ticket};
use bob_messages::reply::Reply;
use bob_messages::submission::SessionsMessage;
use bob_messages::turn::TurnMessage;
use futures_util::FutureExt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

/// The most decisions of one session that its actor has not answered; a further one is not sent to it, and is answered as if
/// the session were not live.
const MOST_WAITING: usize = 64;

/// Callers waiting to hear whether their decision counts.
#[derive(Debug, Default)]
pub(super) struct PendingDecisions {
    tickets: u64,
    waiting: Vec<(SessionId, Ticket, Reply<Heard>)>,
}

/// Puts a question to the approval port, if there is one, and sends its decision to the session.
pub(super) fn ask(rooms: &Rooms, question: ApprovalQuestion) -> Option<ApprovalTask> {
    let (session, approval) = (question.session.clone(), question.approval_id.clone());
    put_question(rooms, session, approval, "the call is denied", |port| async move { port.approve(question).await })
}

/// Asks the approval port whether a turn goes on beyond a limit, and sends its decision to the session.
pub(super) fn ask_beyond(rooms: &Rooms, question: LimitQuestion) -> Option<ApprovalTask> {
    let (session, approval) = (question.session.clone(), question.approval_id.clone());
    put_question(rooms, session, approval, "the turn ends at its limit", |port| async move {
        match port.go_on(question).await {
            true => Decision::AllowOnce,
            false => Decision::Deny { reason: String::new() },
        }
    })
}

impl SessionsState {
    pub(super) fn decide(
        &mut self,
        session: &SessionId,
        approval: ApprovalId,
        decision: Decision,
        reply: Reply<Heard>,
    ) {
        let entry = self.table.get_mut(session).filter(|entry| entry.stopping.is_none());
        if entry.is_none_or(|entry| entry.actor.is_none()) {
            return reply.send(Heard::NotLive);
        }
        let waiting = self.deciding.waiting.iter().filter(|(of, _, _)| of == session).count();
        if waiting >= MOST_WAITING {
            return reply.send(Heard::NotLive);
        }
        self.deciding.tickets += 1;
        let ticket = Ticket(self.deciding.tickets);
        self.deciding.waiting.push((session.clone(), ticket, reply));
        self.send(session, TurnMessage::Decided { approval, decision: Box::new(decision), asker: Some(ticket) });
    }

    pub(super) fn decided(&mut self, session: &SessionId, approval: &ApprovalId, asker: Option<Ticket>, heard: Heard) {
        let waiting = &mut self.deciding.waiting;
        if let Some(at) = waiting.iter().position(|(_, ticket, _)| Some(*ticket) == asker) {
            let (_, _, reply) = waiting.swap_remove(at);
            reply.send(heard);
        }
        if heard == Heard::Counts {
            self.close_question(session, approval);
        }
    }

    /// Drops the callers waiting for an actor that ended; a dropped reply answers that the session is not live.
    pub(super) fn drop_decisions(&mut self, session: &SessionId) {
        self.deciding.waiting.retain(|(of, _, _)| of != session);
    }
}

/// Asks the port in a task, which ends with the question. A panic of the port is a refusal; `denied` says of what.
fn put_question<A>(
    rooms: &Rooms,
    session: SessionId,
    approval: ApprovalId,
    denied: &'static str,
    ask: impl FnOnce(Arc<dyn ApprovalPort>) -> A + Send + 'static,
) -> Option<ApprovalTask>
where
    A: Future<Output = Decision> + Send,
{
    let port = Arc::clone(rooms.approver.port()?);
    let sessions = rooms.sessions.clone();
    let task = tokio::spawn(async move {
        let decided = AssertUnwindSafe(async { ask(port).await }).catch_unwind().await;
        let decision = decided.unwrap_or_else(|_panic| {
            tracing::error!(%session, "the approval port panicked; {denied}");
            Decision::Deny { reason: "the approval could not be requested".to_owned() }
        });
        let reply = Reply::to(|_nobody_waits_for_it| ());
        sessions.tell(SessionsMessage::Decide { session, approval, decision, reply });
    });
    Some(ApprovalTask(task.abort_handle()))
}
