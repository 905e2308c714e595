//! Skills of a commit of a git repository, by the real binary and the real `git`.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use crate::home::Home;
use crate::support::scratch::Scratch;

const SKILL: &str = "---\nname: paint\ndescription: Paints walls\n---\nUse blue.\n";

fn git(folder: &Scratch, args: &[&str]) -> String {
    let mut git = Command::new("git");
    git.args(["-c", "user.name=a", "-c", "user.email=a@localhost"]).args(args).current_dir(folder.path());
    let done = git.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1").output().unwrap();
    assert!(done.status.success(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap().trim().to_owned()
}

/// A repository with one skill, and its commit.
fn repository() -> (Scratch, String) {
    let repository = Scratch::new();
    git(&repository, &["init", "--quiet", "--initial-branch=main"]);
    repository.write("all/paint/SKILL.md", SKILL);
    git(&repository, &["add", "--all"]);
    git(&repository, &["commit", "--quiet", "--message=a"]);
    let commit = git(&repository, &["rev-parse", "HEAD"]);
    (repository, commit)
}

fn source(repository: &Scratch, rev: &str) -> String {
    let url = format!("file://{}", repository.path().display());
    format!("[[skills.sources]]\ntype = \"git\"\nurl = \"{url}\"\nrev = \"{rev}\"\npath = \"all\"\n")
}

fn home(source: &str) -> Home {
    let home = Home::with(
        "default_model = \"demo:one\"",
        &format!("[providers.demo]\nkind = \"scripted\"\nscript = \"s.json\"\n{source}"),
    );
    home.scratch.write("s.json", json!([{ "replies": [{ "text": "hello" }] }]).to_string());
    home
}

#[test]
fn a_commit_is_mirrored_by_update_and_used_without_its_repository() {
    let (repository, commit) = repository();
    let home = home(&source(&repository, &commit));
    let list = home.run(["skills", "list"]);
    assert!(list.stdout.is_empty() && list.stderr.contains("run `cli-agent skills update`"), "{list:?}");
    assert_eq!(list.stderr.matches("file://").count(), 1, "the repository is named once: {list:?}");
    let doctor = home.run(["doctor"]);
    assert!(doctor.code == Some(2) && doctor.stdout.contains("is not mirrored yet"), "{doctor:?}");
    let update = home.run(["skills", "update"]);
    assert_eq!(update.code, Some(0), "{update:?}");
    assert!(update.stdout.starts_with("mirrored    file://") && update.stdout.contains(&commit), "{update:?}");
    // A branch that goes on, and a repository that is gone, change nothing.
    fs::remove_dir_all(repository.path()).unwrap();
    let again: Value = serde_json::from_str(&home.run(["skills", "update", "--json"]).stdout).unwrap();
    assert_eq!((&again["ok"], &again["sources"][0]["mirrored"]), (&json!(true), &json!(false)), "{again}");
    assert_eq!(home.run(["skills", "list"]).stdout, "paint                    Paints walls\n");
    let run = home.run(["run", "--output", "stream-json", "$paint the door"]);
    let events: Vec<Value> = run.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let selected = events.iter().find(|event| event["type"] == "skills.selected").expect("told");
    assert_eq!(selected["skills"][0]["name"], "paint", "{run:?}");
    let check = home.run(["doctor"]);
    assert!(check.stdout.contains("1 can be used"), "{check:?}");
}

#[test]
fn a_repository_that_is_away_fails_the_update_and_costs_no_turn() {
    let (repository, commit) = repository();
    let home = home(&source(&repository, &commit));
    fs::remove_dir_all(repository.path()).unwrap();
    let update = home.run(["skills", "update"]);
    assert!(update.code == Some(1) && update.stderr.contains("git could not mirror file://"), "{update:?}");
    let (code, outcome) = home.json(["$paint the door"]);
    assert_eq!((code, &outcome["content"]), (Some(0), &json!("hello")));
}

#[test]
fn a_branch_and_a_short_hash_are_errors_of_the_configuration_that_say_so() {
    let (repository, commit) = repository();
    for (rev, why) in
        [("main", "a branch or a tag can move, so name the commit"), (&commit[..12], "all 40 digits are needed")]
    {
        let list = home(&source(&repository, rev)).run(["skills", "list"]);
        assert!(list.code == Some(2) && list.stderr.contains("`skills.sources[0].rev`"), "{list:?}");
        assert!(list.stderr.contains(why), "{list:?}");
    }
}

#[test]
fn a_found_configuration_with_a_repository_needs_trust_before_anything_is_asked() {
    let (repository, commit) = repository();
    let home = home(&source(&repository, &commit));
    let update = home.found(["skills", "update"]).run();
    assert!(update.code == Some(2) && update.stderr.contains("the model is told the skills of file://"), "{update:?}");
    assert!(!home.scratch.join("state/bob/skills").exists(), "nothing was mirrored");
    assert!(home.found(["skills", "list"]).run().code == Some(0), "a list starts nothing");
}
