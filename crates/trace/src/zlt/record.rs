//! Encodes and decodes one record. The fields of events and their order come from the table of
//! events (`crates/model/src/event/table.rs`); here is how each type of fields is written. The
//! numbers of enum values are the format: never reorder them, only add.

use super::wire::{Cursor, Reason, put_bytes, put_varint, put_zigzag};
use std::sync::Arc;
use zerolag_model::attr::{DlFlags, DlParams, FairPolicy, Nice, Prio, RtPolicy, RtPriority, SchedAttr};
use zerolag_model::event::{Disables, IpiReason, Irq, RcuStep};
use zerolag_model::{
    Activation, CpuId, CpuLayer, CpuMask, CpuMax, CpuStat, Duration, GroupId, Instant, LayerTimes, MAX_CPUS, Mark,
    MigrateReason, PrevState, Record, RequestStep, RtBandwidth, ServerKind, ServerParams, ServerState, SignedDuration,
    TaskCounters, TaskId, TraceEvent, trace_events,
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
const KIND_BITS: u32 = KIND_MASK.count_ones();

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
        let event = take_event(u64::from(head & KIND_MASK), cursor)?;
        *self = Self { at, cpu: cpu.0 };
        Ok(Record { at, cpu, event })
    }
}

/// Makes the codec of the table of events.
macro_rules! codec {
    ($(
        $(#[$doc:meta])*
        $event:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty,)+ }
        $($number:literal ($($own:ident),* $(; $($part:ident),+)?) $({ $($rest:tt)+ })?
            $(=> $word:literal $text:tt)?),+;
    )+) => {
        const _: () = assert!(are_distinct(&[EXTENDED as u64, SERVERS as u64, $($($number),+),+]), "a number is used twice");

        /// Appends the fields of an event and returns its kind.
        fn put_event(out: &mut Vec<u8>, event: &TraceEvent) -> Result<u8, Reason> {
            Ok(match event {
                $($(TraceEvent::$event { $($own,)* $($($rest)+)? } => {
                    if low($number) == EXTENDED {
                        put_varint(out, $number >> KIND_BITS);
                    }
                    $($own.put(out)?;)*
                    $($($part.put(out)?;)+)?
                    low($number)
                })+)+
            })
        }

        fn take_event(kind: u64, cursor: &mut Cursor<'_>) -> Result<TraceEvent, Reason> {
            Ok(match kind {
                $($($number => {
                    $(let $own = Wire::take(cursor)?;)*
                    $($(let $part = Wire::take(cursor)?;)+)?
                    TraceEvent::$event { $($own,)* $($($rest)+)? }
                })+)+
                30 => {
                    let number = if cursor.peek(1) == Some(SERVER_PARAMS) { 158 } else { 94 };
                    return take_event(number, cursor);
                }
                62 => return take_extended(cursor),
                _ => return Err("an event of a kind that this version does not know"),
            })
        }
    };
}

trace_events!(codec);

/// What both events of servers are written as.
const SERVERS: u8 = 30;
/// In place of a server's state: its parameters follow.
const SERVER_PARAMS: u8 = 4;
/// The kind follows as a varint, at the start of the fields.
const EXTENDED: u8 = 62;
/// The highest extended kind of an event.
const EXTENDED_MAX: u64 = 6;

/// Returns the bits of a kind that stand in the head of a record.
const fn low(kind: u64) -> u8 {
    (kind & KIND_MASK as u64) as u8
}

const fn are_distinct(numbers: &[u64]) -> bool {
    let mut at = 1;
    while at < numbers.len() {
        let mut before = 0;
        while before < at {
            if numbers[before] == numbers[at] {
                return false;
            }
            before += 1;
        }
        at += 1;
    }
    true
}

/// Takes an event of an extended kind. Apart, so that the usual path does not grow.
#[cold]
fn take_extended(cursor: &mut Cursor<'_>) -> Result<TraceEvent, Reason> {
    match cursor.varint()? {
        kind @ 1..=EXTENDED_MAX => take_event(kind << KIND_BITS | u64::from(EXTENDED), cursor),
        _ => Err("an event of a later zerolag (extended kind); skipping it would make checks wrong"),
    }
}

/// How a type of fields is written.
trait Wire: Sized {
    fn put(&self, out: &mut Vec<u8>) -> Result<(), Reason>;
    fn take(cursor: &mut Cursor<'_>) -> Result<Self, Reason>;
}

/// How types are written: the bytes of a value, and the value of bytes.
macro_rules! wire {
    ($($type:ty: |$value:ident, $out:ident| $put:expr, |$cursor:ident| $take:expr;)+) => {$(
        impl Wire for $type {
            #[inline]
            fn put(&self, $out: &mut Vec<u8>) -> Result<(), Reason> {
                let $value = self;
                $put;
                Ok(())
            }
            #[inline]
            fn take($cursor: &mut Cursor<'_>) -> Result<Self, Reason> {
                $take
            }
        }
    )+};
}

wire! {
    u32: |id, out| put_id(out, *id), |cursor| cursor.varint_u32();
    u64: |number, out| put_varint(out, *number), |cursor| cursor.varint();
    TaskId: |task, out| put_id(out, task.0), |cursor| cursor.varint_u32().map(Self);
    GroupId: |group, out| put_id(out, group.0), |cursor| cursor.varint_u32().map(Self);
    CpuId: |cpu, out| put_cpu(out, *cpu)?, |cursor| take_cpu(cursor);
    Option<TaskId>: |task, out| put_option(out, *task), |cursor| take_option(cursor);
    Prio: |prio, out| put_prio(out, *prio), |cursor| take_prio(cursor);
    Instant: |at, out| put_varint(out, at.as_nanos()), |cursor| cursor.varint().map(Self::from_nanos);
    Duration: |time, out| put_varint(out, time.as_nanos()), |cursor| cursor.varint().map(Self::from_nanos);
    SignedDuration: |time, out| put_zigzag(out, time.as_nanos()), |cursor| cursor.zigzag().map(Self::from_nanos);
    Option<Duration>: |time, out| put_optional(out, *time),
        |cursor| Ok(cursor.varint()?.checked_sub(1).map(Duration::from_nanos));
    Arc<str>: |text, out| put_bytes(out, text.as_bytes()), |cursor| cursor.text().map(Self::from);
    Arc<CpuMask>: |mask, out| put_mask(out, mask), |cursor| take_mask(cursor).map(Self::new);
    SchedAttr: |attr, out| put_attr(out, *attr), |cursor| take_attr(cursor);
    PrevState: |state, out| out.push(index_of(&PREV_STATES, *state)), |cursor| value_of(&PREV_STATES, cursor.byte()?);
    MigrateReason: |reason, out| out.push(index_of(&Self::ALL, *reason)), |cursor| value_of(&Self::ALL, cursor.byte()?);
    IpiReason: |reason, out| out.push(index_of(&Self::ALL, *reason)), |cursor| value_of(&Self::ALL, cursor.byte()?);
    Irq: |irq, out| out.push(index_of(&Self::ALL, *irq)), |cursor| value_of(&Self::ALL, cursor.byte()?);
    Disables: |what, out| out.push(index_of(&Self::ALL, *what)), |cursor| value_of(&Self::ALL, cursor.byte()?);
    RcuStep: |step, out| out.push(index_of(&Self::ALL, *step)), |cursor| value_of(&Self::ALL, cursor.byte()?);
    ServerKind: |kind, out| out.push(index_of(&Self::ALL, *kind)), |cursor| value_of(&Self::ALL, cursor.byte()?);
    ServerState: |state, out| put_server(out, *state), |cursor| take_server(cursor);
    // The first field of a server's parameters: a number that no state has stands before it.
    Activation: |activation, out| out.extend([SERVER_PARAMS, index_of(&ACTIVATIONS, *activation)]), |cursor| {
        cursor.byte()?;
        value_of(&ACTIVATIONS, cursor.byte()?)
    };
    LayerTimes: |times, out| {
        out.push(CpuLayer::ALL.len() as u8);
        for layer in CpuLayer::ALL {
            put_varint(out, times.of(layer).as_nanos());
        }
    }, |cursor| {
        if usize::from(cursor.byte()?) != CpuLayer::ALL.len() {
            return Err("an unknown number of CPU layers");
        }
        let mut times = Self::default();
        for layer in CpuLayer::ALL {
            times.charge(layer, Wire::take(cursor)?);
        }
        Ok(times)
    };
}

/// In the order of the format's numbers.
const PREV_STATES: [PrevState; 4] = [PrevState::Runnable, PrevState::Blocked, PrevState::Dead, PrevState::Idle];
/// In the order of the format's numbers.
const ACTIVATIONS: [Activation; 2] = [Activation::Immediate, Activation::Deferred];

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

fn take_server(cursor: &mut Cursor<'_>) -> Result<ServerState, Reason> {
    Ok(match cursor.byte()? {
        0 => ServerState::Stopped,
        1 => ServerState::Deferred { until: Wire::take(cursor)? },
        2 => ServerState::Queued { deadline: Wire::take(cursor)? },
        3 => ServerState::Throttled { until: Wire::take(cursor)? },
        _ => return Err("a server state that this version does not know"),
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
                FairPolicy::Ext => 7,
            });
            put_zigzag(out, i64::from(nice.value()));
            put_optional(out, slice);
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
        SchedAttr::Ext { policy, nice, slice } => {
            out.push(8);
            put_attr(out, SchedAttr::Fair { policy, nice, slice });
        }
    }
}

fn take_attr(cursor: &mut Cursor<'_>) -> Result<SchedAttr, Reason> {
    let fair = |policy, cursor: &mut Cursor<'_>| -> Result<SchedAttr, Reason> {
        Ok(SchedAttr::Fair {
            policy,
            nice: Nice::new(cursor.zigzag()?).ok_or("a nice value outside -20..=19")?,
            slice: Wire::take(cursor)?,
        })
    };
    let rt = |policy, cursor: &mut Cursor<'_>| -> Result<SchedAttr, Reason> {
        let priority = RtPriority::new(i64::from(cursor.byte()?)).ok_or("a real-time priority outside 1..=99")?;
        Ok(SchedAttr::Rt { policy, priority })
    };
    let deadline = |flags, cursor: &mut Cursor<'_>| -> Result<SchedAttr, Reason> {
        let (runtime, deadline) = (Wire::take(cursor)?, Wire::take(cursor)?);
        Ok(SchedAttr::Deadline(DlParams::new(runtime, deadline, Wire::take(cursor)?).with_flags(flags)))
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
        7 => fair(FairPolicy::Ext, cursor),
        8 => {
            let policy = match cursor.byte()? {
                0 => FairPolicy::Other,
                1 => FairPolicy::Batch,
                2 => FairPolicy::Idle,
                7 => FairPolicy::Ext,
                _ => return Err("an unknown policy of a loaded scheduler"),
            };
            match fair(policy, cursor)? {
                SchedAttr::Fair { policy, nice, slice } => Ok(SchedAttr::Ext { policy, nice, slice }),
                _ => Err("an unknown policy of a loaded scheduler"),
            }
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

/// One more than the time: zero means that there is none. A time of u64::MAX does not exist.
fn put_optional(out: &mut Vec<u8>, time: Option<Duration>) {
    put_varint(out, time.map_or(0, |time| time.as_nanos().saturating_add(1)));
}

fn put_option(out: &mut Vec<u8>, task: Option<TaskId>) {
    put_varint(out, task.map_or(0, |task| u64::from(task.0) + 1));
}

fn put_prio(out: &mut Vec<u8>, prio: Prio) {
    // -2..=180 becomes 0..=182: two bytes only for idle, the last fair levels and those above.
    put_varint(out, (i64::from(prio.raw()) + 2).cast_unsigned());
}

fn put_cpu(out: &mut Vec<u8>, cpu: CpuId) -> Result<(), Reason> {
    if cpu.index() >= MAX_CPUS {
        return Err("a record names a CPU beyond 4095");
    }
    put_id(out, cpu.0);
    Ok(())
}

fn take_option(cursor: &mut Cursor<'_>) -> Result<Option<TaskId>, Reason> {
    match cursor.varint()?.checked_sub(1) {
        None => Ok(None),
        Some(id) => u32::try_from(id).map(|id| Some(TaskId(id))).map_err(|_| "a number does not fit 32 bits"),
    }
}

fn take_prio(cursor: &mut Cursor<'_>) -> Result<Prio, Reason> {
    let raw = cursor.varint()?;
    if raw > 182 {
        return Err("a priority outside -2..=180");
    }
    Ok(Prio::from_raw(raw as i16 - 2))
}

fn take_cpu(cursor: &mut Cursor<'_>) -> Result<CpuId, Reason> {
    let cpu = CpuId(cursor.varint_u32()?);
    if cpu.index() < MAX_CPUS { Ok(cpu) } else { Err("a CPU beyond 4095") }
}

fn index_of<T: PartialEq + Copy>(values: &[T], value: T) -> u8 {
    values.iter().position(|known| *known == value).expect("invariant: the tables list every value") as u8
}

fn value_of<T: Copy>(values: &[T], index: u8) -> Result<T, Reason> {
    values.get(usize::from(index)).copied().ok_or("an unknown value of an enumeration")
}
