//! Lists and objects, and the `for` expressions that look like them.

use std::borrow::Cow;

use super::{
    Expression, ExpressionKind, For, ForHead, StringPart,
    cursor::{Cursor, SyntaxError, SyntaxResult},
};
use crate::span::Span;

impl<'s> Cursor<'s, '_> {
    /// `[a, b]`, over several lines if need be.
    pub fn list(&mut self) -> SyntaxResult<ExpressionKind<'s>> {
        self.nested(|c| {
            c.with_newlines(true, |c| {
                c.eat("[");
                if c.at_for()? { c.for_expression("]") } else { c.list_items().map(ExpressionKind::List) }
            })
        })
    }

    fn list_items(&mut self) -> SyntaxResult<Vec<Expression<'s>>> {
        let mut items = Vec::new();
        loop {
            self.skip_space()?;
            if self.eat("]") {
                return Ok(items);
            }
            items.push(self.expression()?);
            self.skip_space()?;
            if !self.eat(",") && !self.starts_with("]") {
                return Err(self.unexpected("`,` or `]` in a list"));
            }
        }
    }

    /// `{ a = b, c = d }`, with commas or line ends between its items.
    pub fn object(&mut self) -> SyntaxResult<ExpressionKind<'s>> {
        self.nested(|c| {
            c.eat("{");
            if c.with_newlines(true, Self::at_for)? {
                return c.with_newlines(true, |c| c.for_expression("}"));
            }
            let mut items = Vec::new();
            loop {
                c.with_newlines(true, Self::skip_space)?;
                if c.eat("}") {
                    return Ok(ExpressionKind::Object(items));
                }
                items.push(c.with_newlines(false, Self::object_item)?);
                if !c.eat(",") && !matches!(c.peek(), Some('\n' | '}')) {
                    return Err(c.unexpected("`,`, `}` or a new line in an object"));
                }
            }
        })
    }

    fn object_item(&mut self) -> SyntaxResult<(Expression<'s>, Expression<'s>)> {
        let key = self.object_key()?;
        self.skip_space()?;
        if !self.eat("=") && !self.eat(":") {
            return Err(self.unexpected("`=` after a key"));
        }
        let value = self.expression()?;
        self.skip_space()?;
        Ok((key, value))
    }

    /// A bare word as a key stands for itself; anything else is an expression.
    fn object_key(&mut self) -> SyntaxResult<Expression<'s>> {
        let start = self.at;
        let word = self.word();
        self.skip_space()?;
        if !word.is_empty() && (self.starts_with("=") || self.starts_with(":")) {
            let kind = ExpressionKind::Template(vec![StringPart::Text(Cow::Borrowed(word))]);
            return Ok(Expression { span: Span::new(start, start + word.len()), kind });
        }
        self.at = start;
        self.expression()
    }

    /// Whether the word `for` comes next, as a word of its own.
    fn at_for(&mut self) -> SyntaxResult<bool> {
        self.skip_space()?;
        let start = self.at;
        let word = self.word();
        let is_for = word == "for" && self.rest().starts_with(|c: char| c.is_whitespace());
        self.at = start;
        Ok(is_for)
    }

    /// `for k, v in values : k => v if condition`, and what closes it.
    fn for_expression(&mut self, close: &str) -> SyntaxResult<ExpressionKind<'s>> {
        let start = self.at;
        let head = self.for_head()?;
        self.expect(":", "in a `for` expression")?;
        let first = self.expression()?;
        self.skip_space()?;
        let (mut key, mut value, mut grouped) = (None, first, false);
        if self.eat("=>") {
            key = Some(std::mem::replace(&mut value, self.expression()?));
            self.skip_space()?;
            grouped = self.eat("...");
            self.skip_space()?;
        }
        if key.is_some() != (close == "}") {
            let message = if close == "}" {
                "a `for` expression in braces needs a key: `key => value`"
            } else {
                "a `for` expression in brackets makes a list: it has no key"
            };
            return Err(SyntaxError::at(self.span_from(start), message));
        }
        let condition = if self.eat("if") { Some(self.expression()?) } else { None };
        self.expect(close, "after a `for` expression")?;
        Ok(ExpressionKind::For(Box::new(For { head, key, value, grouped, condition })))
    }

    /// `for k, v in values`
    pub fn for_head(&mut self) -> SyntaxResult<ForHead<'s>> {
        self.expect("for", "here")?;
        let first = self.variable()?;
        self.skip_space()?;
        let second = if self.eat(",") { Some(self.variable()?) } else { None };
        self.expect("in", "in a `for` expression")?;
        let values = self.expression()?;
        Ok(match second {
            Some(value) => ForHead { key: Some(first), value, values },
            None => ForHead { key: None, value: first, values },
        })
    }

    fn variable(&mut self) -> SyntaxResult<&'s str> {
        self.skip_space()?;
        match self.word() {
            "" => Err(self.unexpected("the name of a variable")),
            word => Ok(word),
        }
    }
}
