//! What a turn is given besides its tools, and what it gives back: the skills it was chosen
//! are in each of its prompts and limit its calls, and its answer fits its schema.

use super::monitor::Monitor;
use crate::chat::FinishReason;
use crate::ids::ToolName;
use crate::llm::LlmRequest;
use crate::outcome::TurnOutcome;
use crate::session_state::Session;
use crate::skills::matches;
use crate::tools::CallContext;
use crate::turn::tests::world::{World, fits};

impl Monitor {
    /// A prompt names the skills that are journaled for its turn, once one of its steps is.
    pub(super) fn has_its_skills(&mut self, request: &LlmRequest, world: &World) {
        let Some(open) = self.shadow.running().filter(|open| open.input.turn == request.turn) else { return };
        let steps = open.spent.steps;
        let Some(chosen) = self.skills_of(request, world) else {
            let forgotten = self.skilled && steps > 0;
            return self.must(!forgotten, || "a step is journaled and its skills are not".to_owned());
        };
        let system = request.system.as_ref();
        if let Some(at) = system.find("# Skills\n").or_else(|| system.find("# Other skills\n")) {
            let layer = system[at..].split("\n\nAnswer with").next().unwrap_or_default();
            let (bytes, most) = (layer.len() as u64, chosen.budget_bytes);
            self.must(bytes <= most, || format!("skills take {bytes} bytes of {most}"));
        }
        let shown: Vec<&str> = system.split("\n## Skill ").skip(1).filter_map(|part| part.lines().next()).collect();
        let kept: Vec<&str> = chosen.skills.iter().map(|skill| skill.name.as_str()).collect();
        self.must(shown == kept, || format!("the prompt has the skills {shown:?}, and {kept:?} were chosen"));
        if !kept.is_empty() {
            self.saw("skills shown".to_owned());
        }
    }

    /// Skills that name their tools leave no others.
    pub(super) fn limits_tools(&mut self, context: &CallContext, world: &World) {
        let open = world.turn.session().and_then(Session::running);
        let Some(patterns) = open.and_then(|open| open.skills.as_ref()?.allow_tools.clone()) else { return };
        let is_meant =
            |name: &String| name == ToolName::USE_SKILL || patterns.iter().any(|pattern| matches(pattern, name));
        let is_limited = context.allow.as_ref().is_some_and(|names| names.iter().all(is_meant));
        self.must(is_limited, || {
            format!("skills limit the tools to {patterns:?}, and {:?} may be called", context.allow)
        });
        self.saw("tools limited".to_owned());
    }

    /// A final answer that must fit a schema does.
    pub(super) fn fits_its_schema(&mut self, outcome: &TurnOutcome) {
        if self.structured && outcome.finish_reason == FinishReason::Final {
            let fit = serde_json::from_str(&outcome.content).is_ok_and(|output| fits(&output).is_ok());
            self.must(fit, || format!("the final answer does not fit its schema: {:?}", outcome.content));
            self.saw("structured".to_owned());
        }
    }
}
