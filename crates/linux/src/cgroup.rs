//! Groups of a workload as directories of the `cpu` controller, v1 or v2.
//!
//! All groups are below one directory of this run, `zerolag-PID-RUN`. Tasks without a group are in
//! that directory itself, so that they compete with each group, as in a workload's root. Its weight
//! is the sum of theirs: beside other programs the run counts as if it had no directory. No other
//! file is written, except that in v2 the process is moved into the directory and back. The
//! directory must disappear
//! however the run ends, and a process that is killed cannot clean up after itself. So a shell
//! waits on a pipe that only this process holds open; when the pipe closes (after the end, a crash,
//! a kill or Ctrl-C) it removes the directories. The kernel allows that only once the last thread
//! has left a directory.
//!
//! | | v1 | v2 |
//! |---|---|---|
//! | weight | `cpu.shares` = weight x 1024 / 100 | `cpu.weight`, `cpu.weight.nice` |
//! | idle (5.15) | `cpu.idle` | `cpu.idle` |
//! | a thread joins by | `tasks` | `cgroup.threads`, the groups being `threaded` |
//! | a thread without a group | joins the directory by `tasks` | is there with its process |
//! | real-time threads | stay outside if the kernel has `cpu.rt_runtime_us`: a new group has no real-time budget | join |
//!
//! Sources: Linux v6.12 `Documentation/admin-guide/cgroup-v1`, `cgroup-v2.rst` (*Threads*).

use crate::figures::GroupFigures;
use std::fs;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Component, Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use zerolag_model::{CpuMax, SchedAttr};
use zerolag_workload::Program;
use zerolag_workload::program::{GroupDef, GroupWeight};

/// Numbers the runs of this process, so that two simultaneous runs do not share a directory, which
/// the first to end would remove.
static RUNS: AtomicU32 = AtomicU32::new(0);

/// The cgroup interface of the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Version {
    V1,
    V2,
}

/// Where a run may create its directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Hierarchy {
    version: Version,
    /// The directory in which the run's own directory is created.
    base: PathBuf,
    /// The group that the process was in and returns to.
    home: PathBuf,
}

/// The groups of a run; removed on drop.
#[derive(Debug)]
pub(crate) struct Groups {
    version: Version,
    home: PathBuf,
    /// Whether a real-time thread can be in a new group.
    takes_realtime: bool,
    /// The run's own directory, then the groups in order of definition.
    dirs: Vec<PathBuf>,
    /// Which groups exist and may be joined.
    there: Mutex<Vec<bool>>,
    /// The counters of groups that were removed.
    gone: Mutex<Vec<CpuStatLines>>,
    cleaner: Option<Child>,
}

/// Lines of `cpu.stat`.
type CpuStatLines = Vec<(String, u64)>;

impl Hierarchy {
    /// Finds the `cpu` controller.
    ///
    /// # Errors
    /// A description of what is missing.
    pub(crate) fn find() -> Result<Self, String> {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        Self::find_in(&read("/proc/self/mountinfo"), &read("/proc/self/cgroup"))
    }

    fn find_in(mountinfo: &str, own: &str) -> Result<Self, String> {
        if let Some((mount, root)) = mounts(mountinfo, "cgroup").find_map(|(mount, root, options)| {
            options.split(',').any(|option| option == "cpu").then_some((mount, root))
        }) {
            let path = own_path(own, |controllers| controllers.split(',').any(|name| name == "cpu"));
            let home = below(&mount, &root, path.unwrap_or("/"));
            return writable(Self { version: Version::V1, base: home.clone(), home });
        }
        let Some((mount, root, _)) = mounts(mountinfo, "cgroup2").next() else {
            return Err("this host has no `cpu` cgroup controller mounted".to_owned());
        };
        let home = below(&mount, &root, own_path(own, str::is_empty).unwrap_or("/"));
        // A group that contains processes cannot have children with controllers, so ours becomes a
        // sibling.
        let parent = home.parent().filter(|parent| parent.starts_with(&mount)).map(Path::to_path_buf);
        let has_cpu = |dir: &Path| {
            let enabled = fs::read_to_string(dir.join("cgroup.subtree_control")).unwrap_or_default();
            enabled.split_whitespace().any(|name| name == "cpu")
        };
        let base = parent.into_iter().chain([home.clone()]).find(|dir| has_cpu(dir));
        let Some(base) = base else {
            return Err(format!(
                "the cgroup v2 hierarchy does not grant the `cpu` controller around {}: \
                 as root, `echo +cpu > {}/cgroup.subtree_control`",
                home.display(),
                home.parent().unwrap_or(&home).display()
            ));
        };
        writable(Self { version: Version::V2, base, home })
    }

    /// Creates the run's directory and its groups.
    ///
    /// # Errors
    /// The kernel's refusal, with the name of the file.
    pub(crate) fn create(&self, program: &Program) -> io::Result<Groups> {
        let defs = &program.groups;
        let run = RUNS.fetch_add(1, Ordering::Relaxed);
        let own = self.base.join(format!("zerolag-{}-{run}", std::process::id()));
        let mut dirs = vec![own.clone()];
        for def in defs {
            dirs.push(own.join(relative(&def.path)?));
        }
        // The cleaner first: it must know the names before the first directory exists.
        let cleaner = Some(start_cleaner(&dirs)?);
        let there = Mutex::new(vec![false; defs.len()]);
        let gone = Mutex::new(vec![Vec::new(); defs.len()]);
        let takes_realtime = self.takes_realtime();
        let groups =
            Groups { version: self.version, home: self.home.clone(), takes_realtime, dirs, there, gone, cleaner };
        make_dir(&groups.dirs[0])?;
        write_weight(self.version, &groups.dirs[0], GroupWeight::Shares(shares_of(program)))?;
        if self.version == Version::V2 {
            write(&groups.dirs[0].join("cgroup.procs"), "0")?;
        }
        for (index, def) in defs.iter().enumerate().filter(|(index, _)| !program.comes_later(*index)) {
            groups.make(index, def)?;
        }
        Ok(groups)
    }

    /// Returns whether a real-time thread can be in a new group.
    pub(crate) fn takes_realtime(&self) -> bool {
        self.version == Version::V2 || !self.base.join("cpu.rt_runtime_us").exists()
    }
}

impl Groups {
    /// Moves the calling thread into a group, or out of all of them. `may_be_realtime` says whether
    /// it has or gets a real-time policy.
    pub(crate) fn join(&self, group: Option<usize>, may_be_realtime: bool) -> io::Result<()> {
        write(&self.dir_of(group, may_be_realtime)?.join(self.threads_file()), "0")
    }

    /// Returns the directory of a group, or that of threads without a group.
    fn dir_of(&self, group: Option<usize>, may_be_realtime: bool) -> io::Result<&Path> {
        match group {
            Some(group) if !self.is_there(group) => Err(io::ErrorKind::NotFound.into()),
            Some(group) => Ok(&self.dirs[group + 1]),
            None if may_be_realtime && !self.takes_realtime => Ok(&self.home),
            None => Ok(&self.dirs[0]),
        }
    }

    /// Creates a group, with its weight and limit.
    pub(crate) fn make(&self, group: usize, def: &GroupDef) -> io::Result<()> {
        let dir = &self.dirs[group + 1];
        make_dir(dir)?;
        if self.version == Version::V2 {
            write(&dir.join("cgroup.type"), "threaded")?;
            let parent = dir.parent().expect("invariant: a group is below the run's directory");
            write(&parent.join("cgroup.subtree_control"), "+cpu")?;
        }
        if def.is_idle {
            self.set_idle(group, true)?;
        } else {
            self.set_weight(group, def.weight)?;
        }
        if def.max.quota.is_some() {
            self.set_max(group, def.max)?;
        }
        self.there.lock().unwrap_or_else(PoisonError::into_inner)[group] = true;
        Ok(())
    }

    /// Returns whether a group exists and may be joined.
    pub(crate) fn is_there(&self, group: usize) -> bool {
        self.there.lock().unwrap_or_else(PoisonError::into_inner)[group]
    }

    /// Closes these groups to new threads.
    pub(crate) fn close(&self, groups: &[usize]) {
        let mut there = self.there.lock().unwrap_or_else(PoisonError::into_inner);
        groups.iter().for_each(|group| there[*group] = false);
    }

    /// Returns the ids of the threads that are in a group itself.
    pub(crate) fn members(&self, group: usize) -> Vec<i32> {
        let text = fs::read_to_string(self.dirs[group + 1].join(self.threads_file())).unwrap_or_default();
        text.lines().filter_map(|line| line.trim().parse().ok()).collect()
    }

    /// Removes an empty group. Its counters are kept, and added to those of its earlier lives.
    pub(crate) fn remove(&self, group: usize) -> io::Result<()> {
        let dir = &self.dirs[group + 1];
        let stat = stat_of(dir);
        // A thread that has ended leaves its group a moment later, in its exit in the kernel.
        let is_busy =
            |removed: &io::Result<()>| removed.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::ResourceBusy);
        let mut removed = fs::remove_dir(dir);
        for _ in 0..REMOVALS {
            if !is_busy(&removed) {
                break;
            }
            std::thread::sleep(REMOVAL_PAUSE);
            removed = fs::remove_dir(dir);
        }
        removed?;
        add_up(&mut self.gone.lock().unwrap_or_else(PoisonError::into_inner)[group], stat);
        Ok(())
    }

    /// Sets a group's weight.
    pub(crate) fn set_weight(&self, group: usize, weight: GroupWeight) -> io::Result<()> {
        write_weight(self.version, &self.dirs[group + 1], weight)
    }

    /// Makes a group idle, or ends that.
    pub(crate) fn set_idle(&self, group: usize, is_idle: bool) -> io::Result<()> {
        write(&self.dirs[group + 1].join("cpu.idle"), if is_idle { "1" } else { "0" })
    }

    /// Sets a group's limit.
    pub(crate) fn set_max(&self, group: usize, max: CpuMax) -> io::Result<()> {
        let dir = &self.dirs[group + 1];
        match self.version {
            Version::V1 => limit_v1(dir, max),
            Version::V2 => limit_v2(dir, max),
        }
    }

    /// Moves another thread into a group, or out of all of them.
    pub(crate) fn take_in(&self, group: Option<usize>, thread: i32, may_be_realtime: bool) -> io::Result<()> {
        write(&self.dir_of(group, may_be_realtime)?.join(self.threads_file()), &thread.to_string())
    }

    const fn threads_file(&self) -> &'static str {
        match self.version {
            Version::V1 => "tasks",
            Version::V2 => "cgroup.threads",
        }
    }

    /// Returns the kernel's counters per group; for a group that was created several times, the sum
    /// of its lives.
    pub(crate) fn figures(&self, defs: &[GroupDef]) -> Vec<GroupFigures> {
        let gone = self.gone.lock().unwrap_or_else(PoisonError::into_inner);
        let groups = self.dirs[1..].iter().zip(defs).zip(gone.iter());
        let figures = groups.map(|((dir, def), gone)| {
            let mut stat = stat_of(dir);
            add_up(&mut stat, gone.clone());
            GroupFigures { path: def.path.to_string(), max: def.max, stat }
        });
        figures.collect()
    }
}

/// Returns the kernel's counters of a group; empty if it does not exist.
fn stat_of(dir: &Path) -> CpuStatLines {
    // Kernels since 6.7 have a separate file for the time for which the group was throttled by
    // itself or from above.
    let of = |file: &str, prefix: &'static str| -> CpuStatLines {
        let text = fs::read_to_string(dir.join(file)).unwrap_or_default();
        let lines = text.lines().filter_map(|line| line.split_once(' '));
        lines.filter_map(|(key, value)| Some((format!("{prefix}{key}"), value.trim().parse().ok()?))).collect()
    };
    let mut stat = of("cpu.stat", "");
    stat.append(&mut of("cpu.stat.local", LOCAL));
    stat
}

/// Adds counters of the same names.
fn add_up(sum: &mut CpuStatLines, more: CpuStatLines) {
    for (key, value) in more {
        match sum.iter_mut().find(|(known, _)| *known == key) {
            Some((_, sum)) => *sum = sum.saturating_add(value),
            None => sum.push((key, value)),
        }
    }
}

/// Prefix of the keys of `cpu.stat.local`.
const LOCAL: &str = "local.";

impl Drop for Groups {
    fn drop(&mut self) {
        if self.version == Version::V2 {
            // An error cannot be reported any more. The directory then stays for the cleaner, which
            // outlives this process.
            drop(write(&self.home.join("cgroup.procs"), "0"));
        }
        for dir in self.dirs.iter().rev() {
            drop(fs::remove_dir(dir));
        }
        if let Some(mut cleaner) = self.cleaner.take() {
            drop(cleaner.stdin.take());
            drop(cleaner.wait());
        }
    }
}

/// How often a busy group is removed again, and after which time: half a second in all.
const REMOVALS: u32 = 100;
const REMOVAL_PAUSE: std::time::Duration = std::time::Duration::from_millis(5);

/// Starts the shell that removes the directories after the end of this process.
fn start_cleaner(dirs: &[PathBuf]) -> io::Result<Child> {
    // Children first. Ctrl-C reaches the whole process group, so the shell has a group of its own
    // and also ignores signals. Threads of a killed process need a moment to exit: the shell tries
    // fifty times, every tenth of a second.
    const SCRIPT: &str = "trap '' INT HUP TERM; read -r _; n=0; while [ $n -lt 50 ]; do \
        left=; for d; do [ -d \"$d\" ] && ! rmdir \"$d\" 2>/dev/null && left=1; done; \
        [ -z \"$left\" ] && exit 0; n=$((n+1)); sleep 0.1; done; exit 1";
    Command::new("sh")
        .args(["-c", SCRIPT, "zerolag-cleaner"])
        .args(dirs.iter().rev())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
}

fn make_dir(dir: &Path) -> io::Result<()> {
    fs::create_dir(dir).map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", dir.display())))
}

fn write(file: &Path, value: &str) -> io::Result<()> {
    let written = fs::OpenOptions::new().write(true).open(file).and_then(|mut file| file.write_all(value.as_bytes()));
    written.map_err(|error| io::Error::new(error.kind(), format!("`{value}` into {}: {error}", file.display())))
}

/// Returns a group's path without its leading slash; it must stay below the run's directory.
fn relative(path: &str) -> io::Result<PathBuf> {
    let path: PathBuf = Path::new(path).components().filter(|part| *part != Component::RootDir).collect();
    if path.as_os_str().is_empty() || path.components().any(|part| !matches!(part, Component::Normal(_))) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("`{}` names no group", path.display())));
    }
    Ok(path)
}

/// Sets or removes a group's limit through the files of v1.
fn limit_v1(dir: &Path, max: CpuMax) -> io::Result<()> {
    // The kernel checks each file against the others: without burst and quota it accepts any
    // period.
    if dir.join("cpu.cfs_burst_us").exists() {
        write(&dir.join("cpu.cfs_burst_us"), "0")?;
    }
    write(&dir.join("cpu.cfs_quota_us"), "-1")?;
    let Some(quota) = max.quota else { return Ok(()) };
    write(&dir.join("cpu.cfs_period_us"), &max.period.as_micros_floor().to_string())?;
    write(&dir.join("cpu.cfs_quota_us"), &quota.as_micros_floor().to_string())?;
    if max.burst.is_zero() {
        return Ok(());
    }
    write(&dir.join("cpu.cfs_burst_us"), &max.burst.as_micros_floor().to_string())
}

/// Sets or removes a group's limit through the files of v2.
fn limit_v2(dir: &Path, max: CpuMax) -> io::Result<()> {
    if dir.join("cpu.max.burst").exists() {
        write(&dir.join("cpu.max.burst"), "0")?;
    }
    let Some(quota) = max.quota else {
        return write(&dir.join("cpu.max"), &format!("max {}", max.period.as_micros_floor()));
    };
    let text = format!("{} {}", quota.as_micros_floor(), max.period.as_micros_floor());
    write(&dir.join("cpu.max"), &text)?;
    if max.burst.is_zero() {
        return Ok(());
    }
    write(&dir.join("cpu.max.burst"), &max.burst.as_micros_floor().to_string())
}

fn write_weight(version: Version, dir: &Path, weight: GroupWeight) -> io::Result<()> {
    match version {
        Version::V1 => write(&dir.join("cpu.shares"), &v1_shares(weight).to_string()),
        Version::V2 => {
            let (file, weight) = v2_weight(weight);
            write(&dir.join(file), &weight.to_string())
        }
    }
}

/// Returns the sum of the weights in a workload's root, in the scale of v1: those of the groups
/// there and of the tasks without a group.
fn shares_of(program: &Program) -> u32 {
    let groups = program.groups.iter().filter(|group| group.parent.is_none());
    let groups = groups.map(|group| if group.is_idle { 0 } else { v1_shares(group.weight) });
    let tasks = program.tasks.iter().filter(|task| task.group.is_none()).map(|task| match task.attr {
        SchedAttr::Fair { nice, .. } => u64::from(nice.weight()) * u64::from(task.instances),
        _ => 0,
    });
    let sum = groups.chain(tasks).fold(0, u64::saturating_add);
    u32::try_from(sum).unwrap_or(u32::MAX).clamp(SHARES_MIN, SHARES_MAX)
}

/// The range of `cpu.shares` (Linux v6.12 `kernel/sched/sched.h`, `MIN_SHARES`, `MAX_SHARES`).
const SHARES_MIN: u32 = 2;
const SHARES_MAX: u32 = 1 << 18;

/// Returns a weight in the scale of v1, in which the kernel's default is 1024 for 100.
fn v1_shares(weight: GroupWeight) -> u64 {
    match weight {
        GroupWeight::Weight(weight) => (u64::from(weight) * 1024 / 100).max(2),
        GroupWeight::Shares(shares) => u64::from(shares),
        GroupWeight::Nice(nice) => u64::from(nice.weight()),
    }
}

/// Returns a weight for v2: the file and its value.
fn v2_weight(weight: GroupWeight) -> (&'static str, i64) {
    match weight {
        GroupWeight::Weight(weight) => ("cpu.weight", i64::from(weight)),
        GroupWeight::Shares(shares) => ("cpu.weight", i64::from((shares * 100).div_ceil(1024).clamp(1, 10_000))),
        GroupWeight::Nice(nice) => ("cpu.weight.nice", i64::from(nice.value())),
    }
}

/// Returns mount point, root and options of the mounts of a file system type.
fn mounts<'a>(mountinfo: &'a str, kind: &'a str) -> impl Iterator<Item = (PathBuf, String, &'a str)> {
    mountinfo.lines().filter_map(move |line| {
        let (before, after) = line.split_once(" - ")?;
        let mut after = after.split(' ');
        let found = after.next()? == kind;
        let options = after.nth(1)?;
        let mut before = before.split(' ').skip(3);
        let (root, mount) = (before.next()?, before.next()?);
        found.then(|| (PathBuf::from(mount), root.to_owned(), options))
    })
}

/// Returns the path of the process in the first hierarchy whose controllers `fits` accepts.
fn own_path(own: &str, fits: impl Fn(&str) -> bool) -> Option<&str> {
    own.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let controllers = parts.next()?;
        fits(controllers).then_some(parts.next()?)
    })
}

/// Returns the path of a group below a mount of its hierarchy or of a part of it.
fn below(mount: &Path, root: &str, path: &str) -> PathBuf {
    let path = path.strip_prefix(root.trim_end_matches('/')).unwrap_or(path);
    mount.join(path.trim_start_matches('/'))
}

/// Refuses a hierarchy in which no directory can be created.
fn writable(hierarchy: Hierarchy) -> Result<Hierarchy, String> {
    rustix::fs::access(&hierarchy.base, rustix::fs::Access::WRITE_OK).map_err(|error| {
        format!("no group can be made in {}: {error} (root, or a delegated cgroup)", hierarchy.base.display())
    })?;
    Ok(hierarchy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerolag_model::Nice;

    #[test]
    fn hierarchies_are_found_as_the_kernel_lists_them() {
        let v1 = "36 35 0:30 / /sys/fs/cgroup/cpu rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct\n\
                  37 35 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n";
        let found: Vec<_> = mounts(v1, "cgroup").collect();
        assert_eq!(found[0], (PathBuf::from("/sys/fs/cgroup/cpu"), "/".to_owned(), "rw,cpu,cpuacct"));
        let own = "3:cpuset:/\n1:cpu,cpuacct:/user\n0::/user.slice/a.scope\n";
        assert_eq!(own_path(own, |names| names.split(',').any(|name| name == "cpu")), Some("/user"));
        assert_eq!(own_path(own, str::is_empty), Some("/user.slice/a.scope"));
        assert_eq!(below(Path::new("/m"), "/", "/user"), PathBuf::from("/m/user"));
        assert_eq!(below(Path::new("/m"), "/docker/x", "/docker/x/a"), PathBuf::from("/m/a"));
        let none = Hierarchy::find_in("", own).expect_err("nothing is mounted");
        assert!(none.contains("no `cpu` cgroup controller"), "{none}");
    }

    #[test]
    fn the_runs_directory_weighs_as_much_as_its_contents() {
        let shares = |toml: &str| {
            let loaded =
                zerolag_workload::load("test.toml", toml.as_bytes(), &zerolag_workload::LoadOptions::default());
            shares_of(&loaded.expect("a valid workload").program)
        };
        let steps = "steps = [{ run = \"1s\" }]\n";
        let group = "[group.\"/a\"]\n\"cpu.weight\" = 300\n[group.\"/a/in\"]\n[task.a]\ngroup = \"/a/in\"\n";
        assert_eq!(shares(&format!("{group}{steps}")), 3 * 1024, "a group below another counts there");
        let alone = "[task.b]\ninstances = 2\n";
        assert_eq!(shares(&format!("{group}{steps}{alone}{steps}")), 5 * 1024);
        let fifo = "[task.c]\npolicy = \"fifo\"\npriority = 1\n";
        assert_eq!(shares(&format!("{fifo}{steps}")), SHARES_MIN, "a real-time task has no weight");
        assert_eq!(shares(&format!("[task.d]\ninstances = 1000\n{steps}")), SHARES_MAX);
    }

    #[test]
    fn paths_stay_below_the_run() {
        assert_eq!(relative("/pod/a").expect("a path"), PathBuf::from("pod/a"));
        for path in ["/", "", "/../a", "/a/../../b"] {
            assert!(relative(path).is_err(), "{path}");
        }
        assert_eq!([1, 100, 10_000].map(|weight| v1_shares(GroupWeight::Weight(weight))), [10, 1024, 102_400]);
        let nice = |nice| GroupWeight::Nice(Nice::new(nice).expect("in range"));
        assert_eq!([-20, 0, 19].map(|level| v1_shares(nice(level))), [88_761, 1024, 15]);
        assert_eq!(v2_weight(nice(-5)), ("cpu.weight.nice", -5));
        assert_eq!([2, 1024, 262_144].map(|shares| v2_weight(GroupWeight::Shares(shares)).1), [1, 100, 10_000]);
    }
}
