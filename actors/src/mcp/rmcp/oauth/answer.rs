//! The answer of the page at which a person signs in: a redirect to a listener on this machine.

use crate::mcp::rmcp::trouble::clip;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use rmcp::transport::auth::AuthorizationCallback;
use std::net::Ipv4Addr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};

/// How long a person may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(300);

/// How long one request may take to arrive, and how large it may be, in bytes.
const REQUEST_WITHIN: Duration = Duration::from_secs(10);
const MAX_REQUEST_BYTES: usize = 16 * 1024;

/// How many connections are answered at once.
const MAX_CONNECTIONS: usize = 16;

/// Before the next attempt to accept a connection, after one that failed.
const PAUSE: Duration = Duration::from_millis(50);

type Answer = Result<AuthorizationCallback, String>;

const PATH: &str = "/callback";

pub(super) struct Listener {
    listener: TcpListener,
    pub(super) redirect: String,
}

impl Listener {
    pub(super) async fn open() -> Result<Self, String> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
        let listener = listener.map_err(|error| format!("cannot listen for the answer of the browser: {error}"))?;
        let port = listener.local_addr().map_err(|error| format!("has no port for the answer: {error}"))?.port();
        Ok(Self { listener, redirect: format!("http://127.0.0.1:{port}{PATH}") })
    }

    /// Waits for the answer to the page with this state. Every program of this machine can send something here; what
    /// does not know the state is no answer.
    pub(super) async fn answer(&self, state: &str) -> Answer {
        let answered = async {
            // A browser opens connections that it does not use; they hold up no other.
            let mut asking = FuturesUnordered::new();
            loop {
                tokio::select! {
                    accepted = self.listener.accept(), if asking.len() < MAX_CONNECTIONS => {
                        match accepted {
                            Ok((stream, _)) => asking.push(asked(stream, state)),
                            // Without a free file handle, every attempt fails at once.
                            Err(_) => sleep(PAUSE).await,
                        }
                    }
                    Some(answered) = asking.next() => {
                        if let Some(answer) = answered {
                            return answer;
                        }
                    }
                    else => {}
                }
            }
        };
        let late = || Err(format!("no answer of the page came within {} minutes", ANSWER_WITHIN.as_secs() / 60));
        timeout(ANSWER_WITHIN, answered).await.unwrap_or_else(|_| late())
    }
}

/// Answers one connection; returns what it said, if that is the answer.
async fn asked(mut stream: TcpStream, state: &str) -> Option<Answer> {
    let url = timeout(REQUEST_WITHIN, requested(&mut stream)).await.ok()??;
    let answer = understood(&url, state);
    let (status, words) = match &answer {
        Some(Ok(_)) => ("200 OK", "Signed in. You can close this page."),
        Some(Err(_)) => ("200 OK", "Not signed in. You can close this page."),
        None => ("404 Not Found", "This is not the answer that is waited for."),
    };
    respond(&mut stream, status, words).await;
    answer
}

async fn requested(stream: &mut TcpStream) -> Option<String> {
    let mut request = Vec::new();
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        if request.len() > MAX_REQUEST_BYTES || stream.read_buf(&mut request).await.ok()? == 0 {
            return None;
        }
    }
    let line = String::from_utf8_lossy(&request).lines().next()?.to_owned();
    let path = line.strip_prefix("GET ")?.split(' ').next()?;
    Some(format!("http://127.0.0.1{path}"))
}

/// What a redirect says; `None` if it is none to the page with this state.
fn understood(url: &str, state: &str) -> Option<Answer> {
    let parsed = reqwest::Url::parse(url).ok().filter(|url| url.path() == PATH)?;
    let said = |name: &str| parsed.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned());
    if said("state").as_deref() != Some(state) {
        return None;
    }
    if let Some(error) = said("error") {
        let more = said("error_description").map(|more| format!(": {more}")).unwrap_or_default();
        return Some(Err(clip(&format!("the authorization server refuses: {error}{more}"))));
    }
    Some(AuthorizationCallback::from_redirect_url(url).map_err(|error| clip(&error.to_string())))
}

async fn respond(stream: &mut TcpStream, status: &str, words: &str) {
    let head = "Content-Type: text/plain; charset=utf-8\r\nCache-Control: no-store\r\nConnection: close";
    let text = format!("HTTP/1.1 {status}\r\n{head}\r\nContent-Length: {}\r\n\r\n{words}", words.len());
    let _read_or_not = timeout(REQUEST_WITHIN, async {
        stream.write_all(text.as_bytes()).await?;
        stream.shutdown().await
    })
    .await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_redirect_of_this_page_is_an_answer() {
        let of = |path: &str| understood(&format!("http://127.0.0.1{path}"), "s1");
        for other in ["/", "/callback", "/callback?code=c&state=s2", "/other?code=c&state=s1", "/callback?code=c"] {
            assert!(of(other).is_none(), "{other}");
        }
        let answer = of("/callback?code=c1&state=s1&iss=https%3A%2F%2Fa.example").expect("an answer").expect("a code");
        assert_eq!((answer.code.as_str(), answer.issuer.as_deref()), ("c1", Some("https://a.example")));
        let refused = of("/callback?error=access_denied&error_description=no%0Away&state=s1").expect("an answer");
        assert_eq!(refused.expect_err("no code"), "the authorization server refuses: access_denied: no way");
        assert!(of("/callback?state=s1").expect("an answer").is_err(), "no code");
    }

    #[tokio::test]
    async fn a_listener_waits_for_its_answer_whatever_else_comes() {
        let listener = Listener::open().await.expect("a port");
        let address = listener.redirect.trim_start_matches("http://").trim_end_matches(PATH).to_owned();
        let ask = async |request: &str| {
            let mut stream = TcpStream::connect(&address).await.expect("it listens");
            stream.write_all(request.as_bytes()).await.expect("it reads");
            let mut said = String::new();
            let _closed = stream.read_to_string(&mut said).await;
            said
        };
        let asked = async {
            assert!(ask("GET /favicon.ico HTTP/1.1\r\n\r\n").await.contains("404"));
            assert!(ask("POST /callback?code=c&state=s1 HTTP/1.1\r\n\r\n").await.is_empty());
            ask("GET /callback?code=c&state=s1 HTTP/1.1\r\nHost: x\r\n\r\n").await
        };
        let (answer, said) = tokio::join!(listener.answer("s1"), asked);
        assert_eq!(answer.expect("an answer").code, "c");
        assert!(said.contains("200 OK") && said.contains("Signed in."), "{said}");
    }
}
