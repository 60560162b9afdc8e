//! [`Memory`]: the memory of a policy: its state, and a block per task, CPU and group.

use core::cell::UnsafeCell;
use core::ffi::c_void;

/// Bytes of a policy, aligned for every type of C, that it reads and writes through pointers.
#[derive(Debug, Default)]
struct Block(Box<[UnsafeCell<u128>]>);

impl Block {
    fn of_size(bytes: usize) -> Self {
        Self((0..bytes.div_ceil(size_of::<u128>())).map(|_| UnsafeCell::new(0)).collect())
    }

    fn pointer(&self) -> *mut c_void {
        self.0.first().map_or(core::ptr::null_mut(), |first| first.get().cast())
    }

    /// `&mut`, so that no pointer is in use.
    fn copy(&mut self) -> Self {
        Self(self.0.iter_mut().map(|word| UnsafeCell::new(*word.get_mut())).collect())
    }
}

/// The sizes that a policy names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub(crate) state: usize,
    pub(crate) task: usize,
    pub(crate) cpu: usize,
    pub(crate) group: usize,
}

/// All memory of one policy in one run.
#[derive(Debug)]
pub(crate) struct Memory {
    sizes: Sizes,
    state: Block,
    tasks: Vec<Option<Block>>,
    cpus: Vec<Option<Block>>,
    groups: Vec<Option<Block>>,
}

impl Memory {
    pub(crate) fn new(sizes: Sizes) -> Self {
        let state = Block::of_size(sizes.state);
        Self { sizes, state, tasks: Vec::new(), cpus: Vec::new(), groups: Vec::new() }
    }

    pub(crate) fn copy(&mut self) -> Self {
        let all =
            |blocks: &mut Vec<Option<Block>>| blocks.iter_mut().map(|block| block.as_mut().map(Block::copy)).collect();
        Self {
            sizes: self.sizes,
            state: self.state.copy(),
            tasks: all(&mut self.tasks),
            cpus: all(&mut self.cpus),
            groups: all(&mut self.groups),
        }
    }

    pub(crate) fn state(&self) -> *mut c_void {
        self.state.pointer()
    }

    pub(crate) fn task(&mut self, id: usize) -> *mut c_void {
        Self::block(&mut self.tasks, id, self.sizes.task)
    }

    pub(crate) fn cpu(&mut self, id: usize) -> *mut c_void {
        Self::block(&mut self.cpus, id, self.sizes.cpu)
    }

    pub(crate) fn group(&mut self, id: usize) -> *mut c_void {
        Self::block(&mut self.groups, id, self.sizes.group)
    }

    /// Forgets the block of a task: the next one of its id begins with zeros.
    pub(crate) fn forget_task(&mut self, id: usize) {
        if let Some(block) = self.tasks.get_mut(id) {
            *block = None;
        }
    }

    fn block(blocks: &mut Vec<Option<Block>>, id: usize, size: usize) -> *mut c_void {
        if blocks.len() <= id {
            blocks.resize_with(id + 1, || None);
        }
        blocks[id].get_or_insert_with(|| Block::of_size(size)).pointer()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_zero_stay_where_they_are_and_are_copied() {
        let mut memory = Memory::new(Sizes { state: 8, task: 20, cpu: 0, group: 1 });
        let first = memory.task(0);
        assert!(!first.is_null() && memory.cpu(3).is_null());
        memory.task(1000);
        assert_eq!(memory.task(0), first, "a block does not move");
        assert_eq!(memory.copy().tasks.len(), 1001);
        assert_ne!(memory.copy().task(0), first);
    }
}
