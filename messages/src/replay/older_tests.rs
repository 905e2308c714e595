//! A journal of a program that chose the skills of a turn once: it is replayed as it is, and a turn that it left open goes
//! on with skills that are chosen again.

use super::{read, replay};
use crate::session_state::Session;
use crate::store::{Fact, Record};
use std::sync::Arc;

/// A turn with a skill and two failed calls in a row, as that program wrote it. Never changed.
const JOURNAL: &str = r#"{"format":3,"id":"1-1","session":"s","version":1,"epoch":1,"turn":null,"at":1700000000000,"kind":"options","body":{"cwd":null,"roots":[],"model":null,"instructions":null,"agent":null,"allow_tools":null,"servers":[],"parent":null}}
{"format":3,"id":"1-2","session":"s","version":2,"epoch":1,"turn":"t1","at":1700000000000,"kind":"input","body":{"turn":"t1","request_id":"t1","at":1700000000000,"parts":[{"type":"text","text":"$paint the wall"}],"labels":{},"model":null,"allow_tools":null,"approvals":"deny","limits":{"max_steps":100,"max_tool_calls":200,"max_consecutive_errors":10,"max_identical_calls":10,"max_total_tokens":0,"turn_timeout_ms":86400000,"progress_timeout_ms":600000,"tool_timeout_ms":120000,"approval_timeout_ms":600000,"suspend_timeout_ms":604800000},"options":null,"traceparent":null,"token":"secret","interactive":true}}
{"format":3,"id":"1-3","session":"s","version":3,"epoch":1,"turn":"t1","at":1700000000000,"kind":"started","body":{"model":"demo:one"}}
{"format":3,"id":"1-4","session":"s","version":4,"epoch":1,"turn":"t1","at":1700000000000,"kind":"skills_selected","body":{"skills":[{"name":"paint","hash":"1f040a8837925e54327e0d25cb95e1de28b87855fc501f48b5aebe943a7ecbf3","score_milli":1150,"form":"whole"}],"budget_bytes":51200}}
{"format":3,"id":"1-5","session":"s","version":5,"epoch":1,"turn":"t1","at":1700000000000,"kind":"answered","body":{"text":"","calls":[{"id":"c00000001","name":"local/read_file","arguments":{"path":"a.txt"},"argument_bytes":16}],"tools":[{"title":"read file","kind":"read"}],"cost":{"usage":{"input_tokens":1113,"output_tokens":8,"total_tokens":1121,"cached_input_tokens":null,"cache_write_tokens":null,"reasoning_tokens":null},"prompt_bytes":4451,"stop_reason":"tool_calls","response_id":null,"model":"demo:one","latency_ms":0}}}
{"format":3,"id":"1-6","session":"s","version":6,"epoch":1,"turn":"t1","at":1700000000000,"kind":"result","body":{"call":"c00000001","name":"local/read_file","status":"error","output":{"parts":[{"type":"text","text":"there is no \"a.txt\""}],"is_error":true},"duration_ms":2}}
{"format":3,"id":"1-7","session":"s","version":7,"epoch":1,"turn":"t1","at":1700000000000,"kind":"answered","body":{"text":"","calls":[{"id":"c00000002","name":"local/read_file","arguments":{"path":"b.txt"},"argument_bytes":16}],"tools":[{"title":"read file","kind":"read"}],"cost":{"usage":{"input_tokens":1144,"output_tokens":8,"total_tokens":1152,"cached_input_tokens":null,"cache_write_tokens":null,"reasoning_tokens":null},"prompt_bytes":4573,"stop_reason":"tool_calls","response_id":null,"model":"demo:one","latency_ms":0}}}
{"format":3,"id":"1-8","session":"s","version":8,"epoch":1,"turn":"t1","at":1700000000000,"kind":"result","body":{"call":"c00000002","name":"local/read_file","status":"error","output":{"parts":[{"type":"text","text":"there is no \"b.txt\""}],"is_error":true},"duration_ms":0}}
{"format":3,"id":"1-9","session":"s","version":9,"epoch":1,"turn":"t1","at":1700000000000,"kind":"answered","body":{"text":"neither is there","calls":[],"cost":{"usage":{"input_tokens":1174,"output_tokens":4,"total_tokens":1178,"cached_input_tokens":null,"cache_write_tokens":null,"reasoning_tokens":null},"prompt_bytes":4695,"stop_reason":"stop","response_id":null,"model":"demo:one","latency_ms":0}}}
{"format":3,"id":"1-10","session":"s","version":10,"epoch":1,"turn":"t1","at":1700000000000,"kind":"outcome","body":{"finish_reason":"final","guard_reason":null,"content":"neither is there","suspended":null,"error":null,"duration_ms":12}}"#;

fn journal() -> Vec<Arc<Record>> {
    read(JOURNAL.lines()).unwrap().into_values().next().unwrap()
}

/// The journal with a steer message behind the results.
fn steered() -> Vec<Arc<Record>> {
    let mut journal = journal();
    let at = journal.iter().rposition(|record| matches!(record.fact, Fact::Result(_))).unwrap() + 1;
    let parts = vec![crate::chat::ContentPart::text("use $another skill")];
    let fact = Fact::Steered { parts, request_id: None, behind: false };
    journal.insert(at, Arc::new(Record { fact, ..(*journal[at - 1]).clone() }));
    for (version, record) in (1..).zip(&mut journal) {
        let id = crate::ids::RecordId::numbered(record.epoch, version);
        *record = Arc::new(Record { version, id, ..(**record).clone() });
    }
    journal
}

#[test]
fn a_journal_without_later_selections_is_replayed_as_it_is() {
    for journal in [journal(), steered()] {
        let replayed = replay(&journal).unwrap_or_else(|difference| panic!("{difference}"));
        assert_eq!((replayed.records, replayed.outcomes), (journal.len(), 1));
    }
}

#[test]
fn a_turn_that_such_a_journal_leaves_open_has_its_causes() {
    let steered = steered();
    let open = steered.iter().rposition(|record| matches!(record.fact, Fact::Steered { .. })).unwrap() + 1;
    let session = Session::fold(steered[0].session.clone(), &steered[..open]);
    let due = session.running().unwrap().reselecting.as_ref().unwrap().due.clone();
    assert_eq!(serde_json::to_string(&due).unwrap(), r#"["tool_errors","steered"]"#);
}
