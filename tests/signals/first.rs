//! The program as the first process of a container, and below a parent that does not want to hear of its children.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use rustix::process::Pid;

use crate::signals::fixture::{AGENT, Fixture, drill, wait};
use crate::support::program::{Program, Running};
use crate::support::provider::FakeProvider;
use crate::support::reply::Reply;

/// Set for the copy of this test program that becomes the agent.
const BECOMES: &str = "BOB_TEST_BECOMES_THE_AGENT";

/// Longer than a zombie may be there.
const A_ZOMBIES_LIFE: Duration = Duration::from_secs(1);

/// Returns the unreaped dead children of a process.
fn zombies(parent: i32) -> Vec<i32> {
    let all = std::fs::read_dir("/proc").expect("the processes of this machine").flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        fields.first() == Some(&"Z") && fields.get(1) == Some(&parent.to_string().as_str())
    })
    .collect()
}

/// No dead child of this process stays unreaped, now and for longer than one may.
#[track_caller]
fn assert_reaps(parent: i32) {
    wait("the dead are reaped", || zombies(parent).is_empty());
}

fn fixture(provider: &FakeProvider) -> Fixture {
    // Servers whose parents end first, so that their children are reparented.
    let servers = drill("family", &["grandchild"], "") + &drill("launcher", &["launcher"], "");
    Fixture::new(provider, "").keeping("", "retry_max = 0", &servers)
}

/// A talk in which servers with families are ended and started again, over and over.
fn talk(fixture: &Fixture, mut running: Running, agent: impl Fn(&Running) -> i32) {
    for round in 1..=3 {
        fixture.wait_started("family", round);
        fixture.wait_started("launcher", round);
        wait("the whole family is there", || {
            fixture.log("family").iter().filter(|line| line["event"] == "grandchild").count() >= 3 * round
        });
        if round < 3 {
            running.type_line("/mcp restart family");
            running.type_line("/mcp restart launcher");
        }
    }
    let pid = agent(&running);
    running.type_line("hi");
    running.wait_stdout("hello\n");
    assert_reaps(pid);
    // Not by chance: they do not come back either.
    std::thread::sleep(A_ZOMBIES_LIFE);
    assert_eq!(zombies(pid), Vec::<i32>::new());
    let run = running.finish();
    assert_eq!(run.code, Some(0), "{run:?}");
    fixture.assert_nothing_left();
}

/// A process that was made the reaper of those below it is given orphans as the first process of a container is.
#[test]
fn x8_orphans_given_to_the_program_are_reaped() {
    if std::env::var_os(BECOMES).is_some() {
        rustix::process::set_child_subreaper(Some(Pid::INIT)).expect("Linux");
        let error = Command::new(AGENT).args(["--config", "agent.toml", "chat"]).env_remove(BECOMES).exec();
        panic!("cannot become the agent: {error}");
    }
    let provider = FakeProvider::repeating([Reply::text("hello")]);
    let fixture = fixture(&provider);
    let this = std::env::current_exe().expect("this program");
    let running = Program::new(this).dir(fixture.scratch.path()).env(BECOMES, "1").open_stdin();
    let running = running.deadline(Duration::from_secs(60)).args([
        "--exact",
        "signals::first::x8_orphans_given_to_the_program_are_reaped",
        "--nocapture",
    ]);
    talk(&fixture, running.spawn(), Running::pid);
}

/// Repeats the test in a PID namespace, where an unprivileged user may create one; otherwise it is skipped with a
/// message. The test above needs no permission.
#[test]
fn x8_as_the_first_process_of_a_namespace_the_dead_are_reaped() {
    let apart = ["--pid", "--fork", "--map-root-user", "--mount-proc", "--kill-child"];
    let may = Command::new("unshare").args(apart).arg("true").output();
    if !may.is_ok_and(|output| output.status.success()) {
        return eprintln!("not shown: no namespace can be made here");
    }
    let provider = FakeProvider::repeating([Reply::text("hello")]);
    let fixture = fixture(&provider);
    let running = Program::new("unshare").dir(fixture.scratch.path()).open_stdin().deadline(Duration::from_secs(60));
    let running = running.args(apart).arg(AGENT).args(["--config", "agent.toml", "chat"]).spawn();
    talk(&fixture, running, |unshare| {
        let children = format!("/proc/{0}/task/{0}/children", unshare.pid());
        let children = std::fs::read_to_string(children).expect("the children of unshare");
        children.split_whitespace().next().and_then(|pid| pid.parse().ok()).expect("the agent")
    });
}

#[test]
fn x8_children_are_seen_although_the_parent_ignored_the_death_of_its_own() {
    let provider = FakeProvider::start([
        Reply::call("c1", "mcp__drill__crash", "{}"),
        Reply::text("It crashed."),
        Reply::call("c2", "mcp__drill__echo", r#"{"text":"back"}"#),
        Reply::text("It is back."),
    ]);
    let fixture = Fixture::new(&provider, "").keeping("", "retry_max = 0", &drill("drill", &[], ""));
    // Ignored signals stay ignored across `exec`.
    let script = format!("trap '' CHLD; exec '{AGENT}' --config agent.toml chat");
    let running = Program::new("/bin/sh").args(["-c", &script]).dir(fixture.scratch.path());
    let mut running = running.deadline(Duration::from_secs(60)).open_stdin().spawn();
    running.type_line("Crash.");
    running.wait_stdout("It crashed.\n");
    let told = provider.requests()[1].body.to_string();
    assert!(told.contains("status 101"), "how it ended was seen: {told}");
    running.type_line("And now?");
    running.wait_stdout("It is back.\n");
    assert_reaps(running.pid());
    assert_eq!(running.finish().code, Some(0));
    fixture.assert_nothing_left();
}
