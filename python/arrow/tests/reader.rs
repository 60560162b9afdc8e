//! The stream, read by the implementation of Arrow's authors: values, missing values, and that
//! everything is freed whichever part a reader keeps. `./x python` runs this under valgrind, too.

use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use arrow_array::{Array, RecordBatch, RecordBatchReader, StringArray, UInt64Array};
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{DataType, Schema};
use std::sync::Arc;
use zerolag_report::frame::{Frame, Values};

fn frame(rows: usize) -> Arc<Frame> {
    let texts = (0..rows).map(|row| Arc::from("é".repeat(row % 5))).collect();
    Arc::new(
        Frame::new("t", rows)
            .with("u", Values::U64((0..rows as u64).collect()))
            .with_some("some", Values::U64(vec![7; rows]), (0..rows).map(|row| row % 3 == 0).collect())
            .with("i", Values::I64((0..rows as i64).map(|row| -row).collect()))
            .with("f", Values::F64((0..rows).map(|row| row as f64 / 2.0).collect()))
            .with("b", Values::Bool((0..rows).map(|row| row % 2 == 1).collect()))
            .with_some("t", Values::Text(texts), (0..rows).map(|row| row != 1).collect()),
    )
}

/// Hands the stream over as a capsule does: a reader moves the struct out of the producer's memory.
fn reader(frame: Arc<Frame>) -> RecordBatchStreamReader {
    let mut stream = zerolag_arrow::stream(frame);
    #[expect(unsafe_code, reason = "the reader's side of the interface")]
    // SAFETY: both types are the struct of the specification, and `from_raw` leaves a released one.
    unsafe {
        RecordBatchStreamReader::from_raw((&raw mut stream).cast::<FFI_ArrowArrayStream>()).expect("a stream")
    }
}

fn read(frame: Arc<Frame>) -> Vec<RecordBatch> {
    reader(frame).map(|batch| batch.expect("a batch")).collect()
}

#[test]
fn a_reader_gets_the_values() {
    let frame = frame(20);
    let batches = read(Arc::clone(&frame));
    assert_eq!(batches.len(), 1, "one batch");
    let batch = &batches[0];
    batch.columns().iter().for_each(|column| column.to_data().validate_full().expect("valid buffers"));
    assert_eq!(batch.num_rows(), 20);
    let some = batch.column(1).as_any().downcast_ref::<UInt64Array>().expect("u64");
    assert_eq!(some.iter().take(4).collect::<Vec<_>>(), [Some(7), None, None, Some(7)]);
    let texts = batch.column(5).as_any().downcast_ref::<StringArray>().expect("texts");
    assert_eq!(texts.iter().take(4).collect::<Vec<_>>(), [Some(""), None, Some("éé"), Some("ééé")]);
    let printed = format!("{:?}", batch.column(4));
    assert!(printed.contains("false,\n  true,\n  false"), "{printed}");
}

#[test]
fn numbers_are_lent_and_not_copied() {
    let frame = frame(9);
    let Values::U64(own) = frame.columns()[0].values() else { panic!("numbers") };
    let batch = read(Arc::clone(&frame)).remove(0);
    let column = batch.column(0).as_any().downcast_ref::<UInt64Array>().expect("u64");
    assert!(std::ptr::eq(own.as_ptr(), column.values().as_ptr()));
}

#[test]
fn everything_is_freed_whatever_a_reader_keeps() {
    let frame = frame(20);
    let weak = Arc::downgrade(&frame);
    // A stream that nothing reads, and one of which only the type is read.
    drop(zerolag_arrow::stream(Arc::clone(&frame)));
    drop(reader(Arc::clone(&frame)));
    // A column that outlives its batch, its stream and the frame.
    let column = {
        let batch = read(frame).remove(0);
        Arc::clone(batch.column(0))
    };
    assert!(weak.upgrade().is_some(), "the column's values are the frame's");
    assert_eq!(column.as_any().downcast_ref::<UInt64Array>().expect("u64").value(19), 19);
    std::thread::spawn(move || drop(column)).join().expect("a struct can end on another thread");
    assert!(weak.upgrade().is_none(), "the last column frees the frame");
}

#[test]
fn the_type_is_that_of_the_stream_and_every_column_can_be_missing() {
    let frame = frame(3);
    let mut own = zerolag_arrow::schema(&frame);
    #[expect(unsafe_code, reason = "the reader's side of the interface")]
    // SAFETY: both types are the struct of the specification, and `from_raw` leaves a released one.
    let read = unsafe { FFI_ArrowSchema::from_raw((&raw mut own).cast()) };
    let schema = Schema::try_from(&read).expect("a type");
    assert_eq!(schema, *reader(frame).schema());
    assert!(schema.fields().iter().all(|field| field.is_nullable()));
    let types: Vec<_> = schema.fields().iter().map(|field| field.data_type().clone()).collect();
    use DataType::{Boolean, Float64, Int64, UInt64, Utf8};
    assert_eq!(types, [UInt64, UInt64, Int64, Float64, Boolean, Utf8]);
    drop(zerolag_arrow::schema(&Frame::new("empty", 0)));
}

#[test]
fn an_empty_frame_is_a_batch_without_rows() {
    let batches = read(frame(0));
    assert_eq!((batches.len(), batches[0].num_rows(), batches[0].num_columns()), (1, 0, 6));
}
