//! `cli-agent soak` as a person runs it: a small run under chaos passes, and every defect that is planted in a run is
//! found, by the check that is meant for it.

#![cfg(feature = "soak")]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;

use serde_json::Value;

#[cfg(feature = "postgres")]
#[path = "soak/replicas.rs"]
mod replicas;

/// A soak with these arguments; its verdict, if there is one. The data of a failed run is removed.
fn soak(arguments: &[&str]) -> (Output, Option<Value>) {
    soak_in(tempfile::tempdir().expect("a folder").path(), arguments)
}

/// A soak whose files are in this folder.
fn soak_in(folder: &Path, arguments: &[&str]) -> (Output, Option<Value>) {
    let file = folder.join("verdict.json");
    let output = Command::new(env!("CARGO_BIN_EXE_cli-agent"))
        .args(["soak", "--json"])
        .arg(&file)
        .args(arguments)
        .env("TMPDIR", folder)
        .current_dir(folder)
        .output()
        .expect("the program starts");
    let verdict = std::fs::read(&file).ok().map(|text| serde_json::from_slice(&text).expect("JSON"));
    (output, verdict)
}

/// The checks that do not hold.
fn broken(verdict: &Value) -> Vec<&str> {
    let checks = verdict["checks"].as_array().expect("checks");
    checks.iter().filter(|check| check["holds"] == false).filter_map(|check| check["name"].as_str()).collect()
}

fn shown(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// A defect, the chaos it needs to show, and the check that finds it.
const DEFECTS: [(&str, &str, &str); 19] = [
    ("skip-save", "off", "acknowledged turns lost"),
    ("early-ack", "process-kill=20/m", "acknowledged turns lost"),
    ("changed-answer", "off", "acknowledged turns changed"),
    ("lost-result", "off", "unpaired calls"),
    ("lost-intent", "off", "side effects without an intent"),
    ("lost-outcome", "off", "turns left open"),
    ("double-input", "off", "requests or outcomes duplicated"),
    ("rerun-tool", "off", "side effects run twice"),
    ("idle-tool", "off", "side effects that did not happen"),
    ("answer-twice", "off", "requests answered twice"),
    ("answer-never", "off", "requests without an answer"),
    ("double-event", "off", "ends told wrongly by events"),
    ("leak-child", "off", "orphans"),
    ("zombie", "off", "zombies older than 1 s"),
    ("leak-fds", "off", "file descriptors at the end"),
    ("leak-threads", "off", "threads at the end"),
    ("leak-memory", "off", "memory growth after warm-up"),
    ("leak-sessions", "off", "sessions that did not leave"),
    ("slow-cancel", "cancel=50%", "cancel p99"),
];

/// Whether latencies were judged: they are not on a machine that is too busy for it.
fn was_judged(output: &Output) -> bool {
    !shown(output).contains("not judged: the machine was busy")
}

#[test]
fn every_planted_defect_is_found_by_the_check_that_is_meant_for_it() {
    let find = |(defect, chaos, check): (&str, &str, &str)| {
        // A slope needs time; everything else is there after a few turns.
        let (turns, think) = if defect == "leak-memory" { ("4", "1s") } else { ("3", "250ms") };
        let size = ["--sessions", "12", "--turns", turns, "--think", think, "--chaos", chaos, "--defect", defect];
        let (mut output, mut verdict) = soak(&size);
        // A latency is not judged when an empty task was late as well. A retry may find a less busy machine;
        // otherwise the soak reports that it could not judge, and the checker's own tests cover the rule.
        for _ in 0..2 {
            if check != "cancel p99" || was_judged(&output) {
                break;
            }
            (output, verdict) = soak(&size);
        }
        if check == "cancel p99" && !was_judged(&output) {
            return println!("{defect}: not judged, the machine is busy");
        }
        assert_eq!(output.status.code(), Some(1), "{defect}: {}", shown(&output));
        let verdict = verdict.expect("a verdict");
        assert_eq!(verdict["verdict"], "fail");
        assert!(broken(&verdict).contains(&check), "{defect}: {}", shown(&output));
    };
    // Three beside each other: the runs mostly wait.
    for some in DEFECTS.chunks(3) {
        thread::scope(|scope| some.iter().for_each(|one| drop(scope.spawn(|| find(*one)))));
    }
}

#[test]
fn a_run_with_every_kind_of_chaos_passes_and_says_what_it_saw() {
    let chaos = "default,process-kill=10/m,store-fail=1%,store-lost=1%";
    let (output, verdict) =
        soak(&["--sessions", "40", "--turns", "4", "--think", "1s", "--seed", "3", "--chaos", chaos]);
    assert_eq!(output.status.code(), Some(0), "{}", shown(&output));
    let verdict = verdict.expect("a verdict");
    assert_eq!((&verdict["verdict"], broken(&verdict).len()), (&Value::from("pass"), 0));
    let numbers = &verdict["numbers"];
    assert!(numbers["answered"].as_u64() >= Some(160), "{numbers}");
    assert!(numbers["effects"].as_u64() > Some(0), "{numbers}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("\nPASS: seed 3, 40 sessions, 4 turns each"));
}

#[test]
fn a_run_without_chaos_over_a_new_store_passes() {
    for store in ["sqlite", "json"] {
        let (output, _) =
            soak(&["--store", store, "--sessions", "24", "--turns", "2", "--think", "200ms", "--chaos", "off"]);
        assert_eq!(output.status.code(), Some(0), "{}", shown(&output));
    }
}

#[test]
fn an_interrupt_ends_the_run_and_it_is_judged_as_far_as_it_came() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut soak = Command::new(env!("CARGO_BIN_EXE_cli-agent"))
        .args(["soak", "--sessions", "5", "--duration", "10m", "--think", "300ms", "--chaos", "off"])
        .env("TMPDIR", folder.path())
        .current_dir(folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut told = BufReader::new(soak.stderr.take().expect("a pipe")).lines();
    assert!(told.any(|line| line.is_ok_and(|line| line.contains("turns answered"))), "it tells how far it is");
    let pid = soak.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().expect("kill starts").success());
    // Keeps its stderr from filling up.
    let rest = thread::spawn(move || told.map_while(Result::ok).collect::<Vec<_>>().join("\n"));
    let output = soak.wait_with_output().expect("it ends");
    let (table, rest) = (String::from_utf8_lossy(&output.stdout), rest.join().expect("lines"));
    assert!(rest.contains("what ran so far is checked"), "{rest}");
    assert!(table.contains("\nPASS: "), "{table}{rest}");
    assert_eq!(output.status.code(), Some(0), "{table}{rest}");
}

#[test]
fn the_json_store_passes_too() {
    let size = ["--store", "json", "--sessions", "10", "--turns", "3", "--think", "300ms"];
    let (output, _) = soak(&[&size[..], &["--chaos", "default,process-kill=20/m"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", shown(&output));
}

#[test]
fn a_person_sees_the_kinds_of_chaos_and_is_told_what_is_wrong() {
    let (output, _) = soak(&["--list-chaos"]);
    let listed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(listed.contains("mcp-kill") && listed.contains("30/m") && listed.lines().count() > 15, "{listed}");
    for (wrong, said) in [
        (["--chaos", "nobody=1/s"], "--list-chaos"),
        (["--duration", "90"], "90s"),
        (["--duration", "0s"], "runs no turn"),
        (["--report", "missing/soak.html"], "missing/soak.html"),
    ] {
        let size: &[&str] =
            if wrong[0] == "--report" { &["--sessions", "1", "--turns", "1", "--chaos", "off"] } else { &[] };
        let (output, _) = soak(&[&wrong[..], size].concat());
        assert_eq!(output.status.code(), Some(2), "{}", shown(&output));
        assert!(shown(&output).contains(said), "{wrong:?}: {}", shown(&output));
    }
}

#[test]
fn prompts_run_against_a_configuration_of_ones_own_in_a_store_of_its_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect("a file");
    let server = env!("CARGO_BIN_EXE_cli-agent");
    write(
        "agent.toml",
        &format!(
            "[runtime]\ndefault_model = \"demo:one\"\n[providers.demo]\nkind = \"scripted\"\nscript = \"script.json\"\n\
             [[mcp.servers]]\nid = \"drill\"\ncommand = {server:?}\nargs = [\"drill-server\"]\n"
        ),
    );
    let call = r#"{"calls": [{"name": "mcp/drill/echo", "arguments": {"text": "hi"}}]}"#;
    write("script.json", &format!(r#"[{{"replies": [{call}, {{"text": "done"}}], "delay_ms": 20}}]"#));
    write("prompts.txt", "say hi\nsay it again\n");
    let run = |chaos: &str| {
        let at = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
        let (config, prompts) = (at("agent.toml"), at("prompts.txt"));
        soak(&["--config", &config, "--prompts", &prompts, "--think", "200ms", "--chaos", chaos])
    };
    let (output, verdict) = run("cancel=20%,mcp-kill=60/m");
    assert_eq!(output.status.code(), Some(0), "{}", shown(&output));
    assert_eq!(verdict.expect("a verdict")["numbers"]["answered"], 8);
    assert!(!Path::new(&folder.path().join(".bob")).exists(), "the configured store is left alone");
    let (output, _) = run("process-kill=1/m");
    assert_eq!(output.status.code(), Some(2), "{}", shown(&output));
}
