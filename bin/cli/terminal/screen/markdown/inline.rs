//! Inline text with styles, wrapped into lines on which all styles end.

use anstyle::{AnsiColor, Style};
use bob_config::sanitise;

use super::super::look::Look;

pub(super) struct Inline {
    look: Look,
    text: String,
    styles: Vec<Style>,
    /// Where each open link leads, and where its text began.
    links: Vec<(String, usize)>,
}

impl Inline {
    pub(super) fn new(look: Look) -> Self {
        Self { look, text: String::new(), styles: Vec::new(), links: Vec::new() }
    }

    pub(super) fn begin(&mut self, style: Style) {
        self.styles.push(style);
    }

    /// The style that began last ends.
    pub(super) fn end(&mut self) {
        self.styles.pop();
    }

    pub(super) fn begin_link(&mut self, to: &str) {
        self.links.push((to.to_owned(), self.text.len()));
        self.begin(Style::new().underline());
    }

    /// Ends a link, followed by its target, since the text of a link may mislead.
    pub(super) fn end_link(&mut self) {
        self.end();
        let Some((to, began)) = self.links.pop() else { return };
        let says_so = self.text.get(began..).is_some_and(|text| text.contains(&to));
        if !says_so {
            self.text(&format!(" ({to})"));
        }
    }

    pub(super) fn text(&mut self, words: &str) {
        let style = self.styles.iter().fold(Style::new(), over);
        self.styled(words, style);
    }

    /// Adds code; without colours, with its backticks.
    pub(super) fn code(&mut self, words: &str) {
        match self.look.colour {
            true => {
                let style = over(self.styles.iter().fold(Style::new(), over), &self.look.coloured(AnsiColor::Green));
                self.styled(words, style);
            }
            false => self.text(&format!("`{words}`")),
        }
    }

    /// Everything collected; nothing is left but the styles that hold.
    pub(super) fn take(&mut self) -> String {
        self.links.iter_mut().for_each(|(_, began)| *began = 0);
        std::mem::take(&mut self.text)
    }

    /// Character references such as `&#27;` were not decoded when the answer was sanitised.
    fn styled(&mut self, words: &str, style: Style) {
        let words = without_tabs(&sanitise::clean(words));
        self.text.push_str(&format!("{style}{words}{style:#}"));
    }
}

fn over(below: Style, above: &Style) -> Style {
    below.effects(below.get_effects() | above.get_effects()).fg_color(above.get_fg_color().or(below.get_fg_color()))
}

/// A tab goes to where the terminal has one, which is not where a wrapped line wants it.
pub(super) fn without_tabs(words: &str) -> String {
    words.replace('\t', "    ")
}

/// Wraps a text. A style that spans lines is ended and restarted at each line break.
pub(super) fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let options = textwrap::Options::new(columns).break_words(true);
    let lines = text.split('\n').flat_map(|line| textwrap::wrap(line, options.clone()));
    let mut open = String::new();
    let closed = lines.map(|line| {
        let begun = format!("{open}{line}");
        let mut rest = line.as_ref();
        while let Some(at) = rest.find('\u{1b}') {
            let end = rest[at..].find('m').map_or(rest.len(), |end| at + end + 1);
            match &rest[at..end] {
                "\u{1b}[0m" => open.clear(),
                sequence => open.push_str(sequence),
            }
            rest = &rest[end..];
        }
        if open.is_empty() { begun } else { format!("{begun}\u{1b}[0m") }
    });
    closed.collect()
}
