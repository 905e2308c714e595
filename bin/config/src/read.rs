//! Reads the structs from the tree, and continues after an error to report all at once.
//!
//! The macros of [`super::table`] declare type, name, default and rule of each field.

use std::collections::BTreeMap;
use std::ops::Range;

use super::keys::{Key, Rule, names};
use super::problem::Findings;
use super::secret::Secret;
use super::tree::{self, Item, Table};

/// A type that can be read from a value.
pub(super) trait Read: Sized {
    /// The keys of the tables that it is read from, if it is.
    const KEYS: &'static [Key] = &[];
    const IS_MANY: bool = false;

    /// The value; `None` when it cannot be one, and then a complaint has been made.
    fn read(item: &Item<'_>, reader: &mut Reader<'_>) -> Option<Self>;
}

pub(super) struct Reader<'r> {
    findings: &'r mut Findings,
    /// After a broken line, keys can stand in the wrong table or be lost: unknown keys of the top level and missing ones are
    /// then its consequence.
    is_broken: bool,
    /// The text that the places of the tree point into.
    source: &'r dyn Fn(Range<usize>) -> String,
    /// All keys there are, each by its path.
    keys: &'r [String],
    path: Vec<String>,
    /// Whether a part of a table is read next, whose names are not all that are accepted.
    is_part: bool,
}

impl<'r> Reader<'r> {
    pub(super) fn new(
        findings: &'r mut Findings,
        is_broken: bool,
        source: &'r dyn Fn(Range<usize>) -> String,
        keys: &'r [String],
    ) -> Self {
        Self { findings, is_broken, source, keys, path: Vec::new(), is_part: false }
    }

    /// Reads the table of a struct; adds errors for unknown keys.
    pub(super) fn table<'t>(&mut self, item: &'t Item<'t>, keys: &[Key]) -> Option<&'t Table<'t>> {
        let table = self.wanted(item, "a table", tree::table(item))?;
        if std::mem::take(&mut self.is_part) {
            return Some(table);
        }
        let accepted = names(keys);
        let mut unknown: Vec<_> = table.keys().filter(|key| !accepted.contains(&&**key.get_ref())).collect();
        unknown.sort_by_key(|key| key.span().start);
        for key in unknown {
            if self.is_broken && self.path.is_empty() {
                continue;
            }
            if self.findings.is_full() {
                self.findings.count += 1;
                continue;
            }
            let (message, help) = self.unknown_key(key.get_ref(), &accepted);
            self.findings.add_with_help(key.span(), message, Some(help));
        }
        Some(table)
    }

    /// Returns the error for an unknown key, and the most similar accepted one.
    fn unknown_key(&self, name: &str, accepted: &[&str]) -> (String, String) {
        let place = match self.path.as_slice() {
            [] => "at the top level".to_owned(),
            parent => format!("in `{}`", tree::shown(parent)),
        };
        let message = format!("unknown key `{}` {place}", tree::shown(&[name.to_owned()]));
        let near = accepted
            .iter()
            .map(|candidate| (strsim::jaro_winkler(name, candidate), candidate))
            .filter(|(likeness, _)| *likeness >= 0.85)
            .max_by(|a, b| a.0.total_cmp(&b.0));
        if let Some((_, candidate)) = near {
            return (message, format!("did you mean `{candidate}`?"));
        }
        let elsewhere = self.keys.iter().find_map(|key| key.rsplit_once('.').filter(|(_, last)| *last == name));
        match elsewhere {
            Some((table, _)) => (message, format!("`{name}` belongs to [{}]", table.replace(".*", ".<name>"))),
            None => (message, format!("accepted here: {}", accepted.join(", "))),
        }
    }

    /// Returns the value of a key or its default; without a default the key is required.
    pub(super) fn field<T: Read>(
        &mut self,
        table: &Table<'_>,
        of: &Item<'_>,
        key: &Key,
        default: Option<T>,
    ) -> Option<T> {
        if key.name.is_empty() {
            self.is_part = true;
            return T::read(of, self);
        }
        if let Some(item) = table.get(key.name) {
            return self.below(key.name.to_owned(), item, key.rule);
        }
        if default.is_none() && !self.is_broken {
            // The position identifies the entry of a list.
            let is_in_list = self.path.last().is_some_and(|part| part.starts_with('['));
            let path = &self.path[..self.path.len() - usize::from(is_in_list)];
            let message = format!("each entry of `{}` needs `{}`", tree::shown(path), key.name);
            self.findings.add(self.head(&of.span()), message);
        }
        default
    }

    fn below<T: Read>(&mut self, part: String, item: &Item<'_>, rule: Rule) -> Option<T> {
        self.path.push(part);
        self.obey(rule, item);
        let value = T::read(item, self);
        self.path.pop();
        value
    }

    /// Complains about a value that does not obey the rule of its key.
    fn obey(&mut self, rule: Rule, item: &Item<'_>) {
        if let Some(items) = tree::list(item) {
            items.iter().for_each(|item| self.obey(rule, item));
        } else if let Some(complaint) = rule.complaint(item) {
            self.findings.add(item.span(), format!("`{}` {complaint}", tree::shown(&self.path)));
        }
    }

    /// The place of a table: its header, or the first character of one without.
    fn head(&self, span: &Range<usize>) -> Range<usize> {
        let text = (self.source)(span.clone());
        let length = if text.starts_with('[') { text.len() } else { text.chars().next().map_or(0, char::len_utf8) };
        span.start..span.start + length
    }

    /// Returns the value found, or adds an error about the type found.
    fn wanted<T>(&mut self, item: &Item<'_>, expected: &str, found: Option<T>) -> Option<T> {
        if found.is_none() {
            let is_text_for_number = expected == "an integer" && item.get_ref().is_str();
            let help = "write a plain number without quotes and without a unit; times are in milliseconds".to_owned();
            let message = format!("expected {expected}, found {}", tree::kind(item));
            self.complain(item, message, is_text_for_number.then_some(help));
        }
        found
    }

    fn complain(&mut self, item: &Item<'_>, message: String, help: Option<String>) {
        let message = format!("`{}`: {message}", tree::shown(&self.path));
        self.findings.add_with_help(item.span(), message, help);
    }

    /// Reads an enumerated value, in lower case.
    pub(super) fn word<T: Copy>(&mut self, item: &Item<'_>, words: &[(&str, T)]) -> Option<T> {
        let text = self.wanted(item, "a string", tree::text(item))?;
        let found = words.iter().find(|(word, _)| written(word) == text).map(|(_, value)| *value);
        if found.is_none() {
            let words: Vec<_> = words.iter().map(|(word, _)| written(word)).collect();
            self.complain(item, format!("unknown word, expected one of: {}", words.join(", ")), None);
        }
        found
    }

    fn whole<T: TryFrom<i128>>(&mut self, item: &Item<'_>) -> Option<T> {
        let number = self.wanted(item, "an integer", tree::whole(item))?;
        let number = number.and_then(|number| T::try_from(number).ok());
        if number.is_none() {
            self.complain(item, "out of range".to_owned(), None);
        }
        number
    }
}

/// The name of a variant as a file has it: in lower case, with `_` between its words.
fn written(word: &str) -> String {
    let mut written = String::with_capacity(word.len() + 1);
    let mut was_small = false;
    for c in word.chars() {
        if was_small && c.is_ascii_uppercase() {
            written.push('_');
        }
        was_small = c.is_ascii_lowercase();
        written.push(c.to_ascii_lowercase());
    }
    written
}

impl Read for String {
    fn read(item: &Item<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        reader.wanted(item, "a string", tree::text(item)).map(str::to_owned)
    }
}

impl Read for bool {
    fn read(item: &Item<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        reader.wanted(item, "true or false", item.get_ref().as_bool())
    }
}

/// Integers: a value that does not fit its type is out of range.
macro_rules! whole {
    ($($kind:ty)*) => {$(
        impl Read for $kind {
            fn read(item: &Item<'_>, reader: &mut Reader<'_>) -> Option<Self> {
                reader.whole(item)
            }
        }
    )*};
}
whole!(u32 u64 usize);

impl Read for f64 {
    fn read(item: &Item<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        reader.wanted(item, "a float", tree::decimal(item))
    }
}

impl Read for Secret {
    fn read(item: &Item<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        String::read(item, reader).map(|value| Self::from(value.as_str()))
    }
}

impl<T: Read> Read for Option<T> {
    const KEYS: &'static [Key] = T::KEYS;

    fn read(item: &Item<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        T::read(item, reader).map(Some)
    }
}

impl<T: Read> Read for Vec<T> {
    const KEYS: &'static [Key] = T::KEYS;
    const IS_MANY: bool = true;

    fn read(item: &Item<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        let items = reader.wanted(item, "a list", tree::list(item))?;
        let read = items.iter().enumerate().map(|(index, item)| reader.below(format!("[{index}]"), item, Rule::Any));
        // All of them are read before the first fault counts.
        read.collect::<Vec<_>>().into_iter().collect()
    }
}

impl<T: Read> Read for BTreeMap<String, T> {
    const KEYS: &'static [Key] = T::KEYS;
    const IS_MANY: bool = true;

    fn read(item: &Item<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        let table = reader.wanted(item, "a table", tree::table(item))?;
        let read = table
            .iter()
            .map(|(key, item)| (key.get_ref().to_string(), reader.below(key.get_ref().to_string(), item, Rule::Any)));
        read.collect::<Vec<_>>().into_iter().map(|(name, value)| Some((name, value?))).collect()
    }
}
