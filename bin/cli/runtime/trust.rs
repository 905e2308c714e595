//! Trust in a configuration that was found in the current folder or above it, not named. The user's own file, and
//! built-in defaults, need none.
//!
//! Such a configuration may have come with foreign files. Its privileges beyond choosing a built-in model are shown
//! (programs it starts, addresses it sends to, policies it relaxes), and so is a store that came with it; the user is
//! asked once, and again with the difference when it changed. The answer is stored outside the project, for exactly
//! this path and content. A file named with `--config` is trusted; one line shows what has changed since its last use.
//!
//! - `commands`: commands of a project that were trusted
//! - `memory`: stored trust and usage; `used`: changes of a named configuration
//! - `stores`: the origin of stores
//! - `show`: the display of privileges

mod commands;
mod memory;
mod show;
mod stores;
mod used;

use std::io::{self, BufRead, IsTerminal};
use std::path::{Path, PathBuf};

use bob_config::{Config, Environment, Overrides, Privilege, PrivilegeKind};

use crate::arguments::TrustArgs;
use crate::exit::{Exit, Failure};
use crate::runtime::command_files::CommandFiles;
use crate::terminal::print;
pub(crate) use commands::{is_command_trusted, untrusted_commands};
use memory::Trusted;
pub(crate) use memory::state_folder;
pub(crate) use stores::recorder;
use stores::{Kept, Standing};

struct Question<'a> {
    config: &'a Config,
    privileges: Vec<Privilege>,
    /// The privileges that were trusted, if any.
    before: Option<Vec<String>>,
    is_trusted: bool,
    /// The store and its origin.
    store: Option<(Kept, Standing)>,
    /// Its commands that were not trusted as they are, each with its text.
    commands: Vec<(String, String)>,
}

impl<'a> Question<'a> {
    fn about(config: &'a Config) -> Self {
        let commands = untrusted_commands(&CommandFiles::of(config));
        let privileges = config.privileges();
        let mut question = Self { config, privileges, before: None, is_trusted: false, store: None, commands };
        let texts = question.texts();
        let memory = Trusted::open().ok();
        let entry = memory.as_ref().and_then(|memory| memory.of(&config.file));
        question.is_trusted = entry.is_some_and(|entry| entry.covers(config.digest(), &texts));
        question.before = entry.map(|entry| entry.privileges.clone().unwrap_or_default());
        question.store = Kept::of(config).map(|store| {
            let standing = store.standing();
            (store, standing)
        });
        // Trust given before stores were tracked includes the store.
        if question.is_trusted
            && entry.is_some_and(|entry| entry.privileges.is_none())
            && let Some((store, standing @ Standing::Unknown)) = &mut question.store
            && store.keep().is_ok()
        {
            *standing = Standing::Known;
        }
        question
    }

    /// What matters where there is no project's configuration, which could do something by itself.
    fn about_commands(config: &'a Config, files: &CommandFiles) -> Self {
        let commands = untrusted_commands(files);
        Self { config, privileges: Vec::new(), before: None, is_trusted: false, store: None, commands }
    }

    /// What matters where only the store is used.
    fn about_store(config: &'a Config) -> Self {
        let mut question = Self::about(config);
        question.privileges.retain(|privilege| privilege.kind == PrivilegeKind::Keeps);
        question
    }

    /// The texts to which the privileges are compared: those that were trusted, else those of the user's own file.
    fn known(&self) -> &[String] {
        self.before.as_deref().unwrap_or(self.config.own_privileges())
    }

    fn texts(&self) -> Vec<String> {
        self.privileges.iter().map(Privilege::text).collect()
    }

    fn does_nothing(&self) -> bool {
        self.privileges.is_empty() || self.is_trusted
    }

    /// The store, if its origin is unknown.
    fn brings(&self) -> Option<&Kept> {
        match &self.store {
            Some((store, Standing::Unknown | Standing::Replaced | Standing::Parts)) => Some(store),
            Some((_, Standing::New | Standing::Known | Standing::Gone)) | None => None,
        }
    }

    fn is_settled(&self) -> bool {
        self.does_nothing() && self.brings().is_none()
    }

    /// Accepts a new store in place of one that is missing, with a message.
    fn accept_new_store(&self) {
        if let Some((store, Standing::Gone)) = &self.store {
            print::note(&store.gone());
            // What is left of the old one is not taken for a store of others: the next one is recorded in its place.
            if !store.has_parts() {
                store.forget();
            }
        }
    }

    /// Trust is no help where a store cannot be made.
    fn refuse_parts(&self) -> Result<(), Failure> {
        match &self.store {
            Some((store, Standing::Parts)) if self.does_nothing() => Err(store.in_parts()),
            _ => Ok(()),
        }
    }

    fn refusal(&self) -> Failure {
        match &self.store {
            Some((store, Standing::Replaced)) if self.does_nothing() => store.replaced(&self.config.file),
            Some((store, Standing::Parts)) if self.does_nothing() => store.in_parts(),
            _ => Failure::usage(show::refusal(self)),
        }
    }

    fn remember(&self) -> Result<(), Failure> {
        if self.config.files().main.is_some() {
            Trusted::open()?.keep(&self.config.file, self.config.digest(), Some(self.texts()))?;
        }
        commands::keep(&CommandFiles::of(self.config), &self.commands)?;
        self.brings().map_or(Ok(()), Kept::keep)
    }
}

/// Checks the trust in a configuration. A named one is trusted; a found one is accepted if it has no privileges, is
/// trusted already, or the user agrees now.
/// Errors: a usage error with the command that trusts it, or an error of the store if that was replaced.
pub(crate) fn check(config: &Config) -> Result<(), Failure> {
    if !config.files().needs_trust() {
        return take_named(config);
    }
    let question = Question::about(config);
    question.accept_new_store();
    if question.is_settled() {
        return Ok(());
    }
    question.refuse_parts()?;
    if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        return Err(question.refusal());
    }
    match ask(&question)? {
        true => question.remember(),
        false => Err(Failure::usage("the configuration is not trusted; nothing was started")),
    }
}

/// Checks the trust where no question can be asked.
#[cfg_attr(not(feature = "mcp"), allow(dead_code, reason = "only tool servers are read again"))]
pub(crate) fn check_quietly(config: &Config) -> Result<(), Failure> {
    if !config.files().needs_trust() {
        return take_named(config);
    }
    let question = Question::about(config);
    if question.is_settled() { Ok(()) } else { Err(question.refusal()) }
}

/// Checks the trust for a replay, which starts nothing, sends nothing and runs no tool, but uses the store of the
/// configuration.
pub(crate) fn check_replay(config: &Config) -> Result<(), Failure> {
    if !config.files().needs_trust() {
        return Ok(());
    }
    let question = Question::about_store(config);
    if question.is_settled() { Ok(()) } else { Err(question.refusal()) }
}

/// Whether the store of a configuration may be looked at without a question: it is where stores of a folder are, and did not
/// come with it.
pub(crate) fn is_store_settled(config: &Config) -> bool {
    !config.files().needs_trust() || Question::about_store(config).is_settled()
}

fn take_named(config: &Config) -> Result<(), Failure> {
    used::tell(config, &config.privileges());
    let Some(store) = Kept::of(config) else { return Ok(()) };
    match store.standing() {
        Standing::New | Standing::Known => Ok(()),
        Standing::Unknown => {
            // Where nothing can be remembered, it is named again the next time.
            let _named_again = store.keep();
            Ok(())
        }
        Standing::Replaced => Err(store.replaced(&config.file)),
        // Parts that a new database does not read or write are left alone.
        Standing::Parts => store.has_parts_taken().then(|| store.in_parts()).map_or(Ok(()), Err),
        Standing::Gone => {
            print::note(&store.gone());
            // What is left of the old one is not taken for a store of others: the next one is recorded in its place.
            if !store.has_parts() {
                store.forget();
            }
            Ok(())
        }
    }
}

/// `trust`: shows the privileges, asks, and stores the answer.
pub(crate) fn trust(args: &TrustArgs, config: &Config) -> Result<Exit, Failure> {
    let files = CommandFiles::of(config);
    let is_found = config.files().main.is_some();
    if args.revoke {
        let forgotten = is_found && Trusted::open()?.forget(&config.file)?;
        let forgotten = commands::forget(&files) || forgotten;
        print::note(if forgotten { "no longer trusted" } else { "it was not trusted" });
        return Ok(Exit::Success);
    }
    let question = match is_found {
        true => Question::about(config),
        false => Question::about_commands(config, &files),
    };
    if !is_found && question.commands.is_empty() {
        print::note("nothing to trust: there is no agent.toml in this folder or above it");
        return Ok(Exit::Success);
    }
    if question.privileges.is_empty() && question.brings().is_none() && question.commands.is_empty() {
        print::note("nothing to trust: the configuration only selects a built-in model");
        return Ok(Exit::Success);
    }
    question.refuse_parts()?;
    // Fails early where nothing can be stored.
    Trusted::open()?;
    if question.is_settled() && question.commands.is_empty() {
        show::show(&question);
        print::note("it is trusted already");
        return Ok(Exit::Success);
    }
    let said_yes = if args.yes {
        show::show(&question);
        true
    } else if io::stdin().is_terminal() {
        ask(&question)?
    } else {
        show::show(&question);
        return Err(Failure::usage("cannot ask without a terminal; use --yes to trust the configuration as shown"));
    };
    if !said_yes {
        return Err(Failure::usage("the configuration is not trusted"));
    }
    question.remember()?;
    print::note("trusted, until its content changes");
    Ok(Exit::Success)
}

/// Whether a configuration may be used as it is, without a question.
pub(crate) fn is_settled(config: &Config) -> bool {
    !config.files().needs_trust() || Question::about(config).is_settled()
}

/// Trusts a file that this program has written. If that cannot be stored, the user is asked later.
pub(crate) fn take(file: &Path, text: &str) {
    let config = bob_config::parse(text, file, &Environment::of_process(), &Overrides::default()).ok();
    let privileges = config.map(|config| config.privileges().iter().map(Privilege::text).collect());
    if let (Ok(mut trusted), Some(privileges)) = (Trusted::open(), privileges) {
        let _asked_about_later = trusted.keep(file, &bob_config::digest(text), Some(privileges));
    }
}

/// Anything but a clear yes is a no.
fn ask(question: &Question<'_>) -> Result<bool, Failure> {
    show::show(question);
    print::report("Trust this configuration? It is asked again when its content changes. [y/N] ");
    let mut answer = String::new();
    let read = io::stdin().lock().read_line(&mut answer);
    read.map_err(|error| Failure::usage(format!("cannot read the answer: {error}")))?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

/// Where a configuration is: in the folder beside which its relative paths begin. A link in another folder than the file to
/// which it leads names other scripts, programs and stores with the same text.
fn place(file: &Path) -> Result<PathBuf, Failure> {
    let cannot = |error: io::Error| Failure::usage(format!("cannot find {}: {error}", file.display()));
    file.metadata().map_err(cannot)?;
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = folder.canonicalize().map_err(cannot)?;
    Ok(folder.join(file.file_name().unwrap_or_default()))
}
