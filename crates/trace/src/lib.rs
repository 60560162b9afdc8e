//! Trace container, readers and writers of zerolag.
