//! Connections that break and databases that restart: what was sent is stored once, and no owner is taken for dead.

use super::database::{Schema, is_there, schema, url, within};
use super::*;
use bob_messages::chat::ContentPart;
use bob_messages::ids::{RequestId, ResumeToken, TurnId};
use bob_messages::inbox::{InboxKey, InboxMessage, InboxRequest, InboxStanding};
use bob_messages::input::TurnInput;
use bob_messages::store::Fact;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use tempfile::TempDir;

/// What a proxy does with the next statement that names the session `cut`.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Cut {
    /// The database never hears of it.
    Before,
    /// The database answers, and the answer is lost.
    After,
    /// The database never hears of it, and the connection stays.
    Silent,
    /// As [`After`](Self::After), and no connection is made from then on.
    Away,
}

/// A way to the database that breaks when it is told to.
struct Proxy {
    port: u16,
    is_armed: Arc<AtomicBool>,
    is_away: Arc<AtomicBool>,
}

impl Proxy {
    fn start(cut: Cut) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let is_armed = Arc::<AtomicBool>::default();
        let target = url().split_once('@').unwrap().1.split_once('/').unwrap().0.to_owned();
        let is_away = Arc::<AtomicBool>::default();
        let (armed, away) = (Arc::clone(&is_armed), Arc::clone(&is_away));
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if away.load(Ordering::SeqCst) {
                    continue;
                }
                let server = TcpStream::connect(&target).unwrap();
                let is_cut = Arc::<AtomicBool>::default();
                let (from, to, cut_here) =
                    (server.try_clone().unwrap(), client.try_clone().unwrap(), Arc::clone(&is_cut));
                std::thread::spawn(move || answers(from, to, &cut_here));
                let (armed, away) = (Arc::clone(&armed), Arc::clone(&away));
                std::thread::spawn(move || questions(client, server, cut, [&armed, &away], &is_cut));
            }
        });
        Self { port, is_armed, is_away }
    }

    /// The URL of a schema by way of this proxy.
    fn url(&self, schema: &Schema) -> String {
        let url = schema.url();
        let (user, rest) = url.split_once('@').unwrap();
        format!("{user}@127.0.0.1:{}/{}", self.port, rest.split_once('/').unwrap().1)
    }
}

fn questions(
    mut client: TcpStream,
    mut server: TcpStream,
    cut: Cut,
    [armed, is_away]: [&AtomicBool; 2],
    is_cut: &AtomicBool,
) {
    let mut bytes = vec![0; 1 << 16];
    while let Ok(count @ 1..) = client.read(&mut bytes) {
        // Away is the whole database.
        if is_away.load(Ordering::SeqCst) && !is_cut.load(Ordering::SeqCst) {
            break;
        }
        let names_it = bytes[..count].windows(5).any(|part| part == b"cut-1");
        if names_it && armed.swap(false, Ordering::SeqCst) {
            is_cut.store(true, Ordering::SeqCst);
            match cut {
                Cut::Before => break,
                Cut::After => {}
                Cut::Away => is_away.store(true, Ordering::SeqCst),
                Cut::Silent => {
                    while let Ok(1..) = client.read(&mut bytes) {}
                    break;
                }
            }
        }
        if server.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    let _ = server.shutdown(Shutdown::Both);
    let _ = client.shutdown(Shutdown::Both);
}

fn answers(mut server: TcpStream, mut client: TcpStream, is_cut: &AtomicBool) {
    let mut bytes = vec![0; 1 << 16];
    while let Ok(count @ 1..) = server.read(&mut bytes) {
        if is_cut.load(Ordering::SeqCst) || client.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    let _ = server.shutdown(Shutdown::Both);
    let _ = client.shutdown(Shutdown::Both);
}

async fn is_stored_once(cut: Cut, test: &str) {
    let Some(schema) = schema(test) else { return };
    let proxy = Proxy::start(cut);
    let store: Arc<dyn SessionStore> = PostgresStore::open(&proxy.url(&schema), StoreOptions::default()).unwrap();
    let (one, other) = (session("cut-1"), session("other"));
    let (epoch, of_other) = (claim(&store, &one).await, claim(&store, &other).await);
    assert_eq!(store_one(&store, append(&one, epoch, 0, 2)).await, Ok(2));
    for round in 1..4 {
        proxy.is_armed.store(true, Ordering::SeqCst);
        let batch = vec![append(&one, epoch, 2 * round, 2), append(&other, of_other, round - 1, 1)];
        assert_eq!(store.append(batch).await, [Ok(2 * round + 2), Ok(round)], "{cut:?}, round {round}");
        assert!(!proxy.is_armed.load(Ordering::SeqCst), "the connection was cut");
    }
    proxy.is_armed.store(true, Ordering::SeqCst);
    assert_eq!(claim(&store, &one).await, if cut == Cut::After { epoch + 2 } else { epoch + 1 }, "it is made again");
    assert_eq!(stored(&store, &one).await.len(), 8);
    assert_eq!(stored(&store, &other).await.len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_append_whose_answer_was_lost_is_stored_once() {
    is_stored_once(Cut::After, "an_append_whose_answer_was_lost_is_stored_once").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_append_that_never_arrived_is_stored_once() {
    is_stored_once(Cut::Before, "an_append_that_never_arrived_is_stored_once").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_without_answers_is_made_anew() {
    let Some(schema) = schema("a_connection_without_answers_is_made_anew") else { return };
    let proxy = Proxy::start(Cut::Silent);
    let store: Arc<dyn SessionStore> = PostgresStore::open(&proxy.url(&schema), StoreOptions::default()).unwrap();
    let one = session("cut-1");
    let epoch = claim(&store, &one).await;
    proxy.is_armed.store(true, Ordering::SeqCst);
    assert_eq!(within(store_one(&store, append(&one, epoch, 0, 2))).await, Ok(2));
    assert!(!proxy.is_armed.load(Ordering::SeqCst), "it was kept");
    proxy.is_armed.store(true, Ordering::SeqCst);
    let given_up = within(store.claim(&one)).await;
    assert!(matches!(given_up, Err(StoreError::Away(_))), "after its time: {given_up:?}");
    assert_eq!(within(store.claim(&one)).await.unwrap().version, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_whose_answer_was_lost_is_in_doubt_while_the_database_is_away() {
    let Some(schema) = schema("a_message_whose_answer_was_lost_is_in_doubt") else { return };
    let proxy = Proxy::start(Cut::Away);
    let store: Arc<dyn SessionStore> = PostgresStore::open(&proxy.url(&schema), StoreOptions::default()).unwrap();
    let (inbox, one) = (store.inbox().unwrap(), session("cut-1"));
    let to = |session: &SessionId| {
        InboxMessage::new(session.clone(), RequestId::new("r"), 1, InboxRequest::Cancel { of: RequestId::new("q") })
    };
    assert_eq!(inbox.put(to(&session("other"))).await, Ok(true));
    proxy.is_armed.store(true, Ordering::SeqCst);
    let put = within(inbox.put(to(&one))).await;
    assert!(matches!(put, Err(StoreError::InDoubt(_))), "{put:?}");
    let direct = schema.open("direct", false);
    let standing = direct.inbox().unwrap().standing(InboxKey { session: one, request: RequestId::new("r") }).await;
    assert_eq!(standing, Ok(InboxStanding::Waiting), "it was stored");
}

/// An append whose records are inputs.
fn of_an_input(append: Append) -> Append {
    let input = TurnInput::bare(TurnId::new("t"), ResumeToken::new("t"), vec![ContentPart::text("pay")]);
    let fact = Fact::Input(Arc::new(input));
    let with_input = |record: &Arc<Record>| Arc::new(Record { fact: fact.clone(), ..Record::clone(record) });
    Append { records: append.records.iter().map(with_input).collect(), ..append }
}

/// The answer to an append that another owner may have followed is not "nothing was stored": a caller would send its input
/// again, beside the one that the next owner runs.
#[tokio::test(flavor = "multi_thread")]
async fn an_append_whose_answer_was_lost_is_in_doubt_when_another_owner_came_meanwhile() {
    let Some(schema) = schema("an_append_whose_answer_was_lost_and_another_owner") else { return };
    let proxy = Proxy::start(Cut::Away);
    let store: Arc<dyn SessionStore> = PostgresStore::open(&proxy.url(&schema), StoreOptions::default()).unwrap();
    let (direct, one) = (schema.open("direct", false), session("cut-1"));
    let epoch = claim(&store, &one).await;
    proxy.is_armed.store(true, Ordering::SeqCst);
    let sent = tokio::spawn({
        let (store, input) = (Arc::clone(&store), of_an_input(append(&one, epoch, 0, 1)));
        async move { store_one(&store, input).await }
    });
    let taken = async {
        while direct.load(&one).await.unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
        direct.take(&one).await
    };
    within(taken).await.unwrap();
    proxy.is_away.store(false, Ordering::SeqCst);
    let answer = within(sent).await.unwrap();
    assert!(matches!(answer, Err(StoreError::InDoubt(_))), "{answer:?}");
}

/// A cluster of its own, which may be stopped.
struct Cluster(TempDir);

impl Cluster {
    fn start() -> Self {
        let folder = TempDir::new().unwrap();
        let cluster = Self(folder);
        cluster.run("start");
        cluster
    }

    fn run(&self, command: &str) -> String {
        let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../scripts/postgres.sh");
        let mut run = Command::new("sh");
        run.arg(script).arg(command).arg(self.0.path());
        let said = run.output().unwrap();
        assert!(said.status.success(), "{command}: {}", String::from_utf8_lossy(&said.stderr));
        String::from_utf8(said.stdout).unwrap().trim().to_owned()
    }

    fn open(&self, owner: &str) -> Arc<dyn SessionStore> {
        let options = StoreOptions { owner_name: owner.to_owned(), ..StoreOptions::default() };
        PostgresStore::open(&self.run("url"), options).unwrap()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.run("kill");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_crashes_and_comes_back_loses_and_doubles_nothing_and_takes_nobody_for_dead() {
    if !is_there("a_database_that_crashes_and_comes_back") {
        return;
    }
    let cluster = Cluster::start();
    let store = cluster.open("ann");
    let is_over = Arc::<AtomicBool>::default();
    let mut writers = tokio::task::JoinSet::new();
    for number in 0..20 {
        let (store, is_over) = (Arc::clone(&store), Arc::clone(&is_over));
        writers.spawn(async move {
            let one = session(&format!("s{number}"));
            let (epoch, mut version) = (claim(&store, &one).await, 0);
            while !is_over.load(Ordering::SeqCst) {
                let next = append(&one, epoch, version, 1);
                loop {
                    let Append { session, records, .. } = next.clone();
                    let again = Append { session, epoch, expected_version: version, records };
                    match store_one(&store, again).await {
                        Ok(stored) => break version = stored,
                        Err(StoreError::Unavailable(_) | StoreError::Away(_) | StoreError::InDoubt(_)) => {}
                        Err(other) => panic!("neither stored nor away: {other}"),
                    }
                }
            }
            (one, version)
        });
    }
    let two = session("held");
    let held = claim(&store, &two).await;
    for _ in 0..2 {
        // Some appends are on their way, whichever these are.
        while store.load(&session("s0")).await.is_ok_and(|records| records.len() < 5) {
            tokio::task::yield_now().await;
        }
        cluster.run("kill");
        cluster.run("start");
        let ben = cluster.open("ben");
        assert_eq!(
            ben.claim(&two).await,
            Err(StoreError::Busy { owner: "ann".to_owned() }),
            "its lock is gone, and it lives"
        );
    }
    is_over.store(true, Ordering::SeqCst);
    while let Some(written) = writers.join_next().await {
        let (one, version) = written.unwrap();
        assert!(version > 0);
        assert_eq!(stored(&store, &one).await.len() as u64, version, "{one}");
    }
    assert_eq!(store_one(&store, append(&two, held, 0, 1)).await, Ok(1), "it is its owner's still");
}
