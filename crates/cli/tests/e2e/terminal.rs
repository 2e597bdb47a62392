//! A terminal: what a program shows there, as a user sees it.

use std::{
    fs::File,
    io::{Read, Write},
    os::unix::ffi::OsStrExt,
    path::Path,
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex, PoisonError},
    thread::JoinHandle,
};

use rustix::{
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Winsize, tcsetwinsize},
};

use super::eventually;

const ROWS: u16 = 40;
const COLUMNS: u16 = 100;

/// A program on a terminal of its own, 100 characters wide and 40 high.
pub struct OnTerminal {
    pub child: Child,
    keys: File,
    written: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
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
        let keys = main.try_clone().expect("one more");
        let written = Arc::new(Mutex::new(Vec::new()));
        let all = written.clone();
        let reader = std::thread::spawn(move || {
            let mut bytes = [0; 4_096];
            // Reading fails once nobody has the other side.
            while let Ok(count @ 1..) = main.read(&mut bytes) {
                all.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&bytes[..count]);
            }
        });
        Self { child, keys, written, reader }
    }

    /// Types a line.
    pub fn types(&mut self, line: &str) {
        self.keys.write_all(format!("{line}\n").as_bytes()).expect("the terminal takes it");
    }

    /// Waits until that was written.
    pub async fn until_written(&self, part: &str) {
        eventually(&format!("{part:?} is written"), async || self.written().contains(part).then_some(()))
            .await;
    }

    /// What was written so far.
    fn written(&self) -> String {
        let written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&written).into_owned()
    }

    /// Waits for its end: its exit code, all that was written, and what stands on the screen.
    pub fn ends(mut self) -> (Option<i32>, String, Vec<String>) {
        let code = self.child.wait().expect("it ends").code();
        let Self { written, reader, .. } = self;
        reader.join().expect("it was read");
        let written = std::mem::take(&mut *written.lock().unwrap_or_else(PoisonError::into_inner));
        let written = String::from_utf8(written).expect("text");
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
