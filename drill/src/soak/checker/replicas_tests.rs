use super::*;
use crate::soak::checker::evidence::SessionReports;

fn claim(at: u64, who: &str, session: &str, epoch: u64) -> (u64, String, String, Option<u64>) {
    (at, who.to_owned(), session.to_owned(), Some(epoch))
}

fn failed(evidence: &Evidence) -> Vec<&'static str> {
    check(evidence).into_iter().filter(|check| !check.holds).map(|check| check.name).collect()
}

#[test]
fn each_check_finds_its_own() {
    assert_eq!(failed(&Evidence::default()), Vec::<&str>::new());
    let of = |change: fn(&mut Evidence)| {
        let mut evidence = Evidence::default();
        change(&mut evidence);
        failed(&evidence)
    };
    assert_eq!(of(|evidence| evidence.shared.gaps.push("s1".to_owned())), ["gaps in the versions"]);
    assert_eq!(of(|evidence| evidence.shared.waiting.push("s1".to_owned())), ["messages left in the inbox"]);
    assert_eq!(
        of(|evidence| evidence.shared.owned.push(("s1".to_owned(), "r0.0".to_owned()))),
        ["sessions left with an owner"]
    );
    assert_eq!(of(|evidence| evidence.seen.ended.push("r1.0".to_owned())), ["replicas ended by themselves"]);
    assert_eq!(of(|evidence| evidence.seen.died = Some("silence".to_owned())), ["soak ended too early"]);
    assert_eq!(of(|evidence| evidence.shared.refused.push("s1t1".to_owned())), ["messages refused"]);
    let twice = of(|evidence| evidence.shared.claims = vec![claim(1, "r0.0", "s1", 7), claim(2, "r1.0", "s1", 7)]);
    assert_eq!(twice, ["epochs given twice"]);
    let rises = of(|evidence| evidence.shared.claims = vec![claim(1, "r0.0", "s1", 7), claim(2, "r1.0", "s2", 7)]);
    assert_eq!(rises, Vec::<&str>::new(), "epochs are those of a session");
    let killed = of(|evidence| {
        evidence.shared.owned.push(("s1".to_owned(), "r0.0".to_owned()));
        evidence.shared.strikes.push((1, Kind::ReplicaKill, "r0.0".to_owned()));
    });
    assert_eq!(killed, Vec::<&str>::new(), "a killed worker gives nothing back");
}

#[test]
fn an_owner_that_was_stopped_may_enter_again_and_one_that_lives_may_not() {
    let mut evidence = Evidence::default();
    evidence.shared.superseded = BTreeMap::from([("r1.0".to_owned(), 1)]);
    assert_eq!(failed(&evidence), ["living owners taken for dead"]);
    evidence.shared.stalls.push((9, "r0.0".to_owned(), 4_000));
    assert_eq!(failed(&evidence), ["living owners taken for dead"], "another one was stopped");
    evidence.shared.stalls.push((9, "r1.0".to_owned(), 4_000));
    assert_eq!(failed(&evidence), Vec::<&str>::new());
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
    assert_eq!(resumptions(&evidence), [GoneOn { kind: Kind::ReplicaKill, after_ms: 300 }]);
    let numbers = ReplicaNumbers::of(&evidence);
    assert_eq!((numbers.kills, numbers.after_kill.count, numbers.late_after_kill), (1, 1, 0));
}

#[test]
fn a_database_that_restarted_goes_on_with_the_next_outcome() {
    let answer = |at| {
        let answer = r#"{"session":"s","request":"t","turn":"t","reason":"final","content":"","saved":true,"steps":1,
            "calls":[],"error":null,"took_us":1,"cancel":null}"#;
        (at, serde_json::from_str(answer).unwrap())
    };
    let mut evidence = Evidence::default();
    let answers = vec![answer(990), answer(1_010), answer(2_500)];
    evidence.heard.insert("s".to_owned(), SessionReports { answers, ..SessionReports::default() });
    evidence.shared.strikes.push((1_000, Kind::DatabaseRestart, "database".to_owned()));
    assert_eq!(after_restarts(&evidence), [1_500]);
}
