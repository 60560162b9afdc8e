//! [`Accounts`]: what tasks have used, and how long they have waited, as the kernel's events say.

use std::collections::BTreeMap;

/// The most ended tasks whose account is kept.
const MAX_ENDED: usize = 10_000;

/// What a task does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Idle,
    /// Since when.
    Waits(u64),
    Runs(u64),
}

/// The account of a task, in nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct Account {
    pub(crate) pid: u32,
    /// Its name when it was created, or the scheduler loaded.
    pub(crate) comm: String,
    /// Its group by its number in cgroup v2.
    pub(crate) group: u64,
    pub(crate) weight: u32,
    pub(crate) used: u64,
    /// How often it has begun to run, and what it has waited for that.
    pub(crate) turns: u64,
    pub(crate) waited: u64,
    pub(crate) longest: u64,
    state: State,
}

/// All tasks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Accounts {
    tasks: BTreeMap<u32, Account>,
    ended: Vec<Account>,
}

impl Accounts {
    pub(crate) fn add(&mut self, pid: u32, comm: String, group: u64, weight: u32) {
        let (used, turns, waited, longest, state) = (0, 0, 0, 0, State::Idle);
        let account = Account { pid, comm, group, weight, used, turns, waited, longest, state };
        let old = self.tasks.insert(pid, account);
        self.keep(old);
    }

    fn keep(&mut self, account: Option<Account>) {
        if self.ended.len() < MAX_ENDED {
            self.ended.extend(account.filter(|account| account.turns > 0));
        }
    }

    pub(crate) fn end(&mut self, pid: u32) {
        let old = self.tasks.remove(&pid);
        self.keep(old);
    }

    pub(crate) fn set_weight(&mut self, pid: u32, weight: u32) {
        if let Some(account) = self.tasks.get_mut(&pid) {
            account.weight = weight;
        }
    }

    pub(crate) fn set_comm(&mut self, pid: u32, comm: String) {
        if let Some(account) = self.tasks.get_mut(&pid) {
            account.comm = comm;
        }
    }

    pub(crate) fn set_group(&mut self, pid: u32, group: u64) {
        if let Some(account) = self.tasks.get_mut(&pid) {
            account.group = group;
        }
    }

    pub(crate) fn wait(&mut self, pid: u32, at: u64) {
        if let Some(account) = self.tasks.get_mut(&pid)
            && account.state == State::Idle
        {
            account.state = State::Waits(at);
        }
    }

    pub(crate) fn run(&mut self, pid: u32, at: u64) {
        let Some(account) = self.tasks.get_mut(&pid) else { return };
        if let State::Waits(since) = account.state {
            let waited = at.saturating_sub(since);
            account.waited += waited;
            account.longest = account.longest.max(waited);
        }
        account.turns += 1;
        account.state = State::Runs(at);
    }

    /// It neither runs nor waits any more.
    pub(crate) fn stop(&mut self, pid: u32, at: u64) {
        let Some(account) = self.tasks.get_mut(&pid) else { return };
        if let State::Runs(since) = account.state {
            account.used += at.saturating_sub(since);
        }
        account.state = State::Idle;
    }

    /// Returns all accounts at a time, those of ended tasks too: what runs is counted until then.
    pub(crate) fn at(&self, now: u64) -> Vec<Account> {
        let current = self.tasks.values().map(|account| {
            let mut account = account.clone();
            if let State::Runs(since) = account.state {
                account.used += now.saturating_sub(since);
            }
            account
        });
        current.chain(self.ended.iter().cloned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_and_turns_are_counted_up_to_now() {
        let mut accounts = Accounts::default();
        accounts.add(7, "loop".into(), 1, 100);
        accounts.wait(7, 10);
        accounts.wait(7, 12);
        accounts.run(7, 30);
        accounts.stop(7, 50);
        accounts.wait(7, 50);
        accounts.run(7, 55);
        let all = accounts.at(60);
        assert_eq!((all[0].used, all[0].turns, all[0].waited, all[0].longest), (25, 2, 25, 20));
        accounts.stop(7, 61);
        accounts.end(7);
        assert_eq!(accounts.at(99)[0].used, 26, "an ended task keeps its account");
    }
}
