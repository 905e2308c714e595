//! How long signing in to a tool server and renewing its tokens may take, and who waits.

use super::tests::realm::{Browser, Realm};
use super::tests::{says, signed};
use super::*;
use crate::child::testing::until;
use crate::mcp::McpServerArguments;
use crate::mcp::testing::Fixture;
use bob_messages::chat::CallStatus;
use futures_util::future::BoxFuture;
use std::time::Duration;
use tokio::sync::Semaphore;

fn refused() -> Challenge {
    Challenge { status: 401, header: String::new() }
}

#[tokio::test]
async fn a_renewal_outlives_the_request_that_began_it() {
    let (realm, home) = (Realm::start().await, tempfile::tempdir().expect("a folder"));
    let server = signed(&realm, home.path(), true);
    log_in(&server.spec, &server.sign_ins).await.expect("signed in");
    let tokens = Arc::new(Tokens::of(&server.spec, &signed(&realm, home.path(), false).sign_ins).expect("it signs in"));
    let old = tokens.current().await.expect("tokens");
    let gate = Arc::new(Semaphore::new(0));
    realm.world().gate = Some(Arc::clone(&gate));
    realm.revoke();
    let (asking, used) = (Arc::clone(&tokens), old.clone());
    let asking = tokio::spawn(async move { asking.after(used.as_deref(), &refused()).await });
    until("the server has made another token", || realm.grants("refresh_token") == 1).await;
    asking.abort();
    assert!(asking.await.expect_err("it was dropped").is_cancelled());
    gate.add_permits(10);
    let new = tokens.after(old.as_deref(), &refused()).await.expect("another token");
    assert_eq!((Some(&new), realm.grants("refresh_token")), (realm.world().access.as_ref(), 1));
    assert_ne!(Some(new), old);
}

#[tokio::test]
async fn one_failure_is_for_all_who_wait() {
    let (realm, home) = (Realm::start().await, tempfile::tempdir().expect("a folder"));
    let server = signed(&realm, home.path(), true);
    log_in(&server.spec, &server.sign_ins).await.expect("signed in");
    let tokens = Tokens::of(&server.spec, &signed(&realm, home.path(), false).sign_ins).expect("it signs in");
    let old = tokens.current().await.expect("tokens");
    let gate = Arc::new(Semaphore::new(0));
    realm.world().gate = Some(Arc::clone(&gate));
    realm.world().renews = false;
    realm.revoke();
    let refused = refused();
    let asking = futures_util::future::join_all((0..8).map(|_| tokens.after(old.as_deref(), &refused)));
    let opening = async {
        until("it was asked", || realm.grants("refresh_token") == 1).await;
        gate.add_permits(100);
    };
    let (answers, ()) = tokio::join!(asking, opening);
    assert!(answers.iter().all(|answer| answer.as_ref().is_err_and(|why| why.contains("mcp login"))), "{answers:?}");
    assert_eq!(realm.grants("refresh_token"), 1);
}

/// A person who takes this long.
struct Slow(Arc<Semaphore>);

impl SignInPort for Slow {
    fn open<'a>(&'a self, server: &'a ServerId, page: &'a str) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            self.0.acquire().await.expect("it is open").forget();
            Browser.open(server, page).await;
        })
    }
}

#[tokio::test]
async fn a_person_may_take_longer_than_a_server_may_to_start() {
    let (realm, home) = (Realm::start().await, tempfile::tempdir().expect("a folder"));
    let gate = Arc::new(Semaphore::new(0));
    let mut server = signed(&realm, home.path(), false);
    server.sign_ins.port = Some(Arc::new(Slow(Arc::clone(&gate))));
    server.spec.startup_timeout_ms = 2_000;
    let mut fixture = Fixture::start(server).await;
    // The time of the start passes.
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    assert!(fixture.server.ends.try_recv().is_err(), "it still waits for the person");
    gate.add_permits(1);
    fixture.ready().await;
    says(&fixture.perform("echo").await, CallStatus::Ok, "heard");
    assert_eq!(realm.pages(), 1);
}

#[tokio::test]
async fn an_older_server_that_is_silent_when_asked_for_its_version_starts_where_a_person_may_sign_in() {
    let (realm, home) = (Realm::start().await, tempfile::tempdir().expect("a folder"));
    realm.world().is_silent = true;
    let mut server = signed(&realm, home.path(), true);
    server.spec.startup_timeout_ms = 3_000;
    let fixture = Fixture::start(McpServerArguments { ..server }).await;
    says(&fixture.perform("echo").await, CallStatus::Ok, "heard");
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_is_never_released_is_an_error() {
    let home = tempfile::tempdir().expect("a folder");
    let store = Store::new(Some(home.path()), &ServerId::new("sh"), "https://h.example/mcp");
    let _held = store.lock().await.expect("a lock");
    let other = Store::new(Some(home.path()), &ServerId::new("sh"), "https://h.example/mcp");
    let error = other.lock().await.err().expect("it is taken");
    assert!(error.contains("another process"), "{error}");
}

#[tokio::test]
async fn a_token_that_cannot_be_written_is_still_known() {
    let home = tempfile::tempdir().expect("a folder");
    let folder = home.path().join("sign-ins");
    let store = Store::new(Some(&folder), &ServerId::new("sh"), "https://h.example/mcp");
    store.change(|_| {}).expect("written");
    std::fs::remove_dir_all(&folder).expect("removed");
    std::fs::write(&folder, "no folder").expect("written");
    store.change(|kept| kept.missed = vec!["write".to_owned()]).expect_err("not written");
    let missed = |kept: Option<Kept>| kept.map(|kept| kept.missed).unwrap_or_default();
    assert_eq!(missed(store.known()), ["write"]);
    std::fs::remove_file(&folder).expect("removed");
    assert_eq!(missed(store.read().expect("readable")), ["write"]);
    let later = Store::new(Some(&folder), &ServerId::new("sh"), "https://h.example/mcp");
    assert_eq!(missed(later.read().expect("readable")), ["write"], "it was written at last");
}
