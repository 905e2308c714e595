//! Signing in to tool servers: where tokens are kept, and who shows a person the page to sign in at.

use bob_messages::ids::ServerId;
use futures_util::future::BoxFuture;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// Shows a person the page of an authorization server.
pub trait SignInPort: Send + Sync + 'static {
    /// Shows this page, for this server. It may return at once: the answer of the page is awaited elsewhere, for at most
    /// five minutes. The page's address holds nothing secret; sanitise it before showing it in a terminal.
    fn open<'a>(&'a self, server: &'a ServerId, page: &'a str) -> BoxFuture<'a, ()>;
}

/// Why signing in to a tool server, or out of it, is not possible. No token and no secret is in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the tool server `{server}` {why}")]
#[non_exhaustive]
pub struct SignInError {
    /// The server.
    pub server: ServerId,
    /// The reason; it follows the server's name.
    pub why: String,
}

/// How a runtime signs in to its tool servers.
#[derive(Clone, Default)]
pub struct SignIns {
    /// The folder of the tokens, one file a server, readable by the user alone; `None` keeps them in memory.
    pub folder: Option<PathBuf>,
    /// Shows pages. Without it a server that needs a person to sign in cannot be used before a person has.
    pub port: Option<Arc<dyn SignInPort>>,
}

impl fmt::Debug for SignIns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SignIns").field("folder", &self.folder).field("port", &self.port.is_some()).finish()
    }
}
