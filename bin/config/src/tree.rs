//! The parsed text: a tree in which every key and value has a position, and look-up by path.
//!
//! A path is a list of parts: keys, and array indices written `[0]`.

use std::ops::Range;

use toml::Spanned;
use toml::de::DeTable;

pub(super) use toml::de::DeValue as Value;

/// Maximum depth of traversal. The schema's deepest key is at 5; deeper content belongs to unknown keys.
pub(super) const MAX_DEPTH: usize = 8;

/// A value and its place: of a table its header, its braces, or the key that implies it.
pub(super) type Item<'t> = Spanned<Value<'t>>;

/// The entries of a table, by their keys and the places of these.
pub(super) type Table<'t> = DeTable<'t>;

/// Parses as much as possible, and returns the errors.
pub(super) fn parse(text: &str) -> (Table<'_>, Vec<toml::de::Error>) {
    let (root, errors) = DeTable::parse_recoverable(text);
    (root.into_inner(), errors)
}

pub(super) fn text<'t>(item: &'t Item<'_>) -> Option<&'t str> {
    item.get_ref().as_str()
}

pub(super) fn table<'t>(item: &'t Item<'t>) -> Option<&'t Table<'t>> {
    item.get_ref().as_table()
}

pub(super) fn list<'t>(item: &'t Item<'t>) -> Option<&'t [Item<'t>]> {
    item.get_ref().as_array().map(|items| &items[..])
}

/// An integer; `Some(None)` if it exceeds 128 bits.
pub(super) fn whole(item: &Item<'_>) -> Option<Option<i128>> {
    item.get_ref().as_integer().map(|digits| i128::from_str_radix(digits.as_str(), digits.radix()).ok())
}

pub(super) fn decimal(item: &Item<'_>) -> Option<f64> {
    let whole = whole(item).map(|number| number.map_or(f64::NAN, |number| number as f64));
    whole.or_else(|| item.get_ref().as_float().map(|digits| digits.as_str().parse().unwrap_or(f64::NAN)))
}

pub(super) fn kind(item: &Item<'_>) -> &'static str {
    match item.get_ref() {
        Value::String(_) => "a string",
        Value::Integer(_) => "an integer",
        Value::Float(_) => "a decimal number",
        Value::Boolean(_) => "true or false",
        Value::Datetime(_) => "a date or time",
        Value::Array(_) => "a list",
        Value::Table(_) => "a table",
    }
}

/// Positions of errors, and the rest of their lines.
pub(super) struct Faults(Vec<Range<usize>>);

impl Faults {
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

/// Removes unreliable entries: missing or invalid values, and everything after an error on its line, where an extra
/// quote turns values into keys.
pub(super) fn drop_broken(table: &mut Table<'_>, faults: &Faults) {
    let entries = std::mem::take(table).into_iter();
    let is_whole =
        |(key, item): &mut (Spanned<_>, Item<'_>)| !faults.are_before(key.span().start) && is_whole(item, faults);
    *table = entries.filter_map(|mut entry| is_whole(&mut entry).then_some(entry)).collect();
}

/// Whether the item is present and valid; invalid elements of lists and tables are removed.
fn is_whole(item: &mut Item<'_>, faults: &Faults) -> bool {
    let span = item.span();
    match item.get_mut() {
        Value::Table(table) => drop_broken(table, faults),
        Value::Array(items) => {
            let items_before = std::mem::replace(items, std::iter::empty().collect()).into_iter();
            *items = items_before.filter_map(|mut item| is_whole(&mut item, faults).then_some(item)).collect();
        }
        Value::String(_) | Value::Integer(_) | Value::Float(_) | Value::Boolean(_) | Value::Datetime(_) => {
            return !span.is_empty() && !faults.are_in(&span);
        }
    }
    true
}

/// Merges a table over another: tables are merged, other values replaced with their positions.
pub(super) fn merge<'t>(below: &mut Table<'t>, over: Table<'t>) {
    for (key, mut item) in over {
        match (below.get_mut(&**key.get_ref()).map(Spanned::get_mut), item.get_mut()) {
            (Some(Value::Table(below)), Value::Table(over)) => merge(below, std::mem::take(over)),
            _ => {
                below.remove(&**key.get_ref());
                below.insert(key, item);
            }
        }
    }
}

/// Fills a table with what it lacks of another one, table by table.
pub(super) fn fill<'t>(root: &mut Table<'t>, under: Table<'t>) {
    for (key, mut item) in under {
        match (root.get_mut(&**key.get_ref()).map(Spanned::get_mut), item.get_mut()) {
            (Some(Value::Table(root)), Value::Table(under)) => fill(root, std::mem::take(under)),
            (Some(_), _) => {}
            (None, _) => drop(root.insert(key, item)),
        }
    }
}

/// The item at a plain path such as `runtime.max_steps`.
pub(super) fn get<'t>(root: &'t Table<'t>, path: &str) -> Option<&'t Item<'t>> {
    let (first, rest) = path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)));
    let item = root.get(first)?;
    match rest {
        Some(rest) => get(table(item)?, rest),
        None => Some(item),
    }
}

pub(super) fn written(item: &Item<'_>) -> String {
    written_but(item, &mut Vec::new(), &|_, _| false)
}

/// A value as it may be written in a file, with stars in the place of what is hidden, which is asked with its path.
pub(super) fn written_but<'p>(
    item: &'p Item<'_>,
    path: &mut Vec<&'p str>,
    is_hidden: &dyn Fn(&Item<'_>, &[&str]) -> bool,
) -> String {
    if is_hidden(item, path) {
        return "\"***\"".to_owned();
    }
    let mut below = |name: &'p str, item: &'p Item<'_>| {
        path.push(name);
        let written = written_but(item, path, is_hidden);
        path.pop();
        written
    };
    match item.get_ref() {
        Value::String(text) => quoted(text),
        Value::Integer(digits) => whole(item).flatten().map_or_else(|| digits.to_string(), |number| number.to_string()),
        Value::Float(digits) => digits.to_string(),
        Value::Boolean(is_true) => is_true.to_string(),
        Value::Datetime(time) => time.to_string(),
        Value::Array(items) => {
            format!("[{}]", items.iter().map(|item| below("[]", item)).collect::<Vec<_>>().join(", "))
        }
        Value::Table(table) => {
            let entry = |(key, item): (&'p Spanned<_>, &'p Item<'_>)| {
                let key: &std::borrow::Cow<'_, str> = key.get_ref();
                format!("{} = {}", shown(&[key.to_string()]), below(key, item))
            };
            let entries: Vec<String> = table.iter().map(entry).collect();
            if entries.is_empty() { "{ }".to_owned() } else { format!("{{ {} }}", entries.join(", ")) }
        }
    }
}

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
