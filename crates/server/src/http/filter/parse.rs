//! Parses tokens to a filter. Each level of the grammar is one function; `or` binds least.

use regex::RegexBuilder;

use super::{
    Expression, FilterError, Names, Predicate, Selector,
    token::{Token, TokenKind, tokens},
};

/// Expressions that may stand inside one another.
const DEPTH_MAX: usize = 32;
/// Bytes that a compiled regular expression may take.
const REGEX_BYTES_MAX: usize = 64 << 10;
const OPERATORS: &str = "`==`, `!=`, `in`, `contains`, `matches`, `is empty` or `is nil`";

/// Reads an expression.
pub(super) fn expression(text: &str) -> Result<Expression, FilterError> {
    let mut parser = Parser { tokens: tokens(text)?, next: 0, depth: 0 };
    let expression = parser.or()?;
    match parser.peek() {
        TokenKind::End => Ok(expression),
        other => Err(parser.expected("`and`, `or` or the end", &other.clone())),
    }
}

struct Parser {
    tokens: Vec<Token>,
    next: usize,
    depth: usize,
}

impl Parser {
    fn peek(&self) -> &TokenKind {
        &self.tokens[self.next].kind
    }

    fn at(&self) -> usize {
        self.tokens[self.next].at
    }

    fn take(&mut self) -> TokenKind {
        let kind = self.tokens[self.next].kind.clone();
        // The end is never passed.
        self.next = (self.next + 1).min(self.tokens.len() - 1);
        kind
    }

    fn expected(&self, what: &str, found: &TokenKind) -> FilterError {
        FilterError::new(self.at(), format!("expected {what}, found {found}"))
    }

    /// Takes this keyword if it comes next.
    fn word(&mut self, word: &str) -> bool {
        let found = matches!(self.peek(), TokenKind::Word(next) if next.eq_ignore_ascii_case(word));
        if found {
            self.take();
        }
        found
    }

    /// Takes this sign if it comes next.
    fn sign(&mut self, sign: &str) -> bool {
        let found = matches!(self.peek(), TokenKind::Sign(next) if *next == sign);
        if found {
            self.take();
        }
        found
    }

    fn require(&mut self, sign: &str) -> Result<(), FilterError> {
        if self.sign(sign) { Ok(()) } else { Err(self.expected(&format!("`{sign}`"), self.peek())) }
    }

    fn or(&mut self) -> Result<Expression, FilterError> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(FilterError::new(self.at(), format!("nested more than {DEPTH_MAX} levels deep")));
        }
        let mut left = self.and()?;
        while self.word("or") {
            left = Expression::Or(left.into(), self.and()?.into());
        }
        self.depth -= 1;
        Ok(left)
    }

    fn and(&mut self) -> Result<Expression, FilterError> {
        let mut left = self.not()?;
        while self.word("and") {
            left = Expression::And(left.into(), self.not()?.into());
        }
        Ok(left)
    }

    fn not(&mut self) -> Result<Expression, FilterError> {
        let mut negated = false;
        while self.word("not") {
            negated = !negated;
        }
        let expression = self.primary()?;
        Ok(if negated { Expression::Not(expression.into()) } else { expression })
    }

    fn primary(&mut self) -> Result<Expression, FilterError> {
        if self.sign("(") {
            let inner = self.or()?;
            self.require(")")?;
            return Ok(inner);
        }
        if self.comes(1, |kind| matches!(kind, TokenKind::Word(_))) {
            if self.word("any") {
                return self.each(false);
            }
            if self.word("all") {
                return self.each(true);
            }
        }
        if self.is_value_in() { self.value_in() } else { self.test() }
    }

    fn comes(&self, ahead: usize, is: impl Fn(&TokenKind) -> bool) -> bool {
        self.tokens.get(self.next + ahead).is_some_and(|token| is(&token.kind))
    }

    /// Whether a value comes next, and then `in` or `not in`.
    fn is_value_in(&self) -> bool {
        let word = |ahead, expected| {
            self.comes(ahead, |kind| matches!(kind, TokenKind::Word(word) if word == expected))
        };
        word(1, "in") || word(1, "not") && word(2, "in")
    }

    /// `VALUE in SELECTOR`
    fn value_in(&mut self) -> Result<Expression, FilterError> {
        let value = self.value()?;
        let negated = self.word("not");
        if !self.word("in") {
            return Err(self.expected("`in`", self.peek()));
        }
        let selector = self.selector()?;
        Ok(tested(selector, Predicate::Contains(value), negated))
    }

    /// `any SELECTOR as NAME { EXPRESSION }`
    fn each(&mut self, all: bool) -> Result<Expression, FilterError> {
        let selector = self.selector()?;
        if !self.word("as") {
            return Err(self.expected("`as` and a name for each element", self.peek()));
        }
        let first = self.name()?;
        let second = if self.sign(",") { Some(self.name()?) } else { None };
        self.require("{")?;
        let inner = self.or()?.into();
        self.require("}")?;
        Ok(Expression::Each { selector, all, names: Names { first, second }, inner })
    }

    fn name(&mut self) -> Result<String, FilterError> {
        match self.peek().clone() {
            TokenKind::Word(name) => {
                self.take();
                Ok(name)
            }
            other => Err(self.expected("a name", &other)),
        }
    }

    /// `SELECTOR OPERATOR VALUE`
    fn test(&mut self) -> Result<Expression, FilterError> {
        let selector = self.selector()?;
        if self.sign("==") {
            return Ok(tested(selector, Predicate::Equals(self.value()?), false));
        }
        if self.sign("!=") {
            return Ok(tested(selector, Predicate::Equals(self.value()?), true));
        }
        if self.word("is") {
            return self.state(selector);
        }
        let negated = self.word("not");
        if self.word("contains") {
            return Ok(tested(selector, Predicate::Contains(self.value()?), negated));
        }
        if self.word("matches") {
            return Ok(tested(selector, self.regex()?, negated));
        }
        Err(self.expected(OPERATORS, self.peek()))
    }

    /// What follows `is`.
    fn state(&mut self, selector: Selector) -> Result<Expression, FilterError> {
        let negated = self.word("not");
        if self.word("empty") {
            return Ok(tested(selector, Predicate::IsEmpty, negated));
        }
        if self.word("nil") {
            return Ok(tested(selector, Predicate::IsNil, negated));
        }
        Err(self.expected("`empty` or `nil`", self.peek()))
    }

    fn regex(&mut self) -> Result<Predicate, FilterError> {
        let at = self.at();
        let text = self.value()?;
        let regex = RegexBuilder::new(&text).size_limit(REGEX_BYTES_MAX).build();
        regex.map(Predicate::Matches).map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => FilterError::new(at, "this regular expression is too large"),
            _ => FilterError::new(at, "this is no regular expression"),
        })
    }

    /// `Name.Member["key"]`, or a JSON pointer in quotes, as `"/Name/Member"`.
    fn selector(&mut self) -> Result<Selector, FilterError> {
        let at = self.at();
        let (first, mut deeper) = match self.peek().clone() {
            TokenKind::Word(name) => (name, Vec::new()),
            TokenKind::Text(pointer) if pointer.len() > 1 && pointer.starts_with('/') => {
                let mut parts =
                    pointer[1..].split('/').map(|part| part.replace("~1", "/").replace("~0", "~"));
                (parts.next().unwrap_or_default(), parts.collect())
            }
            other => return Err(self.expected("the name of a member, as `Status`", &other)),
        };
        self.take();
        loop {
            if self.sign(".") {
                deeper.push(self.value()?);
            } else if self.sign("[") {
                deeper.push(self.value()?);
                self.require("]")?;
            } else {
                return Ok(Selector { first, deeper, at });
            }
        }
    }

    fn value(&mut self) -> Result<String, FilterError> {
        match self.peek().clone() {
            TokenKind::Word(text) | TokenKind::Text(text) | TokenKind::Number(text) => {
                self.take();
                Ok(text)
            }
            other => Err(self.expected("a value, as \"running\" or 50", &other)),
        }
    }
}

fn tested(selector: Selector, test: Predicate, negated: bool) -> Expression {
    let test = Expression::Test { selector, test };
    if negated { Expression::Not(test.into()) } else { test }
}
