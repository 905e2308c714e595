//! The kinds of faults, in one table, and the text that sets their rates.
//!
//! A kind either occurs at a rate in time or affects a share of operations. [`super::schedule`] draws both.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    McpKill,
    McpStop,
    McpExit,
    ProcessKill,
    TurnPanic,
    TurnKill,
    RoomPanic,
    Overload,
    Cancel,
    ToolPanic,
    ToolSlow,
    ToolBig,
    ToolSick,
    Malformed,
    Llm429,
    Llm5xx,
    LlmStall,
    LlmCut,
    StoreFail,
    StoreLost,
    StoreSlow,
    ReplicaKill,
    ReplicaPause,
    DatabaseRestart,
    CommitCut,
}

impl Kind {
    pub(crate) fn is_of_replicas(self) -> bool {
        matches!(self, Self::ReplicaKill | Self::ReplicaPause | Self::DatabaseRestart | Self::CommitCut)
    }

    pub(crate) fn is_trap(self) -> bool {
        matches!(self, Self::TurnPanic | Self::TurnKill | Self::RoomPanic)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Strikes a second.
    Time,
    /// The share of turns, calls or operations that it meets.
    Share,
}

/// The shapes of a soak: one worker, or several that share a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Worker,
    Replicas,
}

pub(crate) struct Row {
    pub(crate) kind: Kind,
    pub(crate) name: &'static str,
    line: &'static str,
    pub(crate) unit: Unit,
    /// The rate of `default`, as it is written.
    default: &'static str,
    /// Whether it may be turned on against a person's own configuration.
    is_safe: bool,
    shapes: &'static [Shape],
}

const fn row(kind: Kind, name: &'static str, unit: Unit, default: &'static str, line: &'static str) -> Row {
    Row { kind, name, line, unit, default, is_safe: false, shapes: &[Shape::Worker] }
}

/// A row of a kind that happens within a turn or at the store's port, wherever the turn runs.
const fn inside(kind: Kind, name: &'static str, unit: Unit, default: &'static str, line: &'static str) -> Row {
    Row { shapes: &[Shape::Worker, Shape::Replicas], ..row(kind, name, unit, default, line) }
}

/// A row of a kind that only several workers have.
const fn shared(kind: Kind, name: &'static str, default: &'static str, line: &'static str) -> Row {
    Row { shapes: &[Shape::Replicas], ..row(kind, name, Unit::Time, default, line) }
}

/// A row of a kind that is safe with `--prompts`.
const fn safe(kind: Kind, name: &'static str, unit: Unit, default: &'static str, line: &'static str) -> Row {
    Row { is_safe: true, ..row(kind, name, unit, default, line) }
}

use Unit::{Share, Time};

pub(crate) const ROWS: &[Row] = &[
    safe(Kind::McpKill, "mcp-kill", Time, "30/m", "a tool server's process is killed"),
    row(Kind::McpStop, "mcp-stop", Time, "12/m", "a tool server's process is stopped, and goes on after 2 s"),
    safe(Kind::McpExit, "mcp-exit", Time, "18/m", "a tool server's process is asked to end by SIGTERM"),
    row(
        Kind::ProcessKill,
        "process-kill",
        Time,
        "1/m",
        "the worker is killed, two times of three at a write, and started again on its data",
    ),
    row(Kind::TurnPanic, "turn-panic", Time, "120/m", "the actor of a session panics at its next message but a few"),
    row(Kind::TurnKill, "turn-kill", Time, "60/m", "the actor of a session is killed at its next message but a few"),
    row(Kind::RoomPanic, "room-panic", Time, "2/m", "the actor of store, model or tools panics, or a supervisor"),
    row(Kind::Overload, "overload", Time, "6/m", "64 requests at once to 4 sessions, of which each takes nine"),
    safe(Kind::Cancel, "cancel", Share, "5%", "a turn is cancelled at a random instant"),
    inside(Kind::ToolPanic, "tool-panic", Share, "1%", "a turn calls a tool that panics"),
    inside(Kind::ToolSlow, "tool-slow", Share, "2%", "a turn calls a tool that takes 300 ms"),
    inside(
        Kind::ToolBig,
        "tool-big",
        Share,
        "2%",
        "a turn gets a result of 2 MB (200 kB in a build without optimisation)",
    ),
    row(
        Kind::ToolSick,
        "tool-sick",
        Share,
        "1%",
        "a turn calls a server that is deaf, crashes, floods stderr, or hangs",
    ),
    inside(Kind::Malformed, "malformed", Share, "1%", "the model's first action in a turn cannot be read"),
    inside(Kind::Llm429, "llm-429", Share, "3%", "a model call is answered with 429"),
    inside(Kind::Llm5xx, "llm-5xx", Share, "1%", "a model call is answered with 503"),
    inside(Kind::LlmStall, "llm-stall", Share, "1%", "the model falls silent in its answer until its 1 s are over"),
    inside(Kind::LlmCut, "llm-cut", Share, "1%", "the model's stream ends in the middle"),
    inside(Kind::StoreFail, "store-fail", Share, "0.1%", "a claim or a batch is refused by the store"),
    inside(Kind::StoreLost, "store-lost", Share, "0.1%", "a batch is stored, and its answer is lost"),
    inside(Kind::StoreSlow, "store-slow", Share, "1%", "a batch takes 500 ms more"),
    shared(
        Kind::ReplicaKill,
        "replica-kill",
        "12/m",
        "a replica is killed, two times of three at a write, and started again after 1 s",
    ),
    shared(
        Kind::ReplicaPause,
        "replica-pause",
        "2/m",
        "a replica is stopped for 3.5 to 6 s, which is longer than its lease",
    ),
    shared(
        Kind::DatabaseRestart,
        "database-restart",
        "1/m",
        "the soak's own database is stopped as by a crash, and started",
    ),
    shared(Kind::CommitCut, "commit-cut", "12/m", "the connection of the next commit ends before its answer arrives"),
];

/// The kinds in a run with their rates: occurrences a second, or a share from 0 to 1. Missing kinds are off.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Chaos(BTreeMap<Kind, f64>);

impl Chaos {
    /// Parses `off`, `default`, or `kind=rate,…` after either: `default,panic=off`.
    /// Errors: the invalid part and the accepted values.
    pub(crate) fn parse(text: &str, shape: Shape) -> Result<Self, String> {
        let mut chaos = Self::default();
        for (index, word) in text.split(',').map(str::trim).enumerate() {
            match (word, word.split_once('=')) {
                ("off", _) if index == 0 => {}
                ("default", _) if index == 0 => chaos = Self::usual(shape)?,
                (_, Some((name, rate))) => {
                    let row = find(name)?;
                    if !row.shapes.contains(&shape) {
                        let of = if shape == Shape::Worker { "needs --replicas" } else { "is not for --replicas" };
                        return Err(format!("{name} {of}; --list-chaos says what is for which"));
                    }
                    match read_rate(row, rate)? {
                        0.0 => chaos.0.remove(&row.kind),
                        rate => chaos.0.insert(row.kind, rate),
                    };
                }
                _ => {
                    return Err(format!(
                        "`{word}` is not `off`, `default` or `kind=rate`; --list-chaos names the kinds"
                    ));
                }
            }
        }
        Ok(chaos)
    }

    fn usual(shape: Shape) -> Result<Self, String> {
        let rates = ROWS
            .iter()
            .filter(|row| row.shapes.contains(&shape))
            .map(|row| Ok((row.kind, read_rate(row, row.default)?)));
        rates.collect::<Result<_, String>>().map(Self)
    }

    /// The first kind that may not be used against a person's own configuration.
    pub(crate) fn unsafe_kind(&self) -> Option<&'static str> {
        ROWS.iter().find(|row| !row.is_safe && self.rate(row.kind) > 0.0).map(|row| row.name)
    }

    /// Strikes a second or a share; 0 when it is off.
    pub(crate) fn rate(&self, kind: Kind) -> f64 {
        self.0.get(&kind).copied().unwrap_or(0.0)
    }

    pub(crate) fn without(&self, kind: Kind) -> Self {
        let mut less = self.clone();
        less.0.remove(&kind);
        less
    }

    /// Whether nothing happens.
    pub(crate) fn is_off(&self) -> bool {
        self.0.is_empty()
    }

    /// As it could be written again.
    pub(crate) fn to_text(&self) -> String {
        if self.is_off() {
            return "off".to_owned();
        }
        let rates = ROWS.iter().filter(|row| self.rate(row.kind) > 0.0).map(|row| {
            let rate = self.rate(row.kind);
            match row.unit {
                Time => format!("{}={}/m", row.name, round(rate * 60.0)),
                Share => format!("{}={}%", row.name, round(rate * 100.0)),
            }
        });
        rates.collect::<Vec<_>>().join(",")
    }
}

fn round(value: f64) -> f64 {
    (value * 1_000.0).round() / 1_000.0
}

fn find(name: &str) -> Result<&'static Row, String> {
    ROWS.iter()
        .find(|row| row.name == name)
        .ok_or_else(|| format!("no kind of chaos is called `{name}`; --list-chaos names them"))
}

fn read_rate(row: &Row, text: &str) -> Result<f64, String> {
    let wrong = || match row.unit {
        Time => format!("{} strikes so often in a time: 2/s, 30/m, 12/h or off, not `{text}`", row.name),
        Share => format!("{} meets a share: 5% or off, not `{text}`", row.name),
    };
    if text == "off" {
        return Ok(0.0);
    }
    let (number, unit) = match text.strip_suffix('%') {
        Some(number) => (number, "%"),
        None => text.split_once('/').ok_or_else(wrong)?,
    };
    let divisor = match (row.unit, unit) {
        (Share, "%") => 100.0,
        (Time, "s") => 1.0,
        (Time, "m") => 60.0,
        (Time, "h") => 3_600.0,
        _ => return Err(wrong()),
    };
    let rate = number.parse::<f64>().map_err(|_| wrong())? / divisor;
    let most = if row.unit == Share { 1.0 } else { 1_000.0 };
    if (0.0..=most).contains(&rate) { Ok(rate) } else { Err(wrong()) }
}

pub(crate) fn list() -> String {
    let mut text = String::from("kind              default  what happens\n");
    for row in ROWS {
        let also = match (row.is_safe, row.shapes) {
            (true, _) => " (also with --prompts)",
            (false, [Shape::Replicas]) => " (only with --replicas)",
            (false, [_, _]) => " (also with --replicas)",
            (false, _) => "",
        };
        // Writing to a text cannot fail.
        let _written = writeln!(text, "{:<17} {:>7}  {}{also}", row.name, row.default, row.line);
    }
    text
}

pub(crate) fn name(kind: Kind) -> &'static str {
    ROWS.iter().find(|row| row.kind == kind).map_or("", |row| row.name)
}

#[cfg(test)]
#[path = "chaos_tests.rs"]
mod tests;
