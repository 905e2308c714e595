//! Sessions that work for each other, of which the last one asks a person: the time of those above goes on when one in
//! the middle ends.

use super::*;
use bob_messages::ids::CallId;
use bob_messages::options::{ParentTurn, SessionOptions};
use bob_messages::tools::AgentLine;

fn named(name: &str) -> SessionId {
    SessionId::parse(name).unwrap()
}

/// An input whose turn works for a call of the turn `of` of the session `above`.
fn works_for(fixture: &Fixture, (session, turn): (&str, &str), (above, of): (&str, &str)) -> PendingReply {
    let line = Arc::new(AgentLine { agents: vec!["a".to_owned()], levels: 3 });
    let parent = ParentTurn {
        session: named(above),
        turn: TurnId::new(of),
        call: CallId::new("c00000001"),
        depth: 1,
        line: Some(line),
        on_parent_end: None,
    };
    let options = SessionOptions { parent: Some(parent), ..SessionOptions::default() };
    let input = TurnInput { options: Some(Arc::new(options)), ..(*input(turn, limits(90_000))).clone() };
    let (reply, pending) = Reply::channel();
    fixture.tell(SessionsMessage::Submit {
        session: named(session),
        input: Arc::new(input),
        turn_config: turn_config(),
        is_repeated: false,
        reply,
    });
    pending
}

#[tokio::test(start_paused = true)]
async fn the_time_above_goes_on_when_a_session_between_ends() {
    for crashes in [false, true] {
        let model = ScriptedLlm::from_fn(|request| match said(request).starts_with("ask") {
            true => ScriptedReply::call("test/risky", serde_json::json!({})),
            false => ScriptedReply::Stall,
        });
        let fixture = Fixture::new(model).await;
        let top = fixture.submit("top", limits(4_000));
        fixture.until(1, 1, 0).await;
        let middle = works_for(&fixture, ("b", "middle"), ("s", "top"));
        fixture.until(2, 1, 0).await;
        let last = works_for(&fixture, ("c", "ask"), ("b", "middle"));
        tokio::time::sleep(Duration::from_secs(60)).await;
        let began = Instant::now();
        if crashes {
            for crash in 0..4 {
                let mut children = fixture.tree.rooms.sessions.actor().unwrap().get_cell().get_children();
                children.sort_by_key(|child| child.get_id().pid());
                // Started second at first, and last when it was started again.
                let at = if crash == 0 { 1 } else { children.len() - 1 };
                children[at].kill();
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        } else {
            fixture.tell(SessionsMessage::Cancel {
                session: named("b"),
                turn: None,
                tenant: None,
                reply: Reply::to(|_there| ()),
            });
        }
        assert_ne!(paid(middle).await.finish_reason, FinishReason::Final);
        assert_eq!(paid(last).await.finish_reason, FinishReason::Cancelled, "{crashes}");
        let outcome = tokio::time::timeout(Duration::from_secs(600), paid(top)).await.expect("its time goes on");
        assert_eq!(outcome.guard_reason, Some(GuardReason::TurnTimeout), "{crashes}");
        assert!(began.elapsed() <= Duration::from_millis(4_100), "{:?}", began.elapsed());
    }
}
