//! Secrets reach their receiver alone, when a person or a client signs in to a tool server.

use super::tests::realm::{self, Browser, Echoes, Realm};
use super::tests::{machine, says, signed};
use super::*;
use crate::mcp::McpServerArguments;
use crate::mcp::testing::{Fixture, arguments};
use crate::mcp::web_testing::spec;
use bob_messages::chat::CallStatus;
use futures_util::future::BoxFuture;
use serde_json::json;

#[tokio::test]
async fn a_token_that_a_server_repeats_in_an_error_is_hidden() {
    let (realm, home) = (Realm::start().await, tempfile::tempdir().expect("a folder"));
    let server = signed(&realm, home.path(), true);
    log_in(&server.spec, &server.sign_ins).await.expect("signed in");
    // No request of this process is refused.
    let fixture = Fixture::start(signed(&realm, home.path(), false)).await;
    for echoes in [Echoes::Json, Echoes::Stream] {
        realm.world().echoes = echoes;
        says(&fixture.perform("echo").await, CallStatus::Error, "no luck with");
    }
}

#[tokio::test]
async fn a_person_who_says_no_is_asked_once() {
    let (realm, home) = (Realm::start().await, tempfile::tempdir().expect("a folder"));
    realm.world().allows = false;
    let mut fixture = Fixture::start(signed(&realm, home.path(), true)).await;
    let end = fixture.end().await;
    assert!(end.contains("the authorization server refuses: access_denied"), "{end}");
    assert_eq!(realm.pages(), 1);
}

/// Shows no page, since it panics.
struct NoBrowser {
    at_once: bool,
}

impl SignInPort for NoBrowser {
    fn open<'a>(&'a self, _server: &'a ServerId, _page: &'a str) -> BoxFuture<'a, ()> {
        assert!(!self.at_once, "a fault of the port");
        Box::pin(async { panic!("a fault of the port") })
    }
}

#[tokio::test]
async fn a_port_that_panics_when_it_shows_the_page_is_named() {
    let (realm, home) = (Realm::start().await, tempfile::tempdir().expect("a folder"));
    for at_once in [true, false] {
        let mut server = signed(&realm, home.path(), true);
        server.sign_ins.port = Some(Arc::new(NoBrowser { at_once }));
        let error = log_in(&server.spec, &server.sign_ins).await.expect_err("the page was not opened");
        assert!(error.contains("the port that shows the page panicked"), "{error}");
    }
}

#[tokio::test]
async fn keys_go_over_encrypted_ways_only() {
    let home = tempfile::tempdir().expect("a folder");
    for (name, address) in [
        ("authorization_endpoint", "file:///etc/passwd"),
        ("authorization_endpoint", "http://as.example/authorize"),
        ("token_endpoint", "http://as.example/token"),
        ("registration_endpoint", "http://as.example/register"),
        ("token_endpoint", "no address"),
    ] {
        let realm = Realm::start().await;
        realm.world().metadata = json!({name: address});
        let server = signed(&realm, home.path(), true);
        let error = log_in(&server.spec, &server.sign_ins).await.expect_err("refused");
        assert!(error.contains(&format!("`{name}`")) && error.contains("https://"), "{error}");
        assert_eq!((realm.counts(), realm.grants("authorization_code")), ((0, 0, 0), 0), "{name} {address}");
    }
    let plain = spec("http://tools.example/mcp").with_sign_in(SignIn::default());
    let sign_ins = SignIns { folder: Some(home.path().to_owned()), port: Some(Arc::new(Browser)) };
    let error = log_in(&plain, &sign_ins).await.expect_err("refused");
    assert!(error.contains("`url`") && error.contains("https://"), "{error}");
    let mut fixture = Fixture::start(McpServerArguments { sign_ins, ..arguments(plain) }).await;
    let end = fixture.end().await;
    assert!(end.contains("`url`") && end.contains("https://"), "{end}");
    let realm = Realm::start().await;
    let document = Some("http://as.example/client.json".to_owned());
    let plain = spec(realm.url()).with_sign_in(SignIn { client_metadata_url: document, ..SignIn::default() });
    realm.world().metadata = json!({"client_id_metadata_document_supported": true});
    let error = log_in(&plain, &signed(&realm, home.path(), true).sign_ins).await.expect_err("refused");
    assert!(error.contains("`client_metadata_url`"), "{error}");
    assert_eq!(realm.pages(), 0);
}

#[tokio::test]
async fn the_query_of_an_address_is_for_its_server_alone() {
    let (realm, home) = (Realm::start().await, tempfile::tempdir().expect("a folder"));
    let url = format!("{}?key=canary-in-the-query", realm.url());
    let by_person = spec(&url).with_sign_in(SignIn::default());
    let sign_ins = signed(&realm, home.path(), true).sign_ins;
    log_in(&by_person, &sign_ins).await.expect("signed in");
    let fixture =
        Fixture::start(McpServerArguments { sign_ins: sign_ins.clone(), ..arguments(by_person.clone()) }).await;
    says(&fixture.perform("echo").await, CallStatus::Ok, "heard");
    let by_itself = spec(&url).with_sign_in(machine());
    log_in(&by_itself, &SignIns::default()).await.expect("signed in");
    let told = |world: &realm::World| {
        let elsewhere = world.asked.iter().filter(|asked| !asked.starts_with("/mcp"));
        elsewhere.chain(&world.resources).any(|text| text.contains("canary-in"))
    };
    assert!(!told(&realm.world()));
    let expected = realm.url();
    assert_eq!(realm.world().resources, [expected.clone(), expected]);
    let kept: Vec<_> =
        std::fs::read_dir(home.path()).expect("a folder").map(|entry| entry.expect("one").path()).collect();
    for file in kept {
        let text = std::fs::read_to_string(&file).expect("readable");
        assert!(!text.contains("canary-in"), "{}", file.display());
    }
    // Nothing is at this port.
    let gone = spec("http://127.0.0.1:9/mcp?key=canary-in-the-query").with_sign_in(SignIn::default());
    let error = log_in(&gone, &sign_ins).await.expect_err("refused");
    assert!(!error.contains("canary-in"), "{error}");
}

#[tokio::test]
async fn the_secret_of_a_client_stays_with_its_authorization_server() {
    let (realm, other) = (Realm::start().await, Realm::start().await);
    let home = tempfile::tempdir().expect("a folder");
    let server = spec(realm.url()).with_sign_in(machine());
    let sign_ins = SignIns { folder: Some(home.path().to_owned()), port: None };
    let fixture = Fixture::start(McpServerArguments { sign_ins: sign_ins.clone(), ..arguments(server.clone()) }).await;
    says(&fixture.perform("echo").await, CallStatus::Ok, "heard");
    realm.world().elsewhere = Some(other.base());
    realm.revoke();
    let returned = fixture.perform("echo").await;
    says(&returned, CallStatus::Error, "names another authorization server");
    says(&returned, CallStatus::Error, "`cli-agent mcp login sh`");
    assert_eq!(other.grants("client_credentials"), 0);
    log_in(&server, &sign_ins).await.expect("signed in");
    assert_eq!(other.grants("client_credentials"), 1);
}

#[tokio::test]
async fn a_token_is_not_renewed_at_another_authorization_server() {
    let (realm, other) = (Realm::start().await, Realm::start().await);
    let home = tempfile::tempdir().expect("a folder");
    let server = signed(&realm, home.path(), true);
    log_in(&server.spec, &server.sign_ins).await.expect("signed in");
    let tokens = Tokens::of(&server.spec, &signed(&realm, home.path(), false).sign_ins).expect("it signs in");
    let old = tokens.current().await.expect("tokens");
    realm.world().elsewhere = Some(other.base());
    realm.revoke();
    let refused = Challenge { status: 401, header: String::new() };
    let error = tokens.after(old.as_deref(), &refused).await.expect_err("refused");
    assert!(error.contains("`cli-agent mcp login sh`"), "{error}");
    assert_eq!((realm.grants("refresh_token"), other.grants("refresh_token")), (0, 0));
}

#[tokio::test]
async fn an_authorization_server_that_says_too_little_is_not_used() {
    let home = tempfile::tempdir().expect("a folder");
    let realm = Realm::start().await;
    let server = signed(&realm, home.path(), true);
    realm.world().metadata = json!({"code_challenge_methods_supported": null});
    let error = log_in(&server.spec, &server.sign_ins).await.expect_err("refused");
    assert!(error.contains("PKCE"), "{error}");
    realm.world().publishes = false;
    let error = log_in(&server.spec, &server.sign_ins).await.expect_err("refused");
    assert!(error.contains("names no authorization server"), "{error}");
    assert_eq!((realm.counts(), realm.grants("authorization_code")), ((0, 0, 0), 0));
}

#[tokio::test]
async fn the_error_says_what_went_wrong_at_last() {
    let (realm, home) = (Realm::start().await, tempfile::tempdir().expect("a folder"));
    // Nothing is at this port.
    realm.world().elsewhere = Some("http://127.0.0.1:9".to_owned());
    let server = signed(&realm, home.path(), true);
    let error = log_in(&server.spec, &server.sign_ins).await.expect_err("refused");
    assert!(error.to_lowercase().contains("connection refused"), "{error}");
}
