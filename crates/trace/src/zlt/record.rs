//! Encodes and decodes one record. The numbers of events and of enum values are the format: never
//! reorder them, only add.

use super::wire::{Cursor, Reason, put_bytes, put_varint, put_zigzag};
use std::sync::Arc;
use zerolag_model::attr::{DlFlags, DlParams, FairPolicy, Nice, Prio, RtPolicy, RtPriority, SchedAttr};
use zerolag_model::event::{IpiReason, Irq};
use zerolag_model::{
    Activation, CpuId, CpuLayer, CpuMask, CpuMax, CpuStat, Duration, GroupId, Instant, LayerTimes, MAX_CPUS, Mark,
    MigrateReason, PrevState, Record, RequestStep, ServerKind, ServerParams, ServerState, SignedDuration, TaskCounters,
    TaskId, TraceEvent,
};

/// The values to which the next record is written as a difference.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Deltas {
    at: Instant,
    /// CPU of the previous record; 0 at the start.
    cpu: u32,
}

const SAME_CPU: u8 = 0x40;
const SAME_TIME: u8 = 0x80;
const KIND_MASK: u8 = 0x3f;

mod kind {
    pub(super) const TASK_NEW: u8 = 1;
    pub(super) const TASK_EXIT: u8 = 2;
    pub(super) const WAKING: u8 = 3;
    pub(super) const WAKING_NEW: u8 = 4;
    pub(super) const WAKEUP: u8 = 5;
    pub(super) const SWITCH: u8 = 6;
    pub(super) const MIGRATE: u8 = 7;
    pub(super) const ATTR_CHANGE: u8 = 8;
    pub(super) const PRIO_INHERIT: u8 = 9;
    pub(super) const AFFINITY: u8 = 10;
    pub(super) const RT_OVERLOAD_SET: u8 = 11;
    pub(super) const RT_OVERLOAD_CLEAR: u8 = 12;
    pub(super) const NEED_RESCHED: u8 = 13;
    pub(super) const IPI_SEND: u8 = 14;
    pub(super) const IRQ_ENTER: u8 = 15;
    pub(super) const IRQ_EXIT: u8 = 16;
    pub(super) const LOCK_CONTENDED: u8 = 17;
    pub(super) const LOCK_ACQUIRED: u8 = 18;
    pub(super) const WAIT_LOCK: u8 = 19;
    pub(super) const TAKE_LOCK: u8 = 20;
    pub(super) const DROP_LOCK: u8 = 21;
    pub(super) const MARK_PHASE: u8 = 22;
    pub(super) const MARK_TIMER_DUE: u8 = 23;
    pub(super) const MARK_STAMP: u8 = 24;
    pub(super) const MARK_TURN_END: u8 = 25;
    pub(super) const CPU_TOTALS: u8 = 26;
    pub(super) const TASK_TOTALS: u8 = 27;
    pub(super) const DL_THROTTLE: u8 = 28;
    pub(super) const DL_REPLENISH: u8 = 29;
    pub(super) const SERVER: u8 = 30;
    pub(super) const RT_THROTTLE: u8 = 31;
    pub(super) const RT_UNTHROTTLE: u8 = 32;
    pub(super) const GROUP_NEW: u8 = 33;
    pub(super) const GROUP_CHANGE: u8 = 34;
    pub(super) const GROUP_MAX: u8 = 35;
    pub(super) const BANDWIDTH_REFRESH: u8 = 36;
    pub(super) const BANDWIDTH_REFRESH_THROTTLED: u8 = 37;
    pub(super) const THROTTLE: u8 = 38;
    pub(super) const UNTHROTTLE: u8 = 39;
    pub(super) const GROUP_TOTALS: u8 = 40;
    pub(super) const ROOT_DOMAIN: u8 = 41;
    pub(super) const QUEUE_NEW: u8 = 42;
    pub(super) const REQUEST_ARRIVE: u8 = 43;
    pub(super) const REQUEST_START: u8 = 44;
    pub(super) const REQUEST_END: u8 = 45;
    pub(super) const REQUEST_DROP: u8 = 46;
    pub(super) const GROUP_MAX_SLICE: u8 = 47;
    pub(super) const CPU_OFFLINE: u8 = 48;
    pub(super) const CPU_ONLINE: u8 = 49;
    pub(super) const SYSCALL_ENTER: u8 = 50;
    pub(super) const SYSCALL_EXIT: u8 = 51;
    pub(super) const BOOST: u8 = 52;
    pub(super) const UNBOOST: u8 = 53;
    pub(super) const TASK_THROTTLE: u8 = 54;
    pub(super) const TASK_UNTHROTTLE: u8 = 55;
    pub(super) const DL_OVERRUN: u8 = 56;
    pub(super) const PROXY: u8 = 57;
    pub(super) const PROXY_END: u8 = 58;
    pub(super) const GROUP_GONE: u8 = 59;
    // 60 and 61 are free; then only extended kinds are left.
    /// The kind follows as a varint, at the start of the fields. No event has such a kind yet.
    pub(super) const EXTENDED: u8 = 62;
    pub(super) const GROUP_WEIGHT: u8 = 63;
}

/// The numbers of [`PrevState`].
const PREV_STATES: [PrevState; 4] = [PrevState::Runnable, PrevState::Blocked, PrevState::Dead, PrevState::Idle];

impl Deltas {
    /// Appends a record.
    pub(super) fn put(&mut self, out: &mut Vec<u8>, record: &Record) -> Result<(), Reason> {
        if record.cpu.index() >= MAX_CPUS {
            return Err("a record is of a CPU beyond 4095");
        }
        let head = out.len();
        let step = record.at.as_nanos().wrapping_sub(self.at.as_nanos()).cast_signed();
        let mut bits = 0;
        out.push(0);
        if step == 0 {
            bits |= SAME_TIME;
        } else {
            put_zigzag(out, step);
        }
        if record.cpu.0 == self.cpu {
            bits |= SAME_CPU;
        } else {
            put_varint(out, u64::from(record.cpu.0));
        }
        out[head] = bits | put_event(out, &record.event)?;
        *self = Self { at: record.at, cpu: record.cpu.0 };
        Ok(())
    }

    /// Takes the next record.
    #[inline]
    pub(super) fn take(&mut self, cursor: &mut Cursor<'_>) -> Result<Record, Reason> {
        let head = cursor.byte()?;
        let step = if head & SAME_TIME == 0 { cursor.zigzag()? } else { 0 };
        let cpu = if head & SAME_CPU == 0 { take_cpu(cursor)? } else { CpuId(self.cpu) };
        let at = Instant::from_nanos(self.at.as_nanos().wrapping_add(step.cast_unsigned()));
        let event = match head & KIND_MASK {
            kind::EXTENDED => take_extended(cursor)?,
            kind => take_event(kind, cursor)?,
        };
        *self = Self { at, cpu: cpu.0 };
        Ok(Record { at, cpu, event })
    }
}

/// Appends the fields of an event and returns its kind.
fn put_event(out: &mut Vec<u8>, event: &TraceEvent) -> Result<u8, Reason> {
    Ok(match event {
        TraceEvent::TaskNew { task, name, parent, attr, group } => {
            put_id(out, task.0);
            put_bytes(out, name.as_bytes());
            put_option(out, *parent);
            put_attr(out, *attr);
            put_id(out, group.0);
            kind::TASK_NEW
        }
        TraceEvent::TaskExit { task } => {
            put_id(out, task.0);
            kind::TASK_EXIT
        }
        TraceEvent::Waking { task, prio, target, new } => {
            put_id(out, task.0);
            put_prio(out, *prio);
            put_cpu(out, *target)?;
            if *new { kind::WAKING_NEW } else { kind::WAKING }
        }
        TraceEvent::Wakeup { task, prio } => {
            put_id(out, task.0);
            put_prio(out, *prio);
            kind::WAKEUP
        }
        TraceEvent::Switch { prev, prev_state, next, next_prio } => {
            out.push(index_of(&PREV_STATES, *prev_state));
            put_option(out, *prev);
            put_option(out, *next);
            put_prio(out, *next_prio);
            kind::SWITCH
        }
        TraceEvent::Migrate { task, prio, from, to, reason } => {
            put_id(out, task.0);
            put_prio(out, *prio);
            put_cpu(out, *from)?;
            put_cpu(out, *to)?;
            out.push(index_of(&MigrateReason::ALL, *reason));
            kind::MIGRATE
        }
        TraceEvent::AttrChange { task, attr } => {
            put_id(out, task.0);
            put_attr(out, *attr);
            kind::ATTR_CHANGE
        }
        TraceEvent::PrioInherit { task, from, to } => {
            put_id(out, task.0);
            put_prio(out, *from);
            put_prio(out, *to);
            kind::PRIO_INHERIT
        }
        TraceEvent::Affinity { task, cpus } => {
            put_id(out, task.0);
            put_mask(out, cpus);
            kind::AFFINITY
        }
        TraceEvent::RtOverload { overloaded: true } => kind::RT_OVERLOAD_SET,
        TraceEvent::RtOverload { overloaded: false } => kind::RT_OVERLOAD_CLEAR,
        TraceEvent::DlThrottle { task, until, left } => {
            put_id(out, task.0);
            put_varint(out, until.as_nanos());
            put_zigzag(out, left.as_nanos());
            kind::DL_THROTTLE
        }
        TraceEvent::DlReplenish { task, deadline, budget } => {
            put_id(out, task.0);
            put_varint(out, deadline.as_nanos());
            put_zigzag(out, budget.as_nanos());
            kind::DL_REPLENISH
        }
        TraceEvent::DlOverrun { task } => {
            put_id(out, task.0);
            kind::DL_OVERRUN
        }
        TraceEvent::Server { kind, state } => {
            out.push(index_of(&ServerKind::ALL, *kind));
            put_server(out, *state);
            kind::SERVER
        }
        TraceEvent::ServerParams { kind, params } => {
            out.extend([index_of(&ServerKind::ALL, *kind), SERVER_PARAMS, index_of(&ACTIVATIONS, params.activation)]);
            put_varint(out, params.runtime.as_nanos());
            put_varint(out, params.period.as_nanos());
            kind::SERVER
        }
        TraceEvent::RootDomain { domain } => {
            put_id(out, *domain);
            kind::ROOT_DOMAIN
        }
        TraceEvent::Hotplug { online: true } => kind::CPU_ONLINE,
        TraceEvent::Hotplug { online: false } => kind::CPU_OFFLINE,
        TraceEvent::RtThrottle { throttled: true } => kind::RT_THROTTLE,
        TraceEvent::RtThrottle { throttled: false } => kind::RT_UNTHROTTLE,
        TraceEvent::NeedResched { by } => {
            put_cpu(out, *by)?;
            kind::NEED_RESCHED
        }
        TraceEvent::IpiSend { to, reason } => {
            put_cpu(out, *to)?;
            out.push(index_of(&IpiReason::ALL, *reason));
            kind::IPI_SEND
        }
        TraceEvent::IrqEnter { irq } => {
            out.push(index_of(&Irq::ALL, *irq));
            kind::IRQ_ENTER
        }
        TraceEvent::IrqExit { irq } => {
            out.push(index_of(&Irq::ALL, *irq));
            kind::IRQ_EXIT
        }
        TraceEvent::LockContended { rq } => {
            put_cpu(out, *rq)?;
            kind::LOCK_CONTENDED
        }
        TraceEvent::LockAcquired { rq, waited } => {
            put_cpu(out, *rq)?;
            put_varint(out, waited.as_nanos());
            kind::LOCK_ACQUIRED
        }
        TraceEvent::WaitLock { task, lock, holder } => {
            put_id(out, task.0);
            put_id(out, *lock);
            put_option(out, *holder);
            kind::WAIT_LOCK
        }
        TraceEvent::TakeLock { task, lock } => {
            put_id(out, task.0);
            put_id(out, *lock);
            kind::TAKE_LOCK
        }
        TraceEvent::DropLock { task, lock } => {
            put_id(out, task.0);
            put_id(out, *lock);
            kind::DROP_LOCK
        }
        TraceEvent::Syscall { task, enters } => {
            put_id(out, task.0);
            if *enters { kind::SYSCALL_ENTER } else { kind::SYSCALL_EXIT }
        }
        TraceEvent::Boost { task, boosted } => {
            put_id(out, task.0);
            if *boosted { kind::BOOST } else { kind::UNBOOST }
        }
        TraceEvent::Proxy { task, donor, prio } => {
            put_id(out, task.0);
            put_prio(out, *prio);
            match donor {
                Some(donor) => {
                    put_id(out, donor.0);
                    kind::PROXY
                }
                None => kind::PROXY_END,
            }
        }
        TraceEvent::TaskThrottle { task, throttled } => {
            put_id(out, task.0);
            if *throttled { kind::TASK_THROTTLE } else { kind::TASK_UNTHROTTLE }
        }
        TraceEvent::Mark { task, mark } => {
            put_id(out, task.0);
            put_mark(out, *mark)
        }
        TraceEvent::GroupNew { group, parent, path } => {
            put_id(out, group.0);
            put_id(out, parent.0);
            put_bytes(out, path.as_bytes());
            kind::GROUP_NEW
        }
        TraceEvent::GroupGone { group } => {
            put_id(out, group.0);
            kind::GROUP_GONE
        }
        TraceEvent::GroupChange { task, group } => {
            put_id(out, task.0);
            put_id(out, group.0);
            kind::GROUP_CHANGE
        }
        TraceEvent::GroupMax { group, max } => {
            put_id(out, group.0);
            // One more than the quota: zero means that there is no limit.
            put_varint(out, max.quota.map_or(0, |quota| quota.as_nanos().saturating_add(1)));
            put_varint(out, max.period.as_nanos());
            put_varint(out, max.burst.as_nanos());
            match max.slice {
                None => kind::GROUP_MAX,
                Some(slice) => {
                    put_varint(out, slice.as_nanos());
                    kind::GROUP_MAX_SLICE
                }
            }
        }
        TraceEvent::GroupWeight { group, weight } => {
            put_id(out, group.0);
            put_id(out, *weight);
            kind::GROUP_WEIGHT
        }
        TraceEvent::BandwidthRefresh { group, runtime, throttled } => {
            put_id(out, group.0);
            put_varint(out, runtime.as_nanos());
            if *throttled { kind::BANDWIDTH_REFRESH_THROTTLED } else { kind::BANDWIDTH_REFRESH }
        }
        TraceEvent::Throttle { group } => {
            put_id(out, group.0);
            kind::THROTTLE
        }
        TraceEvent::Unthrottle { group } => {
            put_id(out, group.0);
            kind::UNTHROTTLE
        }
        TraceEvent::GroupTotals { group, stat } => {
            put_id(out, group.0);
            put_varint(out, stat.nr_periods);
            put_varint(out, stat.nr_throttled);
            put_varint(out, stat.throttled.as_nanos());
            put_varint(out, stat.nr_bursts);
            put_varint(out, stat.burst.as_nanos());
            kind::GROUP_TOTALS
        }
        TraceEvent::QueueNew { queue, name } => {
            put_id(out, *queue);
            put_bytes(out, name.as_bytes());
            kind::QUEUE_NEW
        }
        TraceEvent::Request { queue, request, step } => {
            put_id(out, *queue);
            put_varint(out, *request);
            match step {
                RequestStep::Arrive { due } => {
                    put_varint(out, due.as_nanos());
                    kind::REQUEST_ARRIVE
                }
                RequestStep::Start { task } => {
                    put_id(out, task.0);
                    kind::REQUEST_START
                }
                RequestStep::End { task } => {
                    put_id(out, task.0);
                    kind::REQUEST_END
                }
                RequestStep::Drop => kind::REQUEST_DROP,
            }
        }
        TraceEvent::CpuTotals { times } => {
            out.push(CpuLayer::ALL.len() as u8);
            for layer in CpuLayer::ALL {
                put_varint(out, times.of(layer).as_nanos());
            }
            kind::CPU_TOTALS
        }
        TraceEvent::TaskTotals { task, counters } => {
            put_id(out, task.0);
            put_varint(out, counters.exec.as_nanos());
            put_varint(out, counters.switches_in);
            put_varint(out, counters.migrations);
            put_varint(out, counters.wakeups);
            kind::TASK_TOTALS
        }
    })
}

/// Takes an event of an extended kind, none of which this program knows. Apart, so that the usual
/// path does not grow.
#[cold]
fn take_extended(cursor: &mut Cursor<'_>) -> Result<TraceEvent, Reason> {
    cursor.varint()?;
    Err("an event of a later zerolag (extended kind); skipping it would make checks wrong")
}

fn take_event(kind: u8, cursor: &mut Cursor<'_>) -> Result<TraceEvent, Reason> {
    Ok(match kind {
        kind::TASK_NEW => TraceEvent::TaskNew {
            task: take_task(cursor)?,
            name: Arc::from(cursor.text()?),
            parent: take_option(cursor)?,
            attr: take_attr(cursor)?,
            group: take_group(cursor)?,
        },
        kind::TASK_EXIT => TraceEvent::TaskExit { task: take_task(cursor)? },
        kind::WAKING | kind::WAKING_NEW => TraceEvent::Waking {
            task: take_task(cursor)?,
            prio: take_prio(cursor)?,
            target: take_cpu(cursor)?,
            new: kind == kind::WAKING_NEW,
        },
        kind::WAKEUP => TraceEvent::Wakeup { task: take_task(cursor)?, prio: take_prio(cursor)? },
        kind::SWITCH => {
            let prev_state = value_of(&PREV_STATES, cursor.byte()?)?;
            TraceEvent::Switch {
                prev_state,
                prev: take_option(cursor)?,
                next: take_option(cursor)?,
                next_prio: take_prio(cursor)?,
            }
        }
        kind::MIGRATE => TraceEvent::Migrate {
            task: take_task(cursor)?,
            prio: take_prio(cursor)?,
            from: take_cpu(cursor)?,
            to: take_cpu(cursor)?,
            reason: value_of(&MigrateReason::ALL, cursor.byte()?)?,
        },
        kind::ATTR_CHANGE => TraceEvent::AttrChange { task: take_task(cursor)?, attr: take_attr(cursor)? },
        kind::PRIO_INHERIT => {
            TraceEvent::PrioInherit { task: take_task(cursor)?, from: take_prio(cursor)?, to: take_prio(cursor)? }
        }
        kind::AFFINITY => TraceEvent::Affinity { task: take_task(cursor)?, cpus: Arc::new(take_mask(cursor)?) },
        kind::RT_OVERLOAD_SET => TraceEvent::RtOverload { overloaded: true },
        kind::RT_OVERLOAD_CLEAR => TraceEvent::RtOverload { overloaded: false },
        kind::DL_THROTTLE => TraceEvent::DlThrottle {
            task: take_task(cursor)?,
            until: Instant::from_nanos(cursor.varint()?),
            left: SignedDuration::from_nanos(cursor.zigzag()?),
        },
        kind::DL_REPLENISH => TraceEvent::DlReplenish {
            task: take_task(cursor)?,
            deadline: Instant::from_nanos(cursor.varint()?),
            budget: SignedDuration::from_nanos(cursor.zigzag()?),
        },
        kind::DL_OVERRUN => TraceEvent::DlOverrun { task: take_task(cursor)? },
        kind::SERVER => take_server(cursor)?,
        kind::RT_THROTTLE => TraceEvent::RtThrottle { throttled: true },
        kind::RT_UNTHROTTLE => TraceEvent::RtThrottle { throttled: false },
        kind::NEED_RESCHED => TraceEvent::NeedResched { by: take_cpu(cursor)? },
        kind::IPI_SEND => {
            TraceEvent::IpiSend { to: take_cpu(cursor)?, reason: value_of(&IpiReason::ALL, cursor.byte()?)? }
        }
        kind::IRQ_ENTER => TraceEvent::IrqEnter { irq: value_of(&Irq::ALL, cursor.byte()?)? },
        kind::IRQ_EXIT => TraceEvent::IrqExit { irq: value_of(&Irq::ALL, cursor.byte()?)? },
        kind::LOCK_CONTENDED => TraceEvent::LockContended { rq: take_cpu(cursor)? },
        kind::LOCK_ACQUIRED => TraceEvent::LockAcquired { rq: take_cpu(cursor)?, waited: take_duration(cursor)? },
        kind::WAIT_LOCK => {
            TraceEvent::WaitLock { task: take_task(cursor)?, lock: cursor.varint_u32()?, holder: take_option(cursor)? }
        }
        kind::TAKE_LOCK => TraceEvent::TakeLock { task: take_task(cursor)?, lock: cursor.varint_u32()? },
        kind::DROP_LOCK => TraceEvent::DropLock { task: take_task(cursor)?, lock: cursor.varint_u32()? },
        kind::MARK_PHASE | kind::MARK_TIMER_DUE | kind::MARK_STAMP | kind::MARK_TURN_END => {
            TraceEvent::Mark { task: take_task(cursor)?, mark: take_mark(kind, cursor)? }
        }
        kind::SYSCALL_ENTER | kind::SYSCALL_EXIT => {
            TraceEvent::Syscall { task: take_task(cursor)?, enters: kind == kind::SYSCALL_ENTER }
        }
        kind::BOOST | kind::UNBOOST => TraceEvent::Boost { task: take_task(cursor)?, boosted: kind == kind::BOOST },
        kind::PROXY | kind::PROXY_END => {
            let (task, prio) = (take_task(cursor)?, take_prio(cursor)?);
            let donor = if kind == kind::PROXY { Some(take_task(cursor)?) } else { None };
            TraceEvent::Proxy { task, donor, prio }
        }
        kind::TASK_THROTTLE | kind::TASK_UNTHROTTLE => {
            TraceEvent::TaskThrottle { task: take_task(cursor)?, throttled: kind == kind::TASK_THROTTLE }
        }
        kind::GROUP_NEW => TraceEvent::GroupNew {
            group: take_group(cursor)?,
            parent: take_group(cursor)?,
            path: Arc::from(cursor.text()?),
        },
        kind::GROUP_GONE => TraceEvent::GroupGone { group: take_group(cursor)? },
        kind::GROUP_CHANGE => TraceEvent::GroupChange { task: take_task(cursor)?, group: take_group(cursor)? },
        kind::GROUP_MAX | kind::GROUP_MAX_SLICE => TraceEvent::GroupMax {
            group: take_group(cursor)?,
            max: CpuMax {
                quota: cursor.varint()?.checked_sub(1).map(Duration::from_nanos),
                period: take_duration(cursor)?,
                burst: take_duration(cursor)?,
                slice: if kind == kind::GROUP_MAX_SLICE { Some(take_duration(cursor)?) } else { None },
            },
        },
        kind::GROUP_WEIGHT => TraceEvent::GroupWeight { group: take_group(cursor)?, weight: cursor.varint_u32()? },
        kind::BANDWIDTH_REFRESH | kind::BANDWIDTH_REFRESH_THROTTLED => TraceEvent::BandwidthRefresh {
            group: take_group(cursor)?,
            runtime: take_duration(cursor)?,
            throttled: kind == kind::BANDWIDTH_REFRESH_THROTTLED,
        },
        kind::THROTTLE => TraceEvent::Throttle { group: take_group(cursor)? },
        kind::UNTHROTTLE => TraceEvent::Unthrottle { group: take_group(cursor)? },
        kind::GROUP_TOTALS => TraceEvent::GroupTotals {
            group: take_group(cursor)?,
            stat: CpuStat {
                nr_periods: cursor.varint()?,
                nr_throttled: cursor.varint()?,
                throttled: take_duration(cursor)?,
                nr_bursts: cursor.varint()?,
                burst: take_duration(cursor)?,
            },
        },
        kind::CPU_ONLINE | kind::CPU_OFFLINE => TraceEvent::Hotplug { online: kind == kind::CPU_ONLINE },
        kind::ROOT_DOMAIN => TraceEvent::RootDomain { domain: cursor.varint_u32()? },
        kind::QUEUE_NEW => TraceEvent::QueueNew { queue: cursor.varint_u32()?, name: Arc::from(cursor.text()?) },
        kind::REQUEST_ARRIVE | kind::REQUEST_START | kind::REQUEST_END | kind::REQUEST_DROP => {
            let (queue, request) = (cursor.varint_u32()?, cursor.varint()?);
            let step = match kind {
                kind::REQUEST_ARRIVE => RequestStep::Arrive { due: Instant::from_nanos(cursor.varint()?) },
                kind::REQUEST_START => RequestStep::Start { task: take_task(cursor)? },
                kind::REQUEST_END => RequestStep::End { task: take_task(cursor)? },
                _ => RequestStep::Drop,
            };
            TraceEvent::Request { queue, request, step }
        }
        kind::CPU_TOTALS => {
            if usize::from(cursor.byte()?) != CpuLayer::ALL.len() {
                return Err("an unknown number of CPU layers");
            }
            let mut times = LayerTimes::default();
            for layer in CpuLayer::ALL {
                times.charge(layer, take_duration(cursor)?);
            }
            TraceEvent::CpuTotals { times }
        }
        kind::TASK_TOTALS => TraceEvent::TaskTotals {
            task: take_task(cursor)?,
            counters: TaskCounters {
                exec: take_duration(cursor)?,
                switches_in: cursor.varint()?,
                migrations: cursor.varint()?,
                wakeups: cursor.varint()?,
            },
        },
        _ => return Err("an event of a kind that this version does not know"),
    })
}

fn put_server(out: &mut Vec<u8>, state: ServerState) {
    let (number, at) = match state {
        ServerState::Stopped => (0, None),
        ServerState::Deferred { until } => (1, Some(until)),
        ServerState::Queued { deadline } => (2, Some(deadline)),
        ServerState::Throttled { until } => (3, Some(until)),
    };
    out.push(number);
    if let Some(at) = at {
        put_varint(out, at.as_nanos());
    }
}

/// In the order of the format's numbers.
const ACTIVATIONS: [Activation; 2] = [Activation::Immediate, Activation::Deferred];

/// In place of a server's state: parameters follow.
const SERVER_PARAMS: u8 = 4;

fn take_server(cursor: &mut Cursor<'_>) -> Result<TraceEvent, Reason> {
    let kind = value_of(&ServerKind::ALL, cursor.byte()?)?;
    let state = match cursor.byte()? {
        0 => ServerState::Stopped,
        1 => ServerState::Deferred { until: take_instant(cursor)? },
        2 => ServerState::Queued { deadline: take_instant(cursor)? },
        3 => ServerState::Throttled { until: take_instant(cursor)? },
        SERVER_PARAMS => {
            let activation = value_of(&ACTIVATIONS, cursor.byte()?)?;
            let (runtime, period) = (take_duration(cursor)?, take_duration(cursor)?);
            return Ok(TraceEvent::ServerParams { kind, params: ServerParams { runtime, period, activation } });
        }
        _ => return Err("a server state that this version does not know"),
    };
    Ok(TraceEvent::Server { kind, state })
}

fn put_mark(out: &mut Vec<u8>, mark: Mark) -> u8 {
    match mark {
        Mark::Phase { phase, turn } => {
            put_id(out, phase);
            put_varint(out, turn);
            kind::MARK_PHASE
        }
        Mark::TimerDue { due, slack } => {
            put_varint(out, due.as_nanos());
            put_zigzag(out, slack.as_nanos());
            kind::MARK_TIMER_DUE
        }
        Mark::Stamp { label, exec } => {
            put_id(out, label);
            put_varint(out, exec.as_nanos());
            kind::MARK_STAMP
        }
        Mark::TurnEnd { turn } => {
            put_varint(out, turn);
            kind::MARK_TURN_END
        }
    }
}

fn take_mark(kind: u8, cursor: &mut Cursor<'_>) -> Result<Mark, Reason> {
    Ok(match kind {
        kind::MARK_PHASE => Mark::Phase { phase: cursor.varint_u32()?, turn: cursor.varint()? },
        kind::MARK_TIMER_DUE => Mark::TimerDue {
            due: Instant::from_nanos(cursor.varint()?),
            slack: SignedDuration::from_nanos(cursor.zigzag()?),
        },
        kind::MARK_STAMP => Mark::Stamp { label: cursor.varint_u32()?, exec: take_duration(cursor)? },
        _ => Mark::TurnEnd { turn: cursor.varint()? },
    })
}

/// Attributes: a number for the policy, then its parameters.
fn put_attr(out: &mut Vec<u8>, attr: SchedAttr) {
    match attr {
        SchedAttr::Fair { policy, nice, slice } => {
            out.push(match policy {
                FairPolicy::Other => 0,
                FairPolicy::Batch => 1,
                FairPolicy::Idle => 2,
            });
            put_zigzag(out, i64::from(nice.value()));
            // One more than the slice: zero means that none was asked for. A slice of u64::MAX does
            // not exist.
            put_varint(out, slice.map_or(0, |slice| slice.as_nanos().saturating_add(1)));
        }
        SchedAttr::Rt { policy, priority } => {
            out.push(match policy {
                RtPolicy::Fifo => 3,
                RtPolicy::Rr => 4,
            });
            out.push(priority.value());
        }
        SchedAttr::Deadline(DlParams { runtime, deadline, period, flags }) => {
            if flags == DlFlags::NONE {
                out.push(5);
            } else {
                out.extend([6, flags.bits()]);
            }
            for time in [runtime, deadline, period] {
                put_varint(out, time.as_nanos());
            }
        }
    }
}

fn take_attr(cursor: &mut Cursor<'_>) -> Result<SchedAttr, Reason> {
    let fair = |policy, cursor: &mut Cursor<'_>| -> Result<SchedAttr, Reason> {
        Ok(SchedAttr::Fair {
            policy,
            nice: Nice::new(cursor.zigzag()?).ok_or("a nice value outside -20..=19")?,
            slice: cursor.varint()?.checked_sub(1).map(Duration::from_nanos),
        })
    };
    let rt = |policy, cursor: &mut Cursor<'_>| -> Result<SchedAttr, Reason> {
        let priority = RtPriority::new(i64::from(cursor.byte()?)).ok_or("a real-time priority outside 1..=99")?;
        Ok(SchedAttr::Rt { policy, priority })
    };
    let deadline = |flags, cursor: &mut Cursor<'_>| -> Result<SchedAttr, Reason> {
        let (runtime, deadline) = (take_duration(cursor)?, take_duration(cursor)?);
        Ok(SchedAttr::Deadline(DlParams::new(runtime, deadline, take_duration(cursor)?).with_flags(flags)))
    };
    match cursor.byte()? {
        0 => fair(FairPolicy::Other, cursor),
        1 => fair(FairPolicy::Batch, cursor),
        2 => fair(FairPolicy::Idle, cursor),
        3 => rt(RtPolicy::Fifo, cursor),
        4 => rt(RtPolicy::Rr, cursor),
        5 => deadline(DlFlags::NONE, cursor),
        6 => {
            let flags = DlFlags::from_bits(u64::from(cursor.byte()?));
            deadline(flags, cursor)
        }
        _ => Err("an unknown policy"),
    }
}

/// A mask as ranges: their number, then per range the gap before it and its length less one.
fn put_mask(out: &mut Vec<u8>, mask: &CpuMask) {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for cpu in mask.iter() {
        match ranges.last_mut() {
            Some((_, end)) if *end + 1 == cpu.0 => *end = cpu.0,
            Some(_) | None => ranges.push((cpu.0, cpu.0)),
        }
    }
    put_varint(out, ranges.len() as u64);
    let mut from = 0;
    for (start, end) in ranges {
        put_id(out, start - from);
        put_id(out, end - start);
        from = end;
    }
}

fn take_mask(cursor: &mut Cursor<'_>) -> Result<CpuMask, Reason> {
    let beyond = "a CPU mask goes beyond CPU 4095";
    let mut mask = CpuMask::new();
    let mut from = 0_u32;
    let ranges = cursor.varint()?;
    // More ranges than CPUs are impossible, and this check bounds the work below by CPUs x ranges.
    if ranges > MAX_CPUS as u64 {
        return Err(beyond);
    }
    for _ in 0..ranges {
        let start = from.checked_add(cursor.varint_u32()?).ok_or(beyond)?;
        let end = start.checked_add(cursor.varint_u32()?).filter(|end| (*end as usize) < MAX_CPUS).ok_or(beyond)?;
        for cpu in start..=end {
            mask.insert(CpuId(cpu));
        }
        from = end;
    }
    Ok(mask)
}

fn put_id(out: &mut Vec<u8>, id: u32) {
    put_varint(out, u64::from(id));
}

fn put_option(out: &mut Vec<u8>, task: Option<TaskId>) {
    put_varint(out, task.map_or(0, |task| u64::from(task.0) + 1));
}

fn put_prio(out: &mut Vec<u8>, prio: Prio) {
    // -2..=140 becomes 0..=142: two bytes only for idle and the last fair levels.
    put_varint(out, (i64::from(prio.raw()) + 2).cast_unsigned());
}

fn put_cpu(out: &mut Vec<u8>, cpu: CpuId) -> Result<(), Reason> {
    if cpu.index() >= MAX_CPUS {
        return Err("a record names a CPU beyond 4095");
    }
    put_id(out, cpu.0);
    Ok(())
}

fn take_task(cursor: &mut Cursor<'_>) -> Result<TaskId, Reason> {
    cursor.varint_u32().map(TaskId)
}

fn take_group(cursor: &mut Cursor<'_>) -> Result<GroupId, Reason> {
    cursor.varint_u32().map(GroupId)
}

fn take_option(cursor: &mut Cursor<'_>) -> Result<Option<TaskId>, Reason> {
    match cursor.varint()?.checked_sub(1) {
        None => Ok(None),
        Some(id) => u32::try_from(id).map(|id| Some(TaskId(id))).map_err(|_| "a number does not fit 32 bits"),
    }
}

fn take_prio(cursor: &mut Cursor<'_>) -> Result<Prio, Reason> {
    let raw = cursor.varint()?;
    if raw > 142 {
        return Err("a priority outside -2..=140");
    }
    Ok(Prio::from_raw(raw as i16 - 2))
}

fn take_cpu(cursor: &mut Cursor<'_>) -> Result<CpuId, Reason> {
    let cpu = CpuId(cursor.varint_u32()?);
    if cpu.index() < MAX_CPUS { Ok(cpu) } else { Err("a CPU beyond 4095") }
}

fn take_instant(cursor: &mut Cursor<'_>) -> Result<Instant, Reason> {
    cursor.varint().map(Instant::from_nanos)
}

fn take_duration(cursor: &mut Cursor<'_>) -> Result<Duration, Reason> {
    cursor.varint().map(Duration::from_nanos)
}

fn index_of<T: PartialEq + Copy>(values: &[T], value: T) -> u8 {
    values.iter().position(|known| *known == value).expect("invariant: the tables list every value") as u8
}

fn value_of<T: Copy>(values: &[T], index: u8) -> Result<T, Reason> {
    values.get(usize::from(index)).copied().ok_or("an unknown value of an enumeration")
}
