//! A change of a session's options, and the name by which it counts once.

use super::{ParentTurn, ServerSpec, SessionOptions};
use crate::chat::Usage;
use crate::ids::{ModelName, PoolName, RequestId};
use crate::permission::PermissionMode;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A request to change a session's options.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Configuring {
    /// The caller's name for it: repeating it changes nothing a second time.
    pub request_id: RequestId,
    /// The change.
    pub change: SessionChange,
}

/// A change of a session's options.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionChange {
    /// A new session begins with these; one that is there must have them already.
    Open(Box<SessionOptions>),
    /// These of them change, from the next turn on.
    Patch(Box<OptionsPatch>),
    /// A summary takes the place of the history; of a session whose last turn is over.
    Condense(Box<HistoryChange>),
}

/// A summary that was written on request, between two turns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryChange {
    /// The version of the session that was summarised: what came later is in no summary.
    pub version: u64,
    /// The summary.
    pub summary: Arc<str>,
    /// What writing it used, if known.
    pub usage: Option<Usage>,
}

/// Changes by option. [`Change::Keep`] leaves an option unchanged.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OptionsPatch {
    /// The working folder.
    pub cwd: Change<String>,
    /// The further folders, all of them.
    pub roots: Change<Vec<String>>,
    /// The model.
    pub model: Change<ModelName>,
    /// The instructions.
    pub instructions: Change<String>,
    /// The name of the agent.
    pub agent: Change<String>,
    /// The tools the session is limited to.
    pub allow_tools: Change<Arc<[String]>>,
    /// What the session may do without asking.
    pub mode: Change<PermissionMode>,
    /// The tool servers that the session brings: the complete list.
    pub servers: Change<Arc<[ServerSpec]>>,
    /// The turn of another session that this one works for.
    pub parent: Change<ParentTurn>,
    /// The name of the session in lists.
    pub title: Change<Box<str>>,
    /// The pool of machines to which the session is bound.
    pub pool: Change<PoolName>,
    /// What happened outside of the conversation, which the model is told once, before the next message: a text of at most
    /// 64 KiB, and while a turn runs at most 8 of them. It is no option.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notice: Option<Arc<str>>,
}

/// The change of one option.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change<T> {
    /// It stays as it is.
    #[default]
    Keep,
    /// It is as the configuration has it.
    Clear,
    /// It is this.
    Set(T),
}

impl<T: Clone> Change<T> {
    fn apply(&self, to: &mut Option<T>) {
        match self {
            Self::Keep => {}
            Self::Clear => *to = None,
            Self::Set(value) => *to = Some(value.clone()),
        }
    }

    fn apply_or_empty(&self, to: &mut T)
    where
        T: Default,
    {
        match self {
            Self::Keep => {}
            Self::Clear => *to = T::default(),
            Self::Set(value) => *to = value.clone(),
        }
    }
}

impl OptionsPatch {
    /// Returns the patch that sets all options to these.
    pub fn to(options: &SessionOptions) -> Self {
        fn set<T: Clone>(value: &Option<T>) -> Change<T> {
            value.clone().map_or(Change::Clear, Change::Set)
        }
        Self {
            cwd: set(&options.cwd),
            roots: Change::Set(options.roots.clone()),
            model: set(&options.model),
            instructions: set(&options.instructions),
            agent: set(&options.agent),
            allow_tools: set(&options.allow_tools),
            mode: set(&options.mode),
            servers: Change::Set(options.servers.clone()),
            parent: set(&options.parent),
            title: set(&options.title),
            pool: set(&options.pool),
            notice: None,
        }
    }

    /// Returns the changed options.
    pub fn applied_to(&self, options: &SessionOptions) -> SessionOptions {
        let mut options = options.clone();
        self.cwd.apply(&mut options.cwd);
        self.roots.apply_or_empty(&mut options.roots);
        self.model.apply(&mut options.model);
        self.instructions.apply(&mut options.instructions);
        self.agent.apply(&mut options.agent);
        self.allow_tools.apply(&mut options.allow_tools);
        self.mode.apply(&mut options.mode);
        self.servers.apply_or_empty(&mut options.servers);
        self.parent.apply(&mut options.parent);
        self.title.apply(&mut options.title);
        self.pool.apply(&mut options.pool);
        options
    }
}

/// All of them change.
impl From<SessionOptions> for OptionsPatch {
    fn from(options: SessionOptions) -> Self {
        fn all<T>(value: Option<T>) -> Change<T> {
            value.map_or(Change::Clear, Change::Set)
        }
        Self {
            cwd: all(options.cwd),
            roots: Change::Set(options.roots),
            model: all(options.model),
            instructions: all(options.instructions),
            agent: all(options.agent),
            allow_tools: all(options.allow_tools),
            mode: all(options.mode),
            servers: Change::Set(options.servers),
            parent: all(options.parent),
            title: all(options.title),
            pool: all(options.pool),
            notice: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::ServerId;

    #[test]
    fn a_patch_changes_what_it_names_and_nothing_else() {
        let before = SessionOptions { cwd: Some("/a".into()), agent: Some("ada".into()), ..SessionOptions::default() };
        let patch = OptionsPatch { cwd: Change::Set("/b".into()), agent: Change::Clear, ..OptionsPatch::default() };
        let after = SessionOptions { cwd: Some("/b".into()), ..SessionOptions::default() };
        assert_eq!(patch.applied_to(&before), after);
        assert_eq!(OptionsPatch::default().applied_to(&before), before);
        let servers = Arc::from([ServerSpec::http(ServerId::new("x"), "http://h/")]);
        let whole = SessionOptions { servers, roots: vec!["/c".into()], ..after };
        assert_eq!(OptionsPatch::from(whole.clone()).applied_to(&before), whole);
        let text = serde_json::to_string(&patch).unwrap();
        assert_eq!(serde_json::from_str::<OptionsPatch>(&text).unwrap(), patch);
    }
}
