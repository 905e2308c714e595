//! A model that never stops costs its limit and one request more.

use serde_json::Value;

use crate::secure::fixture::{Fixture, model_at};
use crate::support::provider::FakeProvider;
use crate::support::reply::{INPUT_TOKENS, OUTPUT_TOKENS, Reply};

#[test]
fn g14_an_endless_loop_spends_its_budget_and_one_request_more() {
    let each = INPUT_TOKENS + OUTPUT_TOKENS;
    for (limits, requests, guard) in [
        ("max_total_tokens = 90\nmax_steps = 500\nmax_tool_calls = 500", 90 / each + 1, "max_total_tokens"),
        ("max_total_tokens = 1", 1, "max_total_tokens"),
        ("max_steps = 5", 5, "max_steps"),
        ("max_tool_calls = 3", 4, "max_tool_calls"),
        ("max_identical_calls = 2", 3, "max_identical_calls"),
        ("profile = \"strict\"", 12, ""),
    ] {
        // Each call names another folder, unless identical calls are tested.
        let is_same = limits.contains("identical");
        let provider = FakeProvider::answering(move |body| {
            let number = body["messages"].as_array().map_or(0, Vec::len);
            let path = if is_same { ".".to_owned() } else { format!("./{}", "./".repeat(number)) };
            Reply::call(&format!("c{number}"), "local__list_dir", &serde_json::json!({ "path": path }).to_string())
        });
        let fixture = Fixture::new(&format!("{}[store]\nkind = \"memory\"\n", model_at(&provider.base_url(), limits)));
        let run = fixture.run(["run", "--output", "json", "Go on for ever."]);
        assert_eq!(run.code, Some(3), "{limits}: {run:?}");
        let line: Value = serde_json::from_str(&run.stdout).expect("a line of JSON");
        let asked = provider.requests().len() as u64;
        assert!(asked <= requests, "{limits}: {asked} requests");
        assert!(guard.is_empty() || line["guard_reason"] == guard, "{limits}: {line}");
        assert!(line["usage"]["total_tokens"].as_u64().is_some_and(|spent| spent <= requests * each), "{line}");
    }
}
