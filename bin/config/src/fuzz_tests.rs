//! Any text as a configuration, and a good one with a byte changed: never a panic, a place for each complaint, no secret told.

use std::path::Path;

use super::config_tests::placed;
use super::{Config, Environment, Overrides, parse};

const CANARY: &str = "canary-of-the-environment";

/// Reads a text as a configuration whose variables hold secrets.
fn read(text: &str) {
    let environment = Environment::from([("FUZZ_KEY", CANARY), ("BOB__RUNTIME__MAX_STEPS", "3")]);
    let Err(error) = parse(text, Path::new("agent.toml"), &environment, &Overrides::default()) else { return };
    placed(text.strip_prefix('\u{feff}').unwrap_or(text), &error).unwrap();
    let report = error.render(false) + &error.render(true);
    assert!(!report.contains(CANARY), "{report}");
    assert!(error.problems().iter().all(|problem| !problem.message.is_empty()), "{report}");
}

#[test]
fn fuzz_any_text_is_a_configuration_or_has_problems_with_places() {
    bolero::check!(name = "texts")
        .with_iterations(2_000)
        .for_each(|bytes: &[u8]| read(&String::from_utf8_lossy(bytes)));
}

/// Pieces of configurations in any order reach further than bytes do.
#[test]
fn fuzz_pieces_of_configurations_are_one_or_have_problems_with_places() {
    const PIECES: [&str; 40] = [
        "\n",
        "\n",
        "=",
        ".",
        ",",
        "[",
        "]",
        "[[",
        "]]",
        "{",
        "}",
        "\"",
        "'",
        "\"\"\"",
        "'''",
        "#",
        " ",
        "\r\n",
        "\\",
        "é",
        "runtime",
        "default_model",
        "'a:b'",
        "max_steps",
        "12",
        "-1",
        "1e9",
        "mcp.servers",
        "id",
        "command",
        "providers",
        "api_key",
        "\"${FUZZ_KEY}\"",
        "${FUZZ_KEY}",
        "${",
        "true",
        "prices",
        "x",
        "env",
        "tools.'local/x'",
    ];
    bolero::check!(name = "pieces").with_iterations(2_000).with_max_len(64).for_each(|choices: &[u8]| {
        read(&choices.iter().map(|choice| PIECES[usize::from(*choice) % PIECES.len()]).collect::<String>());
    });
}

#[test]
fn fuzz_the_example_with_a_byte_changed_is_a_configuration_or_has_problems_with_places() {
    let secrets = "\n[providers.other]\napi_key = \"${FUZZ_KEY}\"\nbase_url = \"http://h/${FUZZ_KEY}\"\n";
    let example = Config::example().to_owned() + secrets;
    bolero::check!(name = "changes").with_iterations(300).for_each(|input: &[u8]| {
        let [low, high, byte, ..] = *input else { return };
        let mut bytes = example.clone().into_bytes();
        let at = usize::from(u16::from_le_bytes([low, high])) % bytes.len();
        bytes[at] = byte;
        read(&String::from_utf8_lossy(&bytes));
    });
}
