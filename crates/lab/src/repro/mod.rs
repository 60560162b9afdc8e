//! Published experiments, repeated, with our figures next to the published ones.
//!
//! An experiment is a value with a run function, and its result prints itself. Runs are spread over
//! threads; results do not depend on the number of threads.

pub mod bandwidth;
pub mod dl_server;
pub mod inversion;
pub mod rt_balance;
pub mod rt_ipi;

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};

/// Does `work` for 0..`count` on `threads` threads; returns the results of each thread, in no
/// particular order.
///
/// Every number is given to one thread, so a result that is to be the same for any number of
/// threads must add up regardless of order. `go_on` is called before each; once it returns `false`,
/// no more work is handed out.
pub(crate) fn spread<T: Send + Default>(
    count: u64,
    threads: usize,
    work: impl Fn(u64, &mut T) + Sync,
    go_on: impl Fn(u64) -> bool + Sync,
) -> Vec<T> {
    let next = AtomicU64::new(0);
    let run = || {
        let mut gathered = T::default();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= count || !go_on(index) {
                return gathered;
            }
            work(index, &mut gathered);
        }
    };
    std::thread::scope(|scope| {
        let handles: Vec<_> = (1..threads.max(1)).map(|_| scope.spawn(run)).collect();
        let mut all = vec![run()];
        all.extend(handles.into_iter().map(|handle| handle.join().expect("invariant: a run does not panic")));
        all
    })
}

/// Does `work` for 0..`count` on `threads` threads; returns the results with their numbers, in
/// order. `progress` is called with each number before, and can stop the rest: then some are
/// missing.
pub fn in_order<R: Send>(
    count: u64,
    threads: usize,
    work: impl Fn(u64) -> R + Sync,
    progress: impl Fn(u64) -> ControlFlow<()> + Sync,
) -> Vec<(u64, R)> {
    let gather = |nth: u64, done: &mut Vec<(u64, R)>| done.push((nth, work(nth)));
    let mut done: Vec<(u64, R)> =
        spread(count, threads, gather, |nth| progress(nth).is_continue()).into_iter().flatten().collect();
    done.sort_unstable_by_key(|(nth, _)| *nth);
    done
}
