//! From a line to CPU, time, event and arguments.
//!
//! All spellings share `[cpu]`, flags or none, `seconds.fraction:`, `event:`. Splitting at fixed
//! columns does not work, because the columns move with the kernel's options and a command can be
//! called `[kworker] 1.5: x`. So the parser searches for that shape.

use super::bytes;
use crate::kernel::context::Context;
use zerolag_model::{CpuId, Instant, MAX_CPUS};

/// The kind of a line.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Parsed<'a> {
    /// An event.
    Event(Line<'a>),
    /// The recorder lost events before the next event of this CPU, if it tells which; 0 if it does
    /// not tell how many.
    Lost(Option<CpuId>, u64),
    /// The recorder overwrote its oldest events: the trace begins later on some CPUs.
    Overwritten(u64),
    /// The machine has this many CPUs.
    Cpus(u32),
    /// The release of the kernel.
    Kernel(&'a str),
    /// The stack of an event of this CPU follows.
    Stack(CpuId),
    /// A function of a stack.
    Frame(&'a str),
    /// A comment, an empty line.
    Nothing,
}

/// An event's line.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Line<'a> {
    /// Name and ids of the current task, in the form of the recorder.
    pub(super) current: &'a str,
    pub(super) cpu: CpuId,
    pub(super) context: Context,
    pub(super) at: Instant,
    /// The event's name without its system (`sched:`).
    pub(super) event: &'a str,
    pub(super) args: &'a str,
}

/// Parses a line.
pub(super) fn parse(text: &str) -> Result<Parsed<'_>, String> {
    let before = text;
    let text = trim_start(text);
    match text.as_bytes().first() {
        None => return Ok(Parsed::Nothing),
        Some(b'#') => return Ok(parse_comment(&text[1..])),
        Some(b'=') if text.starts_with("=> ") => return Ok(Parsed::Frame(trim(&text[3..]))),
        Some(_) => {}
    }
    if let Some(indent) = before.as_bytes().first().filter(|first| matches!(first, b' ' | b'\t'))
        && let Some(frame) = call_chain(text, *indent == b'\t')
    {
        return Ok(Parsed::Frame(frame));
    }
    let mut from = 0;
    while let Some(open) = bytes::find(&text.as_bytes()[from..], b'[').map(|at| from + at) {
        if let Some(line) = parse_from_cpu(&text[open..])? {
            if line.event == STACK {
                return Ok(Parsed::Stack(line.cpu));
            }
            return Ok(Parsed::Event(Line { current: trim_end(&text[..open]), ..line }));
        }
        from = open + 1;
    }
    parse_remark(text.trim_end())
        .ok_or_else(|| "neither an event nor a comment of ftrace, perf or trace-cmd".to_owned())
}

/// Parses from the bracket of the CPU on; `None` if the rest does not have the shape of an event.
fn parse_from_cpu(text: &str) -> Result<Option<Line<'_>>, String> {
    let bytes = text.as_bytes();
    let digits = bytes.iter().skip(1).take_while(|byte| byte.is_ascii_digit()).count();
    let (Some(b']'), Some(b' ' | b'\t')) = (bytes.get(1 + digits), bytes.get(2 + digits)) else { return Ok(None) };
    if digits == 0 {
        return Ok(None);
    }
    let (mut token, mut rest) = next_token(&text[2 + digits..]);
    let mut at = parse_time(token);
    let mut context = Context::Unknown;
    if at.is_none() {
        // Five or six flags, or none; then the time. The third flag is the context.
        context = match token.as_bytes().get(2) {
            Some(b'h' | b'H' | b'z' | b'Z') => Context::Interrupt,
            Some(b's') => Context::Softirq,
            Some(b'.') => Context::Task,
            Some(_) | None => Context::Unknown,
        };
        (token, rest) = next_token(rest);
        at = parse_time(token);
    }
    let Some(at) = at else { return Ok(None) };
    (token, rest) = next_token(rest);
    if !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_digit()) {
        // perf prints a sampling period before the event if it was asked to.
        (token, rest) = next_token(rest);
    }
    let Some(event) = event_of(token, rest) else { return Ok(None) };
    let system = event.bytes().rposition(|byte| byte == b':').map_or(0, |colon| colon + 1);
    let event = &event[system..];
    let cpu = text[1..=digits].parse().ok().filter(|cpu| (*cpu as usize) < MAX_CPUS);
    let cpu: u32 = cpu.ok_or_else(|| format!("a CPU number is below {MAX_CPUS}"))?;
    let at = at.ok_or_else(|| format!("time `{token}` does not fit 584 years"))?;
    Ok(Some(Line { current: "", context, cpu: CpuId(cpu), at, event, args: trim(rest) }))
}

/// Returns the event of a line behind its time: its first word, and what follows.
fn event_of<'a>(token: &'a str, rest: &str) -> Option<&'a str> {
    if let Some(call) = token.strip_prefix("sys_") {
        // tracefs writes a system call as `sys_futex(uaddr: 7f, ...)`, and its end as
        // `sys_futex -> 0`.
        if let Some(open) = call.find('(') {
            return Some(&token[..4 + open]);
        }
        if rest.trim_start().starts_with("->") {
            return Some("sys_exit_");
        }
    }
    match token {
        // tracefs, then trace-cmd.
        "<stack" => Some(STACK),
        "kernel_stack:" => Some(STACK),
        _ if token.starts_with("PERF_RECORD_LOST") => Some(LOST),
        _ => token.strip_suffix(':'),
    }
}

impl Line<'_> {
    /// Returns thread id and, if the line has it, process id of the current task: `rustc-136 (
    /// 120)` of tracefs, `rustc   120/136` and `rustc   136` of perf. Perf writes -1 for a thread
    /// that its parent has collected.
    pub(super) fn ids(&self) -> Option<(u32, Option<u32>)> {
        self.usual_ids().or_else(|| self.any_ids())
    }

    /// As [`ids`](Self::ids), of the usual spellings: `name-136 (  120)`, `name-136`, `name   136`.
    fn usual_ids(&self) -> Option<(u32, Option<u32>)> {
        let bytes = self.current.as_bytes();
        let (task, pid) = match bytes.split_last()? {
            (b')', inner) => {
                let (pid, digits) = bytes::last_number(inner)?;
                let before = trim_blanks(&inner[..inner.len() - digits]).strip_suffix(b"(")?;
                (trim_blanks(before), Some(u32::try_from(pid).ok()?))
            }
            _ => (bytes, None),
        };
        let (tid, digits) = bytes::last_number(task)?;
        let ids = (u32::try_from(tid).ok()?, pid);
        match task[..task.len() - digits] {
            [.., b' ' | b'\t'] => Some(ids),
            // Not the -1 of perf.
            [.., before, b'-'] if !matches!(before, b' ' | b'\t' | b'/') => Some(ids),
            _ => None,
        }
    }

    /// As [`ids`](Self::ids), of all spellings.
    fn any_ids(&self) -> Option<(u32, Option<u32>)> {
        let (task, pid) = match self.current.strip_suffix(')').and_then(|rest| rest.rsplit_once('(')) {
            Some((task, pid)) => (task.trim_end(), pid.trim().parse().ok()),
            None => (self.current, None),
        };
        let start = |is_in: fn(u8) -> bool| task.bytes().rposition(|byte| !is_in(byte)).map_or(0, |last| last + 1);
        let word = &task[start(|byte| byte != b' ' && byte != b'\t')..];
        let digits = &task[start(|byte| byte.is_ascii_digit())..];
        let before = &word[..word.len() - digits.len()];
        let tid = digits.parse().ok()?;
        match before.chars().next_back() {
            None => Some((tid, pid)),
            Some('-') if word != "-1" && !before.ends_with("/-") => Some((tid, pid)),
            Some('/') => before[..before.len() - 1].parse().ok().map(|pid| (tid, Some(pid))),
            Some(_) => None,
        }
    }
}

/// The event's name of a stack.
const STACK: &str = "kernel_stack";
/// The event's name of perf's remark on lost events.
pub(super) const LOST: &str = "PERF_RECORD_LOST";

fn next_token(text: &str) -> (&str, &str) {
    let text = trim_start(text);
    text.split_at(text.bytes().position(|byte| byte == b' ' || byte == b'\t').unwrap_or(text.len()))
}

fn trim_blanks(bytes: &[u8]) -> &[u8] {
    let kept = bytes.iter().rposition(|byte| !matches!(byte, b' ' | b'\t')).map_or(0, |last| last + 1);
    &bytes[..kept]
}

/// `trim_start` of `str`, which looks for white space of Unicode only if there is some.
fn trim_start(text: &str) -> &str {
    let blank = text.bytes().position(|byte| byte != b' ' && byte != b'\t').unwrap_or(text.len());
    let text = &text[blank..];
    if text.as_bytes().first().is_some_and(|first| is_plain(*first)) { text } else { text.trim_start() }
}

/// `trim` of `str`, as [`trim_start`].
fn trim(text: &str) -> &str {
    trim_end(trim_start(text))
}

/// `trim_end` of `str`, as [`trim_start`].
fn trim_end(text: &str) -> &str {
    let bytes = text.as_bytes();
    let text = &text[..trim_blanks(bytes).len()];
    if text.as_bytes().last().is_some_and(|last| is_plain(*last)) { text } else { text.trim_end() }
}

/// Returns whether a byte is a visible character of its own.
const fn is_plain(byte: u8) -> bool {
    matches!(byte, 0x21..=0x7e)
}

/// Parses `seconds.fraction:` with one to nine digits of fraction. `Some(None)` is a time that does
/// not fit.
fn parse_time(token: &str) -> Option<Option<Instant>> {
    parse_usual_time(token.as_bytes()).map(Some).or_else(|| parse_any_time(token))
}

/// As [`parse_time`], of up to ten digits and of microseconds or nanoseconds.
fn parse_usual_time(token: &[u8]) -> Option<Instant> {
    let (seconds, digits) = bytes::first_number(token).filter(|(_, digits)| *digits <= 10)?;
    let rest = token[digits..].strip_prefix(b".")?;
    let (fraction, digits) = bytes::first_number(rest)?;
    let nanos = match digits {
        6 => fraction * 1000,
        9 => fraction,
        _ => return None,
    };
    (rest[digits..] == *b":").then(|| Instant::from_nanos(seconds * 1_000_000_000 + nanos))
}

fn parse_any_time(token: &str) -> Option<Option<Instant>> {
    if !token.starts_with(|first: char| first.is_ascii_digit()) {
        return None;
    }
    let token = token.strip_suffix(':')?;
    let (seconds, fraction) = token.split_at(token.bytes().position(|byte| byte == b'.')?);
    let fraction = &fraction[1..];
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(seconds) || !digits(fraction) || fraction.len() > 9 {
        return None;
    }
    let scale = 10_u64.pow(9 - u32::try_from(fraction.len()).ok()?);
    let fraction = fraction.parse::<u64>().ok()? * scale;
    let whole = seconds.parse::<u64>().ok().and_then(|seconds| seconds.checked_mul(1_000_000_000));
    Some(whole.and_then(|whole| whole.checked_add(fraction)).map(Instant::from_nanos))
}

/// Returns the function of a line of a perf call chain, behind its white space: an address, a
/// symbol. Addresses of programs are short, and only a tab tells them from a task's name.
fn call_chain(text: &str, is_tab: bool) -> Option<&str> {
    let digits = text.bytes().take_while(u8::is_ascii_hexdigit).count();
    let is_address = digits >= if is_tab { 1 } else { 8 };
    (is_address && matches!(text.as_bytes().get(digits), None | Some(b' ' | b'\t'))).then(|| trim(&text[digits..]))
}

/// `# entries-in-buffer/entries-written: 22154/32981   #P:4`: the difference was overwritten. `#
/// kernel: 6.12.95` of the commands of `zerolag record`, `# os release : 6.12.95` of `perf script
/// --header`.
fn parse_comment(comment: &str) -> Parsed<'_> {
    if let Some((_, release)) = comment.split_once(':').filter(|(key, _)| matches!(key.trim(), "kernel" | "os release"))
    {
        return Parsed::Kernel(release.trim());
    }
    let Some(counts) = comment.trim().strip_prefix("entries-in-buffer/entries-written:") else {
        return Parsed::Nothing;
    };
    let mut words = counts.split_whitespace();
    let kept_of = words.next().and_then(|counts| counts.split_once('/'));
    let lost = kept_of
        .and_then(|(kept, written)| Some(written.parse::<u64>().ok()?.saturating_sub(kept.parse::<u64>().ok()?)));
    let cpus = words.find_map(|word| word.strip_prefix("#P:")).and_then(|cpus| cpus.parse().ok());
    match (lost, cpus) {
        // The CPUs are visible in the text itself; the number of lost events appears nowhere else.
        (Some(lost), _) if lost > 0 => Parsed::Overwritten(lost),
        (_, Some(cpus)) if cpus as usize <= MAX_CPUS => Parsed::Cpus(cpus),
        (_, Some(_) | None) => Parsed::Nothing,
    }
}

/// Parses the remarks of the tools between events.
fn parse_remark(text: &str) -> Option<Parsed<'_>> {
    if let Some(cpus) = text.strip_prefix("cpus=") {
        return cpus.parse().ok().filter(|cpus| *cpus as usize <= MAX_CPUS).map(Parsed::Cpus);
    }
    // The remarks of tracefs and trace-cmd stand before the next event of the CPU.
    let cpu = text.strip_prefix("CPU:").or_else(|| text.strip_prefix("CPU "));
    let cpu = cpu.and_then(|rest| rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok());
    let cpu = cpu.filter(|cpu| (*cpu as usize) < MAX_CPUS).map(CpuId);
    let numbers = || text.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse::<u64>().ok());
    if text.contains("EVENTS]") || text.contains("EVENTS DROPPED]") || text.starts_with("LOST ") {
        // `CPU:1 [LOST 12 EVENTS]`, `CPU:1 [12 EVENTS DROPPED]`, `CPU:1 [EVENTS DROPPED]`,
        // `LOST 12 events`.
        let in_bracket = text.rsplit('[').next().unwrap_or(text);
        let count = in_bracket.split(|c: char| !c.is_ascii_digit()).find_map(|number| number.parse().ok());
        return Some(Parsed::Lost(cpu, count.unwrap_or(0)));
    }
    let harmless = text.starts_with("version = ")
        || text.starts_with("##### CPU")
        || (text.starts_with("CPU") && text.ends_with("is empty") && numbers().count() == 1);
    harmless.then_some(Parsed::Nothing)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn event(text: &str) -> (u32, u64, &str, &str) {
        match parse(text) {
            Ok(Parsed::Event(line)) => (line.cpu.0, line.at.as_nanos(), line.event, line.args),
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn every_front_end_gives_the_same_parts() {
        let parts = |ns| (3, ns, "sched_waking", "comm=a pid=1 prio=120 target_cpu=000");
        let args = "comm=a pid=1 prio=120 target_cpu=000";
        for (head, ns) in [
            ("            bash-136     [003] d..2.    23.937361: sched_waking: ", 23_937_361_000),
            ("            bash-136     [003] d..2..    23.937361: sched_waking: ", 23_937_361_000),
            ("   my-prog: x-136 (  136) [003] dN..2.    23.937361: sched_waking: ", 23_937_361_000),
            ("           <...>-136     [003]    23.937361: sched_waking:         ", 23_937_361_000),
            ("            bash   136 [003]    23.937361123: sched:sched_waking: ", 23_937_361_123),
            ("            bash   136/140 [003]    23.937361123:          1 sched:sched_waking: ", 23_937_361_123),
            (" [kworker] [7] 1.5 x-136 [003] .....    23.937361: sched_waking: ", 23_937_361_000),
        ] {
            assert_eq!(event(&format!("{head}{args}")), parts(ns), "{head}");
        }
    }

    #[test]
    fn remarks_of_the_tools_are_understood() {
        for (text, parsed) in [
            ("# tracer: nop", Parsed::Nothing),
            ("", Parsed::Nothing),
            ("# entries-in-buffer/entries-written: 2325/2325   #P:8", Parsed::Cpus(8)),
            ("# entries-in-buffer/entries-written: 22154/32981   #P:8", Parsed::Overwritten(10_827)),
            ("CPU:1 [LOST 12 EVENTS]", Parsed::Lost(Some(CpuId(1)), 12)),
            ("CPU:1 [12 EVENTS DROPPED]", Parsed::Lost(Some(CpuId(1)), 12)),
            ("CPU:1 [EVENTS DROPPED]", Parsed::Lost(Some(CpuId(1)), 0)),
            ("cpus=4", Parsed::Cpus(4)),
            ("version = 7", Parsed::Nothing),
            ("CPU 3 is empty", Parsed::Nothing),
            ("##### CPU 2 buffer started ####", Parsed::Nothing),
            (
                "\tffffffff810d2f9a __schedule+0x3a ([kernel.kallsyms])",
                Parsed::Frame("__schedule+0x3a ([kernel.kallsyms])"),
            ),
            (
                "\t           ee137 sched_setaffinity (/usr/lib/libc.so.6)",
                Parsed::Frame("sched_setaffinity (/usr/lib/libc.so.6)"),
            ),
            (" => try_to_wake_up", Parsed::Frame("try_to_wake_up")),
            ("=> try_to_wake_up (ffffffff813a89c4)", Parsed::Frame("try_to_wake_up (ffffffff813a89c4)")),
            ("  dpkg-7701    [003] d..4.   326.649175: <stack trace>", Parsed::Stack(CpuId(3))),
            ("  dpkg-7701    [003]   326.649175: kernel_stack:         <stack trace >", Parsed::Stack(CpuId(3))),
        ] {
            assert_eq!(parse(text), Ok(parsed), "{text}");
        }
    }

    #[test]
    fn ids_of_thread_and_process_are_told_apart() {
        let ids = |text: &str| match parse(text) {
            Ok(Parsed::Event(line)) => line.ids(),
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!(ids(" my-prog: x-136 (  120) [003] dN..2.  1.5: sched_waking: "), Some((136, Some(120))));
        assert_eq!(ids(" my-prog: x-136 (-----) [003] dN..2.  1.5: sched_waking: "), Some((136, None)));
        assert_eq!(ids(" a-7-136 [003] dN..2.  1.5: sched_waking: "), Some((136, None)));
        assert_eq!(ids(" <idle>-0 [003] dN..2.  1.5: sched_waking: "), Some((0, None)));
        assert_eq!(ids("   bash   120/136 [003]  1.5: sched:sched_waking: "), Some((136, Some(120))));
        assert_eq!(ids("   bash 7  136 [003]  1.5: sched:sched_waking: "), Some((136, None)));
        assert_eq!(ids("    :-1    -1 [003]  1.5: sched:sched_waking: "), None);
        assert_eq!(ids(" -1/-1 [003]  1.5: sched:sched_waking: "), None);
    }

    proptest! {
        /// The short ways give up, or say the same as those that read everything.
        #[test]
        fn the_short_ways_agree(
            name in "[a-c<>:/ -]{0,6}", gap in "[ -/]{0,2}", tid in "[0-9]{0,12}", rest in "( ?\\([ -]{0,3}[0-9]{0,4} ?\\))?",
            time in "[0-9]{0,12}\\.?[0-9]{0,10}:?",
        ) {
            let current = format!("{name}{gap}{tid}{rest}");
            let current = current.trim();
            let line = Line { current, cpu: CpuId(0), context: Context::Unknown, at: Instant::ZERO, event: "", args: "" };
            if let Some(ids) = line.usual_ids() {
                prop_assert_eq!(line.any_ids(), Some(ids), "{}", current);
            }
            if let Some(at) = parse_usual_time(time.as_bytes()) {
                prop_assert_eq!(parse_any_time(&time), Some(Some(at)));
            }
        }
    }

    #[test]
    fn the_short_ways_read_the_usual_spellings() {
        let ids = |current| {
            let at = Instant::ZERO;
            Line { current, cpu: CpuId(0), context: Context::Unknown, at, event: "", args: "" }.usual_ids()
        };
        assert_eq!(ids("my-prog: x-136 (  120)"), Some((136, Some(120))));
        assert_eq!(ids("<idle>-0"), Some((0, None)));
        assert_eq!(ids("bash 7  136"), Some((136, None)));
        assert!(parse_usual_time(b"2567.909895:").is_some() && parse_usual_time(b"2567.909895123:").is_some());
    }

    #[test]
    fn perfs_remark_on_lost_events_is_an_event() {
        let (cpu, ns, event, args) = event("  hackbench  7198 [001]  1207.746071503: PERF_RECORD_LOST lost 2082");
        assert_eq!((cpu, ns, event, args), (1, 1_207_746_071_503, LOST, "lost 2082"));
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(parse("hello world").is_err());
        assert!(parse("a-1 [99999] ..... 1.000000: sched_switch: x").is_err());
        assert!(parse("a-1 [001] ..... 99999999999999.000000: sched_switch: x").is_err());
        assert!(parse("a-1 [001] ..... 1.0000000001: sched_switch: x").is_err());
    }
}
