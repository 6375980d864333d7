//! The terminal while `top` uses it: alternate screen, no cursor, keys read as they are pressed; restored at the end.

use std::{
    io::{self, Read, Write},
    sync::{Mutex, Once},
};

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use tokio::sync::mpsc;

use crate::args::TopSort;

const OPEN: &str = "\x1b[?1049h\x1b[?25l";
const CLOSE: &str = "\x1b[?25h\x1b[?1049l";

/// The commands of a user.
pub(super) enum Key {
    Quit,
    Sort(TopSort),
}

/// The taken terminal.
pub(super) struct Screen {
    /// The earlier settings; none if standard input is no terminal.
    before: Option<Termios>,
}

impl Screen {
    /// Takes the terminal over.
    pub(super) fn open() -> io::Result<(Screen, mpsc::Receiver<Key>)> {
        let before = tcgetattr(io::stdin()).ok();
        if let Some(before) = &before {
            let mut raw = before.clone();
            // Signals stay: Ctrl-C and Ctrl-Z mean what they always do.
            raw.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
            tcsetattr(io::stdin(), OptionalActions::Now, &raw)?;
        }
        restore_on_panic(before.clone());
        let screen = Screen { before };
        let mut out = io::stdout();
        out.write_all(OPEN.as_bytes())?;
        out.flush()?;
        let (sender, keys) = mpsc::channel(16);
        std::thread::Builder::new().name("keys".to_owned()).spawn(move || {
            for byte in io::stdin().lock().bytes() {
                let key = match byte {
                    Ok(b'q' | b'Q') => Key::Quit,
                    Ok(byte) => match TopSort::of_key(byte) {
                        Some(sort) => Key::Sort(sort),
                        None => continue,
                    },
                    Err(_) => break,
                };
                if sender.blocking_send(key).is_err() {
                    return;
                }
            }
            // Without keys the picture goes on: standard input may be no terminal.
            std::thread::park();
        })?;
        Ok((screen, keys))
    }

    /// Shows these lines and nothing else.
    pub(super) fn draw(&mut self, lines: &[String]) -> io::Result<()> {
        // Lines are overwritten rather than cleared first, so that nothing flickers.
        let mut text = String::from("\x1b[H");
        for (at, line) in lines.iter().enumerate() {
            let line = line.replace(|c: char| c.is_control(), " ");
            text.push_str(if at > 0 { "\r\n" } else { "" });
            text.push_str(&line);
            text.push_str("\x1b[K");
        }
        text.push_str("\x1b[J");
        let mut out = io::stdout();
        out.write_all(text.as_bytes())?;
        out.flush()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore_terminal(self.before.as_ref());
    }
}

fn restore_terminal(before: Option<&Termios>) {
    // There is nothing to be done if the terminal is gone.
    let mut out = io::stdout();
    let _ = out.write_all(CLOSE.as_bytes()).and_then(|()| out.flush());
    if let Some(before) = before {
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, before);
    }
}

/// Panics print where they can be read.
fn restore_on_panic(before: Option<Termios>) {
    static HOOKED: Once = Once::new();
    HOOKED.call_once(|| {
        let print = std::panic::take_hook();
        let before = Mutex::new(before);
        std::panic::set_hook(Box::new(move |info| {
            restore_terminal(before.lock().ok().as_ref().and_then(|before| before.as_ref()));
            print(info);
        }));
    });
}
