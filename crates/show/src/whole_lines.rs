//! Standard output for programs: whole lines, also where several threads write.

use std::io::{self, Write};

/// Bytes collected before a write, unless a line is urgent.
const BUFFER: usize = 64 << 10;

/// Buffers lines. Each write to standard output ends with one, and no other thread's comes between.
#[derive(Default)]
pub struct WholeLines {
    lines: Vec<u8>,
}

impl Write for WholeLines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.lines.extend_from_slice(bytes);
        if self.lines.len() >= BUFFER {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let whole = self.lines.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let mut out = io::stdout().lock();
        // What could not be written is not written twice.
        out.write_all(&self.lines.drain(..whole).collect::<Vec<_>>())?;
        out.flush()
    }
}

impl Drop for WholeLines {
    fn drop(&mut self) {
        let _ = self.flush();
    }
}
