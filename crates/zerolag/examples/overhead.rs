//! What a simulation costs beside its events: a trivial workload, read, checked, run and measured
//! many times. `python/benches/overhead.py` does the same from Python.
#![expect(clippy::disallowed_methods, reason = "it measures the time of the host")]

use zerolag::simulation::Observe;
use zerolag::{Simulation, Workload};

const TEXT: &str = "[machine]\ncpus = 1\n[task.a]\nloop = 1\nsteps = [{ run = \"1ms\" }]\n";
const TIMES: u32 = 5_000;

fn main() -> Result<(), zerolag::Error> {
    for round in 0..5 {
        let begin = std::time::Instant::now();
        for _ in 0..TIMES {
            let observe = Observe { checks: zerolag::simulation::Checks::Off, ..Observe::default() };
            let result = Simulation::new(Workload::text("<text>", TEXT)).observe(observe).run()?;
            assert_eq!(result.summary().tasks.len(), 1);
        }
        let each = begin.elapsed() / TIMES;
        eprintln!("round {round}: {:.1} us per simulation", each.as_secs_f64() * 1e6);
    }
    Ok(())
}
