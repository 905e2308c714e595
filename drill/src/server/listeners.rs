//! Calls that wait, and what they hear: their cancel notice, or the answer to a question they asked the client.
//!
//! The thread that reads tells; the thread of a call listens. Ids are kept as JSON text, as they were written.

use std::collections::HashMap;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use super::protocol::Request;

/// Where a call hears.
pub(super) type News = Receiver<Heard>;

/// What it hears.
pub(super) enum Heard {
    /// The client no longer wants the call.
    Cancelled,
    /// The client answered the call's question; this is the whole answer.
    Answered(Value),
}

/// All calls that wait.
#[derive(Default)]
pub(super) struct Listeners(Mutex<Book>);

#[derive(Default)]
struct Book {
    /// By the id of the call.
    waiting: HashMap<String, Sender<Heard>>,
    /// The calls that asked something, by the id of the question.
    asking: HashMap<String, String>,
    /// Questions so far.
    questions: u64,
}

impl Listeners {
    /// From now on this call hears what comes for it.
    pub(super) fn listen(&self, request: &Request) -> News {
        let (sender, news) = mpsc::channel();
        self.book().waiting.insert(request.id.to_string(), sender);
        news
    }

    /// Notes a question of a call that listens, and returns the id it is to be asked with.
    pub(super) fn question(&self, request: &Request) -> String {
        let mut book = self.book();
        book.questions += 1;
        let id = format!("drill-{}", book.questions);
        book.asking.insert(Value::from(id.as_str()).to_string(), request.id.to_string());
        id
    }

    /// The call listens no longer.
    pub(super) fn forget(&self, request: &Request) {
        let id = request.id.to_string();
        let mut book = self.book();
        book.waiting.remove(&id);
        book.asking.retain(|_, call| *call != id);
    }

    /// A cancel notice came for this call.
    pub(super) fn cancelled(&self, call: &Value) {
        self.book().tell(&call.to_string(), Heard::Cancelled);
    }

    /// This question was answered.
    pub(super) fn answered(&self, question: &Value, answer: Value) {
        let mut book = self.book();
        if let Some(call) = book.asking.remove(&question.to_string()) {
            book.tell(&call, Heard::Answered(answer));
        }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        // A thread that panicked left nothing half done here.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Book {
    fn tell(&self, call: &str, heard: Heard) {
        if let Some(sender) = self.waiting.get(call) {
            // The call may just have ended.
            let _too_late = sender.send(heard);
        }
    }
}
