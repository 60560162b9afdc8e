//! Ids: one type each, so that a CPU is never mistaken for a task.
//!
//! All are dense indices assigned in order of creation; their order is the last key of every
//! comparison that could otherwise tie.

use core::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);

        impl $name {
            /// Returns the id as an index into a dense table.
            #[must_use]
            pub const fn index(self) -> usize {
                self.0 as usize
            }

            /// Returns the id of a table index.
            ///
            /// # Panics
            /// If `index` does not fit 32 bits.
            #[must_use]
            pub fn from_index(index: usize) -> Self {
                Self(u32::try_from(index).expect("invariant: ids are dense and below 2^32"))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }
    };
}

id! {
    /// A CPU of the machine, from 0.
    CpuId
}
id! {
    /// A task, from 0 in order of creation. Ids are not used again.
    TaskId
}
id! {
    /// A task group. [`GroupId::ROOT`] is the root of the hierarchy.
    GroupId
}

impl GroupId {
    /// The default group of every task.
    pub const ROOT: Self = Self(0);
}
