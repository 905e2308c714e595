//! The rules of a memory of approvals.

use crate::approvals::{ApprovalMemory, Standing};
use crate::context::{Identity, RequestContext};
use crate::tools::ToolName;
use bob_actors::contract::{Found, ODD_TEXTS, Suite, holds};
use serde_json::json;
use std::sync::Arc;

type Memory = Arc<dyn ApprovalMemory>;

pub(super) async fn check(make: impl Fn() -> Memory) -> Suite {
    let mut suite = Suite::new("memory of approvals");
    suite.rule("an empty memory recalls nothing", async { empty(&make()) }).await;
    suite.rule("a decision is recalled as it was made", async { recalled(&make()) }).await;
    suite.rule("a decision is recalled for its tool only", async { of_its_tool(&make()) }).await;
    suite.rule("a decision is recalled for its tenant and principal only", async { apart(&make()) }).await;
    suite.rule("decisions about different arguments are all recalled", async { several(&make()) }).await;
    suite.rule("a decision that was just made is not taken back", async { holds_still(&make()) }).await;
    suite
}

fn tool(name: &str) -> ToolName {
    ToolName::new(name)
}

fn identity(tenant: Option<&str>, principal: Option<&str>) -> Identity {
    let context = match (tenant, principal) {
        (None, None) => RequestContext::default(),
        (Some(tenant), None) => RequestContext::of_tenant(tenant),
        (None, Some(principal)) => RequestContext::of_principal(principal),
        (Some(tenant), Some(principal)) => RequestContext::of_tenant(tenant).principal(principal),
    };
    Identity::of(Some(&context))
}

fn identities() -> Vec<Identity> {
    let all: [(Option<&str>, Option<&str>); 6] = [
        (None, None),
        (Some("acme"), None),
        (None, Some("acme")),
        (Some("acme"), Some("ann")),
        (Some("acme"), Some("Ann")),
        (Some("globex"), Some("ann")),
    ];
    all.map(|(tenant, principal)| identity(tenant, principal)).to_vec()
}

fn standing(name: &str, identity: Identity, text: &str) -> Arc<Standing> {
    Arc::new(Standing {
        tool: tool(name),
        definition: "d1".to_owned(),
        text: text.to_owned(),
        arguments: Some(json!({"text": text})),
        like: Vec::new(),
        allowed: false,
        reason: text.to_owned(),
        for_good: true,
        identity,
    })
}

fn is(found: &[Arc<Standing>], expected: &[Arc<Standing>], of: &Identity) -> Found {
    let is_same = found.len() == expected.len() && expected.iter().all(|one| found.contains(one));
    holds(is_same, || format!("{found:?} for {of:?}, and not {expected:?}"))
}

fn empty(memory: &Memory) -> Found {
    identities().iter().try_for_each(|one| is(&memory.recall(&tool("my/tool"), one), &[], one))
}

fn recalled(memory: &Memory) -> Found {
    for (number, text) in ODD_TEXTS.into_iter().enumerate() {
        let (name, owner) = (format!("my/tool-{number}"), identity(Some("acme"), Some("ann")));
        let mut decided = Standing::clone(&standing(&name, owner.clone(), text));
        decided.allowed = number % 2 == 0;
        match number % 3 {
            0 => decided.arguments = None,
            1 => decided.like = vec![format!("{name}(*)")],
            _exact => {}
        }
        let kept = Arc::new(decided);
        memory.keep(Arc::clone(&kept));
        is(&memory.recall(&tool(&name), &owner), &[kept], &owner)?;
    }
    Ok(())
}

fn of_its_tool(memory: &Memory) -> Found {
    let owner = identity(None, Some("ann"));
    memory.keep(standing("my/tool", owner.clone(), "one"));
    is(&memory.recall(&tool("my/tools"), &owner), &[], &owner)?;
    is(&memory.recall(&tool("My/tool"), &owner), &[], &owner)
}

fn apart(memory: &Memory) -> Found {
    let all: Vec<_> = identities().into_iter().map(|one| standing("my/tool", one, "one")).collect();
    for kept in &all {
        memory.keep(Arc::clone(kept));
    }
    all.iter().try_for_each(|kept| {
        let found = memory.recall(&tool("my/tool"), &kept.identity);
        is(&found, std::slice::from_ref(kept), &kept.identity)
    })
}

fn several(memory: &Memory) -> Found {
    let owner = identity(Some("acme"), None);
    let all: Vec<_> = ["one", "two", "three"].map(|text| standing("my/tool", owner.clone(), text)).to_vec();
    for kept in &all {
        memory.keep(Arc::clone(kept));
    }
    is(&memory.recall(&tool("my/tool"), &owner), &all, &owner)
}

fn holds_still(memory: &Memory) -> Found {
    let kept = standing("my/tool", identity(Some("acme"), Some("ann")), "one");
    memory.keep(Arc::clone(&kept));
    holds(!memory.is_taken_back(&kept), || "it is taken back".to_owned())
}
