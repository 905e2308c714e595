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
pub(in super::super) struct Calls(Vec<Begun>);

impl Calls {
    pub(in super::super) fn into_inner(self) -> Vec<Begun> {
        self.0
    }

    /// Begins a call; its place, by which more of it is added.
    pub(super) fn begin(&mut self, call: Begun) -> Result<usize, Fault> {
        if self.0.len() == MOST_CALLS {
            return Err(Fault::TooManyCalls);
        }
        self.0.push(call);
        Ok(self.0.len() - 1)
    }

    pub(super) fn named(&mut self, id: &str, name: &str) -> Result<usize, Fault> {
        self.begin(Begun { id: id.to_owned(), name: name.to_owned(), ..Begun::default() })
    }

    pub(super) fn get_mut(&mut self, place: usize) -> Option<&mut Begun> {
        self.0.get_mut(place)
    }

    pub(super) fn id(&self, place: usize) -> &str {
        self.0.get(place).map_or("", |call| &call.id)
    }

    /// Takes in a piece of an OpenAI stream: more of a call that began, or a new one.
    ///
    /// Where both can be meant it is more of the old one: joined arguments are no JSON, and the model is told so; a
    /// call too many would be run.
    pub(super) fn take_in(&mut self, piece: Piece<'_>) -> Result<(), Fault> {
        match self.place(&piece) {
            Some(place) => self.0[place].grow(&piece),
            None => {
                let Piece { index, id, name, arguments } = piece;
                let (id, name, arguments) = (id.to_owned(), name.to_owned(), arguments.to_owned());
                self.begin(Begun { index, id, name, arguments, signatures: Vec::new() })?;
            }
        }
        Ok(())
    }

    /// The call a piece belongs to; `None` when it begins one.
    fn place(&self, piece: &Piece<'_>) -> Option<usize> {
        // The last one of an index or id counts: some servers give all their calls the same.
        let last = |is_it: &dyn Fn(&Begun) -> bool| self.0.iter().rposition(is_it);
        let own = |place: usize| Some(place).filter(|place| !self.0[*place].is_another(piece));
        let with_id = || if piece.id.is_empty() { None } else { last(&|call| call.id == piece.id) };
        let is_nameless = piece.name.is_empty();
        match &piece.index {
            Some(index) => match last(&|call| call.index.as_ref() == Some(index)) {
                Some(place) => own(place),
                None => with_id().filter(|_| is_nameless),
            },
            None => match with_id() {
                Some(place) => own(place),
                None if is_nameless => self.0.len().checked_sub(1),
                // The name again, where neither an index nor an id tells: more of a call that is not whole.
                None if piece.id.is_empty() => {
                    let goes_on = |call: &Begun| call.index.is_none() && call.id.is_empty() && call.name == piece.name;
                    let place = self.0.len().checked_sub(1)?;
                    Some(place).filter(|place| goes_on(&self.0[*place]) && !is_whole(&self.0[*place].arguments))
                }
                None => None,
            },
        }
    }

    /// The end of the stream. Pieces that never got a name or an id belong to no call; when they hold arguments,
    /// some call lacks them.
    pub(super) fn settle(&mut self) -> Result<(), Fault> {
        let is_orphan = |call: &Begun| call.name.is_empty() && call.id.is_empty();
        let lacks = self.0.iter().any(|call| is_orphan(call) && !call.arguments.trim().is_empty());
        self.0.retain(|call| !is_orphan(call));
        if lacks { Err(Fault::Unreadable) } else { Ok(()) }
    }
}

/// Whether arguments end as what they begin with ends. They are not read from the beginning for each piece, and of blanks
/// around them no more than a line.
fn is_whole(arguments: &str) -> bool {
    let is_blank = |byte: &u8| byte.is_ascii_whitespace();
    let (mut from_front, mut from_end) = (arguments.bytes().take(80), arguments.bytes().rev().take(80));
    let ends = from_front.find(|byte| !is_blank(byte)).zip(from_end.find(|byte| !is_blank(byte)));
    match ends {
        None => false,
        Some((b'{', last)) => last == b'}',
        Some((b'[', last)) => last == b']',
        Some((b'"', last)) => arguments.trim_start().len() > 1 && last == b'"',
        Some(_) => true,
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
