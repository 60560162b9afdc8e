//! Fills the structs of C for a frame. The only module with `unsafe`.
//!
//! **Ownership.** Each struct that a reader gets owns one box (`private_data`), which owns
//! everything that the struct points to, and `release` drops that box. The numbers of a column are
//! the frame's own: each array's box has a reference to the frame, so they live as long as the last
//! array. The rules of the interface that this relies on, numbered as the `SAFETY` comments cite
//! them:
//!
//! 1. A reader passes to a callback a struct that is valid and exclusively its own during the call,
//!    or for `get_schema` and `get_next` the memory for one, which can be uninitialised.
//! 2. A reader calls no callback of a struct after its `release`, and `release` at most once:
//!    moving a struct to another place sets `release` to null in the old one.
//! 3. Children can be moved out of their parent. The parent still owns the memory of the moved struct,
//!    and releases a child only if its `release` is not null.
//! 4. A released struct has a null `release`.
//! 5. A reader does not write to buffers, strings or lists that a struct points to.
//!
//! Every callback is reached through a struct that this module made (2), so the type of
//! `private_data` is known.
#![expect(unsafe_code, reason = "the Arrow C interface is raw pointers and callbacks; see the rules above")]

use crate::abi::{ArrowArray, ArrowArrayStream, ArrowSchema, NULLABLE};
use crate::pack::{bits, texts};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;
use std::sync::Arc;
use zerolag_report::frame::{Column, Frame, Values};

/// `EOVERFLOW` of Linux; readers show the text of `get_last_error`.
const TOO_LARGE: c_int = 75;

// SAFETY:
// 1. The structs own what they point to, behind boxes that no other value refers to.
// 2. The interface allows to use and release a struct on another thread than its producer's.
// 3. What the boxes own is `Send`: strings, vectors, and `Arc<Frame>` (checked below).
unsafe impl Send for ArrowSchema {}
// SAFETY: as for `ArrowSchema`.
unsafe impl Send for ArrowArray {}
// SAFETY: as for `ArrowSchema`.
unsafe impl Send for ArrowArrayStream {}

const _: () = {
    const fn is_send<T: Send>() {}
    is_send::<Arc<Frame>>();
    is_send::<Owned>();
};

/// Returns the type of a frame: a struct with a field per column, each of which can be missing, so
/// that the type does not depend on the run.
#[must_use]
pub fn schema(frame: &Frame) -> ArrowSchema {
    let fields = frame.columns().iter().map(|column| {
        let format = match column.values() {
            Values::U64(_) => c"L",
            Values::I64(_) => c"l",
            Values::F64(_) => c"g",
            Values::Bool(_) => c"b",
            _ => c"u",
        };
        ArrowSchema::new(format, column.name(), NULLABLE, Vec::new())
    });
    ArrowSchema::new(c"+s", "", 0, fields.collect())
}

/// Returns a stream of one batch: the frame.
#[must_use]
pub fn stream(frame: Arc<Frame>) -> ArrowArrayStream {
    let source = Source { frame, is_read: false, error: None };
    ArrowArrayStream {
        get_schema: Some(get_schema),
        get_next: Some(get_next),
        get_last_error: Some(get_last_error),
        release: Some(release_stream),
        private_data: Box::into_raw(Box::new(source)).cast(),
    }
}

/// What a stream owns.
struct Source {
    frame: Arc<Frame>,
    is_read: bool,
    error: Option<CString>,
}

/// What a schema owns.
struct Names {
    _name: CString,
    children: Vec<*mut ArrowSchema>,
}

/// What an array owns: the lists that it points to, and the buffers that they point to.
struct Columns {
    buffers: Vec<*const c_void>,
    children: Vec<*mut ArrowArray>,
    _owned: Owned,
}

// SAFETY: the pointers of `buffers` point into `_owned`, those of `children` to boxes that this owns.
unsafe impl Send for Columns {}

/// The buffers of an array. The numbers of a column are lent by the frame.
#[derive(Default)]
struct Owned {
    _frame: Option<Arc<Frame>>,
    _known: Vec<u8>,
    _bits: Vec<u8>,
    _texts: (Vec<i32>, Vec<u8>),
}

impl ArrowSchema {
    fn new(format: &'static CStr, name: &str, flags: i64, children: Vec<ArrowSchema>) -> Self {
        // A name with a zero byte ends there for a reader of C.
        let name = CString::new(name.split('\0').next().unwrap_or_default()).unwrap_or_default();
        let children: Vec<_> = children.into_iter().map(|child| Box::into_raw(Box::new(child))).collect();
        let text = name.as_ptr();
        let mut owned = Box::new(Names { _name: name, children });
        ArrowSchema {
            format: format.as_ptr(),
            name: text,
            metadata: ptr::null(),
            flags,
            n_children: owned.children.len() as i64,
            children: owned.children.as_mut_ptr(),
            dictionary: ptr::null_mut(),
            release: Some(release_schema),
            private_data: Box::into_raw(owned).cast(),
        }
    }
}

impl ArrowArray {
    /// Returns an array; `buffers` point into `owned`.
    fn new(rows: usize, nulls: usize, buffers: Vec<*const c_void>, children: Vec<ArrowArray>, owned: Owned) -> Self {
        let children: Vec<_> = children.into_iter().map(|child| Box::into_raw(Box::new(child))).collect();
        let mut owned = Box::new(Columns { buffers, children, _owned: owned });
        ArrowArray {
            length: rows as i64,
            null_count: nulls as i64,
            offset: 0,
            n_buffers: owned.buffers.len() as i64,
            n_children: owned.children.len() as i64,
            buffers: owned.buffers.as_mut_ptr(),
            children: owned.children.as_mut_ptr(),
            dictionary: ptr::null_mut(),
            release: Some(release_array),
            private_data: Box::into_raw(owned).cast(),
        }
    }

    /// Returns the array of a frame: a struct with a child per column.
    fn of(frame: &Arc<Frame>) -> Result<Self, String> {
        let children = frame.columns().iter().map(|column| Self::of_column(frame, column));
        let children = children.collect::<Result<_, _>>()?;
        Ok(Self::new(frame.rows(), 0, vec![ptr::null()], children, Owned::default()))
    }

    fn of_column(frame: &Arc<Frame>, column: &Column) -> Result<Self, String> {
        // Moving a vector does not move its values, so pointers to them stay valid in `owned`.
        let mut owned = Owned { _frame: Some(Arc::clone(frame)), ..Owned::default() };
        let nulls = column.known().map_or(0, |known| known.iter().filter(|known| !**known).count());
        let mut buffers = vec![ptr::null()];
        if let Some(known) = column.known() {
            owned._known = bits(known);
            buffers[0] = start(&owned._known);
        }
        match column.values() {
            Values::U64(values) => buffers.push(start(values)),
            Values::I64(values) => buffers.push(start(values)),
            Values::F64(values) => buffers.push(start(values)),
            Values::Bool(values) => {
                owned._bits = bits(values);
                buffers.push(start(&owned._bits));
            }
            Values::Text(values) => {
                let long = || format!("column `{}` has more than 2 GiB of text", column.name());
                owned._texts = texts(values).ok_or_else(long)?;
                buffers.push(start(&owned._texts.0));
                buffers.push(start(&owned._texts.1));
            }
            _ => return Err(format!("column `{}` has a type that is not known here", column.name())),
        }
        Ok(Self::new(frame.rows(), nulls, buffers, Vec::new(), owned))
    }
}

fn start<T>(values: &[T]) -> *const c_void {
    values.as_ptr().cast()
}

impl Drop for ArrowSchema {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: rule 1, `self` is valid and exclusive; rule 2, it has not been released.
            unsafe { release(self) };
        }
    }
}

impl Drop for ArrowArray {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: as for `ArrowSchema`.
            unsafe { release(self) };
        }
    }
}

impl Drop for ArrowArrayStream {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: as for `ArrowSchema`.
            unsafe { release(self) };
        }
    }
}

unsafe extern "C" fn release_schema(schema: *mut ArrowSchema) {
    // SAFETY: rule 1.
    let schema = unsafe { &mut *schema };
    schema.release = None;
    // SAFETY: `private_data` is the box of `ArrowSchema::new`; rule 2, it is taken back once.
    let owned = unsafe { Box::from_raw(schema.private_data.cast::<Names>()) };
    for child in &owned.children {
        // SAFETY: each is a box of `ArrowSchema::new`, whose memory is ours even if a reader has
        // moved the struct (rule 3). Its `drop` releases it unless `release` is null.
        drop(unsafe { Box::from_raw(*child) });
    }
}

unsafe extern "C" fn release_array(array: *mut ArrowArray) {
    // SAFETY: rule 1.
    let array = unsafe { &mut *array };
    array.release = None;
    // SAFETY: `private_data` is the box of `ArrowArray::new`; rule 2, it is taken back once.
    let owned = unsafe { Box::from_raw(array.private_data.cast::<Columns>()) };
    for child in &owned.children {
        // SAFETY: as in `release_schema`.
        drop(unsafe { Box::from_raw(*child) });
    }
}

unsafe extern "C" fn release_stream(stream: *mut ArrowArrayStream) {
    // SAFETY: rule 1.
    let stream = unsafe { &mut *stream };
    stream.release = None;
    // SAFETY: `private_data` is the box of `stream`; rule 2, it is taken back once.
    drop(unsafe { Box::from_raw(stream.private_data.cast::<Source>()) });
}

unsafe extern "C" fn get_schema(stream: *mut ArrowArrayStream, out: *mut ArrowSchema) -> c_int {
    // SAFETY: rules 1 and 2, the box of `stream` is alive and this call alone uses it.
    let source = unsafe { &mut *(*stream).private_data.cast::<Source>() };
    // SAFETY: rule 1. `write` does not drop what was there: it can be uninitialised.
    unsafe { out.write(schema(&source.frame)) };
    0
}

unsafe extern "C" fn get_next(stream: *mut ArrowArrayStream, out: *mut ArrowArray) -> c_int {
    // SAFETY: as in `get_schema`.
    let source = unsafe { &mut *(*stream).private_data.cast::<Source>() };
    let array = if source.is_read { Ok(end()) } else { ArrowArray::of(&source.frame) };
    match array {
        Ok(array) => {
            source.is_read = true;
            // SAFETY: as in `get_schema`.
            unsafe { out.write(array) };
            0
        }
        Err(why) => {
            source.error = CString::new(why.replace('\0', " ")).ok();
            TOO_LARGE
        }
    }
}

/// Returns the array that ends a stream: a released one (rule 4).
const fn end() -> ArrowArray {
    ArrowArray {
        length: 0,
        null_count: 0,
        offset: 0,
        n_buffers: 0,
        n_children: 0,
        buffers: ptr::null_mut(),
        children: ptr::null_mut(),
        dictionary: ptr::null_mut(),
        release: None,
        private_data: ptr::null_mut(),
    }
}

unsafe extern "C" fn get_last_error(stream: *mut ArrowArrayStream) -> *const c_char {
    // SAFETY: as in `get_schema`. The text lives until the next call of the stream.
    let source = unsafe { &mut *(*stream).private_data.cast::<Source>() };
    source.error.as_ref().map_or(ptr::null(), |error| error.as_ptr())
}
