//! Modes of the list of tools.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use serde_json::json;

use super::{Moment, Step};
use crate::server::protocol;
use crate::server::requests::Server;
use crate::server::tools::{PLAIN, one_page};

/// A page of thousands of tools.
const WIDE_PAGE: usize = 500;

pub(super) fn silent_list(_server: &Arc<Server>, _: u64, moment: &Moment<'_>) -> Step {
    match moment.asked("tools/list") {
        Some(_) => Step::Dealt,
        None => Step::Healthy,
    }
}

pub(super) fn changed_storm(server: &Arc<Server>, ms: u64, moment: &Moment<'_>) -> Step {
    if moment.is_ready() {
        server.beside(move |server| {
            let changed = protocol::notification("notifications/tools/list_changed", &json!({}));
            while server.say(&changed) {
                thread::sleep(Duration::from_millis(ms));
            }
        });
    }
    Step::Healthy
}

pub(super) fn many_tools(server: &Arc<Server>, count: u64, moment: &Moment<'_>) -> Step {
    if let Moment::Started = moment {
        for number in 1..=count {
            server.catalogue.add(&format!("tool_{number}"), PLAIN);
        }
        server.catalogue.widen(WIDE_PAGE);
    }
    Step::Healthy
}

pub(super) fn big_schema(server: &Arc<Server>, bytes: u64, moment: &Moment<'_>) -> Step {
    if let Moment::Started = moment {
        let frame = r#"{"type":"object","description":""}"#;
        let filling = usize::try_from(bytes).unwrap_or(usize::MAX).saturating_sub(frame.len());
        let schema = format!(r#"{{"type":"object","description":"{}"}}"#, "x".repeat(filling));
        server.catalogue.add("wide", &schema);
    }
    Step::Healthy
}

pub(super) fn deep_schema(server: &Arc<Server>, levels: u64, moment: &Moment<'_>) -> Step {
    if let Moment::Started = moment {
        let levels = usize::try_from(levels).unwrap_or(usize::MAX);
        let open = r#"{"type":"object","properties":{"a":"#.repeat(levels);
        let schema = format!(r#"{open}{{"type":"object"}}{}"#, "}}".repeat(levels));
        server.catalogue.add("deep", &schema);
    }
    Step::Healthy
}

pub(super) fn ref_cycle(server: &Arc<Server>, _: u64, moment: &Moment<'_>) -> Step {
    if let Moment::Started = moment {
        let schema = json!({
            "type": "object", "properties": { "node": { "$ref": "#/$defs/a" } },
            "$defs": { "a": { "$ref": "#/$defs/b" }, "b": { "$ref": "#/$defs/a" } },
        });
        server.catalogue.add("cyclic", &schema.to_string());
    }
    Step::Healthy
}

pub(super) fn endless_pages(server: &Arc<Server>, _: u64, moment: &Moment<'_>) -> Step {
    let Some(request) = moment.asked("tools/list") else { return Step::Healthy };
    server.answer(request, &one_page("round", "round"));
    Step::Dealt
}

pub(super) fn fresh_pages(server: &Arc<Server>, _: u64, moment: &Moment<'_>) -> Step {
    let Some(request) = moment.asked("tools/list") else { return Step::Healthy };
    let cursor = request.params["cursor"].as_str().unwrap_or_default();
    let number = cursor.parse::<u64>().unwrap_or(0) + 1;
    server.answer(request, &one_page(&format!("page_{number}"), &number.to_string()));
    Step::Dealt
}
