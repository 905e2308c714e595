use super::*;

#[test]
fn every_kind_has_one_row_and_a_default_that_can_be_read() {
    for shape in [Shape::Worker, Shape::Replicas] {
        let usual = Chaos::parse("default", shape).unwrap();
        for row in ROWS {
            assert_eq!(usual.rate(row.kind) > 0.0, row.shapes.contains(&shape), "{}", row.name);
            assert_eq!(name(row.kind), row.name);
            assert!(list().contains(row.name));
        }
        assert_eq!(Chaos::parse(&usual.to_text(), shape).unwrap(), usual);
    }
}

#[test]
fn rates_are_set_one_by_one() {
    let chaos = Chaos::parse("mcp-kill=2/s, cancel=5%,overload=12/h", Shape::Worker).unwrap();
    assert_eq!((chaos.rate(Kind::McpKill), chaos.rate(Kind::Cancel)), (2.0, 0.05));
    assert_eq!((chaos.rate(Kind::Overload), chaos.rate(Kind::Llm429)), (12.0 / 3_600.0, 0.0));
    let less = Chaos::parse("default,process-kill=off", Shape::Worker).unwrap();
    assert_eq!((less.rate(Kind::ProcessKill), less.rate(Kind::Llm429)), (0.0, 0.03));
    assert!(Chaos::parse("off", Shape::Worker).unwrap().is_off());
}

#[test]
fn what_cannot_be_a_rate_is_refused_and_says_what_can() {
    for (text, said) in [
        ("mcp-kill=5%", "2/s"),
        ("cancel=1/s", "5%"),
        ("cancel=101%", "5%"),
        ("cancel=-1%", "5%"),
        ("cancel=NaN%", "5%"),
        ("nobody=1/s", "--list-chaos"),
        ("cancel", "--list-chaos"),
        ("cancel=1%,off", "--list-chaos"),
        ("replica-kill=1/m", "--replicas"),
    ] {
        let error = Chaos::parse(text, Shape::Worker).unwrap_err();
        assert!(error.contains(said), "{text}: {error}");
    }
}

#[test]
fn only_some_kinds_are_safe_for_a_configuration_of_a_person() {
    assert_eq!(Chaos::parse("cancel=5%,mcp-kill=1/m,mcp-exit=1/m", Shape::Worker).unwrap().unsafe_kind(), None);
    assert_eq!(Chaos::parse("default", Shape::Worker).unwrap().unsafe_kind(), Some("mcp-stop"));
}
