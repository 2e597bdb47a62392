//! Job files made to cost much: how long the largest ones take to be read, and how much memory.
//!
//! `cargo bench -p berth-jobfile --bench hostile`. Each is read in a process of its own, so that its peak of memory can
//! be distinguished from that of the others.

use std::{
    error::Error,
    process::Command,
    time::{Duration, Instant},
};

use berth_jobfile::{SOURCE_BYTES_MAX, parse_json};

/// What security asks for of any file that is not refused at once.
const GOAL: &str = "100 ms, 150 MiB";
/// Readings of one file; the quickest counts, as other programs take the processors too.
const RUNS: usize = 7;
/// Values of a file: servers refuse a body with more before it gets here.
const VALUES_MAX: usize = 400_000;

/// What is around a task's settings.
const JOB: [&str; 2] = [r#"{"Job":{"ID":"x","TaskGroups":[{"Name":"g","Tasks":["#, "]}]}}"];
/// What is around a setting that any values may stand in.
const CONFIG: [&str; 2] = [r#"{"Name":"t","Driver":"d","Config":{"k":["#, "]}}"];

/// A part of a job that is repeated until the file is full.
struct Shape {
    name: &'static str,
    around: [&'static str; 2],
    item: &'static str,
}

const SHAPES: &[Shape] = &[
    Shape { name: "numbers", around: CONFIG, item: "1" },
    Shape { name: "fractions", around: CONFIG, item: "0.1" },
    Shape { name: "texts", around: CONFIG, item: r#""""# },
    Shape { name: "texts with escapes", around: CONFIG, item: r#""\n""# },
    Shape { name: "empty objects", around: CONFIG, item: "{}" },
    Shape { name: "objects", around: CONFIG, item: r#"{"a":1}"# },
    Shape { name: "objects of several members", around: CONFIG, item: r#"{"a":1,"b":1,"c":1}"# },
    Shape { name: "objects in objects", around: CONFIG, item: r#"{"a":{"b":{}}}"# },
    Shape { name: "lists in lists", around: CONFIG, item: "[[[[[[[[[[1]]]]]]]]]]" },
    Shape { name: "names", around: [r#"{"Name":"t","Driver":"d","Env":{"#, "}}"], item: r#""E":"""# },
    Shape { name: "unknown names", around: [r#"{"Name":"t","Driver":"d","#, "}"], item: r#""u":1"# },
    Shape { name: "empty tasks", around: ["", ""], item: "{}" },
    Shape { name: "tasks", around: ["", ""], item: r#"{"Name":"t","Driver":"d"}"# },
    Shape {
        name: "services",
        around: [r#"{"Name":"t","Driver":"d","Services":["#, "]}"],
        item: r#"{"Name":"s"}"#,
    },
    Shape {
        name: "constraints",
        around: [r#"{"Name":"t","Driver":"d","Constraints":["#, "]}"],
        item: r#"{"LTarget":"a","RTarget":"b"}"#,
    },
];

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    match &args[..] {
        [at] => read(SHAPES.get(at.parse::<usize>()?).ok_or("no such shape")?),
        _ => {
            println!("{:<28} {:>9} {:>9} {:>9}  outcome; goal {GOAL}", "repeated", "bytes", "time", "memory");
            (0..SHAPES.len()).try_for_each(read_alone)
        }
    }
}

fn read_alone(at: usize) -> Outcome<()> {
    let status = Command::new(std::env::current_exe()?).arg(at.to_string()).status()?;
    if status.success() { Ok(()) } else { Err(format!("{}: {status}", SHAPES[at].name).into()) }
}

fn read(shape: &Shape) -> Outcome<()> {
    let source = source(shape);
    let before_kib = peak_kib()?;
    let mut quickest = Duration::MAX;
    let mut outcome = String::new();
    for _ in 0..RUNS {
        let started_at = Instant::now();
        let read = parse_json(source.as_bytes(), "job.json");
        outcome = read.map_or_else(|mistakes| mistakes.to_string(), |_| "read".to_owned());
        quickest = quickest.min(started_at.elapsed());
    }
    println!(
        "{:<28} {:>9} {:>6.1} ms {:>5} MiB  {}",
        shape.name,
        source.len(),
        quickest.as_secs_f64() * 1e3,
        (peak_kib()? - before_kib) / 1024,
        outcome.lines().next().unwrap_or_default(),
    );
    Ok(())
}

/// As long as a file may be, or with as many values.
fn source(shape: &Shape) -> String {
    let Shape { around: [before, after], item, .. } = shape;
    let around = JOB[0].len() + before.len() + after.len() + JOB[1].len();
    let values = 1 + item.chars().filter(|c| "[{,".contains(*c)).count();
    let items = ((SOURCE_BYTES_MAX - around) / (item.len() + 1)).min(VALUES_MAX / values);
    let items = vec![*item; items].join(",");
    format!("{}{before}{items}{after}{}", JOB[0], JOB[1])
}

/// The most memory that this process has had in use.
fn peak_kib() -> Outcome<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).ok_or("no VmHWM")?;
    Ok(line.trim().trim_end_matches("kB").trim().parse()?)
}
