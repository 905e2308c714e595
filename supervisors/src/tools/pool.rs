//! The processes of servers that not all sessions share, as children of the tools supervisor: those that sessions bring, and
//! those of the configuration that belong to a tenant or to a session.
//!
//! Which process is whose, and when one ends, is decided by [`Pool`](bob_messages::pool::Pool). One task sleeps until the
//! next unused process is due.

use super::registry::{Server, Servers, in_ms};
use super::servers::{Inner, ToolServers};
use bob_actors::address::Address;
use bob_actors::tools::registry::{KnownTools, Lease, SessionHost};
use bob_messages::ids::SessionId;
use bob_messages::options::ServerSpec;
use bob_messages::pool::{Origin, ServerOwner};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::runtime::Handle;

impl ToolServers {
    /// Ends the servers that a session had alone: it was closed or deleted.
    pub fn session_ended(&self, session: &SessionId) {
        let inner = self.inner();
        let mut servers = inner.servers();
        let ended = servers.pool.end_session(session);
        inner.end_now(&mut servers, &ended);
    }
}

impl Inner {
    /// Gives the process of this owner to one more session; it is started if there is none. There must be room.
    /// `known` are the tools of a server of the configuration.
    pub(super) fn take(
        self: &Arc<Self>,
        servers: &mut Servers,
        spec: &ServerSpec,
        owner: &ServerOwner,
        known: Option<&KnownTools>,
    ) -> (SessionHost, Lease) {
        let origin = if known.is_some() { Origin::Configured } else { Origin::Brought };
        let (number, is_new) = servers.pool.take(origin, spec, owner);
        if is_new {
            self.start(servers, number, spec, owner, known);
        }
        let host = servers.pooled.iter().find(|server| server.number == number).map(|server| server.host.clone());
        let weak = Arc::downgrade(self);
        let lease = Lease::new(move || Self::released(&weak, number));
        // The pool has a number for each process that is listed here.
        (host.expect("a process that was just taken"), lease)
    }

    fn start(
        &self,
        servers: &mut Servers,
        number: u64,
        spec: &ServerSpec,
        owner: &ServerOwner,
        known: Option<&KnownTools>,
    ) {
        let name = format!("{}~{number}", spec.id);
        servers.ending.retain(|(_, before)| !before.is_vacant());
        let before = servers.ending.iter().find(|(of, before)| of == owner && before.spec == *spec);
        let surroundings = &self.surroundings;
        let mut arguments = surroundings.arguments(before.map(|(_, before)| before), spec.clone());
        arguments.owner = Some(owner.clone());
        if known.is_some() {
            arguments.sign_ins = surroundings.sign_ins.clone();
        }
        let address = Address::default();
        let (host, publisher) = match known {
            Some(known) => {
                let place = (name.as_str(), owner);
                surroundings.registry.join_isolated(&arguments.spec, address.clone(), known, place)
            }
            None => surroundings.registry.join_as_guest(&arguments.spec, address.clone()),
        };
        let child = surroundings.child_at(name.clone(), arguments.clone(), address, publisher);
        self.desired.replace(&name, Some(child.clone()));
        servers.pooled.push(Server { number, name, owner: owner.clone(), arguments, child, host });
    }

    /// Ends these processes, which the pool no longer has.
    pub(super) fn end_now(&self, servers: &mut Servers, numbers: &[u64]) {
        let ended: Vec<_> = servers.pooled.extract_if(.., |server| numbers.contains(&server.number)).collect();
        for Server { name, owner, arguments, .. } in ended {
            servers.ending.push((owner, arguments));
            self.desired.replace(&name, None);
        }
    }

    /// A session uses a process no longer.
    fn released(inner: &Weak<Self>, number: u64) {
        let Some(inner) = inner.upgrade() else { return };
        let mut servers = inner.servers();
        servers.pool.release(number, inner.now_ms());
        // A lease may end while the program does, outside any runtime.
        let Ok(tasks) = Handle::try_current() else {
            let ended = servers.pool.end_unused();
            return inner.end_now(&mut servers, &ended);
        };
        if servers.is_swept {
            inner.released.notify_one();
        } else if servers.pool.next_expiry().is_some() {
            servers.is_swept = true;
            drop(tasks.spawn(Self::sweep(Arc::downgrade(&inner))));
        }
    }

    /// Ends processes that are unused for too long, until none is unused.
    async fn sweep(inner: Weak<Self>) {
        loop {
            let Some(inner) = inner.upgrade() else { return };
            let until = {
                let mut servers = inner.servers();
                let ended = servers.pool.expired(inner.now_ms());
                inner.end_now(&mut servers, &ended);
                let Some(next) = servers.pool.next_expiry() else {
                    servers.is_swept = false;
                    return;
                };
                inner.began + Duration::from_millis(next)
            };
            let released = Arc::clone(&inner.released);
            // It must not keep the runtime alive.
            drop(inner);
            tokio::select! {
                () = tokio::time::sleep_until(until) => {}
                () = released.notified() => {}
            }
        }
    }

    fn now_ms(&self) -> u64 {
        in_ms(self.began.elapsed())
    }
}
