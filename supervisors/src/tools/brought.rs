//! The tool servers that sessions bring, as children of the tools supervisor.
//!
//! Owns the assignment of servers to sessions. Sessions of one tenant with equal specs (id, command, arguments,
//! environment, folder and roots, or address and headers) share one actor and process, unless the spec says that each has
//! its own; other sessions do not see its tools. A server ends some time after the last session detached it. It is started
//! only when the embedding program passes it to this process, never because a journal names it.

pub use super::registry::{BroughtBounds, ENDS_AFTER, ServerPool};

use super::registry::{Server, Servers};
use super::servers::{InvalidServers, ToolServers, check};
use bob_actors::tools::registry::Attachment;
use bob_messages::ids::{SessionId, TenantId};
use bob_messages::options::{Isolation, ServerSpec, ServerStart, ServerTransport};
use bob_messages::pool::{Origin, ServerOwner};
use std::path::PathBuf;
use std::sync::Arc;

impl ToolServers {
    /// Attaches these servers to a session of this tenant from its next turn on. Those it does not share start now, without
    /// waiting. `roots` are the session's folders: servers may query them, and one without a folder runs in the first. A spec
    /// without keys refers to the server that the session has under this description.
    ///
    /// # Errors
    /// Returns an error if two have one id, an id is invalid or belongs to another server of the configuration, a key
    /// is missing, or the bounds of brought servers are exceeded. Then nothing changes.
    pub fn bring(
        &self,
        (session, tenant): (&SessionId, Option<&TenantId>),
        launches: &[ServerSpec],
        roots: &Arc<[String]>,
    ) -> Result<(), InvalidServers> {
        let inner = self.inner();
        if inner.surroundings.is_replay {
            // Their results are on the tape; none is started.
            let on_tape = |launch: &ServerSpec| Attachment { launch: launch.stripped(), host: None, lease: None };
            let _replaced = inner.surroundings.registry.give(session, launches.iter().map(on_tape).collect());
            return Ok(());
        }
        let mut servers = inner.servers();
        let had = inner.surroundings.registry.given(session);
        let whole = |launch| had.iter().rfind(|(known, _)| known == launch).map_or(launch, |(_, started)| started);
        let specs: Vec<_> = launches.iter().map(|launch| placed(whole(launch), launch, roots)).collect();
        check(&specs)?;
        let mut wanted = Vec::with_capacity(specs.len());
        for (launch, spec) in launches.iter().zip(specs) {
            match servers.configured.iter().find(|other| other.arguments.spec.id == spec.id) {
                None => wanted.push((launch.stripped(), Some(spec))),
                Some(other) if is_same(&other.arguments.spec, &spec, launch) => wanted.push((launch.stripped(), None)),
                Some(_) => {
                    let text = "the configuration has another tool server of the id";
                    return Err(InvalidServers::new(format!("{text} {:?}; name yours otherwise", spec.id.as_str())));
                }
            }
        }
        let owned: Vec<_> = wanted.iter().filter_map(|(_, spec)| spec.as_ref()).collect();
        let owned: Vec<_> = owned.into_iter().map(|spec| (spec, owner(spec, tenant, session))).collect();
        self.make_room(&mut servers, session, &had, &owned)?;
        if let Some(recorder) = &inner.surroundings.recorder {
            recorder.keep_off(launches.iter().flat_map(ServerSpec::confided));
        }
        let attachments = wanted
            .into_iter()
            .map(|(launch, spec)| match spec {
                Some(spec) => self.attachment(&mut servers, launch, &spec, &owner(&spec, tenant, session)),
                None => Attachment { launch, host: None, lease: None },
            })
            .collect();
        let replaced = inner.surroundings.registry.give(session, attachments);
        drop(servers);
        drop(replaced);
        Ok(())
    }

    /// Reports the session's folders from its next turn on to its servers, as far as its options still name them.
    /// Starts no server that it does not have.
    ///
    /// # Errors
    /// As [`bring`](Self::bring).
    pub fn move_to(
        &self,
        (session, tenant): (&SessionId, Option<&TenantId>),
        launches: &[ServerSpec],
        roots: &Arc<[String]>,
    ) -> Result<(), InvalidServers> {
        let had = self.inner().surroundings.registry.given(session);
        let has = |launch: &&ServerSpec| had.iter().any(|(known, _)| known == *launch);
        let had: Vec<_> = launches.iter().filter(has).cloned().collect();
        if had.is_empty() { Ok(()) } else { self.bring((session, tenant), &had, roots) }
    }

    /// Ensures that these servers of a session are within the bounds. Ends unused servers early if necessary.
    fn make_room(
        &self,
        servers: &mut Servers,
        session: &SessionId,
        had: &[(ServerSpec, ServerSpec)],
        wanted: &[(&ServerSpec, ServerOwner)],
    ) -> Result<(), InvalidServers> {
        let inner = self.inner();
        let BroughtBounds { runtime, session: of_one } = inner.surroundings.brought_bounds;
        let mut others: Vec<&ServerSpec> = Vec::new();
        for (_, started) in had {
            if !others.contains(&started) && wanted.iter().all(|(spec, _)| *spec != started) {
                others.push(started);
            }
        }
        if wanted.len() > of_one || others.len() + wanted.len() > 2 * of_one {
            let text = format!(
                "the session {session} would have more than {of_one} tool servers of its own, which is as many as a session \
                 may bring; bring fewer, or run a turn, after which those end that it names no more"
            );
            return Err(InvalidServers::new(text));
        }
        let wanted: Vec<_> = wanted.iter().map(|(spec, owner)| (*spec, owner)).collect();
        match servers.pool.make_room(Origin::Brought, &wanted) {
            Ok(ended) => {
                inner.end_now(servers, &ended);
                Ok(())
            }
            Err(in_use) => Err(InvalidServers::new(format!(
                "sessions use {in_use} tool servers that they brought, and a runtime has {runtime} at most; close a session \
                 that brought some, or bring what another one has"
            ))),
        }
    }

    fn attachment(
        &self,
        servers: &mut Servers,
        launch: ServerSpec,
        spec: &ServerSpec,
        owner: &ServerOwner,
    ) -> Attachment {
        let inner = self.inner();
        let (host, lease) = inner.take(servers, spec, owner, None);
        let is_it = |server: &&Server| server.owner == *owner && server.arguments.spec == *spec;
        if host.is_down()
            && let Some(server) = servers.pooled.iter().find(is_it)
        {
            // Bringing it again counts as a manual restart.
            inner.desired.replace(&server.name, Some(server.child.clone()));
        }
        Attachment { launch, host: Some(host), lease: Some(lease) }
    }
}

/// Whose the process of a server is that a session brings: never that of several tenants.
fn owner(spec: &ServerSpec, tenant: Option<&TenantId>, session: &SessionId) -> ServerOwner {
    match spec.isolation {
        Isolation::Session => ServerOwner::Session(session.clone()),
        Isolation::Shared | Isolation::Tenant => ServerOwner::Tenant(tenant.cloned()),
    }
}

/// Whether a configured server equals one that a session brings, which then uses the configured one. One that more sessions
/// share than the session asks for is another one.
fn is_same(configured: &ServerSpec, brought: &ServerSpec, launch: &ServerSpec) -> bool {
    if configured.isolation < brought.isolation {
        return false;
    }
    let names_no_folder = matches!(&launch.transport, ServerTransport::Stdio(command) if command.folder.is_none());
    match (&configured.transport, &brought.transport) {
        (ServerTransport::Stdio(one), ServerTransport::Stdio(other)) => {
            let is_there = one.folder == other.folder || names_no_folder;
            is_there && (one.program(), &one.args, &one.env) == (other.program(), &other.args, &other.env)
        }
        (one, other) => one == other,
    }
}

/// The spec to start for a launch, with the keys of `whole`. The folders it sees are part of its identity.
fn placed(whole: &ServerSpec, launch: &ServerSpec, roots: &Arc<[String]>) -> ServerSpec {
    let (start, required, roots) = (ServerStart::Eager, false, Arc::clone(roots));
    let mut spec = ServerSpec { start, required, roots, ..whole.clone() };
    if let (ServerTransport::Stdio(command), ServerTransport::Stdio(launch)) = (&mut spec.transport, &launch.transport)
    {
        command.folder = launch.folder.clone().or_else(|| spec.roots.first().map(PathBuf::from));
    }
    spec
}
