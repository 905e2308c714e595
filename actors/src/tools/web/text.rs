//! A page of HTML as text: what a person reads of it, with addresses behind the words of links.
//!
//! No parser of HTML: tags are taken out and what they part is put on lines. It never fails, and takes time in
//! proportion to the page.

/// Elements of which nothing is read.
const UNREAD: [&str; 7] = ["script", "style", "noscript", "template", "svg", "iframe", "head"];

/// Elements that begin and end a line.
const BLOCKS: [&str; 34] = [
    "address",
    "article",
    "aside",
    "blockquote",
    "br",
    "dd",
    "details",
    "div",
    "dl",
    "dt",
    "fieldset",
    "figcaption",
    "figure",
    "footer",
    "form",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "header",
    "hr",
    "li",
    "main",
    "nav",
    "ol",
    "p",
    "pre",
    "section",
    "summary",
    "table",
    "tr",
    "ul",
];

/// As much of a tag as its quotes are looked at, in bytes.
const MOST_TAG_BYTES: usize = 16 * 1024;

/// The text of a page, its title first.
pub(super) fn of_page(page: &str) -> String {
    let mut reader = Reader::default();
    if let Some(title) = between(page, "<title", "</title") {
        reader.words(title.split_once('>').map_or("", |(_, title)| title));
        reader.line();
    }
    let mut rest = page;
    while let Some(at) = rest.find('<') {
        reader.words(&rest[..at]);
        rest = &rest[at..];
        if let Some(comment) = rest.strip_prefix("<!--") {
            rest = comment.find("-->").map_or("", |end| &comment[end + 3..]);
            continue;
        }
        if !rest[1..].starts_with(|first: char| first.is_ascii_alphabetic() || matches!(first, '/' | '!' | '?')) {
            reader.words("<");
            rest = &rest[1..];
            continue;
        }
        let Some(end) = end_of_tag(rest) else {
            reader.words(rest);
            return reader.end();
        };
        let tag = &rest[1..end];
        rest = &rest[end + 1..];
        let name: String = tag.trim_start_matches('/').chars().take_while(char::is_ascii_alphanumeric).collect();
        let name = name.to_ascii_lowercase();
        let is_end = tag.starts_with('/');
        if UNREAD.contains(&name.as_str()) && !is_end && !tag.ends_with('/') {
            rest = find_end(rest, &name).map_or("", |at| &rest[at..]);
        } else {
            reader.tag(&name, tag, is_end);
        }
    }
    reader.words(rest);
    reader.end()
}

#[derive(Default)]
struct Reader {
    text: String,
    /// A blank is due before the next word.
    is_apart: bool,
    in_pre: bool,
    link: Option<String>,
}

impl Reader {
    fn words(&mut self, raw: &str) {
        let text = unescaped(raw);
        if self.in_pre {
            self.text.push_str(&text);
            return;
        }
        if text.starts_with(char::is_whitespace) {
            self.is_apart = true;
        }
        for (number, word) in text.split_whitespace().enumerate() {
            if (number > 0 || self.is_apart) && !self.text.is_empty() && !self.text.ends_with(['\n', ' ']) {
                self.text.push(' ');
            }
            self.text.push_str(word);
            self.is_apart = false;
        }
        self.is_apart |= text.ends_with(char::is_whitespace);
    }

    fn tag(&mut self, name: &str, tag: &str, is_end: bool) {
        match name {
            "a" if is_end => {
                if let Some(to) = self.link.take() {
                    self.text.push_str(&format!(" ({to})"));
                }
            }
            "a" => {
                let to = attribute(tag, "href").map(unescaped);
                self.link = to.filter(|to| !to.is_empty() && !to.starts_with(['#']) && !to.starts_with("javascript:"));
            }
            "img" => {
                if let Some(alt) = attribute(tag, "alt").filter(|alt| !alt.trim().is_empty()) {
                    self.words(&format!(" [{alt}] "));
                }
            }
            "td" | "th" if is_end => self.text.push('\t'),
            _ if BLOCKS.contains(&name) => {
                self.line();
                if name == "pre" {
                    self.in_pre = !is_end;
                }
                match name {
                    "li" if !is_end => self.text.push_str("- "),
                    "p" | "table" | "ul" | "ol" | "pre" => self.blank_line(),
                    _ if name.starts_with('h') && name.len() == 2 && !is_end && name != "hr" => {
                        let depth = name[1..].parse().unwrap_or(1);
                        self.blank_line();
                        self.text.push_str(&"#".repeat(depth));
                        self.text.push(' ');
                    }
                    _ => {}
                }
            }
            _ => {}
        }
    }

    fn line(&mut self) {
        self.text.truncate(self.text.trim_end_matches([' ', '\t']).len());
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            self.text.push('\n');
        }
        self.is_apart = false;
    }

    fn blank_line(&mut self) {
        self.line();
        if !self.text.is_empty() && !self.text.ends_with("\n\n") {
            self.text.push('\n');
        }
    }

    fn end(self) -> String {
        self.text.trim().to_owned()
    }
}

/// The text between two marks, of any letter case.
fn between<'p>(page: &'p str, start: &str, end: &str) -> Option<&'p str> {
    let from = position(page, start)? + start.len();
    let to = position(&page[from..], end)?;
    page.get(from..from + to)
}

fn find_end(rest: &str, name: &str) -> Option<usize> {
    position(rest, &format!("</{name}"))
}

/// Where a mark is, of any letter case; the mark is ASCII.
fn position(text: &str, mark: &str) -> Option<usize> {
    text.as_bytes().windows(mark.len()).position(|part| part.eq_ignore_ascii_case(mark.as_bytes()))
}

/// Where the tag ends that begins here: a `>` in quotes is none.
fn end_of_tag(rest: &str) -> Option<usize> {
    let mut quote = None;
    for (at, byte) in rest.bytes().take(MOST_TAG_BYTES).enumerate() {
        match (quote, byte) {
            (None, b'>') => return Some(at),
            (None, b'"' | b'\'') => quote = Some(byte),
            (Some(open), byte) if open == byte => quote = None,
            _ => {}
        }
    }
    // A quote without an end, or a very long tag.
    rest.find('>')
}

fn attribute<'t>(tag: &'t str, name: &str) -> Option<&'t str> {
    let at = position(tag, &format!(" {name}="))? + name.len() + 2;
    let value = &tag[at..];
    match value.chars().next()? {
        quote @ ('"' | '\'') => value[1..].split(quote).next(),
        _ => value.split(|c: char| c.is_whitespace() || c == '>').next(),
    }
}

/// The characters that a text names.
fn unescaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        plain.push_str(&rest[..at]);
        rest = &rest[at..];
        let end = rest.bytes().take(12).position(|byte| byte == b';');
        match end.and_then(|end| Some((character(&rest[1..end])?, end))) {
            Some((character, end)) => {
                plain.push(character);
                rest = &rest[end + 1..];
            }
            None => {
                plain.push('&');
                rest = &rest[1..];
            }
        }
    }
    plain.push_str(rest);
    plain
}

fn character(name: &str) -> Option<char> {
    if let Some(number) = name.strip_prefix('#') {
        let code = match number.strip_prefix(['x', 'X']) {
            Some(hex) => u32::from_str_radix(hex, 16),
            None => number.parse(),
        };
        return char::from_u32(code.ok()?).filter(|c| !c.is_control() || c.is_whitespace());
    }
    Some(match name {
        "amp" => '&',
        "lt" => '<',
        "gt" => '>',
        "quot" => '"',
        "apos" => '\'',
        "nbsp" => ' ',
        "ndash" => '–',
        "mdash" => '—',
        "hellip" => '…',
        "lsquo" => '‘',
        "rsquo" => '’',
        "ldquo" => '“',
        "rdquo" => '”',
        "copy" => '©',
        "reg" => '®',
        "trade" => '™',
        "middot" => '·',
        "bull" => '•',
        "times" => '×',
        "rarr" => '→',
        "larr" => '←',
        "auml" => 'ä',
        "ouml" => 'ö',
        "uuml" => 'ü',
        "szlig" => 'ß',
        "eacute" => 'é',
        "egrave" => 'è',
        "euro" => '€',
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_read_as_a_person_reads_it() {
        let page = "<!DOCTYPE html><html><head><TITLE>The &amp; page</TITLE><style>p { color: red }</style></head><body>\
            <!-- <p>no</p> --><h2>Head\n ing</h2><p>One <b>two</b>,<i>three</i> &lt;4&gt; &#8364; &nope; <script>if (a<b) {}</script>\
            five.</p><ul><li><a href='https://x.y/?a=1&amp;b=2'>link</a></li><li>two<br/>three</ul>\
            <pre>a  b\n  c</pre><table><tr><td>1</td><td>2</td></tr></table><img src=x alt=\"a > b\">a < b</body>";
        let text = of_page(page);
        let expected = "The & page\n\n## Head ing\n\nOne two,three <4> € &nope; five.\n\n- link (https://x.y/?a=1&b=2)\n- two\nthree\n\na  b\n  c\n\n1\t2\n\n[a > b] a < b";
        assert_eq!(text, expected);
    }

    #[test]
    fn fuzz_any_text_is_read_and_none_takes_long() {
        bolero::check!(name = "pages").with_iterations(500).with_max_len(200).for_each(|input: &[u8]| {
            of_page(&String::from_utf8_lossy(input));
            let words =
                ["<", ">", "a", "</", "pre", "script", " ", "\"", "'", "&", ";", "#x", "é", "<!--", "-->", "href="];
            let page: String = input.iter().map(|byte| words[usize::from(*byte) % words.len()]).collect();
            of_page(&page);
        });
        assert_eq!(of_page(&"<".repeat(200_000)).len(), 200_000);
    }
}
