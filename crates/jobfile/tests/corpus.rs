//! What a job says is returned as it was said, or its absence is named: every attribute of Nomad's job schema
//! (`corpus/nomad.txt`), in JSON and in HCL, each in a job of its own and many of them in jobs put together at random.

use std::{collections::BTreeSet, fmt::Write as _};

use berth_jobfile::{Inputs, parse_hcl, parse_hcl_as_given, parse_json, to_json};
use serde_json::{Map, Value, json};

/// Jobs put together at random.
const RANDOM_JOBS: u64 = 400;
/// One in so many blocks and attributes is in such a job.
const ONE_IN: u64 = 4;
const NANOS: i64 = 1_000_000_000;

/// An attribute or block of the schema.
#[derive(Debug, Default)]
struct Line {
    hcl: String,
    json: String,
    shape: String,
    sample: Value,
    required: bool,
    only: Option<String>,
    /// Tags of which a job may have one bearer.
    tags: Vec<String>,
    /// The neighbour in whose place it stands.
    instead: Option<String>,
    /// The neighbour without which it cannot be.
    with: Option<String>,
    /// What is returned in its place.
    returned: Option<(String, Value)>,
    /// Its label in HCL.
    label: Option<String>,
    refused: bool,
    inside: Vec<Line>,
}

impl Line {
    fn is_block(&self) -> bool {
        matches!(self.kind(), "one" | "many" | "label" | "keyed")
    }

    fn kind(&self) -> &str {
        self.shape.split(':').next().unwrap_or_default()
    }

    /// The key of JSON that holds its label.
    fn key(&self) -> Option<&str> {
        self.shape.split_once(':').map(|(_, key)| key)
    }

    fn name(&self) -> &str {
        if self.hcl == "-" { &self.json } else { &self.hcl }
    }

    /// Its value as it stands in JSON.
    fn value(&self) -> Value {
        match self.kind() {
            "duration" => json!(self.sample.as_i64().expect("seconds") * NANOS),
            _ => self.sample.clone(),
        }
    }
}

fn schema() -> Vec<Line> {
    let text = include_str!("corpus/nomad.txt");
    let lines: Vec<(usize, Line)> = text.lines().filter(|line| !line.starts_with('#')).map(line).collect();
    let mut rest = lines.into_iter().peekable();
    inside(&mut rest, 0)
}

fn inside(rest: &mut std::iter::Peekable<std::vec::IntoIter<(usize, Line)>>, depth: usize) -> Vec<Line> {
    let mut lines = Vec::new();
    while rest.peek().is_some_and(|(at, _)| *at == depth) {
        let (_, mut line) = rest.next().expect("it was seen");
        line.inside = inside(rest, depth + 1);
        lines.push(line);
    }
    lines
}

fn line(text: &str) -> (usize, Line) {
    let depth = text.len() - text.trim_start().len();
    let (head, marks) = text.split_once(" @").unwrap_or((text, ""));
    let mut parts = head.trim().splitn(4, ' ');
    let hcl = parts.next().expect("a name");
    let mut line = Line {
        required: hcl.starts_with('*'),
        hcl: hcl.trim_start_matches('*').to_owned(),
        json: parts.next().expect("a name in JSON").to_owned(),
        shape: parts.next().unwrap_or_else(|| panic!("{text}: no shape")).to_owned(),
        sample: parts.next().map_or(Value::Null, |sample| {
            serde_json::from_str(sample).unwrap_or_else(|e| panic!("{text}: {e}"))
        }),
        ..Line::default()
    };
    for mark in marks.split(" @").filter(|mark| !mark.is_empty()) {
        let (mark, value) = mark.split_once(':').unwrap_or((mark, ""));
        let value = value.to_owned();
        match mark {
            "only" => line.only = Some(value),
            "not" => line.tags.push(value),
            "for" => line.instead = Some(value),
            "with" => line.with = Some(value),
            "hcl" => line.label = Some(value),
            "refused" => line.refused = true,
            "is" => {
                let (key, value) = value.split_once('=').expect("a key and a value");
                line.returned = Some((key.to_owned(), serde_json::from_str(value).expect("JSON")));
            }
            other => panic!("{text}: @{other}"),
        }
    }
    (depth / 2, line)
}

/// A job of the corpus.
struct Sample {
    kind: &'static str,
    json: Map<String, Value>,
    hcl: String,
    /// Whether HCL can say all of it.
    is_hcl: bool,
    tags: BTreeSet<String>,
    expected: Vec<Expected>,
    /// The names, in HCL and in JSON, of a line that has to be refused.
    refused: Option<[String; 2]>,
}

/// What has to be returned, or named.
struct Expected {
    /// Keys and labels from the job to the attribute, each with the label of the object of a list that is meant.
    path: Vec<Step>,
    value: Value,
    /// It is returned under another name than the one by which it was given.
    is_renamed: bool,
}

#[derive(Clone)]
enum Step {
    Key(String),
    /// The object of a list that has all that was given.
    Among(Value),
}

/// Which lines a job has besides those that it cannot do without.
trait Choice {
    fn takes(&mut self, line: &Line) -> bool;
}

/// One line, and the blocks around it.
struct Only<'a>(&'a [*const Line]);

impl Choice for Only<'_> {
    fn takes(&mut self, line: &Line) -> bool {
        self.0.contains(&std::ptr::from_ref(line))
    }
}

/// Some at random.
struct Random(u64);

impl Choice for Random {
    fn takes(&mut self, line: &Line) -> bool {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        !line.refused && (z ^ (z >> 31)).is_multiple_of(ONE_IN)
    }
}

impl Sample {
    fn new(kind: &'static str, schema: &[Line], choice: &mut dyn Choice) -> Self {
        let mut sample = Self {
            kind,
            json: Map::new(),
            hcl: String::new(),
            is_hcl: true,
            tags: BTreeSet::new(),
            expected: Vec::new(),
            refused: None,
        };
        let mut job = Map::from_iter([("ID".to_owned(), json!("j")), ("Type".to_owned(), json!(kind))]);
        let mut hcl = format!("job \"j\" {{\ntype = \"{kind}\"\n");
        sample.fill(schema, choice, &mut job, &mut hcl, &[]);
        sample.json = job;
        sample.hcl = hcl + "}\n";
        sample
    }

    /// Puts what is chosen of the lines of one block into it.
    fn fill(
        &mut self,
        lines: &[Line],
        choice: &mut dyn Choice,
        object: &mut Map<String, Value>,
        hcl: &mut String,
        path: &[Step],
    ) {
        let mut chosen: Vec<&Line> = Vec::new();
        for line in lines {
            let fits = line.only.as_deref().is_none_or(|only| only == self.kind)
                && line.tags.iter().all(|tag| !self.tags.contains(tag));
            if (choice.takes(line) || line.required) && fits {
                self.tags.extend(line.tags.iter().cloned());
                chosen.push(line);
            }
        }
        for line in lines {
            let needed = chosen.iter().any(|chosen| chosen.with.as_deref() == Some(line.name()));
            if needed && !chosen.iter().any(|chosen| chosen.name() == line.name()) {
                chosen.push(line);
            }
        }
        let replaced: BTreeSet<&str> = chosen.iter().filter_map(|line| line.instead.as_deref()).collect();
        chosen.retain(|line| !replaced.contains(line.name()));
        // A block that stands at most once is chosen once.
        let mut once = BTreeSet::new();
        chosen.retain(|line| line.kind() != "one" || once.insert(line.name().to_owned()));
        for line in chosen {
            if line.refused {
                self.refused = Some([line.hcl.clone(), line.json.clone()]);
            }
            self.is_hcl &= line.hcl != "-";
            if line.is_block() {
                self.block(line, choice, object, hcl, path);
            } else {
                self.attribute(line, object, hcl, path);
            }
        }
    }

    fn attribute(&mut self, line: &Line, object: &mut Map<String, Value>, hcl: &mut String, path: &[Step]) {
        object.insert(line.json.clone(), line.value());
        let written = match line.kind() {
            "duration" => format!("\"{}s\"", line.sample),
            _ => hcl_value(&line.sample),
        };
        let sign = if matches!(line.kind(), "map" | "lists" | "settings") { " " } else { " = " };
        // A map is a block, in which a name that is no identifier could not stand: it is written as a value.
        let quoted = line.sample.as_object().is_some_and(|map| map.keys().any(|key| key.contains('-')));
        writeln!(hcl, "{}{}{written}", line.hcl, if quoted { " = " } else { sign }).expect("it is a string");
        let (key, value) = line.returned.clone().unwrap_or_else(|| (line.json.clone(), line.value()));
        let path = path.iter().cloned().chain([Step::Key(key)]).collect();
        self.expected.push(Expected { path, value, is_renamed: line.returned.is_some() });
    }

    fn block(
        &mut self,
        line: &Line,
        choice: &mut dyn Choice,
        object: &mut Map<String, Value>,
        hcl: &mut String,
        path: &[Step],
    ) {
        let (mut inner, before) = (Map::new(), self.expected.len());
        let label = line.sample.as_str().unwrap_or_default().to_owned();
        let heading = line.label.as_ref().unwrap_or(&label);
        let heading = if heading.is_empty() { String::new() } else { format!("\"{heading}\" ") };
        writeln!(hcl, "{} {heading}{{", line.hcl).expect("it is a string");
        let key = Step::Key(line.json.clone());
        if let Some(key) = line.key() {
            inner.insert(key.to_owned(), json!(label));
        }
        // What is in it is looked for once it is known what tells it from its neighbours.
        self.fill(&line.inside, choice, &mut inner, hcl, &[]);
        hcl.push_str("}\n");
        let inner = Value::Object(inner);
        let which = match line.kind() {
            "many" | "label" => vec![key, Step::Among(identity(line, &inner))],
            "keyed" => vec![key, Step::Key(label.clone())],
            _ => vec![key],
        };
        let prefix: Vec<Step> = path.iter().cloned().chain(which).collect();
        if line.inside.is_empty() {
            self.expected.push(Expected { path: prefix.clone(), value: json!({}), is_renamed: false });
        }
        for expected in &mut self.expected[before..] {
            if !line.inside.is_empty() {
                expected.path.splice(0..0, prefix.iter().cloned());
            }
        }
        match line.kind() {
            "many" | "label" => {
                let list = object.entry(line.json.clone()).or_insert_with(|| json!([]));
                list.as_array_mut().expect("a list").push(inner);
            }
            "keyed" => {
                let map = object.entry(line.json.clone()).or_insert_with(|| json!({}));
                map.as_object_mut().expect("an object").insert(label, inner);
            }
            _ => {
                object.insert(line.json.clone(), inner);
            }
        }
    }
}

/// What tells a block from others of its list: its label, or the values that it cannot do without.
fn identity(line: &Line, inner: &Value) -> Value {
    let members = inner.as_object().expect("an object");
    let is_required =
        |key: &String| line.inside.iter().any(|line| line.json == *key && line.required && !line.is_block());
    let own =
        members.iter().filter(|(key, _)| line.key() == Some(key) || line.key().is_none() && is_required(key));
    Value::Object(own.map(|(key, value)| (key.clone(), value.clone())).collect())
}

fn hcl_value(value: &Value) -> String {
    match value {
        Value::Object(members) => {
            let member = |(key, value): (&String, &Value)| {
                let key = if key.contains('-') { format!("\"{key}\"") } else { key.clone() };
                format!("{key} = {}\n", hcl_value(value))
            };
            format!("{{\n{}}}", members.iter().map(member).collect::<String>())
        }
        Value::Array(items) => format!("[{}]", items.iter().map(hcl_value).collect::<Vec<_>>().join(", ")),
        other => other.to_string(),
    }
}

/// The value at a path of what was returned.
fn find<'v>(value: &'v Value, path: &[Step]) -> Option<&'v Value> {
    let (step, rest) = match path {
        [] => return Some(value),
        [step, rest @ ..] => (step, rest),
    };
    match step {
        Step::Key(key) => find(value.get(key)?, rest),
        Step::Among(given) => {
            let has_all = |item: &&Value| {
                given.as_object().expect("an object").iter().all(|(key, value)| item.get(key) == Some(value))
            };
            value.as_array()?.iter().filter(has_all).find_map(|item| find(item, rest))
        }
    }
}

fn shown(path: &[Step]) -> String {
    let step = |step: &Step| match step {
        Step::Key(key) => format!(".{key}"),
        Step::Among(given) => format!("[{given}]"),
    };
    path.iter().map(step).collect()
}

/// Whether a value is returned as it was given; of an empty block only that it is there.
fn same(given: &Value, returned: &Value) -> bool {
    given == returned || *given == json!({}) && returned.is_object()
}

/// What is wrong with what became of a job, a line each.
fn judge(sample: &Sample, what: &str) -> Vec<String> {
    let text = Value::Object(sample.json.clone()).to_string();
    let mut wrong = judge_one(sample, &format!("{what}, JSON"), parse_json(text.as_bytes(), "j.json"), &text);
    if sample.is_hcl {
        let parsed = parse_hcl(&sample.hcl, "j.hcl", &Inputs::default());
        let of_json = parse_json(text.as_bytes(), "j.json");
        if let (Ok(hcl), Ok(json)) = (&parsed, &of_json)
            && hcl.job != json.job
        {
            wrong.push(format!(
                "{what}: HCL and JSON differ: {}",
                difference(&to_json(&hcl.job), &to_json(&json.job))
            ));
        }
        wrong.extend(judge_one(sample, &format!("{what}, HCL"), parsed, &sample.hcl));
        let what = format!("{what}, as given");
        let as_written = parse_hcl_as_given(&sample.hcl, "j.hcl", &Inputs::default());
        match judge_acceptance(sample, &what, as_written, &sample.hcl) {
            Ok((as_written, _)) => {
                let missing = sample.expected.iter().filter(|expected| !expected.is_renamed);
                wrong.extend(missing.filter_map(|expected| differs(expected, &as_written, &what)));
            }
            Err(refusal) => wrong.extend(refusal),
        }
    }
    wrong
}

/// What was read of a job that is to be accepted; else what is wrong with that it was refused or accepted, none if it was
/// refused by the name of what has to be.
fn judge_acceptance<T>(
    sample: &Sample,
    what: &str,
    parsed: Result<T, berth_jobfile::Diagnostics>,
    source: &str,
) -> Result<T, Option<String>> {
    match (parsed, &sample.refused) {
        (Ok(parsed), None) => Ok(parsed),
        (Ok(_), Some([name, _])) => Err(Some(format!("{what}: {name} is not refused\n{source}"))),
        (Err(refused), Some(names)) if names.iter().any(|name| refused.messages().contains(name)) => {
            Err(None)
        }
        (Err(refused), _) => Err(Some(format!("{what}: refused\n{refused}\n{source}"))),
    }
}

fn judge_one(
    sample: &Sample,
    what: &str,
    parsed: Result<berth_jobfile::ParsedJob, berth_jobfile::Diagnostics>,
    source: &str,
) -> Vec<String> {
    let parsed = match judge_acceptance(sample, what, parsed, source) {
        Ok(parsed) => parsed,
        Err(refusal) => return refusal.into_iter().collect(),
    };
    let returned = to_json(&parsed.job);
    let again = parse_json(returned.to_string().as_bytes(), "again").map(|again| to_json(&again.job));
    let mut wrong = Vec::new();
    if again.as_ref() != Ok(&returned) {
        let again = again.map(|again| difference(&returned, &again)).unwrap_or_else(|e| e.to_string());
        wrong.push(format!("{what}: not the same when it is sent again: {again}"));
    }
    wrong.extend(sample.expected.iter().filter_map(|expected| differs(expected, &returned, what)));
    wrong
}

/// What is said of an attribute that is not returned as it was given.
fn differs(expected: &Expected, returned: &Value, what: &str) -> Option<String> {
    let found = find(returned, &expected.path);
    if found.is_some_and(|found| same(&expected.value, found)) {
        return None;
    }
    let (path, given) = (shown(&expected.path), &expected.value);
    let found = found.map_or_else(|| "nothing".to_owned(), Value::to_string);
    Some(format!("{what}: {path} is {given}, returned is {found}"))
}

fn difference(a: &Value, b: &Value) -> String {
    match (a, b) {
        (Value::Object(x), Value::Object(y)) => {
            let keys: BTreeSet<&String> = x.keys().chain(y.keys()).collect();
            let differing = keys.into_iter().filter(|key| x.get(*key) != y.get(*key));
            let difference_at = |key: &String| format!(".{key}{}", difference(&a[key], &b[key]));
            differing.map(difference_at).collect::<Vec<_>>().join(" ")
        }
        (Value::Array(x), Value::Array(y)) if x.len() == y.len() => {
            let differing = x.iter().zip(y).enumerate().filter(|(_, (x, y))| x != y);
            differing.map(|(at, (x, y))| format!("[{at}]{}", difference(x, y))).collect()
        }
        _ => format!(": {a} and {b}"),
    }
}

/// Every line with the blocks around it.
fn each<'l>(lines: &'l [Line], around: &[*const Line], all: &mut Vec<(Vec<*const Line>, &'l Line)>) {
    for line in lines {
        let here: Vec<*const Line> = around.iter().copied().chain([std::ptr::from_ref(line)]).collect();
        each(&line.inside, &here, all);
        all.push((here, line));
    }
}

fn type_of(lines: &[&Line]) -> &'static str {
    if lines.iter().any(|line| line.only.as_deref() == Some("batch")) { "batch" } else { "service" }
}

#[test]
fn every_attribute_is_returned_as_given_or_its_absence_is_named() {
    let schema = schema();
    let mut all = Vec::new();
    each(&schema, &[], &mut all);
    assert!(all.len() > 400, "{} lines", all.len());
    let mut wrong = Vec::new();
    for (path, line) in &all {
        let lines: Vec<&Line> =
            all.iter().filter(|(other, _)| path.starts_with(other)).map(|(_, line)| *line).collect();
        let sample = Sample::new(type_of(&lines), &schema, &mut Only(path));
        wrong.extend(judge(&sample, line.name()));
    }
    wrong.dedup();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), all.len(), wrong.join("\n"));
}

#[test]
fn jobs_of_many_attributes_are_returned_as_given() {
    let schema = schema();
    let mut wrong = Vec::new();
    for seed in 0..RANDOM_JOBS {
        let kind = if seed % 2 == 0 { "service" } else { "batch" };
        let sample = Sample::new(kind, &schema, &mut Random(seed));
        wrong.extend(judge(&sample, &format!("seed {seed}")).into_iter().take(3));
    }
    let (number, wrong) = (wrong.len(), wrong.into_iter().take(20).collect::<Vec<_>>());
    assert!(wrong.is_empty(), "{number} of {RANDOM_JOBS}:\n{}", wrong.join("\n"));
}
