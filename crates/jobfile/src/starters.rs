//! Job files to start from.

/// A job file that runs as it is, and says what to change.
#[derive(Debug, Clone, Copy)]
pub struct Starter {
    /// The name by which it is chosen.
    pub name: &'static str,
    /// What it makes, in a few words.
    pub about: &'static str,
    /// The file, with comments.
    pub source: &'static str,
}

macro_rules! starter {
    ($name:literal, $about:literal) => {
        Starter {
            name: $name,
            about: $about,
            source: include_str!(concat!("starters/", $name, ".nomad.hcl")),
        }
    };
}

/// All of them, the usual one first.
pub const STARTERS: &[Starter] = &[
    starter!("service", "a process that runs until it is stopped"),
    starter!("batch", "a process that runs until it is done"),
    starter!("system", "one process on every node"),
    starter!("container", "a container with a port that the scheduler picks"),
    starter!("variables", "a job file with variables, locals and a dynamic block"),
];

impl Starter {
    /// The file without its comments.
    pub fn short(&self) -> String {
        let stated = |line: &&str| !line.trim_start().starts_with('#');
        let lines = self.source.lines().filter(stated);
        let text = lines.fold(String::new(), |text, line| text + line + "\n");
        text.trim_start().to_owned()
    }
}
