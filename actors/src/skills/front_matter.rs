//! Parses one `SKILL.md`: YAML front matter, the text after it, and errors.
//!
//! The front matter is the block between two lines `---`, the first of which begins the file. It is at most 64 KiB.
//! Values with a colon and a space are invalid YAML but common in descriptions: such front matter is parsed again
//! with quotes around `name` and `description`.

use bob_messages::skills::{FrontMatter, Skill, SkillFinding};
use serde::Deserialize;
use serde::de::{SeqAccess, Visitor};
use std::collections::BTreeMap;
use std::fmt;

/// How large the head may be, in bytes.
const MAX_HEAD_BYTES: usize = 64 * 1024;

const MAX_NAME: usize = 64;
const MAX_DESCRIPTION: usize = 1_024;
const MAX_COMPATIBILITY: usize = 500;
/// Limit of the tool list, in bytes: it is compared with each tool's name.
const MAX_TOOLS_BYTES: usize = 4 * 1024;

const KEYS: [&str; 6] = ["name", "description", "license", "compatibility", "metadata", "allowed-tools"];

/// A parsed file with its findings. There is no skill if a finding is an error.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) skill: Option<Skill>,
    pub(super) findings: Vec<SkillFinding>,
}

/// Reads the text of a `SKILL.md`; `path` is the file's and `folder` that of its folder,
/// `folder_name` the last part of it.
pub(super) fn read(text: &str, path: &str, folder: &str, folder_name: &str) -> Read {
    let mut notes = Notes { path, findings: Vec::new() };
    let skill = skill(text, folder, folder_name, &mut notes);
    Read { skill, findings: notes.findings }
}

struct Notes<'p> {
    path: &'p str,
    findings: Vec<SkillFinding>,
}

impl Notes<'_> {
    fn broken(&mut self, (line, column): (u32, u32), message: impl Into<String>) {
        self.note(line, column, true, message.into());
    }

    fn doubtful(&mut self, (line, column): (u32, u32), message: impl Into<String>) {
        self.note(line, column, false, message.into());
    }

    fn note(&mut self, line: u32, column: u32, is_broken: bool, message: String) {
        self.findings.push(SkillFinding { path: self.path.to_owned(), line, column, is_broken, message });
    }

    fn is_broken(&self) -> bool {
        self.findings.iter().any(|finding| finding.is_broken)
    }
}

fn skill(text: &str, folder: &str, folder_name: &str, notes: &mut Notes<'_>) -> Option<Skill> {
    let hash = blake3::hash(text.as_bytes()).to_hex().to_string();
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let (head, body) = split(text).map_err(|(place, why)| notes.broken(place, why)).ok()?;
    if head.len() > MAX_HEAD_BYTES {
        notes.broken((1, 1), format!("the head is larger than {MAX_HEAD_BYTES} bytes; move what is long below it"));
        return None;
    }
    let written = parse(head).map_err(|(place, why)| notes.broken(place, why)).ok()?;
    let places = places(head);
    let at = |key: &str| places.get(key).copied().unwrap_or((1, 1));
    for (key, place) in places.iter().filter(|(key, _)| !KEYS.contains(&key.as_str())) {
        let known = KEYS.join(", ");
        notes.doubtful(
            *place,
            format!("the key `{key}` is not of the specification ({known}) and ignored; write it under `metadata`"),
        );
    }
    let front = checked(written, folder_name, at, notes);
    if body.trim().is_empty() {
        notes.doubtful((1, 1), "there is no text after the front matter; the model only gets the description");
    }
    (!notes.is_broken()).then(|| Skill::new(front, body.trim().to_owned(), folder.to_owned(), hash))
}

type Fault = ((u32, u32), String);

fn split(text: &str) -> Result<(&str, &str), Fault> {
    let mut lines = text.split_inclusive('\n');
    let first = lines.next().unwrap_or_default();
    if first.trim_end() != "---" {
        return Err(((1, 1), "the file must begin with a line `---` and the skill's name and description".to_owned()));
    }
    let mut end = first.len();
    for line in lines {
        if line.trim_end() == "---" {
            return Ok((&text[first.len()..end], &text[end + line.len()..]));
        }
        end += line.len();
    }
    Err(((1, 1), "the head has no end; close it with a line `---`".to_owned()))
}

#[derive(Debug, Default, Deserialize)]
struct Written {
    name: Option<String>,
    description: Option<String>,
    license: Option<String>,
    compatibility: Option<String>,
    #[serde(default)]
    metadata: Option<BTreeMap<String, String>>,
    #[serde(default, rename = "allowed-tools")]
    allowed_tools: Option<Tools>,
}

fn parse(head: &str) -> Result<Written, Fault> {
    if head.trim().is_empty() {
        return Ok(Written::default());
    }
    let first = match serde_saphyr::from_str::<Written>(head) {
        Ok(written) => return Ok(written),
        Err(error) => error,
    };
    serde_saphyr::from_str(&quoted(head)).map_err(|_still_wrong| {
        // The head begins on the second line of the file.
        let place = first.location().map_or((1, 1), |at| (line_of(at.line() + 1), line_of(at.column())));
        let said = first.without_snippet().to_string();
        let said = said.lines().next().unwrap_or_default();
        // The position is reported separately, and parser options do not concern the user.
        let said = said.split(" at line ").next().unwrap_or(said);
        let said = said.split(", set ").next().unwrap_or(said);
        (place, format!("invalid front matter: {said}"))
    })
}

fn line_of(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// The front matter with quotes around plain one-line values.
fn quoted(head: &str) -> String {
    let mut quoted = String::with_capacity(head.len() + 16);
    for line in head.split_inclusive('\n') {
        let value = ["name:", "description:"].iter().find_map(|key| Some((*key, line.strip_prefix(key)?.trim())));
        match value.filter(|(_, value)| !value.is_empty() && !value.starts_with(['"', '\'', '|', '>', '&', '*', '!'])) {
            Some((key, value)) => {
                quoted.push_str(&format!("{key} {}\n", serde_json::Value::from(value)));
            }
            None => quoted.push_str(line),
        }
    }
    quoted
}

/// Where the keys of the head are in the file: line and column from 1.
fn places(head: &str) -> BTreeMap<String, (u32, u32)> {
    let key = |(line, text): (u32, &str)| {
        let (key, _) = text.split_once(':')?;
        let is_key =
            !key.is_empty() && key.chars().all(|letter| letter.is_alphanumeric() || matches!(letter, '-' | '_'));
        is_key.then(|| (key.to_owned(), (line, 1)))
    };
    (2..).zip(head.lines()).filter_map(key).collect()
}

fn checked(written: Written, folder_name: &str, at: impl Fn(&str) -> (u32, u32), notes: &mut Notes<'_>) -> FrontMatter {
    let name = written.name.unwrap_or_default();
    if name.is_empty() {
        notes.broken(at("name"), "`name` is missing; write the name of the skill's folder");
    } else if let Some(why) = name_fault(&name) {
        notes.broken(at("name"), format!("`name` {why}"));
    } else if name != folder_name {
        notes.broken(at("name"), format!("`name` is {name:?} and the folder {folder_name:?}; they must be the same"));
    }
    let description = written.description.unwrap_or_default().trim().to_owned();
    if description.is_empty() {
        notes.broken(at("description"), "`description` is missing; say what the skill does and when to use it");
    }
    let mut too_long = |key: &str, text: &str, most: usize| {
        let long = text.chars().count();
        if long > most {
            notes.broken(at(key), format!("`{key}` has {long} characters; at most {most} are allowed"));
        }
    };
    too_long("description", &description, MAX_DESCRIPTION);
    too_long("compatibility", written.compatibility.as_deref().unwrap_or_default(), MAX_COMPATIBILITY);
    let allowed_tools = written.allowed_tools.map(|Tools(tools)| tools);
    if allowed_tools.iter().flatten().map(String::len).sum::<usize>() > MAX_TOOLS_BYTES {
        notes.broken(
            at("allowed-tools"),
            format!("`allowed-tools` is longer than {MAX_TOOLS_BYTES} bytes; use patterns"),
        );
    }
    for tool in allowed_tools.iter().flatten().filter(|tool| !is_of_this_runtime(tool)) {
        notes.doubtful(
            at("allowed-tools"),
            format!(
                "{tool:?} names no tool here; names are local/NAME, mcp/SERVER/NAME or agent/ID, `*` stands for a part"
            ),
        );
    }
    FrontMatter {
        name,
        description,
        license: written.license,
        compatibility: written.compatibility.filter(|text| !text.trim().is_empty()),
        metadata: written.metadata.unwrap_or_default(),
        allowed_tools: allowed_tools.map(Into::into),
    }
}

fn name_fault(name: &str) -> Option<String> {
    let is_fine = |letter: char| letter == '-' || (letter.is_alphanumeric() && !letter.is_uppercase());
    if name.chars().count() > MAX_NAME {
        Some(format!("has more than {MAX_NAME} characters"))
    } else if !name.chars().all(is_fine) {
        Some(format!("{name:?} may have lower case letters, digits and hyphens only"))
    } else if name.starts_with('-') || name.ends_with('-') || name.contains("--") {
        Some(format!("{name:?} may not begin or end with a hyphen, nor have two in a row"))
    } else {
        None
    }
}

fn is_of_this_runtime(tool: &str) -> bool {
    tool.starts_with('*')
        || ["local/", "mcp/", "agent/"].iter().any(|space| tool.starts_with(space))
        || (tool.contains('/') && !tool.contains('('))
}

/// The list of tools: names between spaces, or a list of names.
#[derive(Debug)]
struct Tools(Vec<String>);

impl<'de> Deserialize<'de> for Tools {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Names;
        impl<'de> Visitor<'de> for Names {
            type Value = Tools;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("names of tools between spaces, or a list of them")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Tools, E> {
                Ok(Tools(spaced(text)))
            }

            fn visit_unit<E: serde::de::Error>(self) -> Result<Tools, E> {
                Ok(Tools(Vec::new()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut names: A) -> Result<Tools, A::Error> {
                let mut tools = Vec::new();
                while let Some(name) = names.next_element::<String>()? {
                    tools.push(name);
                }
                Ok(Tools(tools))
            }
        }
        deserializer.deserialize_any(Names)
    }
}

/// The names in a text; spaces and commas part them, but not inside parentheses.
fn spaced(text: &str) -> Vec<String> {
    let mut depth = 0_usize;
    let parts = text.split(move |letter: char| {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && (letter.is_whitespace() || letter == ',')
    });
    parts.filter(|name| !name.is_empty()).map(str::to_owned).collect()
}
