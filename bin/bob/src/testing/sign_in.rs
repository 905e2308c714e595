//! The rules of a port that shows the page of an authorization server.

use super::rules::{beside, dropped};
use crate::tools::servers::{ServerId, SignInPort};
use bob_actors::contract::{Found, ODD_TEXTS, Suite};
use std::sync::Arc;

/// A page, as a server has it.
const PAGE: &str = "https://auth.example/authorize?client_id=bob&state=s1";

pub(super) async fn check(make: impl Fn() -> Arc<dyn SignInPort>) -> Suite {
    let mut suite = Suite::new("sign-in port");
    suite.rule("a page is shown without waiting for the person", shown(&*make())).await;
    suite.rule("pages beside each other are all shown", together(&*make())).await;
    suite.rule("a page that is given up leaves the port usable", given_up(&*make())).await;
    suite.rule("an unusual server and address are shown, without a panic", unusual(&*make())).await;
    suite
}

async fn shown(port: &dyn SignInPort) -> Found {
    port.open(&ServerId::new("notes"), PAGE).await;
    Ok(())
}

async fn together(port: &dyn SignInPort) -> Found {
    beside(|| shown(port)).await
}

async fn given_up(port: &dyn SignInPort) -> Found {
    let server = ServerId::new("notes");
    dropped(|| port.open(&server, PAGE), || shown(port)).await
}

async fn unusual(port: &dyn SignInPort) -> Found {
    for text in ODD_TEXTS {
        port.open(&ServerId::new(text), &format!("{PAGE}&scope={text}")).await;
    }
    shown(port).await
}
