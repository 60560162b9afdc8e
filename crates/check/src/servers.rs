//! [`Servers`]: the current parameters of the fair server of each CPU.

use zerolag_model::{CpuId, Record, ServerKind, ServerParams, Settings, TraceEvent};
use zerolag_trace::{IdTable, Machine, Meta};

/// The capacity of the fastest CPU.
const FULL_CAPACITY: u64 = 1024;

/// The fair servers of a machine: their parameters follow the settings until a record changes them.
#[derive(Debug)]
pub(crate) struct Servers {
    settings: Settings,
    machine: Machine,
    changed: IdTable<CpuId, Option<ServerParams>>,
}

impl Servers {
    pub(crate) fn new(settings: Settings, meta: &Meta) -> Self {
        Self { settings, machine: meta.machine.clone(), changed: IdTable::default() }
    }

    pub(crate) fn apply(&mut self, record: &Record) {
        if let TraceEvent::ServerParams { kind: ServerKind::Fair, params } = record.event {
            *self.changed.entry(record.cpu) = Some(params);
        }
    }

    /// Returns the parameters of a CPU's fair server, with the runtime as time of that CPU: with
    /// `fair_server.scaled` a slower CPU gets a longer runtime. O(CPUs whose server differs).
    pub(crate) fn of(&self, cpu: CpuId) -> ServerParams {
        let params = self.changed.get(cpu).copied().flatten();
        let params = params.unwrap_or_else(|| self.settings.fair_server_params(cpu));
        let capacity = match &self.machine {
            Machine::Known(topology) if self.settings.fair_server_scaled && cpu.index() < topology.nr_cpus() => {
                u64::from(topology.capacity(cpu)).max(1)
            }
            Machine::Known(_) | Machine::Cpus(_) => FULL_CAPACITY,
        };
        ServerParams { runtime: params.runtime.mul_div_ceil(FULL_CAPACITY, capacity), ..params }
    }
}
