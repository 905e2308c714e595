//! A pending reply is sent once, because sending takes it out of the table.

use super::*;
use bob_messages::ids::ModelName;
use bob_messages::limits::Limits;
use bob_messages::turn::{Recover, TurnMessage};
use std::sync::atomic::{AtomicUsize, Ordering};

fn turn_config() -> Arc<TurnConfig> {
    Arc::new(TurnConfig::new(ModelName::parse("scripted:m").unwrap()))
}

fn pending(name: &str, sent: &Arc<AtomicUsize>) -> PendingReply {
    let sent = Arc::clone(sent);
    PendingReply {
        tenant: None,
        submission: TurnId::new(name),
        turn: TurnId::new(name),
        request: TurnMessage::Wake { turn_config: turn_config(), recover: Recover::Continue },
        reply: Reply::to(move |_| {
            sent.fetch_add(1, Ordering::SeqCst);
        }),
        shared: 0,
        clock: Clock::new(&Limits::default(), false),
        admitted: true,
        is_repeated: false,
        cancelled: false,
        submitted_at: Instant::now(),
        cancel_asked: None,
    }
}

fn bare() -> Result<Box<TurnOutcome>, AgentError> {
    Err(AgentError::busy("test"))
}

#[test]
fn a_reply_is_sent_exactly_once() {
    let (session, sent) = (SessionId::parse("s").unwrap(), Arc::default());
    let mut table = SessionTable::default();
    assert!(!table.has_work());
    for name in ["one", "two"] {
        table.entry(&session, &turn_config()).pending.push_back(pending(name, &sent));
    }
    assert!(table.has_work());
    let entry = table.get_mut(&session).unwrap();
    entry.take(&TurnId::new("two")).unwrap().reply.send(bare());
    assert!(entry.take(&TurnId::new("two")).is_none(), "it was already taken");
    assert!(entry.take(&TurnId::new("three")).is_none());
    assert_eq!(sent.load(Ordering::SeqCst), 1);
    entry.take(&TurnId::new("one")).unwrap().reply.send(bare());
    assert!(!table.has_work());
    assert_eq!(sent.load(Ordering::SeqCst), 2);
}

#[test]
fn a_reply_that_is_dropped_answers_too() {
    let sent = Arc::default();
    drop(pending("one", &sent));
    assert_eq!(sent.load(Ordering::SeqCst), 1, "no caller waits for a dropped table");
}
