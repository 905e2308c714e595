//! Prompt files of the session's folder and of the configuration's.

use super::Small;
use crate::home::Home;
use crate::support::provider::FakeProvider;
use crate::support::reply::Reply;
use crate::support::runtime::{at, build, in_folder, over, say, turn};
use bob::AgentRuntime;
use bob::config::{PromptFiles, PromptLayers};
use bob::sessions::FinishReason;
use serde_json::json;
use std::fs;

#[tokio::test]
async fn each_session_is_told_the_files_of_its_folder_as_they_are_now() {
    let (workspace, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let other = workspace.path().join("other");
    fs::create_dir(&other).unwrap();
    fs::write(folder.path().join("AGENTS.md"), "the configuration's rules").unwrap();
    fs::write(other.join("AGENTS.md"), "the other folder's rules").unwrap();
    let model = Small::of(30_000, "unused");
    let files = PromptFiles {
        texts: PromptLayers { instructions: "Be kind.".into(), ..PromptLayers::default() },
        named: vec!["AGENTS.md".into()],
        memory: "MEMORY.md".into(),
        workspace: workspace.path().to_owned(),
        folder: folder.path().to_owned(),
        ..PromptFiles::default()
    };
    let runtime =
        build(over(model.clone()).turn_config(at(workspace.path())).local_tools(false).prompt_files(files)).await;
    let system = |at: usize| model.requests(false)[at].system.to_string();

    turn(&runtime, say("hello")).await;
    assert!(system(0).starts_with("Be kind.\n\nthe configuration's rules"), "{}", system(0));
    let mut there = say("hello");
    there.session = crate::support::runtime::session("there");
    there.options = Some(in_folder(&other));
    turn(&runtime, there.clone()).await;
    assert!(system(1).starts_with("Be kind.\n\nthe other folder's rules"), "{}", system(1));
    // Memory written in one turn is in the prompt of the next.
    fs::write(other.join("MEMORY.md"), "the user likes tea").unwrap();
    there.options = None;
    turn(&runtime, there.clone()).await;
    assert!(system(2).contains("the user likes tea"), "{}", system(2));
    // A named file that goes away is an error of the turn that needs it.
    fs::remove_file(other.join("AGENTS.md")).unwrap();
    fs::remove_file(folder.path().join("AGENTS.md")).unwrap();
    let response = turn(&runtime, there.clone()).await;
    assert_eq!(response.finish_reason, FinishReason::Error);
    let error = response.error.expect("an error").to_string();
    assert!(error.contains("AGENTS.md") && error.contains(&other.display().to_string()), "{error}");
    assert_eq!(model.requests(false).len(), 3, "nothing is sent");
    fs::write(folder.path().join("AGENTS.md"), "again").unwrap();
    assert_eq!(turn(&runtime, there).await.finish_reason, FinishReason::Final);
    runtime.shutdown().await;
}

#[test]
fn a_missing_file_is_told_to_a_person_with_its_places() {
    let home = Home::scripted(&json!([{ "replies": [{ "text": "hello" }] }]));
    let config = home.scratch.read("agent.toml");
    home.scratch.agent_toml(&format!("{config}[prompt]\nfiles = [\"SOUL.md\"]\n"));
    let run = home.run(["run", "hi"]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""), "{run:?}");
    assert!(run.stderr.contains("SOUL.md"), "{}", run.stderr);
    let doctor = home.run(["doctor"]);
    assert!(doctor.stdout.contains("FAIL") && doctor.stdout.contains("SOUL.md"), "{doctor:?}");
    // A folder that has it is a folder to work in.
    home.scratch.write("sub/SOUL.md", "gentle");
    let run = home.run(["run", "--cwd", "sub", "hi"]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), "hello\n"), "{run:?}");
}

#[test]
fn the_projects_instructions_and_the_place_are_told_unless_the_configuration_says_otherwise() {
    let provider = FakeProvider::repeating([Reply::text("hello")]);
    let home = Home::served_by(&provider);
    home.scratch.folder(".git");
    home.scratch.write(".git/HEAD", "ref: refs/heads/topic\n");
    home.scratch.write("AGENTS.md", "Answer in verse.");
    home.scratch.write("sub/CLAUDE.md", "And rhyme.");
    let system = || {
        let run = home.run(["run", "--cwd", "sub", "hi"]);
        assert_eq!(run.code, Some(0), "{run:?}");
        let requests = provider.requests();
        requests.last().expect("a request").body["messages"][0]["content"].as_str().expect("a text").to_owned()
    };
    let told = system();
    let (verse, rhyme) = (told.find("Answer in verse."), told.find("And rhyme."));
    assert!(verse.is_some() && verse < rhyme, "{told}");
    assert!(told.contains("Today is 20") && told.contains("on the branch topic"), "{told}");
    let config = home.scratch.read("agent.toml");
    home.scratch.agent_toml(&format!("{config}[prompt]\nfiles = []\n"));
    let told = system();
    assert!(!told.contains("verse") && told.contains("Today is"), "{told}");
    home.scratch.agent_toml(&config.replace("[runtime]\n", "[runtime]\nprofile = \"strict\"\n"));
    let told = system();
    assert!(!told.contains("verse") && !told.contains("Today is"), "{told}");
}
