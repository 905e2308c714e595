//! A server over HTTP is reached, lost, found again, and believed nothing it could do
//! harm with. The names begin with the fault's id in the catalogue of faults.

use super::testing::{Fixture, arguments};
use super::web_testing::{Cut, UnknownSession, Web, spec};
use crate::child::testing::{DEADLINE, soon, until};
use crate::stopwatch::Stopwatch;
use crate::tools::local::fixture::call;
use axum::http::{StatusCode, header};
use bob_messages::chat::CallStatus;
use bob_messages::mcp::ServerState;
use bob_messages::options::ServerSpec;
use bob_messages::tools::{ToolReturn, Verdict};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

fn says(returned: &ToolReturn, status: CallStatus, words: &[&str]) {
    let text = returned.output.plain();
    assert_eq!(returned.status, status, "{text}");
    for word in words {
        assert!(text.contains(word), "{word:?} is not in {text}");
    }
}

/// How the actor of a server ended that never was ready.
async fn misfit(spec: ServerSpec) -> String {
    let mut arguments = arguments(spec);
    arguments.spec.startup_timeout_ms = 2_000;
    Fixture::start(arguments).await.end().await
}

/// Counts connections.
async fn trap() -> (std::net::SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let (address, caught) = (listener.local_addr().expect("an address"), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&caught);
    tokio::spawn(async move {
        while let Ok((_stream, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::SeqCst);
        }
    });
    (address, caught)
}

#[tokio::test]
async fn a_call_reaches_a_server_over_http_with_the_configured_headers() {
    let web = Web::start();
    let fixture = Fixture::start(arguments(spec(web.url()).with("X-Key", "open sesame"))).await;
    let status = fixture.ready().await;
    assert_eq!((status.tools, status.server.as_deref(), status.pid), (4, Some("web 1"), None));
    says(&fixture.perform("write").await, CallStatus::Ok, &["heard"]);
    assert_eq!(web.world().key.as_deref(), Some("open sesame"));
    assert!(!format!("{:?}", fixture.server.arguments).contains("sesame"));
}

#[tokio::test]
async fn a_server_without_sessions_is_reached_and_tells_its_changes() {
    let web = Web::start();
    web.world().manners.is_newest = true;
    let fixture = Fixture::start(web.arguments()).await;
    let status = fixture.ready().await;
    assert_eq!((status.tools, status.protocol.as_deref(), status.restarts), (4, Some("2026-07-28"), 0));
    says(&fixture.perform("write").await, CallStatus::Ok, &["heard"]);
    until("a change is told and the list read again", || web.world().lists == 2).await;
    assert_eq!(web.counts(), (1, 1));
    // It has nothing to forget, and no one to take leave of.
    says(&fixture.perform("read").await, CallStatus::Ok, &["heard"]);
    fixture.server.actor.stop(None);
    until("the next one can start", || fixture.server.arguments.is_vacant()).await;
    assert_eq!((web.counts(), web.world().farewells), ((1, 2), 0));
}

#[tokio::test]
async fn a_refusal_with_the_number_of_a_lost_session_is_a_refusal() {
    let web = Web::start();
    let fixture = Fixture::start(web.arguments()).await;
    says(&fixture.perform("refuse").await, CallStatus::Error, &["refuses the call: not today (-32000)"]);
    says(&fixture.perform("read").await, CallStatus::Ok, &["heard"]);
    assert_eq!(web.world().inits, 1);
}

#[tokio::test]
async fn an_actor_that_ends_takes_leave_of_the_server() {
    let web = Web::start();
    let fixture = Fixture::start(web.arguments()).await;
    fixture.ready().await;
    let hanging = fixture.begin("hang").await;
    until("it hangs", || web.world().calls == ["hang"]).await;
    fixture.server.actor.stop(None);
    assert_eq!(soon(hanging).await, None);
    until("the next one can start", || Arc::clone(&fixture.server.arguments.place.taken).try_lock_owned().is_ok())
        .await;
    assert_eq!(web.world().farewells, 1);
}

#[tokio::test]
async fn h1_a_server_that_is_not_there_keeps_nobody_waiting() {
    let closed = TcpListener::bind("127.0.0.1:0").await.expect("a port").local_addr().expect("an address");
    // Connections are made by the system and never read.
    let hole = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let deaf = hole.local_addr().expect("an address");
    for (address, why) in [
        (closed, format!("cannot be reached at http://{closed}: Connection refused")),
        (deaf, "was not ready within 700 ms".to_owned()),
    ] {
        let asked = Stopwatch::start();
        let mut arguments = arguments(spec(format!("http://{address}/mcp")));
        arguments.spec.startup_timeout_ms = 700;
        let mut fixture = Fixture::start(arguments).await;
        assert_eq!(fixture.status().state, ServerState::Starting);
        asked.assert_within(Duration::from_millis(500), "the start");
        let verdict = fixture.check(&call("mcp/sh/read", json!({}))).await;
        assert!(matches!(&verdict, Verdict::Unavailable { why } if why.starts_with("not run: ")), "{verdict:?}");
        let end = fixture.end().await;
        assert!(end.contains(&why), "{why}: {end}");
    }
}

#[tokio::test]
async fn h2_a_lost_session_is_begun_again_once_and_no_effect_happens_twice() {
    for unknown in [UnknownSession::NotFound, UnknownSession::BadRequest, UnknownSession::BadRequestForNobody] {
        let web = Web::start();
        web.world().manners.unknown_session = unknown;
        let fixture = Fixture::start(web.arguments()).await;
        fixture.ready().await;
        web.forget_the_session();
        says(&fixture.perform("read").await, CallStatus::Ok, &["heard"]);
        assert_eq!(web.counts(), (2, 1), "{unknown:?}");
        web.forget_the_session();
        says(&fixture.perform("write").await, CallStatus::Unknown, &["outcome unknown", "no longer knows the session"]);
        says(&fixture.perform("write").await, CallStatus::Ok, &["heard"]);
        let world = web.world();
        assert_eq!((world.inits, &*world.calls), (3, &["read".to_owned(), "write".to_owned()][..]), "{unknown:?}");
    }
}

#[tokio::test]
async fn h2_many_calls_share_one_new_session() {
    let web = Web::start();
    let fixture = Fixture::start(web.arguments()).await;
    fixture.ready().await;
    let call = call("mcp/sh/read", json!({}));
    let grant = fixture.granted(&call).await;
    web.forget_the_session();
    let begun: Vec<_> = (0..50).map(|_| fixture.run(Arc::clone(&call), grant.clone())).collect();
    for answer in begun {
        says(&soon(answer).await.expect("an answer"), CallStatus::Ok, &["heard"]);
    }
    assert_eq!(web.counts(), (2, 50));
}

#[tokio::test]
async fn h2_a_server_that_keeps_no_session_is_given_up() {
    let web = Web::start();
    let mut fixture = Fixture::start(web.arguments()).await;
    fixture.ready().await;
    for _ in 0..4 {
        web.forget_the_session();
        fixture.perform("read").await;
    }
    assert!(fixture.end().await.contains("loses every session soon after it began"));
}

#[tokio::test]
async fn h3_a_result_whose_stream_is_cut_comes_once_or_is_unknown() {
    for (after, is_rude, resumes) in
        (0..=3).flat_map(|after| [(after, false, true), (after, true, true), (after, false, false)])
    {
        let web = Web::start();
        web.world().manners.cut = Some(Cut { after, is_rude, resumes });
        let fixture = Fixture::start(web.arguments()).await;
        let returned = fixture.perform("write").await;
        let expected = if after == 3 || (after > 0 && resumes) { CallStatus::Ok } else { CallStatus::Unknown };
        assert_eq!(returned.status, expected, "{after} {is_rude} {resumes}: {}", returned.output.plain());
        let world = web.world();
        assert_eq!(&*world.calls, ["write"], "{after} {is_rude} {resumes}");
        let last = world.resumed.first().map(|last| last.rsplit('.').next().map(str::to_owned));
        if (1..3).contains(&after) {
            assert_eq!(last, Some(Some((after - 1).to_string())));
        }
    }
}

#[tokio::test]
async fn h4_a_redirect_to_another_place_is_not_followed() {
    let (address, caught) = trap().await;
    for to in [
        format!("http://{address}/mcp"),
        format!("https://{address}/mcp"),
        "http://169.254.169.254/latest/meta-data/".to_owned(),
        "http://10.0.0.1/".to_owned(),
        "file:///etc/passwd".to_owned(),
    ] {
        for status in [StatusCode::TEMPORARY_REDIRECT, StatusCode::PERMANENT_REDIRECT, StatusCode::FOUND] {
            let web = Web::start();
            web.world().manners.instead = Some((status, vec![(header::LOCATION, to.clone())], String::new()));
            let end = misfit(spec(web.url()).with("Authorization", "Bearer canary-7")).await;
            assert!(end.contains("which is not followed") || to.starts_with("file"), "{to}: {end}");
            assert!(!end.contains("canary"), "{end}");
        }
    }
    assert_eq!(caught.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn h4_a_ready_server_cannot_send_a_call_elsewhere_either() {
    let (address, caught) = trap().await;
    let web = Web::start();
    let fixture = Fixture::start(arguments(spec(web.url()).with("X-Key", "canary-7"))).await;
    fixture.ready().await;
    let to = vec![(header::LOCATION, format!("http://{address}/mcp"))];
    web.world().manners.instead = Some((StatusCode::TEMPORARY_REDIRECT, to, String::new()));
    says(&fixture.perform("write").await, CallStatus::Error, &["redirects to another place", "not followed"]);
    let to = vec![(header::LOCATION, "/elsewhere".to_owned())];
    web.world().manners.instead = Some((StatusCode::FOUND, to.clone(), String::new()));
    says(&fixture.perform("write").await, CallStatus::Error, &["which would lose the request"]);
    // Within one origin it may send it on as it is.
    web.world().manners.instead = Some((StatusCode::TEMPORARY_REDIRECT, to, String::new()));
    web.world().key = None;
    says(&fixture.perform("write").await, CallStatus::Ok, &["heard"]);
    assert_eq!(web.counts().1, 1);
    assert_eq!(web.world().key.as_deref(), Some("canary-7"));
    assert_eq!(caught.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn h5_a_hostile_challenge_is_text_and_nothing_else() {
    let (address, caught) = trap().await;
    let folder = tempfile::tempdir().expect("a folder");
    let mark = folder.path().join("mark");
    let touch = format!("touch {}", mark.display());
    for (challenge, shown) in [
        (format!("Bearer resource_metadata=\"https://x.test/$({touch})`{touch}`;{touch}\""), true),
        (format!("Bearer resource_metadata=\"http://{address}/.well-known/oauth\""), false),
        (format!("Bearer resource_metadata=https://user:canary-8@{address}/x?canary-8, scope=a"), true),
        ("Bearer resource_metadata=\"file:///etc/passwd\"".to_owned(), false),
        (format!("Bearer resource_metadata=\"https://{address}/canary-8\""), true),
        ("Bearer resource_metadata=\"".to_owned(), false),
        ("junk".to_owned(), false),
    ] {
        for status in [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN] {
            let web = Web::start();
            let said = format!("your token canary-8 is \u{1b}[2J bad, see https://{address}/");
            web.world().manners.instead = Some((status, vec![(header::WWW_AUTHENTICATE, challenge.clone())], said));
            let end = misfit(spec(web.url()).with("Authorization", "Bearer canary-8")).await;
            let code = status.as_str();
            assert!(end.contains(code) && end.contains("\"Authorization\"") && end.contains("`headers`"), "{end}");
            assert_eq!(end.contains("see \"https://"), shown, "{challenge}: {end}");
            assert!(!end.contains("canary") && !end.contains('\u{1b}') && !end.contains("$("), "{end}");
        }
    }
    let web = Web::start();
    web.world().manners.instead = Some((StatusCode::UNAUTHORIZED, Vec::new(), "who?".to_owned()));
    assert!(misfit(spec(web.url())).await.contains("requires a key (HTTP 401): configure one in `headers`"));
    assert_eq!((caught.load(Ordering::SeqCst), mark.exists()), (0, false));
}

#[tokio::test]
async fn h5_headers_that_cannot_be_sent_are_named_without_their_value() {
    for (name, value, why) in [
        ("X Key", "canary-9", "this is no name of a header"),
        ("X-Key", "canary-9\n", "its value has characters that no header can have"),
        ("Mcp-Session-Id", "canary-9", "it belongs to the protocol"),
    ] {
        let end = misfit(spec("http://127.0.0.1:1/").with(name, value)).await;
        assert!(end.contains(why) && end.contains(&format!("{name:?}")) && !end.contains("canary"), "{end}");
    }
    for url in ["", "127.0.0.1:80", "ftp://x/", "file:///etc/passwd"] {
        assert!(misfit(spec(url)).await.contains("must begin with http:// or https://"), "{url}");
    }
}

#[tokio::test]
async fn g3_a_server_that_repeats_its_address_is_quoted_without_the_key_in_it() {
    for (query, said) in [
        ("api_key=sk-canary-1", "Cannot POST /mcp?api_key=sk-canary-1"),
        ("api_key=sk%2Dcanary%2D1", "no: sk-canary-1, that is sk%2Dcanary%2D1"),
        ("sk-canary-1", "who is sk-canary-1?"),
        ("a=b&token=sk-canary-1&c=d", "token sk-canary-1 is no api_key"),
    ] {
        for status in [StatusCode::NOT_FOUND, StatusCode::BAD_REQUEST, StatusCode::INTERNAL_SERVER_ERROR] {
            let web = Web::start();
            web.world().manners.instead = Some((status, Vec::new(), said.to_owned()));
            let http = spec(format!("{}?{query}", web.url()));
            let shown = format!("{http:?}");
            let end = misfit(http).await;
            assert!(end.contains(status.as_str()), "{end}");
            assert!(!format!("{end} {shown}").contains("canary"), "{status} {said}: {end} {shown}");
        }
    }
}

/// Forwards bytes until told to hold them back, on all connections or on old ones.
struct Proxy {
    address: std::net::SocketAddr,
    old_are_dead: Arc<AtomicBool>,
    all_are_dead: Arc<AtomicBool>,
}

impl Proxy {
    async fn before(target: std::net::SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let (old_are_dead, all_are_dead) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        let (old, all) = (Arc::clone(&old_are_dead), Arc::clone(&all_are_dead));
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let (old, all) = (Arc::clone(&old), Arc::clone(&all));
                let was_new = !old.load(Ordering::SeqCst);
                tokio::spawn(async move {
                    let Ok(far) = TcpStream::connect(target).await else { return };
                    let dead = move || all.load(Ordering::SeqCst) || (was_new && old.load(Ordering::SeqCst));
                    let (near, far) = (near.into_split(), far.into_split());
                    tokio::join!(pass(near.0, far.1, dead.clone()), pass(far.0, near.1, dead));
                });
            }
        });
        Self { address, old_are_dead, all_are_dead }
    }
}

async fn pass(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    dead: impl Fn() -> bool,
) {
    let mut bytes = [0; 4096];
    while let Ok(read @ 1..) = from.read(&mut bytes).await {
        if dead() {
            // The connection stays open and silent.
            std::future::pending::<()>().await;
        }
        if to.write_all(&bytes[..read]).await.is_err() {
            return;
        }
    }
}

#[tokio::test]
async fn h6_a_dead_line_costs_a_deadline_and_then_the_connection() {
    let web = Web::start();
    let proxy = Proxy::before(web.address).await;
    let mut arguments = arguments(spec(format!("http://{}/mcp", proxy.address)));
    arguments.spec.startup_timeout_ms = 4_000;
    arguments.spec.tool_timeout_ms = Some(1_000);
    let mut fixture = Fixture::start(arguments).await;
    fixture.ready().await;
    says(&fixture.perform("read").await, CallStatus::Ok, &["heard"]);
    // The line that was used is dead; a new one is not.
    proxy.old_are_dead.store(true, Ordering::SeqCst);
    says(&fixture.perform("read").await, CallStatus::Error, &["timed out after 1000 ms"]);
    says(&fixture.perform("read").await, CallStatus::Ok, &["heard"]);
    assert_eq!(web.world().inits, 1);
    // No line carries anything: the connection is given up, and made anew by the next actor.
    proxy.all_are_dead.store(true, Ordering::SeqCst);
    says(&fixture.perform("write").await, CallStatus::Error, &["timed out after 1000 ms", "part of its work"]);
    let end = fixture.end().await;
    assert!(end.contains("gave no sign of life within 4000 ms"), "{end}");
    proxy.all_are_dead.store(false, Ordering::SeqCst);
    fixture.server.start_again().await;
    fixture.ready().await;
    says(&fixture.perform("read").await, CallStatus::Ok, &["heard"]);
}

#[tokio::test]
async fn a_server_that_dies_during_a_call_is_noticed_and_comes_back() {
    let mut web = Web::start();
    let mut fixture = Fixture::start(web.arguments()).await;
    fixture.ready().await;
    let hanging = fixture.begin("hang").await;
    until("it hangs", || web.world().calls == ["hang"]).await;
    let killed = Stopwatch::start();
    web.kill();
    says(&soon(hanging).await.expect("an answer"), CallStatus::Unknown, &["outcome unknown"]);
    let end = fixture.end().await;
    assert!(end.contains("cannot be reached") || end.contains("broke the connection"), "{end}");
    killed.assert_within(DEADLINE / 10, "the death was noticed");
    fixture.server.start_again().await;
    assert!(fixture.end().await.contains("Connection refused"));
    web.start_again();
    fixture.server.start_again().await;
    says(&fixture.perform("read").await, CallStatus::Ok, &["heard"]);
}
