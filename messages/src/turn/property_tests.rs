use super::chaos::{Chaos, decisions, setups};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn everything_holds(setup in setups(), decisions in decisions()) {
        Chaos::run(setup, &decisions);
    }
}
