//! The skills of a sub-agent: those that its profile names, or those that its task chooses.

use std::path::Path;
use std::sync::Arc;

use bob::model::ScriptedReply;
use bob::tools::skills::{SkillFolders, SkillRules, SkillSource};
use serde_json::json;

use crate::subagents::stage::{agent, calls, playing};
use crate::support::runtime::{build, say, turn};

/// A line of the body of each of the two skills.
const BODIES: [(&str, &str); 2] =
    [("code-review", "Read the whole change before"), ("release-notes", "Write for people who use the program")];

#[tokio::test]
async fn a_child_has_exactly_the_skills_of_its_profile_or_those_that_its_task_chooses() {
    let task = "Write $release-notes for it.";
    let (builder, asked) = playing(move |who, request| match (who, request.step) {
        ("root", 1) => calls(["agent/named", "agent/none", "agent/open"].map(|name| (name, json!({"task": task})))),
        _ => ScriptedReply::text("done"),
    });
    let folders =
        SkillFolders::new(vec![SkillSource::new("skills")], Path::new(env!("CARGO_MANIFEST_DIR")).join("examples"));
    // The skill of the profile names local tools.
    let builder = builder.local_tools(true).skills(Arc::new(folders), SkillRules::default());
    let builder = builder.subagent(agent("named").skills(["code-review"])).subagent(agent("none").skills([""; 0]));
    let runtime = build(builder.subagent(agent("open"))).await;
    turn(&runtime, say("go")).await;
    let asked = asked.lock().unwrap();
    let skills = |who: &str| {
        let request = asked.iter().find(|of| of.system.contains(&format!("You are {who}."))).unwrap();
        let has = |(_, body): &&(&str, &str)| request.system.contains(body);
        BODIES.iter().filter(has).map(|(name, _)| *name).collect::<Vec<_>>()
    };
    assert_eq!(skills("named"), ["code-review"], "whatever its task says");
    assert!(skills("none").is_empty());
    assert_eq!(skills("open"), ["release-notes"]);
}
