//! Real children: how they start, speak, end and are ended.

use super::testing::*;
use super::*;
use crate::stopwatch::Stopwatch;
use std::ffi::OsString;

fn sh(script: &str) -> ChildSpec {
    ChildSpec::new("/bin/sh", ["-c", script])
}

fn spawn(spec: ChildSpec) -> Child {
    Child::spawn(spec, &Watcher::new()).unwrap()
}

/// A spec whose stdout is read line by line.
fn speaking(script: &str) -> ChildSpec {
    ChildSpec { stdout: Stdout::Piped, ..sh(script) }
}

#[tokio::test]
async fn everybody_who_asks_hears_how_a_child_ended() {
    let child = spawn(sh("exit 3"));
    let mut watch = child.exit_watch();
    assert_eq!((soon(child.exited()).await, soon(watch.exited()).await), (Exit::Code(3), Exit::Code(3)));
    assert_eq!(watch.now(), Some(Exit::Code(3)));
    let child = spawn(sh("kill -9 $$"));
    assert_eq!(soon(child.exited()).await, Exit::Signal(9));
    assert_eq!(Exit::Signal(9).to_string(), "was ended by signal 9");
}

#[tokio::test]
async fn the_last_words_are_the_end_of_stderr() {
    let mut child =
        spawn(sh("for n in 1 2 3 4 5 6; do echo line $n; done >&2; printf 'no \\033[31mend\\n\\n' >&2; exit 1"));
    soon(child.exited()).await;
    assert_eq!(soon(child.last_output()).await, "line 3 | line 4 | line 5 | line 6 | no [31mend");
}

#[tokio::test]
async fn a_child_that_floods_stderr_goes_on_and_costs_64_kib() {
    let script = "i=0; while [ $i -lt 200 ]; do head -c 65536 /dev/zero | tr '\\0' x; i=$((i+1)); done >&2; echo >&2; echo end >&2";
    let mut child = spawn(sh(script));
    assert_eq!(soon(child.exited()).await, Exit::Code(0));
    assert!(soon(child.last_output()).await.ends_with(" | end"));
    assert_eq!(child.said().bytes().len(), RING_BYTES);
}

#[tokio::test]
async fn a_drained_stdout_is_handed_on_by_the_line() {
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let on_line: OnLine = Arc::new(move |line: &str| drop(tell.send(line.to_owned())));
    let spec = ChildSpec { stdout: Stdout::Drained, on_line: Some(on_line), ..sh("printf 'a 1%%\\ra 2%%\\nb'") };
    let child = spawn(spec);
    for expected in ["a 1%", "a 2%", "b"] {
        assert_eq!(soon(told.recv()).await.unwrap(), expected);
    }
    assert_eq!(soon(child.exited()).await, Exit::Code(0));
}

#[tokio::test]
async fn g2_a_child_knows_only_what_it_was_given() {
    let mut spec = speaking("env; echo cwd $(pwd)");
    spec.folder = Some("/".into());
    spec.env = vec![("KEY".into(), "named".into())];
    let lines = all_lines(&mut spawn(spec)).await;
    assert!(lines.contains(&"KEY=named".to_owned()) && lines.contains(&"cwd /".to_owned()), "{lines:?}");
    let known = ["KEY", "PATH", "HOME", "LANG", "TMPDIR", "USER", "TERM", "PWD", "OLDPWD", "SHLVL", "_"];
    for line in lines.iter().filter(|line| !line.starts_with("cwd ")) {
        let name = line.split('=').next().unwrap();
        assert!(known.contains(&name) || name.starts_with("LC_"), "{name}");
    }
}

#[test]
fn g2_keys_and_proxies_are_not_inherited_and_named_values_win() {
    let pair = |name: &str, value: &str| (OsString::from(name), OsString::from(value));
    let mut spec = sh("");
    spec.env = vec![pair("HOME", "/elsewhere")];
    let ours = ["HOME", "LC_ALL", "OPENAI_API_KEY", "https_proxy", "HTTP_PROXY", "LD_PRELOAD"];
    let theirs: Vec<_> = spec.environment(ours.iter().map(|name| pair(name, "ours"))).collect();
    assert_eq!(theirs, [pair("HOME", "ours"), pair("LC_ALL", "ours"), pair("HOME", "/elsewhere")]);
    assert!(!format!("{spec:?}").contains("elsewhere"));
}

/// A program with a name like a shell line, given arguments like shell lines: each arrives as it is.
#[tokio::test]
async fn g13_a_program_and_its_arguments_are_no_shell_line() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("we ird;$(touch name)`touch name`\n&& *");
    write_program(&program, b"#!/bin/sh\nfor word; do printf '%s\\0' \"$word\"; done\n");
    let words = [
        "two words",
        "; touch mark",
        "$(touch mark)",
        "`touch mark`",
        "a\nb",
        "| touch mark",
        "> mark",
        "$HOME",
        "*",
        "~",
        "",
        "'",
        "\"",
        "\\",
        "&& touch mark",
        "-c",
        "--",
        "#",
        "é\u{202e}",
        "{a,b}",
    ];
    let spec = ChildSpec {
        folder: Some(folder.path().into()),
        stdout: Stdout::Piped,
        env: vec![("X".into(), "$(touch mark); `touch mark`".into())],
        ..ChildSpec::new(&program, words)
    };
    let mut child = spawn(spec);
    let mut said = Vec::new();
    soon(tokio::io::AsyncReadExt::read_to_end(&mut child.take_stdout().unwrap(), &mut said)).await.unwrap();
    let arrived: Vec<&[u8]> = said.strip_suffix(b"\0").unwrap().split(|byte| *byte == 0).collect();
    assert_eq!(arrived, words.map(str::as_bytes));
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(left, [program], "nothing was touched");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn no_child_holds_a_pipe_of_another_or_of_the_watcher() {
    let watcher = Watcher::new();
    let reading = ChildSpec { stdin: Stdin::Piped, ..sh("read x") };
    let mut first = Child::spawn(reading.clone(), &watcher).unwrap();
    let second = Child::spawn(reading, &watcher).unwrap();
    let pipe = |pid: i32, fd: i32| std::fs::read_link(format!("/proc/{pid}/fd/{fd}")).unwrap();
    let held: Vec<_> = std::fs::read_dir(format!("/proc/{}/fd", second.id())).unwrap().collect();
    let held: Vec<_> = held.into_iter().filter_map(|fd| std::fs::read_link(fd.unwrap().path()).ok()).collect();
    let watcher_pid = i32::try_from(watcher.id().unwrap()).unwrap();
    assert!(held.contains(&pipe(second.id(), 0)));
    for foreign in [pipe(first.id(), 0), pipe(first.id(), 2), pipe(watcher_pid, 0)] {
        assert!(!held.contains(&foreign), "{foreign:?}");
    }
    soon(first.stop(Ladder::default())).await;
}

#[tokio::test]
async fn a_refused_start_names_the_program_and_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let plain = folder.path().join("plain");
    std::fs::write(&plain, "text").unwrap();
    let no_format = folder.path().join("no-format");
    write_program(&no_format, &[0, 1, 2]);
    let gone = ChildSpec { folder: Some("/no/such/folder".into()), ..sh("true") };
    let none = |program: &std::path::Path| ChildSpec::new(program, Vec::<OsString>::new());
    for (spec, program, why) in [
        (none("bob-no-such-program".as_ref()), "bob-no-such-program", "no such program on the PATH (ENOENT)"),
        (none("/no/such/program".as_ref()), "/no/such/program", "no such file"),
        (none(&plain), "plain", "not executable"),
        (none(&no_format), "no-format", "ENOEXEC"),
        (gone, "/bin/sh", "the folder `/no/such/folder` does not exist"),
    ] {
        let error = Child::spawn(spec, &Watcher::new()).unwrap_err().to_string();
        assert!(error.starts_with("cannot start `") && error.contains(program) && error.contains(why), "{error}");
    }
}

/// In a process of its own, because the limit is the whole process's.
#[test]
fn too_many_files_is_an_error_that_says_so_and_passes() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let Some(()) = in_own_process("child::tests::too_many_files_is_an_error_that_says_so_and_passes") else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let watcher = Watcher::new();
        let usual = getrlimit(Resource::Nofile);
        let mut refused = Vec::new();
        // One descriptor more each time: the limit is met at every point of a start.
        for limit in 8..40 {
            setrlimit(Resource::Nofile, rustix::process::Rlimit { current: Some(limit), ..usual }).unwrap();
            let started = Child::spawn(sh("exit 0"), &watcher);
            setrlimit(Resource::Nofile, usual).unwrap();
            match started {
                Ok(mut child) => drop(soon(child.stop(Ladder::default())).await),
                Err(error) => refused.push(error.to_string()),
            }
        }
        assert!(!refused.is_empty() && refused.iter().all(|error| error.contains("EMFILE")), "{refused:#?}");
        assert!(refused.len() < 32 && watcher.idle(DEADLINE).await);
    });
}

#[tokio::test]
async fn the_ladder_ends_a_polite_child_at_the_end_of_its_input() {
    let mut child = spawn(ChildSpec { stdin: Stdin::Piped, ..sh("read x; exit 7") });
    assert_eq!(soon(child.stop(Ladder::default())).await, Exit::Code(7));
    assert_eq!(soon(child.stop(Ladder::default())).await, Exit::Code(7));
}

#[tokio::test]
async fn the_ladder_ends_a_child_that_ignores_input_and_term_within_5_s() {
    let mut spec = speaking("trap '' TERM; sleep 1000 & echo ready; while :; do wait; sleep 1; done");
    spec.stdin = Stdin::Piped;
    let mut child = spawn(spec);
    assert_eq!(next_line(&mut child).await, "ready");
    let (group, started) = (child.id(), Stopwatch::start());
    assert_eq!(soon(child.stop(Ladder::default())).await, Exit::Signal(9));
    started.assert_within(Duration::from_secs(5), "the ladder");
    group_is_gone(group).await;
}

#[tokio::test]
async fn grandchildren_end_with_a_leader_that_leaves_by_itself() {
    let mut child = spawn(speaking("sh -c 'trap \"\" TERM HUP; sleep 1000' & sleep 1000 & echo ready; exit 0"));
    assert_eq!(next_line(&mut child).await, "ready");
    assert_eq!(soon(child.exited()).await, Exit::Code(0));
    group_is_gone(child.id()).await;
}

#[tokio::test]
async fn dropping_a_child_kills_its_group() {
    let watcher = Watcher::new();
    let mut child = Child::spawn(speaking("trap '' TERM; sleep 1000 & echo ready; wait"), &watcher).unwrap();
    assert_eq!(next_line(&mut child).await, "ready");
    let (group, mut exit) = (child.id(), child.exit_watch());
    drop(child);
    assert_eq!(soon(exit.exited()).await, Exit::Signal(9));
    group_is_gone(group).await;
    assert!(watcher.idle(DEADLINE).await);
}

#[test]
fn a_runtime_that_is_dropped_leaves_no_child() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (held, let_go) = runtime.block_on(async {
        let script = "trap '' TERM; sleep 1000 & echo ready; wait";
        let (mut held, mut let_go) = (spawn(speaking(script)), spawn(speaking(script)));
        next_line(&mut held).await;
        next_line(&mut let_go).await;
        (held, let_go)
    });
    let groups = [held.id(), let_go.id()];
    let exit = let_go.exit_watch();
    drop(let_go);
    drop(runtime);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        for group in groups {
            group_is_gone(group).await;
        }
        assert!(matches!(soon(held.exited()).await, Exit::Unknown | Exit::Signal(9)));
    });
    drop((held, exit));
}

#[tokio::test]
async fn a_child_outlives_the_thread_that_started_it() {
    let handle = tokio::runtime::Handle::current();
    let mut spec = speaking("read x; echo alive; read y");
    spec.stdin = Stdin::Piped;
    let thread = std::thread::spawn(move || {
        let _in_the_runtime = handle.enter();
        spawn(spec)
    });
    let mut child = thread.join().unwrap();
    let mut stdin = child.take_stdin().unwrap();
    tokio::io::AsyncWriteExt::write_all(&mut stdin, b"go\n").await.unwrap();
    assert_eq!(next_line(&mut child).await, "alive");
    assert_eq!(child.exit_watch().now(), None);
    drop(stdin);
    soon(child.stop(Ladder::default())).await;
}

/// In a process of its own, because descriptors and zombies are counted.
#[cfg(target_os = "linux")]
#[test]
fn a_hundred_children_leave_no_zombie_and_no_descriptor() {
    let Some(()) = in_own_process("child::tests::a_hundred_children_leave_no_zombie_and_no_descriptor") else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let watcher = Watcher::new();
        let mut before = 0;
        for round in 0..100 {
            let script = ["exit 0", "exit 1", "kill -9 $$", "read x", "sleep 1000"][round % 5];
            let mut child = Child::spawn(ChildSpec { stdin: Stdin::Piped, ..sh(script) }, &watcher).unwrap();
            match round % 5 {
                4 => drop(child),
                _ => drop(soon(child.stop(Ladder::default())).await),
            }
            if round == 9 {
                before = settled_descriptors(&watcher).await;
            }
        }
        assert_eq!(settled_descriptors(&watcher).await, before);
    });
}
