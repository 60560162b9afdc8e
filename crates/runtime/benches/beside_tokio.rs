//! This runtime beside tokio and smol: the cost of yields, wakeups, spawns, locks and timers.
//!
//! `cargo bench -p zerolag-runtime -- [ROUNDS] [FILTER]`: every benchmark runs `ROUNDS` times (7)
//! on each runtime in turn, so that a machine that is slow for a while is slow for all. The table
//! has the median and the ratio of the medians. Beside other programs these tell little; the last
//! column is the ratio of the CPU time of the whole process in all runs, with start and end.
#![expect(clippy::disallowed_methods, reason = "it measures the real clock")]

use futures_util::task::AtomicWaker;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

type Job<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A runtime under test.
trait Host: Clone + Send + Sync + 'static {
    type Lock: Send + Sync + 'static;

    fn start(workers: usize) -> Self;
    fn spawn<F>(&self, future: F) -> impl Future<Output = F::Output> + Send + 'static + use<Self, F>
    where
        F: Future<Output: Send> + Send + 'static;
    /// Runs a future in a task and waits for it.
    fn run<T: Send + 'static>(&self, future: impl Future<Output = T> + Send + 'static) -> T;
    fn pause() -> impl Future<Output = ()> + Send;
    fn wait(length: Duration) -> impl Future<Output = ()> + Send;
    fn lock() -> Self::Lock;
    fn add(lock: &Self::Lock) -> impl Future<Output = ()> + Send;
    /// Adds one, and yields while it holds the lock.
    fn add_slowly(lock: &Self::Lock) -> impl Future<Output = ()> + Send;
}

/// The room for tasks, which `zerolag` reserves.
const ROOM: usize = 100_100;

#[derive(Clone)]
struct Ours(Arc<zerolag_runtime::Runtime>);

impl Host for Ours {
    type Lock = zerolag_runtime::Mutex<u64>;

    fn start(workers: usize) -> Self {
        let builder = zerolag_runtime::Builder::new().cpus(workers as u32).tasks(ROOM);
        Self(Arc::new(builder.build().expect("threads")))
    }

    fn spawn<F>(&self, future: F) -> impl Future<Output = F::Output> + Send + 'static + use<F>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        let task = self.0.spawn(future).expect("room");
        async { task.await.expect("a result") }
    }

    fn run<T: Send + 'static>(&self, future: impl Future<Output = T> + Send + 'static) -> T {
        self.0.block_on(self.0.spawn(future).expect("room")).expect("a result")
    }

    fn pause() -> impl Future<Output = ()> + Send {
        zerolag_runtime::yield_now()
    }

    fn wait(length: Duration) -> impl Future<Output = ()> + Send {
        zerolag_runtime::sleep(length)
    }

    fn lock() -> Self::Lock {
        zerolag_runtime::Mutex::new(0)
    }

    async fn add(lock: &Self::Lock) {
        *lock.lock().await += 1;
    }

    async fn add_slowly(lock: &Self::Lock) {
        let mut value = lock.lock().await;
        Self::pause().await;
        *value += 1;
    }
}

#[derive(Clone)]
struct Tokio(Arc<tokio::runtime::Runtime>);

impl Host for Tokio {
    type Lock = tokio::sync::Mutex<u64>;

    fn start(workers: usize) -> Self {
        let builder = tokio::runtime::Builder::new_multi_thread().worker_threads(workers).enable_all().build();
        Self(Arc::new(builder.expect("threads")))
    }

    fn spawn<F>(&self, future: F) -> impl Future<Output = F::Output> + Send + 'static + use<F>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        let task = self.0.spawn(future);
        async { task.await.expect("a result") }
    }

    fn run<T: Send + 'static>(&self, future: impl Future<Output = T> + Send + 'static) -> T {
        self.0.block_on(self.0.spawn(future)).expect("a result")
    }

    fn pause() -> impl Future<Output = ()> + Send {
        tokio::task::yield_now()
    }

    fn wait(length: Duration) -> impl Future<Output = ()> + Send {
        tokio::time::sleep(length)
    }

    fn lock() -> Self::Lock {
        tokio::sync::Mutex::new(0)
    }

    async fn add(lock: &Self::Lock) {
        *lock.lock().await += 1;
    }

    async fn add_slowly(lock: &Self::Lock) {
        let mut value = lock.lock().await;
        Self::pause().await;
        *value += 1;
    }
}

/// An executor of smol with threads of its own; they end with it.
#[derive(Clone)]
struct Smol(Arc<SmolParts>);

struct SmolParts {
    executor: Arc<smol::Executor<'static>>,
    _end: smol::channel::Sender<()>,
}

impl Host for Smol {
    type Lock = smol::lock::Mutex<u64>;

    fn start(workers: usize) -> Self {
        let executor = Arc::new(smol::Executor::new());
        let (end, ends) = smol::channel::bounded::<()>(1);
        for _ in 0..workers {
            let (executor, ends) = (Arc::clone(&executor), ends.clone());
            std::thread::spawn(move || smol::block_on(executor.run(ends.recv())));
        }
        Self(Arc::new(SmolParts { executor, _end: end }))
    }

    fn spawn<F>(&self, future: F) -> impl Future<Output = F::Output> + Send + 'static + use<F>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        self.0.executor.spawn(future)
    }

    fn run<T: Send + 'static>(&self, future: impl Future<Output = T> + Send + 'static) -> T {
        smol::block_on(self.0.executor.spawn(future))
    }

    fn pause() -> impl Future<Output = ()> + Send {
        smol::future::yield_now()
    }

    async fn wait(length: Duration) {
        smol::Timer::after(length).await;
    }

    fn lock() -> Self::Lock {
        smol::lock::Mutex::new(0)
    }

    async fn add(lock: &Self::Lock) {
        *lock.lock().await += 1;
    }

    async fn add_slowly(lock: &Self::Lock) {
        let mut value = lock.lock().await;
        Self::pause().await;
        *value += 1;
    }
}

/// A flag that is handed from one task to another.
#[derive(Default)]
struct Baton {
    is_given: AtomicBool,
    waker: AtomicWaker,
}

impl Baton {
    fn give(&self) {
        self.is_given.store(true, Ordering::Release);
        self.waker.wake();
    }

    async fn take(&self) {
        poll_fn(|cx| {
            self.waker.register(cx.waker());
            if self.is_given.swap(false, Ordering::Acquire) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

/// Returns nanoseconds per operation.
fn per(operations: usize, began: Instant) -> f64 {
    began.elapsed().as_nanos() as f64 / operations as f64
}

/// Tasks that yield, each so many times, independent of each other.
fn yields<H: Host>(workers: usize, tasks: usize) -> f64 {
    const EACH: usize = 50_000;
    let host = H::start(workers);
    let tasks_of = host.clone();
    host.run(async move {
        let began = Instant::now();
        let tasks: Vec<_> = (0..tasks)
            .map(|_| {
                tasks_of.spawn(async {
                    for _ in 0..EACH {
                        H::pause().await;
                    }
                })
            })
            .collect();
        let count = tasks.len();
        for task in tasks {
            task.await;
        }
        per(EACH * count, began)
    })
}

/// Pairs of tasks that wake each other; returns the time of a round trip of all pairs together.
fn pairs<H: Host>(workers: usize, pairs: usize) -> f64 {
    let rounds = 40_000 / pairs;
    let host = H::start(workers);
    let spawner = host.clone();
    host.run(async move {
        let began = Instant::now();
        let tasks: Vec<_> = (0..pairs)
            .flat_map(|_| {
                let (ping, pong) = (Arc::new(Baton::default()), Arc::new(Baton::default()));
                let (there, back) = (Arc::clone(&ping), Arc::clone(&pong));
                let one: Job<()> = Box::pin(async move {
                    for _ in 0..rounds {
                        ping.give();
                        pong.take().await;
                    }
                });
                let other: Job<()> = Box::pin(async move {
                    for _ in 0..rounds {
                        there.take().await;
                        back.give();
                    }
                });
                [spawner.spawn(one), spawner.spawn(other)]
            })
            .collect();
        for task in tasks {
            task.await;
        }
        per(rounds * pairs, began)
    })
}

/// A task that starts tasks and waits for each.
fn spawns<H: Host>() -> f64 {
    const COUNT: usize = 20_000;
    let host = H::start(2);
    let spawner = host.clone();
    host.run(async move {
        let began = Instant::now();
        for n in 0..COUNT {
            spawner.spawn(async move { n }).await;
        }
        per(COUNT, began)
    })
}

/// A task that starts a thousand tasks and then waits for them, again and again.
fn spawns_of_many<H: Host>() -> f64 {
    const COUNT: usize = 20;
    const BATCH: usize = 1_000;
    let host = H::start(2);
    let spawner = host.clone();
    host.run(async move {
        let began = Instant::now();
        for _ in 0..COUNT {
            let tasks: Vec<_> = (0..BATCH).map(|n| spawner.spawn(async move { n })).collect();
            for task in tasks {
                task.await;
            }
        }
        per(COUNT * BATCH, began)
    })
}

/// Tasks that take a lock again and again.
fn locks<H: Host>(tasks: usize) -> f64 {
    let each = 40_000 / tasks;
    let host = H::start(2);
    let spawner = host.clone();
    host.run(async move {
        let lock = Arc::new(H::lock());
        let began = Instant::now();
        let tasks: Vec<_> = (0..tasks)
            .map(|_| {
                let lock = Arc::clone(&lock);
                spawner.spawn(async move {
                    for _ in 0..each {
                        H::add(&lock).await;
                    }
                })
            })
            .collect();
        let count = tasks.len();
        for task in tasks {
            task.await;
        }
        per(each * count, began)
    })
}

/// Tasks that take a lock that is always held by one that yields.
fn held_locks<H: Host>() -> f64 {
    const TASKS: usize = 4;
    const EACH: usize = 5_000;
    let host = H::start(2);
    let spawner = host.clone();
    host.run(async move {
        let lock = Arc::new(H::lock());
        let began = Instant::now();
        let tasks: Vec<_> = (0..TASKS)
            .map(|_| {
                let lock = Arc::clone(&lock);
                spawner.spawn(async move {
                    for _ in 0..EACH {
                        H::add_slowly(&lock).await;
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await;
        }
        per(EACH * TASKS, began)
    })
}

/// Tasks that sleep until the same time; returns by how much the median is late.
fn timers<H: Host>() -> f64 {
    const COUNT: usize = 100_000;
    let host = H::start(2);
    let spawner = host.clone();
    host.run(async move {
        let due = Instant::now() + Duration::from_millis(1_000);
        let tasks: Vec<_> = (0..COUNT)
            .map(|_| {
                spawner.spawn(async move {
                    H::wait(due.saturating_duration_since(Instant::now())).await;
                    due.elapsed()
                })
            })
            .collect();
        let mut late = Vec::with_capacity(COUNT);
        for task in tasks {
            late.push(task.await);
        }
        late.sort_unstable();
        late[COUNT / 2].as_nanos() as f64
    })
}

/// The memory of a sleeping task without locals, with its part of the runtime's tables.
fn bytes<H: Host>() -> f64 {
    const COUNT: usize = 100_000;
    let mut kept = None;
    let info = allocation_counter::measure(|| {
        let host = H::start(1);
        let tasks: Vec<_> = (0..COUNT).map(|_| host.spawn(std::future::pending::<()>())).collect();
        kept = Some((host, tasks));
    });
    drop(kept);
    info.bytes_current as f64 / COUNT as f64
}

/// A benchmark on each of the runtimes.
struct Bench {
    name: &'static str,
    unit: &'static str,
    run: [fn() -> f64; 3],
}

macro_rules! bench {
    ($name:literal, $unit:literal, $function:ident $(, $argument:literal)*) => {
        Bench {
            name: $name,
            unit: $unit,
            run: [|| $function::<Ours>($($argument),*), || $function::<Tokio>($($argument),*), || $function::<Smol>($($argument),*)],
        }
    };
}

fn benches() -> Vec<Bench> {
    vec![
        bench!("yield, one task", "ns", yields, 1, 1),
        bench!("yield, 4 tasks, 1 worker", "ns", yields, 1, 4),
        bench!("yield, 4 tasks, 2 workers", "ns", yields, 2, 4),
        bench!("ping-pong, 1 worker", "ns", pairs, 1, 1),
        bench!("ping-pong, 2 workers", "ns", pairs, 2, 1),
        bench!("64 pairs, 2 workers", "ns", pairs, 2, 64),
        bench!("spawn and join", "ns", spawns),
        bench!("spawn 1000, then join", "ns", spawns_of_many),
        bench!("mutex, uncontended", "ns", locks, 1),
        bench!("mutex, 4 tasks", "ns", locks, 4),
        bench!("mutex, 4 tasks, held in a yield", "ns", held_locks),
        bench!("100,000 timers at once: late", "ns", timers),
        bench!("memory of a task", "bytes", bytes),
    ]
}

/// The CPU time of this process, in nanoseconds.
fn cpu_time() -> f64 {
    let used = nix::time::ClockId::CLOCK_PROCESS_CPUTIME_ID.now().expect("every kernel has it");
    Duration::from(used).as_nanos() as f64
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let args: Vec<_> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let rounds = args.iter().find_map(|arg| arg.parse().ok()).unwrap_or(7_usize).max(1);
    let filter = args.iter().find(|arg| arg.parse::<usize>().is_err());
    println!("| | unit | zerolag | tokio | smol | zerolag / tokio | CPU time |");
    println!("|---|---|--:|--:|--:|--:|--:|");
    for bench in benches().into_iter().filter(|bench| filter.is_none_or(|filter| bench.name.contains(&**filter))) {
        let (mut runs, mut used) = ([const { Vec::new() }; 3], [0.0; 3]);
        for _ in 0..rounds {
            for ((values, used), run) in runs.iter_mut().zip(&mut used).zip(bench.run) {
                let before = cpu_time();
                values.push(run());
                *used += cpu_time() - before;
            }
        }
        let [ours, tokio, smol] = runs.map(median);
        let (ratio, of_cpu_time) = (ours / tokio, used[0] / used[1]);
        println!(
            "| {} | {} | {ours:.0} | {tokio:.0} | {smol:.0} | {ratio:.1} | {of_cpu_time:.1} |",
            bench.name, bench.unit
        );
    }
}
