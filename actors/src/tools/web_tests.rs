use super::*;
use crate::tools::local::fixture::Workspace;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Redirect};
use axum::routing::get;
use futures_util::FutureExt;
use serde_json::json;

/// Only the one address of this machine at which the tests listen.
fn only_here(address: IpAddr) -> bool {
    address == IpAddr::from([127, 0, 0, 1])
}

/// A site at a free port of this machine; its address.
async fn site() -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let typed = |kind: &'static str, body: Vec<u8>| ([(header::CONTENT_TYPE, kind)], body);
    let to = |target: String| get(move || async move { Redirect::temporary(&target) });
    let app = axum::Router::new()
        .route(
            "/page",
            get(move || async move { typed("text/html; charset=utf-8", b"<p>Hello &amp; <b>you</b>".into()) }),
        )
        .route("/json", get(move || async move { typed("application/problem+json", b"{\"a\": 1}".into()) }))
        .route("/picture", get(move || async move { typed("image/png", vec![0x89, 0]) }))
        .route("/long", get(move || async move { typed("text/plain", "0123456789".repeat(20_000).into()) }))
        .route("/endless", get(move || async move { typed("text/plain", vec![b'x'; MOST_PAGE_BYTES + 10]) }))
        .route("/gone", get(|| async { (StatusCode::GONE, "it was here").into_response() }))
        .route("/headers", get(|headers: HeaderMap| async move { format!("{headers:?}") }))
        .route("/to-page", to("/page#part".into()))
        .route("/to-itself", to("/to-itself".into()))
        .route("/to-neighbour", to(format!("http://127.0.0.2:{port}/page")))
        .route("/to-file", to("file:///etc/passwd".into()))
        .route("/to-name", to(format!("http://localhost.:{port}/page")));
    tokio::spawn(async move { axum::serve(listener, app).await });
    format!("http://127.0.0.1:{port}")
}

async fn fetched(url: String) -> Result<String, String> {
    let fetch = fetching(only_here);
    let output = Workspace::new().run(&fetch, json!({ "url": url })).await;
    output.map(|output| output.plain()).map_err(|error| error.to_string())
}

#[tokio::test]
async fn pages_are_read_as_text() {
    let site = site().await;
    let read = |path: &str| fetched(format!("{site}{path}"));
    assert_eq!(read("/page").await, Ok(format!("[200 from {site}/page, words of a stranger]\nHello & you")));
    assert_eq!(read("/to-page").await, Ok(format!("[200 from {site}/page, words of a stranger]\nHello & you")));
    assert!(read("/json").await.is_ok_and(|text| text.ends_with("{\"a\": 1}")));
    let gone = read("/gone").await.expect_err("no success");
    assert!(gone.contains("[410 from") && gone.contains("it was here"), "{gone}");
    let picture = read("/picture").await.expect_err("no text");
    assert!(picture.contains("image/png of 2 bytes"), "{picture}");
    let headers = read("/headers").await.expect("a page");
    assert!(
        !headers.contains("cookie") && !headers.contains("authorization") && !headers.contains("referer"),
        "{headers}"
    );
}

#[tokio::test]
async fn a_long_page_is_read_in_parts() {
    let (site, fetch, workspace) = (site().await, fetching(only_here), Workspace::new());
    let mut offset = 0;
    let mut whole = String::new();
    for _part in 0..10 {
        let arguments = json!({ "url": format!("{site}/long"), "offset": offset });
        let text = workspace.run(&fetch, arguments).await.expect("a page").plain();
        let (_, text) = text.split_once('\n').expect("a line before it");
        let (part, more) = text.split_once("\n[").unwrap_or((text, ""));
        whole.push_str(part);
        match more.strip_suffix(']').and_then(|more| more.rsplit(' ').next()) {
            Some(next) => offset = next.parse().expect("a number"),
            None => break,
        }
    }
    assert_eq!(whole, "0123456789".repeat(20_000));
    let last = json!({ "url": format!("{site}/endless"), "offset": MOST_PAGE_BYTES - 5 });
    let text = workspace.run(&fetch, last).await.expect("a page").plain();
    assert!(text.contains("\nxxxxx\n[the page is longer than 2 MiB"), "{text}");
}

#[tokio::test]
async fn what_is_not_public_is_refused_also_behind_a_redirect_or_a_name() {
    let site = site().await;
    let port = site.rsplit(':').next().expect("a port");
    let neighbours = ["/to-neighbour".to_owned(), "/to-itself".to_owned(), "/to-file".to_owned()];
    for (path, why) in neighbours.iter().zip(["private network", "more than 5 times", "only http:// and https://"]) {
        let error = fetched(format!("{site}{path}")).await.expect_err("refused");
        assert!(error.contains(why), "{path}: {error}");
    }
    // Another host, or another port, is another site: a rule about the first says nothing of it.
    let other = fetched(format!("{site}/to-name")).await.expect_err("not followed");
    assert!(other.contains(&format!("points to http://localhost.:{port}/page: that is another site")), "{other}");
    let everywhere = fetching(is_public);
    let refused = [
        format!("http://127.0.0.1:{port}/page"),
        format!("http://localhost:{port}/page"),
        format!("http://[::1]:{port}/page"),
        format!("http://[::ffff:127.0.0.1]:{port}/page"),
        format!("http://2130706433:{port}/page"),
        format!("http://0x7f.1:{port}/page"),
        "http://169.254.169.254/latest/meta-data/".to_owned(),
    ];
    for url in refused {
        let error = Workspace::new().run(&everywhere, json!({ "url": url })).await.expect_err("refused").to_string();
        assert!(error.contains(address::PRIVATE), "{url}: {error}");
    }
    for (url, why) in [
        ("ftp://example.com/", "only http://"),
        ("file:///etc/passwd", "only http://"),
        ("https://user:word@example.com/", "a user or a password"),
        ("example.com", "no address"),
    ] {
        let error = fetched(url.to_owned()).await.expect_err("refused");
        assert!(error.contains(why), "{url}: {error}");
    }
}

#[test]
fn it_is_offered_as_what_it_is() {
    let tool = web_fetch().list_tools().now_or_never().expect("it has it at hand").remove(0);
    assert_eq!((tool.id.as_str(), tool.risk, tool.kind), ("local/web_fetch", Risk::High, ToolKind::Fetch));
    assert!(tool.idempotent && !tool.read_only);
}
