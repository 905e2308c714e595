//! Whether a model server answers: one small HTTP request to this machine.

use std::io;
use std::net::IpAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// How long one question may take. A server that loads a model may be slow to accept, and asking again is cheap.
const PATIENCE: Duration = Duration::from_secs(2);

/// More than any status line needs, in bytes.
const STATUS_LINE_BYTES: usize = 256;

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

impl Endpoint {
    /// Reads the base URL of a provider.
    ///
    /// # Errors
    /// [`InvalidEndpoint`] unless the URL is plain http to `localhost` or a loopback
    /// address; the text shows the form.
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

    /// Formats host and port.
    pub(crate) fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
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
            Err(_nobody_listens) => Health::Absent,
        }
    }

    /// The status of one GET; `None` from a server that does not answer in time or in HTTP.
    ///
    /// # Errors
    /// When no connection can be made.
    async fn status_of(&self, path: &str) -> io::Result<Option<u16>> {
        let connect = TcpStream::connect((self.host.as_str(), self.port));
        let Ok(connected) = tokio::time::timeout(PATIENCE, connect).await else { return Ok(None) };
        let stream = connected?;
        let answer = tokio::time::timeout(PATIENCE, ask(stream, &self.authority(), path)).await;
        Ok(answer.ok().and_then(Result::ok).flatten())
    }
}

async fn ask(mut stream: TcpStream, authority: &str, path: &str) -> io::Result<Option<u16>> {
    let request = format!("GET {path} HTTP/1.1\r\nHost: {authority}\r\nAccept: */*\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut said = Vec::new();
    let mut limited = stream.take(STATUS_LINE_BYTES as u64);
    while !said.contains(&b'\n') && limited.read_buf(&mut said).await? > 0 {}
    Ok(status(&said))
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
    fn a_status_line_is_read_or_refused() {
        assert_eq!(status(b"HTTP/1.1 200 OK\r\nx: y"), Some(200));
        assert_eq!(status(b"HTTP/1.0 503\n"), Some(503));
        for other in [&b""[..], b"SSH-2.0-OpenSSH_9\r\n", b"HTTP/1.1", b"HTTP/1.1 abc\r\n", b"\xff\xfe\n"] {
            assert_eq!(status(other), None);
        }
    }
}
