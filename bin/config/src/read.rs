//! From the tree to the structs: one reader that goes on after a fault, so that all of them are told at once.
//!
//! The structs say which type stands under which name and what holds where nothing is written; the names that are accepted
//! come from the one table of [`super::keys`].

use std::collections::BTreeMap;
use std::ops::Range;

use super::keys::KEYS;
use super::problem::Findings;
use super::tree::{self, Item, Table, Value};

/// A type that can be read from a value.
pub(super) trait Read: Sized {
    /// The value; `None` when it cannot be one, and then a complaint has been made.
    fn read(item: &Item, reader: &mut Reader<'_>) -> Option<Self>;
}

/// Where the reading is, and what it complains about.
pub(super) struct Reader<'r> {
    findings: &'r mut Findings,
    /// After a broken line, keys can stand in the wrong table or be lost: unknown keys of the top level and missing ones are
    /// then its consequence.
    is_broken: bool,
    /// The text that the places of the tree point into.
    source: &'r dyn Fn(Range<usize>) -> String,
    path: Vec<String>,
}

impl<'r> Reader<'r> {
    pub(super) fn new(findings: &'r mut Findings, is_broken: bool, source: &'r dyn Fn(Range<usize>) -> String) -> Self {
        Self { findings, is_broken, source, path: Vec::new() }
    }

    /// The table in which a struct is written; complains about the names it does not know.
    pub(super) fn fields<'t>(&mut self, item: &'t Item) -> Option<&'t Table> {
        let table = self.wanted(item, "a table", item.as_table())?;
        self.check_names(table);
        Some(table)
    }

    /// Complains about the names that are not accepted in the table at this place.
    pub(super) fn check_names(&mut self, table: &Table) {
        let accepted = names_below(&self.path);
        for (key, _) in table.iter().filter(|(key, _)| !accepted.contains(&key.name.as_str())) {
            if self.is_broken && self.path.is_empty() {
                continue;
            }
            if self.findings.is_full() {
                self.findings.count += 1;
                continue;
            }
            let (message, help) = unknown_key(&key.name, &self.path, &accepted);
            self.findings.add_with_help(key.span.clone(), message, Some(help));
        }
    }

    /// The value under a name, or what holds where it is missing.
    pub(super) fn field<T: Read>(&mut self, table: &Table, name: &str, default: impl FnOnce() -> T) -> Option<T> {
        match table.get(name) {
            Some(item) => self.below(name.to_owned(), item),
            None => Some(default()),
        }
    }

    /// The value under a name that must be there.
    pub(super) fn needed<T: Read>(&mut self, table: &Table, name: &str, of: &Item) -> Option<T> {
        if let Some(item) = table.get(name) {
            return self.below(name.to_owned(), item);
        }
        if !self.is_broken {
            // Which entry of a list is told by the place.
            let is_in_list = self.path.last().is_some_and(|part| part.starts_with('['));
            let path = &self.path[..self.path.len() - usize::from(is_in_list)];
            let message = format!("each entry of `{}` needs `{name}`", tree::shown(path));
            self.findings.add(self.head(&of.span), message);
        }
        None
    }

    fn below<T: Read>(&mut self, part: String, item: &Item) -> Option<T> {
        self.path.push(part);
        let value = T::read(item, self);
        self.path.pop();
        value
    }

    /// The place of a table: its header, or the first character of one without.
    fn head(&self, span: &Range<usize>) -> Range<usize> {
        let text = (self.source)(span.clone());
        let length = if text.starts_with('[') { text.len() } else { text.chars().next().map_or(0, char::len_utf8) };
        span.start..span.start + length
    }

    /// What was found, or a complaint about what else was.
    fn wanted<T>(&mut self, item: &Item, expected: &str, found: Option<T>) -> Option<T> {
        if found.is_none() {
            let is_text_for_number = expected == "an integer" && matches!(item.value, Value::Text(_));
            let help = "write a plain number without quotes and without a unit; times are in milliseconds".to_owned();
            let message = format!("expected {expected}, found {}", item.kind());
            self.complain(item, message, is_text_for_number.then_some(help));
        }
        found
    }

    fn complain(&mut self, item: &Item, message: String, help: Option<String>) {
        let message = format!("`{}`: {message}", tree::shown(&self.path));
        self.findings.add_with_help(item.span.clone(), message, help);
    }

    /// One of a closed list of words, spelled in lower case.
    pub(super) fn word<T: Copy>(&mut self, item: &Item, words: &[(&str, T)]) -> Option<T> {
        let text = self.wanted(item, "a string", item.as_text())?;
        let found = words.iter().find(|(word, _)| word.to_ascii_lowercase() == text).map(|(_, value)| *value);
        if found.is_none() {
            let words: Vec<_> = words.iter().map(|(word, _)| word.to_ascii_lowercase()).collect();
            self.complain(item, format!("unknown word, expected one of: {}", words.join(", ")), None);
        }
        found
    }

    fn whole<T: TryFrom<i128>>(&mut self, item: &Item) -> Option<T> {
        let number = if let Value::Integer(number) = item.value { Some(number) } else { None };
        let number = self.wanted(item, "an integer", number)?;
        let number = number.and_then(|number| T::try_from(number).ok());
        if number.is_none() {
            self.complain(item, "out of range".to_owned(), None);
        }
        number
    }
}

impl Read for String {
    fn read(item: &Item, reader: &mut Reader<'_>) -> Option<Self> {
        reader.wanted(item, "a string", item.as_text()).map(str::to_owned)
    }
}

impl Read for bool {
    fn read(item: &Item, reader: &mut Reader<'_>) -> Option<Self> {
        let found = if let Value::Truth(is_so) = item.value { Some(is_so) } else { None };
        reader.wanted(item, "true or false", found)
    }
}

impl Read for u32 {
    fn read(item: &Item, reader: &mut Reader<'_>) -> Option<Self> {
        reader.whole(item)
    }
}

impl Read for u64 {
    fn read(item: &Item, reader: &mut Reader<'_>) -> Option<Self> {
        reader.whole(item)
    }
}

impl Read for f64 {
    fn read(item: &Item, reader: &mut Reader<'_>) -> Option<Self> {
        reader.wanted(item, "a float", item.as_decimal())
    }
}

impl<T: Read> Read for Option<T> {
    fn read(item: &Item, reader: &mut Reader<'_>) -> Option<Self> {
        T::read(item, reader).map(Some)
    }
}

impl<T: Read> Read for Vec<T> {
    fn read(item: &Item, reader: &mut Reader<'_>) -> Option<Self> {
        let items = reader.wanted(item, "a list", item.as_list())?;
        let read = items.iter().enumerate().map(|(index, item)| reader.below(format!("[{index}]"), item));
        // All of them are read before the first fault counts.
        read.collect::<Vec<_>>().into_iter().collect()
    }
}

impl<T: Read> Read for BTreeMap<String, T> {
    fn read(item: &Item, reader: &mut Reader<'_>) -> Option<Self> {
        let table = reader.wanted(item, "a table", item.as_table())?;
        let read = table.iter().map(|(key, item)| (key.name.clone(), reader.below(key.name.clone(), item)));
        read.collect::<Vec<_>>().into_iter().map(|(name, value)| Some((name, value?))).collect()
    }
}

/// Defines a table of the configuration and how it is read. A field without a default must be written; `as` gives the name
/// in the file where it is not the field's.
macro_rules! table {
    ($(#[$meta:meta])* pub struct $name:ident {
        $($(#[$field_meta:meta])* pub $field:ident $(as $key:literal)?: $kind:ty $(= $default:expr)?,)*
    }) => {
        $(#[$meta])*
        #[derive(Clone, Debug)]
        pub struct $name { $($(#[$field_meta])* pub $field: $kind,)* }

        impl $crate::read::Read for $name {
            fn read(
                item: &$crate::tree::Item,
                reader: &mut $crate::read::Reader<'_>,
            ) -> Option<Self> {
                let table = reader.fields(item)?;
                $(let $field = $crate::read::table!(
                    @field reader, item, table, $crate::read::table!(@name $field $($key)?) $(, $default)?
                );)*
                Some(Self { $($field: $field?,)* })
            }
        }
    };
    (@name $field:ident) => { stringify!($field) };
    (@name $field:ident $key:literal) => { $key };
    (@field $reader:ident, $item:ident, $table:ident, $name:expr) => { $reader.needed($table, $name, $item) };
    (@field $reader:ident, $item:ident, $table:ident, $name:expr, $default:expr) => {
        $reader.field($table, $name, || $default)
    };
}
pub(super) use table;

/// Defines a table of which every key has a default: each is written once and serves the missing key and the missing table.
macro_rules! section {
    ($(#[$meta:meta])* pub struct $name:ident {
        $($(#[$field_meta:meta])* pub $field:ident: $kind:ty = $default:expr,)*
    }) => {
        $crate::read::table! {
            $(#[$meta])* pub struct $name { $($(#[$field_meta])* pub $field: $kind = $default,)* }
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default,)* }
            }
        }
    };
}
pub(super) use section;

/// What is wrong with a key nobody knows, and what was probably meant.
fn unknown_key(name: &str, parent: &[String], accepted: &[&str]) -> (String, String) {
    let place = match parent {
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
    let elsewhere = KEYS.iter().find_map(|(key, _)| key.rsplit_once('.').filter(|(_, last)| *last == name));
    match elsewhere {
        Some((table, _)) => (message, format!("`{name}` belongs to [{}]", table.replace(".*", ".<name>"))),
        None => (message, format!("accepted here: {}", accepted.join(", "))),
    }
}

/// The names accepted in a table.
fn names_below(parent: &[String]) -> Vec<&'static str> {
    let mut names: Vec<&str> = Vec::new();
    for (key, _) in KEYS {
        let parts: Vec<&str> = key.split('.').collect();
        if let Some((above, below)) = parts.split_at_checked(parent.len())
            && let Some(name) = below.first().filter(|name| **name != "*" && !names.contains(name))
            && tree::fits(above, parent)
        {
            names.push(name);
        }
    }
    names
}
