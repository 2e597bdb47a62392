//! The fenced blocks of a page.

/// What is done with a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// It runs as a script.
    Script,
    /// Its commands run, and print what stands below them.
    Console,
    /// It is written to the file of that name.
    File(String),
    /// It runs as a script on the machine of that name, in a test of its own.
    On(String),
    /// It is only looked at.
    Illustrative,
    /// It is no code.
    Text,
}

/// A block.
#[derive(Debug)]
pub struct Block {
    /// Where it begins, from 1.
    pub line: usize,
    pub kind: Kind,
    pub text: String,
}

impl Block {
    /// All blocks of a page; or the line of one that cannot be understood, and why.
    pub fn all(page: &str) -> Result<Vec<Self>, String> {
        let mut blocks: Vec<Self> = Vec::new();
        let mut open = false;
        for (at, line) in page.lines().enumerate() {
            match (line.strip_prefix("```"), open) {
                (Some(info), false) => {
                    let kind = kind(info).map_err(|why| format!("{}: {why}", at + 1))?;
                    blocks.push(Self { line: at + 1, kind, text: String::new() });
                    open = true;
                }
                (Some(_), true) => open = false,
                (None, true) => {
                    let text = &mut blocks.last_mut().expect("one is open").text;
                    text.push_str(line);
                    text.push('\n');
                }
                (None, false) => {}
            }
        }
        if open { Err(format!("{}: a block has no end", page.lines().count())) } else { Ok(blocks) }
    }

    /// Whether it needs the shell of its page.
    #[allow(dead_code, reason = "pages of several machines have shells of their own")]
    pub fn runs(&self) -> bool {
        matches!(self.kind, Kind::Script | Kind::Console)
    }
}

fn kind(info: &str) -> Result<Kind, String> {
    let words: Vec<&str> = info.split_whitespace().collect();
    Ok(match words[..] {
        ["sh"] => Kind::Script,
        ["console"] => Kind::Console,
        ["hcl" | "toml" | "yaml", name] => Kind::File(name.to_owned()),
        ["sh", "on", machine] => Kind::On(machine.to_owned()),
        ["sh", "no-run"] | ["hcl" | "toml"] => Kind::Illustrative,
        ["text"] => Kind::Text,
        _ => return Err(format!("what is to be done with a block of `{info}`?")),
    })
}
