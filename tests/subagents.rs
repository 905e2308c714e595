//! Agents that work for calls of other agents: sessions of their own, with no more than their callers have.

#![allow(clippy::unwrap_used, reason = "a test that unwraps fails where it stands")]

#[path = "subagents/asked.rs"]
mod asked;
#[path = "subagents/background.rs"]
mod background;
#[path = "subagents/bills.rs"]
mod bills;
#[path = "subagents/bounds.rs"]
mod bounds;
#[path = "subagents/checked.rs"]
mod checked;
#[path = "subagents/crowds.rs"]
mod crowds;
#[path = "subagents/ends.rs"]
mod ends;
#[path = "subagents/events.rs"]
mod events;
#[path = "subagents/inline.rs"]
mod inline;
#[path = "subagents/killed.rs"]
mod killed;
#[path = "subagents/left.rs"]
mod left;
#[path = "subagents/narrow.rs"]
mod narrow;
#[path = "subagents/recovered.rs"]
mod recovered;
#[path = "subagents/seeds.rs"]
mod seeds;
#[path = "subagents/skills.rs"]
mod skills;
#[path = "subagents/stage.rs"]
mod stage;
#[path = "subagents/suspended.rs"]
mod suspended;
#[path = "subagents/suspended_kills.rs"]
mod suspended_kills;
#[path = "subagents/suspended_refused.rs"]
mod suspended_refused;
