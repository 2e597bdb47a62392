//! Quoted strings: text, escapes and `${...}`.

use super::{
    Kind, Part,
    cursor::{Cursor, Fault, Parsed},
};
use crate::span::Span;

impl Cursor<'_> {
    /// `"text ${hole}"`
    pub fn quoted(&mut self) -> Parsed<Vec<Part>> {
        let opened = Span::new(self.at, self.at + 1);
        self.at += 1;
        let (mut parts, mut text) = (Vec::new(), String::new());
        loop {
            let plain = self.rest().find(['"', '\\', '$', '%', '\n']).unwrap_or(self.rest().len());
            text.push_str(&self.rest()[..plain]);
            self.at += plain;
            match self.peek() {
                Some('"') => break,
                Some('\\') => text.push(self.escape()?),
                None | Some('\n') => return Err(Fault::at(opened, "string is not closed on its line")),
                Some(_) => self.marked(&mut parts, &mut text)?,
            }
        }
        self.at += 1;
        parts.push(Part::Text(text));
        Ok(parts)
    }

    /// A string without holes, as labels are.
    pub fn plain_string(&mut self, what: &str) -> Parsed<String> {
        let start = self.at;
        match self.quoted()?.as_mut_slice() {
            [Part::Text(text)] => Ok(std::mem::take(text)),
            _ => Err(Fault::at(self.span_from(start), format!("{what} may not hold `${{...}}`"))),
        }
    }

    /// What `$` or `%` begins: a hole, an escaped one, or itself.
    pub fn marked(&mut self, parts: &mut Vec<Part>, text: &mut String) -> Parsed<()> {
        match self.rest().as_bytes() {
            [b'$', b'$', b'{', ..] | [b'%', b'%', b'{', ..] => {
                text.push_str(&self.rest()[1..3]);
                self.at += 3;
            }
            [b'$' | b'%', b'{', ..] => {
                parts.push(Part::Text(std::mem::take(text)));
                parts.push(self.hole()?);
            }
            _ => {
                text.push_str(&self.rest()[..1]);
                self.at += 1;
            }
        }
        Ok(())
    }

    fn hole(&mut self) -> Parsed<Part> {
        let start = self.at;
        let directive = self.looking_at("%");
        self.at += 2;
        let strip = self.eat("~");
        let inner = self.nested(|c| {
            c.with_newlines(true, |c| {
                let inner = if directive { c.directive()? } else { c.expression()? };
                c.skip_space()?;
                Ok(inner)
            })
        })?;
        let strip = self.eat("~") || strip;
        self.expect("}", "after the expression in a string")?;
        let inner = match inner.kind {
            Kind::Later(what) => self.later(start, &what),
            _ if strip => self.later(start, "a strip marker (`~`)"),
            _ => inner,
        };
        Ok(Part::Hole(inner, self.source[start..self.at].to_owned()))
    }

    /// `if condition`, `else`, `endif`, `for v in values`, `endfor`
    fn directive(&mut self) -> Parsed<super::Expression> {
        self.skip_space()?;
        let start = self.at;
        match self.word() {
            "if" => drop(self.expression()?),
            "for" => {
                self.at = start;
                self.for_head()?;
            }
            "else" | "endif" | "endfor" => {}
            _ => {
                return Err(Fault::at(self.span_from(start), "expected `if`, `for` or their end after `%{`"));
            }
        }
        Ok(self.later(start, "a template directive (`%{ }`)"))
    }

    fn escape(&mut self) -> Parsed<char> {
        let start = self.at;
        self.at += 1;
        let letter = self.peek();
        self.at += letter.map_or(0, char::len_utf8);
        let character = match letter {
            Some('n') => Some('\n'),
            Some('r') => Some('\r'),
            Some('t') => Some('\t'),
            Some(same @ ('"' | '\\')) => Some(same),
            Some('u') => self.hexadecimal(4),
            Some('U') => self.hexadecimal(8),
            _ => None,
        };
        let at = Span::new(start, self.at);
        // No program's argument, variable or path can hold a NUL.
        character.filter(|c| *c != '\0').ok_or_else(|| {
            Fault::at(at, "unknown escape in a string")
                .help(r#"known are \n, \r, \t, \", \\, \uNNNN and \UNNNNNNNN"#)
        })
    }

    fn hexadecimal(&mut self, digits: usize) -> Option<char> {
        let text = self.rest().get(..digits).filter(|t| t.bytes().all(|b| b.is_ascii_hexdigit()))?;
        self.at += digits;
        u32::from_str_radix(text, 16).ok().and_then(char::from_u32)
    }
}
