//! Collects all secrets of a configuration for redaction.

use secrecy::SecretString;

use super::secret::{Secret, is_secret_key};
use super::{Config, Transport};

impl Config {
    /// Returns every secret value: keys of providers, environment and headers of servers and hooks, substituted
    /// variables, credentials and queries in addresses, and arguments of options with secret names. Excludes the keys that
    /// well-known providers read from the environment.
    pub fn secrets(&self) -> Vec<SecretString> {
        let mut found: Vec<SecretString> = self.filled.values().map(|value| value.wrapped().clone()).collect();
        for provider in self.providers.values() {
            found.extend(provider.api_key.iter().map(|key| key.wrapped().clone()));
            if let Some(start) = &provider.start {
                found.extend(start.env.values().map(|value| value.wrapped().clone()));
                in_arguments(&start.args, &mut found);
            }
            in_address(provider.base_url.as_deref(), &mut found);
        }
        if let Some(url) = &self.store.url {
            found.push(url.wrapped().clone());
            found.extend(passwords(url.expose()).map(SecretString::from));
        }
        found.extend(self.telemetry.headers.values().map(Secret::wrapped).cloned());
        in_address(self.telemetry.otlp_endpoint.as_deref(), &mut found);
        for hook in self.hooks.values() {
            found.extend(hook.env.values().map(|value| value.wrapped().clone()));
            in_arguments(&hook.args, &mut found);
        }
        for server in &self.mcp.servers {
            let values = server.env.values().chain(server.headers.values()).chain(&server.client_secret);
            found.extend(values.map(Secret::wrapped).cloned());
            match server.transport {
                Transport::Stdio => in_arguments(&server.args, &mut found),
                Transport::Http => in_address(server.url.as_deref(), &mut found),
            }
        }
        found
    }
}

/// The password in the URL of a database; its user and options are none. It ends at the first `@`, and one that should
/// have been encoded at a later one.
pub(super) fn passwords(url: &str) -> impl Iterator<Item = &str> {
    let rest = url.split_once("://").map_or("", |(_, rest)| rest);
    let begin = rest.find(':').map_or(rest.len(), |colon| colon + 1);
    let first = rest.find('@').filter(|at| *at > begin);
    let ends = first.into_iter().flat_map(move |first| {
        let options = rest[first..].find(['?', '#']).map_or(rest.len(), |more| first + more);
        rest[..options].match_indices('@').map(|(at, _)| at)
    });
    ends.map(move |end| &rest[begin..end])
}

/// `--api-key=VALUE` and `--api-key VALUE`.
fn in_arguments(arguments: &[String], found: &mut Vec<SecretString>) {
    let mut is_next = false;
    for argument in arguments {
        match argument.split_once('=') {
            Some((name, value)) if is_secret_key(name) => found.push(value.into()),
            _ if is_next => found.push(argument.as_str().into()),
            _ => {}
        }
        is_next = argument.starts_with('-') && !argument.contains('=') && is_secret_key(argument);
    }
}

/// A user and a password before the host, and the values behind a question mark.
fn in_address(address: Option<&str>, found: &mut Vec<SecretString>) {
    let Some((_, rest)) = address.and_then(|address| address.split_once("://")) else { return };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if let Some((user, _host)) = authority.rsplit_once('@') {
        found.extend(user.split(':').map(SecretString::from));
    }
    if let Some((_, query)) = rest.split_once('?') {
        found.extend(query.split('&').filter_map(|pair| pair.split_once('=')).map(|(_, value)| value.into()));
    }
}
