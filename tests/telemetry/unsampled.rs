//! A turn whose caller is not sampled has no span, neither ours nor that of a tool server which others wrote.

use std::time::Duration;

use bob::AgentRuntime;
use bob::model::ScriptedReply;
use bob::telemetry::{Telemetry, TelemetrySettings};
use serde_json::json;

use crate::support::runtime::{build, say, scripted, within};
use crate::telemetry::others;

const NOT_SAMPLED: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SAMPLED: &str = "5bf92f3577b34da6a3ce929d0e0e4736";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn neither_we_nor_a_server_of_others_send_a_span_of_a_turn_whose_caller_is_not_sampled() {
    let Some((receiver, _ends_with_the_test)) = others::start() else { return };
    let telemetry = Telemetry::start(TelemetrySettings::new(&receiver.address, "tests")).unwrap();
    let call = ScriptedReply::call(others::CLOCK, json!({ "timezone": "UTC" }));
    let builder = scripted(vec![call, ScriptedReply::text("Done.")]).sink(telemetry.clone());
    let runtime = build(builder.tool_server(others::clock(&receiver))).await;
    // By one process of the server, which sends spans in the order in which they end.
    for (trace, flag) in [(NOT_SAMPLED, "00"), (SAMPLED, "01")] {
        let mut request = say("what time is it?");
        request.traceparent = Some(format!("00-{trace}-00f067aa0ba902b7-{flag}"));
        assert_eq!(within(runtime.run(request)).await.unwrap().response().content, "Done.");
    }
    let sent = tokio::task::spawn_blocking(move || {
        telemetry.flush(Duration::from_secs(60));
        (receiver.trace(SAMPLED, 5), receiver.trace(NOT_SAMPLED, 0))
    });
    let (sampled, not_sampled) = sent.await.unwrap();
    assert_eq!((sampled.len(), not_sampled), (5, Vec::new()), "{sampled:#?}");
    let named = |name: &str| sampled.iter().find(|span| span.name == name).unwrap();
    assert_eq!(named(others::SPAN_OF_CLOCK).parent, named(&format!("execute_tool {}", others::CLOCK)).id);
    within(runtime.shutdown()).await;
}
