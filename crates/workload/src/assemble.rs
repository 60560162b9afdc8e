//! [`Assembly`]: builds a [`Program`] out of names.
//!
//! Both grammars name resources and groups where they are used. The assembly gives each (kind,
//! name) one index, in order of first use, and creates the parents of a group before the group. It
//! also stores the position of every action in the file ([`Origins`]), which [`crate::check`] needs
//! for its messages.

use crate::diagnostic::Span;
use crate::program::{GroupDef, GroupWeight, InCpus, Program, Resource, ResourceId, ResourceKind};
use std::collections::BTreeMap;
use std::sync::Arc;
use zerolag_model::CpuMax;

/// The deepest group.
pub(crate) const GROUP_DEPTH_MAX: usize = 32;

/// The default weight of a group (`cpu.weight`).
pub(crate) const GROUP_WEIGHT_DEFAULT: GroupWeight = GroupWeight::Weight(100);

/// A kind of resource, without its parameters: resources of different kinds may share a name in
/// rt-app.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum ResourceClass {
    Mutex,
    Condition,
    Barrier,
    Semaphore,
    Timer,
    SuspendPoint,
    RwSemaphore,
    SpinLock,
    UserSpinLock,
    Pipe,
    Disk,
    File,
    Queue,
}

impl ResourceClass {
    pub(crate) const ALL: [Self; 13] = [
        Self::Mutex,
        Self::Condition,
        Self::Barrier,
        Self::Semaphore,
        Self::Timer,
        Self::SuspendPoint,
        Self::RwSemaphore,
        Self::SpinLock,
        Self::UserSpinLock,
        Self::Pipe,
        Self::Disk,
        Self::File,
        Self::Queue,
    ];

    pub(crate) const fn of(kind: &ResourceKind) -> Self {
        match kind {
            ResourceKind::Mutex { .. } => Self::Mutex,
            ResourceKind::Condition => Self::Condition,
            ResourceKind::Barrier { .. } => Self::Barrier,
            ResourceKind::Semaphore { .. } => Self::Semaphore,
            ResourceKind::Timer => Self::Timer,
            ResourceKind::SuspendPoint => Self::SuspendPoint,
            ResourceKind::Queue { .. } => Self::Queue,
            ResourceKind::RwSemaphore => Self::RwSemaphore,
            ResourceKind::SpinLock => Self::SpinLock,
            ResourceKind::UserSpinLock { .. } => Self::UserSpinLock,
            ResourceKind::Pipe { .. } => Self::Pipe,
            ResourceKind::Disk(_) => Self::Disk,
            ResourceKind::File(_) => Self::File,
        }
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Mutex => "mutex",
            Self::Condition => "condition",
            Self::Barrier => "barrier",
            Self::Semaphore => "semaphore",
            Self::Timer => "timer",
            Self::SuspendPoint => "suspend point",
            Self::Queue => "queue",
            Self::RwSemaphore => "rw_semaphore",
            Self::SpinLock => "spin_lock",
            Self::UserSpinLock => "user_spin_lock",
            Self::Pipe => "pipe",
            Self::Disk => "disk",
            Self::File => "file",
        }
    }
}

/// The positions of all parts in the file, in the shape of the program.
#[derive(Debug, Default)]
pub(crate) struct Origins {
    pub(crate) tasks: Vec<TaskOrigin>,
}

/// The position of a task.
#[derive(Debug, Default)]
pub(crate) struct TaskOrigin {
    pub(crate) name: Span,
    pub(crate) phases: Vec<PhaseOrigin>,
}

/// The position of a phase.
#[derive(Debug, Default)]
pub(crate) struct PhaseOrigin {
    pub(crate) name: Span,
    pub(crate) actions: Vec<Span>,
}

/// A program under construction.
#[derive(Debug, Default)]
pub(crate) struct Assembly {
    pub(crate) program: Program,
    pub(crate) origins: Origins,
    resources: BTreeMap<Arc<str>, [Option<ResourceId>; ResourceClass::ALL.len()]>,
    groups: BTreeMap<Arc<str>, usize>,
}

impl Assembly {
    /// Returns the resource of this kind and name; creates it, with these parameters, on its first
    /// use.
    pub(crate) fn resource(&mut self, name: &str, kind: ResourceKind) -> ResourceId {
        let place = ResourceClass::of(&kind) as usize;
        if let Some(known) = self.resources.get(name).and_then(|ids| ids[place]) {
            return known;
        }
        let id = ResourceId(u32::try_from(self.program.resources.len()).expect("invariant: inputs are below 4 GiB"));
        let name: Arc<str> = name.into();
        self.program.resources.push(Resource { name: name.clone(), kind });
        self.resources.entry(name).or_default()[place] = Some(id);
        id
    }

    /// Returns the resource of this kind and name, if it exists.
    pub(crate) fn find_resource(&self, name: &str, kind: ResourceClass) -> Option<ResourceId> {
        self.resources.get(name).and_then(|ids| ids[kind as usize])
    }

    /// Returns the group of a path; creates it and its parents if they are new. `None` is the root.
    ///
    /// # Errors
    /// The mistake in the path.
    pub(crate) fn group(&mut self, path: &str) -> Result<Option<usize>, String> {
        let Some(inner) = path.strip_prefix('/') else {
            return Err(format!("group `{path}` does not start with `/`"));
        };
        let inner = inner.trim_end_matches('/');
        if inner.is_empty() {
            return Ok(None);
        }
        if inner.split('/').any(|name| matches!(name, "" | "." | "..")) {
            return Err(format!("group `{path}` has an empty, `.` or `..` part"));
        }
        if inner.split('/').nth(GROUP_DEPTH_MAX).is_some() {
            return Err(format!("group `{path}` is deeper than {GROUP_DEPTH_MAX}"));
        }
        let mut parent = None;
        let ends = inner.match_indices('/').map(|(at, _)| at).chain([inner.len()]);
        for end in ends {
            let path = &path[..=end];
            let known = self.groups.get(path).copied();
            parent = Some(known.unwrap_or_else(|| {
                let path: Arc<str> = path.into();
                let weight = GROUP_WEIGHT_DEFAULT;
                let group = GroupDef {
                    path: path.clone(),
                    parent,
                    weight,
                    is_idle: false,
                    max: CpuMax::UNLIMITED,
                    clamp: zerolag_model::UtilClamp::NONE,
                    cpus: InCpus::default(),
                    rt: None,
                    triggers: Vec::new(),
                };
                self.program.groups.push(group);
                self.groups.insert(path, self.program.groups.len() - 1);
                self.program.groups.len() - 1
            }));
        }
        Ok(parent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_resource_per_kind() {
        let mut assembly = Assembly::default();
        let mutex = assembly.resource("a", ResourceKind::Mutex { inherit: true });
        let condition = assembly.resource("a", ResourceKind::Condition);
        assert_ne!(mutex, condition);
        assert_eq!(assembly.resource("a", ResourceKind::Mutex { inherit: false }), mutex);
        assert_eq!(assembly.program.resources[mutex.index()].kind, ResourceKind::Mutex { inherit: true });
        assert_eq!(assembly.find_resource("a", ResourceClass::Timer), None);
    }

    #[test]
    fn parents_come_before_their_groups() {
        let mut assembly = Assembly::default();
        assert_eq!(assembly.group("/a/b"), Ok(Some(1)));
        assert_eq!(assembly.group("/a"), Ok(Some(0)));
        assert_eq!(assembly.group("/a/c/"), Ok(Some(2)));
        assert_eq!(assembly.group("/"), Ok(None));
        let groups: Vec<_> = assembly.program.groups.iter().map(|group| (&*group.path, group.parent)).collect();
        assert_eq!(groups, [("/a", None), ("/a/b", Some(0)), ("/a/c", Some(0))]);
        for bad in ["a", "", "//a", "/a/../b", &"/x".repeat(33)] {
            assert!(assembly.group(bad).is_err(), "{bad}");
        }
    }
}
