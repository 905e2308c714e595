//! Location, permissions and removal of sockets.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::Signal;

use crate::control::far::{Far, batch, folder, socket};
use crate::control::lines::home;
use crate::home::{AGENT, STORES};

fn mode(path: &std::path::Path) -> u32 {
    fs::symlink_metadata(path).expect("it is there").mode() & 0o777
}

#[test]
fn the_socket_is_its_users_own_and_goes_with_its_process() {
    for store in STORES {
        let home = home().keeping(store);
        let (place, name) = match *store {
            "json" => (home.scratch.join(".bob/sessions-control"), ".bob/sessions-control"),
            _ => (folder(&home), ".bob/sessions.db-control"),
        };
        let mut chat = home.agent(["chat"]).open_stdin().spawn();
        chat.type_line("hi");
        chat.wait_stdout("hello");
        let names = home.scratch.list(name);
        assert_eq!(names, [format!("{}.sock", chat.pid())]);
        assert_eq!((mode(&place), mode(&place.join(&names[0]))), (0o700, 0o600));
        chat.end_stdin();
        assert_eq!(chat.finish().code, Some(0));
        assert!(home.scratch.list(name).is_empty());
        assert_eq!(home.run(["sessions", "list"]).stdout.lines().count(), 1, "it is no session");
    }
}

#[test]
fn what_a_killed_process_left_is_removed_by_whoever_looks_next() {
    let home = home();
    let running = batch(&home, "8", [("alpha", "stall")]);
    let left = socket(&home, running.pid());
    running.signal(Signal::KILL);
    running.finish();
    assert!(left.exists(), "nobody was there to remove it");
    assert_eq!(home.run(["ps"]).code, Some(2));
    assert!(!left.exists());
    drop(UnixListener::bind(&left).expect("a socket nobody listens on"));
    let chat = home.agent(["chat"]).stdin("hi\n").run();
    assert_eq!((chat.code, chat.stdout.as_str(), chat.stderr.as_str()), (Some(0), "hello\n", ""));
    assert!(!left.exists());
}

#[test]
fn two_processes_on_one_store_are_told_apart() {
    let home = home();
    let running = batch(&home, "8", [("alpha", "stall")]);
    let mut chat = home.agent(["chat"]).open_stdin().spawn();
    chat.type_line("hi");
    chat.wait_stdout("hello");
    let (batch, chat_pid) = (running.pid().to_string(), chat.pid().to_string());
    let run = home.run(["ps"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(run.stdout.contains(&batch) && run.stdout.contains(&chat_pid) && run.stderr.contains("--pid"), "{run:?}");
    let run = home.run(["cancel", "of-neither"]);
    assert_eq!(run.code, Some(2), "{run:?}");
    assert!(run.stderr.contains("nothing runs in the session of-neither"), "{run:?}");
    assert!(home.run(["ps", "--pid", &chat_pid]).stdout.starts_with("chat "));
    let run = home.run(["ps", "--pid", "1"]);
    assert_eq!(run.code, Some(2), "{run:?}");
    assert_eq!(home.run(["cancel", "alpha", "--pid", &chat_pid]).code, Some(2), "it runs in the other one");
    // The process that has the session is found, and the beginning of its id is enough.
    let run = home.run(["cancel", "alp"]);
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), "cancelled what ran in alpha\n"), "{run:?}");
    running.finish();
    chat.end_stdin();
    chat.finish();
}

#[test]
fn a_process_without_a_socket_does_its_work() {
    let home = home();
    home.scratch.write(".bob/sessions.db-control", "in the way");
    let run = home.run(["run", "hi"]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), "hello\n"), "{run:?}");
    assert!(run.stderr.contains("warning: cannot open a control socket in "), "{run:?}");
}

/// Only root can change its user id; for other users the folder's mode, checked above, is the test.
#[test]
fn another_user_is_not_listened_to_even_where_the_folder_is_open() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let home = home();
    let running = batch(&home, "8", [("alpha", "stall")]);
    let (mut far, _) = Far::connect(&home, running.pid());
    for open in [home.scratch.path().to_owned(), home.scratch.join(".bob"), folder(&home)] {
        fs::set_permissions(open, fs::Permissions::from_mode(0o755)).expect("our own folder");
    }
    fs::set_permissions(socket(&home, running.pid()), fs::Permissions::from_mode(0o666)).expect("our own socket");
    let agent = home.scratch.join("agent");
    // Copied by a process of its own: what other tests start meanwhile would have our descriptor for a moment, and a
    // file that somebody has open for writing cannot be run.
    assert!(
        Command::new("cp").args([AGENT.as_ref(), agent.as_os_str()]).status().expect("a copy others can run").success()
    );
    let stranger = Command::new(agent)
        .args(["--config", "agent.toml", "cancel", "alpha"])
        .current_dir(home.scratch.path())
        .uid(65_534)
        .gid(65_534)
        .output()
        .expect("a program");
    let said = String::from_utf8_lossy(&stranger.stderr);
    assert_eq!(stranger.status.code(), Some(2), "{said}");
    assert!(said.contains("no running cli-agent was found"), "{said}");
    assert_eq!(far.look()["metrics"]["sessions"]["running"], 1, "its turn goes on");
    assert_eq!(home.run(["cancel", "alpha"]).code, Some(0));
    running.finish();
}
