//! What a listing shows of a session, without its journal being read.

use super::{claim, session, store_one};
use crate::store::SessionStore;
use bob_messages::chat::{ContentPart, FinishReason};
use bob_messages::ids::{CallId, ModelName, RecordId, RequestId, ResumeToken, SessionId, TurnId};
use bob_messages::input::TurnInput;
use bob_messages::options::{ParentTurn, SessionOptions};
use bob_messages::outcome::SuspendReason;
use bob_messages::store::{
    Append, Ended, FORMAT, Fact, Record, SessionFilter, SessionState, SessionSummary, Snapshot, Suspension,
};
use std::sync::Arc;

/// Writes facts behind what a session has.
struct Writer<'s> {
    store: &'s Arc<dyn SessionStore>,
    session: SessionId,
    epoch: u64,
    version: u64,
}

impl<'s> Writer<'s> {
    async fn of(store: &'s Arc<dyn SessionStore>, id: &str) -> Self {
        let session = session(id);
        let epoch = claim(store, &session).await;
        Self { store, session, epoch, version: 0 }
    }

    async fn write(&mut self, facts: Vec<Fact>) {
        let record = |(version, fact): (u64, Fact)| {
            Arc::new(Record {
                format: FORMAT,
                id: RecordId::numbered(self.epoch, version),
                session: self.session.clone(),
                version,
                epoch: self.epoch,
                turn: None,
                at: 1,
                fact,
            })
        };
        let records: Vec<_> = (self.version + 1..).zip(facts).map(record).collect();
        let (session, epoch, expected_version) = (self.session.clone(), self.epoch, self.version);
        self.version += records.len() as u64;
        let append = Append { session, epoch, expected_version, records };
        assert_eq!(store_one(self.store, append).await, Ok(self.version));
    }
}

async fn listed(store: &Arc<dyn SessionStore>, filter: &SessionFilter) -> Vec<SessionSummary> {
    let (mut found, mut cursor) = (Vec::new(), None::<String>);
    loop {
        let page = store.list(filter, cursor.as_deref()).await.expect("it lists");
        found.extend(page.sessions);
        cursor = page.cursor;
        if cursor.is_none() {
            return found;
        }
    }
}

async fn look(store: &Arc<dyn SessionStore>, id: &str) -> SessionSummary {
    let mut all = listed(store, &SessionFilter { prefix: Some(id.to_owned()), ..SessionFilter::default() }).await;
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

fn said(turn: &str, text: &str) -> Fact {
    let words = vec![ContentPart::text(text)];
    Fact::Input(Arc::new(TurnInput::bare(TurnId::new(turn), ResumeToken::new("t"), words)))
}

fn started() -> Fact {
    Fact::Started { model: ModelName::parse("scripted:m").expect("a model's name"), selected: None }
}

fn ended(reason: Option<SuspendReason>) -> Fact {
    let suspended = reason.map(|reason| Suspension {
        reason,
        token: ResumeToken::new("t"),
        question: "which?".to_owned(),
        expires_at: None,
    });
    let finish_reason = if suspended.is_some() { FinishReason::Suspended } else { FinishReason::Final };
    Fact::Outcome(Box::new(Ended { content: "done".to_owned(), suspended, ..Ended::new(finish_reason) }))
}

fn of(parent: &str) -> Fact {
    let parent = ParentTurn {
        session: session(parent),
        turn: TurnId::new("t"),
        call: CallId::new("c1"),
        depth: 1,
        line: None,
        on_parent_end: None,
    };
    Fact::Options(Arc::new(SessionOptions { parent: Some(parent), ..SessionOptions::default() }))
}

/// A listing shows the title of the first message, and the state that the last record tells.
pub async fn a_listing_shows_titles_and_states(store: Arc<dyn SessionStore>) {
    let mut one = Writer::of(&store, "one").await;
    one.write(vec![of("above"), said("t1", "Mend the\nroof, \u{1b}[1mplease"), started()]).await;
    let seen = look(&store, "one").await;
    assert_eq!(seen.title.as_deref(), Some("Mend the roof, [1mplease"));
    assert_eq!((seen.state, seen.parent.as_ref()), (Some(SessionState::Running), Some(&session("above"))));
    for (fact, state) in [
        (ended(Some(SuspendReason::AskUser)), SessionState::Question),
        (ended(Some(SuspendReason::ApprovalRequired)), SessionState::Approval),
        (ended(None), SessionState::Idle),
    ] {
        one.write(vec![fact]).await;
        assert_eq!(look(&store, "one").await.state, Some(state));
    }
    one.write(vec![said("t2", "and the door"), started(), ended(None)]).await;
    let seen = look(&store, "one").await;
    assert_eq!(seen.title.as_deref(), Some("Mend the roof, [1mplease"), "the first message names it");
    assert_eq!((seen.state, seen.turns), (Some(SessionState::Idle), Some(2)));
    // The same when another owner has it, or nobody; a store may note that in its journal.
    let shown = |seen: SessionSummary| SessionSummary { bytes: 0, updated_at: 0, ..seen };
    let seen = shown(seen);
    store.release(&one.session, one.epoch).await;
    assert_eq!(shown(look(&store, "one").await), seen);
    let epoch = claim(&store, &one.session).await;
    assert_eq!(shown(look(&store, "one").await), seen);
    let mut next = Writer { epoch, ..one };
    next.write(vec![said("t3", "x"), started()]).await;
    assert_eq!(look(&store, "one").await.state, Some(SessionState::Running));
}

/// A listing shows where a session works and when it was begun.
pub async fn a_listing_shows_folders_and_beginnings(store: Arc<dyn SessionStore>) {
    let in_folder = |cwd: &str| SessionOptions { cwd: Some(cwd.to_owned()), ..SessionOptions::default() };
    let shown = |seen: SessionSummary| (seen.cwd.map(String::from), seen.created_at);
    let mut one = Writer::of(&store, "placed").await;
    one.write(vec![Fact::Options(Arc::new(in_folder("/projects/é"))), said("t1", "hi"), started(), ended(None)]).await;
    assert_eq!(shown(look(&store, "placed").await), (Some("/projects/é".to_owned()), Some(1)));
    let request_id = RequestId::new("r");
    one.write(vec![Fact::Configured { request_id, options: Arc::new(in_folder("/projects/b")), notice: None }]).await;
    assert_eq!(shown(look(&store, "placed").await), (Some("/projects/b".to_owned()), Some(1)));
    store.release(&one.session, one.epoch).await;
    let epoch = claim(&store, &one.session).await;
    let mut next = Writer { epoch, ..one };
    let moved = TurnInput {
        options: Some(Arc::default()),
        ..TurnInput::bare(TurnId::new("t2"), ResumeToken::new("t"), vec![ContentPart::text("x")])
    };
    next.write(vec![Fact::Input(Arc::new(moved)), started()]).await;
    assert_eq!(shown(look(&store, "placed").await), (None, Some(1)), "the input brought options without a folder");

    let mut long = Writer::of(&store, "far").await;
    long.write(vec![Fact::Options(Arc::new(in_folder("/projects/c"))), said("t0", "a beginning"), started()]).await;
    for number in 1..10 {
        long.write(vec![ended(None), said(&format!("t{number}"), &"m".repeat(9_000)), started()]).await;
    }
    assert_eq!(shown(look(&store, "far").await), (Some("/projects/c".to_owned()), Some(1)));
}

/// A session of very long messages has a title and a state as well.
pub async fn a_long_session_shows_its_title_and_state(store: Arc<dyn SessionStore>) {
    let mut long = Writer::of(&store, "long").await;
    long.write(vec![Fact::Options(Arc::default()), said("t0", "a short beginning"), started()]).await;
    let much = "m".repeat(9_000);
    for number in 1..10 {
        long.write(vec![ended(None), said(&format!("t{number}"), &much), started()]).await;
    }
    let seen = look(&store, "long").await;
    assert_eq!((seen.title.as_deref(), seen.state), (Some("a short beginning"), Some(SessionState::Running)));
    assert!(seen.turns.is_none_or(|turns| turns == 9), "{seen:?}");
}

/// What stands in front of the place where an owner begins to read is counted once.
pub async fn turns_in_front_of_a_snapshot_are_counted_once(store: Arc<dyn SessionStore>) {
    let turn = |id: &str| [said(id, "x"), started(), ended(None)];
    let mut one = Writer::of(&store, "one").await;
    one.write(turn("t1").to_vec()).await;
    one.write(vec![Fact::Snapshot(Snapshot { form: 1, session: "{}".into() })]).await;
    one.write([turn("t2"), turn("t3")].concat()).await;
    for claims in 0..3 {
        store.release(&one.session, one.epoch).await;
        one.epoch = store.claim_latest(&one.session).await.expect("it was released").epoch;
        one.write(vec![said("next", "x"), started()]).await;
        let seen = look(&store, "one").await;
        assert_eq!((seen.state, seen.turns), (Some(SessionState::Running), Some(3 + claims)));
        one.write(vec![ended(None)]).await;
        assert_eq!(look(&store, "one").await.turns, Some(4 + claims));
    }
}

/// Only sessions in a state, or of a parent, page by page.
pub async fn a_listing_is_filtered_by_state_and_parent(store: Arc<dyn SessionStore>) {
    for number in 0..12 {
        let mut one = Writer::of(&store, &format!("s{number:02}")).await;
        let parent = if number % 2 == 0 { "even" } else { "odd" };
        one.write(vec![of(parent), said("t", "x"), started()]).await;
        if number % 3 == 0 {
            one.write(vec![ended(None)]).await;
        }
    }
    let ids = |found: Vec<SessionSummary>| {
        let mut ids: Vec<_> = found.into_iter().map(|one| one.session.to_string()).collect();
        ids.sort_unstable();
        ids
    };
    for limit in [0, 1, 3] {
        let idle = SessionFilter { state: Some(SessionState::Idle), limit, ..SessionFilter::default() };
        assert_eq!(ids(listed(&store, &idle).await), ["s00", "s03", "s06", "s09"]);
        let of_even = SessionFilter { parent: Some(session("even")), ..idle };
        assert_eq!(ids(listed(&store, &of_even).await), ["s00", "s06"]);
        let prefixed = SessionFilter { prefix: Some("s0".to_owned()), state: None, ..of_even };
        assert_eq!(ids(listed(&store, &prefixed).await), ["s00", "s02", "s04", "s06", "s08"]);
    }
    let mut owned = Writer::of(&store, "owned").await;
    let tenant = |name: &str| SessionFilter { tenant: Some(name.into()), ..SessionFilter::default() };
    let options = SessionOptions { tenant: Some("acme".into()), ..SessionOptions::default() };
    owned.write(vec![Fact::Options(Arc::new(options)), said("t", "x"), started()]).await;
    owned.write(vec![Fact::Options(Arc::default()), ended(None)]).await;
    let of_acme = listed(&store, &tenant("acme")).await;
    assert_eq!(of_acme.len(), 1, "{of_acme:?}");
    assert_eq!((of_acme[0].session.as_str(), of_acme[0].tenant.as_ref()), ("owned", tenant("acme").tenant.as_ref()));
    assert_eq!(listed(&store, &tenant("globex")).await, []);
    assert_eq!(listed(&store, &tenant("")).await, [], "an empty name is a name, and no session has it");
    let asking = SessionFilter { state: Some(SessionState::Question), ..SessionFilter::default() };
    assert!(listed(&store, &asking).await.is_empty());
}
