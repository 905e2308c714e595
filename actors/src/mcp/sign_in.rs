//! Signing in to tool servers: where tokens are kept, and who shows a person the page to sign in at.

use bob_messages::ids::ServerId;
use bob_messages::options::ServerSpec;
use futures_util::future::BoxFuture;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Shows a person the page of an authorization server.
pub trait SignInPort: Send + Sync + 'static {
    /// Shows this page, for this server. It may return at once: the answer of the page is awaited elsewhere, for at most
    /// five minutes. The page's address holds nothing secret; sanitise it before showing it in a terminal.
    fn open<'a>(&'a self, server: &'a ServerId, page: &'a str) -> BoxFuture<'a, ()>;
}

/// How a runtime signs in to its tool servers.
#[derive(Clone, Default)]
pub struct SignIns {
    /// The folder of the tokens, one file a server, readable by the user alone; `None` keeps them in memory.
    pub folder: Option<PathBuf>,
    /// Shows pages. Without it a server that needs a person to sign in cannot be used before somebody has.
    pub port: Option<Arc<dyn SignInPort>>,
}

impl fmt::Debug for SignIns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SignIns").field("folder", &self.folder).field("port", &self.port.is_some()).finish()
    }
}

/// Signs in to a server, also if there are tokens for it.
///
/// # Errors
/// Why that is not possible; the text follows the server's name.
pub async fn log_in(spec: &ServerSpec, sign_ins: &SignIns) -> Result<(), String> {
    super::rmcp::log_in(spec, sign_ins).await
}

/// Removes the tokens of a server from this folder; returns whether there were any. What the authorization server knows
/// of them stays valid until it expires.
///
/// # Errors
/// When they cannot be removed.
pub fn log_out(spec: &ServerSpec, folder: &Path) -> Result<bool, String> {
    super::rmcp::log_out(spec, folder)
}
