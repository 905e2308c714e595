//! The calls of an answer while their pieces arrive, in the order in which they began.

use super::index::Index;
use super::{Fault, MOST_CALLS};

#[derive(Debug, Default)]
pub(in super::super) struct Begun {
    pub(super) index: Option<Index>,
    pub(super) id: String,
    pub(in super::super) name: String,
    pub(in super::super) arguments: String,
    pub(in super::super) signatures: Vec<String>,
    /// How far its arguments have come, of a call that has neither an index nor an id.
    pub(super) come: Come,
}

/// How far a JSON text has come: each byte is looked at once.
#[derive(Debug, Default)]
pub(super) struct Come {
    depth: usize,
    is_in_text: bool,
    is_escaped: bool,
    is_whole: bool,
}

impl Come {
    fn add(&mut self, text: &str) {
        for byte in text.bytes() {
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' if self.is_in_text => self.is_escaped = true,
                b'"' => self.is_in_text = !self.is_in_text,
                _ if self.is_in_text => {}
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => self.depth = self.depth.saturating_sub(1),
                _other => {}
            }
            self.is_whole |= self.depth == 0 && !self.is_in_text && !byte.is_ascii_whitespace();
        }
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
    /// How many of them began before this frame. What comes in one frame is told apart there: it has no pieces of one call.
    before: usize,
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
        self.before = self.begun.len();
    }

    /// Takes in a piece of an OpenAI stream: more of a call that began, or a new one.
    ///
    /// Where both can be meant it is more of the old one: joined arguments are no JSON, and the model is told so; a
    /// call too many would be run.
    pub(super) fn take_in(&mut self, piece: Piece<'_>) -> Result<(), Fault> {
        match self.place(&piece) {
            Some(place) => self.begun[place].grow(&piece),
            None => {
                let Piece { index, id, name, arguments } = piece;
                let mut begun = Begun { index, id: id.to_owned(), name: name.to_owned(), ..Begun::default() };
                begun.add(arguments);
                self.begin(begun)?;
            }
        }
        Ok(())
    }

    /// The call a piece belongs to; `None` when it begins one.
    fn place(&self, piece: &Piece<'_>) -> Option<usize> {
        // The last one of an index or id counts: some servers give all their calls the same.
        let last = |is_it: &dyn Fn(&Begun) -> bool| self.begun.iter().rposition(is_it);
        let own = |place: usize| Some(place).filter(|place| !self.begun[*place].is_another(piece));
        let with_id = || if piece.id.is_empty() { None } else { last(&|call| call.id == piece.id) };
        let is_nameless = piece.name.is_empty();
        match &piece.index {
            Some(index) => match last(&|call| call.index.as_ref() == Some(index)) {
                Some(place) => own(place),
                None => with_id().filter(|_| is_nameless),
            },
            None => match with_id() {
                Some(place) => own(place),
                None if is_nameless => self.begun.len().checked_sub(1),
                // The name again, where neither an index nor an id tells: more of a call that is not whole.
                None if piece.id.is_empty() => {
                    let place = self.begun.len().checked_sub(1)?;
                    Some(place).filter(|place| *place < self.before && self.begun[*place].is_open_under(piece.name))
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
    fn is_open_under(&self, name: &str) -> bool {
        self.index.is_none() && self.id.is_empty() && self.name == name && !self.come.is_whole
    }

    fn add(&mut self, arguments: &str) {
        self.arguments.push_str(arguments);
        if self.index.is_none() && self.id.is_empty() {
            self.come.add(arguments);
        }
    }

    fn grow(&mut self, piece: &Piece<'_>) {
        self.add(piece.arguments);
        if self.name.is_empty() {
            self.name = piece.name.to_owned();
        }
        if self.id.is_empty() {
            self.id = piece.id.to_owned();
        }
    }
}
