//! Trust in a configuration that was found, not named.
//!
//! A configuration that lies in the current folder may have come with somebody else's files, and one that starts a
//! program is code. What it would start is shown, and a person is asked once; the answer is kept outside the project,
//! for exactly this file with exactly this content. Whoever names a file with `--config` has decided already.
//!
//! - `starts`: what a configuration would start
//! - `memory`: which configurations are trusted

mod memory;
mod starts;

use std::io::{self, BufRead, IsTerminal, Write};
use std::path::Path;

use bob::config::Config;

use crate::cli::TrustArgs;
use crate::exit::{Exit, Failure};
use crate::print;
use memory::Trusted;

/// Lets a found configuration through if it starts nothing, is trusted, or a person at a terminal says so now.
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
    match ask(config, &starts::of(config))? {
        true => remember(config),
        false => Err(Failure::usage("the configuration is not trusted; nothing was started")),
    }
}

/// Whether it starts nothing, or is trusted already.
pub(crate) fn is_trusted(config: &Config) -> bool {
    starts::of(config).is_empty() || Trusted::open().is_ok_and(|trusted| trusted.has(&config.file, config.digest()))
}

/// Why it may start nothing, and how it may.
pub(crate) fn refusal(config: &Config) -> Failure {
    let file = config.file.display();
    Failure::usage(format!(
        "the configuration {file} was found here and would start {}; look at it with `cli-agent trust`, or name it: \
         --config {file}",
        starts::named(&starts::of(config))
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
    let starts = starts::of(config);
    if starts.is_empty() {
        print::note("it starts no program; there is nothing to trust");
        return Ok(Exit::Success);
    }
    if Trusted::open()?.has(&config.file, config.digest()) {
        show(config, &starts);
        print::note("it is trusted already");
        return Ok(Exit::Success);
    }
    let said_yes = if args.yes {
        show(config, &starts);
        true
    } else if io::stdin().is_terminal() {
        ask(config, &starts)?
    } else {
        show(config, &starts);
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

fn show(config: &Config, starts: &[starts::Start]) {
    print::note(&format!("{} would start:", config.file.display()));
    for start in starts {
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
}

/// Anything but a clear yes is a no.
fn ask(config: &Config, starts: &[starts::Start]) -> Result<bool, Failure> {
    show(config, starts);
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
