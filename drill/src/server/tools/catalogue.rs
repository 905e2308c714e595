//! The tools on offer, in the pages in which they are listed.
//!
//! Offers are kept as JSON text: some drills need schemas that no JSON library would build or survive.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};

/// The schema of a tool without arguments.
pub(in crate::server) const PLAIN: &str = r#"{"type":"object"}"#;

pub(in crate::server) struct Catalogue(Mutex<Inner>);

struct Inner {
    /// Name and offer, in the order of the list.
    offers: Vec<(String, String)>,
    /// Texts of tools that were added.
    said: BTreeMap<String, String>,
    /// Offers on a page, at least 1.
    page: usize,
    /// How often something changed.
    changes: u64,
}

impl Catalogue {
    /// All tools of the table.
    pub(in crate::server) fn new(page: usize) -> Self {
        let named = |offer: Value| (offer["name"].as_str().unwrap_or_default().to_owned(), offer.to_string());
        let offers = super::offers().into_iter().map(named).collect();
        Self(Mutex::new(Inner { offers, said: BTreeMap::new(), page, changes: 0 }))
    }

    /// Returns the result of `tools/list` for this cursor; `None` for an unknown cursor.
    pub(in crate::server) fn page(&self, cursor: Option<&str>) -> Option<String> {
        let inner = self.inner();
        let from = match cursor {
            None => 0,
            Some(cursor) => cursor.strip_prefix("from-")?.parse().ok().filter(|from| *from < inner.offers.len())?,
        };
        let to = from.saturating_add(inner.page).min(inner.offers.len());
        let next = (to < inner.offers.len()).then(|| format!("from-{to}"));
        Some(list(inner.offers.get(from..to)?.iter().map(|(_, offer)| offer.as_str()), next.as_deref()))
    }

    /// Adds a tool with this input schema, JSON text.
    pub(in crate::server) fn add(&self, name: &str, schema: &str) {
        self.inner().offers.push((name.to_owned(), offer(name, schema)));
    }

    /// Adds tools with the text that each returns.
    pub(in crate::server) fn add_all(&self, offers: Vec<Value>) {
        let mut inner = self.inner();
        for mut offer in offers {
            let name = offer["name"].as_str().unwrap_or_default().to_owned();
            if let Some(Value::String(says)) = offer.as_object_mut().and_then(|offer| offer.remove("says")) {
                inner.said.insert(name.clone(), says);
            }
            inner.offers.push((name, offer.to_string()));
        }
    }

    /// Returns the text of an added tool; by default its name.
    pub(super) fn says(&self, name: &str) -> Option<String> {
        let inner = self.inner();
        let is_there = inner.offers.iter().any(|(offered, _)| offered == name);
        is_there.then(|| inner.said.get(name).cloned().unwrap_or_else(|| name.to_owned()))
    }

    /// Makes pages of at least this size, for lists that would otherwise have thousands of them.
    pub(in crate::server) fn widen(&self, page: usize) {
        let mut inner = self.inner();
        inner.page = inner.page.max(page);
    }

    pub(super) fn grow(&self) -> String {
        let name = format!("grown_{}", self.changed());
        self.add(&name, PLAIN);
        name
    }

    /// Changes the description and the schema of `echo`.
    pub(super) fn drift(&self) {
        let times = self.changed();
        let changed = json!({
            "name": "echo", "description": format!("Says what it was told, changed {times} times."),
            "inputSchema": {
                "type": "object", "properties": { "text": { "type": "string" }, "times": { "const": times } },
                "required": ["text", "times"],
            },
        });
        for (name, offer) in &mut self.inner().offers {
            if name == "echo" {
                *offer = changed.to_string();
            }
        }
    }

    fn changed(&self) -> u64 {
        let mut inner = self.inner();
        inner.changes += 1;
        inner.changes
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // A panic while the lock was held leaves no partial update.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A page with one tool, and the cursor of the next.
pub(in crate::server) fn one_page(name: &str, next: &str) -> String {
    list(std::iter::once(offer(name, PLAIN).as_str()), Some(next))
}

fn offer(name: &str, schema: &str) -> String {
    format!(r#"{{"name":"{name}","description":"Says its own name.","inputSchema":{schema}}}"#)
}

/// The result of `tools/list` with these offers.
fn list<'a>(offers: impl Iterator<Item = &'a str>, next: Option<&str>) -> String {
    let offers: Vec<&str> = offers.collect();
    let next = next.map(|cursor| format!(r#","nextCursor":"{cursor}""#)).unwrap_or_default();
    format!(r#"{{"tools":[{}]{next}}}"#, offers.join(","))
}
