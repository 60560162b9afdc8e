//! The structs of the Arrow C data and stream interfaces, as their specification lays them out.

use std::ffi::{c_char, c_int, c_void};

/// The type of an array, and of its children.
#[repr(C)]
#[derive(Debug)]
pub struct ArrowSchema {
    pub(crate) format: *const c_char,
    pub(crate) name: *const c_char,
    pub(crate) metadata: *const c_char,
    pub(crate) flags: i64,
    pub(crate) n_children: i64,
    pub(crate) children: *mut *mut ArrowSchema,
    pub(crate) dictionary: *mut ArrowSchema,
    pub(crate) release: Option<unsafe extern "C" fn(*mut ArrowSchema)>,
    pub(crate) private_data: *mut c_void,
}

/// The values of an array, and of its children.
#[repr(C)]
#[derive(Debug)]
pub struct ArrowArray {
    pub(crate) length: i64,
    pub(crate) null_count: i64,
    pub(crate) offset: i64,
    pub(crate) n_buffers: i64,
    pub(crate) n_children: i64,
    pub(crate) buffers: *mut *const c_void,
    pub(crate) children: *mut *mut ArrowArray,
    pub(crate) dictionary: *mut ArrowArray,
    pub(crate) release: Option<unsafe extern "C" fn(*mut ArrowArray)>,
    pub(crate) private_data: *mut c_void,
}

/// Arrays of one type, one after the other.
#[repr(C)]
#[derive(Debug)]
pub struct ArrowArrayStream {
    pub(crate) get_schema: Option<unsafe extern "C" fn(*mut ArrowArrayStream, *mut ArrowSchema) -> c_int>,
    pub(crate) get_next: Option<unsafe extern "C" fn(*mut ArrowArrayStream, *mut ArrowArray) -> c_int>,
    pub(crate) get_last_error: Option<unsafe extern "C" fn(*mut ArrowArrayStream) -> *const c_char>,
    pub(crate) release: Option<unsafe extern "C" fn(*mut ArrowArrayStream)>,
    pub(crate) private_data: *mut c_void,
}

/// The flag of an [`ArrowSchema`] whose values can be missing.
pub(crate) const NULLABLE: i64 = 2;

// The sizes on the machines for which wheels are built: nine and ten words, and five.
#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(size_of::<ArrowSchema>() == 72);
    assert!(size_of::<ArrowArray>() == 80);
    assert!(size_of::<ArrowArrayStream>() == 40);
};
