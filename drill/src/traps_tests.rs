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
    let id = traps.arm(Trap::new(Target::AnyTurn, Edge::Before("Done"), Fault::Fail).after(1).times(2));
    let springs = |place: &ActorPath, edge| traps.spring(place, edge);
    assert_eq!(springs(&turn("a"), Edge::Before("Done")), None, "let by");
    assert_eq!(springs(&room("store"), Edge::Before("Done")), None, "somebody else");
    assert_eq!(springs(&turn("a"), Edge::After("Done")), None, "elsewhere");
    assert_eq!(springs(&turn("b"), Edge::Before("Done")), Some(Fault::Fail));
    assert_eq!(springs(&turn("a"), Edge::Before("Done")), Some(Fault::Fail));
    assert_eq!(springs(&turn("a"), Edge::Before("Done")), None);
    assert_eq!((traps.armed(), traps.triggered(id), traps.triggered_in_all()), (0, 2, 2));
    assert!(traps.table().standing.is_empty());
}

#[test]
fn the_next_message_is_one_of_the_mailbox() {
    let traps = Traps::default();
    traps.arm(Trap::new(Target::Room("llm".into()), Edge::Next, Fault::Kill));
    for edge in [Edge::Before("Starting"), Edge::Before("SupervisionEvent"), Edge::After("Infer")] {
        assert_eq!(traps.spring(&room("llm"), edge), None);
    }
    assert_eq!(traps.spring(&room("llm"), Edge::Before("Infer")), Some(Fault::Kill));
}

#[test]
fn a_trap_that_was_taken_away_does_nothing_and_one_for_no_times_never_stood() {
    let traps = Traps::default();
    let id = traps.arm(Trap::new(Target::AnyTurn, Edge::Next, Fault::Panic));
    traps.arm(Trap::new(Target::AnyTurn, Edge::Next, Fault::Panic).times(0));
    assert_eq!(traps.armed(), 1);
    traps.disarm(id);
    traps.disarm(id);
    assert_eq!(traps.armed(), 0);
    assert!(traps.pass(&turn("a"), Edge::Before("Start")).is_ok());
}

#[test]
fn each_harm_is_what_it_says() {
    let traps = Traps::default();
    let arm = |fault| traps.arm(Trap::new(Target::AnyTurn, Edge::Next, fault));
    let pass = || traps.pass(&turn("a"), Edge::Before("Start"));
    arm(Fault::Fail);
    assert!(!pass().unwrap_err().is::<Kill>());
    arm(Fault::Kill);
    assert!(pass().unwrap_err().is::<Kill>());
    arm(Fault::Panic);
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(pass)).is_err());
    arm(Fault::Block { ms: 20 });
    let begun = std::time::Instant::now();
    assert!(pass().is_ok() && begun.elapsed() >= Duration::from_millis(20));
}
