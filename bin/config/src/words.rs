//! Enumerated values.

use bob::approvals::PermissionMode;
use bob::config::OnRestart;
use bob::model::ToolModeChoice;
use bob::sessions::OnParentEnd;
use bob::tools::agents::TaskContext;
use bob::tools::servers::Isolation;
use bob::tools::{Risk, SandboxMode};
use tracing::level_filters::LevelFilter;

use super::read::{Read, Reader};
use super::tree::Item;

/// Declares an enumerated value, in the file in lower case with `_` between words: of a type defined here or elsewhere.
macro_rules! words {
    ($(#[$meta:meta])* pub enum $name:ident { $($(#[$word_meta:meta])* $word:ident,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[$word_meta])* $word,)* }

        words!($name: $($word)*);
    };
    ($name:ident: $($word:ident)*) => {
        impl Read for $name {
            fn read(item: &Item<'_>, reader: &mut Reader<'_>) -> Option<Self> {
                reader.word(item, &[$((stringify!($word), Self::$word),)*])
            }
        }
    };
}

words!(OnRestart: Report Resume);
words!(SandboxMode: Off On Required);
words!(ToolModeChoice: Auto Json Native);
words!(Risk: Low Medium High);
words!(TaskContext: None Summary);
words!(OnParentEnd: Cancel Continue);
words!(Isolation: Shared Tenant Session);
words!(PermissionMode: Plan Ask Edits Auto);
words!(LevelFilter: OFF ERROR WARN INFO DEBUG TRACE);

words! {
    /// A set of limits.
    pub enum LimitsProfile {
        /// For a person at work: long turns that end when they make no progress.
        Terminal,
        /// For unattended work: short turns.
        Strict,
    }
}

words! {
    /// The kind of store.
    pub enum StoreKind {
        /// Sessions end with the process.
        Memory,
        /// One journal file for each session in a folder.
        Json,
        /// One database file; refused where this program was built without it.
        Sqlite,
        /// A PostgreSQL database, which processes of several machines may share; refused where this program was built
        /// without it.
        Postgres,
    }
}

words! {
    /// How a log record looks.
    pub enum LogFormat {
        /// Human-readable lines.
        Text,
        /// One JSON object a line.
        Json,
    }
}

/// The encoding in which spans and metrics are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TelemetryProtocol {
    /// `http/protobuf`: Protocol Buffers over HTTP.
    HttpProtobuf,
}

impl Read for TelemetryProtocol {
    fn read(item: &Item<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        reader.word(item, &[("http/protobuf", Self::HttpProtobuf)])
    }
}

words! {
    /// The wire format a provider speaks.
    pub enum ProviderKind {
        /// Chat completions.
        Openai,
        /// Messages.
        Anthropic,
        /// Generate content.
        Gemini,
        /// The native API of an Ollama server.
        Ollama,
        /// No wire at all: answers are read from a script.
        Scripted,
    }
}

words! {
    /// How a tool server is reached.
    pub enum Transport {
        /// A child process.
        Stdio,
        /// Streamable HTTP.
        Http,
    }
}

words! {
    /// How a tool server over HTTP is signed in to.
    pub enum Auth {
        /// By a person, in a browser.
        Oauth,
        /// By the client itself, with its id and its secret.
        ClientCredentials,
    }
}

words! {
    /// How the caller of a sub-agent waits for it.
    pub enum AgentMode {
        /// The call ends with the answer.
        Inline,
        /// The call returns at once; the answer is asked for, or comes as an input.
        Async,
    }
}

words! {
    /// When a tool server is started.
    pub enum StartMode {
        /// With the runtime.
        Eager,
        /// On first use.
        Lazy,
    }
}

words! {
    /// When a hook is run.
    pub enum HookOn {
        /// Before a call.
        BeforeCall,
        /// After a call that returned.
        AfterCall,
        /// When a person is asked.
        Question,
        /// When a turn has ended.
        TurnEnd,
    }
}

words! {
    /// What the failure of a hook comes to before a call.
    pub enum HookFailure {
        /// The call is denied.
        Deny,
        /// A person is asked.
        Ask,
        /// As if it had said nothing.
        Allow,
    }
}

words! {
    /// The kind of source of skills.
    pub enum SourceKind {
        /// A folder.
        Directory,
        /// A commit of a git repository.
        Git,
    }
}
