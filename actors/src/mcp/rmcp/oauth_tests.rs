//! Signing in to a tool server, against an authorization server of the tests. What may be a key begins with `canary`.

#[path = "oauth_testing.rs"]
pub(super) mod realm;

use super::*;
use crate::child::testing::until;
use crate::mcp::McpServerArguments;
use crate::mcp::testing::{Fixture, arguments};
use crate::mcp::web_testing::spec;
use crate::tools::local::fixture::call;
use bob_messages::chat::CallStatus;
use bob_messages::options::{Hidden, SignInGrant};
use bob_messages::tools::ToolReturn;
use futures_util::future::join_all;
use realm::{Browser, Realm, SECRET};
use serde_json::json;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

/// A client that signs in by itself.
pub(super) fn machine() -> SignIn {
    SignIn {
        grant: SignInGrant::ClientCredentials,
        client_id: Some("machine".to_owned()),
        client_secret: Hidden::new(SECRET),
        scopes: vec!["run".to_owned()],
        ..SignIn::default()
    }
}

/// A server at this realm, with a person or without.
pub(super) fn signed(realm: &Realm, folder: &Path, has_person: bool) -> McpServerArguments {
    let port = has_person.then(|| Arc::new(Browser) as Arc<dyn SignInPort>);
    let sign_ins = SignIns { folder: Some(folder.to_owned()), port };
    McpServerArguments { sign_ins, ..arguments(spec(realm.url()).with_sign_in(SignIn::default())) }
}

pub(super) fn says(returned: &ToolReturn, status: CallStatus, words: &str) {
    let text = returned.output.plain();
    assert_eq!(returned.status, status, "{text}");
    assert!(text.contains(words) && !text.contains("canary"), "{text}");
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> =
        std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("one").path()).collect();
    files.retain(|file| file.extension().is_some_and(|ending| ending == "json"));
    files
}

#[tokio::test]
async fn a_person_signs_in_once_and_later_processes_need_nobody() {
    let (realm, home) = (Realm::start().await, tempfile::tempdir().expect("a folder"));
    let folder = home.path().join("state/sign-ins");
    let fixture = Fixture::start(signed(&realm, &folder, true)).await;
    says(&fixture.perform("echo").await, CallStatus::Ok, "heard");
    assert_eq!((realm.counts(), realm.grants("authorization_code")), ((1, 1, 1), 1));
    let [file] = files(&folder).try_into().expect("one file");
    let mode = |path: &Path| std::fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
    assert_eq!((mode(&file), mode(&folder)), (0o600, 0o700));
    assert!(!format!("{:?}", fixture.server.arguments).contains("canary"));
    drop(fixture);
    let again = Fixture::start(signed(&realm, &folder, false)).await;
    says(&again.perform("echo").await, CallStatus::Ok, "heard");
    assert_eq!((realm.pages(), realm.grants("refresh_token")), (1, 0));
}

#[tokio::test]
async fn without_a_person_the_error_says_how_to_sign_in() {
    let (realm, home) = (Realm::start().await, tempfile::tempdir().expect("a folder"));
    let mut fixture = Fixture::start(signed(&realm, home.path(), false)).await;
    let verdict = fixture.check(&call("mcp/sh/echo", json!({}))).await;
    let end = fixture.end().await;
    let advice = "the tool server `sh` requires signing in (HTTP 401): run `cli-agent mcp login sh`";
    assert!(end.contains(advice), "{end}");
    assert!(!format!("{end} {verdict:?}").contains("canary"));
    // Somebody does, in another process.
    let (server, sign_ins) = (signed(&realm, home.path(), true), signed(&realm, home.path(), true).sign_ins);
    log_in(&server.spec, &sign_ins).await.expect("signed in");
    fixture.server.start_again().await;
    says(&fixture.perform("echo").await, CallStatus::Ok, "heard");
}

#[tokio::test]
async fn a_token_is_renewed_once_however_many_calls_wait_for_it() {
    let (realm, home) = (Realm::start().await, tempfile::tempdir().expect("a folder"));
    let fixture = Fixture::start(signed(&realm, home.path(), true)).await;
    says(&fixture.perform("echo").await, CallStatus::Ok, "heard");
    // It is refused before its time.
    realm.revoke();
    let returned = join_all((0..20).map(|_| fixture.performing("echo"))).await;
    returned.iter().for_each(|returned| says(returned, CallStatus::Ok, "heard"));
    assert_eq!((realm.grants("refresh_token"), realm.pages()), (1, 1));
    assert_eq!(realm.counts().2, 21, "a refused call was not run");
    // It is old, and known to be.
    realm.world().expires_in = Some(1);
    realm.revoke();
    says(&fixture.perform("echo").await, CallStatus::Ok, "heard");
    realm.world().expires_in = Some(3_600);
    let returned = join_all((0..20).map(|_| fixture.performing("echo"))).await;
    returned.iter().for_each(|returned| says(returned, CallStatus::Ok, "heard"));
    assert_eq!(realm.grants("refresh_token"), 3, "one for the revoked token and one for the old one");
}

#[tokio::test]
async fn two_processes_renew_one_token_once() {
    let (realm, home) = (Realm::start().await, tempfile::tempdir().expect("a folder"));
    let one = Fixture::start(signed(&realm, home.path(), true)).await;
    says(&one.perform("echo").await, CallStatus::Ok, "heard");
    let other = Fixture::start(signed(&realm, home.path(), false)).await;
    says(&other.perform("echo").await, CallStatus::Ok, "heard");
    realm.revoke();
    let (first, second) = tokio::join!(one.performing("echo"), other.performing("echo"));
    says(&first, CallStatus::Ok, "heard");
    says(&second, CallStatus::Ok, "heard");
    assert_eq!(realm.grants("refresh_token"), 1);
}

#[tokio::test]
async fn a_token_that_cannot_be_renewed_is_got_by_signing_in_again() {
    let (realm, home) = (Realm::start().await, tempfile::tempdir().expect("a folder"));
    let person = Fixture::start(signed(&realm, home.path(), true)).await;
    says(&person.perform("echo").await, CallStatus::Ok, "heard");
    let nobody = Fixture::start(signed(&realm, home.path(), false)).await;
    says(&nobody.perform("echo").await, CallStatus::Ok, "heard");
    realm.revoke();
    realm.world().renews = false;
    says(&nobody.perform("echo").await, CallStatus::Error, "run `cli-agent mcp login sh`");
    says(&person.perform("echo").await, CallStatus::Ok, "heard");
    assert_eq!(realm.pages(), 2);
    says(&nobody.perform("echo").await, CallStatus::Ok, "heard");
}

#[tokio::test]
async fn permissions_that_a_call_lacks_are_asked_for() {
    let (realm, home) = (Realm::start().await, tempfile::tempdir().expect("a folder"));
    let person = Fixture::start(signed(&realm, home.path(), true)).await;
    says(&person.perform("echo").await, CallStatus::Ok, "heard");
    assert_eq!(realm.granted(), "read");
    realm.world().needs = Some("write".to_owned());
    says(&person.perform("echo").await, CallStatus::Ok, "heard");
    assert_eq!((realm.granted().as_str(), realm.pages()), ("read write", 2));
    // Nobody can ask now: what was missed is asked for by the next who signs in.
    realm.world().needs = Some("admin".to_owned());
    let nobody = Fixture::start(signed(&realm, home.path(), false)).await;
    says(
        &nobody.perform("echo").await,
        CallStatus::Error,
        "needs more permissions (HTTP 403): run `cli-agent mcp login sh`",
    );
    let server = signed(&realm, home.path(), true);
    log_in(&server.spec, &server.sign_ins).await.expect("signed in");
    assert_eq!(realm.granted(), "admin read write");
}

#[tokio::test]
async fn permissions_that_are_never_enough_are_not_asked_for_again_and_again() {
    let (realm, home) = (Realm::start().await, tempfile::tempdir().expect("a folder"));
    let fixture = Fixture::start(signed(&realm, home.path(), true)).await;
    says(&fixture.perform("echo").await, CallStatus::Ok, "heard");
    realm.world().needs = Some("never granted".to_owned());
    says(&fixture.perform("echo").await, CallStatus::Error, "although its permissions were granted");
    assert_eq!(realm.pages(), 2);
}

#[tokio::test]
async fn a_client_signs_in_by_itself() {
    let (realm, home) = (Realm::start().await, tempfile::tempdir().expect("a folder"));
    let sign_in = machine();
    let sign_ins = SignIns { folder: Some(home.path().to_owned()), port: None };
    let server = |sign_in: &SignIn| McpServerArguments {
        sign_ins: sign_ins.clone(),
        ..arguments(spec(realm.url()).with_sign_in(sign_in.clone()))
    };
    let fixture = Fixture::start(server(&sign_in)).await;
    says(&fixture.perform("echo").await, CallStatus::Ok, "heard");
    assert_eq!((realm.pages(), realm.grants("client_credentials")), (0, 1));
    assert_eq!(realm.granted(), "run");
    assert!(!format!("{:?}", fixture.server.arguments).contains(SECRET));
    let wrong = SignIn { client_secret: Hidden::new("canary-wrong-secret"), ..sign_in };
    let other = tempfile::tempdir().expect("a folder");
    let sign_ins = SignIns { folder: Some(other.path().to_owned()), port: None };
    let mut fixture = Fixture::start(McpServerArguments { sign_ins, ..server(&wrong) }).await;
    let end = fixture.end().await;
    assert!(end.contains("gives its client no token") && !end.contains("canary"), "{end}");
}

#[tokio::test]
async fn a_person_who_says_no_is_not_signed_in() {
    let (realm, home) = (Realm::start().await, tempfile::tempdir().expect("a folder"));
    realm.world().allows = false;
    let server = signed(&realm, home.path(), true);
    let error = log_in(&server.spec, &server.sign_ins).await.expect_err("refused");
    assert_eq!(error, "cannot be signed in to: the authorization server refuses: access_denied");
    assert_eq!((files(home.path()).len(), realm.grants("authorization_code")), (0, 0));
}

#[tokio::test]
async fn tokens_are_for_one_address_and_are_removed() {
    let (realm, other) = (Realm::start().await, Realm::start().await);
    let home = tempfile::tempdir().expect("a folder");
    let server = signed(&realm, home.path(), true);
    log_in(&server.spec, &server.sign_ins).await.expect("signed in");
    // A server of the same name elsewhere gets none of them.
    let mut fixture = Fixture::start(signed(&other, home.path(), false)).await;
    let end = fixture.end().await;
    assert!(end.contains("requires signing in"), "{end}");
    // A file of another address under its name does not count.
    let [file] = files(home.path()).try_into().expect("one file");
    let elsewhere = signed(&other, home.path(), false);
    let named = Store::new(Some(home.path()), &elsewhere.spec.id, &other.url());
    named.change(|_| {}).expect("written");
    let [there] =
        files(home.path()).into_iter().filter(|path| *path != file).collect::<Vec<_>>().try_into().expect("one");
    std::fs::copy(&file, &there).expect("copied");
    assert!(named.read().expect("readable").is_none());
    assert_eq!(log_out(&server.spec, home.path()), Ok(true));
    assert_eq!(log_out(&server.spec, home.path()), Ok(false));
    assert!(!file.exists());
}

#[tokio::test]
async fn a_server_that_wants_a_person_and_has_no_auth_says_so() {
    let realm = Realm::start().await;
    let mut fixture = Fixture::start(arguments(spec(realm.url()))).await;
    let end = fixture.end().await;
    assert!(end.contains("or `auth = \"oauth\"`"), "{end}");
    until("it is over", || fixture.server.arguments.is_vacant()).await;
}
