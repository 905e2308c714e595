//! Which version of the protocol a server speaks.
//!
//! Version 2026-07-28 has no handshake: a client asks `server/discover`, and every request carries what the handshake
//! told. A server of an older version refuses that question, does not answer it, answers nonsense, or ends. Each of
//! these is followed by the handshake of 2025-11-25, which is also the version named in it: many servers repeat the
//! version that a client names, so naming a later one would find it everywhere.
//!
//! A server that is slow to start is silent as well. It finds both questions, answers the first, and may refuse the
//! handshake for that. Then its next start is given all its time for the first question, and no handshake follows.

use rmcp::model::{ProtocolVersion, ServerResult};
use rmcp::service::ClientLifecycleMode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The version that is asked for first.
const NEWEST: ProtocolVersion = ProtocolVersion::V_2026_07_28;

/// How long a server may take to answer `server/discover`, at most; and the part of its startup time that this may be. Less
/// than the 10 s for which rmcp waits, which goes on to the handshake then.
const ASK_WITHIN: Duration = Duration::from_secs(9);
const PART_OF_START: u32 = 3;

/// One attempt to find out whether a server speaks the newest version.
#[derive(Debug, Clone)]
pub(in crate::mcp) struct Discovery {
    pub(super) within: Duration,
    /// Whether no handshake follows, even if the server refuses the question.
    is_alone: bool,
    is_newest: Arc<AtomicBool>,
    was_late: Arc<AtomicBool>,
}

impl Discovery {
    /// Of a server that may take this long to start.
    pub(in crate::mcp) fn of(startup_timeout: Duration) -> Self {
        let within = ASK_WITHIN.min(startup_timeout / PART_OF_START);
        Self { within, is_alone: false, is_newest: Arc::default(), was_late: Arc::default() }
    }

    /// Of a server that answered too late before.
    pub(in crate::mcp) fn alone(startup_timeout: Duration) -> Self {
        Self { within: startup_timeout, is_alone: true, ..Self::of(startup_timeout) }
    }

    /// Whether the server said that it speaks the newest version. One that said something else, or nothing, and ended,
    /// may need another start, without the question.
    pub(in crate::mcp) fn found_newest(&self) -> bool {
        self.is_newest.load(Ordering::Relaxed)
    }

    pub(super) fn set_newest(&self) {
        self.is_newest.store(true, Ordering::Relaxed);
    }

    /// Whether the server said that it speaks the newest version when it was no longer waited for.
    pub(in crate::mcp) fn was_late(&self) -> bool {
        self.was_late.load(Ordering::Relaxed)
    }

    pub(super) fn set_late(&self) {
        self.was_late.store(true, Ordering::Relaxed);
    }
}

/// Discovery, followed by the handshake on the same connection if the server refuses; or one of them alone.
pub(super) fn mode(discovery: Option<&Discovery>) -> ClientLifecycleMode {
    match discovery {
        // Without the 10 s of rmcp.
        Some(discovery) if discovery.is_alone => discovery_only(),
        Some(_) => ClientLifecycleMode::Auto {
            preferred_versions: vec![NEWEST],
            legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
        },
        None => ClientLifecycleMode::Initialize,
    }
}

/// Discovery alone. Over HTTP, the handshake has a connection of its own.
pub(super) fn discovery_only() -> ClientLifecycleMode {
    ClientLifecycleMode::Discover { preferred_versions: vec![NEWEST] }
}

pub(super) fn is_newest(result: &ServerResult) -> bool {
    matches!(result, ServerResult::DiscoverResult(found) if found.supported_versions.contains(&NEWEST))
}
