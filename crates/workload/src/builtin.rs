//! Programs built in code: periodic task sets, for tools, benchmarks and comparisons with other
//! simulators.
//!
//! A set is a table of independent periodic tasks. The first line names the columns, in any order:
//!
//! | column | meaning | default |
//! |---|---|---|
//! | `task`, `task_name`, `name` | name | required |
//! | `runtime_us`, `wcet_us` | CPU time per period, C | required |
//! | `period_us` | P | required |
//! | `deadline_us` | relative deadline, D | P |
//! | `first_release_us`, `offset_us`, `phase_us` | first release | 0 |
//!
//! `_ns`, `_ms` and `_s` name other units; without a unit the column is in microseconds. Each task
//! becomes: delay until the first release, then forever `Run(C)` and an absolute timer of period P.

use crate::diagnostic::{Diagnostics, Report, Source};
use crate::input;
use crate::program::Program;
use crate::task_set;

/// 20 tasks for 4 CPUs (formula: `data/README.md`).
pub const W4: &str = include_str!("../data/w4.csv");
/// 100 tasks for 8 CPUs.
pub const W8: &str = include_str!("../data/w8.csv");
/// 1000 tasks for 64 CPUs.
pub const W64: &str = include_str!("../data/w64.csv");

/// The scheduling of the tasks of a set.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PeriodicPolicy {
    /// The scheduler that the file names; SCHED_DEADLINE if it names none, as a table.
    #[default]
    OfFile,
    /// SCHED_FIFO, the shorter the period the more urgent: the distinct periods get 99, 98, ... in
    /// this order.
    RateMonotonicFifo,
    /// SCHED_DEADLINE with runtime, deadline and period of the file.
    Deadline,
}

/// Returns the program of a periodic task set.
///
/// # Errors
/// All mistakes in the table. For [`PeriodicPolicy::RateMonotonicFifo`] also more than 99 distinct
/// periods, for [`PeriodicPolicy::Deadline`] parameters that the kernel refuses.
///
/// ```
/// use zerolag_workload::builtin::{self, PeriodicPolicy};
/// let program = builtin::periodic(builtin::W4, PeriodicPolicy::RateMonotonicFifo)?;
/// assert_eq!(program.tasks.len(), 20);
/// # Ok::<(), zerolag_workload::Diagnostics>(())
/// ```
pub fn periodic(csv: &str, policy: PeriodicPolicy) -> Result<Program, Diagnostics> {
    const NAME: &str = "periodic.csv";
    let text = input::text_of(NAME, csv.as_bytes())?;
    let mut report = Report::default();
    let set = task_set::read_csv(text, &mut report);
    let program = task_set::lower(set, policy, None, &mut report);
    if report.has_errors() { Err(report.finish(Source::new(NAME, text))) } else { Ok(program) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::{Action, TimerMode};
    use crate::random::Dist;
    use zerolag_model::{DlParams, Duration, SchedAttr};

    /// The formula of `data/README.md`.
    fn made(cpus: u64, tasks: u64) -> String {
        let periods = [5000, 8000, 10000, 12000, 15000, 20000, 25000, 30000, 40000, 50000];
        let head = "task,first_release_us,runtime_us,deadline_us,period_us\n".to_string();
        (0..tasks).fold(head, |table, i| {
            let period = periods[usize::try_from(i % 10).expect("small")];
            table + &format!("t{i},{},{},{period},{period}\n", 137 * i % period, period * 8 * cpus / (10 * tasks))
        })
    }

    #[test]
    fn the_data_are_what_the_formula_makes() {
        for (data, cpus, tasks) in [(W4, 4, 20), (W8, 8, 100), (W64, 64, 1000)] {
            let lines = |text: &str| text.lines().map(str::to_string).collect::<Vec<_>>();
            assert_eq!(lines(data), lines(&made(cpus, tasks)));
        }
    }

    #[test]
    fn rate_monotonic_order_is_by_period() {
        let program = periodic(W4, PeriodicPolicy::RateMonotonicFifo).expect("valid");
        let attr = |task: usize| program.tasks[task].attr;
        let fifo = SchedAttr::fifo_at;
        assert_eq!([attr(0), attr(1), attr(9), attr(10)], [fifo(99), fifo(98), fifo(90), fifo(99)]);
        assert_eq!(program.tasks[1].delay, Duration::from_micros(137));
        let actions = &program.tasks[1].phases[0].actions;
        assert_eq!(actions[0], Action::Run(Dist::Constant(Duration::from_micros(1280))));
        assert!(matches!(actions[1], Action::Timer { mode: TimerMode::Absolute, .. }));
        assert_eq!(program.tasks[1].turns, None);
    }

    #[test]
    fn deadline_tasks_take_the_table_as_it_is() {
        let csv = "# ms and defaults\nperiod_ms, task, runtime_us\n10, a, 2500\n";
        let program = periodic(csv, PeriodicPolicy::Deadline).expect("valid");
        let (runtime, period) = (Duration::from_micros(2500), Duration::from_millis(10));
        assert_eq!(program.tasks[0].attr, SchedAttr::Deadline(DlParams::new(runtime, period, period)));
        assert_eq!(program.tasks[0].delay, Duration::ZERO);
    }

    #[test]
    fn every_line_that_is_wrong_is_named() {
        let csv = "task,runtime_us,period_us\na,1,x\nb,5000,4000\nc,1\nd,2000,0\nb,2000,4000\n";
        let errors = periodic(csv, PeriodicPolicy::Deadline).expect_err("wrong").to_string();
        let expected = [
            "periodic.csv:2:5: error: `x` is not a whole number of 0 up to 10 years",
            "periodic.csv:3:1: error: task b: runtime 5ms is above deadline 4ms",
            "  help: SCHED_DEADLINE refuses that; `--task-set fifo` does not",
            "periodic.csv:4:1: error: 2 cells under 3 columns",
            "periodic.csv:5:1: error: task d has a period of zero",
            "periodic.csv:6:1: error: there are two tasks b",
            "  periodic.csv:3:1: the other one",
        ];
        assert_eq!(errors.lines().collect::<Vec<_>>(), expected);
        let head = periodic("task,runtime,perod\n", PeriodicPolicy::Deadline).expect_err("wrong").to_string();
        assert_eq!(head, "periodic.csv:1:14: error: unknown column `perod`\n  help: did you mean `period`?");
        let many: String = (1..=100).map(|i| format!("t{i},1,{i}\n")).collect();
        let errors = periodic(&format!("task,runtime,period\n{many}"), PeriodicPolicy::RateMonotonicFifo);
        assert!(
            errors.expect_err("wrong").to_string().contains("100 distinct periods are more than the 99 priorities")
        );
    }
}
