//! The parameters of a run, as the parent writes them for its worker.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::chaos::Chaos;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Plan {
    /// Where everything of the run lies.
    pub(crate) folder: PathBuf,
    /// How many sessions, called `s0`, `s1` and so on.
    pub(crate) sessions: u32,
    /// How many turns each of them has; `None`: as many as the time allows.
    pub(crate) turns: Option<u32>,
    /// When no further turn begins, in milliseconds since the run began.
    pub(crate) duration_ms: Option<u64>,
    /// How long a session waits before its next turn, in the mean, in milliseconds.
    pub(crate) think_ms: u64,
    pub(crate) seed: u64,
    pub(crate) chaos: Chaos,
    pub(crate) store: StoreKind,
    /// A person's own configuration and prompts, instead of the scripted model.
    pub(crate) own: Option<Own>,
    /// Several workers that share a database, instead of one.
    pub(crate) replicas: Option<Replicas>,
    /// A defect planted to see whether the checker finds it.
    pub(crate) defect: Option<Defect>,
}

/// The variable with the database of a worker.
#[cfg(feature = "postgres")]
pub(crate) const DATABASE: &str = "BOB_SOAK_DATABASE";

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Replicas {
    /// How many, called `r0`, `r1` and so on.
    pub(crate) count: u32,
    /// The database that was named; without one the soak starts a cluster of its own. For the workers it is the address
    /// of the proxy, with the schema of the run. It may have a password, and is in no file: a worker gets it in `BOB_SOAK_DATABASE`.
    #[serde(skip)]
    pub(crate) url: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum StoreKind {
    /// One database file.
    Sqlite,
    /// A file for each session.
    Json,
    Postgres,
}

/// A user's own configuration with overrides.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Own {
    /// The configuration file, absolute.
    pub(crate) config: PathBuf,
    pub(crate) prompts: Vec<String>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Life {
    /// Which one, from 0.
    pub(crate) number: u32,
    /// How long the run has taken before it, in milliseconds.
    pub(crate) elapsed_ms: u64,
    /// The next turn of each session.
    pub(crate) next: Vec<u32>,
    /// Which of several workers.
    #[serde(default)]
    pub(crate) replica: Option<u32>,
}

#[cfg(feature = "postgres")]
impl Life {
    /// The name of a worker of several, and of its life: `r1.0`.
    pub(crate) fn who(&self) -> String {
        format!("r{}.{}", self.replica.unwrap_or_default(), self.number)
    }
}

/// A defect that is planted at one of the ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
pub(crate) enum Defect {
    /// The store reports success without storing.
    SkipSave,
    /// The store answers before it stores, and a kill comes in between.
    EarlyAck,
    /// The store keeps an outcome that differs from the reported one.
    ChangedAnswer,
    /// The store loses the result of a call.
    LostResult,
    /// The store loses the intent of a call.
    LostIntent,
    /// The store loses the outcome of a turn.
    LostOutcome,
    /// The store keeps an input twice.
    DoubleInput,
    /// A tool runs twice for one call.
    RerunTool,
    /// A tool reports an effect that it did not perform.
    IdleTool,
    /// The front end reports an outcome twice.
    AnswerTwice,
    /// The front end keeps an outcome for itself.
    AnswerNever,
    /// An end event is reported twice.
    DoubleEvent,
    /// A process is left behind.
    LeakChild,
    /// An ended child is not waited for.
    Zombie,
    /// Files stay open.
    LeakFds,
    /// Threads stay.
    LeakThreads,
    /// Memory stays.
    LeakMemory,
    /// Sessions never leave.
    LeakSessions,
    /// A cancel takes its time.
    SlowCancel,
    /// Replicas: an append is stored whatever its epoch is.
    EpochIgnored,
    /// Replicas: a claim gives the epoch of the owner before.
    EpochNotRaised,
    /// Replicas: a worker looks for messages only when it is notified, and notifications stop.
    NotificationOnly,
    /// Replicas: an append whose answer was lost is taken for failed, and appended again.
    DoubtFailed,
    /// Replicas: an append whose answer was lost is taken for done, and it was not.
    DoubtDone,
    /// Replicas: owners without a lock are taken for dead at once, as after a restart of the database.
    LockIsDeath,
    /// Replicas: of the records of an append, those behind the first are answered and not stored, a call's intent among them.
    SecondEntryLost,
}

impl Defect {
    pub(crate) fn needs_replicas(self) -> bool {
        matches!(
            self,
            Self::EpochIgnored
                | Self::EpochNotRaised
                | Self::NotificationOnly
                | Self::DoubtFailed
                | Self::DoubtDone
                | Self::LockIsDeath
                | Self::SecondEntryLost
        )
    }
}

impl Plan {
    pub(crate) fn store_path(&self) -> PathBuf {
        self.folder.join(match self.store {
            StoreKind::Sqlite => "sessions.db",
            StoreKind::Json | StoreKind::Postgres => "sessions",
        })
    }

    /// One line for each side effect that happened.
    pub(crate) fn effects_path(&self) -> PathBuf {
        self.folder.join("effects.log")
    }

    pub(crate) fn log_path(&self) -> PathBuf {
        self.folder.join("acknowledged.jsonl")
    }

    /// A configuration by which `top` and `ps` find the worker. The worker itself does not run by it.
    pub(crate) fn config_path(&self) -> PathBuf {
        self.folder.join("agent.toml")
    }

    /// Writes that configuration down. Errors: when the folder cannot be written.
    pub(crate) fn write_config(&self) -> std::io::Result<()> {
        let kind = match self.store {
            StoreKind::Sqlite => "sqlite",
            StoreKind::Json | StoreKind::Postgres => "json",
        };
        let name = self.store_path();
        let name = name.file_name().unwrap_or_default().to_string_lossy();
        let text = format!(
            "# For `cli-agent --config {} top` while the soak runs.\n\
             [runtime]\ndefault_model = \"openai:none\"\n[store]\nkind = \"{kind}\"\npath = \"{name}\"\n",
            self.config_path().display()
        );
        std::fs::write(self.config_path(), text)
    }

    pub(crate) fn workers(&self) -> String {
        self.replicas.as_ref().map(|replicas| format!(", {} replicas", replicas.count)).unwrap_or_default()
    }

    pub(crate) fn length(&self) -> String {
        match (self.turns, self.duration_ms) {
            (Some(turns), _) => format!("{turns} turns each"),
            (None, Some(ms)) => format!("for {} s", ms / 1_000),
            (None, None) => "without an end".to_owned(),
        }
    }

    pub(crate) fn has(&self, defect: Defect) -> bool {
        self.defect == Some(defect)
    }

    fn plan_path(folder: &Path) -> PathBuf {
        folder.join("plan.json")
    }

    /// Writes down the plan and where a life begins. Errors: when the folder cannot be written.
    pub(crate) fn write(&self, life: &Life) -> std::io::Result<()> {
        self.write_into(&self.folder, life)
    }

    /// Writes them into a folder of one of several workers. Errors: when the folder cannot be written.
    pub(crate) fn write_into(&self, folder: &Path, life: &Life) -> std::io::Result<()> {
        std::fs::write(Self::plan_path(folder), serde_json::to_vec(&(self, life))?)
    }

    pub(crate) fn read(folder: &Path) -> std::io::Result<(Self, Life)> {
        Ok(serde_json::from_slice(&std::fs::read(Self::plan_path(folder))?)?)
    }
}
