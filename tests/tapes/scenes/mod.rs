//! The scripted scenes: the inputs of a runtime, and the model and tools it is recorded with.
//!
//! A scene is deterministic, for recording and for replay. It must not depend on chance or scheduling, nor on clocks,
//! except that in the four last a clock ends something.

mod calls;
mod endings;
mod people;
mod talk;

use crate::tapes::stage::Stage;
use futures_util::future::BoxFuture;

/// One scene.
pub(crate) struct Scene {
    /// The name of its files.
    pub(crate) name: &'static str,
    /// Its sessions, whose journals are kept.
    pub(crate) sessions: &'static [&'static str],
    pub(crate) play: for<'a> fn(&'a Stage) -> BoxFuture<'a, ()>,
}

/// All of them.
pub(crate) const SCENES: &[Scene] = &[
    scene("talk", &["s"], |stage| Box::pin(talk::talk(stage))),
    scene("envelopes", &["s"], |stage| Box::pin(talk::envelopes(stage))),
    scene("malformed", &["s"], |stage| Box::pin(talk::malformed(stage))),
    scene("retries", &["s"], |stage| Box::pin(talk::retries(stage))),
    scene("crowd", &["a", "b", "c", "d", "e", "f"], |stage| Box::pin(talk::crowd(stage))),
    scene("calls", &["s"], |stage| Box::pin(calls::calls(stage))),
    scene("failing_tools", &["s"], |stage| Box::pin(calls::failing(stage))),
    scene("guards", &["s"], |stage| Box::pin(calls::guards(stage))),
    scene("denied", &["s"], |stage| Box::pin(people::denied(stage))),
    scene("questions", &["s"], |stage| Box::pin(people::questions(stage))),
    scene("approvals", &["s"], |stage| Box::pin(people::approvals(stage))),
    scene("timeouts", &["s"], |stage| Box::pin(endings::timeouts(stage))),
    scene("cancels", &["s"], |stage| Box::pin(endings::cancels(stage))),
    scene("crash", &["s"], |stage| Box::pin(endings::crash(stage))),
    scene("program_dies", &["s"], |stage| Box::pin(endings::program_dies(stage))),
];

const fn scene(
    name: &'static str,
    sessions: &'static [&'static str],
    play: for<'a> fn(&'a Stage) -> BoxFuture<'a, ()>,
) -> Scene {
    Scene { name, sessions, play }
}
