//! Turns that get skills.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use bob::events::AgentEvent;
use bob::model::{LlmRequest, ScriptedLlm, ScriptedReply};
use bob::sessions::ResumeReply;
use bob::tools::skills::{SkillFolders, SkillForm, SkillRules, SkillSource};
use bob::{AgentRequest, AgentRunResult, AgentRuntime, Runtime, RuntimeBuilder};
use bob_messages::chat::CallStatus;
use bob_messages::store::Fact;
use serde_json::json;

use crate::support::runtime::{Recorder, at, build, file_store, over, say, session, turn, within};
use crate::support::scratch::Scratch;

/// The requests to a model.
type Asked = Arc<Mutex<Vec<LlmRequest>>>;

fn asked(asked: &Asked) -> Vec<LlmRequest> {
    asked.lock().unwrap().clone()
}

/// A model with these replies that records its requests.
fn model(replies: impl Fn(&LlmRequest) -> ScriptedReply + Send + Sync + 'static) -> (RuntimeBuilder, Asked) {
    let heard: Asked = Arc::default();
    let kept = Arc::clone(&heard);
    let model = ScriptedLlm::from_fn(move |request| {
        kept.lock().unwrap().push(request.clone());
        replies(request)
    });
    (over(model), heard)
}

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples")
}

fn folders(base: &Path) -> Arc<SkillFolders> {
    Arc::new(SkillFolders::new(vec![SkillSource::new("skills")], base.to_owned()))
}

fn tokens(tokens: u64) -> SkillRules {
    SkillRules { token_budget_tokens: Some(tokens), ..SkillRules::default() }
}

/// The last `skills.selected` event.
fn told(recorder: &Recorder) -> (Vec<(String, SkillForm)>, Vec<String>, u64, u64) {
    let events = recorder.events();
    let selected = events.iter().rev().find_map(|event| match &event.event {
        AgentEvent::SkillsSelected { skills, dropped, bytes, budget_bytes } => {
            let skills = skills.iter().map(|skill| (skill.name.clone(), skill.form)).collect();
            Some((skills, dropped.clone(), *bytes, *budget_bytes))
        }
        _other => None,
    });
    selected.expect("skills were selected")
}

#[tokio::test]
async fn a_turn_reads_its_skills_and_a_budget_cuts_them() {
    use SkillForm::{Essentials, Whole, WithoutExamples};
    let text = "Please do a code-review, and write $release-notes for it.";
    let named =
        |form: &[(&str, SkillForm)]| form.iter().map(|(name, form)| ((*name).to_owned(), *form)).collect::<Vec<_>>();
    for (bytes, expected, dropped) in [
        (8_000, named(&[("code-review", Whole), ("release-notes", Whole)]), 0),
        (1_860, named(&[("code-review", Whole), ("release-notes", WithoutExamples)]), 0),
        (1_250, named(&[("code-review", WithoutExamples)]), 1),
        (800, named(&[("code-review", Essentials)]), 1),
        (100, vec![], 2),
    ] {
        // Each skill names its folder, so how large they are depends on where this is.
        let budget = (bytes + 2 * examples().as_os_str().len() as u64) / 4;
        let (builder, heard) = model(|_| ScriptedReply::Text("done".into()));
        let recorder = Recorder::new();
        let sink: Arc<dyn bob::events::EventSink> = recorder.clone();
        let runtime = build(builder.sink(sink).skills(folders(&examples()), tokens(budget))).await;
        let outcome = turn(&runtime, say(text)).await;
        assert_eq!(outcome.content, "done");
        let (skills, left_out, bytes, most) = told(&recorder);
        assert_eq!((&skills, left_out.len()), (&expected, dropped), "{budget} tokens: {bytes} bytes");
        assert!(bytes <= most && most == budget * 4, "{bytes} of {most}");
        let system = asked(&heard)[0].system.to_string();
        let layer = system.find("# Skills").map_or("", |from| &system[from..]);
        for (name, _) in &skills {
            assert!(layer.contains(&format!("| {name} | ")) && layer.contains(&format!("## Skill {name}")), "{layer}");
            assert!(layer.contains("Are errors handled"), "a checklist stays: {layer}");
        }
        assert_eq!(
            layer.contains("takes the first byte"),
            skills.contains(&("code-review".to_owned(), Whole)),
            "{layer}"
        );
        recorder.assert_in_order();
        within(runtime.shutdown()).await;
    }
}

#[tokio::test]
async fn a_turn_about_nothing_a_skill_knows_has_none_and_labels_find_one() {
    let (builder, heard) = model(|_| ScriptedReply::Text("done".into()));
    let runtime = build(builder.skills(folders(&examples()), SkillRules::default())).await;
    turn(&runtime, say("Good morning!")).await;
    assert!(!asked(&heard)[0].system.contains("# Skills"));
    let labels = [("kind".to_owned(), "billing".to_owned())].into();
    turn(&runtime, AgentRequest { labels, ..say("Have a look.") }).await;
    assert!(asked(&heard)[1].system.contains("## Skill invoice-check"));
    within(runtime.shutdown()).await;
}

#[tokio::test]
async fn a_skill_limits_the_tools_of_its_turn_and_adds_none() {
    let folder = Scratch::new();
    folder.write("a.txt", "from a");
    let (builder, heard) = model(|request| match request.step {
        1 => ScriptedReply::call("local/write_file", json!({"path": "b.txt", "content": "x"})),
        2 => ScriptedReply::call("local/read_file", json!({"path": "a.txt"})),
        _ => ScriptedReply::Text("done".into()),
    });
    let runtime =
        build(builder.turn_config(at(folder.path())).skills(folders(&examples()), SkillRules::default())).await;
    let outcome = turn(&runtime, say("$code-review please")).await;
    let status: Vec<_> = outcome.tool_transcript.iter().map(|entry| entry.status).collect();
    assert_eq!(status, [CallStatus::Denied, CallStatus::Ok], "{:?}", outcome.tool_transcript);
    assert!(!folder.join("b.txt").exists());
    let offered: Vec<_> = asked(&heard)[0].tools.tools().iter().map(|tool| tool.id.to_string()).collect();
    assert!(
        offered.contains(&"local/read_file".to_owned()) && !offered.contains(&"local/write_file".to_owned()),
        "{offered:?}"
    );
    // A skill adds no tools: none of its tools is available, so it is not selected.
    let nothing = AgentRequest { allow_tools: Some(vec!["local/write_file".to_owned()]), ..say("$code-review please") };
    let asked_before = asked(&heard).len();
    turn(&runtime, AgentRequest { session: session("other"), ..nothing }).await;
    let request = &asked(&heard)[asked_before];
    let offered: Vec<_> = request.tools.tools().iter().map(|tool| tool.id.to_string()).collect();
    assert_eq!((offered, request.system.contains("# Skills")), (vec!["local/write_file".to_owned()], false));
    within(runtime.shutdown()).await;
}

async fn runtime_over(store: &Path, base: &Path) -> (Runtime, Asked) {
    let (builder, heard) = model(|request| match request.step {
        1 => ScriptedReply::call("ask_user", json!({"question": "Which one?"})),
        _ => ScriptedReply::Text("done".into()),
    });
    (build(builder.store(file_store(store)).skills(folders(base), tokens(1_000))).await, heard)
}

#[tokio::test]
async fn a_turn_has_the_same_skills_in_the_next_process() {
    let (folder, store) = (Scratch::new(), Scratch::new());
    let write = |name: &str, text: &str| {
        let skill = format!("---\nname: {name}\ndescription: Paints walls and doors\n---\n{text}\n");
        folder.write(&format!("skills/{name}/SKILL.md"), skill);
    };
    write("paint", "Use blue.");
    let (runtime, _) = runtime_over(store.path(), folder.path()).await;
    let AgentRunResult::Suspended { token, .. } = within(runtime.run(say("paint the doors"))).await.unwrap() else {
        panic!("it asks")
    };
    within(runtime.shutdown()).await;
    drop(runtime);
    // A better match was added meanwhile.
    write("doors", "Use green.");
    let (runtime, heard) = runtime_over(store.path(), folder.path()).await;
    let reply = ResumeReply::Answer("the left one".into());
    let result = within(runtime.resume(token, reply)).await.unwrap();
    assert_eq!(result.response().content, "done");
    let system = asked(&heard)[0].system.to_string();
    assert!(system.contains("Use blue.") && !system.contains("Use green."), "{system}");
    let records = within(runtime.records(session("s"))).await.unwrap();
    let chosen = records.iter().filter(|record| matches!(record.fact, Fact::SkillsSelected(_))).count();
    assert_eq!(chosen, 1, "chosen once in a turn");
    // The next turn chooses anew.
    within(runtime.run(say("paint the doors"))).await.unwrap();
    assert!(asked(&heard)[1].system.contains("Use green."));
    within(runtime.shutdown()).await;
}

#[tokio::test]
async fn a_port_that_panics_or_says_nothing_costs_the_skills_and_not_the_turn() {
    struct Panics;
    impl bob::tools::skills::SkillPort for Panics {
        fn index(&self, _: Option<String>) -> futures_util::future::BoxFuture<'_, Arc<bob::tools::skills::SkillIndex>> {
            panic!("a fault of its own")
        }
    }
    let (builder, _) = model(|_| ScriptedReply::Text("done".into()));
    let runtime = build(builder.skills(Arc::new(Panics), SkillRules::default())).await;
    assert_eq!(turn(&runtime, say("hello")).await.content, "done");
    within(runtime.shutdown()).await;
}
