//! The ways to misbehave: one table, one small function each.
//!
//! A mode is shown every moment of the server's life and either deals with it or leaves it to the next mode, and in the
//! end to the healthy server. It keeps nothing itself.

mod calls;
mod lists;
mod processes;
mod start;

use std::fmt::Write;
use std::sync::Arc;

use super::protocol::Request;
use super::requests::Server;

/// Marks a process that has already replaced itself.
pub(super) const AGAIN: &str = "--again";

/// The event that a mode sees.
pub(super) enum Moment<'a> {
    /// The process has only just begun and has logged nothing; not shown to a process that replaced itself.
    Begun,
    /// Nothing has been read yet.
    Started,
    Asked(&'a Request),
    /// A notification from the client, by its method.
    Told(&'a str),
    Ended,
}

impl Moment<'_> {
    fn asked(&self, method: &str) -> Option<&Request> {
        match self {
            Self::Asked(request) if request.method == method => Some(request),
            _ => None,
        }
    }

    fn called(&self) -> Option<&Request> {
        self.asked("tools/call")
    }

    fn is_ready(&self) -> bool {
        matches!(self, Self::Told("notifications/initialized"))
    }
}

/// What a mode did with the event.
pub(super) enum Step {
    /// Nothing that would keep the healthy server from its part.
    Healthy,
    /// Everything that will ever be done.
    Dealt,
}

pub(super) struct Number {
    pub(super) unit: &'static str,
    pub(super) default: u64,
}

pub(super) struct Mode {
    pub(super) name: &'static str,
    pub(super) number: Option<Number>,
    line: &'static str,
    pub(super) act: Act,
}

type Act = fn(&Arc<Server>, u64, &Moment<'_>) -> Step;

const fn mode(name: &'static str, line: &'static str, act: Act) -> Mode {
    Mode { name, number: None, line, act }
}

const fn with(name: &'static str, unit: &'static str, default: u64, line: &'static str, act: Act) -> Mode {
    Mode { name, number: Some(Number { unit, default }), line, act }
}

const MODES: &[Mode] = &[
    mode("healthy", "behaves", |_, _, _| Step::Healthy),
    // The start.
    with("slow-start", "ms", 2_000, "reads nothing for this long", start::slow_start),
    mode("silent-init", "never answers initialize", start::silent_init),
    with("late-init", "ms", 162_000, "answers initialize this late", start::late_init),
    mode("junk-init", "answers initialize with a line that is no JSON, and never again", start::junk_init),
    mode("error-init", "refuses initialize with an error", start::error_init),
    mode("wrong-protocol", "answers initialize with a revision that nobody speaks", start::wrong_protocol),
    mode("protocol-echo", "agrees to any revision the client names", start::protocol_echo),
    with("exit-init", "code", 3, "exits with this code instead of answering initialize", start::exit_init),
    mode("init-exit", "exits with 0 as soon as the handshake is done", start::init_exit),
    // The list of tools.
    mode("silent-list", "never answers tools/list", lists::silent_list),
    with(
        "changed-storm",
        "ms",
        1,
        "says that its tools changed, again after this long, for ever",
        lists::changed_storm,
    ),
    with("many-tools", "tools", 10_000, "offers this many tools more, 500 or more on a page", lists::many_tools),
    with("big-schema", "bytes", 5_000_000, "offers a tool `wide` with a schema of this size", lists::big_schema),
    with("deep-schema", "levels", 100, "offers a tool `deep` with a schema nested this deep", lists::deep_schema),
    mode("ref-cycle", "offers a tool `cyclic` whose schema refers to itself", lists::ref_cycle),
    mode("endless-pages", "ends every page of its tools with the same cursor", lists::endless_pages),
    mode("fresh-pages", "ends every page of its tools with a new cursor", lists::fresh_pages),
    // Calls.
    mode("silent-call", "never answers tools/call", calls::silent_call),
    mode("late-reply", "goes on with calls that were cancelled, and answers them", calls::late_reply),
    with(
        "progress-flood",
        "ms",
        1,
        "tells progress of a call, again after this long, and never a result",
        calls::flood,
    ),
    with("bigline", "bytes", 300_000_000, "answers a call with a text of this size, all on one line", calls::bigline),
    with("stderr-flood", "bytes", 100_000_000, "writes this much to stderr before it answers a call", calls::stderr),
    with("trickle", "ms", 10, "answers a call one byte in this time", calls::trickle),
    mode("spin", "keeps a processor busy from the first call on, and does nothing else", calls::spin),
    with("crash-on", "call", 1, "exits with 101 on this call, counted from 1, without an answer", calls::crash_on),
    // Processes and pipes.
    mode("deaf", "reads nothing more after the handshake, and lives", processes::deaf),
    mode("ignore-term", "ignores TERM, INT, HUP and the end of stdin", processes::ignore_term),
    mode("launcher", "runs below two shells, as launchers of packages do", processes::launcher),
    mode(
        "grandchild",
        "starts three levels of sleepers (120 s) that hold stdout; the last ignores TERM",
        processes::family,
    ),
    mode(
        "grandchild-setsid",
        "the same, the last in a session of its own where `setsid` exists",
        processes::far_family,
    ),
    mode("close-stdout", "closes stdout after the handshake, and lives until stdin ends", processes::close_stdout),
];

pub(super) fn find(name: &str) -> Result<&'static Mode, String> {
    MODES.iter().find(|mode| mode.name == name).ok_or_else(|| format!("no mode `{name}`; --list-modes names them"))
}

pub(super) fn list() -> String {
    let mut text = String::new();
    for mode in MODES {
        let name = match &mode.number {
            Some(_) => format!("{}=N", mode.name),
            None => mode.name.to_owned(),
        };
        let default = mode.number.as_ref().map(|number| format!(" [{} {}]", number.default, number.unit));
        // Writing to a text cannot fail.
        let _written = writeln!(text, "{name:<20} {}{}", mode.line, default.unwrap_or_default());
    }
    text
}
