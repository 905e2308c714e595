//! The tool servers that sessions bring, as children of the tools supervisor.
//!
//! Owns which sessions use which of them. Sessions that bring the same (the same id, command,
//! arguments, environment, folder and roots, or address and headers) share one actor and its
//! process; nobody else sees its tools. It ends some time after the last of them let go. A
//! server is started because the embedding program brought it, here and now: what a journal
//! names was brought to an earlier process, and nothing of it is started.

pub use super::brought_servers::BroughtBounds;

use super::brought_servers::{Server, State};
use super::servers::{InvalidServers, Surroundings, ToolServers, check};
use crate::children::ChildSpec;
use bob_actors::child::ChildSpec as Program;
use bob_actors::mcp::{HttpSpec, McpServerArguments, ServerSpec, Transport};
use bob_actors::tools::plane::{Gift, GuestHost, Lease};
use bob_messages::ids::SessionId;
use bob_messages::options::{Named, Reach, ServerLaunch};
use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How long a server stays after the last session that brought it, unless said otherwise.
pub const ENDS_AFTER: Duration = Duration::from_secs(600);

impl ToolServers {
    /// Gives a session these servers, from its next turn on. Those it does not share start now;
    /// nobody is waited for. `roots` are the session's folders: what a server is told that
    /// asks, and where one runs that names no folder. One whose keys are not given again is
    /// the one the session has under this description.
    ///
    /// # Errors
    /// When two have the same id, one has an id no server may have or that of another one of
    /// the configuration, a key is missing, or there would be more than the
    /// [bounds](Surroundings::brought_bounds) allow. Then nothing changes.
    pub fn bring(
        &self,
        session: &SessionId,
        launches: &[ServerLaunch],
        roots: &Arc<[String]>,
    ) -> Result<(), InvalidServers> {
        let inner = self.inner();
        if inner.house.is_replay {
            // What they return is on the tape; nothing of them is started.
            let on_tape = |launch: &ServerLaunch| Gift { launch: launch.stripped(), host: None, lease: None };
            inner.house.plane.give(session, launches.iter().map(on_tape).collect());
            return Ok(());
        }
        let mut state = inner.brought.lock();
        let mut specs = Vec::with_capacity(launches.len());
        for launch in launches {
            let known = Some(launch).filter(|launch| **launch == launch.stripped());
            let known = known.and_then(|launch| state.used_by(session, launch));
            specs.push(match known {
                Some(server) => placed(server.arguments.spec.clone(), launch, roots),
                None => spec(launch, roots)?,
            });
        }
        check(&specs)?;
        let configured = self.configured();
        let mut wanted = Vec::with_capacity(specs.len());
        for (launch, spec) in launches.iter().zip(specs) {
            match configured.iter().find(|other| other.id == spec.id) {
                None => wanted.push((launch.stripped(), Some(spec))),
                Some(other) if is_same(other, &spec, launch) => wanted.push((launch.stripped(), None)),
                Some(_) => {
                    let text = "the configuration has another tool server of the id";
                    return Err(InvalidServers::new(format!("{text} {:?}; name yours otherwise", spec.id.as_str())));
                }
            }
        }
        self.make_room(&mut state, session, wanted.iter().filter_map(|(_, spec)| spec.as_ref()).collect())?;
        if let Some(recorder) = &inner.house.recorder {
            recorder.keep_off(launches.iter().flat_map(ServerLaunch::confided));
        }
        let gifts = wanted
            .into_iter()
            .map(|(launch, spec)| match spec {
                Some(spec) => self.gift(&mut state, session, launch, spec),
                None => Gift { launch, host: None, lease: None },
            })
            .collect();
        drop(state);
        inner.house.plane.give(session, gifts);
        Ok(())
    }

    /// The session works in other folders from its next turn on: the servers it has are told so,
    /// as far as its options still name them. Nothing is started that it does not have.
    ///
    /// # Errors
    /// As [`bring`](Self::bring).
    pub fn move_to(
        &self,
        session: &SessionId,
        launches: &[ServerLaunch],
        roots: &Arc<[String]>,
    ) -> Result<(), InvalidServers> {
        let state = self.inner().brought.lock();
        let had: Vec<_> = launches.iter().filter(|launch| state.used_by(session, launch).is_some()).cloned().collect();
        drop(state);
        if had.is_empty() { Ok(()) } else { self.bring(session, &had, roots) }
    }

    /// The session is over: what it brought ends some time after the last session that shares it.
    pub fn take_away(&self, session: &SessionId) {
        self.inner().house.plane.take_away(session);
    }

    /// Sees to it that these servers of a session are within the bounds. Servers that nobody uses any more end for
    /// it before their time.
    fn make_room(
        &self,
        state: &mut State,
        session: &SessionId,
        wanted: Vec<&ServerSpec>,
    ) -> Result<(), InvalidServers> {
        let inner = self.inner();
        let BroughtBounds { runtime, session: of_one } = inner.house.brought_bounds;
        let is_wanted = |server: &Server| wanted.contains(&&server.arguments.spec);
        let had = state.servers.iter().filter(|server| server.users.contains_key(session) && !is_wanted(server));
        if wanted.len() > of_one || had.count() + wanted.len() > 2 * of_one {
            let text = format!(
                "the session {session} would have more than {of_one} tool servers of its own, which is as many as a session \
                 may bring; bring fewer, or run a turn, after which those end that it names no more"
            );
            return Err(InvalidServers::new(text));
        }
        let is_there = |spec: &&&ServerSpec| state.servers.iter().any(|server| server.arguments.spec == ***spec);
        let more = wanted.len() - wanted.iter().filter(is_there).count();
        let too_many = (state.servers.len() + more).saturating_sub(runtime);
        let unused = state.servers.iter().filter(|server| server.users.is_empty() && !is_wanted(server));
        let ending: Vec<_> = unused.take(too_many).map(|server| server.name.clone()).collect();
        if more > 0 && ending.len() < too_many {
            let text = format!(
                "sessions use {} tool servers that they brought, and a runtime has {runtime} at most; close a session that \
                 brought some, or bring what another one has",
                state.servers.len() - ending.len()
            );
            return Err(InvalidServers::new(text));
        }
        ending.iter().for_each(|name| self.end_now(state, name));
        Ok(())
    }

    fn end_now(&self, state: &mut State, name: &str) {
        let Some(at) = state.servers.iter().position(|server| server.name == name) else { return };
        let server = state.servers.remove(at);
        self.inner().roster.replace(name, None);
        state.left.push(server.arguments);
    }

    fn gift(&self, state: &mut State, session: &SessionId, launch: ServerLaunch, spec: ServerSpec) -> Gift {
        let inner = self.inner();
        let at = state.servers.iter().position(|server| server.arguments.spec == spec).unwrap_or_else(|| {
            state.count += 1;
            let name = format!("{}~{}", spec.id, state.count);
            state.left.retain(|before| !before.is_vacant());
            let before = state.left.iter().find(|before| before.spec == spec);
            let arguments = inner.house.arguments(before, spec);
            let (host, child) = inner.house.guest(&name, arguments.clone());
            inner.roster.replace(&name, Some(child.clone()));
            let users = HashMap::new();
            state.servers.push(Server { name, launch: launch.clone(), arguments, child, host, users, used: 0 });
            state.servers.len() - 1
        });
        let server = &mut state.servers[at];
        if server.users.is_empty() {
            server.used += 1;
        }
        if server.host.is_down() {
            // Whoever brings it again asks for it by hand.
            inner.roster.replace(&server.name, Some(server.child.clone()));
        }
        *server.users.entry(session.clone()).or_default() += 1;
        let (weak, name, who) = (Arc::downgrade(inner), server.name.clone(), session.clone());
        let lease = Lease::new(move || {
            if let Some(inner) = weak.upgrade() {
                Self::of(inner).let_go(&name, &who);
            }
        });
        Gift { launch, host: Some(server.host.clone()), lease: Some(lease) }
    }

    /// A lease has ended; with the last one the server's time begins to run.
    fn let_go(self, name: &str, session: &SessionId) {
        let mut state = self.inner().brought.lock();
        let Some(server) = state.servers.iter_mut().find(|server| server.name == name) else { return };
        if let Some(leases) = server.users.get_mut(session) {
            *leases -= 1;
            if *leases == 0 {
                server.users.remove(session);
            }
        }
        if !server.users.is_empty() {
            return;
        }
        let (name, used, after) = (server.name.clone(), server.used, self.inner().house.brought_end_after);
        drop(state);
        let weak = Arc::downgrade(self.inner());
        let end = move || {
            if let Some(inner) = weak.upgrade() {
                Self::of(inner).end(&name, used);
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

    fn end(self, name: &str, used: u64) {
        let inner = self.inner();
        let mut state = inner.brought.lock();
        let is_over = |server: &Server| server.name == name && server.used == used && server.users.is_empty();
        if state.servers.iter().any(is_over) {
            self.end_now(&mut state, name);
        }
    }
}

/// Whether a configured server is what a session brings: then it uses that one.
fn is_same(configured: &ServerSpec, brought: &ServerSpec, launch: &ServerLaunch) -> bool {
    let names_no_folder = matches!(&launch.reach, Reach::Stdio { folder: None, .. });
    match (&configured.transport, &brought.transport) {
        (Transport::Stdio(one), Transport::Stdio(other)) => {
            let folder = one.folder == other.folder || names_no_folder;
            folder && (&one.program, &one.args, &one.env) == (&other.program, &other.args, &other.env)
        }
        (Transport::Http(one), Transport::Http(other)) => one == other,
        (Transport::Stdio(_), Transport::Http(_)) | (Transport::Http(_), Transport::Stdio(_)) => false,
    }
}

/// What is to be started for a launch.
fn spec(launch: &ServerLaunch, roots: &Arc<[String]>) -> Result<ServerSpec, InvalidServers> {
    let value = |named: &Named, what: &str| {
        named.value.expose().map(str::to_owned).ok_or_else(|| {
            let (id, name) = (&launch.id, &named.name);
            InvalidServers::new(format!(
                "the tool server `{id}` needs its {what} {name}, which is kept nowhere: give it"
            ))
        })
    };
    let transport = match &launch.reach {
        Reach::Stdio { command, args, env, folder: _ } => {
            let env = env.iter().map(|named| Ok((named.name.clone().into(), value(named, "variable")?.into())));
            let env = env.collect::<Result<_, InvalidServers>>()?;
            Transport::Stdio(Program { env, ..Program::new(command, args) })
        }
        Reach::Http { url, headers } => headers
            .iter()
            .try_fold(HttpSpec::new(url), |spec, named| {
                Ok::<_, InvalidServers>(spec.with_header(&named.name, value(named, "header")?))
            })
            .map(Transport::Http)?,
    };
    let bare = ServerSpec::new(launch.id.clone(), transport);
    let spec = ServerSpec {
        offered: launch.tools.clone(),
        startup_timeout_ms: launch.startup_timeout_ms.unwrap_or(bare.startup_timeout_ms),
        tool_timeout_ms: launch.tool_timeout_ms,
        ..bare
    };
    Ok(placed(spec, launch, roots))
}

/// The same where the session works: which folders a server sees belongs to what it is.
fn placed(mut spec: ServerSpec, launch: &ServerLaunch, roots: &Arc<[String]>) -> ServerSpec {
    if let (Transport::Stdio(program), Reach::Stdio { command, folder, .. }) = (&mut spec.transport, &launch.reach) {
        let folder = folder.as_ref().or(roots.first()).map(PathBuf::from);
        program.program = located(folder.as_deref(), command);
        program.folder = folder;
    }
    ServerSpec { roots: Arc::clone(roots), ..spec }
}

/// A bare name is looked up on the PATH; a path starts in the folder.
fn located(folder: Option<&Path>, command: &str) -> OsString {
    match folder {
        Some(folder) if command.contains('/') => folder.join(command).into_os_string(),
        Some(_) | None => command.into(),
    }
}

impl Surroundings {
    /// A server that only the sessions see that are given it, and the child it is.
    fn guest(&self, name: &str, arguments: McpServerArguments) -> (GuestHost, ChildSpec) {
        let (joining, address) = (Self::joining(&arguments.spec), bob_actors::address::Address::default());
        let (host, shelf) = self.plane.join_as_guest(joining, address.clone());
        (host, self.child_at(name.to_owned(), arguments, address, shelf))
    }
}
