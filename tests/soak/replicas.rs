//! Several workers that share a database: a small run passes, and each defect of sharing is found by the check that is meant
//! for it. Without a database the tests are skipped by name.

use std::io::Write;
use std::thread;

use super::{broken, shown, soak, soak_in};

const DATABASE: &str = "BOB_TEST_POSTGRES";

/// The database, in which each run makes a schema of its own.
fn database(test: &str) -> Option<String> {
    let url = std::env::var(DATABASE).ok();
    if url.is_none() {
        // Past the capture of the harness.
        let _written = writeln!(
            std::io::stderr(),
            "skipped: {test}: {DATABASE} names no database; sh scripts/postgres.sh run COMMAND sets it"
        );
    }
    url
}

#[test]
fn replicas_of_which_one_is_killed_and_whose_commits_are_cut_pass() {
    let Some(url) = database("replicas_of_which_one_is_killed_and_whose_commits_are_cut_pass") else { return };
    let size = ["--replicas", "2", "--sessions", "8", "--turns", "3", "--think", "500ms", "--seed", "2"];
    let chaos = "replica-kill=30/m,commit-cut=60/m,store-lost=1%";
    let (output, verdict) = soak(&[&size[..], &["--store", &url, "--chaos", chaos]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", shown(&output));
    let verdict = verdict.expect("a verdict");
    let (numbers, replicas) = (&verdict["numbers"], &verdict["numbers"]["replicas"]);
    assert_eq!((&numbers["answered"], &verdict["replicas"]), (&24.into(), &2.into()), "{verdict}");
    assert!(replicas["kills"].as_u64() >= Some(1) && replicas["claims"].as_u64() >= Some(24), "{replicas}");
    assert!(numbers["effects"].as_u64() > Some(0), "{numbers}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("\nPASS: seed 2, 8 sessions, 2 replicas, 3 turns each"));
    let password = url.split(['/', ':', '@']).nth(4).expect("a password");
    assert!(!shown(&output).contains(password) && !verdict.to_string().contains(password));
}

/// What is kept of a run for a look at it has the database without its password.
#[test]
fn the_password_of_a_database_is_in_no_file() {
    let Some(url) = database("the_password_of_a_database_is_in_no_file") else { return };
    let size = ["--replicas", "2", "--sessions", "2", "--turns", "1", "--chaos", "off", "--keep", "--store", &url];
    let folder = tempfile::tempdir().expect("a folder");
    let (output, _verdict) = soak_in(folder.path(), &size);
    assert_eq!(output.status.code(), Some(0), "{}", shown(&output));
    let password = url.split(['/', ':', '@']).nth(4).expect("a password");
    let mut folders = vec![folder.path().to_owned()];
    let mut plans = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if let Ok(bytes) = std::fs::read(&path) {
                assert!(!String::from_utf8_lossy(&bytes).contains(password), "{}", path.display());
                plans += usize::from(path.ends_with("plan.json"));
            }
        }
    }
    assert_eq!(plans, 2, "one of each worker");
}

/// A defect, the chaos it needs to show, and the check that finds it.
const DEFECTS: [(&str, &str, &str); 7] = [
    ("epoch-ignored", "replica-pause=20/m", "out of order"),
    ("epoch-not-raised", "off", "epochs given twice"),
    ("notification-only", "off", "requests without an answer"),
    ("doubt-failed", "off", "requests or outcomes duplicated"),
    ("doubt-done", "off", "messages refused"),
    ("lock-is-death", "off", "living owners taken for dead"),
    ("second-entry-lost", "off", "side effects run twice"),
];

#[test]
fn every_defect_of_sharing_is_found_by_the_check_that_is_meant_for_it() {
    let Some(url) = database("every_defect_of_sharing_is_found_by_the_check_that_is_meant_for_it") else { return };
    let find = |(defect, chaos, check): (&str, &str, &str)| {
        let turns = if defect == "epoch-ignored" { "8" } else { "4" };
        let size = ["--replicas", "2", "--sessions", "12", "--turns", turns, "--think", "1s"];
        let (output, verdict) = soak(&[&size[..], &["--store", &url, "--chaos", chaos, "--defect", defect]].concat());
        assert_eq!(output.status.code(), Some(1), "{defect}: {}", shown(&output));
        assert!(broken(&verdict.expect("a verdict")).contains(&check), "{defect}: {}", shown(&output));
    };
    for some in DEFECTS.chunks(4) {
        thread::scope(|scope| some.iter().for_each(|one| drop(scope.spawn(|| find(*one)))));
    }
}

#[test]
fn what_is_only_for_one_worker_or_for_several_is_refused() {
    for (wrong, said) in [
        (&["--replicas", "2"][..], "--store postgres"),
        (&["--store", "mysql://a"], "say sqlite"),
        (&["--chaos", "replica-kill=1/m"], "needs --replicas"),
        (&["--store", "postgres", "--chaos", "turn-panic=1/m"], "is not for --replicas"),
        (&["--store", "postgres://a@b/c", "--chaos", "database-restart=1/m"], "is not restarted"),
        (&["--store", "postgres://a:secret@127.0.0.1:1/c"], "the database cannot be reached"),
        (&["--store", "postgres:///c"], "postgres://USER"),
        (&["--defect", "lock-is-death"], "needs --replicas"),
        (&["--store", "postgres://a@b/c", "--defect", "answer-twice"], "is for one worker"),
    ] {
        let (output, _) = soak(wrong);
        assert_eq!(output.status.code(), Some(2), "{wrong:?}: {}", shown(&output));
        assert!(shown(&output).contains(said) && !shown(&output).contains("secret"), "{wrong:?}: {}", shown(&output));
    }
}
