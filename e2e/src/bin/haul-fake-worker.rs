//! Stands in for ssh and a worker behind it: forwards bytes between its standard input and output and a test's
//! listening socket. Its first argument is the socket's path.
#![forbid(unsafe_code)]

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::thread;

fn main() -> io::Result<()> {
    let path = std::env::args_os().nth(1).ok_or(io::ErrorKind::InvalidInput)?;
    let socket = UnixStream::connect(path)?;
    // Without the buffers that standard input and output have.
    let input = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let output = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    let to_test = socket.try_clone()?;
    thread::spawn(move || {
        pass(&input, &to_test);
        let _ = to_test.shutdown(Shutdown::Write);
    });
    // When the test closes its end, this ends, and with it the link.
    pass(&socket, &output);
    Ok(())
}

/// Forwards bytes until either end closes.
fn pass(mut from: impl Read, mut to: impl Write) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(len @ 1..) = from.read(&mut buffer) {
        if to.write_all(&buffer[..len]).is_err() {
            return;
        }
    }
}
