//! Rules for tool servers that are signed in to.

use crate::problem::Findings;
use crate::tree::{self, Table};

/// What belongs to signing in is there, and nothing else; and no key goes out in plain text.
pub(super) fn check(server: &Table<'_>, path: &str, findings: &mut Findings) {
    let is_there = |key: &str| server.get(key).is_some();
    let Some(auth) = server.get("auth") else {
        let keys = ["client_id", "client_secret", "client_metadata_url", "scopes"];
        for (key, _) in server.iter().filter(|(key, _)| is_there("url") && keys.contains(&&**key.get_ref())) {
            findings.add(key.span(), format!("`{path}.{}` means nothing without `auth`", key.get_ref()));
        }
        return;
    };
    if tree::text(auth) == Some("client_credentials") && !(is_there("client_id") && is_there("client_secret")) {
        findings.add(auth.span(), format!("`{path}.auth` needs a `client_id` and a `client_secret`"));
    }
    if is_there("client_secret") && !is_there("client_id") {
        findings.add(auth.span(), format!("`{path}.client_secret` belongs to a `client_id`"));
    }
    let headers = server.get("headers").and_then(tree::table);
    if headers.is_some_and(|headers| headers.keys().any(|name| name.get_ref().eq_ignore_ascii_case("authorization"))) {
        findings.add(auth.span(), format!("`{path}` has `auth`, and an Authorization among its `headers`"));
    }
    let text = |key: &str| server.get(key).and_then(|item| Some((item.span(), tree::text(item)?)));
    if let Some((at, _)) = text("url").filter(|(_, url)| scheme(url) == "http" && !is_of_this_machine(url)) {
        let message = "with `auth` it must begin with https:// (http:// only on this machine)";
        findings.add(at, format!("`{path}.url`: {message}"));
    }
    if let Some((at, _)) = text("client_metadata_url").filter(|(_, url)| scheme(url) != "https") {
        findings.add(at, format!("`{path}.client_metadata_url` must begin with https://"));
    }
}

fn scheme(url: &str) -> String {
    url.split_once("://").map_or("", |(scheme, _)| scheme).to_ascii_lowercase()
}

fn is_of_this_machine(url: &str) -> bool {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let place = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = place.rsplit_once('@').map_or(place, |(_user, host)| host);
    let host = match host.strip_prefix('[') {
        Some(host) => host.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    let host = host.to_ascii_lowercase();
    let address = host.parse::<std::net::IpAddr>();
    address.is_ok_and(|address| address.is_loopback()) || host == "localhost" || host.ends_with(".localhost")
}

#[cfg(test)]
mod tests {
    use super::is_of_this_machine;

    #[test]
    fn this_machine_has_many_names_and_others_only_look_like_it() {
        let here = ["http://localhost:8/mcp", "http://127.8.9.1", "http://[::1]:1/", "http://u:p@a.localhost/x"];
        let elsewhere =
            ["http://localhost.example/", "http://127.example/", "http://10.0.0.1/", "http://localhost@h.example/"];
        assert!(here.iter().all(|url| is_of_this_machine(url)));
        assert!(!elsewhere.iter().any(|url| is_of_this_machine(url)));
    }
}
