//! [`PerTask`], [`PerCpu`], [`PerGroup`]: a policy's own data, as BPF's task, per-CPU and cgroup
//! storage. Ids are dense, so each is an array that grows.

use alloc::vec::Vec;
use core::marker::PhantomData;
use core::ops::{Index, IndexMut};
use zerolag_model::{CpuId, GroupId, TaskId};

/// One value for each id; the default where none has been set.
///
/// ```
/// use zerolag_policy::PerTask;
/// use zerolag_model::TaskId;
///
/// let mut wakeups = PerTask::<u32>::default();
/// wakeups[TaskId(7)] += 1;
/// assert_eq!((wakeups[TaskId(7)], wakeups[TaskId(8)]), (1, 0));
/// ```
#[derive(Clone, Debug)]
pub struct Per<Id, T> {
    values: Vec<T>,
    default: T,
    id: PhantomData<fn(Id)>,
}

/// A value for each task (`BPF_MAP_TYPE_TASK_STORAGE`).
pub type PerTask<T> = Per<TaskId, T>;
/// A value for each CPU (`BPF_MAP_TYPE_PERCPU_ARRAY`).
pub type PerCpu<T> = Per<CpuId, T>;
/// A value for each group (`BPF_MAP_TYPE_CGRP_STORAGE`).
pub type PerGroup<T> = Per<GroupId, T>;

/// An id that is an index of a dense table.
pub trait Dense {
    /// Returns the index.
    fn index(self) -> usize;
}

macro_rules! dense {
    ($($id:ident)*) => { $(
        impl Dense for $id {
            fn index(self) -> usize {
                self.index()
            }
        }
    )* };
}

dense! { TaskId CpuId GroupId }

impl<Id, T: Default> Default for Per<Id, T> {
    fn default() -> Self {
        Self { values: Vec::new(), default: T::default(), id: PhantomData }
    }
}

impl<Id: Dense, T> Index<Id> for Per<Id, T> {
    type Output = T;

    fn index(&self, id: Id) -> &T {
        self.values.get(id.index()).unwrap_or(&self.default)
    }
}

impl<Id: Dense, T: Default> IndexMut<Id> for Per<Id, T> {
    fn index_mut(&mut self, id: Id) -> &mut T {
        let index = id.index();
        if self.values.len() <= index {
            self.values.resize_with(index + 1, T::default);
        }
        &mut self.values[index]
    }
}
