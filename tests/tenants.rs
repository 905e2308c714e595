//! Several tenants on one runtime: nothing of one is seen or decided by another, also after a crash.
#![allow(clippy::unwrap_used, reason = "a test that unwraps fails where it stands")]

#[path = "tenants/apart.rs"]
mod apart;
#[path = "tenants/artifacts.rs"]
mod artifacts;
#[path = "tenants/calls.rs"]
mod calls;
#[path = "tenants/carried.rs"]
mod carried;
#[path = "tenants/deciding.rs"]
mod deciding;
#[path = "tenants/decisions.rs"]
mod decisions;
#[path = "tenants/inbox.rs"]
mod inbox;
#[path = "tenants/killed.rs"]
mod killed;
#[path = "tenants/limits.rs"]
mod limits;
#[path = "tenants/messages.rs"]
mod messages;
#[path = "tenants/sessions.rs"]
mod sessions;
#[path = "tenants/stage.rs"]
mod stage;
#[path = "tenants/view.rs"]
mod view;
