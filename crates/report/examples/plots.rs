//! Writes sample plots into the directory given as argument.

use std::path::Path;
use zerolag_report::plot::{Axis, Mark, Plot, Unit};

fn main() -> std::io::Result<()> {
    let directory = std::env::args().nth(1).unwrap_or_else(|| ".".to_owned());
    let cpus = [4.0, 16.0, 80.0, 120.0, 512.0, 4096.0_f64];
    let latency = Plot::new(
        "Worst wakeup latency when all CPUs lower their priority at once",
        Axis::log("CPUs", Unit::Number),
        Axis::log("worst wakeup latency", Unit::Nanos),
    )
    .with("pull_locked", Mark::Line, cpus.iter().map(|n| (*n, 2_500.0 * n)).collect())
    .with("ipi_per_cpu", Mark::Line, cpus.iter().map(|n| (*n, 900.0 * n.powf(1.2))).collect())
    .with("ipi_root_domain", Mark::Line, cpus.iter().map(|n| (*n, 9_000.0 + n)).collect())
    .with("published", Mark::Dashed, vec![(80.0, 200_000.0), (120.0, 400_000.0)]);
    let bars = Plot::new(
        "Run time of 16 busy loops, bandwidth 8 CPUs",
        Axis::categories("period", &["100ms", "250ms", "500ms"]),
        Axis::linear("share of the quota", Unit::Percent),
    )
    .with("pool", Mark::Bars, vec![(0.0, 99.2), (1.0, 98.1), (2.0, 97.4)])
    .with("hard_limits", Mark::Bars, vec![(0.0, 91.0), (1.0, 93.5), (2.0, 88.8)])
    .with("published", Mark::Points, vec![(0.0, 98.9), (1.0, 98.4), (2.0, 97.0)]);
    let steps = Plot::new(
        "Distribution of the timer latency",
        Axis::linear("latency", Unit::Nanos),
        Axis::linear("of all samples", Unit::Percent).from_to(0.0, 100.0),
    )
    .with(
        "",
        Mark::Steps,
        (0..60).map(|n| (f64::from(n) * 1e6, 100.0 * (1.0 - (-f64::from(n) / 9.0).exp()))).collect(),
    );
    for (name, plot) in [("latency", latency), ("bars", bars), ("steps", steps)] {
        let path = Path::new(&directory).join(format!("{name}.svg"));
        std::fs::write(path, plot.to_svg())?;
    }
    Ok(())
}
