//! From the payload of a trace point to an event of the kernel.
//!
//! The fields are looked up once per trace point, so an event costs its loads.

use super::event::{KernelEvent, TaskRef, irq_of};
use super::format::{Field, Format};
use super::means::Call;
use super::state::States;
use zerolag_model::event::IpiReason;
use zerolag_model::{CpuId, Duration, MAX_CPUS, PrevState, Prio};

/// The order of bytes in a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ByteOrder {
    Little,
    Big,
}

impl ByteOrder {
    /// Returns the unsigned number of up to eight bytes.
    #[inline]
    pub(crate) fn number(self, bytes: &[u8]) -> u64 {
        // Nearly all have four or eight bytes: one load instead of a loop.
        if let Ok(word) = <[u8; 8]>::try_from(bytes) {
            return if self == Self::Little { u64::from_le_bytes(word) } else { u64::from_be_bytes(word) };
        }
        if let Ok(word) = <[u8; 4]>::try_from(bytes) {
            return u64::from(if self == Self::Little { u32::from_le_bytes(word) } else { u32::from_be_bytes(word) });
        }
        let push = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
        match self {
            Self::Little => bytes.iter().rev().take(8).fold(0, push),
            Self::Big => bytes.iter().take(8).fold(0, push),
        }
    }

    /// Returns the number of so many bytes at an offset; `None` beyond the end.
    #[inline]
    pub(crate) fn at(self, bytes: &[u8], offset: usize, size: usize) -> Option<u64> {
        Some(self.number(bytes.get(offset..offset.checked_add(size)?)?))
    }

    #[inline]
    pub(crate) fn u32(self, bytes: &[u8], offset: usize) -> Option<u32> {
        self.at(bytes, offset, 4).and_then(|value| u32::try_from(value).ok())
    }

    #[inline]
    pub(crate) fn u64(self, bytes: &[u8], offset: usize) -> Option<u64> {
        self.at(bytes, offset, 8)
    }
}

/// A trace point that is used: how its payload is decoded.
#[derive(Clone, Debug)]
pub(crate) struct Decoder {
    kind: Kind,
    order: ByteOrder,
    /// The fields in the order of [`Kind::fields`].
    fields: Vec<Field>,
    /// Of a switch, the meaning of its state, if the format tells it.
    states: Option<States>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Switch,
    Waking,
    Wakeup,
    WakeupNew,
    Migrate,
    Fork,
    Exit,
    PiSetprio,
    Charged,
    Attach,
    IpiSendCpu,
    Send,
    Receive,
    Ports,
    Other(KernelEvent<'static>),
}

impl Kind {
    fn of(name: &str) -> Option<Self> {
        Some(match name {
            "sched_switch" => Self::Switch,
            "sched_waking" => Self::Waking,
            "sched_wakeup" => Self::Wakeup,
            "sched_wakeup_new" => Self::WakeupNew,
            "sched_migrate_task" => Self::Migrate,
            "sched_process_fork" => Self::Fork,
            "sched_process_exit" => Self::Exit,
            "sched_pi_setprio" => Self::PiSetprio,
            "sched_stat_runtime" => Self::Charged,
            "cgroup_attach_task" => Self::Attach,
            "ipi_send_cpu" => Self::IpiSendCpu,
            "sock_send_length" => Self::Send,
            "sock_recv_length" => Self::Receive,
            "tcp_rcv_space_adjust" => Self::Ports,
            _ => Self::Other(irq_of(name).or_else(|| Call::of_event(name).map(KernelEvent::Call))?),
        })
    }

    const fn fields(self) -> &'static [&'static str] {
        match self {
            Self::Switch => &["prev_comm", "prev_pid", "prev_prio", "prev_state", "next_comm", "next_pid", "next_prio"],
            Self::Waking | Self::Wakeup | Self::WakeupNew => &["comm", "pid", "prio", "target_cpu"],
            Self::Migrate => &["comm", "pid", "prio", "orig_cpu", "dest_cpu"],
            Self::Fork => &["parent_comm", "parent_pid", "child_comm", "child_pid"],
            Self::Exit => &["comm", "pid"],
            Self::PiSetprio => &["comm", "pid", "oldprio", "newprio"],
            Self::Charged => &["comm", "pid", "runtime"],
            Self::Attach => &["comm", "pid", "dst_path", "dst_root"],
            Self::IpiSendCpu => &["cpu"],
            Self::Send | Self::Receive => &["sk", "ret", "flags"],
            Self::Ports => &["sport", "dport"],
            Self::Other(_) => &[],
        }
    }
}

/// Payloads with the fields of one trace point.
struct Payload<'a, 'd> {
    bytes: &'a [u8],
    decoder: &'d Decoder,
}

impl<'a> Payload<'a, '_> {
    fn number(&self, at: usize) -> Option<u64> {
        let field = self.decoder.fields.get(at)?;
        self.decoder.order.at(self.bytes, field.offset, field.size.min(8))
    }

    fn tid(&self, at: usize) -> Option<u32> {
        u32::try_from(self.number(at)?).ok()
    }

    fn prio(&self, at: usize) -> Option<Prio> {
        let raw = i16::try_from(self.number(at)? as u32 as i32).ok()?;
        (-2..=140).contains(&raw).then(|| Prio::from_raw(raw))
    }

    fn cpu(&self, at: usize) -> Option<CpuId> {
        let cpu = u32::try_from(self.number(at)?).ok()?;
        ((cpu as usize) < MAX_CPUS).then_some(CpuId(cpu))
    }

    /// Returns a text up to its zero byte; one that is cut within a character ends before it.
    fn text(&self, at: usize) -> Option<&'a str> {
        let field = self.decoder.fields.get(at)?;
        let (offset, size) = if field.is_elsewhere {
            let place = self.decoder.order.u32(self.bytes, field.offset)?;
            ((place & 0xffff) as usize, (place >> 16) as usize)
        } else {
            (field.offset, field.size)
        };
        Some(text_of(self.bytes.get(offset..offset.checked_add(size)?)?))
    }

    fn task(&self, comm: usize, tid: usize) -> Option<TaskRef<'a>> {
        Some(TaskRef { comm: self.text(comm)?, tid: self.tid(tid)? })
    }
}

/// Returns a text up to its zero byte. The kernel cuts names at 15 bytes, also within a character:
/// the rest of it is left out.
pub(crate) fn text_of(bytes: &[u8]) -> &str {
    let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    match core::str::from_utf8(text) {
        Ok(text) => text,
        Err(error) => core::str::from_utf8(&text[..error.valid_up_to()]).unwrap_or_default(),
    }
}

impl Decoder {
    /// Returns how a trace point is decoded; `None` if it is not used or lacks a field.
    pub(crate) fn of(format: &Format, order: ByteOrder) -> Option<Self> {
        let kind = Kind::of(&format.name)?;
        let fields = kind.fields().iter().map(|name| format.field(name).cloned()).collect::<Option<Vec<_>>>()?;
        let states = States::of_print(&format.print).filter(|_| kind == Kind::Switch);
        Some(Self { kind, order, fields, states })
    }

    /// Sets the kernel's release, for what the format does not tell.
    pub(crate) fn set_release(&mut self, release: &str) {
        self.states = self.states.or_else(|| States::of_release(release));
    }

    fn state(&self, number: u64) -> PrevState {
        self.states.unwrap_or_default().state(number)
    }

    /// Decodes a payload; `None` if it is too short or a value is impossible.
    pub(crate) fn decode<'a>(&self, bytes: &'a [u8]) -> Option<KernelEvent<'a>> {
        let payload = Payload { bytes, decoder: self };
        Some(match self.kind {
            Kind::Switch => {
                let prev = payload.task(0, 1)?;
                let prev_state = if prev.tid == 0 { PrevState::Idle } else { self.state(payload.number(3)?) };
                let next = payload.task(4, 5)?;
                KernelEvent::Switch { prev, prev_prio: payload.prio(2)?, prev_state, next, next_prio: payload.prio(6)? }
            }
            Kind::Waking => {
                let (task, prio) = (payload.task(0, 1)?, payload.prio(2)?);
                KernelEvent::Waking { task, prio, target: payload.cpu(3)? }
            }
            Kind::Wakeup => {
                KernelEvent::Wakeup { task: payload.task(0, 1)?, prio: payload.prio(2)?, cpu: payload.cpu(3)? }
            }
            Kind::WakeupNew => {
                KernelEvent::WakeupNew { task: payload.task(0, 1)?, prio: payload.prio(2)?, cpu: payload.cpu(3)? }
            }
            Kind::Migrate => {
                let (task, prio) = (payload.task(0, 1)?, payload.prio(2)?);
                KernelEvent::Migrate { task, prio, from: payload.cpu(3)?, to: payload.cpu(4)? }
            }
            Kind::Fork => KernelEvent::Fork { parent: payload.task(0, 1)?, child: payload.task(2, 3)? },
            Kind::Exit => KernelEvent::Exit { task: payload.task(0, 1)? },
            Kind::PiSetprio => {
                KernelEvent::PiSetprio { task: payload.task(0, 1)?, from: payload.prio(2)?, to: payload.prio(3)? }
            }
            Kind::Charged => {
                KernelEvent::Charged { task: payload.task(0, 1)?, ran: Duration::from_nanos(payload.number(2)?) }
            }
            Kind::Attach => {
                let task = payload.task(0, 1)?;
                // Another hierarchy is one of cgroup v1, of any controller.
                KernelEvent::Attach { task, path: payload.text(2)?, is_v2: payload.number(3)? == 0 }
            }
            Kind::IpiSendCpu => KernelEvent::IpiSend { to: payload.cpu(0)?, reason: IpiReason::Resched },
            Kind::Send | Kind::Receive => {
                // Below zero is an error, and what is only looked at is received later.
                let bytes = u32::try_from(payload.number(1)? as u32 as i32).unwrap_or(0);
                let bytes = if payload.number(2)? & MSG_PEEK == 0 { bytes } else { 0 };
                KernelEvent::Message { socket: payload.number(0)?, bytes, is_sent: self.kind == Kind::Send }
            }
            Kind::Ports => {
                let port = |at: usize| payload.number(at).and_then(|port| u16::try_from(port).ok());
                KernelEvent::Ports((port(0)?, port(1)?))
            }
            Kind::Other(event) => event,
        })
    }
}

/// Linux v7.3 `include/linux/socket.h`.
const MSG_PEEK: u64 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_what_a_call_has_moved() {
        let text = "name: sock_recv_length\nID: 9\nformat:\n\tfield:void * sk;\toffset:8;\tsize:8;\tsigned:0;\n\t\
                    field:__u16 family;\toffset:16;\tsize:2;\tsigned:0;\n\tfield:int ret;\toffset:20;\tsize:4;\t\
                    signed:1;\n\tfield:int flags;\toffset:24;\tsize:4;\tsigned:1;\n";
        let decoder = Decoder::of(&Format::parse(text).expect("a format"), ByteOrder::Little).expect("a known event");
        let bytes_of = |ret: i32, flags: u32| {
            let mut payload = vec![0; 8];
            payload.extend(0xffff_8880_0001_u64.to_le_bytes());
            payload.extend([2, 0, 0, 0]);
            payload.extend(ret.to_le_bytes());
            payload.extend(flags.to_le_bytes());
            assert_eq!(decoder.decode(&payload[..27]), None);
            match decoder.decode(&payload) {
                Some(KernelEvent::Message { socket: 0xffff_8880_0001, bytes, is_sent: false }) => bytes,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!((bytes_of(36, 0x40), bytes_of(-11, 0), bytes_of(0, 0), bytes_of(36, 2)), (36, 0, 0, 0));
        let text = "name: tcp_rcv_space_adjust\nID: 9\nformat:\n\tfield:__u16 sport;\toffset:8;\tsize:2;\tsigned:0;\n\t\
                    field:__u16 dport;\toffset:10;\tsize:2;\tsigned:0;\n";
        let decoder = Decoder::of(&Format::parse(text).expect("a format"), ByteOrder::Big).expect("a known event");
        let payload = [0, 0, 0, 0, 0, 0, 0, 0, 0x18, 0xff, 0xc0, 0xaa];
        assert_eq!(decoder.decode(&payload), Some(KernelEvent::Ports((6399, 49322))));
    }

    #[test]
    fn both_byte_orders_are_read() {
        assert_eq!(ByteOrder::Little.number(&[1, 2, 0, 0]), 0x201);
        assert_eq!(ByteOrder::Big.number(&[0, 0, 1, 2]), 0x102);
        let bytes = [1, 2, 3, 4, 5, 6, 7, 8, 9];
        let folded = |bytes: &[u8]| bytes.iter().take(8).fold(0_u64, |value, byte| value << 8 | u64::from(*byte));
        for size in 0..=bytes.len() {
            let turned: Vec<u8> = bytes[..size].iter().copied().rev().collect();
            assert_eq!(ByteOrder::Big.number(&bytes[..size]), folded(&bytes[..size]), "{size}");
            assert_eq!(ByteOrder::Little.number(&bytes[..size]), folded(&turned), "{size}");
        }
        assert_eq!(ByteOrder::Little.u32(&[1, 0, 0], 0), None);
        assert_eq!(ByteOrder::Little.u64(&[0; 8], usize::MAX), None);
    }

    #[test]
    fn a_name_that_is_cut_within_a_character_ends_before_it() {
        assert_eq!(text_of("caf\u{e9}".as_bytes()), "caf\u{e9}");
        assert_eq!(text_of(&"caf\u{e9}".as_bytes()[..4]), "caf");
        assert_eq!(text_of(b"bash\0\xff\xff"), "bash");
    }

    #[test]
    fn a_payload_is_decoded_by_its_format() {
        let text = "name: sched_stat_runtime\nID: 5\nformat:\n\tfield:__data_loc char[] comm;\toffset:8;\tsize:4;\t\
                    signed:0;\n\tfield:pid_t pid;\toffset:12;\tsize:4;\tsigned:1;\n\tfield:u64 runtime;\toffset:16;\t\
                    size:8;\tsigned:0;\n";
        let decoder = Decoder::of(&Format::parse(text).expect("a format"), ByteOrder::Little).expect("a known event");
        let mut payload = vec![0; 8];
        payload.extend(0x0003_0018_u32.to_le_bytes());
        payload.extend(7_u32.to_le_bytes());
        payload.extend(1000_u64.to_le_bytes());
        payload.extend(b"ab\0");
        let task = TaskRef { comm: "ab", tid: 7 };
        assert_eq!(decoder.decode(&payload), Some(KernelEvent::Charged { task, ran: Duration::from_micros(1) }));
        for cut in 0..payload.len() {
            assert_eq!(decoder.decode(&payload[..cut]), None, "{cut}");
        }
        let lacking = text.replace("runtime;", "other;");
        assert!(Decoder::of(&Format::parse(&lacking).expect("a format"), ByteOrder::Little).is_none());
    }
}
