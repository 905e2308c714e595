//! Where a configuration sends conversations, and which environment variables it uses.
//!
//! Keys are in the environment, and the configuration determines the address that receives one. The listener at a
//! custom address reads the whole conversation and chooses tool calls. Loopback addresses are included: another
//! program of the folder may listen there.

use std::collections::BTreeMap;

use bob::model::providers::KNOWN;

use super::privilege::VARIABLES;
use super::{Privilege, PrivilegeKind};
use crate::interpolate::Filled;
use crate::{Config, Secret};

/// An address of a provider that is not the built-in one, or a key that is another variable than the provider's own.
pub(super) fn provider(config: &Config, name: &str, address: Option<&str>, key: Option<&Secret>) -> Option<Privilege> {
    let known = KNOWN.iter().find(|known| known.name == name);
    let is_built_in = |address: &str| {
        known.is_some_and(|known| known.base_url.trim_end_matches('/') == address.trim_end_matches('/'))
    };
    let Some(address) = address.filter(|address| !is_built_in(address)) else {
        // A provider that is not built in and has no address sends nothing.
        let known = known?;
        // By its place: the value of a variable may be too short to be known again in a text.
        let place = ["providers", name, "api_key"];
        let filled = config.filled_at.iter().filter(|filled| filled.place == place);
        // The account to which a written key belongs has the conversations.
        if key.is_some() && known.key_variable.is_some() && filled.clone().next().is_none() {
            let sending = sending(config, format!("the provider {name}"), known.base_url, Vec::new());
            let sending = sending.line("account:     that of a key which is written in the file");
            return Some(with_value(config, sending, &place, key));
        }
        let others: Vec<String> = filled
            .map(|filled| filled.variable.clone())
            .filter(|variable| Some(variable.as_str()) != known.key_variable)
            .collect();
        return (!others.is_empty()).then(|| {
            let sending = sending(config, format!("the provider {name}"), known.base_url, others);
            with_value(config, sending, &place, key)
        });
    };
    let variables = match key {
        Some(key) => variables(config, key.expose()),
        None => known.and_then(|known| known.key_variable).map(str::to_owned).into_iter().collect(),
    };
    let sending = sending(config, format!("the provider {name}"), address, variables);
    Some(with_value(config, sending, &["providers", name, "api_key"], key))
}

pub(super) fn tool_server(
    config: &Config,
    ([mcp, servers, position], id): ([&str; 3], &str),
    address: &str,
    headers: &BTreeMap<String, Secret>,
    client_secret: Option<&Secret>,
) -> Privilege {
    let of_keys = headers.values().chain(client_secret).flat_map(|value| variables(config, value.expose())).collect();
    let sending = sending(config, format!("the tool server {id}"), address, of_keys);
    let sending = with_headers(config, sending, &[mcp, servers, position, "headers"], headers);
    with_value(config, sending, &[mcp, servers, position, "client_secret"], client_secret)
}

/// With the headers that go along: the names are shown. A value decides whose account it is.
fn with_headers(config: &Config, sending: Privilege, place: &[&str], headers: &BTreeMap<String, Secret>) -> Privilege {
    if headers.is_empty() {
        return sending;
    }
    let names: Vec<&str> = headers.keys().map(String::as_str).collect();
    let sending = sending.line(format!("headers:     {}", names.join(", ")));
    headers.iter().fold(sending, |sending, (name, value)| {
        with_value(config, sending, &[place, &[name.as_str()]].concat(), Some(value))
    })
}

/// With the value at a place, under the last part of it.
fn with_value(config: &Config, sending: Privilege, place: &[&str], value: Option<&Secret>) -> Privilege {
    match (value, place.last()) {
        (Some(value), Some(name)) => sending.value(name, &config.written_at(place, value.expose())),
        (_, _) => sending,
    }
}

pub(super) fn telemetry(
    config: &Config,
    address: &str,
    headers: &BTreeMap<String, Secret>,
    has_contents: bool,
) -> Privilege {
    let what = match has_contents {
        true => "the receiver of telemetry, with the texts of messages, arguments and results",
        false => "the receiver of telemetry, without texts of messages, arguments and results",
    };
    let of_headers = headers.values().flat_map(|value| variables(config, value.expose())).collect();
    let sending = sending(config, what.to_owned(), address, of_headers);
    with_headers(config, sending, &["telemetry", "headers"], headers)
}

/// The database that keeps the sessions. Its URL is told by its variables, or without its user and password.
pub(super) fn database(config: &Config, url: &Secret) -> Privilege {
    let (written, variables) = (config.as_written(url.expose()), variables(config, url.expose()));
    let shown = if written.starts_with("${") { written } else { crate::database_shown(&written) };
    let privilege = Privilege::new(PrivilegeKind::Sends, "the database that keeps the sessions".to_owned());
    let privilege = privilege.line(format!("to:          {shown}"));
    // Whose sessions they are is decided by what is not shown.
    let privilege = with_value(config, privilege, &["store", "url"], Some(url));
    if variables.is_empty() { privilege } else { privilege.line(format!("{VARIABLES}{}", variables.join(", "))) }
}

pub(super) fn catalogue(config: &Config, address: &str) -> Privilege {
    sending(config, "the source of the catalogue of models".to_owned(), address, Vec::new())
}

fn sending(config: &Config, what: String, address: &str, mut variables: Vec<String>) -> Privilege {
    variables.extend(self::variables(config, address));
    variables.sort();
    variables.dedup();
    let privilege =
        Privilege::new(PrivilegeKind::Sends, what).line(format!("to:          {}", config.as_written(address)));
    if variables.is_empty() { privilege } else { privilege.line(format!("{VARIABLES}{}", variables.join(", "))) }
}

/// Variables that were filled in where none is expected, by place.
pub(super) fn filled(filled: &[Filled], privileges: &mut Vec<Privilege>) {
    let mut places: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for filled in filled.iter().filter(|filled| !is_expected(&filled.place)) {
        places.entry(filled.place.join(".").replace(".[", "[")).or_default().push(&filled.variable);
    }
    for (place, mut names) in places {
        names.sort_unstable();
        names.dedup();
        privileges.push(Privilege::new(PrivilegeKind::Fills, place).line(format!("{VARIABLES}{}", names.join(", "))));
    }
}

/// Whether a variable is used where keys are expected, or in a text that is displayed with variable names: an address
/// or an argument.
fn is_expected(place: &[String]) -> bool {
    let place: Vec<&str> = place.iter().map(String::as_str).collect();
    matches!(
        place.as_slice(),
        ["providers", _, "api_key" | "base_url"]
            | ["store", "url"]
            | ["providers", _, "start", "command"]
            | ["providers", _, "start", "args" | "env", _]
            | ["hooks", _, "command"]
            | ["hooks", _, "args" | "env", _]
            | ["mcp", "servers", _, "url" | "command" | "client_secret"]
            | ["mcp", "servers", _, "args" | "env" | "headers", _]
            | ["telemetry", "otlp_endpoint"]
            | ["telemetry", "headers", _]
    )
}

fn variables(config: &Config, text: &str) -> Vec<String> {
    let written = config.as_written(text);
    if written == text {
        return Vec::new();
    }
    let names = written.split("${").skip(1).filter_map(|rest| rest.split_once('}'));
    names.map(|(name, _)| name.to_owned()).collect()
}
