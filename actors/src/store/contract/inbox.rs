//! The rules of an inbox: a message is kept once, stays until its effect is durable, and is answered if it is refused.

use super::{append, claim, session, store_one};
use crate::store::{Inbox, SessionStore};
use bob_messages::approvals::Decision;
use bob_messages::chat::ContentPart;
use bob_messages::error::AgentError;
use bob_messages::ids::{ApprovalId, RequestId, ResumeToken, SessionId};
use bob_messages::inbox::{InboxKey, InboxMessage, InboxRequest, InboxStanding, SubmitRequest};
use bob_messages::input::ResumeReply;
use bob_messages::options::{Change, OptionsPatch};
use bob_messages::store::StoreError;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn message(session: &SessionId, request: &str, text: &str) -> InboxMessage {
    let submit = SubmitRequest { parts: vec![ContentPart::text(text)], ..SubmitRequest::default() };
    InboxMessage::new(session.clone(), RequestId::new(request), 1, InboxRequest::Submit(Box::new(submit)))
}

fn inbox(store: &Arc<dyn SessionStore>) -> Arc<dyn Inbox> {
    store.inbox().expect("a store of the contract has an inbox")
}

async fn put(inbox: &Arc<dyn Inbox>, message: InboxMessage) -> bool {
    inbox.put(message).await.expect("the message is kept")
}

async fn settle(inbox: &Arc<dyn Inbox>, session: &SessionId, request: &str, refusal: Option<AgentError>) {
    inbox.settle(key(session, request), refusal).await.expect("the message is settled");
}

fn key(session: &SessionId, request: &str) -> InboxKey {
    InboxKey { session: session.clone(), request: RequestId::new(request) }
}

async fn taken(inbox: &Arc<dyn Inbox>, session: &SessionId) -> Vec<InboxMessage> {
    let taken = inbox.take(session).await.expect("the messages are taken");
    taken.into_iter().map(|entry| entry.message.expect("the message is read")).collect()
}

async fn due(inbox: &Arc<dyn Inbox>, most: usize) -> Vec<SessionId> {
    due_but(inbox, most, &[]).await
}

async fn due_but(inbox: &Arc<dyn Inbox>, most: usize, known: &[&SessionId]) -> Vec<SessionId> {
    let known = known.iter().copied().cloned().collect();
    let due = inbox.due(most, &known).await.expect("the sessions are found");
    let mut due: Vec<_> = due.into_iter().map(|due| due.session).collect();
    due.sort();
    due
}

/// What waits, in order, and no longer than until it is settled.
pub async fn a_message_is_taken_in_order_until_it_is_settled(store: Arc<dyn SessionStore>) {
    let (inbox, one, other) = (inbox(&store), session("one"), session("One"));
    assert_eq!(taken(&inbox, &one).await, []);
    let messages: Vec<_> = ["c", "a", "b"].map(|request| message(&one, request, "é\"\n\u{0}")).to_vec();
    for message in &messages {
        assert!(put(&inbox, message.clone()).await, "it is new");
    }
    assert!(put(&inbox, message(&other, "a", "to another")).await, "a session has its own names");
    for _taken_again in 0..2 {
        assert_eq!(taken(&inbox, &one).await, messages);
    }
    settle(&inbox, &one, "a", None).await;
    settle(&inbox, &one, "a", None).await;
    assert_eq!(taken(&inbox, &one).await, [messages[0].clone(), messages[2].clone()]);
    assert_eq!(taken(&inbox, &other).await, [message(&other, "a", "to another")]);
}

/// Each kind of message is kept as it was put, beside the others.
pub async fn each_kind_of_message_is_kept_as_it_is(store: Arc<dyn SessionStore>) {
    let (inbox, one) = (inbox(&store), session("one"));
    let question = "what é\"\n\u{0}?".to_owned();
    let title = Change::Set("É\"\n".into());
    let requests = [
        InboxRequest::Submit(Box::default()),
        InboxRequest::Cancel { of: RequestId::new("r0") },
        InboxRequest::Decide { approval: ApprovalId::new("a"), decision: Decision::Deny { reason: question.clone() } },
        InboxRequest::Steer { parts: vec![ContentPart::text(&*question)] },
        InboxRequest::Resume { token: ResumeToken::new("one~s"), reply: ResumeReply::Answer(question) },
        InboxRequest::Configure { patch: Box::new(OptionsPatch { title, ..OptionsPatch::default() }) },
    ];
    let messages = requests
        .into_iter()
        .zip("abcdef".chars())
        .map(|(request, name)| InboxMessage::new(one.clone(), RequestId::new(name.to_string()), 1, request));
    let messages: Vec<_> = messages.collect();
    for message in &messages {
        assert!(put(&inbox, message.clone()).await, "it is new");
        assert!(!put(&inbox, message.clone()).await, "it is the same");
    }
    assert_eq!(taken(&inbox, &one).await, messages);
    assert_eq!(due(&inbox, 10).await, std::slice::from_ref(&one));
    for message in &messages {
        settle(&inbox, &one, message.request_id.as_str(), None).await;
    }
    assert_eq!(taken(&inbox, &one).await, []);
}

/// A sender that does not know whether its message arrived repeats it.
pub async fn a_message_that_is_put_twice_is_one(store: Arc<dyn SessionStore>) {
    let (inbox, one) = (inbox(&store), session("one"));
    assert!(put(&inbox, message(&one, "r", "first")).await);
    assert!(!put(&inbox, message(&one, "r", "second")).await);
    assert_eq!(taken(&inbox, &one).await, [message(&one, "r", "first")]);
    let puts = (0..8).map(|_| inbox.put(message(&one, "at once", "hi")));
    let puts = futures_util::future::join_all(puts).await;
    assert_eq!(puts.into_iter().filter(|put| *put == Ok(true)).count(), 1, "one of those that come at once is new");
    assert_eq!(taken(&inbox, &one).await.len(), 2);
}

/// A message that can have no effect is answered.
pub async fn a_refused_message_waits_for_its_sender(store: Arc<dyn SessionStore>) {
    let (inbox, one) = (inbox(&store), session("one"));
    let standing = async |request: &str| inbox.standing(key(&one, request)).await;
    assert_eq!(standing("r").await, Ok(InboxStanding::Gone));
    put(&inbox, message(&one, "r", "hi")).await;
    assert_eq!(standing("r").await, Ok(InboxStanding::Waiting));
    let why = AgentError::Invalid("the input is empty".to_owned());
    assert_eq!(inbox.settle(key(&one, "r"), Some(why.clone())).await, Ok(true));
    assert_eq!(standing("r").await, Ok(InboxStanding::Refused(Box::new(why))));
    assert_eq!(taken(&inbox, &one).await, []);
    assert_eq!(due(&inbox, 10).await, [], "it is nothing to do");
    settle(&inbox, &one, "r", None).await;
    assert_eq!(standing("r").await, Ok(InboxStanding::Gone));
    assert_eq!(inbox.settle(key(&one, "unknown"), Some(AgentError::busy("b"))).await, Ok(false), "there is none");
    assert_eq!(inbox.settle(key(&one, "unknown"), None).await, Ok(false));
    assert_eq!(standing("unknown").await, Ok(InboxStanding::Gone));
}

/// A sender that puts a message again whose first attempt was refused asks for another one.
pub async fn a_refused_message_that_is_put_again_waits_as_the_last(store: Arc<dyn SessionStore>) {
    let (inbox, one) = (inbox(&store), session("one"));
    put(&inbox, message(&one, "r", "first")).await;
    put(&inbox, message(&one, "s", "other")).await;
    settle(&inbox, &one, "r", Some(AgentError::Invalid("no such model".to_owned()))).await;
    assert!(put(&inbox, message(&one, "r", "second")).await, "it is new");
    assert_eq!(inbox.standing(key(&one, "r")).await, Ok(InboxStanding::Waiting));
    assert_eq!(taken(&inbox, &one).await, [message(&one, "s", "other"), message(&one, "r", "second")]);
    assert!(!put(&inbox, message(&one, "r", "third")).await, "it waits");
}

/// A session takes a bounded number of messages; what was refused has no place among them.
pub async fn at_most_1000_messages_wait_for_a_session(store: Arc<dyn SessionStore>) {
    let (inbox, one) = (inbox(&store), session("one"));
    put(&inbox, message(&one, "refused", "hi")).await;
    settle(&inbox, &one, "refused", Some(AgentError::busy("b"))).await;
    for number in 0..10 {
        let puts = (0..100).map(|of| inbox.put(message(&one, &format!("r{number}-{of}"), "hi")));
        for put in futures_util::future::join_all(puts).await {
            assert_eq!(put, Ok(true));
        }
    }
    let full = inbox.put(message(&one, "more", "hi")).await;
    assert!(matches!(&full, Err(StoreError::Unavailable(why)) if why.contains("1000 messages wait")), "{full:?}");
    assert_eq!(inbox.put(message(&one, "r0-0", "hi")).await, Ok(false), "it is there");
    assert!(put(&inbox, message(&session("other"), "r", "hi")).await, "each session has its own");
    settle(&inbox, &one, "r0-0", None).await;
    assert!(put(&inbox, message(&one, "more", "hi")).await);
}

/// A caller that has no place for more sessions is told of messages to its own, and those behind them get their turn.
pub async fn known_sessions_are_told_and_take_no_place(store: Arc<dyn SessionStore>) {
    let inbox = inbox(&store);
    let sessions = ["a", "b", "c", "d"].map(session);
    for one in &sessions {
        put(&inbox, message(one, "r1", "hi")).await;
    }
    let [a, b, c, d] = &sessions;
    assert_eq!(due_but(&inbox, 0, &[a]).await, std::slice::from_ref(a), "it is full, and told");
    assert_eq!(due_but(&inbox, 2, &[a, b]).await, sessions, "known ones take no place");
    assert_eq!(due_but(&inbox, 4, &[a, b, c, d]).await, sessions);
    let mut seen = vec![a.clone()];
    for look in 2..=4 {
        seen = due_but(&inbox, 1, &seen.iter().collect::<Vec<_>>()).await;
        assert_eq!(seen.len(), look, "one more: {seen:?}");
    }
    let mark = async || inbox.due(0, &[a.clone()].into()).await.expect("it is told")[0].mark;
    let before = mark().await;
    assert_eq!(mark().await, before, "nothing came");
    put(&inbox, message(a, "r2", "hi")).await;
    assert_ne!(mark().await, before, "something came");
}

/// What waits and what was refused is counted.
pub async fn an_overview_counts_messages(store: Arc<dyn SessionStore>) {
    let inbox = inbox(&store);
    let counted = async || {
        let seen = store.overview().await.expect("it is told").expect("the store knows");
        (seen.waiting, seen.waiting_sessions, seen.oldest_ms.is_some(), seen.refused)
    };
    assert_eq!(counted().await, (0, 0, false, 0));
    let (one, two) = (session("one"), session("two"));
    for (session, request) in [(&one, "r1"), (&one, "r2"), (&two, "r1")] {
        put(&inbox, message(session, request, "hi")).await;
    }
    assert_eq!(counted().await, (3, 2, true, 0));
    let refusal = Some(AgentError::Invalid("no".to_owned()));
    assert_eq!(inbox.settle(message(&one, "r1", "hi").key(), refusal).await, Ok(true));
    assert_eq!(counted().await, (2, 2, true, 1));
    assert_eq!(inbox.settle(message(&one, "r2", "hi").key(), None).await, Ok(true));
    assert_eq!(counted().await, (1, 1, true, 1));
}

/// Sessions with messages are found, also those that do not exist yet, and again until the messages are settled.
pub async fn sessions_with_messages_are_due(store: Arc<dyn SessionStore>) {
    let inbox = inbox(&store);
    assert_eq!(due(&inbox, 10).await, []);
    let sessions = ["a", "b", "c"].map(session);
    for one in &sessions {
        put(&inbox, message(one, "r1", "hi")).await;
        put(&inbox, message(one, "r2", "hi")).await;
    }
    let epoch = claim(&store, &sessions[1]).await;
    store.release(&sessions[1], epoch).await;
    assert_eq!(due(&inbox, 2).await.len(), 2, "at most so many at a time");
    assert_eq!(due(&inbox, 10).await, sessions, "all of them are this process's, or nobody's");
    for one in &sessions {
        settle(&inbox, one, "r1", None).await;
        settle(&inbox, one, "r2", None).await;
    }
    assert_eq!(due(&inbox, 10).await, []);
}

/// An owner under the epoch of `due` may go on by claiming, and one that did nothing gives the session back.
pub async fn what_was_due_can_be_claimed_and_released(store: Arc<dyn SessionStore>) {
    let (inbox, one) = (inbox(&store), session("one"));
    put(&inbox, message(&one, "r", "hi")).await;
    let given = inbox.due(10, &std::collections::BTreeSet::new()).await.expect("it is due").remove(0);
    let claimed = store.claim(&one).await.expect("it is this process's");
    assert_eq!((claimed.version, claimed.records.len()), (0, 0));
    assert!(given.epoch.is_none_or(|epoch| epoch < claimed.epoch));
    if let Some(epoch) = given.epoch {
        store.release(&one, epoch).await;
    }
    assert_eq!(
        store_one(&store, append(&one, claimed.epoch, 0, 1)).await,
        Ok(1),
        "an epoch that is over releases nothing"
    );
    store.release(&one, claimed.epoch).await;
    settle(&inbox, &one, "r", None).await;
}

/// Of the sessions that have messages, those are given first whose oldest one waits longest.
pub async fn what_waits_longest_is_due_first(store: Arc<dyn SessionStore>) {
    let inbox = inbox(&store);
    let [a, b, c] = ["a", "b", "c"].map(session);
    let epoch = claim(&store, &a).await;
    store.release(&a, epoch).await;
    // Their names and whether they exist are in another order than their messages.
    for one in [&c, &a, &b] {
        put(&inbox, message(one, "r1", "hi")).await;
        // Where the time of a file counts, it has that of the kernel's clock.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    put(&inbox, message(&c, "r2", "hi")).await;
    let mut known = Vec::new();
    for next in [&c, &a, &b] {
        let due = due_but(&inbox, 1, &known).await;
        let new: Vec<_> = due.iter().filter(|one| !known.contains(one)).collect();
        assert_eq!(new, [next]);
        known.push(next);
    }
}

/// A deletion takes the messages with it.
pub async fn a_deleted_session_has_no_messages(store: Arc<dyn SessionStore>) {
    let (inbox, one, other) = (inbox(&store), session("one"), session("one.two"));
    let epoch = claim(&store, &one).await;
    assert_eq!(store_one(&store, append(&one, epoch, 0, 1)).await, Ok(1));
    put(&inbox, message(&one, "r", "hi")).await;
    put(&inbox, message(&other, "r", "hi")).await;
    assert_eq!(store.delete(&one).await, Ok(true));
    assert_eq!(inbox.standing(key(&one, "r")).await, Ok(InboxStanding::Gone));
    assert_eq!(due(&inbox, 10).await, [other]);
    let unborn = session("unborn");
    put(&inbox, message(&unborn, "r", "hi")).await;
    assert_eq!(store.delete(&unborn).await, Ok(false), "it does not exist");
    assert_eq!(inbox.standing(key(&unborn, "r")).await, Ok(InboxStanding::Gone));
}

/// Each put wakes a process that waits.
pub async fn a_message_wakes_who_waits_for_one(store: Arc<dyn SessionStore>) {
    let (inbox, one) = (inbox(&store), session("one"));
    // A new listener may be woken at once, also without a message.
    for request in ["r1", "r2", "r3"] {
        put(&inbox, message(&one, request, "hi")).await;
        tokio::time::timeout(Duration::from_secs(60), inbox.woken()).await.expect("it is woken");
    }
}

/// A process that has just claimed a session may begin a side effect.
pub async fn an_owner_holds_its_lease(store: Arc<dyn SessionStore>) {
    claim(&store, &session("one")).await;
    assert!(store.lease(&session("one")).is_held(Instant::now()));
}
