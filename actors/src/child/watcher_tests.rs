//! The watcher ends what we cannot end any more, and nothing else.

use super::super::testing::*;
use super::super::{Child, ChildSpec, Ladder, Stdout};
use super::*;
use crate::stopwatch::Stopwatch;
use rustix::process::{Signal, kill_process};
use std::io::{BufRead, BufReader};

fn sleeper(watcher: &Watcher) -> Child {
    Child::spawn(ChildSpec::new("sleep", ["1000"]), watcher).unwrap()
}

fn pid_of(watcher: &Watcher) -> Pid {
    Pid::from_raw(watcher.id().unwrap().cast_signed()).unwrap()
}

fn is_alive(pid: i32) -> bool {
    processes().iter().any(|p| p.pid == pid && !p.is_zombie)
}

/// The main case: a process is killed without a chance to stop its children.
///
/// This test starts itself again as the process to be killed: it has a child that
/// ignores TERM and has a child of its own, says their group, and waits.
#[test]
fn the_groups_of_a_killed_owner_end_within_5_s() {
    let test = "child::watcher::tests::the_groups_of_a_killed_owner_end_within_5_s";
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    if is_own_process() {
        return runtime.block_on(async {
            let watcher = Watcher::new();
            let script = "trap '' TERM; sleep 1000 & echo ready; while :; do sleep 1000; done";
            let spec = ChildSpec { stdout: Stdout::Piped, ..ChildSpec::new("/bin/sh", ["-c", script]) };
            let mut stubborn = Child::spawn(spec, &watcher).unwrap();
            let polite = sleeper(&watcher);
            assert_eq!(next_line(&mut stubborn).await, "ready");
            println!("\ngroups {} {} {}", stubborn.id(), polite.id(), watcher.id().unwrap());
            tokio::time::sleep(DEADLINE).await;
        });
    }
    let mut owner = own_process(test).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(owner.stdout.take().unwrap()).lines();
    let groups = lines.map_while(Result::ok).find_map(|line| line.strip_prefix("groups ").map(str::to_owned)).unwrap();
    let groups: Vec<i32> = groups.split(' ').map(|group| group.parse().unwrap()).collect();
    assert!(groups.iter().all(|group| is_alive(*group)));
    let killed = Stopwatch::start();
    owner.kill().unwrap();
    owner.wait().unwrap();
    runtime.block_on(async {
        for group in groups {
            group_is_gone(group).await;
        }
    });
    killed.assert_within(Duration::from_secs(5), "the groups ended");
}

#[tokio::test]
async fn one_process_watches_all_children_and_leaves_with_the_last_handle() {
    let watcher = Watcher::new();
    assert_eq!(watcher.id(), None);
    let (mut first, mut second) = (sleeper(&watcher), sleeper(&watcher));
    let pid = watcher.id().unwrap();
    assert!(!watcher.idle(Duration::ZERO).await);
    soon(first.stop(Ladder::default())).await;
    soon(second.stop(Ladder::default())).await;
    assert!(watcher.idle(DEADLINE).await);
    assert_eq!(watcher.id(), Some(pid));
    drop((first, second, watcher));
    group_is_gone(pid.cast_signed()).await;
}

#[tokio::test]
async fn the_signals_of_a_terminal_do_not_end_it() {
    let watcher = Watcher::new();
    let mut child = sleeper(&watcher);
    let pid = pid_of(&watcher);
    // A line that was taken proves that the script has set its traps.
    until("the script reads", || watcher.0.lock().process.as_ref().is_some_and(|process| is_drained(&process.pipe)))
        .await;
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        kill_process(pid, signal).unwrap();
    }
    soon(child.stop(Ladder::default())).await;
    assert!(is_alive(pid.as_raw_nonzero().get()));
    assert_eq!(pid_of(&watcher), pid);
}

#[tokio::test]
async fn a_killed_watcher_is_replaced_and_knows_every_group() {
    let watcher = Watcher::new();
    let child = sleeper(&watcher);
    let first = pid_of(&watcher);
    kill_process(first, Signal::KILL).unwrap();
    until("another watcher runs", || watcher.id().is_some_and(|pid| pid.cast_signed() != first.as_raw_nonzero().get()))
        .await;
    // The pipe of the new one ends, as if we had been killed: it ends the group.
    let mut exit = child.exit_watch();
    watcher.0.lock().process.take();
    assert_eq!(soon(exit.exited()).await, super::super::Exit::Signal(15));
}

#[tokio::test]
async fn a_watcher_that_does_not_read_is_replaced_and_harms_nobody() {
    let watcher = Watcher::new();
    let mut child = sleeper(&watcher);
    let first = pid_of(&watcher);
    kill_process(first, Signal::STOP).unwrap();
    let absent = Pid::from_raw(i32::MAX).unwrap();
    until("the pipe is full", || {
        for _ in 0..1_000 {
            watcher.remember(absent).unwrap();
            watcher.forget(absent);
        }
        pid_of(&watcher) != first
    })
    .await;
    group_is_gone(first.as_raw_nonzero().get()).await;
    assert_eq!(child.exit_watch().now(), None);
    assert!(is_alive(child.id()));
    soon(child.stop(Ladder::default())).await;
}

/// Whether all that was written to a pipe was read.
fn is_drained(pipe: &File) -> bool {
    rustix::io::ioctl_fionread(pipe).unwrap() == 0
}
