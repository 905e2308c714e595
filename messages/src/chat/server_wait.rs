//! A call that a tool server has taken, and has not answered with its result.

use super::output::ToolOutput;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;

/// What a tool server gave instead of the result of a call. With it the call goes on, also in another process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServerWait {
    /// The server works on the call as a task, and is asked for its result; the tool is not called again.
    Task {
        /// The server's name for the task.
        id: Arc<str>,
    },
    /// The server asks for something, and is called again with the answers.
    Asks {
        /// The questions by their names, as the server sent them.
        questions: Arc<Value>,
        /// What the server is told again with the answers.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        state: Option<Arc<str>>,
        /// The reply of a person, once it came. It is in no record of its own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reply: Option<Arc<str>>,
    },
}

impl ServerWait {
    /// What is waited for, for people; `note` is what is known of it now.
    pub fn what(&self, note: &str) -> String {
        let colon = if note.is_empty() { "" } else { ": " };
        match self {
            Self::Task { id } => format!("the result of the tool server's task {id}{colon}{note}"),
            Self::Asks { questions, .. } => {
                let forms = questions.as_object().into_iter().flatten().filter_map(|(name, question)| {
                    let form = question.get("params")?;
                    let message = form.get("message")?.as_str()?;
                    let fields = form.get("requestedSchema")?.get("properties")?.as_object()?;
                    let fields = fields.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
                    Some(format!("{name}: {message} ({fields})"))
                });
                let forms: Vec<_> = forms.collect();
                let reply = match forms.len() {
                    0 | 1 => "a JSON object of the fields, or decline",
                    _ => {
                        "a JSON object that has, for each of these names, an object of its fields or \"decline\"; or decline"
                    }
                };
                format!("the tool server asks: {}. Reply with {reply}{colon}{note}", forms.join("; "))
            }
        }
    }

    /// The output of a call that has no result yet.
    pub fn output(&self, note: &str) -> ToolOutput {
        let wait = self.replied(None);
        ToolOutput { structured: Some(json!({"server": wait})), ..ToolOutput::waits_for(self.what(note)) }
    }

    /// With this reply of a person, if the server asks for something.
    pub(crate) fn replied(&self, said: Option<&str>) -> Self {
        match self {
            Self::Task { .. } => self.clone(),
            Self::Asks { questions, state, reply: _ } => {
                Self::Asks { questions: Arc::clone(questions), state: state.clone(), reply: said.map(Arc::from) }
            }
        }
    }

    /// What the server gave, if the output of a call says so.
    pub(crate) fn of(output: &ToolOutput) -> Option<Self> {
        output.waits_for.as_ref()?;
        Self::deserialize(output.structured.as_ref()?.get("server")?).ok()
    }

    /// Whether the server can be asked for the result without a reply of a person.
    pub fn is_task(&self) -> bool {
        matches!(self, Self::Task { .. })
    }
}
