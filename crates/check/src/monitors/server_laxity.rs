//! `server-laxity`: a deferred deadline server never competes with real-time tasks earlier than it
//! must.
//!
//! It is queued no earlier than its zero-laxity instant (less the millisecond by which the kernel
//! lets it start early). Two exceptions: it resumes a job that was interrupted because it had no
//! task to serve, and keeps the deadline of that job; or it exhausted a job and was not deferred
//! since, then it waits for the end of that job's period. A server that is set to be immediate in
//! mid-run promises nothing until it is set back.
//!
//! Not applicable where no fair server is deferred. The server of a loaded scheduler is not judged.
//! Complexity: O(1) per state of a server.

use crate::monitor::{Context, Monitor};
use crate::report::Findings;
use zerolag_model::{Activation, CpuId, Duration, Instant, Record, ServerKind, ServerState, TraceEvent};
use zerolag_trace::{IdTable, Replay};

/// `dl_server_min_res`.
const EARLY: Duration = Duration::from_millis(1);

#[derive(Default)]
struct ServerLaxity {
    /// Per CPU, the deadline with which its server was last queued.
    deadlines: IdTable<CpuId, Option<Instant>>,
    /// Per CPU, whether its server was set to be immediate.
    are_immediate: IdTable<CpuId, bool>,
}

pub(super) fn begin(context: &Context<'_>) -> Result<Box<dyn Monitor>, String> {
    let setting = |key| context.meta.setting(key).unwrap_or_default();
    let is_deferred = setting("fair_server") == "deferred" && setting("fair_server.cpus").is_empty();
    if !is_deferred {
        return Err("the servers are not all deferred".to_owned());
    }
    if matches!(setting("fair_server.wakeup"), "stuck" | "revised_always") {
        return Err("`fair_server.wakeup` starts servers that have not been deferred".to_owned());
    }
    if setting("fair_server.stop") == "unneeded" {
        return Err("`fair_server.stop` defers servers only at their start".to_owned());
    }
    Ok(Box::new(ServerLaxity::default()))
}

impl Monitor for ServerLaxity {
    fn before(&mut self, before: &Replay, record: &Record, found: &mut Findings) {
        if let TraceEvent::ServerParams { kind: ServerKind::Fair, params } = &record.event {
            *self.are_immediate.entry(record.cpu) = params.activation == Activation::Immediate;
        }
        let TraceEvent::Server { kind: ServerKind::Fair, state: ServerState::Queued { deadline } } = &record.event
        else {
            return;
        };
        if *self.are_immediate.entry(record.cpu) {
            self.deadlines.entry(record.cpu).replace(*deadline);
            return;
        }
        let last = self.deadlines.entry(record.cpu).replace(*deadline);
        match before.cpu(record.cpu).fair_server.unwrap_or(ServerState::Stopped) {
            ServerState::Deferred { until } if record.at.saturating_add(EARLY) >= until => {}
            ServerState::Deferred { until } => found.push(record.at, Some(record.cpu), &[], || {
                format!(
                    "the fair server of cpu {} starts {} before its zero laxity",
                    record.cpu,
                    until.since(record.at)
                )
            }),
            ServerState::Stopped if last == Some(*deadline) && record.at < *deadline => {}
            ServerState::Throttled { until } if record.at >= until => {}
            ServerState::Stopped | ServerState::Queued { .. } | ServerState::Throttled { .. } => {
                found.push(record.at, Some(record.cpu), &[], || {
                    format!("the fair server of cpu {} starts a new job without having been deferred", record.cpu)
                });
            }
        }
    }

    fn after(&mut self, _: &Replay, _: &Record) {}
}

#[cfg(test)]
mod tests {
    use crate::monitors::tests::{breaks, holds, not_applicable};
    use zerolag_model::{Activation, Instant, ServerKind, ServerParams, ServerState, TraceEvent};
    use zerolag_trace::script::Script;

    fn server(script: &mut Script, us: u64, state: ServerState) {
        script.event(us, 0, TraceEvent::Server { kind: ServerKind::Fair, state });
    }

    fn script() -> Script {
        let mut script = Script::new(1);
        script.meta.settings = vec![("fair_server".to_owned(), "deferred".to_owned())];
        script
    }

    const fn at(us: u64) -> Instant {
        Instant::from_nanos(us * 1000)
    }

    #[test]
    fn a_server_waits_for_zero_laxity() {
        for (starts, early) in [(950_000, false), (949_000, false), (948_000, true)] {
            let mut script = script();
            server(&mut script, 0, ServerState::Deferred { until: at(950_000) });
            server(&mut script, starts, ServerState::Queued { deadline: at(1_950_000) });
            if early {
                breaks("server-laxity", &script.end(1), "the fair server of cpu 0 starts 2ms before its zero laxity");
            } else {
                holds("server-laxity", &script.end(1));
            }
        }
        not_applicable("server-laxity", &Script::new(1).end(1), "the servers are not all deferred");
    }

    /// A kernel may have a deferred one beside an immediate fair server, or the other way round.
    #[test]
    fn the_server_of_a_loaded_scheduler_is_not_judged() {
        let mut script = script();
        let state = ServerState::Queued { deadline: at(1_000_000) };
        script.event(0, 0, TraceEvent::Server { kind: ServerKind::Ext, state });
        holds("server-laxity", &script.end(1));
    }

    #[test]
    fn a_server_is_immediate_while_it_is_set_so() {
        let set = |script: &mut Script, us, activation| {
            let params = ServerParams { activation, ..ServerParams::DEFAULT };
            script.event(us, 0, TraceEvent::ServerParams { kind: ServerKind::Fair, params });
        };
        for set_back in [false, true] {
            let mut script = script();
            set(&mut script, 1_000, Activation::Immediate);
            server(&mut script, 1_000, ServerState::Queued { deadline: at(1_001_000) });
            server(&mut script, 2_000, ServerState::Stopped);
            if set_back {
                set(&mut script, 3_000, Activation::Deferred);
            }
            server(&mut script, 4_000, ServerState::Queued { deadline: at(1_004_000) });
            if set_back {
                let says = "the fair server of cpu 0 starts a new job without having been deferred";
                breaks("server-laxity", &script.end(1), says);
            } else {
                holds("server-laxity", &script.end(1));
            }
        }
    }

    #[test]
    fn an_exhausted_server_waits_for_its_next_period() {
        for (starts, early) in [(1_950_000, false), (1_949_999, true)] {
            let mut script = script();
            server(&mut script, 0, ServerState::Deferred { until: at(950_000) });
            server(&mut script, 950_000, ServerState::Queued { deadline: at(1_950_000) });
            server(&mut script, 1_000_000, ServerState::Throttled { until: at(1_950_000) });
            server(&mut script, starts, ServerState::Queued { deadline: at(2_950_000) });
            if early {
                let says = "the fair server of cpu 0 starts a new job without having been deferred";
                breaks("server-laxity", &script.end(1), says);
            } else {
                holds("server-laxity", &script.end(1));
            }
        }
    }

    #[test]
    fn an_interrupted_job_goes_on_but_a_new_one_is_deferred() {
        for (deadline, is_same) in [(1_950_000, true), (1_960_000, false)] {
            let mut script = script();
            server(&mut script, 0, ServerState::Deferred { until: at(950_000) });
            server(&mut script, 950_000, ServerState::Queued { deadline: at(1_950_000) });
            server(&mut script, 960_000, ServerState::Stopped);
            server(&mut script, 970_000, ServerState::Queued { deadline: at(deadline) });
            if is_same {
                holds("server-laxity", &script.end(1));
            } else {
                let says = "the fair server of cpu 0 starts a new job without having been deferred";
                breaks("server-laxity", &script.end(1), says);
            }
        }
    }
}
