//! Each kind of message, in each of the situations of its session.

use super::*;
use crate::approvals::Decision;
use crate::chat::{ContentPart, FinishReason};
use crate::ids::PoolName;
use crate::ids::{ApprovalId, ResumeToken, SessionId, TurnId};
use crate::inbox::{InboxMessage, SubmitRequest};
use crate::input::ResumeReply;

fn entry(name: &str, request: InboxRequest) -> InboxEntry {
    InboxMessage::new(SessionId::parse("one").unwrap(), RequestId::new(name), 1, request).into()
}

/// `r1` is an input, `q1` a reply to a suspended turn, `cancel-r1` its cancellation, `steer`, `decide`, `damaged` and `newer` what they say.
fn waiting(names: &str) -> Vec<InboxEntry> {
    let one = |name: &str| match name.split_once('-') {
        Some((_, of)) => entry(name, InboxRequest::Cancel { of: RequestId::new(of) }),
        None if name == "steer" => entry(name, InboxRequest::Steer { parts: vec![ContentPart::text("left")] }),
        None if name == "decide" => {
            entry(name, InboxRequest::Decide { approval: ApprovalId::new("a"), decision: Decision::AllowOnce })
        }
        None if name == "configure" => entry(name, InboxRequest::Configure { patch: Box::default() }),
        None if name.starts_with('q') => {
            let reply = ResumeReply::Answer("blue".to_owned());
            entry(name, InboxRequest::Resume { token: ResumeToken::new("one~s"), reply })
        }
        None if name == "damaged" => InboxEntry::parse(RequestId::new(name), "nothing"),
        None if name == "newer" => InboxEntry::parse(RequestId::new(name), "{\"format\":9}"),
        None => entry(name, InboxRequest::Submit(Box::<SubmitRequest>::default())),
    };
    names.split(' ').filter(|name| !name.is_empty()).map(one).collect()
}

fn shown(step: &Step) -> String {
    match step {
        Step::Wait => "wait".to_owned(),
        Step::Run { is_cancelled: false } => "run".to_owned(),
        Step::Run { is_cancelled: true } => "run and cancel".to_owned(),
        Step::Cancel(of) => format!("cancel {of}"),
        Step::Try => "try".to_owned(),
        Step::Settle(None) => "done".to_owned(),
        Step::Settle(Some(_)) => "refuse".to_owned(),
    }
}

#[test]
fn each_message_is_attended_as_its_session_is() {
    let r1 = RequestId::new("r1");
    let (nothing, message, another) = (Runs::Nothing, Runs::Message(&r1), Runs::Another);
    for (names, runs, open, expected) in [
        // Turns run one after the other, in order.
        ("", nothing, "", ""),
        ("r1 r2", nothing, "", "run, wait"),
        ("r1 r2", message, "r1", "wait, wait"),
        ("r1", another, "r1", "wait"),
        // A cancellation stays until its request has ended, wherever it runs.
        ("r1 cancel-r1", nothing, "", "run and cancel, wait"),
        ("r2 r1 cancel-r1", nothing, "", "run, wait, wait"),
        ("r1 cancel-r1", message, "", "wait, cancel r1"),
        ("r1 cancel-r1", another, "r1", "wait, cancel r1"),
        ("r1 r2 cancel-r2", message, "r1", "wait, wait, wait"),
        // A decision has resumed the turn of `r0`, behind which that of `r1` waits.
        ("r1 cancel-r0", message, "r0 r1", "wait, cancel r0"),
        ("r1 cancel-r1", another, "r0", "wait, wait"),
        ("cancel-r1", another, "r1", "cancel r1"),
        ("cancel-r1", another, "r2", "done"),
        ("cancel-r1", nothing, "r1", "wait"),
        ("cancel-r1", nothing, "", "done"),
        // A message to the turn waits for the turn of a message before it.
        ("steer", nothing, "", "refuse"),
        ("steer r1", nothing, "", "refuse, run"),
        ("r1 steer", nothing, "", "run, wait"),
        ("r1 steer", message, "", "wait, try"),
        ("steer r1", message, "", "try, wait"),
        ("r1 r2 steer", message, "", "wait, wait, wait"),
        ("r1 steer r2", message, "", "wait, try, wait"),
        ("r1 steer", another, "r1", "wait, try"),
        ("r1 steer", another, "r0", "wait, wait"),
        ("newer steer", another, "r0", "wait, wait"),
        ("steer", another, "r1", "try"),
        ("steer", nothing, "r1", "wait"),
        // A decision finds its question in the journal.
        ("decide", nothing, "", "try"),
        ("decide", another, "r1", "try"),
        ("r1 decide", message, "r1", "wait, try"),
        // A reply is a turn as an input is.
        ("q1 r2", nothing, "", "run, wait"),
        ("r1 q1 cancel-q1", message, "r1", "wait, wait, wait"),
        ("q1 cancel-q1", nothing, "", "run and cancel, wait"),
        // A change of options comes between the turns of the messages around it.
        ("configure r1", nothing, "", "try, run"),
        ("r1 configure r2", nothing, "", "run, wait, wait"),
        ("r1 configure r2", message, "r1", "wait, try, wait"),
        ("r1 r2 configure", message, "r1", "wait, wait, wait"),
        ("configure", another, "r1", "try"),
        // What cannot be read concerns itself alone; what a newer program can read is not overtaken.
        ("damaged r1", nothing, "", "refuse, run"),
        ("newer r1 decide", nothing, "", "wait, wait, try"),
        ("r1 newer", nothing, "", "run, wait"),
    ] {
        let requests: Vec<_> = open.split(' ').filter(|name| !name.is_empty()).map(RequestId::new).collect();
        let unfinished = Unfinished { is_open: !requests.is_empty(), requests, ..Unfinished::default() };
        let steps = steps(&waiting(names), runs, &unfinished, &Pools::default());
        let steps = steps.iter().map(shown).collect::<Vec<_>>().join(", ");
        assert_eq!(steps, expected, "{names}, {runs:?}, open: {open}");
    }
}

#[test]
fn a_message_to_the_turn_that_the_journal_has_is_done() {
    let unfinished = Unfinished { steered: vec![RequestId::new("steer")], ..Unfinished::default() };
    for runs in [Runs::Nothing, Runs::Another] {
        assert_eq!(steps(&waiting("steer"), runs, &unfinished, &Pools::default()), [Step::Settle(None)]);
    }
}

#[test]
fn a_turn_runs_in_the_pool_of_its_message_or_of_its_session() {
    let name = |name: &str| PoolName::parse(name).unwrap();
    let gpu: Pools = [name("gpu")].into_iter().collect();
    for (asked, bound, pools, expected) in [
        (None, None, &gpu, "run, wait"),
        (None, Some("gpu"), &gpu, "run, wait"),
        (None, Some("gpu"), &Pools::default(), "wait, wait"),
        (Some("gpu"), None, &gpu, "run, wait"),
        (Some("gpu"), Some("gpu"), &gpu, "run, wait"),
        // What is behind it does not overtake it.
        (Some("gpu"), None, &Pools::default(), "wait, wait"),
        (Some("big"), Some("gpu"), &gpu, "refuse, wait"),
    ] {
        let submit = SubmitRequest { pool: asked.map(name), ..SubmitRequest::default() };
        let mut waiting = waiting("r2");
        waiting.insert(0, entry("r1", InboxRequest::Submit(Box::new(submit))));
        let unfinished = Unfinished { pool: bound.map(name), ..Unfinished::default() };
        let steps = steps(&waiting, Runs::Nothing, &unfinished, pools);
        let steps = steps.iter().map(shown).collect::<Vec<_>>().join(", ");
        assert_eq!(steps, expected, "{asked:?} in {bound:?} by {pools:?}");
    }
}

#[test]
fn what_waits_for_another_pool_can_be_cancelled() {
    let name = |name: &str| PoolName::parse(name).unwrap();
    for (names, open, ended, expected) in [
        ("r1 r2 cancel-r1", "", "", "refuse, wait, wait"),
        ("r1 r2 cancel-r2", "", "", "wait, refuse, wait"),
        ("q1 cancel-q1", "", "", "refuse, wait"),
        // Its turn is open, or has ended: that pool has to do with it.
        ("r1 cancel-r1", "r1", "", "wait, wait"),
        ("r1 cancel-r1", "", "r1", "wait, wait"),
    ] {
        let of = |names: &str| names.split(' ').filter(|name| !name.is_empty()).map(RequestId::new).collect();
        let (requests, ended): (Vec<_>, _) = (of(open), of(ended));
        let is_open = !requests.is_empty();
        let unfinished = Unfinished { requests, is_open, ended, pool: Some(name("gpu")), ..Unfinished::default() };
        let steps = steps(&waiting(names), Runs::Nothing, &unfinished, &Pools::default());
        let steps = steps.iter().map(shown).collect::<Vec<_>>().join(", ");
        assert_eq!(steps, expected, "{names}, open: {open}");
    }
    let ended = vec![RequestId::new("r1")];
    let unfinished = Unfinished { ended, ..Unfinished::default() };
    let here = steps(&waiting("r1 cancel-r1"), Runs::Nothing, &unfinished, &Pools::default());
    assert_eq!(here[0], Step::Run { is_cancelled: false }, "it is recognised, and not cancelled");
}

#[test]
fn what_fails_each_time_is_refused_and_rests_longer_until_then() {
    let failed = |counts| Attempt::Again(Failed { why: "it panicked".to_owned(), counts });
    for failures in 0..MOST_ATTEMPTS - 1 {
        assert_eq!(failed(true).after(failures), failed(true));
    }
    assert!(matches!(failed(true).after(MOST_ATTEMPTS - 1), Attempt::Refused(AgentError::Internal(_))));
    assert_eq!(failed(false).after(1_000), failed(false), "a store that is away refuses nothing");
    assert_eq!(Attempt::Done.after(1_000), Attempt::Done);
    assert_eq!([1, 2, 3, 20].map(|failures| rest_ms(failures, true)), [500, 1_000, 2_000, 600_000]);
    assert_eq!([1, 2, 3, u32::MAX].map(|failures| rest_ms(failures, false)), [500, 1_000, 2_000, 5_000]);
}

#[test]
fn a_message_is_done_when_its_outcome_is_durable_and_refused_when_no_process_could_take_it() {
    let session = SessionId::parse("one").unwrap();
    let ended = TurnOutcome::bare(session, TurnId::new("t"), FinishReason::Final, "hello");
    let saved = |saved| TurnOutcome { saved, ..ended.clone() };
    assert_eq!(Attempt::of_run(Ok(&saved(true))), Attempt::Done);
    assert!(matches!(Attempt::of_run(Ok(&saved(false))), Attempt::Again(_)));
    for later in [
        AgentError::busy("b"),
        AgentError::overloaded("o"),
        AgentError::Stopped("s".into()),
        AgentError::Internal("i".into()),
        AgentError::Store(StoreError::Unavailable("u".into())),
        AgentError::Kept(StoreError::Unavailable("u".into())),
        AgentError::Kept(StoreError::Fenced { epoch: 1 }),
    ] {
        let counts = matches!(later, AgentError::Internal(_));
        let Attempt::Again(failed) = Attempt::of_run(Err(&later)) else { panic!("{later:?}") };
        assert_eq!(failed.counts, counts, "{later:?}");
    }
    for never in [AgentError::Invalid("i".into()), AgentError::Store(StoreError::Corrupt("c".into()))] {
        assert_eq!(Attempt::of_run(Err(&never)), Attempt::Refused(never.clone()));
    }
}
