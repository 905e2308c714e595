//! Texts, environments and damages of any kind.

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use super::*;

/// Each complaint about the file has a place in it.
pub(crate) fn placed(text: &str, error: &ConfigError) -> Result<(), TestCaseError> {
    prop_assert!(!error.problems().is_empty());
    for problem in error.problems().iter().filter(|problem| problem.origin == Origin::File) {
        // Plus one: a text may end in a newline, and a missing key is reported after it.
        prop_assert!((1..=text.lines().count() + 1).contains(&problem.line), "{:?}", problem);
        let width = text.split('\n').nth(problem.line - 1).map_or(0, |line| line.chars().count());
        prop_assert!((1..=width + 1).contains(&problem.column), "{:?} in {:?}", problem, text);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn b1_no_text_and_no_environment_panics(text in "[a-z.=\\[\\]{}\"'#$ \n\r0-9_\\\\é\u{202e}]{0,120}", name in "BOB__[A-Za-z_.é]{0,20}", value in "\\PC{0,20}") {
        let environment = Environment::from([(name.as_str(), value.as_str())]);
        if let Err(error) = read(&text, &environment, &Overrides::default()) {
            prop_assert!(!error.render(true).is_empty());
            placed(&text, &error)?;
        }
    }

    #[test]
    fn b1_the_example_damaged_anywhere_does_not_panic(at in 0usize..9000, length in 0usize..40, put in "[\\PC\n]{0,6}") {
        let mut text = Config::example().to_owned();
        let start = text.floor_char_boundary(at.min(text.len()));
        let end = text.ceil_char_boundary((start + length).min(text.len()));
        text.replace_range(start..end, &put);
        if let Err(error) = read(&text, &Environment::default(), &Overrides::default()) {
            prop_assert!(!error.render(false).is_empty());
            placed(&text, &error)?;
        }
    }

    #[test]
    fn a_quoted_text_comes_back(text in any::<String>()) {
        let environment = Environment::from([("BOB__PROVIDERS__X__API_KEY", text.as_str())]);
        let config = read(MODEL, &environment, &Overrides::default());
        if !text.trim().is_empty() && !text.contains("${") && !text.trim_start().starts_with('{') {
            let config = config.unwrap_or_else(|error| panic!("{error}"));
            prop_assert_eq!(config.providers["x"].api_key.as_ref().map(|key| key.expose()), Some(text.as_str()));
        }
    }
}
