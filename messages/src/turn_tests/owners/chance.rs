//! Seeds: who stands still, whose answer is lost, when the database is away, and what the clocks do.

use super::{Defect, LEASE, Owners};
use crate::turn::tests::simulation::Dice;

/// How many things happen before all is well again.
const STEPS: usize = 500;

impl Owners {
    /// A run of this seed.
    pub(super) fn by_chance(seed: u64, defect: Option<Defect>) -> Self {
        let mut dice = Dice::new(seed, 1);
        let mut owners = Self::new(2 + dice.pick(2), 2, defect);
        let (jumps, loses, leaves) = (dice.rarely(2), dice.rarely(2), dice.rarely(2));
        let mut stands_still = vec![false; owners.processes.len()];
        for _ in 0..STEPS {
            if owners.broken.is_some() {
                break;
            }
            let at = dice.pick(owners.processes.len());
            match dice.pick(26) {
                0 => stands_still[at] = true,
                1 | 2 => stands_still[at] = false,
                3 => owners.tick(1 + dice.pick(2 * LEASE as usize) as i64),
                4 if jumps => owners.jump(at, &mut dice),
                5..8 => owners.arrive(at, loses && dice.rarely(4)),
                8 => owners.database.is_away = leaves,
                9 | 10 => owners.database.is_away = false,
                _ if stands_still[at] => {}
                _ => {
                    owners.renew(at);
                    if owners.processes[at].is_busy() {
                        owners.step(at, dice.pick(8));
                    } else {
                        owners.claim(at);
                    }
                }
            }
            if dice.rarely(3) {
                owners.tick(1);
            }
        }
        owners.calm();
        owners
    }

    /// The database's clock goes forwards or backwards, or a machine was suspended: its clock stood still meanwhile.
    fn jump(&mut self, at: usize, dice: &mut Dice) {
        self.alike = false;
        let far = LEASE * (1 + dice.pick(4) as i64);
        match dice.pick(3) {
            0 => self.database.now += far,
            1 => self.database.now -= far,
            _ => {
                self.tick(far);
                self.processes[at].clock -= far;
            }
        }
    }
}
