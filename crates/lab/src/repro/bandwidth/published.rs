//! The published cells: `loops.csv` and `primes.csv`, copied from the text's tables.

use super::{Cell2010, Method, Workload};

/// Returns the text's value of a cell: percent busy, or seconds. `None` if the text has no such
/// cell.
#[must_use]
pub fn published(cell: Cell2010) -> Option<f64> {
    let table = match cell.workload {
        Workload::Loops => include_str!("loops.csv"),
        Workload::Primes => include_str!("primes.csv"),
    };
    // period_ms, bandwidth_cpus, affinity, control, its percentage, hard limits, its percentage.
    let column = match cell.method {
        Method::Affinity => 2,
        Method::Pool => 3,
        Method::HardLimits => 5,
    };
    let mut rows = table.lines().skip(1).map(|line| line.split(',').collect::<Vec<_>>());
    let row = rows.find(|row| row[0] == cell.period.to_string() && row[1] == cell.cpus.to_string())?;
    row[column].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repro::bandwidth::Bandwidth2010;

    /// 288 cells, and each of the text's own percentages follows from its values.
    #[test]
    fn every_cell_is_there_and_agrees_with_its_percentage() {
        let cells = Bandwidth2010::default().cells();
        assert_eq!(cells.len(), 288);
        for cell in cells {
            let value = published(cell).expect("a published cell");
            let ideal = published(Cell2010 { method: Method::Affinity, ..cell }).expect("a published cell");
            let column = match cell.method {
                Method::Affinity => continue,
                Method::Pool => 4,
                Method::HardLimits => 6,
            };
            let table = match cell.workload {
                Workload::Loops => include_str!("loops.csv"),
                Workload::Primes => include_str!("primes.csv"),
            };
            let (period, cpus) = (cell.period.to_string(), cell.cpus.to_string());
            let mut rows = table.lines().map(|line| line.split(',').collect::<Vec<_>>());
            let row = rows.find(|row| row[0] == period && row[1] == cpus).expect("a row");
            let said: f64 = row[column].parse().expect("a percentage");
            let follows = (value / ideal - 1.0) * 100.0;
            assert!((said - follows).abs() < 0.21, "{cell:?}: {said} and {follows}");
        }
    }
}
