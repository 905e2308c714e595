//! Which tools there are, and what arguments they take.
//!
//! Made from the ports when the room starts, and anew when what they offer changes; the gate looks tools up here. Names
//! are checked here, so that no two tools can be mistaken for each other.

use super::clip::clip;
use super::grant::Definition;
use super::policy::Rules;
use super::schema::{Checker, Misfit};
use bob_messages::ids::ToolName;
use bob_messages::tools::ToolDescriptor;
use foldhash::fast::RandomState;
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};

/// The most bytes a tool's name may have.
pub(crate) const MAX_NAME_BYTES: usize = 128;
/// How like a name must be to be suggested: 0 is nothing alike, 1 is the same.
const ALIKE: f64 = 0.8;
/// How many names are suggested at most.
const MAX_SUGGESTIONS: usize = 3;

/// Why the tools of a runtime cannot stand side by side.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CatalogueError {
    /// Two tools have one name, or names that differ only in case.
    #[error("two tools are called {0:?}; give one of them another name")]
    Duplicate(String),
    /// The name is not one a tool may have.
    #[error(
        "a tool is called {0:?}; expected one to three parts of letters, digits, `_`, `-` or `.` with `/` between them, \
         at most {MAX_NAME_BYTES} bytes, for example demo/add"
    )]
    Name(String),
}

#[derive(Debug)]
pub(crate) struct Tool {
    pub(crate) descriptor: Arc<ToolDescriptor>,
    /// What grants for it are bound to.
    pub(crate) definition: Definition,
    pub(crate) port: usize,
    /// What the rules say of its name; they never change, so it is asked once.
    pub(crate) ruled: Ruled,
    /// Read at the first call; most tools of a session are never called.
    checker: OnceLock<Result<Checker, String>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ruled {
    /// It may be called.
    Allowed,
    Denied,
    NotAllowed,
}

#[derive(Debug, Default)]
pub(crate) struct Catalogue {
    tools: Vec<Arc<Tool>>,
    by_name: HashMap<ToolName, usize, RandomState>,
}

impl Catalogue {
    /// Takes the tools of each port in turn, as the rules see them.
    pub(crate) fn new(
        ports: impl IntoIterator<Item = Vec<ToolDescriptor>>,
        rules: &Rules,
    ) -> Result<Self, CatalogueError> {
        let mut catalogue = Self::default();
        let mut spelled = BTreeMap::new();
        for (port, descriptors) in ports.into_iter().enumerate() {
            for descriptor in descriptors {
                let name = descriptor.id.clone();
                if !is_well_formed(&name) {
                    return Err(CatalogueError::Name(clip(name.as_str(), MAX_NAME_BYTES)));
                }
                if spelled.insert(name.as_str().to_ascii_lowercase(), ()).is_some() {
                    return Err(CatalogueError::Duplicate(name.as_str().to_owned()));
                }
                let ruled = match (rules.denies(&name), rules.allows(&name)) {
                    (true, _) => Ruled::Denied,
                    (false, true) => Ruled::Allowed,
                    (false, false) => Ruled::NotAllowed,
                };
                catalogue.by_name.insert(name, catalogue.tools.len());
                let definition = Definition::of(&descriptor);
                let descriptor = Arc::new(rules.apply_to(descriptor));
                let checker = OnceLock::new();
                catalogue.tools.push(Arc::new(Tool { descriptor, definition, port, ruled, checker }));
            }
        }
        Ok(catalogue)
    }

    pub(crate) fn get(&self, name: &ToolName) -> Option<&Arc<Tool>> {
        self.by_name.get(name).map(|&at| &self.tools[at])
    }

    pub(crate) fn descriptors(&self) -> impl Iterator<Item = &Arc<ToolDescriptor>> {
        self.tools.iter().map(|tool| &tool.descriptor)
    }

    /// What to say of a name that no tool has. Only names that `offered` lets through are suggested.
    pub(crate) fn unknown(&self, name: &ToolName, offered: impl Fn(&ToolName) -> bool) -> String {
        let said = clip(name.as_str(), MAX_NAME_BYTES);
        let mut alike: Vec<(f64, &str)> = self
            .descriptors()
            .filter(|tool| offered(&tool.id))
            .map(|tool| (likeness(&tool.id, name), tool.id.as_str()))
            .filter(|(likeness, _)| *likeness >= ALIKE)
            .collect();
        alike.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1)));
        let names: Vec<&str> = alike.into_iter().take(MAX_SUGGESTIONS).map(|(_, name)| name).collect();
        match names.as_slice() {
            [] => format!("there is no tool called {said:?}"),
            names => format!("there is no tool called {said:?}; did you mean {}?", names.join(" or ")),
        }
    }
}

impl Tool {
    /// What is wrong with the arguments, for the model; `None`: nothing.
    pub(crate) fn complaint(&self, arguments: &Value) -> Option<String> {
        let name = &self.descriptor.id;
        if !arguments.is_object() {
            return Some(format!("the arguments of {name} must be a JSON object"));
        }
        let schema = &self.descriptor.schema;
        let checker = match self.checker.get_or_init(|| Checker::read(schema)) {
            Ok(checker) => checker,
            Err(broken) => {
                return Some(format!("{name} cannot be called: its own argument schema is broken ({broken})"));
            }
        };
        match checker.check(schema, arguments) {
            Ok(()) => None,
            Err(Misfit::Complaints(complaints)) => {
                Some(format!("the arguments of {name} do not fit: {}", complaints.join("; ")))
            }
            Err(Misfit::TooMuch) => Some(format!(
                "the arguments of {name} cannot be checked: with its schema that would take too long; pass less"
            )),
        }
    }
}

pub(crate) fn is_well_formed(name: &ToolName) -> bool {
    let text = name.as_str();
    let part_is_fine = |part: &str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'))
    };
    text.len() <= MAX_NAME_BYTES
        && !text.eq_ignore_ascii_case(ToolName::ASK_USER)
        && text.split('/').count() <= 3
        && text.split('/').all(part_is_fine)
}

/// Models often know the tool and forget where it is: its own name counts, too.
fn likeness(known: &ToolName, said: &ToolName) -> f64 {
    let said_text = clip(said.as_str(), MAX_NAME_BYTES).to_lowercase();
    let said_own = said_text.rsplit('/').next().unwrap_or_default();
    let own = strsim::jaro_winkler(known.own_name(), said_own);
    own.max(strsim::jaro_winkler(known.as_str(), &said_text))
}
