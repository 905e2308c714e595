//! The closed lists of words a value can be taken from.

use super::read::{Read, Reader};
use super::tree::Item;

/// Defines a closed list of words, spelled in lower case in the file.
macro_rules! words {
    ($(#[$meta:meta])* pub enum $name:ident { $($(#[$word_meta:meta])* $word:ident,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[$word_meta])* $word,)* }

        impl Read for $name {
            fn read(item: &Item, reader: &mut Reader<'_>) -> Option<Self> {
                reader.word(item, &[$((stringify!($word), Self::$word),)*])
            }
        }
    };
}

words! {
    /// What happens to a turn that a crash of the process interrupted.
    pub enum OnRestart {
        /// It is closed and said to be interrupted.
        Report,
        /// It is finished first.
        Resume,
    }
}

words! {
    /// How tools are offered to a model.
    pub enum ToolMode {
        /// As the model's capabilities say.
        Auto,
        /// By an envelope described in the instructions.
        Json,
        /// By the provider's own tool calls.
        Native,
    }
}

words! {
    /// How much harm a tool call can do.
    pub enum Risk {
        /// It reads.
        Low,
        /// It changes something local.
        Medium,
        /// It writes to a network, runs a shell or touches secrets.
        High,
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
    }
}

words! {
    /// The least severe level that is logged.
    pub enum LogLevel {
        /// Nothing.
        Off,
        /// What failed.
        Error,
        /// What looks wrong.
        Warn,
        /// What happens.
        Info,
        /// What happens, in detail.
        Debug,
        /// Everything.
        Trace,
    }
}

words! {
    /// How a log record looks.
    pub enum LogFormat {
        /// A line for people.
        Text,
        /// One JSON object a line.
        Json,
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
    /// When a tool server is started.
    pub enum StartMode {
        /// With the runtime.
        Eager,
        /// On first use.
        Lazy,
    }
}

words! {
    /// What kind of place skills are read from.
    pub enum SourceKind {
        /// A folder.
        Directory,
    }
}
