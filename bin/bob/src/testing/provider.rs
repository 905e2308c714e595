//! The rules of the ports beside a provider: whether it can be asked, and what its models can do.

use super::rules::{beside, dropped};
use crate::ModelName;
use crate::model::Readiness;
use crate::model::providers::KnownModels;
use bob_actors::contract::{Found, ODD_TEXTS, Suite, holds};
use std::sync::Arc;

pub(super) async fn readiness(make: impl Fn() -> Arc<dyn Readiness>, provider: &str) -> Suite {
    let of = || Asked { port: make(), provider };
    let mut suite = Suite::new("readiness port");
    suite.rule("its provider is ready, or an error says why it is not", async { of().answered().await }).await;
    suite.rule("questions beside each other are all answered", of().beside()).await;
    suite.rule("a wait that is dropped leaves the port usable", of().withdrawn()).await;
    suite.rule("a provider that it does not know is answered, without a panic", of().unknown()).await;
    suite
}

struct Asked<'a> {
    port: Arc<dyn Readiness>,
    provider: &'a str,
}

impl Asked<'_> {
    async fn answered(&self) -> Found {
        match self.port.ready(self.provider).await {
            Ok(()) => Ok(()),
            Err(error) => holds(!error.message.trim().is_empty(), || format!("an error without a text: {error:?}")),
        }
    }

    async fn beside(self) -> Found {
        beside(|| self.answered()).await
    }

    async fn withdrawn(self) -> Found {
        dropped(|| self.port.ready(self.provider), || self.answered()).await
    }

    async fn unknown(self) -> Found {
        for provider in ODD_TEXTS {
            if self.port.starts(provider) {
                let _ready_or_not = self.port.ready(provider).await;
            }
        }
        self.answered().await.map_err(|seen| format!("{seen}, after unknown providers"))
    }
}

pub(super) async fn known_models(make: impl Fn() -> Arc<dyn KnownModels>, model: &ModelName) -> Suite {
    let mut suite = Suite::new("port of known models");
    suite.rule("something is known of its model, and the same the second time", async { known(&*make(), model) }).await;
    suite.rule("a model that it does not know is answered, without a panic", async { unknown(&*make(), model) }).await;
    suite
}

fn known(port: &dyn KnownModels, model: &ModelName) -> Found {
    let (first, second) = (port.abilities(model), port.abilities(model));
    holds(first.is_some(), || format!("nothing is known of {model}"))?;
    holds(first == second, || format!("{first:?} and then {second:?} of {model}"))
}

fn unknown(port: &dyn KnownModels, model: &ModelName) -> Found {
    let long = "x".repeat(200);
    let names =
        ["nobody:x", "nobody:é😀", "nobody:a/b:c", &format!("nobody:{long}"), &format!("{}:x", model.provider())];
    // What is no name of a model is not asked about.
    for name in names.into_iter().filter_map(|name| ModelName::parse(name).ok()) {
        let _known_or_not = port.abilities(&name);
    }
    known(port, model).map_err(|seen| format!("{seen}, after unknown models"))
}
