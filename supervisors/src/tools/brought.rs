//! The tool servers that sessions bring, as children of the tools supervisor.
//!
//! Owns the assignment of servers to sessions. Sessions with equal specs (id, command, arguments, environment, folder
//! and roots, or address and headers) share one actor and process; other sessions do not see its tools. A server ends
//! some time after the last session detached it. It is started only when the embedding program passes it to this
//! process, never because a journal names it.

pub use super::registry::BroughtBounds;

use super::registry::{Server, Servers};
use super::servers::{Inner, InvalidServers, Surroundings, ToolServers, check};
use crate::children::ChildSpec;
use bob_actors::mcp::McpServerArguments;
use bob_actors::tools::registry::{Attachment, Lease, SessionHost};
use bob_messages::ids::SessionId;
use bob_messages::options::{ServerSpec, ServerStart, ServerTransport};
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Default time until a server ends after the last session detached it.
pub const ENDS_AFTER: Duration = Duration::from_secs(600);

impl ToolServers {
    /// Attaches these servers to a session from its next turn on. Those it does not share start now, without waiting.
    /// `roots` are the session's folders: servers may query them, and one without a folder runs in the first. A spec
    /// without keys refers to the server that the session has under this description.
    ///
    /// # Errors
    /// Returns an error if two have one id, an id is invalid or belongs to another server of the configuration, a key
    /// is missing, or the [bounds](Surroundings::brought_bounds) are exceeded. Then nothing changes.
    pub fn bring(
        &self,
        session: &SessionId,
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
            match servers.configured.iter().find(|other| other.spec.id == spec.id) {
                None => wanted.push((launch.stripped(), Some(spec))),
                Some(other) if is_same(&other.spec, &spec, launch) => wanted.push((launch.stripped(), None)),
                Some(_) => {
                    let text = "the configuration has another tool server of the id";
                    return Err(InvalidServers::new(format!("{text} {:?}; name yours otherwise", spec.id.as_str())));
                }
            }
        }
        self.make_room(&mut servers, session, &had, wanted.iter().filter_map(|(_, spec)| spec.as_ref()).collect())?;
        if let Some(recorder) = &inner.surroundings.recorder {
            recorder.keep_off(launches.iter().flat_map(ServerSpec::confided));
        }
        let attachments = wanted
            .into_iter()
            .map(|(launch, spec)| match spec {
                Some(spec) => self.attachment(&mut servers, launch, spec),
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
        session: &SessionId,
        launches: &[ServerSpec],
        roots: &Arc<[String]>,
    ) -> Result<(), InvalidServers> {
        let had = self.inner().surroundings.registry.given(session);
        let has = |launch: &&ServerSpec| had.iter().any(|(known, _)| known == *launch);
        let had: Vec<_> = launches.iter().filter(has).cloned().collect();
        if had.is_empty() { Ok(()) } else { self.bring(session, &had, roots) }
    }

    /// Ensures that these servers of a session are within the bounds. Ends unused servers early if necessary.
    fn make_room(
        &self,
        servers: &mut Servers,
        session: &SessionId,
        had: &[(ServerSpec, ServerSpec)],
        wanted: Vec<&ServerSpec>,
    ) -> Result<(), InvalidServers> {
        let inner = self.inner();
        let BroughtBounds { runtime, session: of_one } = inner.surroundings.brought_bounds;
        let is_wanted = |server: &Server| wanted.contains(&&server.arguments.spec);
        let is_its = |server: &Server| had.iter().any(|(_, started)| *started == server.arguments.spec);
        let had = servers.brought.iter().filter(|server| is_its(server) && !is_wanted(server));
        if wanted.len() > of_one || had.count() + wanted.len() > 2 * of_one {
            let text = format!(
                "the session {session} would have more than {of_one} tool servers of its own, which is as many as a session \
                 may bring; bring fewer, or run a turn, after which those end that it names no more"
            );
            return Err(InvalidServers::new(text));
        }
        let is_there = |spec: &&&ServerSpec| servers.brought.iter().any(|server| server.arguments.spec == ***spec);
        let more = wanted.len() - wanted.iter().filter(is_there).count();
        let too_many = (servers.brought.len() + more).saturating_sub(runtime);
        let unused = servers.brought.iter().filter(|server| server.lease.strong_count() == 0 && !is_wanted(server));
        let ending: Vec<_> = unused.take(too_many).map(|server| server.name.clone()).collect();
        if more > 0 && ending.len() < too_many {
            let text = format!(
                "sessions use {} tool servers that they brought, and a runtime has {runtime} at most; close a session that \
                 brought some, or bring what another one has",
                servers.brought.len() - ending.len()
            );
            return Err(InvalidServers::new(text));
        }
        ending.iter().for_each(|name| inner.end_now(servers, name));
        Ok(())
    }

    fn attachment(&self, servers: &mut Servers, launch: ServerSpec, spec: ServerSpec) -> Attachment {
        let inner = self.inner();
        let at = servers.brought.iter().position(|server| server.arguments.spec == spec).unwrap_or_else(|| {
            servers.count += 1;
            let name = format!("{}~{}", spec.id, servers.count);
            servers.ending.retain(|before| !before.is_vacant());
            let before = servers.ending.iter().find(|before| before.spec == spec);
            let arguments = inner.surroundings.arguments(before, spec);
            let (host, child) = inner.surroundings.guest(&name, arguments.clone());
            inner.desired.replace(&name, Some(child.clone()));
            servers.brought.push(Server { name, arguments, child, host, lease: Weak::new(), leases: 0 });
            servers.brought.len() - 1
        });
        let server = &mut servers.brought[at];
        if server.host.is_down() {
            // Bringing it again counts as a manual restart.
            inner.desired.replace(&server.name, Some(server.child.clone()));
        }
        let lease = server.lease.upgrade().unwrap_or_else(|| {
            server.leases += 1;
            let (weak, name, number) = (Arc::downgrade(inner), server.name.clone(), server.leases);
            let lease = Arc::new(Lease::new(move || Self::end_later(weak, name, number)));
            server.lease = Arc::downgrade(&lease);
            lease
        });
        Attachment { launch, host: Some(server.host.clone()), lease: Some(lease) }
    }

    /// The lease of this number has ended: the server's time begins to run, unless there is another one by then.
    fn end_later(inner: Weak<Inner>, name: String, number: u64) {
        let Some(after) = inner.upgrade().map(|inner| inner.surroundings.brought_end_after) else { return };
        let end = move || {
            let Some(inner) = inner.upgrade() else { return };
            let mut servers = inner.servers();
            if servers.brought.iter().any(|server| server.name == name && server.leases == number) {
                inner.end_now(&mut servers, &name);
            }
        };
        // A lease may end while the program does, outside any runtime.
        match tokio::runtime::Handle::try_current() {
            Ok(tasks) => drop(tasks.spawn(async move {
                tokio::time::sleep(after).await;
                end();
            })),
            Err(_no_runtime) => end(),
        }
    }
}

impl Inner {
    fn end_now(&self, servers: &mut Servers, name: &str) {
        let Some(at) = servers.brought.iter().position(|server| server.name == name) else { return };
        servers.ending.push(servers.brought.remove(at).arguments);
        self.desired.replace(name, None);
    }
}

/// Whether a configured server equals one that a session brings, which then uses the configured one.
fn is_same(configured: &ServerSpec, brought: &ServerSpec, launch: &ServerSpec) -> bool {
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

impl Surroundings {
    /// A server that only the sessions see that are given it, and the child it is.
    fn guest(&self, name: &str, arguments: McpServerArguments) -> (SessionHost, ChildSpec) {
        let address = bob_actors::address::Address::default();
        let (host, publisher) = self.registry.join_as_guest(&arguments.spec, address.clone());
        (host, self.child_at(name.to_owned(), arguments, address, publisher))
    }
}
