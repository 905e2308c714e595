//! Tests of process and pipe modes, by the process table.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::peer::{Peer, until};

/// A field of `/proc/PID/stat`, numbered as in its manual page, after the name.
fn stat(pid: i32, field: usize) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let after_name = stat.rsplit_once(") ")?.1;
    after_name.split(' ').nth(field - 3).map(str::to_owned)
}

fn lives(pid: i32) -> bool {
    stat(pid, 3).is_some_and(|state| state != "Z")
}

fn parent(pid: i32) -> i32 {
    stat(pid, 4).unwrap().parse().unwrap()
}

fn ignores_term(pid: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    u64::from_str_radix(ignored.trim(), 16).unwrap() & (1 << 14) != 0
}

fn signal(pid: i32, signal: Signal) {
    // It may have ended by itself.
    let _gone = kill_process(Pid::from_raw(pid).unwrap(), signal);
}

fn pid_of(event: &Value) -> i32 {
    i32::try_from(event["pid"].as_i64().unwrap()).unwrap()
}

pub(crate) fn spin() {
    let mut peer = Peer::ready(&["--mode", "spin"]);
    let busy = |peer: &Peer| stat(peer.pid(), 14).unwrap().parse::<u64>().unwrap();
    let before = busy(&peer);
    peer.put_call("echo", json!({ "text": "x" }));
    until("it has used a processor", || busy(&peer) > before + 10);
    assert!(peer.is_silent_for(Duration::from_millis(1)));
    signal(peer.pid(), Signal::TERM);
    assert_eq!(peer.end().code(), None);
}

pub(crate) fn deaf() {
    let mut peer = Peer::ready(&["--mode", "deaf"]);
    peer.logged("deaf", 1);
    peer.put("ping", Value::Null);
    peer.close_stdin();
    assert!(peer.is_silent_for(Duration::from_millis(300)));
    assert!(peer.is_alive() && peer.events("end of stdin").is_empty());
    signal(peer.pid(), Signal::TERM);
    assert_eq!(peer.end().code(), None);
}

pub(crate) fn ignore_term() {
    let mut peer = Peer::ready(&["--mode", "ignore-term"]);
    assert!(ignores_term(peer.pid()));
    signal(peer.pid(), Signal::TERM);
    peer.ping();
    peer.close_stdin();
    peer.logged("end of stdin", 1);
    signal(peer.pid(), Signal::TERM);
    assert!(peer.is_silent_for(Duration::from_millis(100)) && peer.is_alive());
    assert_eq!(peer.events("start").len(), 1, "one start, though the process replaced itself");
    signal(peer.pid(), Signal::KILL);
    assert_eq!(peer.end().code(), None);
}

pub(crate) fn launcher() {
    let mut peer = Peer::ready(&["--mode", "launcher"]);
    let server = pid_of(&peer.events("start")[0]);
    assert_eq!(parent(parent(server)), peer.pid());
    peer.ping();
    peer.close_stdin();
    assert_eq!(peer.end().code(), Some(0));
    until("the server is gone", || !lives(server));
}

pub(crate) fn grandchild() {
    let family = family("grandchild");
    assert_eq!(stat(family[2], 6), stat(family[1], 6), "all in one session");
    family.iter().for_each(|pid| signal(*pid, Signal::KILL));
}

pub(crate) fn grandchild_setsid() {
    let family = family("grandchild-setsid");
    let has_setsid = std::process::Command::new("setsid").arg("true").status().is_ok();
    assert_eq!(stat(family[2], 6).unwrap() == family[2].to_string(), has_setsid, "in a session of its own");
    family.iter().for_each(|pid| signal(*pid, Signal::KILL));
}

/// Starts the server, ends it, and returns the three it leaves behind.
fn family(mode: &str) -> Vec<i32> {
    let mut peer = Peer::ready(&["--mode", mode]);
    peer.ping();
    let mut members = peer.logged("grandchild", 3);
    members.sort_by_key(|member| member["level"].as_u64());
    let pids: Vec<i32> = members.iter().map(pid_of).collect();
    assert_eq!((parent(pids[0]), parent(pids[1]), parent(pids[2])), (peer.pid(), pids[0], pids[1]));
    until("the last ignores TERM", || ignores_term(pids[2]));
    peer.close_stdin();
    assert_eq!(peer.end().code(), Some(0));
    assert!(pids.iter().all(|pid| lives(*pid)));
    assert!(peer.is_silent_for(Duration::from_millis(1)), "stdout is still held");
    pids
}

pub(crate) fn close_stdout() {
    let mut peer = Peer::ready(&["--mode", "close-stdout"]);
    assert_eq!(peer.line(), None);
    assert!(peer.is_alive());
    peer.close_stdin();
    assert_eq!(peer.end().code(), Some(0));
}
