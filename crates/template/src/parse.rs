//! Reads a template. Names of functions and variables are looked up here, so that a job with a template that cannot work is
//! refused when it is submitted.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::ast::{Binding, Branch, Command, CommandKind, Node, Operand, Pipeline, Term};
use crate::error::{ErrorAt, Offset, TemplateError};
use crate::functions;
use crate::lex::{Spanned, Token, is_space, tokens};
use crate::limits::{ACTIONS_MAX, DELIMITER_BYTES_MAX, NESTING_MAX, TEXT_BYTES_MAX};
use crate::scope::Scope;
use crate::value::{Value, text};

/// What opens and closes an action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delimiters {
    /// What opens an action, as `{{`.
    pub left: String,
    /// What closes an action, as `}}`.
    pub right: String,
}

impl Default for Delimiters {
    fn default() -> Self {
        Self { left: "{{".to_owned(), right: "}}".to_owned() }
    }
}

impl Delimiters {
    /// # Errors
    /// What is wrong with them.
    fn check(&self) -> Result<(), String> {
        for delimiter in [&self.left, &self.right] {
            if delimiter.is_empty() {
                return Err("the delimiters of actions may not be empty".to_owned());
            }
            // It could not be told from what separates words.
            if delimiter.starts_with(is_space) {
                return Err("the delimiters of actions may not begin with white space".to_owned());
            }
            if delimiter.len() > DELIMITER_BYTES_MAX {
                return Err(format!("the delimiters of actions may have {DELIMITER_BYTES_MAX} bytes"));
            }
        }
        Ok(())
    }
}

/// A template that was read.
#[derive(Debug)]
pub struct ParsedTemplate {
    pub(crate) text: Box<str>,
    pub(crate) nodes: Vec<Node>,
    /// Those that it defines itself.
    pub(crate) named: BTreeMap<Box<str>, Vec<Node>>,
}

impl ParsedTemplate {
    /// Reads a template.
    ///
    /// # Errors
    /// What is wrong with it, and where.
    pub fn parse(text: &str, delimiters: &Delimiters) -> Result<Self, TemplateError> {
        let error = |(at, message): ErrorAt| TemplateError::at(text, at, message);
        if text.len() > TEXT_BYTES_MAX {
            let found = text.len();
            let message = format!("the template has {found} bytes; it may have {TEXT_BYTES_MAX}");
            return Err(error((0, message)));
        }
        delimiters.check().map_err(|why| error((0, why)))?;
        let tokens = tokens(text, delimiters).map_err(error)?;
        let mut parser = Parser {
            tokens: tokens.into_iter().peekable(),
            last: text.len(),
            variables: Scope::default(),
            named: BTreeMap::new(),
            called: Vec::new(),
            depth: 0,
            ranges: 0,
            actions: 0,
        };
        let (nodes, end) = parser.nodes().map_err(error)?;
        if let Some((at, end)) = end {
            return Err(error((at, format!("`{}` without what it belongs to", end.word()))));
        }
        let unknown = parser.called.iter().find(|(name, _)| !parser.named.contains_key(name));
        if let Some((name, at)) = unknown {
            return Err(error((*at, format!("there is no template {name:?}: `define` it in this one"))));
        }
        Ok(Self { text: text.into(), nodes, named: parser.named })
    }
}

type ParseResult<T> = Result<T, ErrorAt>;

/// The name of a variable, and where it stands.
type VariableName = (Box<str>, Offset);

/// Nodes, and what ended them, and where; nothing ends the whole template.
type NodeList = (Vec<Node>, Option<(Offset, EndKeyword)>);

/// What ends a list of nodes.
enum EndKeyword {
    End,
    /// With what comes after it, as `if`.
    Else(Option<Box<str>>),
}

impl EndKeyword {
    fn word(&self) -> &'static str {
        match self {
            Self::End => "end",
            Self::Else(_) => "else",
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum BlockKind {
    If,
    With,
    Range,
}

struct Parser {
    tokens: std::iter::Peekable<std::vec::IntoIter<Spanned>>,
    /// Where the text ends.
    last: Offset,
    /// Those that are known here.
    variables: Scope,
    named: BTreeMap<Box<str>, Vec<Node>>,
    called: Vec<(Box<str>, Offset)>,
    depth: usize,
    ranges: usize,
    actions: usize,
}

impl Parser {
    fn next(&mut self) -> ParseResult<Spanned> {
        self.tokens.next().ok_or_else(|| (self.last, "the template ends within an action".to_owned()))
    }

    fn peek(&mut self) -> Option<&Token> {
        self.tokens.peek().map(|spanned| &spanned.token)
    }

    fn at(&mut self) -> Offset {
        self.tokens.peek().map_or(self.last, |spanned| spanned.at)
    }

    fn enter(&mut self, at: Offset) -> ParseResult<()> {
        self.depth += 1;
        if self.depth > NESTING_MAX {
            let message = format!(
                "more than {NESTING_MAX} blocks and parentheses lie in one another, the limit of a template"
            );
            return Err((at, message));
        }
        Ok(())
    }

    /// All nodes up to what ends them.
    fn nodes(&mut self) -> ParseResult<NodeList> {
        let mut nodes = Vec::new();
        while let Some(Spanned { token, at, .. }) = self.tokens.next() {
            if let Token::Text(text) = token {
                nodes.push(Node::Text { text: text.into(), at });
                continue;
            }
            self.actions += 1;
            if self.actions > ACTIONS_MAX {
                return Err((
                    at,
                    format!("the template has more than {ACTIONS_MAX} actions, the limit of one"),
                ));
            }
            let keyword = match self.peek() {
                Some(Token::Word(word)) => word.clone(),
                _ => String::new(),
            };
            let within = self.at();
            match &*keyword {
                "end" => {
                    self.next()?;
                    self.close()?;
                    return Ok((nodes, Some((at, EndKeyword::End))));
                }
                "else" => {
                    self.next()?;
                    let follows = match self.peek() {
                        Some(Token::Word(word)) if matches!(&**word, "if" | "with") => {
                            Some(word.as_str().into())
                        }
                        _ => None,
                    };
                    match follows {
                        Some(_) => drop(self.next()?),
                        None => self.close()?,
                    }
                    return Ok((nodes, Some((at, EndKeyword::Else(follows)))));
                }
                "if" => nodes.push(self.branch(BlockKind::If, within, true)?),
                "with" => nodes.push(self.branch(BlockKind::With, within, true)?),
                "range" => nodes.push(self.branch(BlockKind::Range, within, true)?),
                "define" => self.define(within)?,
                "block" => nodes.push(self.block(within)?),
                "template" => nodes.push(self.call(within)?),
                "break" | "continue" => {
                    self.next()?;
                    self.close()?;
                    if self.ranges == 0 {
                        return Err((within, format!("`{keyword}` stands in no `range`")));
                    }
                    let is_break = keyword == "break";
                    nodes.push(if is_break { Node::Break } else { Node::Continue });
                }
                _ => {
                    let pipeline = self.pipeline(1)?;
                    self.close()?;
                    nodes.push(Node::Action(pipeline));
                }
            }
        }
        Ok((nodes, None))
    }

    fn close(&mut self) -> ParseResult<()> {
        let next = self.next()?;
        if next.token == Token::Close {
            return Ok(());
        }
        Err((next.at, format!("{} has no meaning here: the action is to end", token_text(&next.token))))
    }

    /// What a block holds, and what ended it.
    fn body(&mut self, of: &str, at: Offset) -> ParseResult<(Vec<Node>, EndKeyword)> {
        let (nodes, end) = self.nodes()?;
        let (_, end) = end.ok_or_else(|| (at, format!("`{of}` has no `end`")))?;
        Ok((nodes, end))
    }

    fn branch(&mut self, kind: BlockKind, at: Offset, has_word: bool) -> ParseResult<Node> {
        let word = match kind {
            BlockKind::If => "if",
            BlockKind::With => "with",
            BlockKind::Range => "range",
        };
        if has_word {
            self.next()?;
        }
        self.enter(at)?;
        let known = self.variables.len();
        let subject = self.pipeline(if kind == BlockKind::Range { 2 } else { 1 })?;
        self.close()?;
        let of_subject = self.variables.len();
        self.ranges += usize::from(kind == BlockKind::Range);
        let (then, end) = self.body(word, at)?;
        self.ranges -= usize::from(kind == BlockKind::Range);
        self.variables.truncate(of_subject);
        let otherwise = match end {
            EndKeyword::End => Vec::new(),
            EndKeyword::Else(None) => {
                let (nodes, end) = self.body(word, at)?;
                if let EndKeyword::Else(_) = end {
                    return Err((at, format!("`{word}` has two `else`")));
                }
                nodes
            }
            EndKeyword::Else(Some(_)) if kind == BlockKind::Range => {
                return Err((at, "`else if` belongs to no `range`: write `else`, and `if` in it".to_owned()));
            }
            // One `end` ends all of them.
            EndKeyword::Else(Some(follows)) => {
                let kind = if &*follows == "if" { BlockKind::If } else { BlockKind::With };
                let at = self.at();
                vec![self.branch(kind, at, false)?]
            }
        };
        self.variables.truncate(known);
        self.depth -= 1;
        let branch = Branch { subject, then, otherwise };
        Ok(match kind {
            BlockKind::If => Node::If(branch),
            BlockKind::With => Node::With(branch),
            BlockKind::Range => Node::Range(branch),
        })
    }

    fn name(&mut self, of: &str) -> ParseResult<Box<str>> {
        self.next()?;
        match self.next()? {
            Spanned { token: Token::String(name), .. } => Ok(name.into()),
            other => Err((other.at, format!("`{of}` needs the name of a template, in quotes"))),
        }
    }

    /// A template of its own: it knows no variables but its own.
    fn defined(&mut self, of: &str, at: Offset, name: Box<str>) -> ParseResult<()> {
        self.enter(at)?;
        let variables = std::mem::take(&mut self.variables);
        let ranges = std::mem::take(&mut self.ranges);
        let (nodes, end) = self.body(of, at)?;
        (self.variables, self.ranges) = (variables, ranges);
        self.depth -= 1;
        if let EndKeyword::Else(_) = end {
            return Err((at, format!("`{of}` has no `else`")));
        }
        if self.named.contains_key(&name) {
            return Err((at, format!("template {name:?} is defined twice")));
        }
        self.named.insert(name, nodes);
        Ok(())
    }

    fn define(&mut self, at: Offset) -> ParseResult<()> {
        if self.depth > 0 {
            return Err((at, "`define` stands within another block".to_owned()));
        }
        let name = self.name("define")?;
        self.close()?;
        self.defined("define", at, name)
    }

    fn block(&mut self, at: Offset) -> ParseResult<Node> {
        let name = self.name("block")?;
        let with = Some(self.pipeline(0)?);
        self.close()?;
        self.defined("block", at, name.clone())?;
        Ok(Node::Call { name, at, with })
    }

    fn call(&mut self, at: Offset) -> ParseResult<Node> {
        let name = self.name("template")?;
        let with = if self.peek() == Some(&Token::Close) { None } else { Some(self.pipeline(0)?) };
        self.close()?;
        self.called.push((name.clone(), at));
        Ok(Node::Call { name, at, with })
    }

    /// A pipeline that declares at most so many variables. Its end is left to the caller.
    fn pipeline(&mut self, variables_max: usize) -> ParseResult<Pipeline> {
        let at = self.at();
        let (variables, assigns, first) = self.variables(variables_max)?;
        let mut commands = Vec::new();
        let mut first = first;
        loop {
            let command = self.command(first.take(), !commands.is_empty())?;
            commands.push(command);
            match self.peek() {
                Some(Token::Pipe) => drop(self.next()?),
                _ => break,
            }
        }
        let binding = match (assigns, variables.is_empty()) {
            (_, true) => Binding::Nothing,
            (true, _) => Binding::Assigns(self.slots(&variables)?),
            // They are known from here on, and not in what they are declared by.
            (false, _) => {
                for (name, at) in &variables {
                    self.variables.declare(name).map_err(|why| (*at, why))?;
                }
                Binding::Declares(variables.len())
            }
        };
        Ok(Pipeline { at, binding, commands })
    }

    /// Those that a pipeline declares or assigns; or, where it does neither, its first variable.
    fn variables(&mut self, max: usize) -> ParseResult<(Vec<VariableName>, bool, Option<Operand>)> {
        let Some(Token::Variable(_)) = self.peek() else { return Ok((Vec::new(), false, None)) };
        let Spanned { token: Token::Variable(name), at, .. } = self.next()? else {
            return Ok((Vec::new(), false, None));
        };
        let mut names: Vec<VariableName> = vec![(name.as_str().into(), at)];
        if self.peek() == Some(&Token::Comma) && max > 1 {
            self.next()?;
            match self.next()? {
                Spanned { token: Token::Variable(name), at, .. } => names.push((name.into(), at)),
                other => {
                    return Err((other.at, "after `,` stands the second variable of `range`".to_owned()));
                }
            }
        }
        let (declares, assigns) = (self.peek() == Some(&Token::Declare), self.peek() == Some(&Token::Assign));
        if !declares && !assigns {
            if names.len() > 1 {
                return Err((at, "`range` with two variables needs `:=` after them".to_owned()));
            }
            let operand = self.variable(name, at)?;
            return Ok((Vec::new(), false, Some(operand)));
        }
        if max == 0 {
            return Err((at, "no variable can be declared here".to_owned()));
        }
        self.next()?;
        if assigns {
            self.slots(&names)?;
        }
        Ok((names, assigns, None))
    }

    /// Where variables stand that are there already.
    fn slots(&self, names: &[VariableName]) -> ParseResult<Vec<usize>> {
        let slot = |(name, at): &VariableName| {
            let unknown = || (*at, format!("there is no variable {name}: declare it with `:=`"));
            self.variables.slot(name).ok_or_else(unknown)
        };
        names.iter().map(slot).collect()
    }

    fn variable(&mut self, name: String, at: Offset) -> ParseResult<Operand> {
        let unknown = || (at, format!("there is no variable {name} here: declare it with `{name} := ...`"));
        let term = Term::Variable(self.variables.slot(&name).ok_or_else(unknown)?);
        Ok(Operand { at, term, fields: self.fields()? })
    }

    /// Names that follow without a space.
    fn fields(&mut self) -> ParseResult<Vec<Box<str>>> {
        let mut fields = Vec::new();
        while let Some(Spanned { token: Token::Field(_), is_joined: true, .. }) = self.tokens.peek() {
            if let Token::Field(name) = self.next()?.token {
                fields.push(name.into());
            }
        }
        Ok(fields)
    }

    fn command(&mut self, first: Option<Operand>, is_piped: bool) -> ParseResult<Command> {
        let at = first.as_ref().map_or_else(|| self.at(), |first| first.at);
        let first = match first {
            Some(first) => first,
            None => self.operand()?,
        };
        let mut arguments = Vec::new();
        while !matches!(self.peek(), None | Some(Token::Pipe | Token::Close | Token::RightParenthesis)) {
            if self
                .tokens
                .peek()
                .is_some_and(|next| next.is_joined && !matches!(next.token, Token::LeftParenthesis))
            {
                let next = self.next()?;
                return Err((next.at, format!("a space is missing before {}", token_text(&next.token))));
            }
            let argument = self.operand()?;
            if let Term::Call(function) = &argument.term {
                function.check_count(0).map_err(|why| (argument.at, why))?;
            }
            arguments.push(argument);
        }
        if let Operand { term: Term::Call(function), fields, .. } = &first
            && fields.is_empty()
        {
            function.check_count(arguments.len() + usize::from(is_piped)).map_err(|why| (at, why))?;
            // What cannot work is refused when the job is submitted, as far as it stands here.
            if let Some(Operand { term: Term::Literal(Value::Text(text)), .. }) = arguments.first() {
                function.check_literal(text).map_err(|why| (at, why))?;
            }
            return Ok(Command { at, what: CommandKind::Call(function, arguments) });
        }
        if let Some(argument) = arguments.first() {
            return Err((argument.at, "arguments follow something that is no function".to_owned()));
        }
        if is_piped {
            return Err((at, "a value is piped into something that is no function".to_owned()));
        }
        if let Term::Call(function) = &first.term {
            function.check_count(0).map_err(|why| (at, why))?;
        }
        Ok(Command { at, what: CommandKind::Value(first) })
    }

    fn operand(&mut self) -> ParseResult<Operand> {
        let Spanned { token, at, .. } = self.next()?;
        let term = match token {
            Token::Variable(name) => return self.variable(name, at),
            Token::Dot => Term::Dot,
            Token::Field(name) => {
                let mut fields = vec![name.into()];
                fields.extend(self.fields()?);
                return Ok(Operand { at, term: Term::Dot, fields });
            }
            Token::Int(value) => Term::Literal(Value::Int(value)),
            Token::Float(value) => Term::Literal(Value::Float(value)),
            Token::String(value) => Term::Literal(text(value)),
            Token::Word(word) => match &*word {
                "true" => Term::Literal(Value::Bool(true)),
                "false" => Term::Literal(Value::Bool(false)),
                "nil" => Term::Literal(Value::Nil),
                name => Term::Call(functions::find(name).map_err(|why| (at, why))?),
            },
            Token::LeftParenthesis => {
                self.enter(at)?;
                let pipeline = self.pipeline(0)?;
                let end = self.next()?;
                if end.token != Token::RightParenthesis {
                    return Err((at, "the parenthesis is not closed".to_owned()));
                }
                self.depth -= 1;
                Term::Parentheses(Arc::new(pipeline))
            }
            Token::Close => return Err((at, "a value is missing here".to_owned())),
            other => return Err((at, format!("{} has no meaning here", token_text(&other)))),
        };
        Ok(Operand { at, term, fields: self.fields()? })
    }
}

fn token_text(token: &Token) -> String {
    match token {
        Token::Text(_) | Token::Open => "what follows".to_owned(),
        Token::Close => "the end of the action".to_owned(),
        Token::Word(word) => format!("`{word}`"),
        Token::Field(name) => format!("`.{name}`"),
        Token::Dot => "`.`".to_owned(),
        Token::Variable(name) => format!("`{name}`"),
        Token::Int(value) => format!("`{value}`"),
        Token::Float(value) => format!("`{value}`"),
        Token::String(_) => "a text in quotes".to_owned(),
        Token::Pipe => "`|`".to_owned(),
        Token::LeftParenthesis => "`(`".to_owned(),
        Token::RightParenthesis => "`)`".to_owned(),
        Token::Comma => "`,`".to_owned(),
        Token::Declare => "`:=`".to_owned(),
        Token::Assign => "`=`".to_owned(),
    }
}
