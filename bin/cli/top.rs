//! `top`: a full-screen view of a running process, over its control socket, or of a store of several machines.
//!
//! Owns the terminal while it runs. The view is a value ([`model`]), keys are handled by a function of it, and
//! drawing changes nothing, so all of it is tested without a terminal.
//!
//! - `model`: the data, the selection, and the actions of keys
//! - `keys`: what a person types
//! - `rows`: the tree as a list of lines
//! - `draw`, `panels`, `boxes`: render the model
//! - `shared`: a store of several machines that no process of this one uses

mod boxes;
mod draw;
mod figures;
mod keys;
mod model;
mod panels;
mod rows;
mod shared;

use std::io::{self, IsTerminal};
use std::time::Duration;

use bob_config::{Config, StoreKind, sanitise};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{Event, KeyEventKind};
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::sync::watch;

use crate::arguments::TopArgs;
use crate::commands::ps::store;
use crate::control::client::{self, Process};
use crate::control::wire::{Request, Response};
use crate::exit::{Exit, Failure};
use crate::runtime::signals::Signals;
use keys::keys;
use model::{Model, Seen, UserAction};

/// How often the process is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Shows a process until a person leaves.
pub(crate) async fn top(args: &TopArgs, config: &Config) -> Result<Exit, Failure> {
    if !(io::stdin().is_terminal() && io::stdout().is_terminal()) {
        return Err(Failure::usage("top needs a terminal; `cli-agent ps --watch` works on a pipe"));
    }
    if crate::terminal::print::is_plain() {
        return Err(Failure::usage(
            "top draws on the whole screen; `cli-agent ps --watch` has the same as plain lines",
        ));
    }
    let mut signals = Signals::new().map_err(|error| Failure::internal(format!("cannot catch signals: {error}")))?;
    let found = client::the_one(config, args.pid).await;
    let may_be_elsewhere = args.pid.is_none() && config.store.kind == StoreKind::Postgres;
    if found.is_err()
        && may_be_elsewhere
        && client::processes(config).await.is_empty()
        && let Some(store) = store::opened(config)?
    {
        return shared::top(store, config, &mut signals).await;
    }
    let mut process = found?;
    let mut model =
        Model::new(process.hello.clone(), std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty()));
    model.take(*process.look().await?);
    let refused = |error: io::Error| Failure::internal(format!("cannot use the terminal: {error}"));
    let mut terminal = ratatui::try_init().map_err(refused)?;
    let shown = show(&mut terminal, model, process, looking(config), &mut signals).await;
    ratatui::restore();
    shown.map_err(Failure::from)
}

async fn show(
    terminal: &mut DefaultTerminal,
    mut model: Model,
    process: Process,
    mut seen: watch::Receiver<Seen>,
    signals: &mut Signals,
) -> io::Result<Exit> {
    let (asks, asked) = mpsc::channel(8);
    let (say, mut said) = mpsc::channel(8);
    let talking = tokio::spawn(talk(process, asked, say));
    let mut keys = keys();
    let mut tick = tokio::time::interval(LOOK_EVERY);
    let exit = loop {
        let shown = terminal.draw(|frame| draw::draw(&model, frame))?;
        model.size = (shown.area.width, shown.area.height);
        model.last_first_line = boxes::last_first_line(&model);
        tokio::select! {
            // A request that is still pending is not repeated.
            _ = tick.tick() => drop(asks.try_send(Request::Look)),
            Some(answer) = said.recv() => model.told(answer),
            // Without a store to look at there is no sender.
            Ok(()) = seen.changed() => model.seen = seen.borrow_and_update().clone(),
            event = keys.recv() => match event {
                Some(Event::Key(key)) if key.kind != KeyEventKind::Release => match model.key(key) {
                    Some(UserAction::Leave) => break Exit::Success,
                    Some(UserAction::Request(question)) => drop(asks.try_send(question)),
                    None => {}
                },
                Some(Event::Resize(columns, rows)) => model.size = (columns, rows),
                Some(_nothing_of_ours) => {}
                None => break Exit::Success,
            },
            caught = signals.next() => break caught.exit(),
        }
    };
    talking.abort();
    Ok(exit)
}

/// Looks at the store of several machines, and at the messages that wait in another one. The task ends with its reader.
fn looking(config: &Config) -> watch::Receiver<Seen> {
    let (tell, seen) = watch::channel(Seen::default());
    let config = config.clone();
    tokio::spawn(async move {
        let Ok(Some(opened)) = store::opened(&config) else { return };
        loop {
            let (line, nodes) = match store::overview(&*opened).await {
                Ok(Some(overview)) => (Some(store::short(&overview)), store::report(&overview)),
                Ok(None) => (None, String::new()),
                Err(failure) => (Some(format!("cannot be looked at: {}", failure.message)), String::new()),
            };
            let line = line.map(|line| rows::clean(&line, 200));
            let nodes = sanitise::clean(&nodes).lines().map(str::to_owned).collect();
            if tell.send(Seen { line, nodes }).is_err() {
                return;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    });
    seen
}

/// Sends requests in order, until the channel or the process ends.
async fn talk(mut process: Process, mut asked: Receiver<Request>, say: Sender<Result<Response, Failure>>) {
    while let Some(question) = asked.recv().await {
        let answer = process.ask(question).await;
        let is_gone = answer.as_ref().is_err_and(|failure| failure.exit == Exit::TryLater);
        if say.send(answer).await.is_err() || is_gone {
            return;
        }
    }
}
