use super::*;
use crate::soak::checker::evidence::SessionReports;
use crate::soak::wire::Answer;

fn claim(at: u64, who: &str, session: &str, epoch: u64) -> (u64, String, String, Option<u64>) {
    (at, who.to_owned(), session.to_owned(), Some(epoch))
}

fn answer(at: u64) -> (u64, Answer) {
    let answer = r#"{"session":"s","request":"t","turn":"t","reason":"final","content":"","saved":true,"steps":1,
        "calls":[],"error":null,"took_us":1,"cancel":null}"#;
    (at, serde_json::from_str(answer).unwrap())
}

#[test]
fn a_session_goes_on_with_the_claim_of_another_worker() {
    let mut evidence = Evidence::default();
    let asked = |at| SessionReports { asked: vec![(at, "t0".to_owned())], ..SessionReports::default() };
    evidence.heard = ["owned", "idle", "given-back", "of-another"].map(|name| (name.to_owned(), asked(50))).into();
    evidence.heard.insert("idle".to_owned(), SessionReports::default());
    let released = (90, "r0.0".to_owned(), "given-back".to_owned(), None);
    let mut claims = vec![released, claim(60, "r1.0", "of-another", 1), claim(500, "r1.0", "of-another", 2)];
    for session in ["owned", "idle", "given-back"] {
        claims.extend([claim(60, "r0.0", session, 1), claim(400, "r1.0", session, 2)]);
    }
    evidence.shared.claims = claims;
    evidence.shared.strikes.push((100, Kind::ReplicaKill, "r0.0".to_owned()));
    let (target, session) = ("r0.0".to_owned(), "owned".to_owned());
    let gone_on = GoneOn { kind: Kind::ReplicaKill, struck: 100, target, session, after_ms: 300 };
    assert_eq!(resumptions(&evidence), [gone_on]);
    evidence.heard.get_mut("owned").unwrap().answers.push(answer(450));
    let numbers = ReplicaNumbers::of(&evidence);
    assert_eq!((numbers.kills, numbers.after_kill.count, numbers.late_after_kill), (1, 1, 0));
    evidence.heard.get_mut("owned").unwrap().answers.push(answer(350));
    assert_eq!(resumptions(&evidence), [], "its outcome was there before");
}

#[test]
fn a_database_that_restarted_goes_on_with_the_next_outcome() {
    let mut evidence = Evidence::default();
    let answers = vec![answer(990), answer(1_010), answer(2_500)];
    evidence.heard.insert("s".to_owned(), SessionReports { answers, ..SessionReports::default() });
    evidence.shared.strikes.push((1_000, Kind::DatabaseRestart, "database".to_owned()));
    assert_eq!(after_restarts(&evidence), [1_500]);
}
