//! The smallest expressions: literals, names and calls, and the way to parts of them.

use super::{
    Call, Expression, ExpressionKind, Path, Step, StepKind,
    cursor::{Cursor, SyntaxError, SyntaxResult},
};
use crate::limits::SPLATS_MAX;

impl<'s> Cursor<'s, '_> {
    /// A primary expression and the steps behind it, as `.name`, `[0]` and `[*]`.
    pub fn path(&mut self) -> SyntaxResult<Expression<'s>> {
        let start = self.at;
        let base = self.primary()?;
        let (mut steps, mut splats) = (Vec::new(), 0);
        while let Some(step) = self.step()? {
            splats += usize::from(matches!(step.kind, StepKind::Splat | StepKind::AttributeSplat));
            if splats > SPLATS_MAX {
                let message = format!("more than {SPLATS_MAX} `[*]` in one expression");
                return Err(SyntaxError::at(step.span, message));
            }
            steps.push(step);
        }
        if steps.is_empty() {
            return Ok(base);
        }
        let kind = ExpressionKind::Path(Box::new(Path { base, steps }));
        Ok(Expression { span: self.span_from(start), kind })
    }

    fn step(&mut self) -> SyntaxResult<Option<Step<'s>>> {
        let start = self.at;
        let kind = match self.rest().as_bytes() {
            [b'.', b'.', ..] => return Ok(None),
            [b'.', b'*', ..] => {
                self.at += 2;
                StepKind::AttributeSplat
            }
            [b'.', b'0'..=b'9', ..] => {
                self.at += 1;
                let number = self.at;
                self.digits();
                let index = self.source[number..self.at].parse().unwrap_or(i64::MAX);
                StepKind::Index(Expression { span: self.span_from(number), kind: ExpressionKind::Int(index) })
            }
            [b'.', ..] => {
                self.at += 1;
                match self.word() {
                    "" => return Err(self.unexpected("a name after `.`")),
                    word => StepKind::Attribute(word),
                }
            }
            [b'[', b'*', b']', ..] => {
                self.at += 3;
                StepKind::Splat
            }
            [b'[', ..] => StepKind::Index(self.bracketed("[", "]")?),
            _ => return Ok(None),
        };
        Ok(Some(Step { span: self.span_from(start), kind }))
    }

    fn primary(&mut self) -> SyntaxResult<Expression<'s>> {
        let start = self.at;
        let kind = match self.rest().as_bytes() {
            [b'"', ..] => ExpressionKind::Template(self.quoted()?),
            [b'<', b'<', ..] => ExpressionKind::Template(self.heredoc()?),
            [b'[', ..] => self.list()?,
            [b'{', ..] => self.object()?,
            [b'(', ..] => self.bracketed("(", ")")?.kind,
            [b'0'..=b'9', ..] => self.number()?,
            _ => self.named()?,
        };
        Ok(Expression { span: self.span_from(start), kind })
    }

    fn bracketed(&mut self, open: &str, close: &str) -> SyntaxResult<Expression<'s>> {
        self.nested(|c| {
            c.with_newlines(true, |c| {
                c.eat(open);
                let inner = c.expression()?;
                c.expect(close, "after the expression")?;
                Ok(inner)
            })
        })
    }

    /// A keyword, a name or a call.
    fn named(&mut self) -> SyntaxResult<ExpressionKind<'s>> {
        let start = self.at;
        let word = self.word();
        if word.is_empty() {
            return Err(self.unexpected("a value"));
        }
        while self.eat("::") {
            self.word();
        }
        if self.starts_with("(") {
            let name = &self.source[start..self.at];
            let (arguments, expands) = self.arguments()?;
            return Ok(ExpressionKind::Call(Box::new(Call { name, arguments, expands })));
        }
        Ok(match word {
            "null" => ExpressionKind::Null,
            "true" => ExpressionKind::Bool(true),
            "false" => ExpressionKind::Bool(false),
            _ => ExpressionKind::Name(word),
        })
    }

    fn arguments(&mut self) -> SyntaxResult<(Vec<Expression<'s>>, bool)> {
        self.nested(|c| {
            c.with_newlines(true, |c| {
                c.eat("(");
                let mut arguments = Vec::new();
                loop {
                    c.skip_space()?;
                    if c.eat(")") {
                        return Ok((arguments, false));
                    }
                    arguments.push(c.expression()?);
                    c.skip_space()?;
                    if c.eat("...") {
                        c.eat(",");
                        c.expect(")", "after `...`")?;
                        return Ok((arguments, true));
                    }
                    if !c.eat(",") && !c.starts_with(")") {
                        return Err(c.unexpected("`,` or `)` after an argument"));
                    }
                }
            })
        })
    }

    /// `12`, `1.5` or `2e3`
    pub fn number(&mut self) -> SyntaxResult<ExpressionKind<'s>> {
        let start = self.at;
        self.digits();
        if let [b'.', b'0'..=b'9', ..] = self.rest().as_bytes() {
            self.at += 1;
            self.digits();
        }
        if let [b'e' | b'E', b'0'..=b'9', ..] | [b'e' | b'E', b'+' | b'-', b'0'..=b'9', ..] =
            self.rest().as_bytes()
        {
            self.at += 2;
            self.digits();
        }
        let text = &self.source[start..self.at];
        if let Ok(value) = text.parse() {
            return Ok(ExpressionKind::Int(value));
        }
        match text.parse() {
            Ok(value) if f64::is_finite(value) => Ok(ExpressionKind::Float(value)),
            _ => Err(SyntaxError::at(self.span_from(start), "number is too large")),
        }
    }

    fn digits(&mut self) {
        self.at += self.rest().bytes().take_while(u8::is_ascii_digit).count();
    }
}
