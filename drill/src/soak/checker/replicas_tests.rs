use super::*;

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
