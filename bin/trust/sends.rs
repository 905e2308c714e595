//! Where a configuration would send what it takes from the environment.
//!
//! Keys lie in the environment, and a configuration says to which address one is sent: a found one could send it to whoever
//! wrote it. An address that is built in for its provider, or on this machine, is nobody else's.

use bob::config::Config;
use bob_actors::llm::providers::KNOWN;

/// One address and what it would get.
#[derive(Debug, PartialEq)]
pub(super) struct Sending {
    /// What it is for.
    pub(super) what: String,
    /// The address, as it is written in the configuration.
    pub(super) to: String,
    /// The variables, as they are written; never their values.
    pub(super) variables: Vec<String>,
}

/// Every address that would get something of the environment, providers first.
pub(super) fn of(config: &Config) -> Vec<Sending> {
    let models = config.providers.iter().filter_map(|(name, provider)| {
        let known = KNOWN.iter().find(|known| known.name == name.as_str());
        let address = provider.base_url.as_deref()?;
        let is_its_own =
            known.is_some_and(|known| known.base_url.trim_end_matches('/') == address.trim_end_matches('/'));
        let key = match &provider.api_key {
            Some(key) => variables(config, key.expose()),
            None => known.and_then(|known| known.key_variable).map(str::to_owned).into_iter().collect(),
        };
        let of_address = variables(config, address);
        let taken: Vec<String> = if is_its_own { Vec::new() } else { key.into_iter().chain(of_address).collect() };
        sending(config, format!("the provider {name}"), address, taken)
    });
    let tools = config.mcp.servers.iter().filter_map(|server| {
        let address = server.url.as_deref()?;
        let headers = server.headers.values().flat_map(|value| variables(config, value.expose()));
        let taken = variables(config, address).into_iter().chain(headers).collect();
        sending(config, format!("the tool server {}", server.id), address, taken)
    });
    models.chain(tools).collect()
}

fn sending(config: &Config, what: String, address: &str, mut variables: Vec<String>) -> Option<Sending> {
    variables.sort();
    variables.dedup();
    let is_elsewhere = !variables.is_empty() && !is_here(address);
    is_elsewhere.then(|| Sending { what, to: config.as_written(address), variables })
}

/// The variables that were filled into a text.
fn variables(config: &Config, text: &str) -> Vec<String> {
    let written = config.as_written(text);
    if written == text {
        return Vec::new();
    }
    let names = written.split("${").skip(1).filter_map(|rest| rest.split_once('}'));
    names.map(|(name, _)| name.to_owned()).collect()
}

/// Whether nothing sent there leaves this machine.
fn is_here(address: &str) -> bool {
    let Some((_, rest)) = address.split_once("://") else { return false };
    let host = rest.split(['/', '?', '#', '\\']).next().unwrap_or_default();
    let name = match host.strip_prefix('[') {
        Some(v6) => v6.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    // Before an `@` stands a user, and the host comes after it.
    !host.contains('@') && matches!(name, "localhost" | "127.0.0.1" | "::1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g1_what_stays_on_this_machine_is_told_from_what_only_looks_so() {
        for here in ["http://127.0.0.1:8091/v1/", "http://localhost/v1", "http://[::1]:80/", "https://localhost:1"] {
            assert!(is_here(here), "{here}");
        }
        for elsewhere in [
            "http://127.0.0.1@evil.example/",
            "http://localhost.evil.example/",
            "http://127.0.0.1.evil.example:80/",
            "http://evil.example/?http://localhost/",
            "http://localhost:x@evil.example/",
            "http://evil.example\\@localhost/",
            "localhost",
            "",
        ] {
            assert!(!is_here(elsewhere), "{elsewhere}");
        }
    }
}
