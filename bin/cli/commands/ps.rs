//! `ps`, `drain`, `mcp restart` and `mcp reload`: control a running process from another terminal.
//!
//! Each finds its process by the store of its configuration, sends a request over the control socket, and prints the
//! response. `ps` reads what the store knows of processes on other machines and of messages that wait. None of them starts
//! anything.
//!
//! - `nested`: sessions below those that they work for
//! - `store`: what the store knows
//! - `table`: the live tree in 80 columns

pub(crate) mod nested;
pub(crate) mod store;
pub(crate) mod table;

use std::io::{self, IsTerminal};
use std::time::Duration;

use bob::store::StoreOverview;
use bob_config::Config;
use serde_json::{Value, json};

use crate::arguments::{DrainArgs, PsArgs};
use crate::control::client::{self, Process};
use crate::control::wire::{Hello, Look, Request, Response};
use crate::exit::{Exit, Failure};
use crate::runtime::signals::Signals;
use crate::terminal::print;

/// How often a watched tree is drawn again.
const WATCH_EVERY: Duration = Duration::from_secs(1);

/// How long a process may take to end after its last turn: the grace of a shutdown is not counted in, since nothing runs.
const POLL_EVERY: Duration = Duration::from_millis(100);

/// Moves the cursor to the top left and clears the screen.
const NEW_SCREEN: &str = "\x1b[H\x1b[J";

/// `ps`.
pub(crate) async fn ps(args: &PsArgs, config: &Config) -> Result<Exit, Failure> {
    if args.watch {
        return watch(args, config).await;
    }
    let seen = match args.pid {
        Some(_) => None,
        None => looked(config).await,
    };
    let mut all = match meant(args.pid, config).await {
        Err(failure) if seen.is_some() => {
            print::note(&failure.message);
            Vec::new()
        }
        all => all?,
    };
    if args.json {
        let mut processes = Vec::new();
        for process in &mut all {
            let look = process.look().await?;
            processes.push(as_json(&process.hello, &look));
        }
        print::json(&json!({ "processes": processes, "store": store::as_json(seen.as_ref()) }))?;
        return Ok(Exit::Success);
    }
    if let Some(seen) = &seen {
        print::text(&format!("{}\n", store::report(seen)))?;
    }
    if let [process] = all.as_mut_slice() {
        let look = process.look().await?;
        print::text(&table::report(&process.hello, &look, args.all))?;
        return Ok(Exit::Success);
    }
    for process in &mut all {
        let look = process.look().await?;
        print::text(&table::summary(&process.hello, &look))?;
    }
    if !all.is_empty() {
        print::note("several processes use this store; --pid PID shows one");
    }
    Ok(Exit::Success)
}

/// What the store knows. One that cannot be read hides no process.
async fn looked(config: &Config) -> Option<StoreOverview> {
    if !store::is_trusted(config) {
        print::note(
            "[the store is not looked at: it is not trusted, or the configuration is not; see `cli-agent trust`]",
        );
    }
    let seen = async {
        match store::opened(config)? {
            Some(store) => store::overview(&*store).await,
            None => Ok(None),
        }
    };
    seen.await.unwrap_or_else(|failure| {
        print::note(&format!("[the store cannot be looked at: {}]", failure.message));
        None
    })
}

pub(super) async fn meant(pid: Option<u32>, config: &Config) -> Result<Vec<Process>, Failure> {
    let all = client::processes(config).await;
    match (pid, all.len()) {
        (None, 2..) => Ok(all),
        _ => Ok(vec![client::the_one(config, pid).await?]),
    }
}

async fn watch(args: &PsArgs, config: &Config) -> Result<Exit, Failure> {
    let mut signals = Signals::new().map_err(|error| Failure::internal(format!("cannot catch signals: {error}")))?;
    let mut process = client::the_one(config, args.pid).await?;
    let is_screen = io::stdout().is_terminal() && !args.json && !print::is_plain();
    let mut tick = tokio::time::interval(WATCH_EVERY);
    loop {
        tokio::select! {
            _ = tick.tick() => {}
            caught = signals.next() => return Ok(caught.exit()),
        }
        let look = match process.look().await {
            Ok(look) => look,
            Err(failure) => {
                print::note(&failure.message);
                return Ok(Exit::Success);
            }
        };
        if args.json {
            print::json(&as_json(&process.hello, &look))?;
            continue;
        }
        let report = table::report(&process.hello, &look, args.all);
        match is_screen.then(|| rustix::termios::tcgetwinsize(io::stdout()).ok()).flatten() {
            Some(size) => {
                let most = usize::from(size.ws_row).saturating_sub(1);
                let lines: Vec<&str> = report.lines().take(most).collect();
                print::cleaned(&format!("{NEW_SCREEN}{}\n", bob_config::sanitise::clean(&lines.join("\n"))))?;
            }
            None => print::text(&format!("{report}\n"))?,
        }
    }
}

/// A process as programs get it.
fn as_json(hello: &Hello, look: &Look) -> Value {
    json!({
        "pid": hello.pid, "command": hello.command, "version": hello.version, "config": hello.config,
        "store": hello.store, "is_draining": look.is_draining, "tree": look.tree, "metrics": look.metrics,
        "process": look.process,
    })
}

/// `drain`: returns when the process has ended, or at once with `--no-wait`.
pub(crate) async fn drain(args: &DrainArgs, config: &Config) -> Result<Exit, Failure> {
    let mut signals = Signals::new().map_err(|error| Failure::internal(format!("cannot catch signals: {error}")))?;
    let mut process = client::the_one(config, args.pid).await?;
    let Response::Draining { running, waiting } = process.ask(Request::Drain).await? else {
        return Err(client::unexpected());
    };
    let pid = process.hello.pid;
    let turns = print::counted(running, "running turn");
    print::note(&format!("draining process {pid}: {turns} will finish, no new ones are started; {waiting} waiting"));
    if args.no_wait {
        return Ok(Exit::Success);
    }
    loop {
        tokio::select! {
            () = tokio::time::sleep(POLL_EVERY) => {}
            caught = signals.next() => return Ok(caught.exit()),
        }
        if process.look().await.is_err() {
            print::note(&format!("process {pid} has ended"));
            return Ok(Exit::Success);
        }
    }
}

pub(crate) async fn restart_server(id: &str, pid: Option<u32>, config: &Config) -> Result<Exit, Failure> {
    let mut process = client::the_one(config, pid).await?;
    match process.ask(Request::RestartServer { server: id.to_owned() }).await? {
        Response::Restarted => {
            print::note(&format!("restarting {id}; ps shows its state"));
            Ok(Exit::Success)
        }
        _no_answer_to_that => Err(client::unexpected()),
    }
}

/// `mcp reload`. Errors: when there is no such process, or its configuration is invalid; then nothing has changed.
pub(crate) async fn reload_servers(pid: Option<u32>, config: &Config) -> Result<Exit, Failure> {
    let mut process = client::the_one(config, pid).await?;
    let Response::Reloaded { started, changed, stopped, kept } = process.ask(Request::ReloadServers).await? else {
        return Err(client::unexpected());
    };
    print::note(&reloaded([
        ("started", &started),
        ("restarted", &changed),
        ("stopped", &stopped),
        ("unchanged", &kept),
    ]));
    Ok(Exit::Success)
}

pub(crate) fn reloaded<S: AsRef<str>>(lists: [(&str, &[S]); 4]) -> String {
    let named = lists.iter().filter(|(_, ids)| !ids.is_empty()).map(|(what, ids)| {
        let ids: Vec<&str> = ids.iter().map(AsRef::as_ref).collect();
        format!("{what}: {}", ids.join(" "))
    });
    let text = named.collect::<Vec<_>>().join("; ");
    if text.is_empty() { "no tool server is configured".to_owned() } else { text }
}
