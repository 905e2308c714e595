//! Trust in a configuration that was found, not named.
//!
//! A configuration that lies in the current folder may have come with somebody else's files, and one that starts a
//! program is code; one that names an address for a key could send it to whoever wrote it. What it would start and send is
//! shown, and a person is asked once; the answer is kept outside the project,
//! for exactly this file with exactly this content. Whoever names a file with `--config` has decided already.
//!
//! - `starts`: what a configuration would start
//! - `sends`: where it would send what it takes from the environment
//! - `memory`: which configurations are trusted

mod memory;
mod sends;
mod starts;

use std::io::{self, BufRead, IsTerminal, Write};
use std::path::Path;

use bob::config::Config;

use crate::cli::TrustArgs;
use crate::exit::{Exit, Failure};
use crate::print;
use memory::Trusted;
pub(crate) use memory::state_folder;

/// What a configuration would do that needs trust.
struct Deeds {
    starts: Vec<starts::Start>,
    sends: Vec<sends::Sending>,
}

impl Deeds {
    fn of(config: &Config) -> Self {
        Self { starts: starts::of(config), sends: sends::of(config) }
    }

    fn is_empty(&self) -> bool {
        self.starts.is_empty() && self.sends.is_empty()
    }

    /// All of them in a few words.
    fn named(&self) -> String {
        let started = named(self.starts.iter().map(|start| start.what.as_str()));
        let sent = named(self.sends.iter().map(|sending| sending.what.as_str()));
        match (self.starts.is_empty(), self.sends.is_empty()) {
            (_, true) => format!("start {started}"),
            (true, false) => format!("send keys of the environment to {sent}"),
            (false, false) => format!("start {started}, and send keys of the environment to {sent}"),
        }
    }
}

/// The first of them, and how many more there are.
fn named<'a>(all: impl Iterator<Item = &'a str>) -> String {
    let most = 3;
    let names: Vec<&str> = all.collect();
    match names.len().saturating_sub(most) {
        0 => names.join(" and "),
        more => format!("{} and {more} more", names[..most].join(", ")),
    }
}

/// Lets a found configuration through if it starts and sends nothing, is trusted, or a person at a terminal says so now.
///
/// # Errors
/// A usage error that says how to trust it.
pub(crate) fn check(config: &Config) -> Result<(), Failure> {
    if is_trusted(config) {
        return Ok(());
    }
    if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        return Err(refusal(config));
    }
    match ask(config, &Deeds::of(config))? {
        true => remember(config),
        false => Err(Failure::usage("the configuration is not trusted; nothing was started")),
    }
}

/// Whether it starts and sends nothing, or is trusted already.
pub(crate) fn is_trusted(config: &Config) -> bool {
    Deeds::of(config).is_empty() || Trusted::open().is_ok_and(|trusted| trusted.has(&config.file, config.digest()))
}

/// Why it may start nothing, and how it may.
pub(crate) fn refusal(config: &Config) -> Failure {
    let file = config.file.display();
    Failure::usage(format!(
        "the configuration {file} was found here and would {}; look at it with `cli-agent trust`, or name it: \
         --config {file}",
        Deeds::of(config).named()
    ))
}

/// `trust`: shows what the configuration would start, asks, and remembers.
///
/// # Errors
/// When nobody can be asked, when the answer is no, and when it cannot be kept.
pub(crate) fn trust(args: &TrustArgs, config: &Config) -> Result<Exit, Failure> {
    if args.revoke {
        let forgotten = Trusted::open()?.forget(&config.file)?;
        print::note(if forgotten { "no longer trusted" } else { "it was not trusted" });
        return Ok(Exit::Success);
    }
    let deeds = Deeds::of(config);
    if deeds.is_empty() {
        print::note("it starts no program and sends no key anywhere new; there is nothing to trust");
        return Ok(Exit::Success);
    }
    if Trusted::open()?.has(&config.file, config.digest()) {
        show(config, &deeds);
        print::note("it is trusted already");
        return Ok(Exit::Success);
    }
    let said_yes = if args.yes {
        show(config, &deeds);
        true
    } else if io::stdin().is_terminal() {
        ask(config, &deeds)?
    } else {
        show(config, &deeds);
        return Err(Failure::usage("nobody can be asked here; --yes trusts it as it is shown"));
    };
    if !said_yes {
        return Err(Failure::usage("the configuration is not trusted"));
    }
    remember(config)?;
    print::note("trusted, until its content changes");
    Ok(Exit::Success)
}

/// Trusts a file this program has written itself. One that cannot be remembered is asked about later.
pub(crate) fn take(file: &Path, text: &str) {
    if let Ok(mut trusted) = Trusted::open() {
        let _asked_about_later = trusted.keep(file, &bob::config::digest(text));
    }
}

fn remember(config: &Config) -> Result<(), Failure> {
    Trusted::open()?.keep(&config.file, config.digest())
}

fn show(config: &Config, deeds: &Deeds) {
    if !deeds.starts.is_empty() {
        print::note(&format!("{} would start:", config.file.display()));
    }
    for start in &deeds.starts {
        print::note(&format!("  {}", start.what));
        print::note(&format!("    command:     {}", start.argv()));
        print::note(&format!("    in folder:   {}", start.folder.display()));
        if start.is_unpinned() {
            print::note(
                "    warning:     the package has no version, so what runs is whatever is newest; pin it: name@1.2.3",
            );
        }
        if !start.environment.is_empty() {
            print::note(&format!("    environment: {}", start.environment.join(", ")));
        }
    }
    if !deeds.sends.is_empty() {
        print::note(&format!("{} would send what is in the environment:", config.file.display()));
    }
    for sending in &deeds.sends {
        print::note(&format!("  {}", sending.what));
        print::note(&format!("    to:          {}", sending.to));
        print::note(&format!("    what is in:  {}", sending.variables.join(", ")));
    }
}

/// Anything but a clear yes is a no.
fn ask(config: &Config, deeds: &Deeds) -> Result<bool, Failure> {
    show(config, deeds);
    print::report("Trust this configuration? It is asked again when its content changes. [y/N] ");
    let mut answer = String::new();
    let read = io::stdin().lock().read_line(&mut answer);
    let _nobody_to_tell = io::stderr().flush();
    read.map_err(|error| Failure::usage(format!("cannot read the answer: {error}")))?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

/// Where a file is, whatever it is called from here.
fn place(file: &Path) -> Result<std::path::PathBuf, Failure> {
    file.canonicalize().map_err(|error| Failure::usage(format!("cannot find {}: {error}", file.display())))
}
