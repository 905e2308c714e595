//! Records as they are written: their text is a contract with stores that exist.

use super::*;
use expect_test::{Expect, expect};

fn check(fact: Fact, expected: Expect) {
    expected.assert_eq(&serde_json::to_string(&*record(7, fact)).unwrap());
}

#[test]
fn records_as_they_are_written() {
    check(
        Fact::Started { model: model(), selected: None },
        expect![[
            r#"{"format":4,"id":"1-7","session":"s","version":7,"epoch":1,"turn":"t1","at":1700000000000,"kind":"started","body":{"model":"scripted:m"}}"#
        ]],
    );
    check(
        Fact::Intent { call: CallId::new("c1"), traits: CallTraits { read_only: false, idempotent: true }, task: None },
        expect![[
            r#"{"format":4,"id":"1-7","session":"s","version":7,"epoch":1,"turn":"t1","at":1700000000000,"kind":"intent","body":{"call":"c1","traits":{"read_only":false,"idempotent":true}}}"#
        ]],
    );
    check(
        result(1, "local/read", CallStatus::Ok),
        expect![[
            r#"{"format":4,"id":"1-7","session":"s","version":7,"epoch":1,"turn":"t1","at":1700000000000,"kind":"result","body":{"call":"c1","name":"local/read","status":"ok","output":{"parts":[{"type":"text","text":"out"}],"is_error":false},"duration_ms":3}}"#
        ]],
    );
    check(
        Fact::Answered(Box::new(Answered::bare("", vec![call(2, "local/read")], cost()))),
        expect![[
            r#"{"format":4,"id":"1-7","session":"s","version":7,"epoch":1,"turn":"t1","at":1700000000000,"kind":"answered","body":{"text":"","calls":[{"id":"c2","name":"local/read","arguments":{"a":1},"argument_bytes":7}],"cost":{"usage":{"input_tokens":10,"output_tokens":5,"total_tokens":15,"cached_input_tokens":null,"cache_write_tokens":null,"reasoning_tokens":null},"prompt_bytes":40,"stop_reason":"tool_calls","response_id":"resp","model":"scripted:m","latency_ms":7}}}"#
        ]],
    );
    check(
        resumed(2, None),
        expect![[
            r#"{"format":4,"id":"1-7","session":"s","version":7,"epoch":1,"turn":"t1","at":1700000000000,"kind":"resumed","body":{"submission":"t2","reply":"blue"}}"#
        ]],
    );
    check(
        suspended(SuspendReason::ApprovalRequired),
        expect![[
            r#"{"format":4,"id":"1-7","session":"s","version":7,"epoch":1,"turn":"t1","at":1700000000000,"kind":"outcome","body":{"finish_reason":"suspended","guard_reason":null,"content":"bye","suspended":{"reason":"approval_required","token":"secret-1","question":"which?","expires_at":1},"error":null}}"#
        ]],
    );
}
