//! Pipes: the kernel's own.
//!
//! An operation that need not wait is done without blocking. A thread that must wait does so in a
//! blocking `read` or `write`, so that the kernel wakes one thread at a time and tells its
//! scheduler that the waker is about to sleep, as in any program. (Waiting with `poll` for the pipe
//! and the run's end was rejected: it wakes all waiters, and takes two more system calls.) A
//! blocking call does not notice the run's end. At the end, one waiter is therefore released by a
//! byte, or by room for a page, and it releases the next.
//!
//! Source: Linux v6.12 `fs/pipe.c`, `pipe_read`, `pipe_write`.

use crate::clock;
use crate::park::{End, Parker, Waited};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::atomic::{AtomicU64, Ordering};
use zerolag_model::Instant;

/// The most bytes that one call moves: more bytes take several calls.
const PIECE: usize = 65_536;

/// A pipe that threads share.
#[derive(Debug)]
pub(crate) struct Pipe {
    reader: OwnedFd,
    writer: OwnedFd,
    /// A second opening of the pipe, on which nothing blocks.
    at_once: File,
    /// The times at which a thread last began to write, and to read.
    put_at: AtomicU64,
    taken_at: AtomicU64,
}

impl Pipe {
    /// Creates a pipe with this capacity in bytes.
    ///
    /// # Errors
    /// The kernel's error: above `/proc/sys/fs/pipe-max-size` a pipe takes `CAP_SYS_RESOURCE`.
    pub(crate) fn new(capacity: u32) -> io::Result<Self> {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
        fcntl_setpipe_size(&writer, capacity as usize)?;
        // The flag belongs to an opening of the pipe, not to the pipe: this is another opening.
        let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
        let path = format!("/proc/self/fd/{}", reader.as_raw_fd());
        let at_once = std::fs::OpenOptions::new().read(true).write(true).custom_flags(flags).open(path)?;
        Ok(Self { reader, writer, at_once, put_at: AtomicU64::new(0), taken_at: AtomicU64::new(0) })
    }

    /// Writes this many bytes.
    pub(crate) fn put(&self, bytes: u32, me: &Parker, end: &End) -> Waited {
        static ZEROS: [u8; PIECE] = [0; PIECE];
        let mut left = bytes as usize;
        let mut woken_at = None;
        while left > 0 {
            self.put_at.store(clock::now().as_nanos(), Ordering::Relaxed);
            let piece = &ZEROS[..left.min(PIECE)];
            let written = match (&self.at_once).write(piece) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let written = rustix::io::write(&self.writer, piece);
                    woken_at = Some(Instant::from_nanos(self.taken_at.load(Ordering::Relaxed)));
                    written.map_err(io::Error::from)
                }
                written => written,
            };
            if self.is_over(me, end) {
                return Waited::Over;
            }
            left -= match written {
                Ok(written) => written,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
                Err(_) => return Waited::Over,
            };
        }
        Waited::Woken(woken_at)
    }

    /// Reads the available bytes, at most this many.
    pub(crate) fn take(&self, bytes: u32, buffer: &mut Vec<u8>, me: &Parker, end: &End) -> Waited {
        buffer.resize((bytes as usize).min(PIECE).max(buffer.len()), 0);
        let mut left = bytes as usize;
        let mut woken_at = None;
        loop {
            self.taken_at.store(clock::now().as_nanos(), Ordering::Relaxed);
            let piece = left.min(PIECE);
            let read = match (&self.at_once).read(&mut buffer[..piece]) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && left < bytes as usize => Ok(0),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let read = rustix::io::read(&self.reader, &mut buffer[..piece]);
                    woken_at = Some(Instant::from_nanos(self.put_at.load(Ordering::Relaxed)));
                    read.map_err(io::Error::from)
                }
                read => read,
            };
            if self.is_over(me, end) {
                return Waited::Over;
            }
            match read {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Waited::Over,
                Ok(read) => {
                    left -= read;
                    if read < piece || left == 0 {
                        return Waited::Woken(woken_at);
                    }
                }
            }
        }
    }

    fn is_over(&self, me: &Parker, end: &End) -> bool {
        let run_is_over = end.is_over(clock::now());
        if run_is_over {
            self.let_go();
        }
        run_is_over || me.is_ended()
    }

    /// Releases one waiter after the run's end.
    pub(crate) fn let_go(&self) {
        if (&self.at_once).write(&[0]).is_err() {
            // The pipe is full, so the waiters are writers.
            let mut buffer = [0; PIECE];
            while matches!((&self.at_once).read(&mut buffer), Ok(read) if read > 0) {}
        }
    }
}

/// Returns why a pipe of this size is refused.
pub(crate) fn refused(capacity: u32) -> Option<String> {
    let error = Pipe::new(capacity).err()?;
    Some(match Errno::from_io_error(&error) {
        Some(Errno::PERM) => {
            format!(
                "a pipe of {capacity} bytes needs CAP_SYS_RESOURCE (the limit without it: /proc/sys/fs/pipe-max-size)"
            )
        }
        _ => format!("a pipe of {capacity} bytes cannot be made: {error}"),
    })
}
