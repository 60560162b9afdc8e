//! [`Socket`]: the figures of a running process for `zerolag top --socket`.
//!
//! A thread listens on a Unix socket. A client that connects gets one JSON document,
//! [`Snapshot`], and the end of the file: the reader computes rates from two of them, so the
//! process keeps no history and no clients. The file can be opened by its owner only.

use crate::group::Group;
use crate::latency::Histogram;
use crate::runtime::Runtime;
use crate::state::engine::Engine;
use crate::state::info::TaskState;
use rustix::net;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs::Permissions;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// The form of a [`Snapshot`].
pub const FORMAT: &str = "zerolag.top.v1";

/// How long a client can keep the thread: the document is smaller than a socket's buffer, mostly.
const PATIENCE: Duration = Duration::from_millis(500);

/// Clients that wait to be answered, as the standard library has it.
const BACKLOG: i32 = 128;

/// The figures of a runtime at one moment. Times are in microseconds, since the start of the
/// runtime.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Snapshot {
    /// [`FORMAT`].
    pub format: String,
    /// The process.
    pub pid: u32,
    /// The CPUs of the scheduler.
    pub cpus: u32,
    /// The time since the runtime was built.
    pub uptime_us: u64,
    /// Tasks in a poll.
    pub polled: u64,
    /// Tasks that wait for a CPU or for quota.
    pub runnable: u64,
    /// Tasks that wait for a wakeup.
    pub asleep: u64,
    /// [`Runtime::stray_panics`].
    pub stray_panics: u64,
    /// Every group, by path; the first one is the root.
    pub groups: Vec<GroupSnapshot>,
}

/// The figures of a group at one moment.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct GroupSnapshot {
    /// Its path.
    pub path: String,
    /// CPU time, with the groups below.
    pub cpu_us: u64,
    /// The time for which its polls were in progress and did not run.
    pub lost_us: u64,
    /// The quota of a period; `None` without a limit.
    pub quota_us: Option<u64>,
    /// The length of a period.
    pub period_us: u64,
    /// The time for which its limit throttled it, summed over CPUs.
    pub throttled_us: u64,
    /// The periods of its limit.
    pub periods: u64,
    /// The periods in which it was throttled.
    pub throttled_periods: u64,
    /// The 99th percentile of the waits for a CPU, to a factor of two; `None` without
    /// [`Builder::latencies`](crate::Builder::latencies).
    pub queue_wait_p99_us: Option<u64>,
    /// The same of the lengths of polls.
    pub poll_p99_us: Option<u64>,
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl GroupSnapshot {
    fn of(path: String, group: &Group) -> Self {
        let (usage, max, latencies) = (group.usage(), group.max(), group.latencies());
        let p99 = |of: &Histogram| of.quantile(0.99).map(micros);
        Self {
            path,
            cpu_us: micros(usage.cpu),
            lost_us: micros(usage.lost),
            quota_us: max.quota.map(|quota| quota.as_nanos() / 1_000),
            period_us: max.period.as_nanos() / 1_000,
            throttled_us: micros(usage.throttled()),
            periods: usage.stat.nr_periods,
            throttled_periods: usage.stat.nr_throttled,
            queue_wait_p99_us: latencies.and_then(|latencies| p99(&latencies.queue_wait)),
            poll_p99_us: latencies.and_then(|latencies| p99(&latencies.poll)),
        }
    }
}

impl Snapshot {
    fn of(engine: &Arc<Engine>) -> Self {
        let tasks = engine.infos();
        let number = |state| tasks.iter().filter(|task| task.state == state).count() as u64;
        Self {
            format: FORMAT.to_owned(),
            pid: std::process::id(),
            cpus: engine.cpus.len() as u32,
            uptime_us: engine.now().as_nanos() / 1_000,
            polled: number(TaskState::Polled),
            runnable: number(TaskState::Runnable),
            asleep: number(TaskState::Asleep),
            stray_panics: engine.stray_panics.load(Ordering::Relaxed),
            groups: engine.groups().iter().map(|(path, group)| GroupSnapshot::of(path.clone(), group)).collect(),
        }
    }
}

/// A socket that gives the figures of a runtime. Dropping it removes the file and ends the thread.
#[derive(Debug)]
#[must_use = "the socket is closed when this is dropped"]
pub struct Socket {
    path: PathBuf,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// The reason why there is no socket.
#[derive(Debug)]
pub struct SocketError {
    path: PathBuf,
    error: io::Error,
}

impl fmt::Display for SocketError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no socket at {}: {}", self.path.display(), self.error)
    }
}

impl std::error::Error for SocketError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

impl Runtime {
    /// Gives the figures of the runtime to clients of a Unix socket, for `zerolag top --socket`, as
    /// one JSON document ([`Snapshot`]) per connection. The file is created, for its owner only;
    /// one that is there already is an error, unless no process listens on it any more.
    ///
    /// # Errors
    /// The file cannot be created, another process listens there, or no thread can be started.
    pub fn listen(&self, path: impl AsRef<Path>) -> Result<Socket, SocketError> {
        let path = path.as_ref().to_path_buf();
        listen(Arc::downgrade(&self.engine), &path).map_err(|error| SocketError { path, error })
    }
}

fn listen(engine: Weak<Engine>, path: &Path) -> io::Result<Socket> {
    let listener = match bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse && UnixStream::connect(path).is_err() => {
            // The process that listened there has ended without removing it.
            std::fs::remove_file(path)?;
            bind(path)
        }
        other => other,
    }?;
    let is_over = Arc::new(AtomicBool::new(false));
    let over = Arc::clone(&is_over);
    let run = move || {
        for client in listener.incoming() {
            if over.load(Ordering::SeqCst) {
                return;
            }
            let Some(engine) = engine.upgrade() else { return };
            if let Ok(client) = client {
                // A client that goes away in the middle is no error of this process.
                let _ = answer(client, &Snapshot::of(&engine));
            }
        }
    };
    let thread = thread::Builder::new().name("zerolag-socket".to_owned()).spawn(run)?;
    Ok(Socket { path: path.to_path_buf(), is_over, thread: Some(thread) })
}

/// Returns a listener whose file only the owner can open. `UnixListener::bind` listens at once, and
/// until the mode is set that of the umask lets others in: a client that connects before `listen`
/// is refused.
fn bind(path: &Path) -> io::Result<UnixListener> {
    let kind = (net::AddressFamily::UNIX, net::SocketType::STREAM, net::SocketFlags::CLOEXEC);
    let socket = net::socket_with(kind.0, kind.1, kind.2, None)?;
    net::bind(&socket, &net::SocketAddrUnix::new(path)?)?;
    std::fs::set_permissions(path, Permissions::from_mode(0o600))?;
    net::listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

fn answer(mut client: UnixStream, snapshot: &Snapshot) -> io::Result<()> {
    client.set_write_timeout(Some(PATIENCE))?;
    let text = serde_json::to_vec(snapshot).map_err(io::Error::other)?;
    client.write_all(&text)
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        let is_awake = UnixStream::connect(&self.path).is_ok();
        let _ = std::fs::remove_file(&self.path);
        // Without a connection the thread waits for one for good: the file was replaced.
        if let Some(thread) = self.thread.take().filter(|_| is_awake) {
            let _ = thread.join();
        }
    }
}
