//! The rules of a port to a person.

use super::asked;
use super::rules::{beside, dropped};
use crate::approvals::{ApprovalPort, ApprovalQuestion, Decision};
use bob_actors::contract::{Found, ODD_TEXTS, Suite, holds};
use serde_json::{Value, json};
use std::sync::Arc;

pub(super) async fn check(make: impl Fn() -> Arc<dyn ApprovalPort>) -> Suite {
    let mut suite = Suite::new("approval port");
    suite.rule("a decision is one of the choices of its question", choices(make())).await;
    suite.rule("questions beside each other are all decided", together(make())).await;
    suite.rule("a question that is withdrawn leaves the port usable", withdrawn(make())).await;
    suite.rule("a question with unusual texts is decided, without a panic", unusual(make())).await;
    suite
}

fn question(choices: &[&str], text: &str) -> ApprovalQuestion {
    ApprovalQuestion {
        reason: text.to_owned(),
        title: text.to_owned(),
        choices: choices.iter().map(|&choice| choice.to_owned()).collect(),
        ..asked::question("my/tool", json!({"command": text}))
    }
}

/// The name of a decision, as questions have it.
fn name(decision: &Decision) -> String {
    let name = serde_json::to_value(decision).ok().and_then(|json| json.get("decision").map(Value::to_owned));
    name.and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default()
}

async fn decided(port: &dyn ApprovalPort, choices: &[&str]) -> Found {
    let decision = port.approve(question(choices, "It has a high risk.")).await;
    let name = name(&decision);
    holds(choices.contains(&name.as_str()), || format!("the decision {name}, and the choices are {choices:?}"))
}

async fn choices(port: Arc<dyn ApprovalPort>) -> Found {
    for choices in [&crate::approvals::CHOICES[..], &["allow_once", "deny"], &["allow_once", "edit", "deny"], &["deny"]]
    {
        decided(&*port, choices).await?;
    }
    Ok(())
}

async fn together(port: Arc<dyn ApprovalPort>) -> Found {
    beside(|| decided(&*port, &crate::approvals::CHOICES)).await
}

async fn withdrawn(port: Arc<dyn ApprovalPort>) -> Found {
    let question = || port.approve(question(&["allow_once", "deny"], "Why."));
    dropped(question, || decided(&*port, &crate::approvals::CHOICES)).await
}

async fn unusual(port: Arc<dyn ApprovalPort>) -> Found {
    for text in ODD_TEXTS.map(str::to_owned).into_iter().chain(["x".repeat(1 << 20)]) {
        let _decided = port.approve(question(&["allow_once", "deny"], &text)).await;
    }
    decided(&*port, &crate::approvals::CHOICES).await.map_err(|seen| format!("{seen}, after unusual texts"))
}
