//! From the arguments of a trace point to an event of the kernel.

use super::bytes;
use super::line::LOST;
use crate::kernel::event::{KernelEvent, TaskRef, irq_of};
use crate::kernel::means::Call;
use crate::kernel::state::{States, number as parse_number};
use zerolag_model::event::IpiReason;
use zerolag_model::{CpuId, Duration, MAX_CPUS, PrevState, Prio};

/// Parses the arguments of a trace point; `None` for trace points that are not used. `states` says
/// what the states of switches mean that are numbers.
pub(super) fn parse<'a>(name: &str, args: &'a str, states: States) -> Result<Option<KernelEvent<'a>>, String> {
    Ok(Some(match name {
        "sched_switch" => parse_switch(args, states)?,
        "sched_waking" => {
            let (task, prio, target) = parse_wakeup(args)?;
            KernelEvent::Waking { task, prio, target }
        }
        "sched_wakeup" => {
            let (task, prio, cpu) = parse_wakeup(args)?;
            KernelEvent::Wakeup { task, prio, cpu }
        }
        "sched_wakeup_new" => {
            let (task, prio, cpu) = parse_wakeup(args)?;
            KernelEvent::WakeupNew { task, prio, cpu }
        }
        "sched_migrate_task" => {
            let mut fields = Fields(args);
            let to = fields.cpu("dest_cpu")?;
            let from = fields.cpu("orig_cpu")?;
            let prio = fields.prio("prio")?;
            KernelEvent::Migrate { task: fields.task("comm", "pid")?, prio, from, to }
        }
        "sched_process_fork" => {
            let mut fields = Fields(args);
            let child = fields.inner_task("child_comm", "child_pid")?;
            let (comm, pid) =
                if args.starts_with("parent_comm=") { ("parent_comm", "parent_pid") } else { ("comm", "pid") };
            KernelEvent::Fork { parent: fields.task(comm, pid)?, child }
        }
        "sched_process_exit" => {
            let mut fields = Fields(args);
            fields.prio("prio")?;
            KernelEvent::Exit { task: fields.task("comm", "pid")? }
        }
        "sched_pi_setprio" => {
            let mut fields = Fields(args);
            let to = fields.prio("newprio")?;
            let from = fields.prio("oldprio")?;
            KernelEvent::PiSetprio { task: fields.task("comm", "pid")?, from, to }
        }
        "ipi_send_cpu" => {
            let to = Fields(args.split(" callsite").next().unwrap_or(args)).cpu("cpu")?;
            // The remote half of RT push is an irq_work; all other IPIs of the scheduler request a
            // reschedule.
            let push = args.contains("rto_push") || args.contains("irq_work");
            KernelEvent::IpiSend { to, reason: if push { IpiReason::RtPush } else { IpiReason::Resched } }
        }
        "cgroup_attach_task" => parse_attach(args)?,
        "sock_send_length" | "sock_recv_length" => parse_message(args, name == "sock_send_length")?,
        "tcp_rcv_space_adjust" => parse_ports(args)?,
        LOST => {
            let count = args.split(|c: char| !c.is_ascii_digit()).find_map(|number| number.parse().ok());
            KernelEvent::Lost { events: count.unwrap_or(0) }
        }
        "sched_stat_runtime" => parse_usual_charge(args).map_or_else(|| parse_any_charge(args), Ok)?,
        _ => return Ok(irq_of(name).or_else(|| Call::of_event(name).map(KernelEvent::Call))),
    }))
}

/// Parses `dst_root=0 dst_id=3214 dst_level=2 dst_path=/a/b pid=12 comm=a b`.
fn parse_attach(args: &str) -> Result<KernelEvent<'_>, String> {
    let missing = |key: &str| format!("field `{key}` is missing");
    let (before, rest) = args.split_once(" dst_path=").ok_or_else(|| missing("dst_path"))?;
    let (rest, comm) = rest.split_once(" comm=").ok_or_else(|| missing("comm"))?;
    let (path, tid) = rest.rsplit_once(" pid=").ok_or_else(|| missing("pid"))?;
    let root = before.strip_prefix("dst_root=").and_then(|rest| rest.split(' ').next());
    let is_v2 = root.ok_or_else(|| missing("dst_root"))? == "0";
    let task = TaskRef { comm, tid: parse_pid("pid", tid)? };
    Ok(KernelEvent::Attach { task, path, is_v2 })
}

/// Parses `sk address = 00000000c1bbb1ad, family = AF_INET protocol = IPPROTO_TCP, length = 36,
/// error = 0, flags = 0x40`. The length of what is only looked at is zero.
fn parse_message(args: &str, is_sent: bool) -> Result<KernelEvent<'_>, String> {
    let field = |key: &str| {
        let value = args.split_once(key).map(|(_, rest)| rest.split([',', ' ']).next().unwrap_or_default());
        value.ok_or_else(|| format!("field `{}` is missing", key.trim_end_matches(" = ")))
    };
    let (address, length) = (field("sk address = ")?, field("length = ")?);
    let digits = address.strip_prefix("0x").unwrap_or(address);
    let socket = u64::from_str_radix(digits, 16).map_err(|_| format!("`sk address = {address}` is not an address"))?;
    let bytes = length.parse::<u32>().map_err(|_| format!("`length = {length}` is not a number of bytes"))?;
    Ok(KernelEvent::Message { socket, bytes, is_sent })
}

/// Parses `family=AF_INET sport=6399 dport=49322 saddr=127.0.0.1 ...`; the family is missing before
/// Linux 5.12.
fn parse_ports(args: &str) -> Result<KernelEvent<'_>, String> {
    let port = |key: &str| {
        let value = args.split(' ').find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
        let value = value.ok_or_else(|| format!("field `{key}` is missing"))?;
        value.parse::<u16>().map_err(|_| format!("`{key}={value}` is not a port"))
    };
    Ok(KernelEvent::Ports((port("sport")?, port("dport")?)))
}

/// Takes a field with a decimal number from the end of a text: `" pid=12"`. `None` if it is spelled
/// in another way or has further separators before it; then [`Fields`] finds it, or says what is
/// wrong.
#[inline]
fn last_field<'a, const N: usize>(text: &'a str, key: &[u8; N]) -> Option<(u64, &'a str)> {
    let (value, digits) = bytes::last_number(text.as_bytes())?;
    let before = text.as_bytes()[..text.len() - digits].strip_suffix(key)?;
    if before.last().is_none_or(is_separator) {
        return None;
    }
    Some((value, &text[..before.len()]))
}

/// As [`last_field`], of a task whose name is everything before its id.
fn last_task<'a>(text: &'a str) -> Option<TaskRef<'a>> {
    let (tid, rest) = last_field(text, b" pid=")?;
    Some(TaskRef { comm: rest.strip_prefix("comm=")?, tid: u32::try_from(tid).ok()? })
}

fn usual_prio(value: u64) -> Option<Prio> {
    i16::try_from(value).ok().filter(|prio| *prio <= 140).map(Prio::from_raw)
}

/// Parses `comm=a pid=1 runtime=2 [ns]`.
fn parse_usual_charge(args: &str) -> Option<KernelEvent<'_>> {
    let (ran, rest) = last_field(args.strip_suffix(" [ns]")?, b" runtime=")?;
    Some(KernelEvent::Charged { task: last_task(rest)?, ran: Duration::from_nanos(ran) })
}

fn parse_any_charge(args: &str) -> Result<KernelEvent<'_>, String> {
    let mut fields = Fields(args);
    let ran = fields.cut("runtime")?;
    let ran = parse_number(ran).ok_or_else(|| format!("`runtime={ran}` is not a time in nanoseconds"))?;
    Ok(KernelEvent::Charged { task: fields.task("comm", "pid")?, ran: Duration::from_nanos(ran) })
}

/// Parses `comm=a pid=1 prio=120 target_cpu=003`.
fn parse_usual_wakeup(args: &str) -> Option<(TaskRef<'_>, Prio, CpuId)> {
    let (cpu, rest) = last_field(args, b" target_cpu=")?;
    let (prio, rest) = last_field(rest, b" prio=")?;
    let cpu = u32::try_from(cpu).ok().filter(|cpu| (*cpu as usize) < MAX_CPUS)?;
    Some((last_task(rest)?, usual_prio(prio)?, CpuId(cpu)))
}

/// Parses `prev_comm=a prev_pid=1 prev_prio=120 prev_state=S ==> next_comm=b next_pid=2
/// next_prio=120`.
fn parse_usual_switch(args: &str, states: States) -> Option<KernelEvent<'_>> {
    let (next_prio, rest) = last_field(args, b" next_prio=")?;
    let (next_tid, rest) = last_field(rest, b" next_pid=")?;
    let equal = rest.bytes().rposition(|byte| byte == b'=')?;
    let next = TaskRef { comm: &rest[equal + 1..], tid: u32::try_from(next_tid).ok()? };
    let before = rest.as_bytes()[..equal].strip_suffix(b" ==> next_comm")?;
    let equal = before.iter().rposition(|byte| *byte == b'=')?;
    let state = &rest[equal + 1..before.len()];
    let before = before[..equal].strip_suffix(b" prev_state")?;
    let (prev_prio, rest) = last_field(&rest[..before.len()], b" prev_prio=")?;
    let (prev_tid, rest) = last_field(rest, b" prev_pid=")?;
    let prev = TaskRef { comm: rest.strip_prefix("prev_comm=")?, tid: u32::try_from(prev_tid).ok()? };
    let (prev_prio, next_prio) = (usual_prio(prev_prio)?, usual_prio(next_prio)?);
    let is_plain = !state.is_empty() && state.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'+');
    let prev_state = parse_state(state, prev.tid, states).ok().filter(|_| is_plain)?;
    Some(KernelEvent::Switch { prev, prev_prio, prev_state, next, next_prio })
}

fn parse_switch(args: &str, states: States) -> Result<KernelEvent<'_>, String> {
    parse_usual_switch(args, states).map_or_else(|| parse_any_switch(args, states), Ok)
}

fn parse_any_switch(args: &str, states: States) -> Result<KernelEvent<'_>, String> {
    if args.starts_with("prev_comm=") {
        let mut fields = Fields(args);
        let next_prio = fields.prio("next_prio")?;
        let next = fields.inner_task("next_comm", "next_pid")?;
        if let Some(before) = fields.0.trim_end().strip_suffix("==>") {
            fields = Fields(before.trim_end());
        }
        let prev_state = fields.cut("prev_state")?;
        let prev_prio = fields.prio("prev_prio")?;
        let prev = fields.task("prev_comm", "prev_pid")?;
        let prev_state = parse_state(prev_state, prev.tid, states)?;
        return Ok(KernelEvent::Switch { prev, prev_prio, prev_state, next, next_prio });
    }
    // The spelling of libtraceevent's plugin: `bash:30633 [120] S ==> demo:30623 [120]`.
    let (before, after) = args.rsplit_once(" ==> ").ok_or("sched_switch has no `==>`")?;
    let (next, next_prio, _) = parse_plugin_task(after)?;
    let (prev, prev_prio, state) = parse_plugin_task(before)?;
    let prev_state = parse_state(state, prev.tid, states)?;
    Ok(KernelEvent::Switch { prev, prev_prio, prev_state, next, next_prio })
}

fn parse_wakeup(args: &str) -> Result<(TaskRef<'_>, Prio, CpuId), String> {
    parse_usual_wakeup(args).map_or_else(|| parse_any_wakeup(args), Ok)
}

fn parse_any_wakeup(args: &str) -> Result<(TaskRef<'_>, Prio, CpuId), String> {
    if args.starts_with("comm=") {
        let mut fields = Fields(args);
        let target = fields.cpu("target_cpu")?;
        let prio = fields.prio("prio")?;
        return Ok((fields.task("comm", "pid")?, prio, target));
    }
    let (task, prio, rest) = parse_plugin_task(args)?;
    let cpu = rest.rsplit("CPU:").next().unwrap_or_default();
    Ok((task, prio, parse_cpu("CPU", cpu.trim_end_matches('>'))?))
}

/// Parses `demo:30623 [120] rest`.
fn parse_plugin_task(text: &str) -> Result<(TaskRef<'_>, Prio, &str), String> {
    let (head, rest) = text.rsplit_once(']').ok_or("a task has no priority in brackets")?;
    let (task, prio) = head.rsplit_once('[').ok_or("a task has no priority in brackets")?;
    let (comm, pid) = task.trim_end().rsplit_once(':').ok_or("a task is name:pid")?;
    Ok((TaskRef { comm, tid: parse_pid("pid", pid)? }, parse_prio("prio", prio)?, rest.trim()))
}

/// Parses the letter of a state or, in raw form, its number.
///
/// Source: Linux v6.12 `include/linux/sched.h` (`TASK_*`, `EXIT_*`), `include/trace/events/sched.h`
/// (`R+`: preempted).
fn parse_state(text: &str, pid: u32, states: States) -> Result<PrevState, String> {
    if pid == 0 {
        return Ok(PrevState::Idle);
    }
    if let Some(number) = parse_number(text) {
        return Ok(states.state(number));
    }
    match text.bytes().next() {
        Some(b'R') => Ok(PrevState::Runnable),
        Some(b'X' | b'Z' | b'x') => Ok(PrevState::Dead),
        Some(b'S' | b'D' | b'T' | b't' | b'P' | b'I' | b'K' | b'W' | b'N') => Ok(PrevState::Blocked),
        Some(_) | None => Err(format!("prev_state `{text}` is not one of R S D T t X Z P I")),
    }
}

/// Arguments `key=value ...`, taken from the right: only the first field, a name, can contain any
/// text.
struct Fields<'a>(&'a str);

impl<'a> Fields<'a> {
    /// Takes the last field of this name and drops the text after it.
    fn cut(&mut self, key: &str) -> Result<&'a str, String> {
        // By bytes, since every line of a trace is cut here several times: a searcher of `str`
        // takes longer to be set up than a field is long.
        let bytes = self.0.as_bytes();
        let mut end = bytes.len();
        loop {
            let equal = bytes[..end].iter().rposition(|byte| *byte == b'=');
            let equal = equal.ok_or_else(|| format!("field `{key}` is missing"))?;
            let begin = bytes[..equal].strip_suffix(key.as_bytes());
            if let Some(before) = begin.filter(|before| before.last().is_none_or(is_separator)) {
                let value = &bytes[equal + 1..];
                let length = value.iter().position(is_separator).unwrap_or(value.len());
                let value = &self.0[equal + 1..equal + 1 + length];
                self.0 = trim_separators(&self.0[..before.len()]);
                return Ok(value);
            }
            end = equal;
        }
    }

    fn cpu(&mut self, key: &str) -> Result<CpuId, String> {
        parse_cpu(key, self.cut(key)?)
    }

    fn prio(&mut self, key: &str) -> Result<Prio, String> {
        parse_prio(key, self.cut(key)?)
    }

    /// Takes a task whose name is the first field.
    fn task(&mut self, comm: &str, pid: &str) -> Result<TaskRef<'a>, String> {
        let tid = parse_pid(pid, self.cut(pid)?)?;
        let name = self.0.strip_prefix(comm).and_then(|rest| rest.strip_prefix('='));
        Ok(TaskRef { comm: name.ok_or_else(|| format!("field `{comm}` is missing"))?, tid })
    }

    /// Takes a task whose name is between other fields.
    fn inner_task(&mut self, comm: &str, pid: &str) -> Result<TaskRef<'a>, String> {
        let tid = parse_pid(pid, self.cut(pid)?)?;
        let bytes = self.0.as_bytes();
        let mut end = bytes.len();
        loop {
            let equal = bytes[..end].iter().rposition(|byte| *byte == b'=');
            let equal = equal.ok_or_else(|| format!("field `{comm}` is missing"))?;
            if let Some(before) = bytes[..equal].strip_suffix(comm.as_bytes()) {
                let name = &self.0[equal + 1..];
                self.0 = trim_separators(&self.0[..before.len()]);
                return Ok(TaskRef { comm: name, tid });
            }
            end = equal;
        }
    }
}

const fn is_separator(byte: &u8) -> bool {
    matches!(byte, b' ' | b',')
}

fn trim_separators(text: &str) -> &str {
    let kept = text.bytes().rposition(|byte| !is_separator(&byte)).map_or(0, |last| last + 1);
    &text[..kept]
}

fn parse_pid(key: &str, text: &str) -> Result<u32, String> {
    let pid = parse_number(text).and_then(|pid| u32::try_from(pid).ok());
    pid.ok_or_else(|| format!("`{key}={text}` is not a process id"))
}

fn parse_cpu(key: &str, text: &str) -> Result<CpuId, String> {
    let cpu = parse_number(text).filter(|cpu| *cpu < MAX_CPUS as u64).and_then(|cpu| u32::try_from(cpu).ok());
    cpu.map(CpuId).ok_or_else(|| format!("`{key}={text}` is not a CPU below {MAX_CPUS}"))
}

fn parse_prio(key: &str, text: &str) -> Result<Prio, String> {
    let prio = text.parse::<i16>().ok().filter(|prio| (-2..=140).contains(prio));
    prio.map(Prio::from_raw).ok_or_else(|| format!("`{key}={text}` is outside -2..=140"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn switch(args: &str) -> KernelEvent<'_> {
        parse("sched_switch", args, States::default()).expect(args).expect(args)
    }

    #[test]
    fn the_three_spellings_of_a_switch_mean_the_same() {
        let expected = KernelEvent::Switch {
            prev: TaskRef { comm: "bash", tid: 30633 },
            prev_prio: Prio::from_raw(120),
            prev_state: PrevState::Blocked,
            next: TaskRef { comm: "demo", tid: 30623 },
            next_prio: Prio::from_raw(89),
        };
        for args in [
            "prev_comm=bash prev_pid=30633 prev_prio=120 prev_state=S ==> next_comm=demo next_pid=30623 next_prio=89",
            "bash:30633 [120] S ==> demo:30623 [89]",
            "prev_comm=bash prev_pid=30633 prev_prio=120 prev_state=0x1 next_comm=demo next_pid=30623 next_prio=89",
            "prev_comm=bash, prev_pid=30633, prev_prio=120, prev_state=1, next_comm=demo, next_pid=30623, next_prio=89",
        ] {
            assert_eq!(switch(args), expected, "{args}");
        }
    }

    #[test]
    fn names_may_hold_anything() {
        let args = "prev_comm=a b=c ==> d prev_pid=1 prev_prio=120 prev_state=R+ ==> next_comm=x: [1] pid=9 next_pid=2 next_prio=5";
        let KernelEvent::Switch { prev, next, prev_state, .. } = switch(args) else { panic!("a switch") };
        assert_eq!(prev, TaskRef { comm: "a b=c ==> d", tid: 1 });
        assert_eq!(next, TaskRef { comm: "x: [1] pid=9", tid: 2 });
        assert_eq!(prev_state, PrevState::Runnable);
        let KernelEvent::Switch { prev, .. } = switch("a:b [x] y:7 [120] R ==> c d:8 [120]") else {
            panic!("a switch")
        };
        assert_eq!(prev, TaskRef { comm: "a:b [x] y", tid: 7 });
    }

    #[test]
    fn states_are_known_as_letters_and_as_numbers() {
        for (text, state) in [
            ("R", PrevState::Runnable),
            ("R+", PrevState::Runnable),
            ("0x100", PrevState::Runnable),
            ("0", PrevState::Runnable),
            ("D", PrevState::Blocked),
            ("I", PrevState::Blocked),
            ("X", PrevState::Dead),
            ("16", PrevState::Dead),
            ("128", PrevState::Blocked),
        ] {
            assert_eq!(parse_state(text, 1, States::default()), Ok(state), "{text}");
        }
        assert_eq!(parse_state("R", 0, States::default()), Ok(PrevState::Idle));
        assert!(parse_state("?", 1, States::default()).is_err());
    }

    #[test]
    fn wakeups_of_old_kernels_and_of_the_plugin_are_read() {
        let expected = Ok((TaskRef { comm: "my app", tid: 18 }, Prio::from_raw(120), CpuId(3)));
        assert_eq!(parse_wakeup("comm=my app pid=18 prio=120 target_cpu=003"), expected);
        assert_eq!(parse_wakeup("comm=my app pid=18 prio=120 success=1 target_cpu=003"), expected);
        assert_eq!(parse_wakeup("my app:18 [120] success=1 CPU:003"), expected);
        assert_eq!(parse_wakeup("my app:18 [120] CPU:003"), expected);
        assert_eq!(parse_wakeup("my app:18 [120]<CPU:003>").unwrap().2, CpuId(3));
    }

    proptest! {
        /// The short way gives up, or says the same as the one that reads everything.
        #[test]
        fn the_short_way_agrees(
            kind in 0..3_usize, drops in proptest::collection::vec(0..100_usize, 0..3),
            words in proptest::collection::vec((0..100_usize, proptest::sample::select(vec![
                " ", ",", "=", "9", "-1", " pid=7", " prio=3", "comm=x", " ==> next_comm=y", "prev_state=R", " next_pid=2",
                "next_comm=", "0x1", "a b", "\u{e9}", " target_cpu=1", " runtime=5", "S+", "99999999999999999999",
            ])), 0..4),
        ) {
            let usual = [
                "prev_comm=ba sh prev_pid=306 prev_prio=120 prev_state=R+ ==> next_comm=de:mo next_pid=3062 next_prio=0",
                "comm=my app pid=18 prio=120 target_cpu=003",
                "comm=a b pid=25753 runtime=1814749 [ns]",
            ];
            let mut text = usual[kind].to_owned();
            for drop in drops {
                let at = drop % text.len();
                if text.is_char_boundary(at) && text.is_char_boundary(at + 1) {
                    text.remove(at);
                }
            }
            for (at, word) in words {
                let at = at % (text.len() + 1);
                if text.is_char_boundary(at) {
                    text.insert_str(at, word);
                }
            }
            let text = text.trim();
            if let Some(switch) = parse_usual_switch(text, States::default()) {
                prop_assert_eq!(parse_any_switch(text, States::default()), Ok(switch));
            }
            if let Some(wakeup) = parse_usual_wakeup(text) {
                prop_assert_eq!(parse_any_wakeup(text), Ok(wakeup));
            }
            if let Some(charge) = parse_usual_charge(text) {
                prop_assert_eq!(parse_any_charge(text), Ok(charge));
            }
        }
    }

    #[test]
    fn the_short_way_reads_the_usual_spellings() {
        assert!(
            parse_usual_switch(
                "prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=a next_pid=3 next_prio=9",
                States::default()
            )
            .is_some()
        );
        assert!(parse_usual_wakeup("comm=my app pid=18 prio=120 target_cpu=003").is_some());
        assert!(parse_usual_charge("comm=a pid=25753 runtime=1814749 [ns]").is_some());
    }

    #[test]
    fn errors_name_the_field_and_its_value() {
        let refused = |name, args| parse(name, args, States::default()).expect_err(args);
        assert_eq!(refused("sched_waking", "comm=a pid=1 prio=120"), "field `target_cpu` is missing");
        assert_eq!(refused("sched_waking", "comm=a pid=x prio=120 target_cpu=0"), "`pid=x` is not a process id");
        assert_eq!(refused("sched_wakeup", "comm=a pid=1 prio=999 target_cpu=0"), "`prio=999` is outside -2..=140");
        assert_eq!(refused("sched_stat_runtime", "garbage"), "field `runtime` is missing");
        assert!(parse("sched_stat_wait", "garbage", States::default()).is_ok_and(|event| event.is_none()));
    }
}
