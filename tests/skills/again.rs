//! Skills that are selected again while a turn runs, by the whole runtime.

use std::sync::{Arc, Mutex};

use bob::events::AgentEvent;
use bob::model::{ContentPart, LlmRequest, ScriptedLlm, ScriptedReply};
use bob::tools::skills::{
    ReselectCause, Skill, SkillFolders, SkillForm, SkillIndex, SkillPort, SkillQuery, SkillRules, SkillScores,
    SkillSource,
};
use bob::tools::{ToolOutput, tool};
use bob::{AgentRuntime, BoxFuture, RuntimeBuilder};
use bob_messages::chat::CallStatus;
use bob_messages::store::Fact;
use serde_json::json;
use tokio::sync::Notify;

use crate::support::runtime::{Nothing, Recorder, build, file_store, over, say, session, turn, within};
use crate::support::scratch::Scratch;

fn write(folder: &Scratch, name: &str, description: &str, text: &str) {
    let skill = format!("---\nname: {name}\ndescription: {description}\n---\n{text}\n");
    folder.write(&format!("skills/{name}/SKILL.md"), skill);
}

fn workshop() -> Scratch {
    let folder = Scratch::new();
    write(&folder, "paint", "Paints walls", "Use blue.");
    write(&folder, "sew", "Sews shirts", "Use silk.");
    folder
}

fn folders(folder: &Scratch) -> Arc<SkillFolders> {
    Arc::new(SkillFolders::new(vec![SkillSource::new("skills")], folder.path().to_owned()))
}

/// A builder over a model with these replies, and the system texts of its requests.
fn model(
    replies: impl Fn(&LlmRequest) -> ScriptedReply + Send + Sync + 'static,
) -> (RuntimeBuilder, Arc<Mutex<Vec<String>>>) {
    let heard: Arc<Mutex<Vec<String>>> = Arc::default();
    let kept = Arc::clone(&heard);
    let model = ScriptedLlm::from_fn(move |request| {
        kept.lock().unwrap().push(request.system.to_string());
        replies(request)
    });
    (over(model), heard)
}

fn told(recorder: &Recorder) -> Vec<(Vec<ReselectCause>, Vec<String>)> {
    let told = recorder.events();
    let again = told.iter().filter_map(|event| match &event.event {
        AgentEvent::SkillsReselected { causes, skills, bytes, budget_bytes, .. } => {
            assert!(bytes <= budget_bytes && event.step.is_some(), "{event:?}");
            Some((causes.clone(), skills.iter().map(|skill| skill.name.clone()).collect()))
        }
        _other => None,
    });
    again.collect()
}

#[tokio::test]
async fn a_steered_turn_has_the_skill_that_the_user_names_in_its_next_prompt() {
    let (folder, let_go) = (workshop(), Arc::new(Notify::new()));
    let (builder, heard) = model(|request| match request.step {
        1 => ScriptedReply::call("test/gated", json!({})),
        _ => ScriptedReply::text("done"),
    });
    let gate = Arc::clone(&let_go);
    let gated = tool("test/gated", "Returns when it is let.", move |_: Nothing, _| {
        let gate = Arc::clone(&gate);
        async move {
            gate.notified().await;
            Ok(ToolOutput::text("ok"))
        }
    });
    let recorder = Recorder::new();
    let sink: Arc<dyn bob::events::EventSink> = recorder.clone();
    let builder = builder.tools(Arc::new(gated)).sink(sink).skills(folders(&folder), SkillRules::default());
    let runtime = build(builder).await;
    let mut stream = within(runtime.run_stream(say("$paint the wall"))).await.unwrap();
    while !matches!(within(stream.next_event()).await.expect("an event").event, AgentEvent::ToolCalled { .. }) {}
    let steered = runtime.steer(session("s"), vec![ContentPart::text("and $sew a curtain")]);
    assert_eq!(within(steered).await, Ok(true));
    let_go.notify_one();
    within(stream.finish()).await.unwrap();
    let heard = heard.lock().unwrap().clone();
    let has = |at: usize| (heard[at].contains("Use blue."), heard[at].contains("Use silk."));
    assert_eq!([has(0), has(1)], [(true, false), (true, true)]);
    assert_eq!(told(&recorder), [(vec![ReselectCause::Steered], vec!["paint".to_owned(), "sew".to_owned()])]);
    recorder.assert_in_order();
    within(runtime.shutdown()).await;
}

#[tokio::test]
async fn a_model_gets_a_listed_skill_that_it_asks_for_and_no_other() {
    let (folder, store) = (workshop(), Scratch::new());
    let (builder, heard) = model(|request| match request.step {
        1 => ScriptedReply::call("local/use_skill", json!({"name": "../secrets"})),
        2 => ScriptedReply::call("local/use_skill", json!({"name": "sew"})),
        _ => ScriptedReply::text("done"),
    });
    let builder = builder.store(file_store(store.path())).skills(folders(&folder), SkillRules::default());
    let runtime = build(builder).await;
    let outcome = turn(&runtime, say("$paint the wall")).await;
    let results: Vec<_> =
        outcome.tool_transcript.iter().map(|entry| (entry.status, entry.result.as_str().to_owned())).collect();
    assert_eq!(results[0].0, CallStatus::Error);
    assert!(results[0].1.contains("there is no skill `../secrets` here; skills are: paint, sew"), "{results:?}");
    assert_eq!(results[1].0, CallStatus::Ok, "{results:?}");
    let heard = heard.lock().unwrap().clone();
    assert!(heard[0].contains("# Other skills") && heard[0].contains("| sew | Sews shirts |"), "{}", heard[0]);
    assert!(!heard[1].contains("Use silk.") && heard[2].contains("Use silk."), "{}", heard[2]);
    assert!(!heard[2].contains("# Other skills"), "there is no other: {}", heard[2]);
    let records = within(runtime.records(session("s"))).await.unwrap();
    let again: Vec<_> = records
        .iter()
        .filter_map(|record| match &record.fact {
            Fact::SkillsReselected(again) => Some(again.causes.clone()),
            _other => None,
        })
        .collect();
    assert_eq!(again, [[ReselectCause::UseSkill]]);
    assert!(bob_messages::replay::replay(&records).is_ok());
    within(runtime.shutdown()).await;
}

#[tokio::test]
async fn a_changed_skill_is_seen_without_a_restart_unless_its_folder_is_not_watched() {
    for watch in [true, false] {
        let folder = workshop();
        let (builder, heard) = model(|_| ScriptedReply::text("done"));
        let source = SkillSource { watch, ..SkillSource::new("skills") };
        let skills = SkillFolders::new(vec![source], folder.path().to_owned());
        let runtime = build(builder.skills(Arc::new(skills), SkillRules::default())).await;
        turn(&runtime, say("$paint the wall")).await;
        write(&folder, "paint", "Paints walls", "Use red!!");
        // A check is valid for a multiple of the time it took: how many turns that is depends on the disk.
        let mut turns = 0;
        while turns < 2_000 && !heard.lock().unwrap().last().unwrap().contains("Use red!!") {
            turn(&runtime, say("$paint the wall")).await;
            turns += 1;
            if !watch && turns > 20 {
                break;
            }
        }
        let last = heard.lock().unwrap().last().unwrap().clone();
        assert_eq!(last.contains("Use red!!"), watch, "after {turns} turns: {last}");
        within(runtime.shutdown()).await;
    }
}

/// Prefers the skill that is asked for last in the alphabet, and shouts.
struct Own(Arc<SkillIndex>, Arc<Mutex<Vec<SkillQuery>>>);

impl SkillPort for Own {
    fn index(&self, _: Option<String>) -> BoxFuture<'_, Arc<SkillIndex>> {
        Box::pin(std::future::ready(Arc::clone(&self.0)))
    }

    fn score<'a>(&'a self, _: &'a SkillIndex, query: &'a SkillQuery) -> BoxFuture<'a, Option<SkillScores>> {
        self.1.lock().unwrap().push(query.clone());
        let name = if query.causes.is_empty() { "sew" } else { "paint" };
        Box::pin(std::future::ready(Some(SkillScores::from([(name.to_owned(), 640)]))))
    }

    fn render(&self, skill: &Skill, form: SkillForm) -> Option<String> {
        Some(format!("{} IN FORM {form:?}", skill.body.trim().to_uppercase()))
    }
}

#[tokio::test]
async fn a_port_scores_and_renders_its_skills_itself() {
    let folder = workshop();
    let queries: Arc<Mutex<Vec<SkillQuery>>> = Arc::default();
    let (builder, heard) = model(|request| match request.step {
        1 | 2 => ScriptedReply::call("local/read_file", json!({"path": format!("missing-{}", request.step)})),
        _ => ScriptedReply::text("done"),
    });
    let port = Own(folders(&folder).read(None), Arc::clone(&queries));
    let limits = bob::config::Limits { max_consecutive_errors: 5, ..bob::config::Limits::default() };
    let rules = SkillRules { role: Some("painter".into()), ..SkillRules::default() };
    let runtime = build(builder.limits(limits).skills(Arc::new(port), rules)).await;
    turn(&runtime, say("hello")).await;
    let heard = heard.lock().unwrap().clone();
    assert!(heard[0].contains("## Skill sew\nUSE SILK. IN FORM Whole"), "{}", heard[0]);
    assert!(heard[2].contains("## Skill paint\nUSE BLUE. IN FORM Whole") && !heard[2].contains("SILK"), "{}", heard[2]);
    let queries = queries.lock().unwrap().clone();
    let causes: Vec<_> = queries.iter().map(|query| query.causes.clone()).collect();
    assert_eq!(causes, [vec![], vec![ReselectCause::ToolErrors]]);
    assert_eq!((queries[0].text.as_str(), queries[0].role.as_deref()), ("hello", Some("painter")));
    assert!(queries[1].beside.contains("local/read_file") && queries[0].beside.is_empty(), "{queries:?}");
    within(runtime.shutdown()).await;
}
