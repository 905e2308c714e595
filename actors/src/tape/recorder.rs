//! Writes a tape.
//!
//! Ports send their entries to a writer thread, which redacts secrets; no caller waits for the disk. Each line is in
//! the file as soon as it was written; the last entries of a killed program may be missing.

use super::entry::{Asked, AskedEnd, Called, CalledEnd, Header, Line, TAPE_FORMAT, TapeError};
use super::matter::{self, Key};
use super::redact::Redactor;
use bob_messages::chat::ToolCall;
use bob_messages::ids::{ModelName, SessionId};
use bob_messages::llm::{Capabilities, LlmRequest};
use bob_messages::tools::ToolDescriptor;
use secrecy::SecretString;
use serde::Serialize;
use serde_json::Value;
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Records the traffic of the ports that it wraps. Clones write to one tape.
#[derive(Clone)]
pub struct Recorder(Arc<Inner>);

struct Inner {
    path: String,
    began: AtomicU64,
    writer_mailbox: Mutex<Option<Sender<Seen>>>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

pub(super) enum Seen {
    Profile(ModelName, Capabilities),
    Offered(Vec<ToolDescriptor>),
    Asked {
        began: u64,
        request: Arc<LlmRequest>,
        model: ModelName,
        end: AskedEnd,
    },
    Called {
        began: u64,
        session: SessionId,
        call: Arc<ToolCall>,
        end: CalledEnd,
    },
    /// These must not get onto the tape from here on.
    Secrets(Vec<SecretString>),
    /// Everything before this is to be in the file.
    Kept(Sender<Result<(), String>>),
}

impl Recorder {
    /// Begins a tape in a new file that only its owner may read.
    ///
    /// # Errors
    /// When the file is there already, or cannot be made.
    pub fn create(path: &Path, redactor: Redactor, note: &str) -> Result<Self, TapeError> {
        let shown = path.display().to_string();
        let fail = |why: String, source: Option<io::Error>| TapeError::File { path: shown.clone(), why, source };
        let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        let file = opened.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => {
                fail("there is a file of this name; remove it, or name another".into(), Some(error))
            }
            _ => fail(error.to_string(), Some(error)),
        })?;
        let header = Header { tape: TAPE_FORMAT, bob: env!("CARGO_PKG_VERSION").to_owned(), note: redactor.text(note) };
        let mut writer = Writer { file: BufWriter::new(file), redactor, known: HashMap::new(), failed: None };
        writer.write(&header);
        if let Some(why) = writer.failed {
            return Err(fail(why, None));
        }
        let (writer_mailbox, seen) = channel();
        let thread = std::thread::Builder::new().name("tape".into()).spawn(move || writer.work(&seen));
        let thread = thread.map_err(|error| fail(format!("its thread cannot be started: {error}"), Some(error)))?;
        Ok(Self(Arc::new(Inner {
            path: shown.clone(),
            began: AtomicU64::new(0),
            writer_mailbox: Mutex::new(Some(writer_mailbox)),
            writer: Mutex::new(Some(thread)),
        })))
    }

    /// Adds secrets to redact: keys that were loaded after the start.
    pub fn keep_off<'a>(&self, secrets: impl IntoIterator<Item = &'a str>) {
        let secrets: Vec<_> = secrets.into_iter().map(SecretString::from).collect();
        if !secrets.is_empty() {
            self.tell(Seen::Secrets(secrets));
        }
    }

    /// Waits until everything seen so far is on the disk. Blocks for as long as that takes.
    ///
    /// # Errors
    /// When something could not be written, now or before: the tape is not whole.
    pub fn keep(&self) -> Result<(), TapeError> {
        let (tell, told) = channel();
        self.tell(Seen::Kept(tell));
        let kept = told.recv().unwrap_or_else(|_gone| Err("its thread has ended".to_owned()));
        kept.map_err(|why| TapeError::File { path: self.0.path.clone(), why, source: None })
    }

    /// Returns the number of an entry that begins now.
    pub(super) fn begin(&self) -> u64 {
        self.0.began.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(super) fn tell(&self, seen: Seen) {
        let writer_mailbox = self.0.writer_mailbox.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(writer_mailbox) = &*writer_mailbox {
            // An ended writer is reported by `keep`.
            let _ended = writer_mailbox.send(seen);
        }
    }
}

impl std::fmt::Debug for Recorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Recorder").field(&self.0.path).finish()
    }
}

impl Drop for Inner {
    /// Ends the writer after it has written all entries.
    fn drop(&mut self) {
        drop(self.writer_mailbox.get_mut().unwrap_or_else(PoisonError::into_inner).take());
        if let Some(writer) = self.writer.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            let _it_panicked = writer.join();
        }
    }
}

struct Writer {
    file: BufWriter<File>,
    redactor: Redactor,
    /// Lines of shared content, by hash.
    known: HashMap<Key, u32>,
    failed: Option<String>,
}

impl Writer {
    fn work(mut self, seen: &Receiver<Seen>) {
        while let Ok(seen) = seen.recv() {
            match seen {
                Seen::Profile(model, capabilities) => self.line(&Line::Profile { model, capabilities }),
                Seen::Offered(tools) => self.line(&Line::Offered { tools }),
                Seen::Asked { began, request, model, end } => self.asked(began, &request, model, end),
                Seen::Called { began, session, call, end } => self.line(&Line::Called(Called {
                    began,
                    session: session.to_string(),
                    tool: call.name.clone(),
                    arguments: Value::clone(&call.arguments),
                    end,
                })),
                Seen::Secrets(secrets) => self.redactor = std::mem::take(&mut self.redactor).with(secrets),
                Seen::Kept(tell) => {
                    self.sync();
                    let _nobody_waits = tell.send(self.failed.clone().map_or(Ok(()), Err));
                }
            }
        }
        self.sync();
    }

    fn asked(&mut self, began: u64, request: &LlmRequest, model: ModelName, end: AskedEnd) {
        let system = self.once("system", &request.system, |id| Line::System { id, text: request.system.to_string() });
        let tools = request.tools.tools();
        let tools = self.once("tools", tools, |id| Line::Tools { id, tools: tools.to_vec() });
        let messages = request
            .messages
            .iter()
            .map(|message| self.once("message", &**message, |id| Line::Message { id, message: (**message).clone() }));
        let messages = messages.collect();
        let (session, step, mode) = (request.session.to_string(), request.step, request.mode);
        self.line(&Line::Asked(Asked { began, session, step, model, mode, system, tools, messages, end }));
    }

    /// The number of a shared line, which is written if it is new.
    fn once(&mut self, kind: &str, thing: &(impl Serialize + ?Sized), line: impl FnOnce(u32) -> Line) -> u32 {
        let key = matter::hash(&Value::Array(vec![kind.into(), serde_json::to_value(thing).unwrap_or_default()]));
        if let Some(id) = self.known.get(&key) {
            return *id;
        }
        let id = u32::try_from(self.known.len()).unwrap_or(u32::MAX).saturating_add(1);
        self.known.insert(key, id);
        self.line(&line(id));
        id
    }

    fn line(&mut self, line: &Line) {
        let clean = matter::clean(line, &self.redactor);
        // If redaction destroys the format of the line, it is left out.
        if serde_json::from_value::<Line>(clean.clone()).is_err() {
            let why =
                "a secret is spelled like a word of the tape's own format, so it cannot be taken out; use another";
            self.failed.get_or_insert(why.to_owned());
        }
        self.write(&clean);
    }

    fn write(&mut self, line: &impl Serialize) {
        if self.failed.is_some() {
            return;
        }
        let written = serde_json::to_writer(&mut self.file, line).map_err(std::io::Error::from);
        let written = written.and_then(|()| self.file.write_all(b"\n")).and_then(|()| self.file.flush());
        self.failed = written.err().map(|error| error.to_string());
    }

    fn sync(&mut self) {
        if let Err(error) = self.file.flush().and_then(|()| self.file.get_ref().sync_all()) {
            self.failed.get_or_insert(error.to_string());
        }
    }
}
