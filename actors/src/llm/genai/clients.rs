//! The HTTP clients, each made when the first call needs it.
//!
//! Reading the certificates of the system takes longer than all else a start does, and a process with a model on its
//! own machine never needs them.

use crate::cause::copied;
use crate::loopback::is_loopback_host;
use ::genai::Client;
use bob_messages::llm::{LlmError, LlmErrorKind};
use enum_map::EnumMap;
use reqwest::redirect::Policy;
use std::error::Error as _;
use std::sync::OnceLock;
use std::time::Duration;

/// How long connecting may take at most; the time to the headers includes it.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How many idle connections are kept to one provider.
const IDLE_CONNECTIONS: usize = 256;

/// The variables by which the environment names a proxy for http addresses.
const PROXIES: [&str; 4] = ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"];

#[derive(Debug, Clone, Copy, PartialEq, Eq, enum_map::Enum)]
pub(super) enum Way {
    /// Without certificates, and without a proxy, which may want some.
    Plain,
    /// Without a proxy, since it is on this machine.
    Near,
    /// Through the proxy the environment names, if it names one.
    Far,
}

impl Way {
    pub(super) fn to(base_url: &str) -> Self {
        let Ok(url) = reqwest::Url::parse(base_url) else { return Self::Far };
        let is_near = is_loopback_host(&url);
        match url.scheme() {
            "http" if is_near || PROXIES.iter().all(|name| std::env::var_os(name).is_none()) => Self::Plain,
            _with_certificates if is_near => Self::Near,
            _with_certificates => Self::Far,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Clients(EnumMap<Way, OnceLock<Result<Pair, LlmError>>>);

#[derive(Debug)]
pub(super) struct Pair {
    pub(super) http: reqwest::Client,
    pub(super) genai: Client,
}

impl Clients {
    /// # Errors
    /// `Unavailable` when the client cannot be set up, as on a system without certificates.
    pub(super) fn by(&self, way: Way) -> Result<&Pair, LlmError> {
        self.0[way].get_or_init(|| client(way)).as_ref().map_err(LlmError::clone)
    }
}

fn client(way: Way) -> Result<Pair, LlmError> {
    // One that another part of the process installed before is as good.
    let _installed_before = rustls::crypto::ring::default_provider().install_default();
    let builder = reqwest::Client::builder()
        .pool_max_idle_per_host(IDLE_CONNECTIONS)
        .connect_timeout(CONNECT_TIMEOUT)
        // Unpacked bytes could not be bounded: a few packed ones may become any number.
        .no_gzip()
        .redirect(Policy::none());
    let builder = match way {
        Way::Plain => builder.no_proxy().tls_certs_only([]),
        Way::Near => builder.no_proxy(),
        Way::Far => builder,
    };
    let failed = |why: String| LlmError::new(LlmErrorKind::Unavailable, format!("the HTTP client cannot start: {why}"));
    let http = builder.build().map_err(|error| match error.source() {
        Some(below) => failed(error.to_string()).with_source(copied(below, &str::to_owned)),
        None => failed(error.to_string()),
    })?;
    let genai = Client::builder().with_reqwest(http.clone()).build();
    let genai = genai.map_err(|_holds_details| failed("its setup was refused".into()))?;
    Ok(Pair { http, genai })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_with_certificates_need_those_of_the_system() {
        let ways = ["http://localhost:8091/v1/", "https://localhost/", "https://api.example.com/v1/", "no address"];
        assert_eq!(ways.map(Way::to), [Way::Plain, Way::Near, Way::Far, Way::Far]);
        let clients = Clients::default();
        clients.by(Way::Plain).unwrap();
        assert!(clients.0[Way::Near].get().is_none() && clients.0[Way::Far].get().is_none());
    }
}
