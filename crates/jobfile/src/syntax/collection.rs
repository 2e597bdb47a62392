//! Lists and objects, and the `for` expressions that look like them.

use super::{
    Expression, Kind, Part,
    cursor::{Cursor, Parsed},
};

impl Cursor<'_> {
    /// `[a, b]`, over several lines if need be.
    pub fn list(&mut self) -> Parsed<Kind> {
        self.nested(|c| {
            c.with_newlines(true, |c| {
                c.eat("[");
                if c.at_for()? { c.for_expression("]") } else { c.list_items().map(Kind::List) }
            })
        })
    }

    fn list_items(&mut self) -> Parsed<Vec<Expression>> {
        let mut items = Vec::new();
        loop {
            self.skip_space()?;
            if self.eat("]") {
                return Ok(items);
            }
            items.push(self.expression()?);
            self.skip_space()?;
            if !self.eat(",") && !self.looking_at("]") {
                return Err(self.unexpected("`,` or `]` in a list"));
            }
        }
    }

    /// `{ a = b, c = d }`, with commas or line ends between its items.
    pub fn object(&mut self) -> Parsed<Kind> {
        self.nested(|c| {
            c.eat("{");
            if c.with_newlines(true, Self::at_for)? {
                return c.with_newlines(true, |c| c.for_expression("}"));
            }
            let mut items = Vec::new();
            loop {
                c.with_newlines(true, Self::skip_space)?;
                if c.eat("}") {
                    return Ok(Kind::Object(items));
                }
                items.push(c.with_newlines(false, Self::object_item)?);
                if !c.eat(",") && !matches!(c.peek(), Some('\n' | '}')) {
                    return Err(c.unexpected("`,`, `}` or a new line in an object"));
                }
            }
        })
    }

    fn object_item(&mut self) -> Parsed<(Expression, Expression)> {
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
    fn object_key(&mut self) -> Parsed<Expression> {
        let start = self.at;
        let word = self.word().to_owned();
        self.skip_space()?;
        if !word.is_empty() && (self.looking_at("=") || self.looking_at(":")) {
            let kind = Kind::Template(vec![Part::Text(word)]);
            return Ok(Expression {
                span: crate::span::Span::new(start, start + self.word_end(start)),
                kind,
            });
        }
        self.at = start;
        self.expression()
    }

    fn word_end(&self, start: usize) -> usize {
        self.source[start..self.at].trim_end().len()
    }

    /// Whether the word `for` comes next, as a word of its own.
    fn at_for(&mut self) -> Parsed<bool> {
        self.skip_space()?;
        let start = self.at;
        let word = self.word();
        let is_for = word == "for" && self.rest().starts_with(|c: char| c.is_whitespace());
        self.at = start;
        Ok(is_for)
    }

    /// `for k, v in values : k => v if condition`, and what closes it.
    fn for_expression(&mut self, close: &str) -> Parsed<Kind> {
        self.for_head()?;
        self.expect(":", "in a `for` expression")?;
        self.expression()?;
        self.skip_space()?;
        if self.eat("=>") {
            self.expression()?;
            self.skip_space()?;
            self.eat("...");
            self.skip_space()?;
        }
        if self.eat("if") {
            self.expression()?;
        }
        self.expect(close, "after a `for` expression")?;
        Ok(Kind::Later("a `for` expression".to_owned()))
    }

    /// `for k, v in values`
    pub fn for_head(&mut self) -> Parsed<()> {
        self.expect("for", "here")?;
        self.variable()?;
        self.skip_space()?;
        if self.eat(",") {
            self.variable()?;
        }
        self.expect("in", "in a `for` expression")?;
        self.expression().map(drop)
    }

    fn variable(&mut self) -> Parsed<()> {
        self.skip_space()?;
        if self.word().is_empty() { Err(self.unexpected("the name of a variable")) } else { Ok(()) }
    }
}
