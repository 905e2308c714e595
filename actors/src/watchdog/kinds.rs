use crate::model_server::ModelServerMessage;
use bob_messages::llm::LlmMessage;
use bob_messages::mcp::McpMessage;
use bob_messages::models::ModelsMessage;
use bob_messages::store::StoreMessage;
use bob_messages::submission::SessionsMessage;
use bob_messages::tools::{LocalToolsMessage, ToolsMessage};
use bob_messages::turn::TurnMessage;

/// A message enum whose variants have names.
pub trait Kinds: ractor::Message {
    /// The names, in the order of the numbers; at most 250.
    const KINDS: &'static [&'static str];

    /// The number of this message's kind.
    fn kind(&self) -> u8;

    /// The name of this message's kind.
    fn kind_name(&self) -> &'static str {
        Self::KINDS.get(usize::from(self.kind())).copied().unwrap_or_default()
    }
}

/// Names every variant of an enum; one that is missing here does not compile.
#[macro_export]
macro_rules! kinds {
    ($message:ty: $($kind:ident),+ $(,)?) => {
        impl $crate::watchdog::Kinds for $message {
            const KINDS: &'static [&'static str] = &[$(stringify!($kind)),+];

            fn kind(&self) -> u8 {
                enum Number { $($kind),+ }
                match self { $(Self::$kind { .. } => Number::$kind as u8),+ }
            }
        }
    };
}

kinds!(TurnMessage:
    Start, BuildPrompt, LlmInfer, ParseAction, CallTool, Done, AskedBelow,
    Wake, Resume, Loaded, Saved, ToolsListed, Profiled, LayersRead, Condensed, SkillsListed, OutputChecked, Checked, ToolReturned,
    SaidSoFar, Decided, Steered, Flush, Withdrawn, Ended, GivenUp, Quiet,
    Dismissed, Stopped, Configure, Draining, HandOver,
);
kinds!(LlmMessage: Profile, Infer, Providers);
kinds!(ToolsMessage: Check, Call, GiveUp);
kinds!(McpMessage: Tools, Wake, Refresh, Offered, Lost, Ended, Ending, Waited);
kinds!(StoreMessage: Claim, Load, LoadPart, Append, Release, List, Delete, Ping, BatchEnded);
kinds!(SessionsMessage:
    Submit, Resume, Cancel, Passivate, Decide, News, Due, ActorEnded, Live, Load, TenantLoad, Drain, Steer, Flush, Configure,
    NotBegun,
);
kinds!(ModelServerMessage: Ensure, Ended);
kinds!(ModelsMessage: Due, Fetched, Keep);

/// Questions about tools are named as those to every other host of tools.
impl Kinds for LocalToolsMessage {
    const KINDS: &'static [&'static str] = &["Check", "Call", "GiveUp", "Listed"];

    fn kind(&self) -> u8 {
        match self {
            Self::Tools(question) => question.kind(),
            Self::Listed { .. } => 3,
        }
    }
}
