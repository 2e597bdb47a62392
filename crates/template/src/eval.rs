//! Renders a template that was read.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::ast::{Binding, Branch, Command, CommandKind, Node, Operand, Pipeline, Term};
use crate::budget::Budget;
use crate::error::{ErrorAt, Offset, TemplateError};
use crate::functions::{self, from_json};
use crate::limits::{NESTING_MAX, OUTPUT_BYTES_MAX, QUERIES_MAX};
use crate::parse::ParsedTemplate;
use crate::print;
use crate::source::{DataSource, Lookup, Query};
use crate::value::{Value, text};

/// How a template is rendered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RenderOptions {
    /// An entry that a map or a variable does not have is an error.
    pub error_on_missing_key: bool,
}

/// What a template comes to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rendered {
    /// The text; nothing that can be used while something is missing.
    pub text: String,
    /// All queries that it made.
    pub asked: BTreeSet<Query>,
    /// What it cannot do without, and that is not known or not there.
    pub missing: BTreeSet<Query>,
}

impl ParsedTemplate {
    /// Renders the template by what the source knows now.
    ///
    /// # Errors
    /// What went wrong, and where. What follows from something that is missing is no error: that may come.
    pub fn render(&self, source: &dyn DataSource, options: RenderOptions) -> Result<Rendered, TemplateError> {
        self.evaluate(&Value::Nil, source, options)
    }

    /// Renders the template for a value, which is its dot. Nothing else is known to it.
    ///
    /// # Errors
    /// What went wrong, and where.
    pub fn render_for(&self, dot: serde_json::Value) -> Result<String, TemplateError> {
        let options = RenderOptions { error_on_missing_key: true };
        self.evaluate(&from_json(dot), &EmptySource, options).map(|rendered| rendered.text)
    }

    fn evaluate(
        &self,
        dot: &Value,
        source: &dyn DataSource,
        options: RenderOptions,
    ) -> Result<Rendered, TemplateError> {
        let variables = vec![dot.clone()];
        let rendered = Rendered::default();
        let mut evaluator = Evaluator {
            template: self,
            source,
            options,
            budget: Budget::default(),
            rendered,
            variables,
            depth: 0,
        };
        let done = evaluator.nodes(&self.nodes, dot);
        let rendered = evaluator.rendered;
        match done {
            Err((at, message)) if rendered.missing.is_empty() => {
                Err(TemplateError::at(&self.text, at, message))
            }
            Ok(_) | Err(_) => Ok(rendered),
        }
    }
}

/// A source that knows nothing.
struct EmptySource;

impl DataSource for EmptySource {
    fn env(&self, _: &str) -> Option<String> {
        None
    }

    fn now_s(&self) -> u64 {
        0
    }

    fn find(&self, _: &Query) -> Lookup {
        Lookup::Absent
    }
}

/// How a list of nodes ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flow {
    Done,
    Break,
    Continue,
}

pub(crate) struct Evaluator<'t> {
    template: &'t ParsedTemplate,
    source: &'t dyn DataSource,
    options: RenderOptions,
    pub(crate) budget: Budget,
    rendered: Rendered,
    /// The parser knows where each stands.
    variables: Vec<Value>,
    depth: usize,
}

impl Evaluator<'_> {
    /// What the functions know of the task.
    pub(crate) fn source(&self) -> &dyn DataSource {
        self.source
    }

    /// Something of the servers' state, for a function that can do without it or not.
    pub(crate) fn query(
        &mut self,
        query: Query,
        is_needed: impl Fn(&Lookup) -> bool,
    ) -> Result<Lookup, String> {
        let queries = &mut self.rendered.asked;
        if !queries.contains(&query) && queries.len() >= QUERIES_MAX {
            return Err(format!(
                "it asks for more than {QUERIES_MAX} variables and lists, the limit of one template"
            ));
        }
        queries.insert(query.clone());
        let found = self.source.find(&query);
        self.budget.read(found.bytes())?;
        if found == Lookup::Unknown || is_needed(&found) {
            self.rendered.missing.insert(query);
        }
        Ok(found)
    }

    fn write(&mut self, text: &str) -> Result<(), String> {
        if self.rendered.text.len() + text.len() > OUTPUT_BYTES_MAX {
            return Err(format!("it renders more than {OUTPUT_BYTES_MAX} bytes, the limit of one template"));
        }
        self.rendered.text.push_str(text);
        Ok(())
    }

    fn enter(&mut self, at: Offset) -> Result<(), ErrorAt> {
        self.depth += 1;
        if self.depth > NESTING_MAX {
            return Err((
                at,
                format!(
                    "more than {NESTING_MAX} blocks and templates within one another, the limit of one template"
                ),
            ));
        }
        Ok(())
    }

    fn nodes(&mut self, nodes: &[Node], dot: &Value) -> Result<Flow, ErrorAt> {
        let known = self.variables.len();
        for node in nodes {
            match self.node(node, dot)? {
                Flow::Done => {}
                flow => {
                    self.variables.truncate(known);
                    return Ok(flow);
                }
            }
        }
        self.variables.truncate(known);
        Ok(Flow::Done)
    }

    fn node(&mut self, node: &Node, dot: &Value) -> Result<Flow, ErrorAt> {
        match node {
            Node::Text { text, at } => self.write(text).map_err(|why| (*at, why))?,
            Node::Action(pipeline) => {
                let value = self.pipeline(pipeline, dot, true)?;
                if matches!(pipeline.binding, Binding::Nothing) {
                    let text = self.print(&value).map_err(|why| (pipeline.at, why))?;
                    self.write(&text).map_err(|why| (pipeline.at, why))?;
                }
            }
            Node::If(branch) => return self.branch(branch, dot, false),
            Node::With(branch) => return self.branch(branch, dot, true),
            Node::Range(branch) => return self.range(branch, dot),
            Node::Call { name, at, with } => {
                let value = match with {
                    Some(pipeline) => self.pipeline(pipeline, dot, true)?,
                    None => Value::Nil,
                };
                self.call(name, *at, value)?;
            }
            Node::Break => return Ok(Flow::Break),
            Node::Continue => return Ok(Flow::Continue),
        }
        Ok(Flow::Done)
    }

    fn print(&mut self, value: &Value) -> Result<String, String> {
        self.budget.read(value.bytes())?;
        let text = print::to_text(value);
        self.budget.read(text.len())?;
        Ok(text)
    }

    fn branch(&mut self, branch: &Branch, dot: &Value, moves_dot: bool) -> Result<Flow, ErrorAt> {
        self.enter(branch.subject.at)?;
        let known = self.variables.len();
        let value = self.pipeline(&branch.subject, dot, true)?;
        let flow = if value.is_true() {
            self.nodes(&branch.then, if moves_dot { &value } else { dot })
        } else {
            self.nodes(&branch.otherwise, dot)
        };
        self.variables.truncate(known);
        self.depth -= 1;
        flow
    }

    fn range(&mut self, branch: &Branch, dot: &Value) -> Result<Flow, ErrorAt> {
        let at = branch.subject.at;
        self.enter(at)?;
        let known = self.variables.len();
        let subject = self.pipeline(&branch.subject, dot, false)?;
        let mut flow = Flow::Done;
        let mut any = false;
        let binding = &branch.subject.binding;
        // From the first round on they stand there, and without any for what is in its `else`.
        self.bind(binding, &subject);
        for (key, value) in elements(&subject).map_err(|why| (at, why))? {
            any = true;
            self.budget.steps(1).map_err(|why| (at, why))?;
            self.set(binding, known, key, &value);
            let round = self.nodes(&branch.then, &value)?;
            if round == Flow::Break {
                break;
            }
        }
        if !any {
            flow = self.nodes(&branch.otherwise, dot)?;
        }
        self.variables.truncate(known);
        self.depth -= 1;
        Ok(flow)
    }

    /// Gives the variables of a `range` their values of one round.
    fn set(&mut self, binding: &Binding, first: usize, key: Value, value: &Value) {
        let (of_key, of_value) = match binding {
            Binding::Nothing => (None, None),
            Binding::Declares(1) => (None, Some(first)),
            Binding::Declares(_) => (Some(first), Some(first + 1)),
            Binding::Assigns(slots) => match slots[..] {
                [of_key, of_value, ..] => (Some(of_key), Some(of_value)),
                [of_value] => (None, Some(of_value)),
                [] => (None, None),
            },
        };
        self.assign(of_key, key);
        self.assign(of_value, value.clone());
    }

    fn assign(&mut self, slot: Option<usize>, value: Value) {
        if let Some(variable) = slot.and_then(|slot| self.variables.get_mut(slot)) {
            *variable = value;
        }
    }

    fn bind(&mut self, binding: &Binding, value: &Value) {
        match binding {
            Binding::Nothing => {}
            Binding::Declares(count) => self.variables.extend(std::iter::repeat_n(value.clone(), *count)),
            Binding::Assigns(slots) => slots.iter().for_each(|slot| self.assign(Some(*slot), value.clone())),
        }
    }

    fn call(&mut self, name: &str, at: Offset, dot: Value) -> Result<(), ErrorAt> {
        self.enter(at)?;
        self.budget.steps(1).map_err(|why| (at, why))?;
        let template = self.template;
        let nodes = template.named.get(name).ok_or_else(|| (at, format!("there is no template {name:?}")))?;
        let variables = std::mem::replace(&mut self.variables, vec![dot.clone()]);
        let done = self.nodes(nodes, &dot);
        self.variables = variables;
        self.depth -= 1;
        done.map(drop)
    }

    /// What a pipeline comes to; its variables are bound to that if they are to be.
    fn pipeline(&mut self, pipeline: &Pipeline, dot: &Value, binds: bool) -> Result<Value, ErrorAt> {
        self.budget.steps(1).map_err(|why| (pipeline.at, why))?;
        let mut last = None;
        for command in &pipeline.commands {
            last = Some(self.command(command, dot, last)?);
        }
        let value = last.unwrap_or(Value::Nil);
        if binds {
            self.bind(&pipeline.binding, &value);
        }
        Ok(value)
    }

    fn command(&mut self, command: &Command, dot: &Value, last: Option<Value>) -> Result<Value, ErrorAt> {
        match &command.what {
            CommandKind::Value(operand) => self.operand(operand, dot),
            CommandKind::Call(function, operands) => {
                if let Some(decides) = function.decides {
                    return self.decide(decides, operands, dot, last);
                }
                let mut arguments = Vec::with_capacity(operands.len() + 1);
                for operand in operands {
                    arguments.push(self.operand(operand, dot)?);
                }
                arguments.extend(last);
                functions::call(function, self, &arguments).map_err(|why| (command.at, why))
            }
        }
    }

    /// `and` and `or`: what comes after the value that decides is not evaluated.
    fn decide(
        &mut self,
        decides: bool,
        operands: &[Operand],
        dot: &Value,
        last: Option<Value>,
    ) -> Result<Value, ErrorAt> {
        let mut value = Value::Nil;
        for operand in operands {
            value = self.operand(operand, dot)?;
            if value.is_true() == decides {
                return Ok(value);
            }
        }
        Ok(last.unwrap_or(value))
    }

    fn operand(&mut self, operand: &Operand, dot: &Value) -> Result<Value, ErrorAt> {
        let failed = |why| (operand.at, why);
        self.budget.steps(1).map_err(failed)?;
        let mut value = match &operand.term {
            Term::Dot => dot.clone(),
            Term::Variable(slot) => self.variables.get(*slot).cloned().unwrap_or(Value::Nil),
            Term::Literal(value) => value.clone(),
            Term::Call(function) => functions::call(function, self, &[]).map_err(failed)?,
            Term::Parentheses(pipeline) => {
                self.enter(operand.at)?;
                let value = self.pipeline(&Arc::clone(pipeline), dot, false)?;
                self.depth -= 1;
                value
            }
        };
        for name in &operand.fields {
            self.budget.steps(1).map_err(failed)?;
            if let Some((bytes, elements)) = value.copied_by(name) {
                self.budget.steps(elements as u64).map_err(failed)?;
                self.budget.make(bytes, elements).map_err(failed)?;
            }
            value = value.field(name, self.options.error_on_missing_key).map_err(failed)?;
        }
        Ok(value)
    }
}

/// What a `range` goes over, one after the other.
type Elements<'v> = Box<dyn Iterator<Item = (Value, Value)> + 'v>;

/// The elements of what is ranged over, and their keys; maps are in the order of their keys.
fn elements(subject: &Value) -> Result<Elements<'_>, String> {
    if let Some(map) = subject.as_map() {
        return Ok(Box::new(map.iter().map(|(key, value)| (text(&**key), value.clone()))));
    }
    Ok(match subject {
        Value::Nil => Box::new(std::iter::empty()),
        Value::List(values) => Box::new((0..).map(Value::Int).zip(values.iter().cloned())),
        Value::Int(most) => Box::new((0..*most).map(|at| (Value::Int(at), Value::Int(at)))),
        other => {
            return Err(format!(
                "`range` goes over lists, maps and numbers, not over a value of type {}",
                other.kind()
            ));
        }
    })
}
