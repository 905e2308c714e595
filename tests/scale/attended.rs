//! What other processes put into the inbox reaches the sessions that `run`, `batch`, `chat` and `resume` have.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use crate::home::Home;
use crate::scale::database::{Database, Machine};
use crate::support::program::{Program, Running};
use crate::support::provider::FakeProvider;
use crate::support::reply::Reply;

const SOON: Duration = Duration::from_secs(60);

/// The places that share a store: that of the process that has the session, and that of the one which sends to it.
enum Places<'d> {
    /// One folder, in which the second process sees no control socket of the first.
    Folder(Home, PathBuf),
    Machines(Box<[Machine<'d>; 2]>),
}

impl Places<'_> {
    fn owner<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Program {
        match self {
            Self::Folder(home, _) => home.agent(args).env("XDG_RUNTIME_DIR", home.scratch.folder("runtime")),
            Self::Machines(machines) => machines[0].agent(args),
        }
    }

    fn sender<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Program {
        match self {
            Self::Folder(home, elsewhere) => home.agent(args).env("XDG_RUNTIME_DIR", elsewhere),
            Self::Machines(machines) => machines[1].agent(args),
        }
    }

    /// Sends, and waits until it was taken.
    #[track_caller]
    fn sends<'a>(&self, args: impl IntoIterator<Item = &'a str>, said: &str) {
        let run = self.sender(args).run();
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        assert!(run.stderr.contains(said), "{}", run.stderr);
    }
}

/// A model that asks which colour when it is told to, and does not answer otherwise.
fn stuck() -> FakeProvider {
    FakeProvider::answering(|request| match request.to_string().contains("ask me") {
        true if !request.to_string().contains("blue") => {
            Reply::call("c1", "ask_user", "{\"question\":\"Which colour?\"}")
        }
        _ => Reply::Silence,
    })
}

/// Has a process begin a turn in the session `one`, which does not end by itself, sends to it, and cancels the turn: in one
/// folder, and on two machines where there is a database.
fn check(test: &str, begins: impl Fn(&Places<'_>, &FakeProvider) -> (Running, usize)) {
    let provider = stuck();
    let home = Home::served_by(&provider).keeping("sqlite");
    let elsewhere = home.scratch.folder("elsewhere");
    check_at(&Places::Folder(home, elsewhere), &provider, &begins);

    let Some(database) = Database::new(test) else { return };
    let provider = stuck();
    let machines = Box::new([database.machine(&provider), database.machine(&provider)]);
    check_at(&Places::Machines(machines), &provider, &begins);
}

fn check_at(
    places: &Places<'_>,
    provider: &FakeProvider,
    begins: impl Fn(&Places<'_>, &FakeProvider) -> (Running, usize),
) {
    let (mut running, asked) = begins(places, provider);
    assert!(provider.asked_within(asked, SOON), "the turn asked the model");
    places.sends(["submit", "--session", "one", "--steer", "to the left"], "added to the turn of one");
    places.sends(["sessions", "set", "one", "--instructions", "be brief", "--submit"], "");
    // It waits until the session is free, and a cancellation goes the same way.
    places.sends(["submit", "--session", "one", "--no-wait", "and then?"], "");
    places.sends(["cancel", "one"], "cancelled what ran in one");
    // Its end is in the journal by then.
    running.end_stdin();
    let ended = running.finish();
    let journal = places.sender(["sessions", "export", "one"]).run().stdout;
    let records: Vec<Value> = journal.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |kind: &str| records.iter().filter(|record| record["kind"] == kind).count();
    assert_eq!((of("steered"), of("configured")), (1, 1), "{journal}");
    assert!(journal.contains("\"finish_reason\":\"cancelled\""), "{}: {journal}", ended.stderr);
}

#[test]
fn messages_reach_the_session_of_a_run() {
    check("messages_reach_the_session_of_a_run", |places, _| {
        (places.owner(["run", "--session", "one", "hi"]).spawn(), 1)
    });
}

#[test]
fn messages_reach_the_session_of_a_batch() {
    check("messages_reach_the_session_of_a_batch", |places, _| {
        let line = "{\"session\":\"one\",\"prompt\":\"hi\"}\n";
        (places.owner(["batch", "-"]).stdin(line).spawn(), 1)
    });
}

#[test]
fn messages_reach_the_session_of_a_chat() {
    check("messages_reach_the_session_of_a_chat", |places, _| {
        let mut chat = places.owner(["chat", "--session", "one"]).open_stdin().spawn();
        chat.type_line("hi");
        (chat, 1)
    });
}

#[test]
fn messages_reach_the_session_of_a_resumed_turn() {
    check("messages_reach_the_session_of_a_resumed_turn", |places, _| {
        let run = places.owner(["run", "--output", "json", "--session", "one", "ask me"]).run();
        let asked: Value = serde_json::from_str(&run.stdout).unwrap();
        let token = asked["token"].as_str().expect("it is suspended");
        (places.owner(["resume", token, "blue"]).spawn(), 2)
    });
}
