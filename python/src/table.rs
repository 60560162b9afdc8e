//! [`Table`]: a frame that speaks the Arrow PyCapsule interface, so that pandas, polars, pyarrow
//! and DuckDB read it without knowing zerolag.

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{
    ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, RecordBatchIterator, StringArray, UInt64Array,
};
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{ArrowError, DataType, Field, Schema};
use pyo3::exceptions::{PyKeyError, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyList};
use std::sync::Arc;
use zerolag::report::frame::{Column, Frame, Values};

/// A table of named columns.
#[pyclass(frozen, module = "zerolag")]
pub(crate) struct Table(pub(crate) Frame);

fn failed(error: &ArrowError) -> PyErr {
    PyRuntimeError::new_err(error.to_string())
}

impl Table {
    fn schema(&self) -> Schema {
        let field = |column: &Column| {
            let data_type = match column.values() {
                Values::U64(_) => DataType::UInt64,
                Values::I64(_) => DataType::Int64,
                Values::F64(_) => DataType::Float64,
                Values::Bool(_) => DataType::Boolean,
                _ => DataType::Utf8,
            };
            // Always nullable: the type of a column does not depend on the run.
            Field::new(column.name(), data_type, true)
        };
        Schema::new(self.0.columns().iter().map(field).collect::<Vec<_>>())
    }

    fn batch(&self) -> Result<RecordBatch, ArrowError> {
        let array = |column: &Column| -> ArrayRef {
            let nulls = column.known().map(|known| known.to_vec().into());
            match column.values() {
                Values::U64(values) => Arc::new(UInt64Array::new(values.clone().into(), nulls)),
                Values::I64(values) => Arc::new(Int64Array::new(values.clone().into(), nulls)),
                Values::F64(values) => Arc::new(Float64Array::new(values.clone().into(), nulls)),
                Values::Bool(values) => Arc::new(BooleanArray::new(values.clone().into(), nulls)),
                Values::Text(values) => Arc::new(match column.known() {
                    None => values.iter().map(|text| Some(&**text)).collect::<StringArray>(),
                    Some(known) => {
                        values.iter().zip(known).map(|(text, known)| known.then_some(&**text)).collect::<StringArray>()
                    }
                }),
                _ => Arc::new(StringArray::new_null(self.0.rows())),
            }
        };
        RecordBatch::try_new(Arc::new(self.schema()), self.0.columns().iter().map(array).collect())
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
        let schema = FFI_ArrowSchema::try_from(self.schema()).map_err(|error| failed(&error))?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    /// The table, as a capsule of the Arrow C stream interface.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // A producer may ignore the request: then the consumer casts.
        drop(requested_schema);
        let batch = self.batch().map_err(|error| failed(&error))?;
        let schema = batch.schema();
        let reader = RecordBatchIterator::new([Ok(batch)], schema);
        PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(reader)), c"arrow_array_stream")
    }
}
