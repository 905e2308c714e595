//! Whether a model server answers: one small HTTP request to this machine.

use std::io;
use std::net::IpAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// How long one question may take. A server that loads a model may be slow to accept, and asking again is cheap.
const PATIENCE: Duration = Duration::from_secs(2);

/// How long a program on the port has to say what it is.
const PROMPTLY: Duration = Duration::from_millis(900);

/// More than any status line needs, in bytes.
const STATUS_LINE_BYTES: usize = 256;

/// A list of models is recognised within this many bytes.
const LIST_BYTES: usize = 64 * 1024;

/// Where a model server of this machine listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    host: String,
    port: u16,
    /// The path of the base URL without its last slash.
    base: String,
}

/// A base URL that names no model server of this machine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "base_url {0:?} of a provider with `start` must be http on this machine, for example http://127.0.0.1:8091/v1/"
)]
pub struct InvalidEndpoint(String);

/// The response of a server to the readiness probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Health {
    Absent,
    /// A program listens and is not ready, or does not speak HTTP.
    NotReady,
    Ready,
}

/// What listens on a port before a server is started there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Occupant {
    Free,
    Server,
    Loading,
    /// A program that has not answered.
    Silent,
    Foreign,
}

struct Answer {
    status: u16,
    body: String,
}

impl Endpoint {
    /// Reads the base URL of a provider.
    ///
    /// # Errors
    /// [`InvalidEndpoint`] unless the URL is plain http to `localhost` or a loopback address; the text shows the form.
    pub fn parse(base_url: &str) -> Result<Self, InvalidEndpoint> {
        let parsed = || {
            let rest = base_url.strip_prefix("http://")?;
            let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
            let (host, port) = match authority.rsplit_once(':') {
                Some((host, port)) if !host.is_empty() && !port.ends_with(']') => (host, port.parse().ok()?),
                _ => (authority, 80),
            };
            let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
            let is_here = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
            let is_plain = path.chars().all(|c| c.is_ascii_graphic() && !matches!(c, '?' | '#'));
            let base = if path.is_empty() { String::new() } else { format!("/{}", path.trim_end_matches('/')) };
            (is_here && is_plain).then(|| Self { host: host.to_owned(), port, base })
        };
        parsed().ok_or_else(|| InvalidEndpoint(base_url.to_owned()))
    }

    pub(crate) fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    pub(crate) fn at_port(&self, port: u16) -> Self {
        Self { port, ..self.clone() }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) async fn free_port(&self) -> io::Result<u16> {
        let listener = tokio::net::TcpListener::bind((self.host.as_str(), 0)).await?;
        Ok(listener.local_addr()?.port())
    }

    /// Asks the program that listens there for its models: only a list of them makes it a model server. Takes less than a
    /// second, and for a model server at most 4 s. Cancel-safe.
    pub(crate) async fn occupant(&self) -> Occupant {
        match self.get(&format!("{}/models", self.base), LIST_BYTES, PROMPTLY).await {
            Err(_nothing_listens) => Occupant::Free,
            Ok(Got::Nothing) => Occupant::Silent,
            Ok(Got::NotHttp) => Occupant::Foreign,
            Ok(Got::Answer(answer)) => match answer.status {
                // A server that requires a key; model calls have the key.
                401 | 403 => Occupant::Server,
                503 => Occupant::Loading,
                // It may list its model before it has loaded it.
                200 if is_list(&answer.body) => match self.health().await {
                    Health::Ready => Occupant::Server,
                    Health::NotReady => Occupant::Loading,
                    Health::Absent => Occupant::Free,
                },
                _no_list => Occupant::Foreign,
            },
        }
    }

    /// Requests `/health`, and `models` under the base URL if that is missing. Takes at most 4 s. Cancel-safe.
    pub(crate) async fn health(&self) -> Health {
        match self.status_of("/health").await {
            Ok(Some(200)) => Health::Ready,
            Ok(Some(400..500)) => match self.status_of(&format!("{}/models", self.base)).await {
                // A server that requires a key is ready; model calls have the key.
                Ok(Some(200 | 401 | 403)) => Health::Ready,
                Ok(_) => Health::NotReady,
                Err(_gone_meanwhile) => Health::Absent,
            },
            Ok(_) => Health::NotReady,
            Err(_nothing_listens) => Health::Absent,
        }
    }

    /// The status of one GET; `None` from a server that does not answer in time or in HTTP.
    async fn status_of(&self, path: &str) -> io::Result<Option<u16>> {
        Ok(match self.get(path, STATUS_LINE_BYTES, PATIENCE).await? {
            Got::Answer(answer) => Some(answer.status),
            Got::Nothing | Got::NotHttp => None,
        })
    }

    /// One GET, of whose answer at most so many bytes are read.
    async fn get(&self, path: &str, most: usize, patience: Duration) -> io::Result<Got> {
        let connect = TcpStream::connect((self.host.as_str(), self.port));
        let Ok(connected) = tokio::time::timeout(patience, connect).await else { return Ok(Got::Nothing) };
        let stream = connected?;
        let mut said = Vec::new();
        // What was said until then counts, also of a program that keeps the connection open.
        let authority = self.authority();
        let asking = ask(stream, &authority, path, most, &mut said);
        let _until_its_end_or_in_time = tokio::time::timeout(patience, asking).await;
        Ok(match (status(&said), said.is_empty()) {
            (Some(status), _) => Got::Answer(Answer { status, body: body(&said) }),
            (None, true) => Got::Nothing,
            (None, false) => Got::NotHttp,
        })
    }
}

/// The outcome of a request to something that listens.
enum Got {
    Nothing,
    NotHttp,
    Answer(Answer),
}

async fn ask(mut stream: TcpStream, authority: &str, path: &str, most: usize, said: &mut Vec<u8>) -> io::Result<()> {
    let request = format!("GET {path} HTTP/1.1\r\nHost: {authority}\r\nAccept: */*\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut limited = stream.take(most as u64);
    let is_enough = |said: &[u8]| if most == STATUS_LINE_BYTES { said.contains(&b'\n') } else { is_whole(said) };
    while !is_enough(said) && limited.read_buf(said).await? > 0 {}
    Ok(())
}

fn is_whole(said: &[u8]) -> bool {
    let text = String::from_utf8_lossy(said);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok()).flatten()
    });
    length.is_some_and(|length| body.len() >= length)
}

fn body(said: &[u8]) -> String {
    let text = String::from_utf8_lossy(said);
    text.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default()
}

/// Whether a body is a list of models: an object with an array `data`, which may be cut or in chunks.
fn is_list(body: &str) -> bool {
    let plain: String = body.chars().filter(|c| !c.is_whitespace()).collect();
    plain.contains("\"data\":[")
}

/// `HTTP/1.1 200 OK` → 200.
fn status(said: &[u8]) -> Option<u16> {
    let line = std::str::from_utf8(said.split(|byte| *byte == b'\n').next()?).ok()?;
    let mut words = line.split_ascii_whitespace();
    words.next()?.starts_with("HTTP/1.").then_some(())?;
    words.next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_url_on_this_machine_is_an_endpoint() {
        for (url, authority, base) in [
            ("http://127.0.0.1:8091/v1/", "127.0.0.1:8091", "/v1"),
            ("http://localhost:8091", "localhost:8091", ""),
            ("http://127.0.0.1/", "127.0.0.1:80", ""),
            ("http://[::1]:8091/a/v1", "[::1]:8091", "/a/v1"),
            ("http://[::1]/v1/", "[::1]:80", "/v1"),
        ] {
            let endpoint = Endpoint::parse(url).unwrap();
            assert_eq!((endpoint.authority().as_str(), endpoint.base.as_str()), (authority, base), "{url}");
        }
    }

    #[test]
    fn another_machine_another_scheme_and_nonsense_are_refused() {
        for url in [
            "https://127.0.0.1:8091/v1/",
            "http://example.com/v1/",
            "http://10.0.0.1:8091/",
            "http://user@127.0.0.1:8091/",
            "http://127.0.0.1:99999/",
            "http://:8091/",
            "http://127.0.0.1:8091/v1/\r\nX: y",
            "127.0.0.1:8091",
            "",
        ] {
            let error = Endpoint::parse(url).unwrap_err().to_string();
            assert!(error.contains("http://127.0.0.1:8091/v1/"), "{error}");
        }
    }

    #[test]
    fn only_an_object_with_an_array_of_data_is_a_list_of_models() {
        assert!(is_list(r#"{"object": "list", "data": [ {"id": "m"} ]}"#) && is_list("1f\r\n{\"data\":[]}\r\n0\r\n"));
        for other in ["", "[]", "{}", r#"{"data": 3}"#, "<html>data</html>"] {
            assert!(!is_list(other), "{other}");
        }
    }

    #[test]
    fn a_response_is_whole_when_it_has_its_length() {
        assert!(is_whole(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"));
        for part in [
            &b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{"[..],
            b"HTTP/1.1 200 OK\r\n",
            b"HTTP/1.1 200 OK\r\n\r\n{}",
        ] {
            assert!(!is_whole(part));
        }
    }

    #[test]
    fn a_status_line_is_read_or_refused() {
        assert_eq!(status(b"HTTP/1.1 200 OK\r\nx: y"), Some(200));
        assert_eq!(status(b"HTTP/1.0 503\n"), Some(503));
        for other in [&b""[..], b"SSH-2.0-OpenSSH_9\r\n", b"HTTP/1.1", b"HTTP/1.1 abc\r\n", b"\xff\xfe\n"] {
            assert_eq!(status(other), None);
        }
    }
}
