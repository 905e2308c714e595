//! Renders a finished part of Markdown as lines of a terminal.
//!
//! The text is sanitised already and is sanitised again after decoding of character references: the only escape
//! sequences in the result are styles added here, each of which ends on its line. No line is wider than the terminal,
//! except for code.

mod inline;
mod table;

use anstyle::{AnsiColor, Style};
use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag, TagEnd};
use unicode_width::UnicodeWidthStr;

use super::look::Look;
use inline::Inline;
use table::Table;

/// Quotes and lists within each other are indented up to this depth.
const MOST_DEPTH: usize = 6;

/// Running text gets at least this many columns, at any indentation.
const LEAST_COLUMNS: usize = 8;

const OPTIONS: Options = Options::ENABLE_TABLES.union(Options::ENABLE_STRIKETHROUGH).union(Options::ENABLE_TASKLISTS);

/// Returns the start of the last block of a growing text; the text before it is finished. An incomplete last line is
/// ignored, since its meaning may still change.
pub(super) fn last_block(text: &str) -> usize {
    let text = &text[..text.rfind('\n').map_or(0, |at| at + 1)];
    let mut depth = 0_usize;
    let mut last = 0;
    // Whether a blank line is the end of the last block.
    let mut ends_with_blank = false;
    for (event, range) in Parser::new_ext(text, OPTIONS).into_offset_iter() {
        match event {
            Event::Start(tag) => {
                if depth == 0 {
                    last = range.start;
                    ends_with_blank =
                        matches!(tag, Tag::Paragraph | Tag::Heading { .. } | Tag::Table(_) | Tag::BlockQuote(_));
                }
                depth += 1;
            }
            Event::End(_) => depth = depth.saturating_sub(1),
            Event::Rule if depth == 0 => (last, ends_with_blank) = (range.start, true),
            _inside => {}
        }
    }
    if ends_with_blank && text.ends_with("\n\n") { text.len() } else { last }
}

pub(super) fn print(text: &str, look: Look) -> String {
    let mut printer = Printer {
        look,
        out: String::new(),
        inline: Inline::new(look),
        indents: Vec::new(),
        lists: Vec::new(),
        table: None,
        code: None,
        is_apart: false,
    };
    for event in Parser::new_ext(text, OPTIONS) {
        printer.event(event);
    }
    printer.end_text();
    printer.out
}

struct Indent {
    /// Before its first line, until that is printed.
    first: Option<String>,
    rest: String,
}

struct Printer {
    look: Look,
    out: String,
    inline: Inline,
    indents: Vec<Indent>,
    /// The number of the next item of each list whose items have numbers.
    lists: Vec<Option<u64>>,
    table: Option<Table>,
    code: Option<String>,
    /// Whether an empty line precedes the next block.
    is_apart: bool,
}

impl Printer {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) => match &mut self.code {
                Some(code) => code.push_str(&text),
                None => self.inline.text(&text),
            },
            Event::Code(text) => self.inline.code(&text),
            Event::Html(text)
            | Event::InlineHtml(text)
            | Event::InlineMath(text)
            | Event::DisplayMath(text)
            | Event::FootnoteReference(text) => self.inline.text(&text),
            // Models break lines where they mean it.
            Event::SoftBreak | Event::HardBreak => self.inline.text("\n"),
            Event::TaskListMarker(is_done) => self.inline.text(if is_done { "[x] " } else { "[ ] " }),
            Event::Rule => {
                self.begin();
                let style = self.look.dimmed();
                let rule = "─".repeat(self.columns().min(40));
                self.line(&format!("{style}{rule}{style:#}"));
                self.is_apart = true;
            }
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Heading { level, .. } => {
                self.begin();
                let style = self.look.coloured(AnsiColor::Cyan).bold();
                self.inline.begin(if level == HeadingLevel::H1 { style.underline() } else { style });
            }
            Tag::BlockQuote(_) => {
                self.begin();
                self.indent(None, "│ ".to_owned());
            }
            Tag::CodeBlock(_) => {
                self.begin();
                self.code = Some(String::new());
            }
            Tag::List(first) => {
                self.begin();
                self.lists.push(first);
            }
            Tag::Item => {
                self.begin();
                let marker = match self.lists.last_mut() {
                    Some(Some(number)) => {
                        *number += 1;
                        format!("{}. ", *number - 1)
                    }
                    Some(None) | None => "• ".to_owned(),
                };
                let rest = " ".repeat(marker.width());
                self.indent(Some(marker), rest);
            }
            Tag::Table(_) => {
                self.begin();
                self.table = Some(Table::default());
            }
            Tag::TableHead => self.inline.begin(Style::new().bold()),
            Tag::Emphasis => self.inline.begin(Style::new().italic()),
            Tag::Strong => self.inline.begin(Style::new().bold()),
            Tag::Strikethrough => self.inline.begin(Style::new().strikethrough()),
            Tag::Link { dest_url, .. } => self.inline.begin_link(&dest_url),
            Tag::Image { dest_url, .. } => {
                self.inline.text("[image] ");
                self.inline.begin_link(&dest_url);
            }
            Tag::Paragraph | Tag::HtmlBlock => self.begin(),
            Tag::TableRow
            | Tag::TableCell
            | Tag::FootnoteDefinition(_)
            | Tag::DefinitionList
            | Tag::DefinitionListTitle
            | Tag::DefinitionListDefinition
            | Tag::Superscript
            | Tag::Subscript
            | Tag::MetadataBlock(_) => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph | TagEnd::HtmlBlock => {
                self.end_text();
                self.is_apart = true;
            }
            TagEnd::Heading(_) => {
                self.inline.end();
                self.end_text();
                self.is_apart = true;
            }
            TagEnd::BlockQuote(_) => {
                self.end_text();
                self.indents.pop();
                self.is_apart = true;
            }
            TagEnd::CodeBlock => self.end_code(),
            TagEnd::List(_) => {
                self.lists.pop();
                // A list within a tight list.
                self.is_apart |= self.lists.is_empty();
            }
            TagEnd::Item => {
                self.end_text();
                if self.indents.last().is_some_and(|indent| indent.first.is_some()) {
                    self.line("");
                }
                self.indents.pop();
            }
            TagEnd::TableCell => {
                let cell = self.inline.take();
                self.table.iter_mut().for_each(|table| table.cell(&cell));
            }
            TagEnd::TableHead => {
                self.inline.end();
                self.table.iter_mut().for_each(Table::end_row);
            }
            TagEnd::TableRow => self.table.iter_mut().for_each(Table::end_row),
            TagEnd::Table => {
                for line in self.table.take().unwrap_or_default().lines(self.columns()) {
                    self.line(&line);
                }
                self.is_apart = true;
            }
            TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough => self.inline.end(),
            TagEnd::Link | TagEnd::Image => self.inline.end_link(),
            TagEnd::FootnoteDefinition
            | TagEnd::DefinitionList
            | TagEnd::DefinitionListTitle
            | TagEnd::DefinitionListDefinition
            | TagEnd::Superscript
            | TagEnd::Subscript
            | TagEnd::MetadataBlock(_) => {}
        }
    }

    fn begin(&mut self) {
        self.end_text();
        if std::mem::take(&mut self.is_apart) {
            let before: String = self.indents.iter().map(|indent| indent.rest.as_str()).collect();
            self.out.push_str(before.trim_end());
            self.out.push('\n');
        }
    }

    fn indent(&mut self, first: Option<String>, rest: String) {
        let is_shown = self.indents.len() < MOST_DEPTH;
        let indent = Indent { first, rest };
        self.indents.push(if is_shown { indent } else { Indent { first: None, rest: String::new() } });
    }

    fn columns(&self) -> usize {
        let taken: usize = self.indents.iter().map(|indent| indent.rest.width()).sum();
        self.look.columns.saturating_sub(taken).max(LEAST_COLUMNS)
    }

    /// Prints the collected inline text.
    fn end_text(&mut self) {
        let text = self.inline.take();
        if text.trim().is_empty() {
            return;
        }
        for line in inline::wrapped(text.trim_end_matches('\n'), self.columns()) {
            self.line(&line);
        }
    }

    fn end_code(&mut self) {
        let style = self.look.coloured(AnsiColor::Green);
        let code = self.code.take().unwrap_or_default();
        for line in code.lines() {
            self.line(&format!("  {style}{}{style:#}", inline::without_tabs(line)));
        }
        self.is_apart = true;
    }

    fn line(&mut self, line: &str) {
        for indent in &mut self.indents {
            match indent.first.take() {
                Some(first) => self.out.push_str(&first),
                None => self.out.push_str(&indent.rest),
            }
        }
        self.out.push_str(line);
        self.out.truncate(self.out.trim_end_matches(' ').len());
        self.out.push('\n');
    }
}

#[cfg(test)]
mod markdown_tests;
