//! Trust in a configuration that was found, not named.
//!
//! A configuration in the current folder may have come with foreign files. What it does beyond choosing a model that
//! is built in is shown (what it starts, where it sends, what it loosens), and so is a store that came with it; a
//! person is asked once, and again with the difference when it changed. The answer is kept outside the project, for
//! exactly this file with exactly this content. A file that is named with `--config` counts as trusted; one line
//! shows what has changed since its last use.
//!
//! - `memory`: what is trusted, and what was used; `used`: what is said of a named configuration
//! - `stores`: which stores are this user's
//! - `show`: what a person is shown

mod memory;
mod show;
mod stores;
mod used;

use std::io::{self, BufRead, IsTerminal};
use std::path::{Path, PathBuf};

use bob_config::{Config, Deed, DeedKind, Environment, Overrides};

use crate::arguments::TrustArgs;
use crate::exit::{Exit, Failure};
use crate::terminal::print;
use memory::Trusted;
pub(crate) use memory::state_folder;
pub(crate) use stores::made;
use stores::{Kept, Standing};

/// What stands between a configuration and its use.
struct Question<'a> {
    config: &'a Config,
    deeds: Vec<Deed>,
    /// What the deeds were when it was trusted, if it was.
    before: Option<Vec<String>>,
    /// Whether it is trusted as it is.
    is_trusted: bool,
    /// The store, with what is known of it.
    store: Option<(Kept, Standing)>,
}

impl<'a> Question<'a> {
    fn about(config: &'a Config) -> Self {
        let mut question = Self { config, deeds: config.deeds(), before: None, is_trusted: false, store: None };
        let texts = question.texts();
        let memory = Trusted::open().ok();
        let entry = memory.as_ref().and_then(|memory| memory.of(&config.file));
        question.is_trusted = entry.is_some_and(|entry| entry.covers(config.digest(), &texts));
        question.before = entry.map(|entry| entry.deeds.clone().unwrap_or_default());
        question.store = Kept::of(config).map(|store| {
            let standing = store.standing();
            (store, standing)
        });
        // Of what was trusted before stores were remembered, the store is its user's.
        if question.is_trusted
            && entry.is_some_and(|entry| entry.deeds.is_none())
            && let Some((store, standing @ Standing::Unknown)) = &mut question.store
            && store.keep().is_ok()
        {
            *standing = Standing::Known;
        }
        question
    }

    fn texts(&self) -> Vec<String> {
        self.deeds.iter().map(Deed::text).collect()
    }

    fn does_nothing(&self) -> bool {
        self.deeds.is_empty() || self.is_trusted
    }

    /// The store, if its origin is unknown.
    fn brings(&self) -> Option<&Kept> {
        match &self.store {
            Some((store, Standing::Unknown | Standing::Replaced)) => Some(store),
            Some((_, Standing::New | Standing::Known | Standing::Gone)) | None => None,
        }
    }

    fn is_settled(&self) -> bool {
        self.does_nothing() && self.brings().is_none()
    }

    /// Takes a store that is missed for one that begins anew, and says so.
    fn begin_anew(&self) {
        if let Some((store, Standing::Gone)) = &self.store {
            print::note(&store.gone());
            store.forget();
        }
    }

    fn refusal(&self) -> Failure {
        match &self.store {
            Some((store, Standing::Replaced)) if self.does_nothing() => store.replaced(&self.config.file),
            _ => Failure::usage(show::refusal(self)),
        }
    }

    /// Remembers that a person trusts it as it is now.
    fn remember(&self) -> Result<(), Failure> {
        Trusted::open()?.keep(&self.config.file, self.config.digest(), Some(self.texts()))?;
        self.brings().map_or(Ok(()), Kept::keep)
    }
}

/// Lets a configuration through. A named one is trusted by naming it; a found one is, if it does nothing that needs trust,
/// is trusted, or a person at a terminal says so now.
///
/// # Errors
/// A usage error that says how to trust it, and a failure of the store when that was replaced.
pub(crate) fn check(config: &Config, is_named: bool) -> Result<(), Failure> {
    if is_named {
        return take_named(config);
    }
    let question = Question::about(config);
    question.begin_anew();
    if question.is_settled() {
        return Ok(());
    }
    if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        return Err(question.refusal());
    }
    match ask(&question)? {
        true => question.remember(),
        false => Err(Failure::usage("the configuration is not trusted; nothing was started")),
    }
}

/// Checks the trust where no question can be asked.
///
/// # Errors
/// As [`check`].
#[cfg_attr(not(feature = "mcp"), allow(dead_code, reason = "only tool servers are read again"))]
pub(crate) fn check_quietly(config: &Config, is_named: bool) -> Result<(), Failure> {
    if is_named {
        return take_named(config);
    }
    let question = Question::about(config);
    if question.is_settled() { Ok(()) } else { Err(question.refusal()) }
}

/// Checks the trust for a replay, which starts nothing, sends nothing and runs no tool, but uses the store of the
/// configuration.
///
/// # Errors
/// As [`check`].
pub(crate) fn check_replay(config: &Config, is_named: bool) -> Result<(), Failure> {
    if is_named {
        return Ok(());
    }
    let mut question = Question::about(config);
    question.deeds.retain(|deed| deed.kind == DeedKind::Keeps);
    if question.is_settled() { Ok(()) } else { Err(question.refusal()) }
}

fn take_named(config: &Config) -> Result<(), Failure> {
    used::tell(config, &config.deeds());
    let Some(store) = Kept::of(config) else { return Ok(()) };
    match store.standing() {
        Standing::New | Standing::Known => Ok(()),
        Standing::Unknown => {
            // Where nothing can be remembered, it is named again the next time.
            let _named_again = store.keep();
            Ok(())
        }
        Standing::Replaced => Err(store.replaced(&config.file)),
        Standing::Gone => {
            print::note(&store.gone());
            store.forget();
            Ok(())
        }
    }
}

/// `trust`: shows what the configuration does, asks, and remembers.
///
/// # Errors
/// When no question can be asked, when the answer is no, and when it cannot be stored.
pub(crate) fn trust(args: &TrustArgs, config: &Config) -> Result<Exit, Failure> {
    if args.revoke {
        let forgotten = Trusted::open()?.forget(&config.file)?;
        print::note(if forgotten { "no longer trusted" } else { "it was not trusted" });
        return Ok(Exit::Success);
    }
    let question = Question::about(config);
    if question.deeds.is_empty() && question.brings().is_none() {
        print::note("nothing to trust: the configuration only selects a built-in model");
        return Ok(Exit::Success);
    }
    // Said early where nothing can be remembered.
    Trusted::open()?;
    if question.is_settled() {
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
        return Err(Failure::usage("nobody can be asked here; --yes trusts it as it is shown"));
    };
    if !said_yes {
        return Err(Failure::usage("the configuration is not trusted"));
    }
    question.remember()?;
    print::note("trusted, until its content changes");
    Ok(Exit::Success)
}

/// Trusts a file this program has written itself. One that cannot be remembered is asked about later.
pub(crate) fn take(file: &Path, text: &str) {
    let config = bob_config::parse(text, file, &Environment::of_process(), &Overrides::default()).ok();
    let deeds = config.map(|config| config.deeds().iter().map(Deed::text).collect());
    if let (Ok(mut trusted), Some(deeds)) = (Trusted::open(), deeds) {
        let _asked_about_later = trusted.keep(file, &bob_config::digest(text), Some(deeds));
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

/// The canonical path of a file.
fn place(file: &Path) -> Result<PathBuf, Failure> {
    file.canonicalize().map_err(|error| Failure::usage(format!("cannot find {}: {error}", file.display())))
}
