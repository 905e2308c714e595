//! Rules for tool servers that are signed in to.

use crate::problem::Findings;
use crate::tree::{self, Table};
#[cfg(feature = "mcp")]
use bob::tools::servers::keeps_secrets;

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
    #[cfg(feature = "mcp")]
    if let Some((at, _)) = text("url").filter(|(_, url)| scheme(url) == "http" && !keeps_secrets(url)) {
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
