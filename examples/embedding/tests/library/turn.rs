//! Every port of the library, implemented by a program that depends on the library alone, in one runtime.

use crate::ports::approvals::{Decided, OnThePhone};
use crate::ports::model::{Awake, Digest, Scribe};
use crate::ports::store::Shelf;
use crate::ports::tools::{Arithmetic, Handbook};
use crate::ports::watching::{Kept, Steps};
use bob::approvals::{ApprovalsMode, PermissionMode};
use bob::config::{CondenseRules, TurnConfig};
use bob::model::{Message, Router};
use bob::tools::skills::SkillRules;
use bob::{AgentRequest, AgentRuntime, ModelName, RuntimeBuilder, SessionId};
use std::sync::Arc;

#[tokio::test]
async fn a_turn_goes_through_every_port() {
    let (model, person, memory, sink) =
        (Arc::<Scribe>::default(), Arc::<OnThePhone>::default(), Arc::<Decided>::default(), Arc::<Kept>::default());
    let (steps, digest, handbook) = (Arc::<Steps>::default(), Arc::<Digest>::default(), Arc::<Handbook>::default());
    let router = Router::new().with("own", model.clone());
    let name = ModelName::parse("own:scribe").expect("a name");
    let turn_config = TurnConfig { condense: Some(CondenseRules::default()), ..TurnConfig::new(name.clone()) };
    let runtime = RuntimeBuilder::new(name)
        .turn_config(turn_config)
        .model(Arc::new(router))
        .local_tools(false)
        .tools(Arc::new(Arithmetic))
        .store(Arc::new(Shelf::default()))
        .permission_mode(PermissionMode::Ask)
        .approvals(person.clone())
        .approval_memory(memory.clone())
        .compactor(digest.clone())
        .skills(handbook.clone(), SkillRules::default())
        .sink(sink.clone())
        .hook(steps.clone())
        .build()
        .await
        .expect("a runtime");
    let session = SessionId::parse("s").expect("an id");
    for turn in 1..=8 {
        let request = AgentRequest::text(
            session.clone(),
            format!("Add {turn} and 1, by the arithmetic handbook.{}", " ".repeat(2_000)),
        );
        let request = AgentRequest { approvals: ApprovalsMode::Wait, ..request };
        let result = runtime.run(request).await.expect("it is taken");
        assert_eq!(result.response().content, format!("It is {}.", turn + 1), "{result:?}");
    }
    runtime.shutdown().await;

    let requests = model.requests();
    assert!(
        requests
            .iter()
            .any(|request| request.messages.iter().any(|message| matches!(&**message, Message::Tool { .. })))
    );
    assert!(
        requests[0].system.contains("Count on your fingers."),
        "the skill is in the prompt: {}",
        requests[0].system
    );
    assert_eq!(person.asked(), 1, "and then the memory knows");
    assert_eq!(memory.kept(), 1);
    assert!(digest.condensed() > 0, "a long history is condensed");
    assert_eq!(sink.outcomes(), 8);
    assert!(steps.handled() > 8);
    assert!(handbook.looked_up() >= 8);
}

#[tokio::test]
async fn a_provider_is_waited_for_until_it_is_ready() {
    use bob::model::{Readiness, providers::ProviderConfig};
    use bob::{AgentRuntimeExt, Providers};
    let awake = Arc::new(Awake::never());
    let config = ProviderConfig {
        name: "asleep".into(),
        base_url: Some("http://127.0.0.1:9/v1".into()),
        ..ProviderConfig::default()
    };
    let llm = Providers::new()
        .configured(config)
        .build()
        .expect("a model")
        .with_readiness(awake.clone() as Arc<dyn Readiness>);
    let builder = RuntimeBuilder::new(ModelName::parse("asleep:m").expect("a name")).model(Arc::new(llm));
    let runtime = builder.build().await.expect("a runtime");
    let error = runtime.ask("Are you there?").await.expect_err("it is asleep");
    assert!(error.to_string().contains("it will not wake up"), "{error}");
    assert!(awake.asked() > 0);
    runtime.shutdown().await;
}
