//! [`ToolOutput`]: texts of tools that are results, and no recording.
//!
//! A user with a slow machine has the output of a tool first, and gives that. It is no trace: it
//! has no events, so nothing of it can be replayed or explained. An error about its first line
//! would not say so; this table says for each tool how its output is recognised, and what to record
//! instead. A further tool is a row.
//!
//! `perf sched timehist` has a line per switch, and can still not be read as a trace: without
//! `--state` it does not say whether a task was preempted or slept, and never by which task it was
//! woken, nor with which priority; its times are rounded to microseconds. The `perf.data` that it
//! was made from has all that.
//!
//! Sources: rt-tests 2.8 `cyclictest.c` (`print_stat`, `print_hist`); Linux v6.12
//! `tools/tracing/rtla/src/timerlat_hist.c`, `timerlat_top.c`, `osnoise_hist.c`, `osnoise_top.c`
//! (headers), `tools/perf/builtin-sched.c` (`timehist_header`, `perf_sched__lat`),
//! `kernel/sched/ext.c` (`scx_dump_state`).

/// The output of a tool.
#[derive(Clone, Copy, Debug)]
pub struct ToolOutput {
    /// What the text is, for a sentence that begins with "this is".
    pub what: &'static str,
    /// What to do instead, for a sentence.
    pub advice: &'static str,
    /// Whether it has figures that can be shown.
    pub has_figures: bool,
    /// Whether a line of it is only of this tool.
    is_line: fn(&str) -> bool,
}

const RECORD: &str = "it has latencies, and not the events behind them: to see what caused them record while the tool runs, \
                      `zerolag record --print-cmd tracefs` prints how, and give that file";

const PERF: &str = "it was made from a perf.data: give that file, `zerolag report perf.data`";

/// All tools.
const TABLE: &[ToolOutput] = &[
    ToolOutput {
        what: "the output of cyclictest",
        advice: RECORD,
        has_figures: true,
        is_line: |line| {
            let words = [" P:", " I:", " C:", " Min:", " Max:"];
            (line.trim_start().starts_with("T:") && words.iter().all(|word| line.contains(word)))
                || line.starts_with("# Min Latencies:")
                || line.trim_end() == "# Histogram"
        },
    },
    ToolOutput {
        what: "a histogram of rtla timerlat",
        advice: RECORD,
        has_figures: true,
        is_line: |line| line.trim_end() == "# RTLA timerlat histogram",
    },
    ToolOutput {
        what: "a histogram of rtla osnoise",
        advice: RECORD,
        has_figures: true,
        is_line: |line| line.trim_end() == "# RTLA osnoise histogram",
    },
    ToolOutput {
        what: "the output of rtla timerlat top",
        advice: RECORD,
        has_figures: true,
        is_line: |line| line.contains("IRQ Timer Latency (") && line.contains("Thread Timer Latency ("),
    },
    ToolOutput {
        what: "the output of rtla osnoise top",
        advice: RECORD,
        has_figures: false,
        is_line: |line| {
            matches!(line.trim(), "Operating System Noise" | "Hardware-related Noise")
                || line.trim_start().starts_with("CPU Period       Runtime        Noise")
        },
    },
    ToolOutput {
        what: "the output of perf sched timehist",
        advice: PERF,
        has_figures: false,
        is_line: |line| ["time", "wait time", "sch delay", "run time"].iter().all(|word| line.contains(word)),
    },
    ToolOutput {
        what: "the output of perf sched latency",
        advice: PERF,
        has_figures: true,
        is_line: |line| ["Task", "Runtime ms", "delay ms"].iter().all(|word| line.contains(word)) && line.contains('|'),
    },
    ToolOutput {
        what: "the dump of a kernel that has ejected a sched_ext scheduler",
        advice: "it is the state at one moment, without what led to it: record with `zerolag record --print-cmd tracefs` \
                 while the scheduler runs, and give that file; `zerolag run` has ext tasks (`[settings] scx_switch_all = true`)",
        has_figures: false,
        is_line: |line| line.contains("] triggered exit kind ") && line.trim_end().ends_with(':'),
    },
];

/// How many lines are looked at: reports begin with remarks. A page of prose that quotes one has it
/// further below.
const LINES: usize = 12;

/// Returns the tool that wrote a text, by its first lines; `None` if it is none of those that are
/// known.
#[must_use]
pub fn tool_output(text: &str) -> Option<&'static ToolOutput> {
    text.lines().take(LINES).find_map(|line| TABLE.iter().find(|tool| (tool.is_line)(line)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_tool_is_told_by_its_own_lines() {
        for (text, what) in [
            (
                "# /dev/cpu_dma_latency set to 0us\npolicy: fifo: loadavg: 0.00\n\nT: 0 ( 1234) P:80 I:1000 C:  10000 Min:      2 Act:    3 Avg:    3 Max:      20\n",
                "cyclictest",
            ),
            ("# Histogram\n000001 000004\n# Total: 000000004\n# Min Latencies: 00001\n", "cyclictest"),
            ("# RTLA timerlat histogram\n# Time unit is microseconds (us)\n", "histogram of rtla timerlat"),
            ("# RTLA osnoise histogram\n", "histogram of rtla osnoise"),
            (
                "                                     Timer Latency\n  0 00:00:01   |          IRQ Timer Latency (us)        |         Thread Timer Latency (us)\n",
                "rtla timerlat top",
            ),
            ("                                          Operating System Noise\n", "rtla osnoise top"),
            (
                "Samples of sched_switch event do not have callchains.\n           time    cpu  task name                       wait time  sch delay   run time\n",
                "perf sched timehist",
            ),
            (
                "\n ---\n  Task                  |   Runtime ms  | Switches | Average delay ms | Maximum delay ms | Maximum delay at       |\n",
                "perf sched latency",
            ),
            (
                "  Task                  |   Runtime ms  |  Count   | Avg delay ms    | Max delay ms    | Max delay start           | Max delay end          |\n",
                "perf sched latency",
            ),
            ("DEBUG DUMP\n====\n\nscx_simple[121] triggered exit kind 1024:\n  runtime error (x)\n", "sched_ext"),
        ] {
            let found = tool_output(text).unwrap_or_else(|| panic!("{text}"));
            assert!(found.what.contains(what), "{text}: {}", found.what);
        }
        for text in
            ["", "[task.a]\nsteps = []\n", "# tracer: nop\n", "a-1 [000] d..2. 1.5: sched_wakeup: comm=T: pid=2 prio=3"]
        {
            assert!(tool_output(text).is_none(), "{text}");
        }
        let quoted = "A page says what timerlat prints.\n\n".repeat(8)
            + "| IRQ Timer Latency (us) | Thread Timer Latency (us)\n";
        assert!(tool_output(&quoted).is_none(), "{quoted}");
    }
}
