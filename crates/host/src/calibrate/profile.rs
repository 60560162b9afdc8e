//! The file of a calibrated profile: each entry with its origin.

use crate::calibrate::{Calibration, CostEntry, LATENESS_PERIOD, median, picks, spread, standstill, threads};
use zerolag_linux::calibrate::Direct;
use zerolag_linux::figures::quantile;
use zerolag_model::Duration;
use zerolag_sim::costs::ByDistance;

impl Calibration {
    /// Returns the profile as the TOML that `--costs` reads, with the origin of each entry.
    #[must_use]
    #[expect(clippy::too_many_lines, reason = "one row per entry of the profile")]
    pub fn to_toml(&self) -> String {
        let costs = &self.costs;
        let fitted = |key: &str| self.compared.iter().find(|compared| compared.fitted.as_deref() == Some(key));
        let origin = |key: &str| match fitted(key) {
            Some(on) => format!("fitted: {}, median {}", on.name, median(&on.host)),
            None => "as `default`".to_owned(),
        };
        let measured = |what: &str, samples: &[u64]| match quantile(samples, 500) {
            Some(p50) => format!(
                "measured: {what}, median {p50}, p99 {}, {} samples",
                quantile(samples, 990).unwrap_or_default(),
                samples.len()
            ),
            None => "as `default`".to_owned(),
        };
        let by = |times: &ByDistance| {
            let ns = |time: Duration| time.as_nanos();
            let (smt, llc, socket, remote) = (ns(times.smt), ns(times.llc), ns(times.socket), ns(times.remote));
            format!("{{ smt = \"{smt}ns\", llc = \"{llc}ns\", socket = \"{socket}ns\", remote = \"{remote}ns\" }}")
        };
        let single = |time: Duration| format!("\"{}ns\"", time.as_nanos());
        let Direct { syscall, wake_local, timer, timer_wake, locks, fair, .. } = &self.direct;
        let wake = match timer_wake.is_empty() {
            true => measured("futex wakeup on one CPU", wake_local),
            false => measured("gap of a computing thread at the timer of another", timer_wake),
        };
        let fair_wakeup = match self.direct.has_timer_threads {
            true => measured("a fair thread wakes another one by a futex", &fair.wake),
            false => measured("that gap with fair threads", &fair.timer_wake),
        };
        let hrtick = match fair.has_turn_timer() {
            true => measured("a turn of a fair thread ends between ticks", &fair.turn_timer),
            false => "no turn ends between ticks".to_owned(),
        };
        let rows = [
            ("context_switch", single(costs.context_switch), origin("context_switch")),
            (
                "fair_switch",
                single(costs.fair_switch),
                measured("a fair thread sleeps beside a computing one (the middle half counts)", &fair.block),
            ),
            ("wakeup_local", single(costs.wakeup_local), wake),
            ("wakeup_remote", single(costs.wakeup_remote), "in the proportion of `default` to wakeup_local".to_owned()),
            ("fair_wakeup", single(costs.fair_wakeup), fair_wakeup),
            ("queued_wakeup", single(costs.queued_wakeup), origin("queued_wakeup")),
            ("syscall", single(costs.syscall), measured("futex wakeup without a waiter", syscall)),
            ("waiting_call", single(costs.waiting_call), origin("waiting_call")),
            (
                "sleep_call",
                single(costs.sleep_call),
                measured("a FIFO thread sleeps beside a computing one (the middle half counts)", &fair.fifo_block),
            ),
            ("boost", single(costs.boost), measured("a thread waits for a mutex that inherits", &locks.inherits.wait)),
            ("unboost", single(costs.unboost), measured("a thread gives such a mutex back", &locks.inherits.wake)),
            ("pipe_io", single(costs.pipe_io), origin("pipe_io")),
            ("ipi_send", single(costs.ipi_send), origin("ipi_send")),
            ("ipi_latency", by(&costs.ipi_latency), origin("ipi_latency")),
            ("ipi_handler", single(costs.ipi_handler), origin("ipi_handler")),
            ("timer_irq", single(costs.timer_irq), measured("gap of a computing thread at a timer", timer)),
            ("tick", single(costs.tick), measured("gap of a computing thread", &self.direct.tick)),
            ("fair_tick", single(costs.fair_tick), measured("that gap of a fair thread", &fair.tick)),
            ("hrtick", single(costs.hrtick), hrtick),
            ("rq_lock_hold", single(costs.rq_lock_hold), origin("rq_lock_hold")),
            ("rq_lock_transfer", by(&costs.rq_lock_transfer), origin("rq_lock_transfer")),
            ("scan_per_cpu", single(costs.scan_per_cpu), origin("scan_per_cpu")),
            ("scan_per_task", single(costs.scan_per_task), origin("scan_per_task")),
            ("migrate_task", single(costs.migrate_task), origin("migrate_task")),
            ("cache_refill", by(&costs.cache_refill), origin("cache_refill")),
            ("smt_speed_percent", costs.smt_speed_percent.to_string(), origin("smt_speed_percent")),
        ];
        let rows = rows.into_iter().chain(picks::rows(costs, &self.direct.delays));
        let mut text =
            format!("# What operations cost on this host, for `zerolag run --costs`.\nname = \"{}\"\n", costs.name);
        for (key, value, origin) in rows {
            text.push_str(&format!("\n# {origin}\n{key} = {value}\n"));
        }
        text.push_str(
            "\n# how long a CPU has idled at least, and what it then takes to bring it back\nidle_states = [\n",
        );
        for (at, state) in costs.idle_states.iter().enumerate() {
            for entry in [CostEntry::IdleExit(at), CostEntry::IdleIpi(at)].map(CostEntry::key) {
                text.push_str(
                    &fitted(&entry).map_or_else(String::new, |_| format!("    # {entry}: {}\n", origin(&entry))),
                );
            }
            let latency = state.ipi_latency.map_or_else(String::new, |times| format!(", ipi_latency = {}", by(&times)));
            let (residency, exit, polling) = (single(state.residency), single(state.exit), state.polling);
            text.push_str(&format!(
                "    {{ residency = {residency}, exit = {exit}, polling = {polling}{latency} }},\n"
            ));
        }
        text.push_str("]\n");
        if !costs.timer_late.is_zero() {
            let from = match self.late.len() {
                0 => origin("timer_late"),
                samples => {
                    format!("recorded: how late a timer of {LATENESS_PERIOD} was beyond that, {samples} samples")
                }
            };
            text.push_str(&format!(
                "\n# {from}; places in millionths\ntimer_late = {}\n",
                spread::text(&costs.timer_late)
            ));
        }
        let threads = threads::rows(&costs.threads, self.has_threads);
        text + &spread::rows(costs) + &standstill::rows(&self.standing) + &threads
    }
}
