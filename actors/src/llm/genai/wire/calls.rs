//! The calls of an answer while their pieces arrive, in the order in which they began.

use super::index::Index;
use super::{Fault, MOST_CALLS};
use foldhash::fast::RandomState;
use std::collections::HashMap;

#[derive(Debug, Default)]
pub(in super::super) struct Begun {
    pub(super) index: Option<Index>,
    pub(super) id: String,
    pub(in super::super) name: String,
    pub(in super::super) arguments: String,
    pub(in super::super) signatures: Vec<String>,
    /// How far its arguments have come, as far as that was asked.
    pub(super) come: Come,
}

/// How far a JSON text has come: each byte is looked at once.
#[derive(Debug, Default)]
pub(super) struct Come {
    /// How many of its bytes were looked at.
    bytes: usize,
    depth: usize,
    is_in_text: bool,
    is_escaped: bool,
    /// Whether all is closed that was opened, and there was something.
    is_whole: bool,
}

impl Come {
    /// Looks at what is new of the text.
    fn look(&mut self, text: &str) {
        for &byte in &text.as_bytes()[self.bytes..] {
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' if self.is_in_text => self.is_escaped = true,
                b'"' => self.is_in_text = !self.is_in_text,
                _ if self.is_in_text => {}
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => self.depth = self.depth.saturating_sub(1),
                _other => {}
            }
            if !byte.is_ascii_whitespace() {
                self.is_whole = self.depth == 0 && !self.is_in_text;
            }
        }
        self.bytes = text.len();
    }
}

/// A piece of a call. What a provider did not say is `None` or empty.
#[derive(Debug)]
pub(super) struct Piece<'a> {
    pub(super) index: Option<Index>,
    pub(super) id: &'a str,
    pub(super) name: &'a str,
    pub(super) arguments: &'a str,
}

#[derive(Debug, Default)]
pub(in super::super) struct Calls {
    begun: Vec<Begun>,
    /// Where the last call with an index or an id is. A list of 256 calls is too long to be gone through for a piece of ten
    /// bytes.
    with_index: HashMap<Index, Numbered, RandomState>,
    with_id: Ids,
    /// The one that last got a piece: a piece that says nothing is more of it, even where a later one has begun.
    last: Option<usize>,
    /// Whether it got that in this frame. What comes in one frame is told apart there: it has no two pieces of one call.
    is_in_frame: bool,
}

/// Where the last call with an id is.
type Ids = HashMap<String, usize, RandomState>;

/// The calls with one index: the last one, and the last one with each id.
#[derive(Debug, Default)]
struct Numbered {
    last: usize,
    with_id: Ids,
}

impl Calls {
    pub(in super::super) fn into_inner(self) -> Vec<Begun> {
        self.begun
    }

    /// Begins a call; its place, by which more of it is added.
    pub(super) fn begin(&mut self, call: Begun) -> Result<usize, Fault> {
        if self.begun.len() == MOST_CALLS {
            return Err(Fault::TooManyCalls);
        }
        self.begun.push(call);
        Ok(self.begun.len() - 1)
    }

    pub(super) fn named(&mut self, id: &str, name: &str) -> Result<usize, Fault> {
        self.begin(Begun { id: id.to_owned(), name: name.to_owned(), ..Begun::default() })
    }

    pub(super) fn get_mut(&mut self, place: usize) -> Option<&mut Begun> {
        self.begun.get_mut(place)
    }

    pub(super) fn id(&self, place: usize) -> &str {
        self.begun.get(place).map_or("", |call| &call.id)
    }

    /// What follows is of another frame.
    pub(super) fn next_frame(&mut self) {
        self.is_in_frame = false;
    }

    /// Takes in a piece of an OpenAI stream: more of a call that began, or a new one.
    ///
    /// Where both can be meant it is more of the old one: joined arguments are no JSON, and the model is told so; a
    /// call too many would be run.
    pub(super) fn take_in(&mut self, piece: Piece<'_>) -> Result<(), Fault> {
        let place = match self.place(&piece) {
            Some(place) => {
                let has_id = !self.begun[place].id.is_empty();
                self.begun[place].grow(&piece);
                if !has_id && !piece.id.is_empty() {
                    self.note(place);
                }
                place
            }
            None => {
                let Piece { index, id, name, arguments } = piece;
                let (id, name, arguments) = (id.to_owned(), name.to_owned(), arguments.to_owned());
                let place = self.begin(Begun { index, id, name, arguments, ..Begun::default() })?;
                self.note(place);
                place
            }
        };
        (self.last, self.is_in_frame) = (Some(place), true);
        Ok(())
    }

    /// Notes where a call is found. Of several with one index or id the last counts.
    fn note(&mut self, place: usize) {
        let Begun { index, id, .. } = &self.begun[place];
        let last = |known: &mut Ids| {
            if !id.is_empty() {
                let known = known.entry(id.clone()).or_insert(place);
                *known = place.max(*known);
            }
        };
        last(&mut self.with_id);
        if let Some(index) = index {
            let numbered = self.with_index.entry(index.clone()).or_default();
            numbered.last = place.max(numbered.last);
            last(&mut numbered.with_id);
        }
    }

    /// The call a piece belongs to; `None` when it begins one.
    fn place(&mut self, piece: &Piece<'_>) -> Option<usize> {
        // Some servers give all their calls one index, or one id: the last one of them counts. With both, it is one that has
        // both, if there is one.
        let own = |place: usize| Some(place).filter(|place| !self.begun[*place].is_another(piece));
        let with_id = || self.with_id.get(piece.id).copied();
        let is_nameless = piece.name.is_empty();
        match &piece.index {
            Some(index) => match self.with_index.get(index) {
                Some(numbered) => own(numbered.with_id.get(piece.id).copied().unwrap_or(numbered.last)),
                None => with_id().filter(|_| is_nameless),
            },
            None => match with_id() {
                Some(place) => own(place),
                None if is_nameless => self.last,
                // The name again, where neither an index nor an id tells: more of a call that is not whole.
                None if piece.id.is_empty() => {
                    let place = self.last?;
                    (!self.is_in_frame && self.begun[place].is_open_under(piece.name)).then_some(place)
                }
                None => None,
            },
        }
    }

    /// The end of the stream. Pieces that never got a name or an id belong to no call; when they hold arguments,
    /// some call lacks them.
    pub(super) fn settle(&mut self) -> Result<(), Fault> {
        let is_orphan = |call: &Begun| call.name.is_empty() && call.id.is_empty();
        let lacks = self.begun.iter().any(|call| is_orphan(call) && !call.arguments.trim().is_empty());
        self.begun.retain(|call| !is_orphan(call));
        if lacks { Err(Fault::Unreadable) } else { Ok(()) }
    }
}

impl Begun {
    /// Whether a piece under the same index or id nevertheless begins another call: it names one, and another name
    /// or another id than this one has.
    fn is_another(&self, piece: &Piece<'_>) -> bool {
        let has_other_name = !self.name.is_empty() && self.name != piece.name;
        let has_other_id = !self.id.is_empty() && !piece.id.is_empty() && self.id != piece.id;
        !piece.name.is_empty() && (has_other_name || has_other_id)
    }

    /// Whether more of it may come under its name alone.
    fn is_open_under(&mut self, name: &str) -> bool {
        self.name == name && {
            self.come.look(&self.arguments);
            !self.come.is_whole
        }
    }

    fn grow(&mut self, piece: &Piece<'_>) {
        self.arguments.push_str(piece.arguments);
        if self.name.is_empty() {
            self.name = piece.name.to_owned();
        }
        if self.id.is_empty() {
            self.id = piece.id.to_owned();
        }
    }
}
