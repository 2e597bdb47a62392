//! Operators and conditions, around the terms of [`super::primary`].

use super::{
    Expression, Kind,
    cursor::{Cursor, Parsed},
};

/// Operators between two terms, longer ones first. Precedence does not matter until they are evaluated.
const OPERATORS: &[&str] = &["==", "!=", "<=", ">=", "&&", "||", "+", "-", "*", "/", "%", "<", ">"];

impl Cursor<'_> {
    /// An expression; steps over space before it.
    pub fn expression(&mut self) -> Parsed<Expression> {
        let first = self.operation()?;
        self.skip_space()?;
        if !self.eat("?") {
            return Ok(first);
        }
        self.nested(|c| {
            c.expression()?;
            c.expect(":", "in a condition")?;
            c.expression()
        })?;
        Ok(self.later(first.span.start as usize, "a condition (`? :`)"))
    }

    fn operation(&mut self) -> Parsed<Expression> {
        let mut left = self.term()?;
        while let Some(operator) = self.operator()? {
            self.term()?;
            left = self.later(left.span.start as usize, &format!("the operator `{operator}`"));
        }
        Ok(left)
    }

    fn operator(&mut self) -> Parsed<Option<&'static str>> {
        self.skip_space()?;
        // `=>` belongs to a `for` expression around this one.
        Ok(OPERATORS.iter().copied().find(|operator| self.eat(operator)))
    }

    fn term(&mut self) -> Parsed<Expression> {
        self.skip_space()?;
        let start = self.at;
        if self.eat("!") {
            self.nested(Self::term)?;
            return Ok(self.later(start, "the operator `!`"));
        }
        if !self.eat("-") {
            return self.path();
        }
        let operand = self.nested(Self::term)?;
        let kind = match operand.kind {
            Kind::Int(value) => Kind::Int(-value),
            Kind::Float(value) => Kind::Float(-value),
            _ => return Ok(self.later(start, "the operator `-`")),
        };
        Ok(Expression { span: self.span_from(start), kind })
    }

    /// What began at `start` and ends here cannot be evaluated yet.
    pub fn later(&self, start: usize, what: &str) -> Expression {
        Expression { span: self.span_from(start), kind: Kind::Later(what.to_owned()) }
    }
}
