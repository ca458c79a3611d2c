//! Bytes of files: reading, writing, checksums, compression, and programs as endpoints.

pub mod checksum;
pub mod codec;
pub mod frame_buffer;
pub mod program;
pub mod storage;
