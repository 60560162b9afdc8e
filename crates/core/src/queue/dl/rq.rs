//! [`DlRq`]: the deadline tasks and servers of one CPU, by absolute deadline.

use crate::entity::dl::{PUSHABLE, QUEUE};
use crate::queue::dl::heap::Heap;
use crate::queue::dl::server::{ServedBy, Server, ServerPhase};
use crate::queue::dl::sums::Sums;
use crate::queue::published::PublishedDeadlines;
use crate::task::slab::TaskSlab;
use crate::words::config::Config;
use crate::words::ids::{LocalIx, Slot};
use alloc::vec::Vec;
use zerolag_model::{CpuId, Duration, Instant, ServerKind};

/// The deadline queue of one CPU.
///
/// Without deadline tasks only its beginning is used, up to the servers.
#[derive(Clone, Debug)]
#[repr(C)]
pub(crate) struct DlRq {
    /// The server that runs the current task. It is queued then, except between
    /// [`overlook`](crate::class::dl_server::overlook) and the switch.
    pub(crate) serving: Option<ServedBy>,
    /// Whether a server has left the queue, or a lender was taken off its turn, since the CPU last
    /// scheduled. The CPU can then have become less urgent without a switch.
    pub(crate) has_lowered: bool,
    pub(crate) is_in_mask: bool,
    /// Whether the current task reclaims unused bandwidth.
    pub(crate) reclaims: bool,
    /// The queued servers, a bit for each kind and one for those of groups, so that the others are
    /// not looked at.
    queued: u8,
    pub(crate) ready: Heap<QUEUE>,
    pub(crate) pushable: Heap<PUSHABLE>,
    servers: [Server; ServerKind::ALL.len()],
    /// The instant for which the replenishment timer is set.
    pub(crate) timer: Option<Instant>,
    pub(crate) throttled: Heap<QUEUE>,
    /// The bandwidth of the entities that belong to this run queue, and the active part of it.
    pub(crate) sums: Sums,
    /// The exec time that a reclaiming current task is still to be charged for.
    pub(crate) uncharged: Duration,
    next_seq: u64,
    /// The servers of groups, by local queue ([`crate::queue::rt::local`]).
    pub(crate) groups: Vec<Server>,
    /// The instant for which the timer of the groups' servers is set.
    pub(crate) groups_timer: Option<Instant>,
}

/// The bit of the servers of groups.
const GROUPS: u8 = 1 << 7;
const _: () = assert!(ServerKind::ALL.len() < 7);

/// A deadline entity that is ready to run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DlEntityRef {
    /// A task.
    Task(Slot),
    /// A server of the CPU.
    Server(ServerKind),
    /// The server of a group.
    Group(LocalIx),
}

impl DlRq {
    pub(crate) fn new(cpu: CpuId, config: &Config) -> Self {
        Self {
            ready: Heap::new(),
            throttled: Heap::new(),
            pushable: Heap::new(),
            next_seq: 0,
            uncharged: Duration::ZERO,
            timer: None,
            sums: Sums::new(),
            reclaims: false,
            queued: 0,
            is_in_mask: false,
            servers: ServerKind::ALL.map(|kind| Server::new(config.server(cpu, kind))),
            serving: None,
            has_lowered: false,
            groups: Vec::new(),
            groups_timer: None,
        }
    }

    /// Returns the number of queued tasks that can run, without throttled ones.
    #[inline]
    pub(crate) const fn nr_running(&self) -> u32 {
        self.ready.len()
    }

    /// Returns whether no deadline task and no server is ready to run on this CPU.
    pub(crate) fn is_empty(&self) -> bool {
        self.ready.is_empty() && self.queued == 0
    }

    /// Returns whether no server is queued, and none runs the current task.
    #[inline]
    pub(crate) const fn has_no_server(&self) -> bool {
        self.queued == 0 && self.serving.is_none()
    }

    /// Returns the first task.
    #[inline]
    pub(crate) fn first_task(&self) -> Option<Slot> {
        self.ready.first_of_all().map(|(_, _, slot)| slot)
    }

    pub(crate) const fn server(&self, kind: ServerKind) -> &Server {
        &self.servers[kind as usize]
    }

    pub(crate) const fn server_mut(&mut self, kind: ServerKind) -> &mut Server {
        &mut self.servers[kind as usize]
    }

    /// Changes the state of a server.
    pub(crate) const fn set_state(&mut self, kind: ServerKind, state: ServerPhase) {
        self.server_mut(kind).state = state;
        let bit = 1 << kind as u8;
        match state {
            ServerPhase::Queued(_) => self.queued |= bit,
            ServerPhase::Stopped
            | ServerPhase::Interrupted
            | ServerPhase::Deferred
            | ServerPhase::Idle
            | ServerPhase::Throttled { .. } => {
                self.queued &= !bit;
            }
        }
    }

    /// Changes the state of a group's server. O(queues).
    pub(crate) fn set_group_state(&mut self, at: LocalIx, state: ServerPhase) {
        self.groups[at.index()].state = state;
        let is_any_queued = self.groups.iter().any(|server| server.queued().is_some());
        self.queued = self.queued & !GROUPS | if is_any_queued { GROUPS } else { 0 };
    }

    /// Returns the server of a local queue.
    pub(crate) fn group(&self, at: LocalIx) -> &Server {
        &self.groups[at.index()]
    }

    pub(crate) fn group_mut(&mut self, at: LocalIx) -> &mut Server {
        &mut self.groups[at.index()]
    }

    /// Returns the server that runs the current task.
    pub(crate) fn serving_server(&self) -> Option<&Server> {
        match self.serving? {
            ServedBy::Class(kind) => Some(self.server(kind)),
            ServedBy::Group(at) => Some(self.group(at)),
        }
    }

    /// Returns the first entity and its deadline. O(servers).
    pub(crate) fn first(&self) -> Option<(Instant, DlEntityRef)> {
        let mut first = self.ready.first_of_all().map(|(at, seq, slot)| (at, seq, DlEntityRef::Task(slot)));
        if self.queued == 0 {
            return first.map(|(at, _, entity)| (at, entity));
        }
        for kind in ServerKind::ALL {
            if let Some((at, seq)) = self.server(kind).queued()
                && first.is_none_or(|(first_at, first_seq, _)| (at, seq) < (first_at, first_seq))
            {
                first = Some((at, seq, DlEntityRef::Server(kind)));
            }
        }
        if self.queued & GROUPS != 0 {
            self.first_with_groups(&mut first);
        }
        first.map(|(at, _, entity)| (at, entity))
    }

    #[cold]
    fn first_with_groups(&self, first: &mut Option<(Instant, u64, DlEntityRef)>) {
        for (index, server) in self.groups.iter().enumerate() {
            if let Some((at, seq)) = server.queued()
                && first.is_none_or(|(first_at, first_seq, _)| (at, seq) < (first_at, first_seq))
            {
                *first = Some((at, seq, DlEntityRef::Group(LocalIx::new(index))));
            }
        }
    }

    /// Returns whether the server of a group is the first entity.
    pub(crate) fn is_first_group(&self, at: LocalIx) -> bool {
        matches!(self.first(), Some((_, DlEntityRef::Group(first))) if first == at)
    }

    /// Returns whether a server is the first entity.
    pub(crate) fn is_first(&self, kind: ServerKind) -> bool {
        matches!(self.first(), Some((_, DlEntityRef::Server(first))) if first == kind)
    }

    pub(crate) const fn take_seq(&mut self) -> u64 {
        let seq = self.next_seq;
        self.next_seq += 1;
        seq
    }

    pub(crate) const fn has_pushable(&self) -> bool {
        !self.pushable.is_empty()
    }

    pub(crate) fn earliest(&self) -> Option<Instant> {
        self.first().map(|(at, _)| at)
    }

    pub(crate) fn published(&self) -> PublishedDeadlines {
        PublishedDeadlines { earliest: self.earliest(), pushable: self.pushable.first().map(|(at, _)| at) }
    }

    pub(crate) fn push_ready(&mut self, tasks: &mut TaskSlab, slot: Slot) {
        let seq = self.take_seq();
        let dl = &mut *tasks[slot].dl;
        dl.seq = seq;
        let deadline = dl.abs_deadline;
        self.ready.insert(tasks, slot, deadline, seq);
    }
}
