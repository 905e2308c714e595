//! The guest book: a debt is paid by taking it out.

use super::*;
use bob_messages::ids::ModelName;
use bob_messages::turn::{Recover, TurnMessage};
use std::sync::atomic::{AtomicUsize, Ordering};

fn brief() -> Arc<Brief> {
    Arc::new(Brief::new(ModelName::parse("scripted:m").unwrap()))
}

fn owed(name: &str, paid: &Arc<AtomicUsize>) -> Owed {
    let paid = Arc::clone(paid);
    Owed {
        submission: TurnId::new(name),
        request: TurnMessage::Wake { brief: brief(), recover: Recover::Continue },
        reply: Reply::to(move |_| {
            paid.fetch_add(1, Ordering::SeqCst);
        }),
        clock: Clock::new(&Limits::default()),
        let_in: true,
        said_again: false,
        cancelled: false,
        came: Instant::now(),
        cancel_asked: None,
    }
}

fn bare() -> Result<Box<TurnOutcome>, AgentError> {
    Err(AgentError::Busy("test".into()))
}

#[test]
fn a_debt_is_paid_exactly_once() {
    let (session, paid) = (SessionId::parse("s").unwrap(), Arc::default());
    let mut book = GuestBook::default();
    assert!(!book.owes());
    for name in ["one", "two"] {
        book.entry(&session, &brief()).owed.push_back(owed(name, &paid));
    }
    assert!(book.owes());
    let guest = book.get_mut(&session).unwrap();
    guest.take(&TurnId::new("two")).unwrap().reply.send(bare());
    assert!(guest.take(&TurnId::new("two")).is_none(), "there is nothing to pay a second time");
    assert!(guest.take(&TurnId::new("three")).is_none());
    assert_eq!(paid.load(Ordering::SeqCst), 1);
    guest.take(&TurnId::new("one")).unwrap().reply.send(bare());
    assert!(!book.owes());
    assert_eq!(paid.load(Ordering::SeqCst), 2);
}

#[test]
fn a_debt_that_is_dropped_is_answered_too() {
    let paid = Arc::default();
    drop(owed("one", &paid));
    assert_eq!(paid.load(Ordering::SeqCst), 1, "nobody waits for a book that burned");
}
