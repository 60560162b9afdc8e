//! [`GroupTree`]: the groups of the recorded machine, from a saved copy of its cgroup directory.
//!
//! `zerolag record --print-cmd perf --cgroup PATH` prints commands that save one; a copy made by
//! hand will do. A directory is a group, and the files in it are the kernel's:
//!
//! | cgroup | limit | weight | members |
//! |---|---|---|---|
//! | v2 | `cpu.max`, `cpu.max.burst` | `cpu.weight`, `cpu.idle` | `cgroup.threads`, `cgroup.procs` |
//! | v1 | `cpu.cfs_quota_us`, `cpu.cfs_period_us`, `cpu.cfs_burst_us` | `cpu.shares` | `tasks`, `cgroup.procs` |
//!
//! From `cpu.stat`, saved before and after, follow the periods and times in which the recorded
//! groups were throttled. The directory itself is the root group. Files that are absent have the
//! kernel's defaults; other files are not read. A thread is where its id is listed, else where its
//! process is; what a task forks later is in its group.

use crate::error::Error;
use std::collections::BTreeMap;
use std::path::Path;
use zerolag_model::Duration;
use zerolag_workload::limits::cpu_max;

/// The groups of a machine: their keys and members.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct GroupTree {
    /// The keys of scenarios and their values, by the path of the group.
    pub(super) keys: BTreeMap<String, Vec<(&'static str, String)>>,
    threads: BTreeMap<u32, String>,
    processes: BTreeMap<u32, String>,
    /// The counters of groups at each time at which the tree was saved, in that order.
    pub(super) counters: BTreeMap<String, Vec<Throttling>>,
}

/// How often and for how long a group was throttled.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Throttling {
    /// The throttled periods.
    pub periods: u64,
    /// The time, added up over CPUs.
    pub time: Duration,
}

impl GroupTree {
    /// Reads a saved directory.
    ///
    /// # Errors
    /// It cannot be read, has no file of cgroups, is too large, or files have impossible contents:
    /// all of these, each with its path.
    pub fn directory(path: &Path) -> Result<Self, Error> {
        let mut reader = TreeReader { root: path, tree: Self::default(), wrong: Vec::new(), files: 0, groups: 0 };
        reader.group(path, "", 0)?;
        if !reader.wrong.is_empty() {
            return Err(Error::input(reader.wrong.join("\nerror: ")));
        }
        if reader.files == 0 {
            return Err(Error::input_help(
                format!(
                    "{}: no file of a cgroup is in it (cpu.max, cpu.cfs_quota_us, cgroup.procs ...)",
                    path.display()
                ),
                "save one with the commands of `zerolag record --print-cmd perf --cgroup PATH`",
            ));
        }
        Ok(reader.tree)
    }

    /// Adds the groups and members of a tree that was saved at another time; the first one counts.
    pub fn merge(&mut self, other: Self) {
        for (path, keys) in other.keys {
            self.keys.entry(path).or_insert(keys);
        }
        for (id, path) in other.threads {
            self.threads.entry(id).or_insert(path);
        }
        for (id, path) in other.processes {
            self.processes.entry(id).or_insert(path);
        }
        for (path, counters) in other.counters {
            self.counters.entry(path).or_default().extend(counters);
        }
    }

    /// Returns how much a group was throttled between the first and the last time at which its
    /// counters were saved; `None` if they were saved once or never, or go back.
    #[must_use]
    pub fn throttled(&self, path: &str) -> Option<Throttling> {
        let [first, .., last] = self.counters.get(path)?[..] else { return None };
        let periods = last.periods.checked_sub(first.periods)?;
        let time = last.time.as_nanos().checked_sub(first.time.as_nanos())?;
        Some(Throttling { periods, time: Duration::from_nanos(time) })
    }

    /// Returns the group of a thread; `None` for the root group and threads that are not listed.
    #[must_use]
    pub fn group_of(&self, tid: u32, pid: Option<u32>) -> Option<&str> {
        let found = self.threads.get(&tid).or_else(|| self.processes.get(&pid.unwrap_or(tid)));
        found.map(String::as_str).filter(|path| !path.is_empty())
    }

    /// Returns whether a thread or its process is listed, also in the root group.
    pub(super) fn lists(&self, tid: u32, pid: Option<u32>) -> bool {
        self.threads.contains_key(&tid) || self.processes.contains_key(&pid.unwrap_or(tid))
    }
}

struct TreeReader<'p> {
    root: &'p Path,
    tree: GroupTree,
    wrong: Vec<String>,
    files: usize,
    groups: usize,
}

impl TreeReader<'_> {
    fn group(&mut self, directory: &Path, path: &str, depth: usize) -> Result<(), Error> {
        self.groups += 1;
        if depth > DEPTH_MAX || self.groups > GROUPS_MAX {
            let most = format!("at most {GROUPS_MAX} groups, {DEPTH_MAX} deep, are read");
            return Err(Error::input(format!("{}: the tree is too large: {most}", self.root.display())));
        }
        self.limits(directory, path);
        self.members(directory, path);
        self.counters(directory, path);
        let failed = |error: std::io::Error| Error::reading(directory.display().to_string(), &error);
        let mut below = Vec::new();
        for entry in std::fs::read_dir(directory).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            // A link could lead out of the tree, or around in it.
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                below.push(entry);
            }
        }
        below.sort_by_key(std::fs::DirEntry::file_name);
        for entry in below {
            let Some(name) = entry.file_name().to_str().map(str::to_owned) else {
                self.wrong.push(format!("{}: its name is not UTF-8", entry.path().display()));
                continue;
            };
            self.group(&entry.path(), &format!("{path}/{name}"), depth + 1)?;
        }
        Ok(())
    }

    /// Returns the text of a file without white space around it, if it exists.
    fn file(&mut self, directory: &Path, name: &str) -> Option<String> {
        let path = directory.join(name);
        let size = std::fs::symlink_metadata(&path).ok().filter(std::fs::Metadata::is_file)?.len();
        if size > FILE_MAX {
            self.wrong.push(format!("{}: it has {size} bytes; at most {FILE_MAX} are read", path.display()));
            return None;
        }
        match std::fs::read_to_string(&path) {
            Ok(text) => {
                self.files += 1;
                Some(text.trim().to_owned()).filter(|text| !text.is_empty())
            }
            Err(error) => {
                self.wrong.push(format!("{}: {error}", path.display()));
                None
            }
        }
    }

    fn number(&mut self, directory: &Path, name: &str) -> Option<i64> {
        let text = self.file(directory, name)?;
        let number = text.parse().ok();
        if number.is_none() {
            let text: String = text.chars().take(20).collect();
            let path = directory.join(name);
            self.wrong.push(format!("{}: `{}` is not a whole number", path.display(), text.escape_debug()));
        }
        number
    }

    fn limits(&mut self, directory: &Path, path: &str) {
        let mut keys = Vec::new();
        let mut burst = None;
        if let Some(text) = self.file(directory, "cpu.max") {
            match cpu_max(&text) {
                Ok((None, _)) => {}
                Ok((Some(_), _)) => {
                    keys.push(("cpu.max", text));
                    burst = self.number(directory, "cpu.max.burst").map(|burst| ("cpu.max.burst", burst));
                }
                Err(reason) => self.wrong.push(format!("{}: {reason}", directory.join("cpu.max").display())),
            }
        }
        if let Some(quota) = self.number(directory, "cpu.cfs_quota_us").filter(|quota| *quota > 0) {
            keys.push(("cpu.cfs_quota_us", quota.to_string()));
            if let Some(period) = self.number(directory, "cpu.cfs_period_us") {
                keys.push(("cpu.cfs_period_us", period.to_string()));
            }
            burst = self.number(directory, "cpu.cfs_burst_us").map(|burst| ("cpu.cfs_burst_us", burst));
        }
        keys.extend(burst.filter(|(_, burst)| *burst > 0).map(|(key, burst)| (key, burst.to_string())));
        let idle = self.number(directory, "cpu.idle").filter(|idle| *idle == 1);
        keys.extend(idle.map(|_| ("cpu.idle", "1".to_owned())));
        for (key, default) in [("cpu.weight", 100), ("cpu.shares", 1024)] {
            let weight = self.number(directory, key).filter(|weight| *weight != default && idle.is_none());
            keys.extend(weight.map(|weight| (key, weight.to_string())));
        }
        if !path.is_empty() {
            self.tree.keys.insert(path.to_owned(), keys);
        }
    }

    /// Reads `cpu.stat`, whose time is in nanoseconds in cgroup v1.
    fn counters(&mut self, directory: &Path, path: &str) {
        let Some(text) = self.file(directory, "cpu.stat") else { return };
        let (mut periods, mut time) = (None, None);
        for line in text.lines() {
            let (key, value) = line.split_once(' ').unwrap_or((line, ""));
            let number = || value.trim().parse::<u64>().ok();
            match key {
                "nr_throttled" => periods = number(),
                "throttled_time" => time = number().map(Duration::from_nanos),
                "throttled_usec" => time = number().and_then(|us| us.checked_mul(1000)).map(Duration::from_nanos),
                _ => {}
            }
        }
        // A group without a limit need not have them.
        if let (Some(periods), Some(time)) = (periods, time) {
            self.tree.counters.entry(path.to_owned()).or_default().push(Throttling { periods, time });
        }
    }

    fn members(&mut self, directory: &Path, path: &str) {
        for name in ["cgroup.threads", "tasks", "cgroup.procs"] {
            let Some(text) = self.file(directory, name) else { continue };
            for line in text.lines() {
                let Ok(id) = line.trim().parse() else {
                    let line: String = line.chars().take(20).collect();
                    let place = directory.join(name);
                    self.wrong.push(format!("{}: `{}` is not an id", place.display(), line.escape_debug()));
                    break;
                };
                let list = if name == "cgroup.procs" { &mut self.tree.processes } else { &mut self.tree.threads };
                list.insert(id, path.to_owned());
            }
        }
    }
}

/// As deep as scenarios nest groups.
const DEPTH_MAX: usize = 32;
const GROUPS_MAX: usize = 20_000;
const FILE_MAX: u64 = 4 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory of this test, with files.
    fn directory(name: &str, files: &[(&str, &str)]) -> std::path::PathBuf {
        let root = std::env::temp_dir().join(format!("zerolag-tree-{}-{name}", std::process::id()));
        drop(std::fs::remove_dir_all(&root));
        std::fs::create_dir_all(&root).expect("a directory");
        for (file, text) in files {
            let path = root.join(file);
            std::fs::create_dir_all(path.parent().expect("it has one")).expect("a directory");
            std::fs::write(path, text).expect("a file");
        }
        root
    }

    fn read(name: &str, files: &[(&str, &str)]) -> Result<GroupTree, String> {
        let root = directory(name, files);
        let tree =
            GroupTree::directory(&root).map_err(|error| error.to_string().replace(&*root.to_string_lossy(), "DIR"));
        drop(std::fs::remove_dir_all(&root));
        tree
    }

    #[test]
    fn both_versions_of_cgroups_are_read() {
        let tree = read(
            "both",
            &[
                ("cgroup.procs", "1\n2\n"),
                ("a/cpu.max", "50000 100000\n"),
                ("a/cpu.max.burst", "1000\n"),
                ("a/cpu.weight", "100\n"),
                ("a/cgroup.threads", "10\n11\n"),
                ("a/b/cpu.max", "max 100000\n"),
                ("a/b/cpu.weight", "300\n"),
                ("a/b/cgroup.procs", "20\n"),
                ("v1/cpu.cfs_quota_us", "30000\n"),
                ("v1/cpu.cfs_period_us", "100000\n"),
                ("v1/cpu.cfs_burst_us", "0\n"),
                ("v1/cpu.shares", "512\n"),
                ("v1/tasks", "30\n"),
                ("v1/free/cpu.cfs_quota_us", "-1\n"),
                ("idle/cpu.idle", "1\n"),
                ("idle/cpu.weight", "1\n"),
            ],
        )
        .expect("a tree");
        let keys = |path: &str| tree.keys[path].iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>();
        assert_eq!(keys("/a"), ["cpu.max=50000 100000", "cpu.max.burst=1000"]);
        assert_eq!(keys("/a/b"), ["cpu.weight=300"]);
        assert_eq!(keys("/v1"), ["cpu.cfs_quota_us=30000", "cpu.cfs_period_us=100000", "cpu.shares=512"]);
        assert_eq!(keys("/v1/free"), [""; 0]);
        assert_eq!(keys("/idle"), ["cpu.idle=1"]);
        assert_eq!(tree.group_of(11, None), Some("/a"));
        assert_eq!(tree.group_of(25, Some(20)), Some("/a/b"), "by its process");
        assert_eq!(tree.group_of(30, Some(30)), Some("/v1"));
        assert_eq!((tree.group_of(1, None), tree.lists(1, None), tree.lists(99, None)), (None, true, false));
    }

    #[test]
    fn counters_saved_before_and_after_are_a_difference() {
        let before = [
            ("a/cpu.stat", "usage_usec 9\nnr_periods 50\nnr_throttled 4\nthrottled_usec 1500\n"),
            ("b/cpu.stat", "nr_periods 50\nnr_throttled 4\nthrottled_time 1500\n"),
            ("c/cpu.stat", "usage_usec 9\n"),
        ];
        let after = [
            ("a/cpu.stat", "usage_usec 9\nnr_periods 90\nnr_throttled 10\nthrottled_usec 4000\n"),
            ("b/cpu.stat", "nr_periods 2\nnr_throttled 1\nthrottled_time 7\n"),
        ];
        let mut tree = read("before", &before).expect("a tree");
        assert_eq!(tree.throttled("/a"), None, "saved once");
        tree.merge(read("after", &after).expect("a tree"));
        assert_eq!(tree.throttled("/a"), Some(Throttling { periods: 6, time: Duration::from_micros(2500) }));
        assert_eq!((tree.throttled("/b"), tree.throttled("/c")), (None, None), "another group of this name");
    }

    #[test]
    fn mistakes_are_all_reported_with_their_files() {
        let wrong = read(
            "wrong",
            &[
                ("a/cpu.max", "lots\n"),
                ("a/cpu.weight", "\u{1b}]0;x\n"),
                ("b/cgroup.procs", "1\nx\n"),
                ("b/cpu.cfs_quota_us", "1.5"),
            ],
        )
        .expect_err("four mistakes");
        assert_eq!(
            wrong,
            "DIR/a/cpu.max: the quota is not a whole number\n\
             error: DIR/a/cpu.weight: `\\u{1b}]0;x` is not a whole number\n\
             error: DIR/b/cpu.cfs_quota_us: `1.5` is not a whole number\n\
             error: DIR/b/cgroup.procs: `x` is not an id"
        );
        assert!(read("empty", &[("a/readme", "x")]).expect_err("no file of a cgroup").contains("zerolag record"));
        assert!(GroupTree::directory(Path::new("does/not/exist")).is_err());
        let deep = format!("{}cpu.max", "d/".repeat(40));
        assert!(read("deep", &[(&deep, "max")]).expect_err("too deep").contains("32 deep"));
    }
}
