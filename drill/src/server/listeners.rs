//! Waiting calls, and the cancel notices and client responses that are delivered to them.
//!
//! The reading thread delivers; the thread of a call receives. Ids are kept as JSON text, exactly as received.

use std::collections::HashMap;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use super::protocol::Request;

/// Receiving end of a call.
pub(super) type News = Receiver<Delivery>;

pub(super) enum Delivery {
    /// The client no longer wants the call.
    Cancelled,
    /// The client answered the call's question; this is the whole answer.
    Answered(Value),
}

#[derive(Default)]
pub(super) struct Listeners(Mutex<Book>);

#[derive(Default)]
struct Book {
    waiting: HashMap<String, Sender<Delivery>>,
    /// Calls with an open request to the client, by the id of that request.
    asking: HashMap<String, String>,
    /// Questions so far.
    questions: u64,
}

impl Listeners {
    pub(super) fn listen(&self, request: &Request) -> News {
        let (sender, news) = mpsc::channel();
        self.book().waiting.insert(request.id.to_string(), sender);
        news
    }

    /// Registers a request on behalf of a call and returns its id.
    pub(super) fn question(&self, request: &Request) -> String {
        let mut book = self.book();
        book.questions += 1;
        let id = format!("drill-{}", book.questions);
        book.asking.insert(Value::from(id.as_str()).to_string(), request.id.to_string());
        id
    }

    pub(super) fn forget(&self, request: &Request) {
        let id = request.id.to_string();
        let mut book = self.book();
        book.waiting.remove(&id);
        book.asking.retain(|_, call| *call != id);
    }

    pub(super) fn cancelled(&self, call: &Value) {
        self.book().tell(&call.to_string(), Delivery::Cancelled);
    }

    pub(super) fn answered(&self, question: &Value, answer: Value) {
        let mut book = self.book();
        if let Some(call) = book.asking.remove(&question.to_string()) {
            book.tell(&call, Delivery::Answered(answer));
        }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        // A panic while the lock was held leaves no partial update.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Book {
    fn tell(&self, call: &str, heard: Delivery) {
        if let Some(sender) = self.waiting.get(call) {
            // The call may just have ended.
            let _too_late = sender.send(heard);
        }
    }
}
