//! A model's provider decides who is asked.

use super::*;
use crate::llm::scripted::{ScriptedLlm, ScriptedReply};
use crate::llm::testing::{model, request};

fn says(text: &str) -> Arc<dyn LlmPort> {
    Arc::new(ScriptedLlm::replies(vec![ScriptedReply::text(text)]))
}

#[tokio::test]
async fn each_provider_leads_to_its_port() {
    let router = Router::new().with("a", says("from a")).with("b", says("from b"));
    for (name, text) in [("a:m", "from a"), ("b:m", "from b")] {
        let answer = router.complete(request("x"), &model(name)).await.unwrap();
        assert_eq!((answer.text.as_str(), answer.model.as_str()), (text, name));
    }
    let error = router.complete(request("x"), &model("c:m")).await.unwrap_err();
    assert_eq!(error.message, r#"provider "c" is not known: use one of a, b"#);
    assert_eq!(router.capabilities(&model("c:m")).unwrap_err().kind, LlmErrorKind::UnknownProvider);
    let router = router.otherwise(says("from anybody"));
    assert_eq!(router.complete(request("x"), &model("c:m")).await.unwrap().text, "from anybody");
}
