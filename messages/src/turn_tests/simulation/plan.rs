//! What one seed is about: the setup of its turns and the faults it switches on.
//!
//! Each seed has about half of the faults. A run in which everything goes wrong at once
//! gets nowhere; one in which three things do goes deep (swarm testing).

use super::dice::Dice;
use super::says::Moods;
use crate::input::ApprovalsMode;
use crate::limits::Limits;
use crate::llm::ToolModeChoice;
use crate::turn::tests::chance::Setup;
use crate::turn_config::OnRestart;

/// What may go wrong, or merely not as usual.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// Replies that are no action, cut or refused.
    Malformed,
    /// The model has no answer.
    ModelFails,
    /// Tools return errors.
    ToolErrors,
    /// Tools whose outcome is not known or comes from outside, and rooms that go away.
    ToolDoubts,
    /// An append fails and stores nothing.
    StoreFails,
    /// An append of which it is not known whether it was stored.
    StoreDoubts,
    /// The journal cannot be read, or the model is unknown.
    StartFails,
    /// Answers come in any order, and appends of an old owner come late.
    Disorder,
    /// The store fails for a while.
    StoreDown,
    /// Another process takes the session over.
    OtherOwner,
    /// Messages are said twice.
    Repeats,
    /// Messages that answer no question, or have no place.
    Foreign,
    /// The actor dies between two messages.
    Crashes,
    /// The actor dies in the middle of what it was told to do.
    CutShort,
    /// The program dies, and nobody is owed anything any more.
    ProgramDies,
    /// The turn is cancelled.
    Cancels,
    /// The actor is killed before it can close its turn.
    Kills,
    /// The turn's time is up.
    Deadlines,
    /// The actor is let go for idleness, perhaps at the wrong moment.
    Passivates,
    /// Inputs come while a turn runs.
    Crowd,
    /// Something is said into the running turn.
    Steers,
    /// A submission is no longer wanted.
    Withdraws,
    /// People decide and answer when it suits them, and about what is long over.
    People,
    /// Requests have names, and names come again.
    Names,
    /// The session's options are changed.
    Changes,
    /// The supervisor hears of what happened when several turns have ended.
    Behind,
    /// The sessions supervisor dies, and those without an answer hand their inputs in again.
    SupervisorDies,
    /// Summaries that are missing, empty or too large.
    Summaries,
    /// There are more skills than before, in another order.
    Skills,
    /// The tools become others under their names.
    Drift,
}

impl Fault {
    pub(super) const ALL: [Self; 30] = [
        Self::Malformed,
        Self::ModelFails,
        Self::ToolErrors,
        Self::ToolDoubts,
        Self::StoreFails,
        Self::StoreDoubts,
        Self::StartFails,
        Self::Disorder,
        Self::StoreDown,
        Self::OtherOwner,
        Self::Repeats,
        Self::Foreign,
        Self::Crashes,
        Self::CutShort,
        Self::ProgramDies,
        Self::Cancels,
        Self::Kills,
        Self::Deadlines,
        Self::Passivates,
        Self::Crowd,
        Self::Steers,
        Self::Withdraws,
        Self::People,
        Self::Names,
        Self::Changes,
        Self::Summaries,
        Self::Skills,
        Self::Drift,
        Self::Behind,
        Self::SupervisorDies,
    ];

    /// Whether it happens by itself rather than as an answer.
    fn disturbs(self) -> bool {
        match self {
            Self::Malformed
            | Self::ModelFails
            | Self::ToolErrors
            | Self::ToolDoubts
            | Self::StoreFails
            | Self::StoreDoubts
            | Self::StartFails
            | Self::Disorder
            | Self::Names
            | Self::Behind
            | Self::Summaries => false,
            Self::StoreDown
            | Self::OtherOwner
            | Self::Repeats
            | Self::Foreign
            | Self::Crashes
            | Self::CutShort
            | Self::ProgramDies
            | Self::SupervisorDies
            | Self::Cancels
            | Self::Kills
            | Self::Deadlines
            | Self::Passivates
            | Self::Crowd
            | Self::Steers
            | Self::Withdraws
            | Self::People
            | Self::Changes
            | Self::Skills
            | Self::Drift => true,
        }
    }
}

/// The plan of one run.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) setup: Setup,
    /// How many decisions before everything works.
    pub(super) steps: usize,
    /// Once in so many decisions something disturbs.
    pub(super) calmness: usize,
    /// How large the model's context is: some hold next to nothing.
    pub(super) context_tokens: u32,
    /// How many bytes users and tools say beside what matters.
    pub(super) padding: usize,
    /// Whether somebody sees the events.
    pub(super) watched: bool,
    /// Which tools the model knows, one bit for each: few tools make for deep runs, too.
    tools: u8,
    /// Whether a person is asked at a limit.
    pub(super) asks_at_limits: bool,
    on: Vec<Fault>,
    pub(super) disturbances: Vec<Fault>,
}

impl Plan {
    pub(super) fn of(seed: u64) -> Self {
        let mut dice = Dice::new(seed, 1);
        let on: Vec<_> = Fault::ALL.into_iter().filter(|_| dice.pick(2) == 0).collect();
        let modes = [ApprovalsMode::Wait, ApprovalsMode::Suspend, ApprovalsMode::Deny];
        let mut some = |most: usize| u32::try_from(1 + dice.pick(most)).unwrap_or(1);
        let limits = Limits {
            max_steps: some(8),
            max_tool_calls: some(9) - 1,
            max_consecutive_errors: some(4),
            max_identical_calls: some(3),
            max_total_tokens: if some(4) == 1 { u64::from(some(60)) } else { 0 },
            ..Limits::default()
        };
        let setup = Setup {
            limits,
            max_history: [50, 4][usize::from(dice.pick(4) == 0)],
            approvals: modes[dice.pick(3)],
            mode: [ToolModeChoice::Native, ToolModeChoice::Json][dice.pick(2)],
            on_restart: [OnRestart::Report, OnRestart::Resume][dice.pick(2)],
            max_waiting: dice.pick(4),
            reads_files: false,
            skills: on.contains(&Fault::Skills),
            schema: dice.pick(3) == 0,
        };
        let mut plan = Self {
            setup,
            steps: 30 + dice.pick(90),
            calmness: 4 + dice.pick(12),
            context_tokens: 8_192,
            padding: 0,
            watched: dice.pick(4) == 0,
            asks_at_limits: Dice::new(seed, 16).pick(2) == 0,
            tools: (dice.pick(256) as u8 & dice.pick(256) as u8) | 1 << dice.pick(8),
            disturbances: on.iter().copied().filter(|fault| fault.disturbs()).collect(),
            on,
        };
        plan.setup.reads_files = dice.pick(2) == 0;
        if dice.pick(2) == 0 {
            plan.context_tokens = u32::try_from(160 + 40 * dice.pick(16)).unwrap_or(160);
            plan.padding = 100 + 150 * dice.pick(8);
        }
        plan
    }

    /// No faults at all.
    pub(super) fn spare(&mut self) {
        self.on.clear();
        self.disturbances.clear();
    }

    pub(super) fn has(&self, fault: Fault) -> bool {
        self.on.contains(&fault)
    }

    pub(super) fn moods(&self) -> Moods {
        Moods { malformed: self.has(Fault::Malformed), fails: self.has(Fault::ModelFails), tools: self.tools }
    }
}
