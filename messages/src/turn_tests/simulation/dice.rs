//! Seeded chance: one stream of numbers for each concern, so that a change of what one
//! of them asks does not change what the others get.

/// A stream of numbers that its seed and its concern decide.
#[derive(Debug, Clone)]
pub(in crate::turn) struct Dice {
    state: u64,
    /// A good day: the first choice each time.
    calm: bool,
}

impl Dice {
    pub(in crate::turn) fn new(seed: u64, concern: u64) -> Self {
        let mut dice = Self { state: seed ^ concern.wrapping_mul(0xD1B5_4A32_D192_ED03), calm: false };
        dice.next();
        dice
    }

    /// From here on the first choice is taken each time, which is what happens on a good day.
    pub(in crate::turn) fn calm(&mut self) {
        self.calm = true;
    }

    /// One of so many choices.
    pub(in crate::turn) fn pick(&mut self, choices: usize) -> usize {
        if self.calm || choices < 2 {
            return 0;
        }
        (self.next() % choices as u64) as usize
    }

    /// Once in so many times; never on a good day.
    pub(in crate::turn) fn rarely(&mut self, often: usize) -> bool {
        !self.calm && self.pick(often) == 0
    }

    /// The generator is `splitmix64`: each state gives one number, and all are visited.
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}
