//! The items of `docs/api.txt` as what a program may rely on: whole signatures, each with what it stands in.

use std::collections::{BTreeMap, BTreeSet};

/// The items of an interface by their headings.
pub(crate) type Items = BTreeMap<String, Listed>;

/// One item.
#[derive(Debug, Default)]
pub(crate) struct Listed {
    pub(crate) lines: BTreeSet<Line>,
    /// The blocks to which something may be added without a break, since they are `#[non_exhaustive]` or have private
    /// fields.
    open: BTreeSet<String>,
}

/// A signature, a field, a variant, or something derived, in one line whatever its width.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Line {
    /// The blocks that it stands in, the outermost first.
    pub(crate) within: String,
    pub(crate) text: String,
}

impl Listed {
    /// Whether a line that was not there before is a break: a method that implementations would have to add, a variant or
    /// a field where all of them are known.
    pub(crate) fn is_closed_to(&self, line: &Line) -> bool {
        let innermost = line.within.rsplit(" > ").next().unwrap_or_default();
        if innermost.contains("trait ") {
            return line.text.ends_with(';');
        }
        let is_known = self.lines.iter().any(|other| other.within == line.within);
        is_known && !line.within.starts_with("impl") && !line.within.is_empty() && !self.open.contains(&line.within)
    }

    /// Whether a trait that was derived is implemented by hand, which no program notices.
    pub(crate) fn implements(&self, line: &Line) -> bool {
        let Some(derived) = line.text.strip_prefix("derives ") else { return false };
        let name = derived.rsplit("::").next().unwrap_or_default();
        self.lines.iter().any(|line| {
            let of = line.text.strip_prefix("impl ").and_then(|rest| rest.split_once(" for "));
            line.within.is_empty() && of.is_some_and(|(of, _)| of.rsplit("::").next() == Some(name))
        })
    }

    /// Whether a program could list all of its variants or fields, and can no longer.
    pub(crate) fn is_opened_by(&self, now: &Self) -> bool {
        let mut opened = now.open.difference(&self.open);
        opened.any(|block| self.lines.iter().any(|line| line.within == *block))
    }
}

/// Reads an interface in the form of `docs/api.txt`.
pub(crate) fn items(text: &str) -> Items {
    let mut items = Items::new();
    let lines = text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with("//"));
    let mut reader = Reader::default();
    let mut heading = String::new();
    for line in lines {
        if let Some(next) = line.strip_prefix("# ") {
            items.insert(std::mem::replace(&mut heading, next.to_owned()), std::mem::take(&mut reader).listed);
        } else if heading.starts_with("what ") {
            // What a macro makes is compared as it is written.
            reader.add(line.trim().to_owned());
        } else {
            reader.read(line.trim());
        }
    }
    items.insert(heading, reader.listed);
    items.remove("");
    items
}

#[derive(Default)]
struct Reader {
    listed: Listed,
    within: Vec<String>,
    /// The part of a line that is read.
    begun: String,
    is_non_exhaustive: bool,
}

impl Reader {
    fn read(&mut self, part: &str) {
        if self.begun.is_empty() {
            if let Some(names) = part.strip_prefix("#[derive(").and_then(|rest| rest.strip_suffix(")]")) {
                return names.split(", ").for_each(|name| self.add(format!("derives {name}")));
            }
            if part.starts_with("#[") {
                self.is_non_exhaustive |= part == "#[non_exhaustive]";
                return;
            }
            if part == "}" || part == "}," {
                self.within.pop();
                return;
            }
            if part == "private: _," {
                self.listed.open.insert(self.within.join(" > "));
                return;
            }
        } else if !self.begun.ends_with(['(', '<']) && !part.starts_with([')', '>']) {
            self.begun.push(' ');
        }
        // The last comma of a list in several lines.
        if part.starts_with([')', '>']) && self.begun.ends_with(',') {
            self.begun.pop();
        }
        self.begun.push_str(part);
        if self.is_whole() {
            self.end();
        }
    }

    fn is_whole(&self) -> bool {
        let text = self.begun.replace("->", "").replace("=>", "");
        let of = |signs: [char; 3]| text.chars().filter(|sign| signs.contains(sign)).count();
        if of(['(', '[', '<']) != of([')', ']', '>']) {
            return false;
        }
        // Conditions of generic types stand in lines with commas as well.
        let has_conditions =
            self.begun.contains("fn ") || self.begun.contains(" where") || self.begun.starts_with("impl");
        self.begun.ends_with([';', '{', '}']) || (self.begun.ends_with(',') && !has_conditions)
    }

    fn end(&mut self) {
        let begun = std::mem::take(&mut self.begun);
        let is_non_exhaustive = std::mem::take(&mut self.is_non_exhaustive);
        let Some(block) = begun.strip_suffix('{') else { return self.add(begun) };
        self.add(block.trim().to_owned());
        self.within.push(block.trim().to_owned());
        if is_non_exhaustive {
            self.listed.open.insert(self.within.join(" > "));
        }
    }

    fn add(&mut self, text: String) {
        // Whether a parameter is changed within is no part of a signature.
        let text = text.replace("(mut ", "(").replace(", mut ", ", ");
        self.listed.lines.insert(Line { within: self.within.join(" > "), text });
    }
}
