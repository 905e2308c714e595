use super::*;

fn turn(name: &str) -> ActorPath {
    ActorPath::Session(SessionId::parse(name).unwrap())
}

fn room(path: &str) -> ActorPath {
    ActorPath::Room(path.into())
}

#[test]
fn a_trap_lets_by_springs_and_is_gone() {
    let traps = Traps::default();
    let id = traps.arm(Trap::new(Victim::AnyTurn, Edge::Before("Done"), Harm::Fail).after(1).times(2));
    let springs = |place: &ActorPath, edge| traps.spring(place, edge);
    assert_eq!(springs(&turn("a"), Edge::Before("Done")), None, "let by");
    assert_eq!(springs(&room("store"), Edge::Before("Done")), None, "somebody else");
    assert_eq!(springs(&turn("a"), Edge::After("Done")), None, "elsewhere");
    assert_eq!(springs(&turn("b"), Edge::Before("Done")), Some(Harm::Fail));
    assert_eq!(springs(&turn("a"), Edge::Before("Done")), Some(Harm::Fail));
    assert_eq!(springs(&turn("a"), Edge::Before("Done")), None);
    assert_eq!((traps.armed(), traps.sprung(id), traps.sprung_in_all()), (0, 2, 2));
    assert!(traps.table().standing.is_empty());
}

#[test]
fn the_next_message_is_one_of_the_mailbox() {
    let traps = Traps::default();
    traps.arm(Trap::new(Victim::Room("llm".into()), Edge::Next, Harm::Kill));
    for edge in [Edge::Before("Starting"), Edge::Before("SupervisionEvent"), Edge::After("Infer")] {
        assert_eq!(traps.spring(&room("llm"), edge), None);
    }
    assert_eq!(traps.spring(&room("llm"), Edge::Before("Infer")), Some(Harm::Kill));
}

#[test]
fn a_trap_that_was_taken_away_does_nothing_and_one_for_no_times_never_stood() {
    let traps = Traps::default();
    let id = traps.arm(Trap::new(Victim::AnyTurn, Edge::Next, Harm::Panic));
    traps.arm(Trap::new(Victim::AnyTurn, Edge::Next, Harm::Panic).times(0));
    assert_eq!(traps.armed(), 1);
    traps.disarm(id);
    traps.disarm(id);
    assert_eq!(traps.armed(), 0);
    assert!(traps.pass(&turn("a"), Edge::Before("Start")).is_ok());
}

#[test]
fn each_harm_is_what_it_says() {
    let traps = Traps::default();
    let arm = |harm| traps.arm(Trap::new(Victim::AnyTurn, Edge::Next, harm));
    let pass = || traps.pass(&turn("a"), Edge::Before("Start"));
    arm(Harm::Fail);
    assert!(!pass().unwrap_err().is::<Kill>());
    arm(Harm::Kill);
    assert!(pass().unwrap_err().is::<Kill>());
    arm(Harm::Panic);
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(pass)).is_err());
    arm(Harm::Block { ms: 20 });
    let begun = std::time::Instant::now();
    assert!(pass().is_ok() && begun.elapsed() >= Duration::from_millis(20));
}
