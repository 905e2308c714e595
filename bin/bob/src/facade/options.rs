//! Validation of session options, before anything is journaled or started.
//!
//! The rules are the same for a request, `open` and `configure`: folders exist inside the workspace, the model is
//! known, and the tool servers do not conflict.

use super::runtime::Runtime;
use super::submission::Owe;
use bob_messages::context::RequestContext;
use bob_messages::error::AgentError;
use bob_messages::ids::{ModelName, SessionId};
use bob_messages::options::{Change, OptionsPatch, ServerSpec, SessionOptions};
use bob_messages::reply::Reply;
use std::path::Path;
use std::sync::Arc;

/// The most bytes the options of a session may have in its journal.
const MAX_OPTIONS_BYTES: usize = 1024 * 1024;

/// The most bytes a notice for the model may have.
const MAX_NOTICE_BYTES: usize = 64 * 1024;

impl Runtime {
    /// Returns the options with canonical, absolute folders.
    /// Errors: `Invalid` for a folder that is missing or outside the workspace; `Llm` for an unknown model.
    pub(super) fn judged(&self, mut options: SessionOptions) -> Result<SessionOptions, AgentError> {
        options.cwd = options.cwd.map(|cwd| self.inside(&cwd, "cwd")).transpose()?;
        options.roots = options.roots.iter().map(|root| self.inside(root, "root")).collect::<Result<_, _>>()?;
        self.knows(options.model.as_ref())?;
        let tenant = options.tenant.as_ref().map(|tenant| RequestContext::of_tenant(tenant.as_str()).check());
        tenant.transpose()?;
        bounded(&options)?;
        Ok(options)
    }

    /// Checks a change of a session's options, and makes its paths absolute.
    pub(super) fn judged_patch(&self, mut patch: OptionsPatch) -> Result<OptionsPatch, AgentError> {
        if let Change::Set(cwd) = &mut patch.cwd {
            *cwd = self.inside(cwd, "cwd")?;
        }
        if let Change::Set(roots) = &mut patch.roots {
            *roots = roots.iter().map(|root| self.inside(root, "root")).collect::<Result<_, _>>()?;
        }
        bounded(&patch.applied_to(&SessionOptions::default()))?;
        patch.notice.as_deref().map_or(Ok(()), bounded_notice)?;
        if let Change::Set(model) = &patch.model {
            self.knows(Some(model))?;
        }
        Ok(patch)
    }

    fn knows(&self, model: Option<&ModelName>) -> Result<(), AgentError> {
        match model {
            Some(model) => self.0.model.capabilities(model).map(drop).map_err(AgentError::from),
            None => Ok(()),
        }
    }

    fn inside(&self, folder: &str, what: &str) -> Result<String, AgentError> {
        let refuse = |why: String| AgentError::Invalid(format!("the session's {what} {folder:?} {why}"));
        let path = Path::new(folder);
        if !path.is_absolute() {
            return Err(refuse("is no absolute path".to_owned()));
        }
        let real = path.canonicalize().map_err(|error| refuse(format!("cannot be used: {error}")))?;
        if !real.is_dir() {
            return Err(refuse("is no folder".to_owned()));
        }
        let text = real.to_str().ok_or_else(|| refuse("is not valid UTF-8".to_owned()))?;
        if !self.0.turn_config.holds(text) {
            let workspace = self.0.turn_config.roots.join(", ");
            return Err(refuse(format!("is outside the workspace, {workspace}; choose a folder inside it")));
        }
        Ok(text.to_owned())
    }

    /// Starts the session's tool servers, and returns the options to journal.
    #[cfg(feature = "mcp")]
    pub(super) fn bring(&self, session: &SessionId, options: SessionOptions) -> Result<SessionOptions, AgentError> {
        if !options.servers.is_empty() {
            let who = (session, options.tenant.as_ref());
            let brought = self.0.tool_servers.bring(who, &options.servers, &self.seen_by_servers(&options));
            brought.map_err(|error| AgentError::Invalid(error.to_string()))?;
        }
        Ok(options.stripped())
    }

    /// Wraps a reply so that the session loses these servers again when its request is refused.
    pub(super) fn lent(&self, session: &SessionId, options: Option<&SessionOptions>, reply: Owe) -> Owe {
        let Some(options) = options.filter(|options| !options.servers.is_empty()) else { return reply };
        let take_back = self.to_take_back(session, &options.servers);
        Reply::to(move |answer: Option<Result<_, AgentError>>| {
            if !matches!(answer, Some(Ok(_))) {
                take_back();
            }
            if let Some(answer) = answer {
                reply.send(answer);
            }
        })
    }

    /// Returns a function that detaches these servers if the request is refused. A session without other servers may
    /// never be used again, so nothing would detach them later; surplus servers of another session are detached at
    /// its next turn, and earlier ones stay attached.
    pub(super) fn to_take_back(&self, session: &SessionId, servers: &Arc<[ServerSpec]>) -> impl FnOnce() + use<> {
        let tools = self.0.tree.rooms.tools.clone();
        let (session, servers, is_first) = (session.clone(), Arc::clone(servers), !tools.has_own(session));
        move || {
            if is_first && !servers.is_empty() {
                tools.take_back(&session, &servers);
            }
        }
    }

    /// Reports the session's new folders to its servers.
    #[cfg(feature = "mcp")]
    pub(super) fn move_servers(&self, session: &SessionId, options: &SessionOptions) -> Result<(), AgentError> {
        let who = (session, options.tenant.as_ref());
        let moved = self.0.tool_servers.move_to(who, &options.servers, &self.seen_by_servers(options));
        moved.map_err(|error| AgentError::Invalid(error.to_string()))
    }

    /// Returns the session's folders that lie inside the workspace. Folders from the journal were not validated in
    /// this process and are filtered.
    #[cfg(feature = "mcp")]
    fn seen_by_servers(&self, options: &SessionOptions) -> Arc<[String]> {
        let turn_config = &self.0.turn_config;
        let own: Vec<_> = options.folders().filter(|folder| turn_config.holds(folder)).map(str::to_owned).collect();
        if own.is_empty() { Arc::clone(&turn_config.roots) } else { own.into() }
    }

    #[cfg(not(feature = "mcp"))]
    pub(super) fn bring(&self, _session: &SessionId, options: SessionOptions) -> Result<SessionOptions, AgentError> {
        match options.servers.is_empty() {
            true => Ok(options),
            false => Err(AgentError::Invalid("this program was built without tool servers (the feature mcp)".into())),
        }
    }

    #[cfg(not(feature = "mcp"))]
    pub(super) fn move_servers(&self, _session: &SessionId, _options: &SessionOptions) -> Result<(), AgentError> {
        Ok(())
    }
}

/// # Errors
/// `Invalid` for options that would swell every look at the session.
pub(super) fn bounded(options: &SessionOptions) -> Result<(), AgentError> {
    let bytes = serde_json::to_vec(options).map_or(usize::MAX, |json| json.len());
    if bytes > MAX_OPTIONS_BYTES {
        let text = format!("the session's options have {bytes} bytes; at most {MAX_OPTIONS_BYTES} are taken");
        return Err(AgentError::Invalid(text));
    }
    Ok(())
}

/// # Errors
/// `Invalid` for a notice without text, and for one that would fill the context of a model.
fn bounded_notice(notice: &str) -> Result<(), AgentError> {
    let why = match notice.len() {
        _ if notice.trim().is_empty() => "the notice for the model is empty".to_owned(),
        bytes if bytes > MAX_NOTICE_BYTES => {
            format!("the notice for the model has {bytes} bytes; at most {MAX_NOTICE_BYTES} are taken")
        }
        _ => return Ok(()),
    };
    Err(AgentError::Invalid(why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notice_has_a_text_of_bounded_size() {
        let most = "n".repeat(MAX_NOTICE_BYTES);
        assert!(bounded_notice("files were put back").is_ok() && bounded_notice(&most).is_ok());
        for refused in ["", " \n", &format!("{most}n")] {
            assert!(matches!(bounded_notice(refused), Err(AgentError::Invalid(_))), "{} bytes", refused.len());
        }
    }
}
