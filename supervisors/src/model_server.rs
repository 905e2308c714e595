//! A local model server as a child of the root.

use crate::children::ChildSpec;
use bob_actors::model_server::{ModelServerActor, ModelServerSpec, ModelServers};

/// The child that owns this server's process; `None` when the provider has no address. A server that dies too often
/// leaves its provider down, not the runtime.
pub fn child(servers: &ModelServers, spec: ModelServerSpec) -> Option<ChildSpec> {
    let address = servers.address(spec.provider())?.clone();
    let name = format!("model server {}", spec.provider());
    // Stopping the process takes up to 4 s.
    Some(ChildSpec { shutdown_ms: 5_000, ..ChildSpec::server(name, address, move || (ModelServerActor, spec.clone())) })
}
