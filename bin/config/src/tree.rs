//! The parsed text: a tree in which every key and every value knows its place, and ways to find things in it by a path.
//!
//! A path is a list of parts: keys, and array positions written `[0]`.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// How deep the tree is looked at. The deepest key of the schema lies at 5; what lies deeper is an unknown key's content.
pub(super) const MAX_DEPTH: usize = 8;

/// A value and its place: of a table its header, its braces, or the key that implies it.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) span: Range<usize>,
    pub(super) value: Value,
}

/// What was written.
#[derive(Debug)]
pub(super) enum Value {
    Text(String),
    /// `None` for what not even 128 bits hold.
    Integer(Option<i128>),
    Decimal(f64),
    Truth(bool),
    Date,
    List(Vec<Item>),
    Table(Table),
}

/// A key and its place.
#[derive(Debug)]
pub(super) struct Key {
    pub(super) name: String,
    pub(super) span: Range<usize>,
}

/// The entries of a table, as they stand in the text.
#[derive(Debug, Default)]
pub(super) struct Table(Vec<(Key, Item)>);

/// Reads as much of a text as can be read, and says where it could not be.
pub(super) fn parse(text: &str) -> (Table, Vec<toml::de::Error>) {
    let (root, errors) = DeTable::parse_recoverable(text);
    (table(root.into_inner()), errors)
}

fn table(entries: DeTable<'_>) -> Table {
    let entry = |(key, value): (Spanned<std::borrow::Cow<'_, str>>, Spanned<DeValue<'_>>)| {
        (Key { span: key.span(), name: key.into_inner().into_owned() }, item(value))
    };
    let mut entries: Vec<_> = entries.into_iter().map(entry).collect();
    entries.sort_by_key(|(key, _)| key.span.start);
    Table(entries)
}

fn item(spanned: Spanned<DeValue<'_>>) -> Item {
    let span = spanned.span();
    let value = match spanned.into_inner() {
        DeValue::String(text) => Value::Text(text.into_owned()),
        DeValue::Integer(digits) => Value::Integer(i128::from_str_radix(digits.as_str(), digits.radix()).ok()),
        DeValue::Float(digits) => Value::Decimal(digits.as_str().parse().unwrap_or(f64::NAN)),
        DeValue::Boolean(is_so) => Value::Truth(is_so),
        DeValue::Datetime(_) => Value::Date,
        DeValue::Array(items) => Value::List(items.into_iter().map(item).collect()),
        DeValue::Table(entries) => Value::Table(table(entries)),
    };
    Item { span, value }
}

impl Item {
    pub(super) fn as_table(&self) -> Option<&Table> {
        if let Value::Table(table) = &self.value { Some(table) } else { None }
    }

    pub(super) fn as_list(&self) -> Option<&[Item]> {
        if let Value::List(items) = &self.value { Some(items) } else { None }
    }

    pub(super) fn as_text(&self) -> Option<&str> {
        if let Value::Text(text) = &self.value { Some(text) } else { None }
    }

    /// A number, whole or not.
    pub(super) fn as_decimal(&self) -> Option<f64> {
        match self.value {
            Value::Integer(number) => Some(number.map_or(f64::NAN, |number| number as f64)),
            Value::Decimal(number) => Some(number),
            Value::Text(_) | Value::Truth(_) | Value::Date | Value::List(_) | Value::Table(_) => None,
        }
    }

    /// What it is, for people.
    pub(super) fn kind(&self) -> &'static str {
        match self.value {
            Value::Text(_) => "a string",
            Value::Integer(_) => "an integer",
            Value::Decimal(_) => "a decimal number",
            Value::Truth(_) => "true or false",
            Value::Date => "a date or time",
            Value::List(_) => "a list",
            Value::Table(_) => "a table",
        }
    }
}

/// Where a text could not be read, and the rest of the line each.
pub(super) struct Faults(Vec<Range<usize>>);

impl Faults {
    /// Of these places in a text.
    pub(super) fn at(text: &str, places: &[usize]) -> Self {
        let line_end = |at: usize| text[at..].find('\n').map_or(text.len(), |length| at + length);
        let mut rests: Vec<_> = places.iter().map(|&at| at..line_end(at)).collect();
        rests.sort_by_key(|rest| rest.start);
        Self(rests)
    }

    /// Whether there is one before this place on its line.
    fn are_before(&self, at: usize) -> bool {
        let before = self.0.partition_point(|rest| rest.start <= at);
        self.0[..before].last().is_some_and(|rest| at < rest.end)
    }

    fn are_in(&self, span: &Range<usize>) -> bool {
        let next = self.0.partition_point(|rest| rest.start < span.start);
        self.0.get(next).is_some_and(|rest| rest.start < span.end)
    }
}

impl Item {
    /// Whether it was written and has no fault; of a list or a table what has one is dropped.
    fn is_whole(&mut self, faults: &Faults) -> bool {
        match &mut self.value {
            Value::Table(table) => table.drop_broken(faults),
            Value::List(items) => items.retain_mut(|item| item.is_whole(faults)),
            Value::Text(_) | Value::Integer(_) | Value::Decimal(_) | Value::Truth(_) | Value::Date => {
                return !self.span.is_empty() && !faults.are_in(&self.span);
            }
        }
        true
    }
}

impl Table {
    pub(super) fn iter(&self) -> impl Iterator<Item = &(Key, Item)> {
        self.0.iter()
    }

    pub(super) fn entries_mut(&mut self) -> impl Iterator<Item = (&Key, &mut Item)> {
        self.0.iter_mut().map(|(key, item)| (&*key, item))
    }

    pub(super) fn get(&self, name: &str) -> Option<&Item> {
        self.0.iter().find(|(key, _)| key.name == name).map(|(_, item)| item)
    }

    /// Drops what cannot be relied on: values that were not there or hold a fault, and whatever stands behind a fault on its
    /// line, where a quote too many makes keys of values.
    pub(super) fn drop_broken(&mut self, faults: &Faults) {
        self.0.retain_mut(|(key, item)| !faults.are_before(key.span.start) && item.is_whole(faults));
    }

    /// Lays another table over this one: tables merge, everything else is replaced together with its place.
    pub(super) fn merge(&mut self, over: Self) {
        for (key, item) in over.0 {
            let below = self.0.iter_mut().find(|(other, _)| other.name == key.name);
            match (below, item.value) {
                (Some((_, Item { value: Value::Table(below), .. })), Value::Table(over)) => below.merge(over),
                (Some(below), value) => *below = (key, Item { value, ..item }),
                (None, value) => self.0.push((key, Item { value, ..item })),
            }
        }
    }
}

/// The item at a plain path such as `runtime.max_steps`.
pub(super) fn get<'t>(root: &'t Table, path: &str) -> Option<&'t Item> {
    let (first, rest) = path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)));
    let item = root.get(first)?;
    match rest {
        Some(rest) => get(item.as_table()?, rest),
        None => Some(item),
    }
}

/// The path as it is written in a file.
pub(super) fn shown(path: &[String]) -> String {
    let mut text = String::new();
    for part in path {
        if part.starts_with('[') {
            text.push_str(part);
            continue;
        }
        if !text.is_empty() {
            text.push('.');
        }
        let is_bare = !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'));
        if is_bare {
            text.push_str(part);
        } else {
            text.push_str(&quoted(part));
        }
    }
    text
}

/// A text as a basic string of TOML.
pub(super) fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            control if control.is_control() => quoted.push_str(&format!("\\u{:04X}", u32::from(control))),
            character => quoted.push(character),
        }
    }
    quoted.push('"');
    quoted
}
