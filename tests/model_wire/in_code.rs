//! Providers that are configured in code, without a file.

use std::sync::Arc;

use bob::{AgentRuntime, AgentRuntimeExt, AskError, ModelName, Providers, RuntimeBuilder};

use super::client::KEY;
use crate::support::provider::FakeProvider;
use crate::support::reply::Reply;
use crate::support::runtime::{build, within};

#[tokio::test]
async fn a_question_needs_a_provider_a_runtime_and_no_more() {
    let provider = FakeProvider::start([Reply::text(r#"{"type":"final","content":"because of the air"}"#)]);
    let model = Providers::new().endpoint("lab", provider.base_url(), Some(KEY.to_owned())).build().unwrap();
    let builder = RuntimeBuilder::new(ModelName::parse("lab:small").unwrap()).model(Arc::new(model));
    let runtime = build(builder).await;
    assert_eq!(within(runtime.ask("Why is the sky blue?")).await.unwrap(), "because of the air");
    within(runtime.shutdown()).await;
    let authorization = provider.requests()[0].header("authorization").map(str::to_owned);
    assert_eq!(authorization, Some(format!("Bearer {KEY}")));
}

#[tokio::test]
async fn a_missing_or_empty_key_is_an_error_that_says_what_to_do() {
    let error = Providers::new().provider("openai", " ").build().unwrap_err();
    assert_eq!(error.to_string(), "the key of provider openai is empty");
    // Without the environment, whatever it has.
    let model = Providers::new().build().unwrap();
    let builder = RuntimeBuilder::new(ModelName::parse("openai:gpt-4o-mini").unwrap()).model(Arc::new(model));
    let runtime = build(builder).await;
    let error = within(runtime.ask("hello?")).await.unwrap_err();
    assert!(matches!(error, AskError::Refused(_)), "{error:?}");
    assert!(error.to_string().contains("OPENAI_API_KEY"), "{error}");
    within(runtime.shutdown()).await;
    let unknown = Providers::new().provider("nowhere", KEY).build().unwrap_err();
    assert!(unknown.to_string().contains("nowhere") && !unknown.to_string().contains(KEY), "{unknown}");
}
