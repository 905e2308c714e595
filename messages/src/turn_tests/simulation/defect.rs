//! Planted defects: what a broken machine, store or driver would do. [`sabotage`](super::sabotage)
//! brings them about by changing what passes between them; the machine itself is never touched.
//!
//! A new one is a line here and an arm there. The test of the defects asks that it is found.

/// Makes the enum and the list of all that is in it.
macro_rules! defects {
    ($($(#[$what:meta])+ $defect:ident,)+) => {
        /// What is wrong.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(super) enum Defect {
            $($(#[$what])+ $defect,)+
        }

        impl Defect {
            pub(super) const ALL: &[Self] = &[$(Self::$defect,)+];
        }
    };
}

defects! {
    /// An append is not sent.
    SkipsAppend,
    /// An append is confirmed and not stored.
    ConfirmsWithoutStoring,
    /// The records of an append are stored in another order.
    ReordersRecords,
    /// An append that is sent again is stored again.
    StoresTwice,
    /// A result does not reach the journal.
    ForgetsResult,
    /// A write that was interrupted is said to be cancelled.
    CallsItCancelled,
    /// An outcome does not reach the journal.
    ForgetsOutcome,
    /// An input does not reach the journal.
    LosesInput,
    /// The fence is down: an owner that was replaced goes on writing.
    IgnoresEpoch,
    /// A claim gives the epoch of the owner before.
    KeepsEpoch,
    /// The last record of a journal is not loaded.
    LoadsLess,
    /// The record behind a snapshot is not loaded.
    SkipsBehindSnapshot,
    /// A call is dispatched twice.
    DispatchesTwice,
    /// A call that changes something runs as one that only reads.
    DispatchesBeforeIntent,
    /// After a crash a call in doubt runs again.
    RunsDoubtsAgain,
    /// What the policy denies runs.
    RunsDenied,
    /// What a person denies runs.
    RunsRefused,
    /// A call that needs a person runs without one.
    RunsUnasked,
    /// A call runs with other arguments.
    ChangesArguments,
    /// The results of two calls are confused.
    ConfusesTickets,
    /// A late answer is taken for the one that is awaited.
    TakesStaleAnswer,
    /// A decision about one question decides another.
    ConfusesApprovals,
    /// What was allowed of a tool counts for what it has become since.
    IgnoresDefinition,
    /// A call runs although its tool is another one than was judged.
    IgnoresDrift,
    /// A yes to one call is taken for one to all calls of its tool.
    WidensScope,
    /// What was decided for a session is asked about again.
    ForgetsStanding,
    /// What was decided for ever is not remembered.
    ForgetsForever,
    /// An old token resumes a new suspension.
    ConfusesTokens,
    /// The end of a turn is not told.
    DropsOutcome,
    /// The end of a turn is told twice.
    TellsTwice,
    /// What has ended runs again for whoever sends it again.
    RunsAgain,
    /// What may be in the journal is told as if it could be sent again.
    SaysRetryable,
    /// The supervisor says again what it owes before it has read what was told of it.
    SendsBeforeReading,
    /// An outcome is said to be saved while it is not.
    SaysSaved,
    /// An outcome is told before it is stored.
    TellsOutcomeEarly,
    /// A cancel of what waits or runs is not heard.
    IgnoresWithdrawal,
    /// A stop is not heard.
    IgnoresStop,
    /// An end that was told and is not stored is not heard by the next machine.
    ForgetsEnds,
    /// A session is left and not released.
    ReleasesNothing,
    /// What is said into a turn is lost.
    LosesSteering,
    /// What is said into a turn a second time is taken for something else.
    TakesSteeringTwice,
    /// Whoever said it is told that it is kept before it is.
    TellsSteeringEarly,
    /// Whoever said it is not told.
    DropsSteering,
    /// Whoever reads along is never told.
    ForgetsReaders,
    /// The result of a call is missing from the prompt.
    LeavesCallUnpaired,
    /// The current message is missing from the prompt.
    LosesPrompt,
    /// The clock of a turn never goes on after a question.
    KeepsClockStopped,
    /// A turn that waited begins and nobody is told.
    BeginsSilently,
    /// A store that fails is asked again at once.
    InsistsOnStore,
    /// One model call too many.
    OneStepMore,
    /// One model call too few.
    OneStepLess,
    /// One tool call too many.
    OneCallMore,
    /// One failed call too many.
    OneErrorMore,
    /// One repeated call too many.
    OneRepeatMore,
    /// No bound on tokens.
    ForgetsTokens,
    /// A summary does not reach the journal.
    LosesSummary,
    /// A history is cut elsewhere than was said.
    CutsElsewhere,
    /// A late summary is taken for the one that is awaited.
    TakesStaleSummary,
    /// A summary is missing from the prompt.
    LeavesSummaryOut,
    /// The skills of a turn are not known after a crash.
    ForgetsSkills,
    /// That skills were chosen again does not reach the journal.
    ForgetsReselection,
    /// Skills are chosen again for a cause that was counted before.
    ReselectsAgain,
    /// A skill that the model was told it has is not among those that are chosen.
    LosesNamedSkill,
    /// The tools of a turn are not limited by its skills.
    WidensTools,
    /// An answer that does not fit its schema is taken.
    TakesMisfit,
    /// A change of the options does not reach the journal.
    ForgetsChange,
    /// A change of the options is told before it is stored.
    TellsChangeEarly,
}
