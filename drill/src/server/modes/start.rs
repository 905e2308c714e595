//! Start modes: failures before the handshake is complete.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::{Moment, Step};
use crate::server::protocol;
use crate::server::requests::Server;

pub(super) fn slow_start(_server: &Arc<Server>, ms: u64, moment: &Moment<'_>) -> Step {
    if let Moment::Started = moment {
        thread::sleep(Duration::from_millis(ms));
    }
    Step::Healthy
}

pub(super) fn silent_init(_server: &Arc<Server>, _: u64, moment: &Moment<'_>) -> Step {
    match moment.asked("initialize") {
        Some(_) => Step::Dealt,
        None => Step::Healthy,
    }
}

pub(super) fn late_init(server: &Arc<Server>, ms: u64, moment: &Moment<'_>) -> Step {
    let Some(request) = moment.asked("initialize").cloned() else { return Step::Healthy };
    server.beside(move |server| {
        thread::sleep(Duration::from_millis(ms));
        server.answer(&request, &protocol::initialized(protocol::LATEST));
    });
    Step::Dealt
}

pub(super) fn junk_init(server: &Arc<Server>, _: u64, moment: &Moment<'_>) -> Step {
    if moment.asked("initialize").is_none() {
        return Step::Healthy;
    }
    server.say("Listening on http://localhost:3000 {\"jsonrpc\":");
    Step::Dealt
}

pub(super) fn error_init(server: &Arc<Server>, _: u64, moment: &Moment<'_>) -> Step {
    let Some(request) = moment.asked("initialize") else { return Step::Healthy };
    server.refuse(request, protocol::INVALID_PARAMS, "this server refuses every client");
    Step::Dealt
}

pub(super) fn wrong_protocol(server: &Arc<Server>, _: u64, moment: &Moment<'_>) -> Step {
    let Some(request) = moment.asked("initialize") else { return Step::Healthy };
    server.answer(request, &protocol::initialized("1999-01-01"));
    Step::Dealt
}

pub(super) fn protocol_echo(server: &Arc<Server>, _: u64, moment: &Moment<'_>) -> Step {
    let Some(request) = moment.asked("initialize") else { return Step::Healthy };
    let revision = request.params["protocolVersion"].as_str().unwrap_or_default();
    server.answer(request, &protocol::initialized(revision));
    Step::Dealt
}

pub(super) fn exit_init(server: &Arc<Server>, code: u64, moment: &Moment<'_>) -> Step {
    match moment.asked("initialize") {
        // The system keeps the lowest eight bits.
        Some(_) => server.exit(i32::try_from(code & 0xff).unwrap_or(1)),
        None => Step::Healthy,
    }
}

pub(super) fn init_exit(server: &Arc<Server>, _: u64, moment: &Moment<'_>) -> Step {
    if moment.is_ready() { server.exit(0) } else { Step::Healthy }
}
