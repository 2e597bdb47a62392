//! The smallest expressions: literals, references and calls.

use super::{
    Expression, Kind,
    cursor::{Cursor, Fault, Parsed},
};

impl Cursor<'_> {
    /// A primary expression and the accesses behind it, as `.name`, `[0]` and `[*]`.
    pub fn path(&mut self) -> Parsed<Expression> {
        let start = self.at;
        let first = self.primary()?;
        while self.access()? {}
        Ok(match first.kind {
            _ if self.at == first.span.end as usize => first,
            kind @ Kind::Reference(_) => Expression { span: self.span_from(start), kind },
            Kind::Later(what) => self.later(start, &what),
            _ => self.later(start, "taking a part of a value"),
        })
    }

    fn access(&mut self) -> Parsed<bool> {
        match self.rest().as_bytes() {
            [b'.', b'*', ..] => self.at += 2,
            [b'.', b'0'..=b'9', ..] => {
                self.at += 1;
                self.digits();
            }
            [b'.', ..] => {
                self.at += 1;
                if self.word().is_empty() {
                    return Err(self.unexpected("a name after `.`"));
                }
            }
            [b'[', b'*', b']', ..] => self.at += 3,
            [b'[', ..] => self.bracketed("[", "]")?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn primary(&mut self) -> Parsed<Expression> {
        let start = self.at;
        let kind = match self.rest().as_bytes() {
            [b'"', ..] => Kind::Template(self.quoted()?),
            [b'<', b'<', ..] => Kind::Template(self.heredoc()?),
            [b'[', ..] => self.list()?,
            [b'{', ..] => self.object()?,
            [b'(', ..] => {
                self.bracketed("(", ")")?;
                Kind::Later("an expression in parentheses".to_owned())
            }
            [b'0'..=b'9', ..] => self.number()?,
            _ => self.named()?,
        };
        Ok(Expression { span: self.span_from(start), kind })
    }

    fn bracketed(&mut self, open: &str, close: &str) -> Parsed<()> {
        self.nested(|c| {
            c.with_newlines(true, |c| {
                c.eat(open);
                c.expression()?;
                c.expect(close, "after the expression")
            })
        })
    }

    /// A keyword, a reference or a call.
    fn named(&mut self) -> Parsed<Kind> {
        let start = self.at;
        let word = self.word();
        if word.is_empty() {
            return Err(self.unexpected("a value"));
        }
        while self.eat("::") {
            self.word();
        }
        if self.looking_at("(") {
            let name = &self.source[start..self.at];
            self.arguments()?;
            return Ok(Kind::Later(format!("the function {}", crate::diagnostic::quoted(name))));
        }
        Ok(match word {
            "null" => Kind::Null,
            "true" => Kind::Bool(true),
            "false" => Kind::Bool(false),
            _ => Kind::Reference(word.to_owned()),
        })
    }

    fn arguments(&mut self) -> Parsed<()> {
        self.nested(|c| {
            c.with_newlines(true, |c| {
                c.eat("(");
                loop {
                    c.skip_space()?;
                    if c.eat(")") {
                        return Ok(());
                    }
                    c.expression()?;
                    c.skip_space()?;
                    if !c.eat(",") && !c.eat("...") && !c.looking_at(")") {
                        return Err(c.unexpected("`,` or `)` after an argument"));
                    }
                }
            })
        })
    }

    fn number(&mut self) -> Parsed<Kind> {
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
            return Ok(Kind::Int(value));
        }
        match text.parse() {
            Ok(value) if f64::is_finite(value) => Ok(Kind::Float(value)),
            _ => Err(Fault::at(self.span_from(start), "number is too large")),
        }
    }

    fn digits(&mut self) {
        self.at += self.rest().bytes().take_while(u8::is_ascii_digit).count();
    }
}
