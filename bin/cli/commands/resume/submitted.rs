//! `resume --submit`: leaves the reply in the inbox of the session, for a worker.
//!
//! Opens the store and nothing else, as `submit` does.

use std::sync::Arc;

use bob::SessionId;
use bob::config::clock;
use bob::inbox::{InboxMessage, InboxRequest};
use bob::sessions::{ResumeReply, ResumeToken, SuspendReason};
use bob_config::{Config, assemble};

use super::{suspension, understood};
use crate::arguments::{OutputForm, ResumeArgs};
use crate::commands::prompt;
use crate::commands::submit::{self, Printed};
use crate::exit::{Exit, Failure};
use crate::runtime::signals::Signals;
use crate::runtime::{newest, trust};

const LASTING: &str = "a lasting decision cannot be submitted; use allow, allow-session or deny, or omit --submit";

/// Puts the reply, and prints the outcome of the turn that it resumes.
/// Errors: when the reply is none, or was not accepted, or refused by the worker that took it.
pub(super) async fn submit(
    args: &ResumeArgs,
    config: &Config,
    session: SessionId,
    token: ResumeToken,
    signals: &mut Signals,
) -> Result<Exit, Failure> {
    submit::refuse_memory(config)?;
    let given = (!args.reply.is_empty() && args.reply != ["-"]).then(|| args.reply.join(" "));
    let text = tokio::select! {
        text = prompt::read_any(given.as_deref()) => text?,
        caught = signals.next() => return Err(Failure::signalled(caught.exit())),
    };
    let request_id = submit::request_id(args.request_id.as_deref())?;
    let store = assemble::store_telling(config, false, trust::recorder(config))?;
    let submitter = submit::submitter(&store)?;
    let folded = newest::read(&*store, &session).await?.session;
    let reply = match suspension(&folded, &token) {
        Ok(suspension) => {
            let word = text.as_deref().and_then(|text| text.split_whitespace().next());
            let is_lasting = matches!(word, Some("always" | "deny-always"));
            if is_lasting && suspension.reason == SuspendReason::ApprovalRequired {
                return Err(Failure::usage(LASTING));
            }
            understood(text, suspension.reason, false)?
        }
        // A repeated one has its outcome, or the worker that has it refuses it.
        Err(_answered) if args.request_id.is_some() => ResumeReply::Answer(text.unwrap_or_default()),
        Err(failure) => return Err(failure),
    };
    let ids = format!("--request-id {request_id}");
    let printed = Printed {
        form: args.output,
        follows: args.output == OutputForm::StreamJson,
        mode: config.policy.rules.default_mode(),
        store: Arc::clone(&store),
        again: format!("`cli-agent resume --submit {ids}` with the same token and reply"),
        ids,
    };
    let request = InboxRequest::Resume { token, reply };
    let message = InboxMessage::new(session, request_id, clock::now(), request);
    let mut pending = submit::put(&submitter, message, &printed.ids).await?;
    submit::waited_for(&mut pending, &printed, signals).await
}
