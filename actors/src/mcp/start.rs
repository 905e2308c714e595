//! Starts a server, up to its list of tools.

use super::arguments::Asking;
use super::connection_end::HealthSignals;
use super::keeper::{Held, Keeper, Started, ended_or, exited};
use super::rmcp::{Connection, Discovery, Handler, Misfit};
use crate::child::{Child, ChildSpec, ExitWatch, Stdin, Stdout};
use crate::time_budget::TimeBudget;
use bob_messages::options::{CommandSpec, Named, ServerTransport};
use std::sync::Arc;
use tokio::process::{ChildStdin, ChildStdout};

struct Unready {
    /// The reason; it follows the server's name.
    why: String,
    /// Whether the server ended or closed the connection.
    ended: bool,
    /// Whether its time was over.
    is_late: bool,
}

impl From<String> for Unready {
    fn from(why: String) -> Self {
        Self { why, ended: false, is_late: false }
    }
}

struct Process {
    exit: ExitWatch,
    stdout: ChildStdout,
    stdin: ChildStdin,
}

impl Keeper {
    /// Starts the server, or begins a session with it, and reads its tools.
    ///
    /// While a person signs in, no limit of a start counts but that of signing in: then the start begins anew.
    pub(super) async fn start(&self, held: &mut Held) -> Result<Started, String> {
        loop {
            let tokens = self.arguments.tokens();
            let pages = tokens.as_ref().map(|tokens| tokens.pages());
            match (self.start_in_time(held).await, tokens.zip(pages)) {
                (Err(Unready { is_late: true, .. }), Some((tokens, pages))) if tokens.pages() > pages => {
                    tokens.settled().await?;
                }
                (started, _) => return started.map_err(|unready| unready.why),
            }
        }
    }

    /// A server of an older version may end because of a question that is no handshake. Then it is started once more,
    /// and neither it nor its successors are asked again. One that answers the question when the handshake was sent, and
    /// is not ready for that, is started once more, too: it and its successors are asked and waited for.
    async fn start_in_time(&self, held: &mut Held) -> Result<Started, Unready> {
        let (spec, place) = (&self.arguments.spec, &self.arguments.place);
        let mut budget = TimeBudget::of(spec.startup_timeout());
        let asking = place.asking();
        let limit = spec.startup_timeout();
        let discovery = match asking {
            Asking::OrElseNot | Asking::Alone => Some(Discovery::of(limit)),
            Asking::Only => Some(Discovery::alone(limit)),
            Asking::Not => None,
        };
        let (mut both_ways, mut was_late) = (false, false);
        let started = self.start_once(held, discovery.clone(), &mut budget).await;
        let started = match (started, discovery) {
            (Err(unready), Some(discovery)) if held.child.is_some() && discovery.was_late() => {
                was_late = true;
                if unready.is_late {
                    Err(unready)
                } else {
                    held.end_process(&self.arguments).await;
                    self.start_once(held, Some(Discovery::alone(limit)), &mut budget).await
                }
            }
            (Err(Unready { ended: true, .. }), Some(discovery))
                if held.child.is_some() && asking == Asking::OrElseNot && !discovery.found_newest() =>
            {
                held.end_process(&self.arguments).await;
                both_ways = true;
                self.start_once(held, None, &mut budget).await
            }
            (started, _) => started,
        };
        let has_handshake = started.as_ref().is_ok_and(|started| started.connection.has_handshake());
        place.found_handshake(has_handshake);
        // What failed in another way may be something else by the next start, and is asked about both.
        place.found_late(match &started {
            Ok(_) => was_late || asking == Asking::Only,
            Err(unready) => was_late && unready.is_late,
        });
        place.started(started.is_ok(), both_ways);
        started
    }

    async fn start_once(
        &self,
        held: &mut Held,
        discovery: Option<Discovery>,
        budget: &mut TimeBudget,
    ) -> Result<Started, Unready> {
        let spec = &self.arguments.spec;
        let (signs, handler) = (HealthSignals::default(), || self.handler());
        let (mut exit, opening) = match &spec.transport {
            ServerTransport::Stdio(command) => {
                let Process { exit, stdout, stdin } = self.spawn(command, held)?;
                (Some(exit), futures_util::future::Either::Left(Connection::open(stdout, stdin, handler(), discovery)))
            }
            ServerTransport::Http(http) => {
                let suspect = Arc::clone(&signs.suspect);
                let tokens = self.arguments.tokens();
                (
                    None,
                    futures_util::future::Either::Right(Connection::reach(http, handler, suspect, discovery, tokens)),
                )
            }
        };
        let ready = async {
            let (connection, gone) = opening.await?;
            let listed = self.list(&connection).await?;
            Ok::<_, Misfit>((connection, gone, listed))
        };
        let ready = tokio::select! { biased;
            // In the words for a server whose end is noticed by its closed output first.
            exit = exited(&mut exit) => return Err(Unready { why: exit, ended: true, is_late: false }),
            ready = budget.within(ready) => ready,
        };
        match ready {
            Some(Ok((connection, gone, listed))) => Ok(Started { connection, gone, listed, signs, exit }),
            Some(Err(Misfit { why, closed: true, .. })) => {
                Err(Unready { why: ended_or(&mut exit, &why).await, ended: true, is_late: false })
            }
            Some(Err(Misfit { why, closed: false, .. })) => Err(Unready::from(why)),
            None => {
                let limit_ms = spec.startup_timeout_ms;
                let advice = "see what it waits for, or raise startup_timeout_ms";
                let why = format!("was not ready within {limit_ms} ms; {advice}");
                Err(Unready { why, ended: false, is_late: true })
            }
        }
    }

    fn spawn(&self, command: &CommandSpec, held: &mut Held) -> Result<Process, String> {
        let child = Child::spawn(child(command), &self.arguments.watcher);
        let child = child.map_err(|error| format!("does not start: {error}"))?;
        let child = held.child.insert(child);
        if let Some(publisher) = &self.arguments.publisher {
            publisher.runs(Some(child.id()));
        }
        let (Some(stdout), Some(stdin)) = (child.take_stdout(), child.take_stdin()) else {
            return Err("does not start: it has no pipes".to_owned());
        };
        Ok(Process { exit: child.exit_watch(), stdout, stdin })
    }

    fn handler(&self) -> Handler {
        let spec = &self.arguments.spec;
        let elicit = self.arguments.elicit.clone();
        let handler =
            Handler::new(spec.id.clone(), Arc::clone(&spec.roots), elicit, Arc::clone(&self.shared.look_again));
        handler.owned_by(self.arguments.owner.as_ref())
    }
}

fn child(spec: &CommandSpec) -> ChildSpec {
    let value = |named: &Named| Some((named.name.clone().into(), named.value.expose()?.into()));
    let (folder, env) = (spec.folder.clone(), spec.env.iter().filter_map(value).collect());
    ChildSpec { folder, env, stdin: Stdin::Piped, stdout: Stdout::Piped, ..ChildSpec::new(spec.program(), &spec.args) }
}
