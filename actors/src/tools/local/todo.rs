//! `local/todo`: the plan of a session, for the person who watches.
//!
//! It keeps nothing: each call brings the whole plan, which is then in the history, in the journal and in the events of
//! the call.

use super::super::function::{FnTool, tool};
use bob_messages::tools::{ToolKind, ToolOutput};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Todo {
    /// All steps in order
    #[schemars(length(max = 50))]
    items: Vec<Item>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Item {
    /// The step in a few words
    #[schemars(length(min = 1, max = 200))]
    text: String,
    #[serde(default)]
    state: State,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum State {
    #[default]
    Pending,
    Active,
    Done,
}

const DESCRIPTION: &str =
    "Show the user your plan. For work of several steps: give all of them each time, with what is done";

pub(super) fn todo() -> FnTool {
    let show = |todo: Todo, _| std::future::ready(Ok(shown(&todo.items)));
    tool("local/todo", DESCRIPTION, show).title("plan").kind(ToolKind::Think).read_only()
}

fn shown(items: &[Item]) -> ToolOutput {
    let done = items.iter().filter(|item| item.state == State::Done).count();
    let lines = items.iter().map(|Item { text, state }| {
        let mark = match state {
            State::Pending => ' ',
            State::Active => '>',
            State::Done => 'x',
        };
        let text: Vec<_> = text.split_whitespace().collect();
        format!("\n[{mark}] {}", text.join(" "))
    });
    let text = format!("plan: {done} of {} done{}", items.len(), lines.collect::<String>());
    ToolOutput { structured: Some(json!({ "items": items })), ..ToolOutput::text(text) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::local::fixture::Workspace;

    #[tokio::test]
    async fn a_plan_is_shown_with_the_state_of_each_step() {
        let workspace = Workspace::new();
        let arguments = json!({"items": [
            {"text": "read\n it", "state": "done"}, {"text": "write", "state": "active"}, {"text": "run"}
        ]});
        let output = workspace.run(&todo(), arguments).await.expect("shown");
        assert_eq!(output.plain(), "plan: 1 of 3 done\n[x] read it\n[>] write\n[ ] run");
        assert_eq!(output.structured.expect("the steps")["items"][2], json!({"text": "run", "state": "pending"}));
        assert_eq!(workspace.text(&todo(), json!({"items": []})).await, "plan: 0 of 0 done");
        workspace.error(&todo(), json!({"items": [{"text": "x", "state": "gone"}]})).await;
    }
}
