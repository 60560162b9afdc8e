//! [`Table`]: a frame that speaks the Arrow PyCapsule interface, so that pandas, polars, pyarrow
//! and DuckDB read it without knowing zerolag.

use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyList};
use std::sync::Arc;
use zerolag::report::frame::{Column, Frame, Values};

/// A table of named columns.
#[pyclass(frozen, module = "zerolag")]
pub(crate) struct Table(Arc<Frame>);

impl From<Frame> for Table {
    fn from(frame: Frame) -> Self {
        Self(Arc::new(frame))
    }
}

#[pymethods]
impl Table {
    /// The name of the table.
    #[getter]
    fn name(&self) -> &str {
        self.0.name()
    }

    /// The names of its columns.
    #[getter]
    fn columns(&self) -> Vec<&str> {
        self.0.columns().iter().map(Column::name).collect()
    }

    /// The names of its columns that have a value; all of a table without rows.
    #[getter]
    fn shown(&self) -> Vec<&str> {
        let has_value =
            |column: &&Column| self.0.rows() == 0 || column.known().is_none_or(|known| known.contains(&true));
        self.0.columns().iter().filter(has_value).map(Column::name).collect()
    }

    fn __len__(&self) -> usize {
        self.0.rows()
    }

    /// Returns a column as a list; a value that does not exist is None.
    fn __getitem__<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyList>> {
        let Some(column) = self.0.column(name) else {
            let known: Vec<&str> = self.columns();
            return Err(PyKeyError::new_err(format!("no column `{name}`; known are {}", known.join(", "))));
        };
        let exists = |row: usize| column.known().is_none_or(|known| known[row]);
        let rows = 0..self.0.rows();
        match column.values() {
            Values::U64(values) => PyList::new(py, rows.map(|row| exists(row).then(|| values[row]))),
            Values::I64(values) => PyList::new(py, rows.map(|row| exists(row).then(|| values[row]))),
            Values::F64(values) => PyList::new(py, rows.map(|row| exists(row).then(|| values[row]))),
            Values::Bool(values) => PyList::new(py, rows.map(|row| exists(row).then(|| values[row]))),
            Values::Text(values) => PyList::new(py, rows.map(|row| exists(row).then(|| &*values[row]))),
            _ => PyList::new(py, rows.map(|_| None::<u64>)),
        }
    }

    /// The schema, as a capsule of the Arrow C data interface.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        PyCapsule::new_with_value(py, zerolag_arrow::schema(&self.0), c"arrow_schema")
    }

    /// The table, as a capsule of the Arrow C stream interface. Its numbers are not copied.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // A producer may ignore the request: then the consumer casts.
        drop(requested_schema);
        PyCapsule::new_with_value(py, zerolag_arrow::stream(Arc::clone(&self.0)), c"arrow_array_stream")
    }
}
