//! In the place of `oauth`, in a build without it: there are no tokens.

use crate::mcp::sign_in::SignIns;
use bob_messages::options::ServerSpec;
use std::convert::Infallible;
use std::path::Path;

/// A server's refusal of a request.
pub(super) struct Challenge {
    #[expect(dead_code, reason = "without tokens a refusal is not answered")]
    pub(super) status: u16,
    #[expect(dead_code, reason = "without tokens a refusal is not answered")]
    pub(super) header: String,
}

/// None.
pub(in crate::mcp) struct Tokens(Infallible);

impl Tokens {
    pub(in crate::mcp) fn of(_spec: &ServerSpec, _sign_ins: &SignIns) -> Option<Self> {
        None
    }

    pub(super) fn known(&self) -> Option<String> {
        match self.0 {}
    }

    #[expect(clippy::unused_async, reason = "it has the form of the other one")]
    pub(super) async fn current(&self) -> Result<Option<String>, String> {
        match self.0 {}
    }

    #[expect(clippy::unused_async, reason = "it has the form of the other one")]
    pub(super) async fn after(&self, _used: Option<&str>, _challenge: &Challenge) -> Result<String, String> {
        match self.0 {}
    }

    pub(super) fn secrets(&self) -> Vec<String> {
        match self.0 {}
    }

    pub(in crate::mcp) fn pages(&self) -> u32 {
        match self.0 {}
    }

    #[expect(clippy::unused_async, reason = "it has the form of the other one")]
    pub(in crate::mcp) async fn settled(&self) -> Result<(), String> {
        match self.0 {}
    }

    pub(super) fn was_denied_after(&self, _pages: u32) -> bool {
        match self.0 {}
    }
}

#[allow(
    clippy::unused_async,
    reason = "it has the form of the other one; not with each set of features does the lint see it"
)]
pub(in crate::mcp) async fn log_in(_spec: &ServerSpec, _sign_ins: &SignIns) -> Result<(), String> {
    Err(super::NO_OAUTH.to_owned())
}

pub(in crate::mcp) fn log_out(_spec: &ServerSpec, _folder: &Path) -> Result<bool, String> {
    Err(super::NO_OAUTH.to_owned())
}
