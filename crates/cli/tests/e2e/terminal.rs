//! A terminal: what a program shows there, as a person sees it.

use std::{
    fs::File,
    io::Read,
    os::unix::ffi::OsStrExt,
    path::Path,
    process::{Child, Command, Stdio},
    thread::JoinHandle,
};

use rustix::{
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Winsize, tcsetwinsize},
};

const ROWS: u16 = 40;
const COLUMNS: u16 = 100;

/// A program on a terminal of its own, 100 characters wide and 40 high.
pub struct OnTerminal {
    pub child: Child,
    shown: JoinHandle<Vec<u8>>,
}

impl OnTerminal {
    /// Starts it: all that it prints and tells goes to the terminal.
    pub fn start(mut command: Command) -> Self {
        let main =
            openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).expect("a terminal");
        grantpt(&main).and_then(|()| unlockpt(&main)).expect("it is this user's");
        let name = ptsname(&main, Vec::new()).expect("it has a name");
        let path = Path::new(std::ffi::OsStr::from_bytes(name.to_bytes()));
        let side = File::options().read(true).write(true).open(path).expect("its other side");
        let size = Winsize { ws_row: ROWS, ws_col: COLUMNS, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&side, size).expect("it has a size");
        let stdio = || Stdio::from(side.try_clone().expect("one more"));
        let child = command.stdin(stdio()).stdout(stdio()).stderr(stdio()).spawn().expect("it starts");
        let mut main = File::from(main);
        let shown = std::thread::spawn(move || {
            let mut shown = Vec::new();
            // Reading fails once nobody has the other side.
            let _ = main.read_to_end(&mut shown);
            shown
        });
        Self { child, shown }
    }

    /// Waits for its end: its exit code, all that was written, and what stands on the screen.
    pub fn ends(mut self) -> (Option<i32>, String, Vec<String>) {
        let code = self.child.wait().expect("it ends").code();
        let written = String::from_utf8(self.shown.join().expect("it was read")).expect("text");
        let screen = screen(&written);
        (code, written, screen)
    }
}

/// The lines that stand there in the end: of what terminals know this understands what moves the cursor up, erases, and paints.
fn screen(written: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut row = 0;
    let mut rest = written;
    while let Some(next) = rest.chars().next() {
        rest = &rest[next.len_utf8()..];
        match next {
            '\r' => {}
            '\n' => {
                row += 1;
                lines.resize(lines.len().max(row + 1), String::new());
            }
            '\u{1b}' => {
                let body = rest.strip_prefix('[').expect("a sequence of a terminal");
                let end = body.find(|c: char| c.is_ascii_alphabetic()).expect("it ends");
                let count = body[..end].parse().unwrap_or(1);
                match &body[end..=end] {
                    "m" => {}
                    "A" => row = row.checked_sub(count).expect("it stays on the screen"),
                    "J" => {
                        lines.truncate(row);
                        lines.push(String::new());
                    }
                    other => panic!("unknown sequence {other:?} in {written:?}"),
                }
                rest = &body[end + 1..];
            }
            other => {
                if lines[row].chars().count() == usize::from(COLUMNS) {
                    row += 1;
                    lines.resize(lines.len().max(row + 1), String::new());
                }
                lines[row].push(other);
            }
        }
    }
    assert!(lines.len() <= usize::from(ROWS), "it has scrolled: {lines:#?}");
    lines
}
