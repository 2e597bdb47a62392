//! Operators and conditions, around the terms of [`super::primary`].

use super::{
    Chain, Expression, ExpressionKind, Operator, Unary,
    cursor::{Cursor, SyntaxResult},
};

/// Operators between two terms, longer ones first.
const OPERATORS: &[(&str, Operator)] = &[
    ("==", Operator::Equal),
    ("!=", Operator::NotEqual),
    ("<=", Operator::LessOrEqual),
    (">=", Operator::GreaterOrEqual),
    ("&&", Operator::And),
    ("||", Operator::Or),
    ("+", Operator::Plus),
    ("-", Operator::Minus),
    ("*", Operator::Times),
    ("/", Operator::Divide),
    ("%", Operator::Modulo),
    ("<", Operator::Less),
    (">", Operator::Greater),
];

impl<'s> Cursor<'s, '_> {
    /// An expression and nothing else.
    pub fn only_expression(mut self) -> Option<Expression<'s>> {
        let read = self.with_newlines(true, |c| {
            let expression = c.expression()?;
            c.skip_space()?;
            if c.at_end() { Ok(expression) } else { Err(c.unexpected("the end of the value")) }
        });
        read.map_err(|error| self.note(error)).ok()
    }

    /// An expression; steps over space before it.
    pub fn expression(&mut self) -> SyntaxResult<Expression<'s>> {
        let first = self.chain()?;
        self.skip_space()?;
        if !self.eat("?") {
            return Ok(first);
        }
        let (start, branches) = (first.span.start as usize, self.nested(Self::branches)?);
        let kind = ExpressionKind::Condition(Box::new([first, branches.0, branches.1]));
        Ok(Expression { span: self.span_from(start), kind })
    }

    fn branches(&mut self) -> SyntaxResult<(Expression<'s>, Expression<'s>)> {
        let yes = self.expression()?;
        self.expect(":", "in a condition")?;
        Ok((yes, self.expression()?))
    }

    fn chain(&mut self) -> SyntaxResult<Expression<'s>> {
        let first = self.term()?;
        let mut rest = Vec::new();
        while let Some(operator) = self.operator()? {
            rest.push((operator, self.term()?));
        }
        let (Some((_, last)), start) = (rest.last(), first.span) else { return Ok(first) };
        let span = start.to(last.span);
        Ok(Expression { span, kind: ExpressionKind::Chain(Box::new(Chain { first, rest })) })
    }

    fn operator(&mut self) -> SyntaxResult<Option<Operator>> {
        self.skip_space()?;
        // `=>` belongs to a `for` expression around this one.
        Ok(OPERATORS.iter().find(|(word, _)| self.eat(word)).map(|(_, operator)| *operator))
    }

    fn term(&mut self) -> SyntaxResult<Expression<'s>> {
        self.skip_space()?;
        let start = self.at;
        let operator = if self.eat("!") {
            Unary::Not
        } else if self.eat("-") {
            Unary::Negate
        } else {
            return self.path();
        };
        let operand = self.nested(Self::term)?;
        let kind = match (operator, operand.kind) {
            (Unary::Negate, ExpressionKind::Int(value)) => ExpressionKind::Int(-value),
            (Unary::Negate, ExpressionKind::Float(value)) => ExpressionKind::Float(-value),
            (_, kind) => ExpressionKind::Unary(operator, Box::new(Expression { kind, ..operand })),
        };
        Ok(Expression { span: self.span_from(start), kind })
    }
}
