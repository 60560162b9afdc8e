//! The native part of the Python package `zerolag`.
//!
//! It converts, and decides nothing: workloads, values, figures and messages are the library's. The
//! Python part (`zerolag/*.py`) has the functions that users call.
//!
//! | module | holds |
//! |---|---|
//! | `spec` | a simulation as Python describes it |
//! | `table` | frames as tables that speak the Arrow PyCapsule interface (`zerolag-arrow` has the structs) |
//! | `policy` | a policy that is written in Python |
//! | `run` | a run and its result |
//! | `trace` | recorded traces |
//! | `study` | comparisons, sweeps and searches |
//! | `advice` | what to set for a goal |
//! | `bounds` | bounds on responses, schedulability |
//! | `errors` | errors as exceptions with line, column and advice |

mod advice;
mod bounds;
mod errors;
mod policy;
mod run;
mod spec;
mod study;
mod table;
mod trace;

use pyo3::prelude::*;

#[pymodule]
fn _zerolag(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", zerolag::VERSION)?;
    module.add_class::<table::Table>()?;
    module.add_class::<run::Result>()?;
    module.add_class::<run::Settings>()?;
    module.add_class::<policy::Context>()?;
    module.add_class::<policy::ScxTask>()?;
    module.add_class::<trace::Trace>()?;
    module.add_class::<trace::Checks>()?;
    module.add_class::<trace::Explanation>()?;
    module.add_class::<study::Comparison>()?;
    module.add_class::<study::Search>()?;
    module.add_class::<advice::Advice>()?;
    module.add_class::<advice::Demand>()?;
    module.add_class::<bounds::Bounds>()?;
    module.add_function(wrap_pyfunction!(advice::advise, module)?)?;
    module.add_function(wrap_pyfunction!(advice::advise_counters, module)?)?;
    module.add_function(wrap_pyfunction!(bounds::analyse, module)?)?;
    module.add_function(wrap_pyfunction!(bounds::draw, module)?)?;
    module.add_function(wrap_pyfunction!(bounds::schedulability, module)?)?;
    module.add_function(wrap_pyfunction!(policy::scx_words, module)?)?;
    module.add_function(wrap_pyfunction!(run::run, module)?)?;
    module.add_function(wrap_pyfunction!(run::kernels, module)?)?;
    module.add_function(wrap_pyfunction!(run::settings, module)?)?;
    module.add_function(wrap_pyfunction!(trace::read_trace, module)?)?;
    module.add_function(wrap_pyfunction!(trace::explain, module)?)?;
    module.add_function(wrap_pyfunction!(study::compare, module)?)?;
    module.add_function(wrap_pyfunction!(study::smallest, module)?)?;
    module.add_function(wrap_pyfunction!(study::validate, module)?)?;
    module.add_function(wrap_pyfunction!(study::usual_figures, module)?)?;
    module.add_function(wrap_pyfunction!(study::figure_keys, module)?)?;
    module.add_function(wrap_pyfunction!(study::read_goals, module)?)?;
    module.add_function(wrap_pyfunction!(study::run_rows, module)?)?;
    module.add_function(wrap_pyfunction!(study::sweep_table, module)?)?;
    Ok(())
}
