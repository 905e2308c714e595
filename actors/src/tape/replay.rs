//! A loaded tape: its entries, and which were used.
//!
//! A request must match an entry exactly; equal requests are answered in the order of the tape. Concurrent sessions
//! are each mapped to one session of the tape, independent of names.

use super::entry::{Asked, AskedEnd, Called, CalledEnd, Header, Line, TAPE_FORMAT, TapeError};
use super::matter::{self, Key, Matter};
use super::redact::Redactor;
use crate::tools::ToolError;
use bob_messages::chat::{Message, ToolCall};
use bob_messages::ids::{ModelName, SessionId, ToolName};
use bob_messages::llm::{Capabilities, LlmError, LlmErrorKind, LlmRequest};
use bob_messages::replay::first_difference;
use bob_messages::tools::ToolDescriptor;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::error::Error;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Whose the two sides of a difference are.
const SIDES: [&str; 2] = ["the tape has", "asked was"];

/// A tape to replay. Clones share the used entries.
#[derive(Clone)]
pub struct Tape(Arc<Loaded>, Arc<Mutex<Taken>>);

struct Loaded {
    path: String,
    header: Header,
    redactor: Redactor,
    profiles: BTreeMap<ModelName, Capabilities>,
    tools: Vec<ToolDescriptor>,
    asked: Recorded<Matter, AskedEnd>,
    called: Recorded<Value, CalledEnd>,
}

/// The entries of one kind, in the order in which they began.
struct Recorded<M, E> {
    entries: Vec<Entry<M, E>>,
    by_key: HashMap<Key, Vec<usize>>,
}

struct Entry<M, E> {
    line: usize,
    session: String,
    step: u32,
    matter: M,
    end: E,
}

/// The used entries by their places, and the mapping of sessions.
#[derive(Default)]
struct Taken {
    asked: BTreeSet<usize>,
    called: BTreeSet<usize>,
    /// The session of the tape that each session keeps to.
    lanes: HashMap<SessionId, String>,
}

impl<M, E> Recorded<M, E> {
    /// The first entry that is left for this session; it is used from then on.
    fn take(
        &self,
        used: &mut BTreeSet<usize>,
        lanes: &mut HashMap<SessionId, String>,
        key: &Key,
        session: &SessionId,
    ) -> Option<&E> {
        let left = || self.by_key.get(key).into_iter().flatten().filter(|at| !used.contains(at));
        let lane = |at: &usize| self.entries[*at].session.as_str();
        let own = lanes.get(session).map_or(session.as_str(), String::as_str);
        let free = |at: &&usize| !lanes.values().any(|other| other == lane(at));
        let found = left().find(|at| lane(at) == own).or_else(|| left().find(free)).or_else(|| left().next());
        let at = *found?;
        lanes.entry(session.clone()).or_insert_with(|| lane(&at).to_owned());
        used.insert(at);
        Some(&self.entries[at].end)
    }
}

impl Tape {
    /// Loads a tape. Secrets that `redactor` finds in a request match the mark on the tape.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, or a line is invalid.
    pub fn load(path: &Path, redactor: Redactor) -> Result<Self, TapeError> {
        let shown = path.display().to_string();
        let file = File::open(path).map_err(|error| TapeError::File {
            path: shown.clone(),
            why: error.to_string(),
            source: Some(error),
        })?;
        let mut lines = Lines { path: shown.clone(), at: 0, reader: BufReader::new(file) };
        let header: Header = lines.next()?.ok_or_else(|| lines.wrong("it is empty"))?;
        if header.tape != TAPE_FORMAT {
            let why = format!("it has format {}, this program knows {TAPE_FORMAT}; record it anew", header.tape);
            return Err(lines.wrong(&why));
        }
        let mut reading = Reading::default();
        while let Some(line) = lines.next()? {
            reading.take(line, lines.at, &redactor).map_err(|why| lines.wrong(&why))?;
        }
        Ok(Self(Arc::new(reading.loaded(shown, header, redactor)), Arc::default()))
    }

    /// The tape from its beginning, with nothing taken from it.
    #[must_use]
    pub fn rewound(&self) -> Self {
        Self(Arc::clone(&self.0), Arc::default())
    }

    /// Its first line.
    pub fn header(&self) -> &Header {
        &self.0.header
    }

    /// Returns how many entries were not used.
    pub fn left(&self) -> usize {
        let taken = self.taken();
        self.0.asked.entries.len() + self.0.called.entries.len() - taken.asked.len() - taken.called.len()
    }

    pub(super) fn profile(&self, model: &ModelName) -> Option<Capabilities> {
        self.0.profiles.get(model).cloned()
    }

    pub(super) fn no_model(&self, model: &ModelName) -> String {
        let names: Vec<&str> = self.0.profiles.keys().map(ModelName::as_str).collect();
        let names = if names.is_empty() { "no model at all".to_owned() } else { names.join(", ") };
        format!("the model {model} is not on the tape {}, which has {names}", self.0.path)
    }

    pub(super) fn offered(&self) -> Vec<ToolDescriptor> {
        self.0.tools.clone()
    }

    pub(super) fn asked(&self, request: &LlmRequest, model: &ModelName) -> Result<AskedEnd, LlmError> {
        let matter = Matter::of(request, model, &self.0.redactor);
        let recorded = &self.0.asked;
        let mut taken = self.taken();
        let Taken { asked, lanes, .. } = &mut *taken;
        let key = matter.key();
        let Some(end) = recorded.take(asked, lanes, &key, &request.session) else {
            let told = self.not_asked(&taken, &matter, request);
            return Err(LlmError::new(LlmErrorKind::NotScripted, told));
        };
        let mut end = self.with_folder(end);
        if let AskedEnd::Failed(error) = &mut end {
            // A retry does not wait in a replay. The last failure is returned unchanged.
            if recorded.by_key.get(&key).is_some_and(|same| same.iter().any(|at| !asked.contains(at))) {
                error.retry_after_ms = None;
            }
        }
        Ok(end)
    }

    pub(super) fn called(&self, session: &SessionId, call: &ToolCall) -> Result<CalledEnd, ToolError> {
        let matter = matter::call(&call.name, &call.arguments, &self.0.redactor);
        let recorded = &self.0.called;
        let mut taken = self.taken();
        let Taken { called, lanes, .. } = &mut *taken;
        if let Some(end) = recorded.take(called, lanes, &matter::hash(&matter), session) {
            return Ok(self.with_folder(end));
        }
        let tape = &self.0.path;
        let mut left = recorded.entries.iter().enumerate().filter(|(at, _)| !called.contains(at));
        Err(ToolError::new(match left.find(|(_, entry)| entry.matter[0] == matter[0]) {
            Some((_, entry)) => {
                let differs = first_difference(SIDES, "arguments", &entry.matter[1], &matter[1]);
                format!(
                    "this call of {} is not on the tape {tape}; line {} is nearest: {}",
                    call.name,
                    entry.line,
                    differs.unwrap_or_default()
                )
            }
            None => format!("the tape {tape} has no further call of {}", call.name),
        }))
    }

    /// The error for an unknown request: the first difference from the nearest entry.
    fn not_asked(&self, taken: &Taken, matter: &Matter, request: &LlmRequest) -> String {
        let (tape, step, session) = (&self.0.path, request.step, &request.session);
        let what = format!("step {step} of session {session} asks what is not on the tape {tape}");
        let own = taken.lanes.get(session).map_or(session.as_str(), String::as_str);
        let entries = &self.0.asked.entries;
        let mut left = (0..entries.len()).filter(|at| !taken.asked.contains(at)).peekable();
        let used_up = left.peek().is_none();
        let near = left.min_by_key(|at| {
            let entry = &entries[*at];
            (entry.session != own, entry.step != step, std::cmp::Reverse(alike(&entry.matter, matter)))
        });
        let near = near.or_else(|| (0..entries.len()).max_by_key(|at| alike(&entries[*at].matter, matter)));
        let Some(entry) = near.map(|at| &entries[at]) else { return format!("{what}, which has no answers at all") };
        let parts = entry.matter.parts().into_iter().zip(matter.parts());
        let differs =
            parts.into_iter().find_map(|((name, one), (_, other))| first_difference(SIDES, name, &one, &other));
        let nearest = match differs {
            Some(differs) => format!("line {} is nearest, and differs in {differs}", entry.line),
            None if used_up => "all of its answers were given".to_owned(),
            None => format!("line {} was answered already", entry.line),
        };
        format!("{what}: {nearest}; record it anew if the change is meant")
    }

    /// Replaces the mark of the working folder by this runtime's folder.
    fn with_folder<E: Clone + Serialize + DeserializeOwned>(&self, end: &E) -> E {
        let mut value = serde_json::to_value(end).unwrap_or_default();
        self.0.redactor.with_folder(&mut value);
        serde_json::from_value(value).unwrap_or_else(|_it_fitted_before| end.clone())
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.1.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Tape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tape")
            .field("path", &self.0.path)
            .field("asked", &self.0.asked.entries.len())
            .finish_non_exhaustive()
    }
}

/// How many messages two requests begin with together.
fn alike(one: &Matter, other: &Matter) -> usize {
    one.messages.iter().zip(&other.messages).take_while(|(one, other)| one == other).count()
}

struct Lines {
    path: String,
    at: usize,
    reader: BufReader<File>,
}

impl Lines {
    fn next<T: serde::de::DeserializeOwned>(&mut self) -> Result<Option<T>, TapeError> {
        let mut text = String::new();
        loop {
            text.clear();
            self.at += 1;
            let read = self.reader.read_line(&mut text).map_err(|error| self.wrong_by(error))?;
            if read == 0 {
                return Ok(None);
            }
            if !text.trim().is_empty() {
                return serde_json::from_str(&text).map(Some).map_err(|error| self.wrong_by(error));
            }
        }
    }

    fn wrong(&self, why: &str) -> TapeError {
        TapeError::Line { path: self.path.clone(), line: self.at.max(1), why: why.to_owned(), source: None }
    }

    fn wrong_by(&self, error: impl Error + Send + Sync + 'static) -> TapeError {
        let why = error.to_string();
        TapeError::Line { path: self.path.clone(), line: self.at.max(1), why, source: Some(Box::new(error)) }
    }
}

#[derive(Default)]
struct Reading {
    profiles: BTreeMap<ModelName, Capabilities>,
    offered: BTreeMap<ToolName, (usize, ToolDescriptor)>,
    systems: HashMap<u32, Value>,
    tools: HashMap<u32, (Value, Vec<ToolName>)>,
    messages: HashMap<u32, Value>,
    asked: Vec<(u64, Entry<Matter, AskedEnd>)>,
    called: Vec<(u64, Entry<Value, CalledEnd>)>,
    /// The tools in the order in which models were offered them.
    shown: Vec<ToolName>,
}

impl Reading {
    fn take(&mut self, line: Line, at: usize, redactor: &Redactor) -> Result<(), String> {
        match line {
            Line::Profile { model, capabilities } => drop(self.profiles.insert(model, capabilities)),
            Line::Offered { tools } => {
                for tool in tools {
                    let place = self.offered.len();
                    let place = self.offered.get(&tool.id).map_or(place, |(place, _)| *place);
                    self.offered.insert(tool.id.clone(), (place, tool));
                }
            }
            Line::System { id, text } => drop(self.systems.insert(id, matter::clean(&text, redactor))),
            Line::Tools { id, tools } => {
                let names = tools.iter().map(|tool| tool.id.clone()).collect();
                self.tools.insert(id, (matter::tools(&tools, redactor), names));
            }
            Line::Message { id, message } => {
                let message: Message = message;
                self.messages.insert(id, matter::message(&message, redactor));
            }
            Line::Asked(asked) => self.asked(asked, at, redactor)?,
            Line::Called(Called { began, session, tool, arguments, end }) => {
                let matter = matter::call(&tool, &arguments, redactor);
                self.called.push((began, Entry { line: at, session, step: 0, matter, end }));
            }
        }
        Ok(())
    }

    fn asked(&mut self, asked: Asked, at: usize, redactor: &Redactor) -> Result<(), String> {
        let Asked { began, session, step, model, mode, system, tools, messages, end } = asked;
        let missing = |kind: &str, id: u32| format!("it names the {kind} {id}, which no line before it has");
        let found = self.systems.get(&system).cloned();
        let system = found.ok_or_else(|| missing("system", system))?;
        let (tools, names) = self.tools.get(&tools).cloned().ok_or_else(|| missing("tools", tools))?;
        for name in names {
            if !self.shown.contains(&name) {
                self.shown.push(name);
            }
        }
        let known = |id: &u32| self.messages.get(id).cloned().ok_or_else(|| missing("message", *id));
        let messages = messages.iter().map(known).collect::<Result<Vec<_>, _>>()?;
        let matter =
            Matter { model: matter::clean(&model, redactor), mode: matter::mode(mode), system, tools, messages };
        self.asked.push((began, Entry { line: at, session, step, matter, end }));
        Ok(())
    }

    fn loaded(self, path: String, header: Header, redactor: Redactor) -> Loaded {
        let Self { profiles, offered, asked, called, shown, .. } = self;
        let mut tools: Vec<(usize, ToolDescriptor)> = offered.into_values().collect();
        // The tools of a request are in the order of the runtime's offer; unused ones follow.
        tools.sort_by_key(|(place, tool)| {
            (shown.iter().position(|name| *name == tool.id).unwrap_or(usize::MAX), *place)
        });
        Loaded {
            path,
            header,
            redactor,
            profiles,
            tools: tools.into_iter().map(|(_, tool)| tool).collect(),
            asked: Recorded::of(asked, Matter::key),
            called: Recorded::of(called, matter::hash),
        }
    }
}

impl<M, E> Recorded<M, E> {
    fn of(mut entries: Vec<(u64, Entry<M, E>)>, key: impl Fn(&M) -> Key) -> Self {
        entries.sort_by_key(|(began, _)| *began);
        let mut by_key: HashMap<Key, Vec<usize>> = HashMap::new();
        for (at, (_, entry)) in entries.iter().enumerate() {
            by_key.entry(key(&entry.matter)).or_default().push(at);
        }
        Self { entries: entries.into_iter().map(|(_, entry)| entry).collect(), by_key }
    }
}

#[cfg(test)]
#[path = "replay_tests.rs"]
mod tests;
