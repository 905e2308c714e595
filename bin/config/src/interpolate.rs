//! Substitutes `${VAR}` in all texts of the configuration by environment variables.
//!
//! Values are not interpolated again, so a value cannot pull in another one. An unset variable is an error, never an
//! empty text. `$${` stands for the characters `${`.

use std::collections::BTreeMap;
use std::ops::Range;

use super::layers::Environment;
use super::problem::Findings;
use super::secret::Secret;
use super::tree::{self, Item, Table, Value};

/// A variable that was filled in.
#[derive(Clone)]
pub(super) struct Filled {
    /// Where: a path of keys and positions.
    pub(super) place: Vec<String>,
    pub(super) variable: String,
    /// The whole text as it is in the file, with all its variables; parts of it may be secret.
    pub(super) written: Secret,
}

impl std::fmt::Debug for Filled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Filled")
    }
}

/// Substitutes all variables below a table, and returns their names, values and positions. `source` is the text that
/// the spans of the tree refer to.
pub(super) fn interpolate(
    table: &mut Table<'_>,
    environment: &Environment,
    source: &dyn Fn(Range<usize>) -> String,
    findings: &mut Findings,
) -> (BTreeMap<String, Secret>, Vec<Filled>) {
    let mut pass = Pass { environment, source, findings, used: BTreeMap::new(), path: Vec::new(), places: Vec::new() };
    pass.table(table, 0);
    (pass.used, pass.places)
}

struct Pass<'p> {
    environment: &'p Environment,
    source: &'p dyn Fn(Range<usize>) -> String,
    findings: &'p mut Findings,
    used: BTreeMap<String, Secret>,
    /// Where the pass is.
    path: Vec<String>,
    places: Vec<Filled>,
}

impl Pass<'_> {
    fn table(&mut self, table: &mut Table<'_>, depth: usize) {
        for (key, item) in table.iter_mut() {
            self.path.push(key.get_ref().to_string());
            self.item(item, depth + 1);
            self.path.pop();
        }
    }

    fn item(&mut self, item: &mut Item<'_>, depth: usize) {
        let span = item.span();
        match item.get_mut() {
            Value::Table(table) if depth < tree::MAX_DEPTH => self.table(table, depth),
            Value::Array(items) if depth < tree::MAX_DEPTH => {
                for (index, item) in items.iter_mut().enumerate() {
                    self.path.push(format!("[{index}]"));
                    self.item(item, depth + 1);
                    self.path.pop();
                }
            }
            Value::String(text) if text.contains("${") => *text = self.fill(text, &span).into(),
            Value::Table(_)
            | Value::Array(_)
            | Value::String(_)
            | Value::Integer(_)
            | Value::Float(_)
            | Value::Boolean(_)
            | Value::Datetime(_) => {}
        }
    }

    /// The text with its variables filled in. One that cannot be filled in is a complaint and stays as written.
    fn fill(&mut self, text: &str, span: &Range<usize>) -> String {
        let mut filled = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find("${") {
            let (before, after) = (&rest[..at], &rest[at + 2..]);
            if let Some(before) = before.strip_suffix('$') {
                filled.push_str(before);
                filled.push_str("${");
                rest = after;
                continue;
            }
            filled.push_str(before);
            let name = after.split_once('}').filter(|(name, _)| is_name(name));
            let Some((name, after_name)) = name else {
                self.findings.add_with_help(
                    self.place("${", span),
                    "`${` is not followed by the name of a variable and `}`",
                    Some("write `$${` for the characters themselves".to_owned()),
                );
                filled.push_str("${");
                rest = after;
                continue;
            };
            match self.environment.get(name) {
                Some(Ok(value)) => {
                    filled.push_str(value);
                    self.used.insert(name.to_owned(), Secret::from(value));
                    let (place, variable) = (self.path.clone(), name.to_owned());
                    self.places.push(Filled { place, variable, written: Secret::from(text) });
                }
                Some(Err(())) => self.complain(name, "is not valid UTF-8", None, span),
                None => self.complain(name, "is not set", Some(format!("set it: export {name}=…")), span),
            }
            rest = after_name;
        }
        filled + rest
    }

    fn complain(&mut self, name: &str, what: &str, help: Option<String>, span: &Range<usize>) {
        let place = self.place(&format!("${{{name}}}"), span);
        self.findings.add_with_help(place, format!("the environment variable `{name}` {what}"), help);
    }

    /// Position of a reference; it is searched in the source, since escapes before it shift it.
    fn place(&self, reference: &str, span: &Range<usize>) -> Range<usize> {
        match (self.source)(span.clone()).find(reference) {
            Some(at) => span.start + at..span.start + at + reference.len(),
            None => span.clone(),
        }
    }
}

fn is_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}
