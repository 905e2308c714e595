//! Which session a chat is about, and how to come back to it.

use std::path::Path;

use bob::sessions::{Change, OptionsPatch, SessionOptions};
use bob::store::StoreError;
use bob::{AgentRuntime, SessionId};
use bob_config::Config;

use super::alive::is_open;
use super::choose::{self, Chosen};
use super::{Chat, Source};
use crate::arguments::ChatArgs;
use crate::commands::run::{moved, new_session, working_folder};
use crate::commands::sessions::find::Listing;
use crate::commands::sessions::no_such;
use crate::exit::Failure;
use crate::runtime::OpenRuntime;
use crate::runtime::signals::Signals;
use crate::terminal::print;

/// The session that the command line asks for.
pub(super) enum Begin {
    New,
    Named(SessionId),
    /// It must exist; its id, or the beginning of it.
    Existing(String),
    Last,
    /// A person chooses.
    Choose,
}

impl Begin {
    /// # Errors
    /// An invalid id; a choice without a person.
    pub(super) fn of(args: &ChatArgs, is_person: bool) -> Result<Self, Failure> {
        Ok(match (&args.session, args.resume.as_deref()) {
            (Some(id), _) => Self::Named(SessionId::parse(id)?),
            (None, Some("")) if !is_person => {
                return Err(Failure::usage(
                    "--resume needs an ID where no list can be shown; `cli-agent sessions list` lists them",
                ));
            }
            (None, Some("")) => Self::Choose,
            (None, Some(id)) => {
                SessionId::parse(id)?;
                Self::Existing(id.to_owned())
            }
            (None, None) if args.continue_last => Self::Last,
            (None, None) => Self::New,
        })
    }

    /// The session, and whether it may have been there before. `folder` is that of the command line.
    pub(super) async fn session(
        self,
        opened: &OpenRuntime,
        folder: Option<&str>,
        source: &mut Source,
        signals: &mut Signals,
    ) -> Result<Chosen<(SessionId, bool)>, Failure> {
        let listing = Listing::Runtime(&opened.runtime);
        Ok(Chosen::This(match self {
            Self::New => (new_session()?, false),
            Self::Named(id) => (id, true),
            Self::Existing(id) => (existing(opened, &id).await?, true),
            Self::Last => (listing.last(opened.works_in(folder)).await?, true),
            Self::Choose => match choose::session(opened, source, signals).await? {
                Chosen::This(session) => (session, true),
                Chosen::Nothing => return Ok(Chosen::Nothing),
                Chosen::Ended(exit) => return Ok(Chosen::Ended(exit)),
            },
        }))
    }
}

/// The session with this id, or whose id alone begins so.
pub(super) async fn existing(opened: &OpenRuntime, id: &str) -> Result<SessionId, Failure> {
    let session = Listing::Runtime(&opened.runtime).find(id).await?;
    match opened.runtime.last_records(session.clone(), 1).await?.is_empty() {
        true => Err(no_such(&session)),
        false => Ok(session),
    }
}

/// The text of a folder for a session's options.
pub(super) fn folder(cwd: &Path, config: &Config) -> Result<String, Failure> {
    let folder = working_folder(cwd, config)?;
    folder.into_os_string().into_string().map_err(|_| Failure::usage("--cwd is not valid UTF-8"))
}

impl Chat {
    /// Says what the chat is about, and shows the end of a session that may have been there before.
    pub(super) async fn open(&mut self, may_exist: bool, config: &Config) -> Result<(), Failure> {
        if may_exist {
            self.refuse_others(&self.session).await?;
        }
        self.greet();
        if self.is_person && config.files().all().next().is_none() {
            print::note(
                "there is no agent.toml, so the model is chosen by the keys in the environment; cli-agent init writes one",
            );
        }
        if may_exist {
            self.look_back().await?;
            self.move_to_folder().await?;
        }
        Ok(())
    }

    /// Refuses a session that another process has, before a message to it would fail. With `--take-over` it is taken.
    pub(super) async fn refuse_others(&self, session: &SessionId) -> Result<(), Failure> {
        let OpenRuntime { runtime, store, .. } = &self.opened;
        let is_there = runtime.last_records(session.clone(), 1).await.is_ok_and(|last| !last.is_empty());
        // What the runtime has open must not be claimed beside it.
        if !self.is_stored || !is_there || is_open(session, &runtime.tree().await) {
            return Ok(());
        }
        match store.claim_latest(session).await {
            Ok(claim) => {
                store.release(session, claim.epoch).await;
                Ok(())
            }
            Err(error @ StoreError::Busy { .. }) => {
                let failure = Failure::from(error);
                Err(Failure { message: format!("session {session}: {failure}"), ..failure })
            }
            Err(_said_later) => Ok(()),
        }
    }

    /// The options of a session that begins with the next message: the folder of the command line, or the current one where
    /// no project says where its sessions work.
    pub(super) fn first_options(&self) -> Option<SessionOptions> {
        let cwd = self.folder.clone().or_else(|| self.opened.here.clone()).filter(|_| !self.is_begun)?;
        Some(SessionOptions { cwd: Some(cwd), ..SessionOptions::default() })
    }

    /// Moves a session that was there before to the folder of the command line. Without one, a session of another folder
    /// is moved to the current one where no project has both.
    pub(super) async fn move_to_folder(&mut self) -> Result<(), Failure> {
        let folder = match (&self.folder, &self.cwd) {
            _ if !self.is_begun => None,
            (Some(folder), _) => Some(folder.clone()),
            (None, cwd) => moved(&self.opened, cwd.as_deref()),
        };
        let Some(folder) = folder else { return Ok(()) };
        let patch = OptionsPatch { cwd: Change::Set(folder.clone()), ..OptionsPatch::default() };
        self.opened.runtime.configure(self.session.clone(), patch, None).await?;
        self.cwd = Some(folder);
        Ok(())
    }

    /// Says how to come back to the conversation, if there is one that is kept. An empty one is removed.
    pub(super) async fn farewell(&self) {
        if self.is_nothing {
            let _removed_or_left = self.opened.runtime.delete(self.session.clone()).await;
            return;
        }
        if !(self.is_person && self.is_begun && self.is_stored) {
            return;
        }
        let config = match self.origin.files.is_named {
            true => format!(" --config {}", quoted(&self.origin.files.first().display().to_string())),
            false => String::new(),
        };
        print::note(&format!("To continue: cli-agent{config} chat --resume {}", self.session));
    }
}

/// A word as a shell reads it back.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "._-/+:@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}
