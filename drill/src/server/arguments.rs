use std::path::PathBuf;

use super::garbage::{self, Garbage};
use super::modes::{self, Mode};

const HELP: &str = "\
A tool server for drills: it behaves, or misbehaves in named ways.

  --mode NAME[=NUMBER]   a way to misbehave; may be given several times [default: healthy]
  --garbage KIND         something else on stdout before each answer
  --garbage-on METHOD    ... only before answers to this method
  --garbage-times N      ... only before the first N such answers
  --newest               speak revision 2026-07-28, which has no handshake, instead of 2025-11-25
  --page N               tools on one page of tools/list [default: 8]
  --tools FILE           offer these tools as well, a JSON array as in tools/list; a call of one returns its member
                         `says`, which is not offered
  --log FILE             append what happens to this file, one JSON object a line
  --list-modes           print the modes
  --list-garbage         print the kinds of garbage
";

/// Default page size: small, so that a list has several pages.
const PAGE: usize = 8;

pub(super) enum Wish {
    /// Be a server.
    Serve(Options),
    Print(String),
    Refuse(String),
}

pub(super) struct Options {
    /// The ways to misbehave, each with its number. The first that cares about a moment decides it.
    pub(super) modes: Vec<(&'static Mode, u64)>,
    /// Garbage that is written besides the protocol.
    pub(super) garbage: Option<Garbage>,
    /// Tools on a page, at least 1.
    pub(super) page: usize,
    /// Further tools.
    pub(super) tools: Option<PathBuf>,
    pub(super) log: Option<PathBuf>,
    /// Whether it speaks revision 2026-07-28.
    pub(super) is_newest: bool,
    /// Whether this process has already replaced itself, as some modes do.
    pub(super) is_again: bool,
}

pub(super) fn read(arguments: impl IntoIterator<Item = String>) -> Wish {
    match options(arguments.into_iter()) {
        Ok(wish) => wish,
        Err(text) => Wish::Refuse(text),
    }
}

fn options(mut arguments: impl Iterator<Item = String>) -> Result<Wish, String> {
    let mut options = Options {
        modes: Vec::new(),
        garbage: None,
        page: PAGE,
        tools: None,
        log: None,
        is_newest: false,
        is_again: false,
    };
    let (mut kind, mut on, mut times) = (None, None, u64::MAX);
    while let Some(name) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{name} needs a value"));
        match name.as_str() {
            "--mode" => options.modes.push(mode(&value()?)?),
            "--garbage" => kind = Some(garbage::find(&value()?)?),
            "--garbage-on" => on = Some(value()?),
            "--garbage-times" => times = number(&name, &value()?)?,
            "--page" => options.page = usize::try_from(number(&name, &value()?)?).unwrap_or(usize::MAX).max(1),
            "--tools" => options.tools = Some(PathBuf::from(value()?)),
            "--log" => options.log = Some(PathBuf::from(value()?)),
            "--newest" => options.is_newest = true,
            modes::AGAIN => options.is_again = true,
            "--list-modes" => return Ok(Wish::Print(modes::list())),
            "--list-garbage" => return Ok(Wish::Print(garbage::list())),
            "--help" | "-h" => return Ok(Wish::Print(HELP.to_owned())),
            _ => return Err(format!("unknown argument `{name}`; --help lists them")),
        }
    }
    options.garbage = kind.map(|kind| Garbage::new(kind, on, times));
    Ok(Wish::Serve(options))
}

fn mode(text: &str) -> Result<(&'static Mode, u64), String> {
    let (name, given) = match text.split_once('=') {
        Some((name, given)) => (name, Some(number(name, given)?)),
        None => (text, None),
    };
    let mode = modes::find(name)?;
    match (&mode.number, given) {
        (None, Some(_)) => Err(format!("mode `{name}` takes no number")),
        (None, None) => Ok((mode, 0)),
        (Some(number), given) => Ok((mode, given.unwrap_or(number.default))),
    }
}

fn number(name: &str, text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("{name} needs a whole number, not `{text}`"))
}
