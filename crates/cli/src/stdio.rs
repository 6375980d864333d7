//! Standard input, output and error: their kind, and what happens when a reader leaves.

use std::{
    fs::File,
    io::{self, IsTerminal, Write},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::fs::FileTypeExt,
    },
    process::ExitCode,
};

use rustix::event::{PollFd, PollFlags, poll};

use crate::exit::{Failure, Outcome};

/// Prints a line for the person on standard error. A missing listener is no fault.
pub(crate) fn complain(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// Writes the whole output of a command that only prints.
pub(crate) fn write_out(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Outcome {
    let mut out = Vec::new();
    write(&mut out).map_err(Failure::output)?;
    let mut stdout = io::stdout().lock();
    stdout.write_all(&out).and_then(|()| stdout.flush()).map_err(Failure::output)?;
    Ok(ExitCode::SUCCESS)
}

/// Returns true if standard input holds data to read: it is a pipe or a file. A terminal, a socket and
/// `/dev/null` (which also stands for a closed one) are not.
pub(crate) fn stdin_is_input() -> bool {
    let Some(file_type) = file_type(io::stdin().as_fd()) else { return false };
    file_type.is_fifo() || file_type.is_file()
}

/// Ends the process, quietly and at once, when the reader of standard output leaves, though nothing is being written:
/// a query may wait long for its next record. Without effect if standard output is no pipe or socket.
pub(crate) fn exit_when_stdout_closes() {
    if !file_type(io::stdout().as_fd()).is_some_and(|kind| kind.is_fifo() || kind.is_socket()) {
        return;
    }
    let watch = || {
        loop {
            let stdout = io::stdout();
            // No flags: only errors and hang-ups are told, and those always are.
            let mut fds = [PollFd::new(&stdout, PollFlags::empty())];
            match poll(&mut fds, None) {
                Ok(_) if fds[0].revents().intersects(PollFlags::ERR | PollFlags::HUP) => {
                    std::process::exit(0)
                }
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(_) => return,
            }
        }
    };
    // Without the thread the next write finds out.
    let _ = std::thread::Builder::new().name("stdout-watch".to_owned()).spawn(watch);
}

/// Returns true if there is something to read, or the end of it; waits up to `timeout_ms`.
pub(crate) fn readable_within(fd: BorrowedFd<'_>, timeout_ms: u16) -> io::Result<bool> {
    let timeout = rustix::event::Timespec { tv_sec: 0, tv_nsec: i64::from(timeout_ms) * 1_000_000 };
    match poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&timeout)) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Returns true if standard output is a terminal.
pub(crate) fn stdout_is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Returns true if standard error is a terminal that can be redrawn.
pub(crate) fn stderr_is_terminal() -> bool {
    io::stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

fn file_type(fd: BorrowedFd<'_>) -> Option<std::fs::FileType> {
    let file = File::from(fd.try_clone_to_owned().ok()?);
    Some(file.metadata().ok()?.file_type())
}
