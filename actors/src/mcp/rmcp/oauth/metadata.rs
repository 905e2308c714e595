//! Which authorization servers are used: those that say enough about themselves, and to which keys go encrypted.

use crate::loopback::{is_loopback_host, keeps_secrets};
use reqwest::Url;
use rmcp::transport::auth::{AuthorizationMetadata, AuthorizationMetadataResolution};
use serde_json::Value;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) issuer: String,
    /// Whether the address of a document is a client's name there.
    pub(super) takes_documents: bool,
    /// Whether it checks that the one who began to sign in is the one who ends it.
    pub(super) has_pkce: bool,
}

/// What is found at the address of a tool server.
/// Errors: why it cannot be used; the text follows the tool server's name.
pub(super) fn found(resolution: &AuthorizationMetadataResolution, address: &Url) -> Result<Found, String> {
    if !resolution.source.is_discovered() {
        return Err("names no authorization server".to_owned());
    }
    let AuthorizationMetadata { authorization_endpoint, token_endpoint, registration_endpoint, issuer, .. } =
        &resolution.metadata;
    for (name, url) in [
        ("issuer", issuer.as_ref()),
        ("authorization_endpoint", Some(authorization_endpoint)),
        ("token_endpoint", Some(token_endpoint)),
    ]
    .into_iter()
    .chain(registration_endpoint.as_ref().map(|url| ("registration_endpoint", Some(url))))
    {
        if !url.and_then(|url| Url::parse(url).ok()).is_some_and(|url| is_allowed(&url, address)) {
            return Err(format!("has an authorization server without a safe `{name}`: it must begin with https://"));
        }
    }
    let metadata = &resolution.metadata;
    let takes_documents = metadata.additional_fields.get("client_id_metadata_document_supported");
    let methods = metadata.code_challenge_methods_supported.iter().flatten();
    Ok(Found {
        issuer: issuer.clone().unwrap_or_default(),
        takes_documents: takes_documents.and_then(Value::as_bool) == Some(true),
        has_pkce: methods.into_iter().any(|method| method == "S256"),
    })
}

/// Addresses of this machine are for servers of this machine only.
fn is_allowed(url: &Url, address: &Url) -> bool {
    keeps_secrets(url) && (is_loopback_host(address) || !is_loopback_host(url))
}

/// An address without user, password, query and fragment, which may be secret.
pub(super) fn bare(url: &str) -> String {
    let Ok(mut bare) = Url::parse(url) else { return String::new() };
    bare.set_query(None);
    bare.set_fragment(None);
    // Fails for an address that cannot have them.
    let _has_none = bare.set_username("").and_then(|()| bare.set_password(None));
    bare.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_named_without_what_may_be_secret() {
        assert_eq!(bare("https://me:pass@h.example/mcp?key=k#k"), "https://h.example/mcp");
        assert_eq!(bare("http://127.0.0.1:8/mcp"), "http://127.0.0.1:8/mcp");
    }

    #[test]
    fn addresses_of_this_machine_are_for_servers_of_this_machine() {
        for (url, address, expected) in [
            ("https://as.example/token", "https://h.example/mcp", true),
            ("http://as.example/token", "https://h.example/mcp", false),
            ("http://localhost:8/token", "https://h.example/mcp", false),
            ("https://localhost:8/token", "https://h.example/mcp", false),
            ("http://localhost:8/token", "http://127.0.0.1/mcp", true),
            ("file:///etc/passwd", "http://127.0.0.1/mcp", false),
            ("vscode://localhost/run", "http://127.0.0.1/mcp", false),
        ] {
            let of = |text: &str| Url::parse(text).expect("an address");
            assert_eq!(is_allowed(&of(url), &of(address)), expected, "{url} of {address}");
        }
    }
}
