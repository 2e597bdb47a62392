//! Plants one fault after the other in a copy of the code, and runs the tests that must find it: `make test-long PART=planted`.
//! `PLANTED` selects faults by a text of their rows, `PLANTED_PACKAGES` by the packages of their tests.

#[path = "../tests/planted/list.rs"]
mod list;

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Output},
    time::Instant,
};

use list::{Edit, Fault, Planted, ROOT, TestOfFault};

/// A run of tests that takes longer is ended; whatever has not failed by then has found nothing.
const RUN_S_MAX: u32 = 300;
/// The exit code of `timeout` when the time was up.
const TIMED_OUT: i32 = 124;
/// How much is shown of what a compiler or a test says.
const LINES_SHOWN: usize = 30;
const CHARS_SHOWN: usize = 400;

/// Crates that tests are faster with when these are optimised. Here each is compiled more often than its tests run.
const OPTIMISED: [&str; 4] = ["berth-model", "berth-scheduler", "berth-controller", "berth-sim"];

/// A copy of the code, built into this program's own target folder: each crate of the copy is another one to cargo.
struct Copy {
    source: PathBuf,
    target: PathBuf,
}

/// The tests of one program.
type Programs<'a> = BTreeMap<(&'a str, &'a str), Vec<&'a TestOfFault>>;

/// How a test ended.
#[derive(Debug, PartialEq, Eq)]
enum End {
    Passed,
    /// It said that this machine lacks what it needs.
    Skipped,
    /// With what it said first.
    Failed(String),
    /// It was not there, or not over in time.
    Missing,
}

impl Copy {
    /// Files that are as they were keep their times, so that they are not compiled again.
    fn make() -> Self {
        // The program lies in `debug/examples` of it.
        let target = env::current_exe().unwrap().ancestors().nth(3).unwrap().to_owned();
        let copy = Self { source: target.join("source"), target };
        let mut git = Command::new("git");
        let listed = git.args(["-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
        let listed = String::from_utf8(listed.output().unwrap().stdout).unwrap();
        for file in listed.split_terminator('\0') {
            let (from, to) = (Path::new(ROOT).join(file), copy.source.join(file));
            // What was removed is listed until that is committed.
            if let Ok(bytes) = fs::read(&from)
                && fs::read(&to).ok().as_ref() != Some(&bytes)
            {
                fs::create_dir_all(to.parent().unwrap()).unwrap();
                fs::copy(from, to).unwrap();
            }
        }
        let listed: BTreeSet<PathBuf> =
            listed.split_terminator('\0').map(|file| copy.source.join(file)).collect();
        copy.remove_others(&copy.source, &listed);
        copy
    }

    /// Removes what the repository has no more: a crate that is left over would be built, a file that is would be read by tests.
    fn remove_others(&self, dir: &Path, listed: &BTreeSet<PathBuf>) {
        for path in fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                self.remove_others(&path, listed);
                // Fails where anything is left in it.
                let _ = fs::remove_dir(&path);
            } else if !listed.contains(&path) {
                fs::remove_file(&path).unwrap();
            }
        }
    }

    /// Puts the fault into the copy; returns what was there.
    fn plant(&self, edits: &[Edit]) -> Vec<(PathBuf, String)> {
        let mut before = Vec::new();
        for edit in edits {
            let path = self.source.join(&edit.file);
            let text = fs::read_to_string(&path).unwrap();
            let planted =
                edit.plant(&text).unwrap_or_else(|count| panic!("{count} times there: {}", edit.find));
            fs::write(&path, planted).unwrap();
            before.push((path, text));
        }
        before
    }

    fn cargo(&self, limit: Option<u32>, verb: &str, package: &str, more: &[&str]) -> Output {
        // A test that ends in time leaves nothing behind, one that is killed might.
        let mut command = Command::new(if limit.is_some() { "timeout" } else { "cargo" });
        if let Some(limit) = limit {
            command.args(["-k", "10", &limit.to_string(), "cargo"]);
        }
        let plain = OPTIMISED.map(|name| format!("--config=profile.dev.package.{name}.opt-level=0"));
        command.arg(verb).args(plain).args(["--locked", "-p", package]).args(more);
        command.current_dir(&self.source).env("CARGO_TARGET_DIR", &self.target);
        command.output().unwrap()
    }

    /// Builds a program and runs these tests of it; if it cannot be built, what the compiler says.
    fn run(&self, (package, target): (&str, &str), tests: &[&TestOfFault]) -> Result<Vec<End>, String> {
        let target: Vec<&str> = target.split(' ').collect();
        let mut builds = vec![("test", [&target[..], &["--no-run"]].concat())];
        // Programs of tests start examples, which are not built with them where a program is named.
        if target[0] == "--test" {
            builds.push(("build", vec!["--examples"]));
        }
        for (verb, more) in builds {
            let built = self.cargo(None, verb, package, &more);
            if !built.status.success() {
                return Err(last_lines(&String::from_utf8_lossy(&built.stderr)));
            }
        }
        let names: Vec<&str> = tests.iter().map(|test| &*test.name).collect();
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let ran = self.cargo(
            Some(RUN_S_MAX),
            "test",
            package,
            &[&target[..], &["--", "--show-output"], &names].concat(),
        );
        let said = String::from_utf8_lossy(&ran.stdout).into_owned();
        // A program that a signal or the time ends says nothing of the test that was running.
        let complaints = String::from_utf8_lossy(&ran.stderr);
        let signal = complaints.lines().find(|line| line.contains("(signal: ")).map(str::trim);
        let too_long = (ran.status.code() == Some(TIMED_OUT)).then_some("it did not end in time");
        let end = |name: &&str| match (end_of(name, &said), signal.or(too_long)) {
            (End::Missing, Some(why)) => End::Failed(cut(why)),
            (end, _) => end,
        };
        Ok(names.iter().map(end).collect())
    }
}

/// As much of it as is shown.
fn cut(text: &str) -> String {
    text.chars().take(CHARS_SHOWN).collect()
}

fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LINES_SHOWN)..].join("\n")
}

/// How a test ended, by what its program said.
fn end_of(name: &str, said: &str) -> End {
    let of_test = |line: &&str| {
        // Not the line that says that it has been running for over a minute.
        let path = line.strip_prefix("test ").and_then(|line| line.split_once(" ... "));
        path.is_some_and(|(path, _)| path.rsplit("::").next() == Some(name))
    };
    let Some(line) = said.lines().find(of_test) else { return End::Missing };
    let of_own = |section: &&str| {
        let path = section.split(" stdout ----").next();
        path.is_some_and(|path| path.rsplit("::").next() == Some(name))
    };
    let output = said.split("\n---- ").filter(of_own).last().unwrap_or_default();
    let is_lack =
        |line: &str| ["skipped", "no containers", "no networks"].iter().any(|lack| line.starts_with(lack));
    if line.ends_with(" ok") {
        if output.lines().any(is_lack) { End::Skipped } else { End::Passed }
    } else if line.ends_with(" FAILED") {
        let panic = output.lines().skip_while(|line| !line.contains("panicked at")).take(3);
        let panic =
            panic.take_while(|line| !line.starts_with("note: ") && !line.starts_with("stack backtrace"));
        End::Failed(cut(&panic.collect::<Vec<_>>().join(" ")))
    } else {
        End::Missing
    }
}

/// The tests of a fault by their programs, of the chosen packages only.
fn programs<'a>(faults: impl IntoIterator<Item = &'a Fault>, packages: &str) -> Programs<'a> {
    let mut programs = Programs::new();
    let chosen =
        |test: &&TestOfFault| packages.is_empty() || packages.split_whitespace().any(|of| of == test.package);
    for test in faults.into_iter().flat_map(|fault| &fault.found_by).filter(chosen) {
        let tests = programs.entry((&test.package, &test.target)).or_default();
        if !tests.contains(&test) {
            tests.push(test);
        }
    }
    programs
}

/// What was found so far.
struct Proof<'a> {
    copy: Copy,
    packages: &'a str,
    /// Tests that this machine cannot run.
    skipped: Vec<TestOfFault>,
    /// Tests that fail as the code is: they would find anything.
    unfit: Vec<TestOfFault>,
    problems: Vec<String>,
    /// Of how many tests how many found their faults.
    found: usize,
    tests: usize,
}

impl Proof<'_> {
    /// Runs the tests on the code as it is.
    fn without_faults(&mut self, faults: &[Fault]) {
        for (program, tests) in programs(faults, self.packages) {
            println!("as it is: {} tests of {} {}", tests.len(), program.0, program.1);
            let ends = self.copy.run(program, &tests).unwrap_or_else(|error| panic!("as it is: {error}"));
            for (test, end) in tests.into_iter().zip(ends) {
                match end {
                    End::Passed => {}
                    End::Skipped => self.skipped.push(test.clone()),
                    End::Failed(_) | End::Missing => {
                        println!("    {}: {end:?}", test.name);
                        self.problems.push(format!("{}, as the code is: {end:?}", test.name));
                        self.unfit.push(test.clone());
                    }
                }
            }
        }
    }

    /// Plants a fault, runs its tests and takes it out again. Where none of them can run, it is built all the same.
    fn with(&mut self, fault: &Fault) {
        let before = self.copy.plant(&fault.edits);
        for (program, mut tests) in programs([fault], self.packages) {
            tests.retain(|test| !self.skipped.contains(test) && !self.unfit.contains(test));
            self.tests += tests.len();
            match self.copy.run(program, &tests) {
                Err(error) => self.problems.push(format!("{}: it does not build: {error}", fault.row)),
                Ok(ends) => tests.into_iter().zip(ends).for_each(|(test, end)| self.note(fault, test, end)),
            }
        }
        // Backwards: a file may have been edited twice.
        before.into_iter().rev().for_each(|(path, text)| fs::write(path, text).unwrap());
    }

    fn note(&mut self, fault: &Fault, test: &TestOfFault, end: End) {
        if let End::Failed(why) = end {
            self.found += 1;
            println!("    found by {}: {why}", test.name);
        } else {
            println!("    NOT FOUND by {}: {end:?}", test.name);
            self.problems.push(format!("{}: {} does not find it: {end:?}", fault.row, test.name));
        }
    }
}

fn main() -> ExitCode {
    let [word, packages] = ["PLANTED", "PLANTED_PACKAGES"].map(|name| env::var(name).unwrap_or_default());
    let Planted { mut faults, unproven } = Planted::read();
    faults.retain(|fault| fault.row.contains(&word) && !programs([fault], &packages).is_empty());
    // What has a crate in common needs little compiled in between.
    faults.sort_by(|a, b| (&a.found_by, &a.edits[0].file).cmp(&(&b.found_by, &b.edits[0].file)));
    if faults.is_empty() {
        eprintln!("no planted fault has {word:?} in its row, and tests in {packages:?}");
        return ExitCode::from(2);
    }
    let mut proof = Proof {
        copy: Copy::make(),
        packages: &packages,
        skipped: Vec::new(),
        unfit: Vec::new(),
        problems: Vec::new(),
        found: 0,
        tests: 0,
    };
    proof.without_faults(&faults);
    for (number, fault) in (1..).zip(&faults) {
        let began = Instant::now();
        println!("{number} of {}: {}\n    planted: {}", faults.len(), fault.row, fault.plants);
        proof.with(fault);
        println!("    {} s", began.elapsed().as_secs());
    }
    for test in &proof.skipped {
        println!("skipped: this machine lacks what {} needs", test.name);
    }
    for unproven in unproven.iter().filter(|_| word.is_empty()) {
        println!("no fault is planted for {}: {}", unproven.test, unproven.why);
    }
    let Proof { problems, found, tests, .. } = proof;
    println!("{found} of {tests} tests found their planted faults, of {} faults", faults.len());
    problems.iter().for_each(|problem| eprintln!("error: {problem}"));
    if problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
