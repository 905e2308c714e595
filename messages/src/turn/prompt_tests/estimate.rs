//! How many tokens a prompt is taken to have.

use super::*;

#[test]
fn the_token_estimate_follows_what_the_provider_counted() {
    let turn_config = turn_config(ToolModeChoice::Native);
    let estimate = |counted: Vec<Fact>| {
        let built = native(&turn_config, &session(&"x".repeat(10_000), counted));
        (built.estimated_tokens, built.request.bytes() as u64)
    };
    let after = |input_tokens, prompt_bytes| {
        let said = Fact::Malformed {
            text: "x".into(),
            complaint: "no".into(),
            cost: Box::new(cost(input_tokens, prompt_bytes)),
        };
        estimate(vec![said])
    };
    let (tokens, bytes) = estimate(vec![]);
    assert_eq!(tokens, bytes * 250 / 1_000, "four bytes a token until the provider counted");
    let (tokens, bytes) = after(500, 1_000);
    assert_eq!(tokens, bytes / 2, "two bytes a token as counted");
    assert_eq!(after(1, 1_000_000).0, after(1, 1_000_000).1 * 50 / 1_000, "never less than one in twenty");
    assert_eq!(after(1_000_000, 1).0, after(1_000_000, 1).1 * 2, "never more than two a byte");
    assert_eq!(after(0, 1_000).0, after(0, 1_000).1 * 250 / 1_000, "what was not counted changes nothing");
}

#[test]
fn until_the_provider_counted_the_port_says_how_many_tokens_a_prompt_has() {
    let turn_config = turn_config(ToolModeChoice::Native);
    let of = |tokens_per_kb, counted: Vec<Fact>| {
        let session = session(&"x".repeat(10_000), counted);
        let built = build_of(&turn_config, &session, (Capabilities::default(), tokens_per_kb), &tools());
        (built.estimated_tokens, built.request.bytes() as u64)
    };
    let (tokens, bytes) = of(1_000, vec![]);
    assert_eq!(tokens, bytes, "a token for each byte, as the port says");
    let cost = Box::new(cost(500, 1_000));
    let (tokens, bytes) = of(1_000, vec![Fact::Malformed { text: "x".into(), complaint: "no".into(), cost }]);
    assert_eq!(tokens, bytes / 2, "two bytes a token, as the provider counted");
    let few = Capabilities { context_tokens: 1_000, ..Capabilities::default() };
    let dropped = |per_kb| build_of(&turn_config, &long(), (few.clone(), per_kb), &Arc::default()).dropped;
    assert_eq!((dropped(TOKENS_PER_KB), dropped(1_000) > 10), (0, true), "and how much of the history fits");
}
