use crate::sanitise::one_line;

/// How a detail begins that names variables.
pub(super) const VARIABLES: &str = "what is in:  ";

/// How the line of a value begins in the text of a privilege.
const VALUE: &str = "value of ";

/// How many hexadecimal digits of a value's hash are kept.
const DIGITS: usize = 16;

/// One thing a configuration does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Privilege {
    /// The kind.
    pub kind: PrivilegeKind,
    /// Short description: the tool server `x`.
    pub what: String,
    /// Details for the user, one a line. A variable is shown by its name, never by its value.
    pub details: Vec<String>,
    /// Names of values that are not shown, each with its hash.
    values: Vec<(String, String)>,
}

/// The kinds of things a configuration does, in the order they are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PrivilegeKind {
    /// It starts a program.
    Starts,
    /// It sends to an address that is not built in, or a variable of the environment to one that is.
    Sends,
    /// It puts a variable of the environment where keys do not belong.
    Fills,
    /// It relaxes the default policy, reads outside its folder, or lets a script decide which tools are called.
    Loosens,
    /// It keeps sessions outside its folder.
    Keeps,
}

impl PrivilegeKind {
    /// All of them, in their order.
    pub const ALL: [Self; 5] = [Self::Starts, Self::Sends, Self::Fills, Self::Loosens, Self::Keeps];
}

impl Privilege {
    /// Returns the complete text; equal texts mean equal privileges. Values that may be secret are in it as hashes.
    pub fn text(&self) -> String {
        let values = self.values.iter().map(|(name, hash)| format!("{VALUE}{name:?}: {hash}"));
        let lines = std::iter::once(self.what.clone()).chain(self.details.iter().cloned()).chain(values);
        format!("{:?}: {}", self.kind, lines.collect::<Vec<_>>().join("\n"))
    }

    /// Whether the details name variables of the environment.
    pub fn has_variables(&self) -> bool {
        self.details.iter().any(|line| line.starts_with(VARIABLES))
    }

    /// The names of values that differ from those of the same thing in `before`, texts of privileges.
    pub fn changed_values(&self, before: &[String]) -> Vec<&str> {
        let head = format!("{:?}: {}", self.kind, self.what);
        let Some(before) = before.iter().find(|text| text.lines().next() == Some(head.as_str())) else {
            return Vec::new();
        };
        let hash_before = |name: &str| {
            let head = format!("{VALUE}{name:?}: ");
            before.lines().find_map(|line| line.strip_prefix(&head))
        };
        let differs =
            |(name, hash): &&(String, String)| hash_before(name).is_some_and(|before| before != hash.as_str());
        self.values.iter().filter(differs).map(|(name, _)| name.as_str()).collect()
    }

    pub(super) fn new(kind: PrivilegeKind, what: impl Into<String>) -> Self {
        Self { kind, what: one_line(&what.into()), details: Vec::new(), values: Vec::new() }
    }

    pub(super) fn line(mut self, line: impl Into<String>) -> Self {
        self.details.push(one_line(&line.into()));
        self
    }

    /// With a value that is compared and not shown.
    pub(super) fn value(mut self, name: &str, written: &str) -> Self {
        let mut hash = blake3::Hasher::new_derive_key("bob: a value of a privilege");
        hash.update(written.as_bytes());
        self.values.push((name.to_owned(), hash.finalize().to_hex().as_str()[..DIGITS].to_owned()));
        self
    }
}
