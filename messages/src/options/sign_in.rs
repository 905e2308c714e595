//! How a client signs in to a tool server over HTTP, with OAuth.

use super::Hidden;
use serde::{Deserialize, Serialize};

/// How to get a token for a tool server. Tokens are for this server's address alone.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SignIn {
    /// Who allows the access.
    pub grant: SignInGrant,
    /// The client's name at the authorization server, if it was registered there before. Without one the client
    /// registers itself, if it may.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    /// The secret that belongs to `client_id`; never serialised.
    #[serde(skip_serializing)]
    pub client_secret: Hidden,
    /// The `https://` address of a document about the client, which is its name where the authorization server takes
    /// such a name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_metadata_url: Option<String>,
    /// The permissions to ask for; empty: those that the server names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
}

/// Who allows the access to a tool server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SignInGrant {
    /// A person, in a browser: an authorization code with PKCE.
    #[default]
    AuthorizationCode,
    /// The client itself, with its id and its secret.
    ClientCredentials,
}
