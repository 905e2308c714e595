//! The keeper of a local model server: a child of the root, on its own.

use crate::family::ChildSpec;
use bob_actors::model_server::{ModelServerActor, ModelServerSpec, ModelServers};

/// The child that owns this server's process; `None` when nobody would find it.
/// A server that dies too often leaves its provider down, not the house.
pub fn child(servers: &ModelServers, spec: ModelServerSpec) -> Option<ChildSpec> {
    let address = servers.address(spec.provider())?.clone();
    let name = format!("model server {}", spec.provider());
    // Its own stop ladder takes up to 4 s.
    Some(ChildSpec { shutdown_ms: 5_000, ..ChildSpec::server(name, address, move || (ModelServerActor, spec.clone())) })
}
