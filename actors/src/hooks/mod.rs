//! Hooks that are programs: started at fixed points of a turn, they read JSON and may say something about it.
//!
//! [`HookPrograms`] is a [`ToolHook`] for the points around a call, and an [`EventSink`](crate::feed::EventSink) for a question and the end of a
//! turn. A program has a process group of its own, the few variables that every child inherits, a time limit, and a bound on
//! what it may say; what it cannot say in time, or says in another form, is a failure, whose effect its [`OnFailure`] decides
//! before a call and which is logged everywhere else.
//!
//! | file | what is in it |
//! |---|---|
//! | `program` | one program and when it is run |
//! | `run` | one run of it, bounded |
//! | `wire` | what it reads and what it may say |
//! | `events` | questions and ends of turns |

mod events;
mod program;
mod run;
mod wire;

#[cfg(test)]
mod hooks_tests;

pub use events::Refuse;
pub use program::{HookPoint, HookProgram, OnFailure};

use crate::child::Watcher;
use crate::tools::call_patterns::CallPatterns;
use crate::tools::{Concern, HookedCall, PolicyError, ToolError, ToolHook};
use bob_messages::tools::ToolOutput;
use events::Events;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use run::Runs;
use std::fmt;
use std::sync::Arc;
use wire::{AfterCall, BeforeCall, Word};

/// The programs that are hooks of a runtime. Clones are the same.
#[derive(Clone)]
pub struct HookPrograms(Arc<Inner>);

struct Inner {
    hooks: Vec<Arc<Hooked>>,
    runs: Runs,
    events: Events,
}

/// A program with its patterns, ready to be asked.
pub(crate) struct Hooked {
    program: HookProgram,
    patterns: CallPatterns,
}

impl HookPrograms {
    /// The programs, in the order in which they are asked. Nothing is started.
    ///
    /// # Errors
    /// [`PolicyError`] for a pattern that is none.
    pub fn new(programs: Vec<HookProgram>, watcher: Watcher) -> Result<Self, PolicyError> {
        let hooked = |program: HookProgram| {
            let patterns = CallPatterns::new("hooks", &program.calls)?;
            Ok(Arc::new(Hooked { program, patterns }))
        };
        let hooks = programs.into_iter().map(hooked).collect::<Result<Vec<_>, PolicyError>>()?;
        Ok(Self(Arc::new(Inner { hooks, runs: Runs::new(watcher), events: Events::default() })))
    }

    /// Those of this point that are about calls of the tool.
    fn of(&self, point: HookPoint, call: &HookedCall) -> Vec<Arc<Hooked>> {
        let is_asked = |hook: &&Arc<Hooked>| hook.program.on == point && hook.patterns.are_of(&call.tool);
        self.0.hooks.iter().filter(is_asked).cloned().collect()
    }

    /// Whether its pattern is about the call, which may need a look at the disk.
    async fn is_about(hook: &Arc<Hooked>, call: &HookedCall) -> bool {
        let (hook, call) = (Arc::clone(hook), call.clone());
        let looked = move || hook.patterns.may_be_about(&call.tool, &call.call, &call.context);
        tokio::task::spawn_blocking(looked).await.unwrap_or(true)
    }
}

impl ToolHook for HookPrograms {
    fn before_call(&self, call: &HookedCall) -> Option<BoxFuture<'static, Option<Concern>>> {
        let hooks = self.of(HookPoint::BeforeCall, call);
        if hooks.is_empty() {
            return None;
        }
        let (inner, call) = (Arc::clone(&self.0), call.clone());
        let asked = async move {
            let mut said = None;
            for hook in &hooks {
                if matches!(said, Some(Concern::Deny(_))) || !Self::is_about(hook, &call).await {
                    continue;
                }
                let input = wire::of_call(&hook.program, &call, None);
                let answer = inner.runs.run(&hook.program, input).await.and_then(|said| wire::read(&said));
                said = Concern::joined(said, hook.program.weighed(answer));
            }
            said
        };
        Some(asked.boxed())
    }

    fn after_call(
        &self,
        call: &HookedCall,
        result: &Result<ToolOutput, ToolError>,
    ) -> Option<BoxFuture<'static, Option<String>>> {
        let hooks = self.of(HookPoint::AfterCall, call);
        if hooks.is_empty() {
            return None;
        }
        let (inner, call, result) = (Arc::clone(&self.0), call.clone(), wire::result(result));
        let asked = async move {
            let mut notes = Vec::new();
            for hook in &hooks {
                if !Self::is_about(hook, &call).await {
                    continue;
                }
                let name = &hook.program.name;
                let input = wire::of_call(&hook.program, &call, Some(&result));
                match inner.runs.run(&hook.program, input).await.and_then(|said| wire::read::<AfterCall>(&said)) {
                    Ok(AfterCall { note: Some(note) }) if !note.trim().is_empty() => {
                        notes.push(format!("[the hook {name} says: {}]", note.trim()));
                    }
                    Ok(AfterCall { note: _nothing }) => {}
                    Err(why) => hook.program.failed(&why),
                }
            }
            (!notes.is_empty()).then(|| notes.join("\n"))
        };
        Some(asked.boxed())
    }
}

impl HookProgram {
    /// What its answer before a call comes to.
    fn weighed(&self, answer: Result<BeforeCall, String>) -> Option<Concern> {
        let name = &self.name;
        match answer {
            Ok(BeforeCall { decision: None | Some(Word::Allow), reason: _ }) => None,
            Ok(BeforeCall { decision: Some(Word::Ask), reason }) => Some(Concern::Ask(match reason {
                Some(reason) => format!("is for a person to decide, says the hook {name}: {reason}"),
                None => format!("is for a person to decide, says the hook {name}"),
            })),
            Ok(BeforeCall { decision: Some(Word::Deny), reason }) => Some(Concern::Deny(match reason {
                Some(reason) => format!("the hook {name} denies it: {reason}"),
                None => format!("the hook {name} denies it"),
            })),
            Err(why) => {
                self.failed(&why);
                match self.on_failure {
                    OnFailure::Deny => Some(Concern::Deny(format!("the hook {name} that guards it failed: {why}"))),
                    OnFailure::Ask => Some(Concern::Ask(format!("could not be checked by the hook {name} ({why})"))),
                    OnFailure::Allow => None,
                }
            }
        }
    }

    fn failed(&self, why: &str) {
        tracing::warn!(target: "bob::hook", hook = %self.name, on = %self.on, why, "a hook failed");
    }
}

impl fmt::Debug for HookPrograms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.0.hooks.iter().map(|hook| &hook.program.name);
        f.debug_list().entries(names).finish()
    }
}
