//! [`ImportedGroups`]: the groups of an imported workload, their tasks and their limits.
//!
//! They come, the first one that says something counting, from the names that the user gives
//! (`--group`), from a move that was recorded (`cgroup_attach_task`), from a saved cgroup
//! directory, or from the parent of a task. Of cgroup v1 a recorded move can be of any controller:
//! it counts if the saved directory, which is that of the CPU, has a group of this path. Limits
//! come from the user (`--limit`), from a manifest, or from the directory.

use super::Options;
use super::extract::ImportedTask;
use super::tree::Throttling;
use crate::error::Error;
use crate::manifest::{Container, Manifest};
use std::collections::{BTreeMap, BTreeSet};
use zerolag_model::TaskId;
use zerolag_trace::Trace;
use zerolag_workload::limits::{LimitPart, milli_text};

/// The groups of an imported workload.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct ImportedGroups {
    /// The path of the group of each task that is in one.
    pub(super) of: BTreeMap<TaskId, String>,
    /// The keys of each group, as a scenario has them.
    pub(super) keys: BTreeMap<String, Vec<(&'static str, String)>>,
    /// How much the groups were throttled that have a limit, if it was recorded.
    pub(super) throttled: BTreeMap<String, Throttling>,
    /// Containers of the manifest that no group has the name of.
    pub(super) unused: Vec<String>,
}

impl ImportedGroups {
    /// Returns the groups of the tasks of a trace, in order of task.
    pub(super) fn new(trace: &Trace, tasks: &[ImportedTask], options: &Options) -> Self {
        let mut groups = Self::default();
        // Parents have lower ids: a task is created after the task that forks it.
        for task in tasks {
            let thread = trace.meta.recorded.thread(task.id);
            let process = thread.and_then(|thread| thread.process.as_deref());
            let is_named = |name: &str| name == &*task.name || Some(name) == process;
            let named = options.groups.iter().find(|(name, _)| is_named(name)).map(|(_, path)| path.clone());
            let (tid, pid) = (thread.map_or(0, |thread| thread.tid), thread.and_then(|thread| thread.pid));
            let moved = thread.and_then(|thread| {
                let known = thread.groups_v1.iter().rev().find(|path| options.tree.keys.contains_key(&***path));
                thread.group.as_deref().or(known.map(|path| &**path))
            });
            let path = named.or_else(|| match options.tree.lists(tid, pid) {
                _ if moved.is_some() => moved.filter(|path| *path != "/").map(str::to_owned),
                true => options.tree.group_of(tid, pid).map(str::to_owned),
                false => task.parent.and_then(|parent| groups.of.get(&parent).cloned()),
            });
            if let Some(path) = path {
                groups.of.insert(task.id, path);
            }
        }
        groups.limits(options);
        groups
    }

    fn limits(&mut self, options: &Options) {
        // With members, or above such: a whole machine has hundreds of others.
        let mut paths: BTreeSet<String> = BTreeSet::new();
        for path in self.of.values().chain(options.limits.iter().map(|(path, _)| path)) {
            let above = path.match_indices('/').map(|(at, _)| &path[..at]).filter(|above| !above.is_empty());
            // A group above matters only if it is limited or weighted.
            paths.extend(above.filter(|above| options.tree.keys.contains_key(*above)).map(str::to_owned));
            paths.insert(path.clone());
        }
        let of_tree = |path: &String| (path.clone(), options.tree.keys.get(path).cloned().unwrap_or_default());
        self.keys = paths.iter().map(of_tree).collect();
        self.throttled =
            paths.into_iter().filter_map(|path| Some((path.clone(), options.tree.throttled(&path)?))).collect();
        if let Some(manifest) = &options.manifest {
            for container in manifest.containers() {
                self.container(manifest, container);
            }
        }
        for (path, max) in &options.limits {
            self.set(path, vec![("cpu.max", max.clone())], LimitPart::is_of_bandwidth);
        }
    }

    /// Sets the limit of a container's group: the one that is named after it, or the only one.
    fn container(&mut self, manifest: &Manifest, container: &Container) {
        let owned = self.keys.keys().filter(|path| manifest.owns(container, path));
        let mut paths: Vec<String> = owned.cloned().collect();
        if paths.is_empty() && manifest.containers().len() == 1 && self.keys.len() == 1 {
            paths.extend(self.keys.keys().cloned());
        }
        if paths.is_empty() {
            self.unused.push(manifest.place(container));
        }
        let mut keys: Vec<(&str, String)> = Vec::new();
        keys.extend(container.limit_milli.map(|milli| ("limits.cpu", milli_text(milli))));
        keys.extend(
            container
                .request_milli
                .filter(|_| container.shares.is_none())
                .map(|milli| ("requests.cpu", milli_text(milli))),
        );
        keys.extend(container.shares.map(|shares| ("cpu.shares", shares.to_string())));
        keys.extend(container.quota_us.map(|quota| ("cpu.cfs_quota_us", quota.to_string())));
        keys.extend(container.period_us.map(|period| ("cpu.cfs_period_us", period.to_string())));
        for path in paths {
            self.set(&path, keys.clone(), |part| part.is_of_bandwidth() || part.is_of_weight());
        }
    }

    /// Sets keys of a group, in place of others.
    fn set(&mut self, path: &str, keys: Vec<(&'static str, String)>, instead: fn(LimitPart) -> bool) {
        let known = self.keys.entry(path.to_owned()).or_default();
        known.retain(|(key, _)| !LimitPart::of(key).is_some_and(instead));
        known.extend(keys);
    }

    /// Refuses a manifest of which no container belongs to a group.
    ///
    /// # Errors
    /// The names on both sides.
    pub(super) fn check(&self, options: &Options) -> Result<(), Error> {
        let Some(manifest) = &options.manifest else { return Ok(()) };
        if self.unused.len() < manifest.containers().len() {
            return Ok(());
        }
        let paths: Vec<&str> = self.keys.keys().map(String::as_str).collect();
        let groups = if paths.is_empty() { "it has none".to_owned() } else { format!("it has {}", paths.join(", ")) };
        Err(Error::input_help(
            format!("no group of the import belongs to {}; {groups}", self.unused.join(", ")),
            format!("name the process of the container: --group NAME=/{}", self.unused[0]),
        ))
    }
}
