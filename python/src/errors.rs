//! Errors as exceptions: the classes are Python's (`zerolag/_errors.py`), the content is the
//! library's.

use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use zerolag::Error;
use zerolag::error::ValueError;
use zerolag::workload::Diagnostics;

/// Returns the exception of an error.
pub(crate) fn raise(py: Python<'_>, error: &Error) -> PyErr {
    let made = match error {
        Error::Workload(found) => {
            diagnostics(py, found).and_then(|all| exception(py, "WorkloadError", &found.to_string(), &all, None))
        }
        Error::Values(wrong) => wrong
            .iter()
            .map(|value| of_value(py, value))
            .collect::<PyResult<Vec<_>>>()
            .and_then(|all| exception(py, "SettingError", &error.to_string(), &all, None)),
        Error::Input { message, help } => exception(py, "InputError", message, &[], help.as_deref()),
        Error::Interrupted => return PyKeyboardInterrupt::new_err(()),
        error => exception(py, "RunError", &error.to_string(), &[], None),
    };
    made.unwrap_or_else(|failed| failed)
}

/// Returns an exception of one of the package's classes.
fn exception(
    py: Python<'_>,
    class: &str,
    message: &str,
    diagnostics: &[Bound<'_, PyAny>],
    help: Option<&str>,
) -> PyResult<PyErr> {
    let class = py.import("zerolag._errors")?.getattr(class)?;
    Ok(PyErr::from_value(class.call1((message, diagnostics, help))?))
}

/// Returns the messages about a workload's text, each with its place.
pub(crate) fn diagnostics<'py>(py: Python<'py>, found: &Diagnostics) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let class = py.import("zerolag._errors")?.getattr("Diagnostic")?;
    let one = |item: &zerolag::workload::Diagnostic| {
        let fields = PyDict::new(py);
        fields.set_item("severity", item.severity.name())?;
        fields.set_item("message", &item.message)?;
        fields.set_item("help", &item.help)?;
        fields.set_item("file", found.source_name())?;
        if let Some(span) = item.span() {
            let place = found.location(span);
            fields.set_item("file", found.file_of(span))?;
            fields.set_item("line", place.line)?;
            fields.set_item("column", place.column)?;
        }
        class.call((), Some(&fields))
    };
    found.iter().map(one).collect()
}

fn of_value<'py>(py: Python<'py>, error: &ValueError) -> PyResult<Bound<'py, PyAny>> {
    let fields = PyDict::new(py);
    fields.set_item("severity", "error")?;
    fields.set_item("message", &error.message)?;
    fields.set_item("help", &error.help)?;
    fields.set_item("key", &error.key)?;
    fields.set_item("value", &error.value)?;
    py.import("zerolag._errors")?.getattr("Diagnostic")?.call((), Some(&fields))
}
