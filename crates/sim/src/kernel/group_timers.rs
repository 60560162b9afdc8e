//! [`GroupTimers`]: which armings of the groups' timers are valid.

use zerolag_core::GroupTimer;
use zerolag_model::GroupId;

/// The generations of the groups' timers.
#[derive(Clone, Debug, Default)]
pub(super) struct GroupTimers {
    /// Per group and timer: the number of armings.
    generations: Vec<[u32; 2]>,
}

impl GroupTimers {
    /// Returns the number of armings of a timer: events of an older one are void.
    pub(super) fn generation(&mut self, group: GroupId, timer: GroupTimer) -> &mut u32 {
        if self.generations.len() <= group.index() {
            self.generations.resize(group.index() + 1, [0; 2]);
        }
        &mut self.generations[group.index()][timer as usize]
    }

    /// Makes all events of a group's timers void.
    pub(super) fn forget(&mut self, group: GroupId) {
        if let Some(generations) = self.generations.get_mut(group.index()) {
            *generations = generations.map(|generation| generation.wrapping_add(1));
        }
    }
}
