//! The listing entry of a session, maintained as records are written, so that listings read no journal.

use crate::Millis;
use crate::chat::ContentPart;
use crate::ids::{PoolName, SessionId, TenantId};
use crate::options::SessionOptions;
use crate::outcome::SuspendReason;
use crate::store::{Fact, Record};
use serde::{Deserialize, Serialize};

/// How many characters a title has at most.
const TITLE: usize = 72;

/// How many bytes of a message are looked at for a title.
const LOOKED_AT: usize = 4_096;

/// A session at a glance: its title, its state, how many turns it had.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Glance {
    /// The title it was given last, else the beginning of its first message with text: one line without control
    /// characters.
    pub title: Option<Box<str>>,
    /// Its state, as far as the journal shows.
    pub state: SessionState,
    /// How many turns have ended.
    pub turns: u64,
    /// The session it works for.
    pub parent: Option<SessionId>,
    /// The tenant it belongs to.
    #[serde(default)]
    pub tenant: Option<TenantId>,
    /// Its working folder, if it was given one.
    #[serde(default)]
    pub cwd: Option<Box<str>>,
    /// When its first record was made; `None` where that was not looked at.
    #[serde(default)]
    pub created_at: Option<Millis>,
    /// The pool of machines to which it is bound.
    #[serde(default)]
    pub pool: Option<PoolName>,
}

/// The state of a session, as far as the journal shows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionState {
    /// Nothing.
    #[default]
    Idle,
    /// A turn has begun and not ended: it is running, or its process has ended.
    Running,
    /// A turn waits for the answer to a question.
    Question,
    /// A turn waits for a decision about a call.
    Approval,
    /// A turn waits for something outside.
    Waiting,
}

impl SessionState {
    /// The name of the state in stores and lists.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Running => "running",
            Self::Question => "question",
            Self::Approval => "approval",
            Self::Waiting => "waiting",
        }
    }

    /// Parses the name of a state.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Idle, Self::Running, Self::Question, Self::Approval, Self::Waiting]
            .into_iter()
            .find(|state| state.as_str() == word)
    }

    /// The state after this record; `None` if unchanged.
    pub fn told_by(fact: &Fact) -> Option<Self> {
        match fact {
            Fact::Outcome(ended) => Some(match ended.suspended.as_ref().map(|suspended| suspended.reason) {
                None => Self::Idle,
                Some(SuspendReason::AskUser) => Self::Question,
                Some(SuspendReason::ApprovalRequired) => Self::Approval,
                Some(SuspendReason::ExternalWait) => Self::Waiting,
            }),
            Fact::Started { .. }
            | Fact::Resumed { .. }
            | Fact::Answered(_)
            | Fact::Malformed { .. }
            | Fact::Intent { .. }
            | Fact::ApprovalAsked { .. }
            | Fact::ApprovalDecided { .. }
            | Fact::LimitAsked { .. }
            | Fact::LimitDecided { .. }
            | Fact::Result(_)
            | Fact::Steered { .. }
            | Fact::SkillsSelected(_)
            | Fact::SkillsReselected(_)
            | Fact::Waits { .. } => Some(Self::Running),
            Fact::Options(_)
            | Fact::Configured { .. }
            | Fact::Input(_)
            | Fact::Withdrawn
            | Fact::Condensed(_)
            | Fact::Snapshot(_) => None,
        }
    }
}

impl Glance {
    /// Takes one more record in.
    pub fn note(&mut self, record: &Record) {
        if let Some(state) = SessionState::told_by(&record.fact) {
            self.state = state;
        }
        if self.tenant.is_none() {
            self.tenant = record.fact.tenant().cloned();
        }
        if record.version == 1 {
            self.created_at = Some(record.at);
        }
        if let Some(options) = Self::options_told_by(&record.fact) {
            self.parent = options.parent.as_ref().map(|parent| parent.session.clone());
            self.cwd = options.cwd.as_deref().map(Into::into);
            if let Some(title) = options.title.as_deref().and_then(first_words) {
                self.title = Some(title);
            }
        }
        if let Some(options) = Self::options_set_by(&record.fact) {
            self.pool = options.pool.clone();
        }
        match &record.fact {
            Fact::Input(input) if self.title.is_none() => self.title = title(&input.parts),
            Fact::Outcome(ended) if ended.suspended.is_none() => self.turns += 1,
            _ => {}
        }
    }

    /// The session's options, if this record sets them, also for a later turn.
    pub fn options_told_by(fact: &Fact) -> Option<&SessionOptions> {
        match fact {
            Fact::Input(input) => input.options.as_deref(),
            fact => Self::options_set_by(fact),
        }
    }

    /// The session's options, if this is a record of them: one that binds it to a pool, or to none.
    pub(crate) fn options_set_by(fact: &Fact) -> Option<&SessionOptions> {
        match fact {
            Fact::Options(options) | Fact::Configured { options, .. } => Some(options),
            _of_something_else => None,
        }
    }
}

/// The title from a message: one line of limited length.
pub fn title(parts: &[ContentPart]) -> Option<Box<str>> {
    parts.iter().find_map(|part| match part {
        ContentPart::Text { text } => first_words(text),
        ContentPart::Artifact(artifact) => first_words(&artifact.head),
        ContentPart::Image { .. }
        | ContentPart::Audio { .. }
        | ContentPart::Resource { .. }
        | ContentPart::ResourceLink { .. } => None,
    })
}

fn first_words(text: &str) -> Option<Box<str>> {
    if is_clean_line(text) {
        return Some(text.into());
    }
    let text = &text[..text.floor_char_boundary(LOOKED_AT)];
    let mut line = String::new();
    let mut is_cut = false;
    for word in text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()) {
        let word: String = word.chars().filter(|c| !is_unseen(*c)).collect();
        let room = TITLE.saturating_sub(line.chars().count() + usize::from(!line.is_empty()));
        if word.is_empty() {
            continue;
        }
        if word.chars().count() > room {
            is_cut = true;
            if line.is_empty() {
                line.extend(word.chars().take(TITLE));
            }
            break;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(&word);
    }
    if is_cut {
        line.push('…');
    }
    (!line.is_empty()).then(|| line.into_boxed_str())
}

/// Whether a text is short and is its own first words: of most it is so, and each session has one.
fn is_clean_line(text: &str) -> bool {
    let is_plain = |bytes: &[u8]| bytes.iter().all(|byte| matches!(byte, b' '..=b'~'));
    let has_gap = || text.as_bytes().windows(2).any(|two| two == b"  ");
    let is_trimmed = !text.is_empty() && !text.starts_with(' ') && !text.ends_with(' ');
    text.len() <= TITLE && is_trimmed && is_plain(text.as_bytes()) && !has_gap()
}

/// Characters that show nothing and change how others are shown.
fn is_unseen(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Option<String> {
        title(&[ContentPart::text(text)]).map(Into::into)
    }

    #[test]
    fn a_title_is_the_first_words_in_one_clean_line() {
        assert_eq!(of("  Fix the\n\tbuild \u{1b}[31mnow\u{7}  ").as_deref(), Some("Fix the build [31mnow"));
        assert_eq!(of("a\u{202e}b \u{200b} c").as_deref(), Some("ab c"));
        assert_eq!(of(" \n\u{200b} "), None);
        for plain in ["Fix it", " Fix it", "Fix it ", "Fix  it", "Fix\u{7f}it", "Fix\tit"] {
            assert_eq!(of(plain).as_deref(), Some("Fix it"), "{plain:?}");
        }
        assert_eq!((of(""), of(" ")), (None, None));
        let long = of(&"word ".repeat(100)).unwrap();
        assert!(long.ends_with("word…") && long.chars().count() <= TITLE + 1, "{long}");
        let one = of(&"x".repeat(10_000)).unwrap();
        assert_eq!(one.chars().count(), TITLE + 1);
        assert_eq!(of(&"ä".repeat(5_000)).unwrap().chars().count(), TITLE + 1, "cut between characters");
        let image = ContentPart::Image { mime_type: "image/png".into(), data: "AA".into() };
        assert_eq!(title(&[image, ContentPart::text("what is this?")]).as_deref(), Some("what is this?"));
    }

    #[test]
    fn a_title_that_was_given_replaces_the_first_words_and_the_other_way_round_never() {
        let record = |version, fact| Record {
            format: crate::store::FORMAT,
            id: crate::ids::RecordId::numbered(1, version),
            session: SessionId::parse("s").unwrap(),
            version,
            epoch: 1,
            turn: None,
            at: 1,
            fact,
        };
        let named = |title: &str| {
            let options = SessionOptions { title: Some(title.into()), ..SessionOptions::default() };
            Fact::Configured { request_id: crate::ids::RequestId::new("r"), options: options.into(), notice: None }
        };
        let mut glance = Glance::default();
        glance.note(&record(1, named(" A \n name ")));
        assert_eq!(glance.title.as_deref(), Some("A name"));
        glance.note(&record(2, Fact::Options(SessionOptions::default().into())));
        assert_eq!(glance.title.as_deref(), Some("A name"), "options without a title take none away");
        glance.note(&record(3, named("Another")));
        assert_eq!(glance.title.as_deref(), Some("Another"));
    }

    #[test]
    fn every_state_has_its_word() {
        for word in ["idle", "running", "question", "approval", "waiting"] {
            assert_eq!(SessionState::parse(word).map(SessionState::as_str), Some(word));
        }
        assert_eq!(SessionState::parse("busy"), None);
    }
}
