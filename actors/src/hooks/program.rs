use crate::child::ChildSpec;
use std::fmt;
use std::time::Duration;

/// A program that is run at a point of a turn.
#[derive(Debug, Clone, PartialEq)]
pub struct HookProgram {
    /// Its name, which its decisions are reported under.
    pub name: String,
    /// When it is run.
    pub on: HookPoint,
    /// Patterns of the calls it is about, in the grammar of the rules of a policy; empty: all calls.
    pub calls: Vec<String>,
    /// The program. Its pipes are the hook's.
    pub command: ChildSpec,
    /// How long one run may take; then its group is ended, and the run has failed.
    pub time_limit: Duration,
    /// What a failure comes to before a call.
    pub on_failure: OnFailure,
}

impl HookProgram {
    /// A hook about all calls, with ten seconds, whose failure denies.
    pub fn new(name: impl Into<String>, on: HookPoint, command: ChildSpec) -> Self {
        let (time_limit, on_failure) = (Duration::from_secs(10), OnFailure::default());
        Self { name: name.into(), on, calls: Vec::new(), command, time_limit, on_failure }
    }
}

/// A point at which hooks are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HookPoint {
    /// Before a call that policy, mode and the tool itself leave possible.
    BeforeCall,
    /// After a call that returned, before its result is used.
    AfterCall,
    /// When a person is asked: about a call, or by the model.
    Question,
    /// When a turn has ended, or is suspended.
    TurnEnd,
}

impl HookPoint {
    /// Its name in what a hook reads, and in a configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::BeforeCall => "before_call",
            Self::AfterCall => "after_call",
            Self::Question => "question",
            Self::TurnEnd => "turn_end",
        }
    }
}

impl fmt::Display for HookPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What the failure of a hook comes to before a call: it does not start, ends with a status other than 0, takes too long,
/// or says too much or something else than was expected.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// The call is denied.
    #[default]
    Deny,
    /// A person is asked.
    Ask,
    /// As if the hook had said nothing; the failure is logged.
    Allow,
}
