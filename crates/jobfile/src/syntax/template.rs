//! Strings: text, escapes, `${...}` and `%{...}`.

use std::{borrow::Cow, collections::VecDeque};

use super::{
    Expression, ForHead, StringPart,
    cursor::{Cursor, SyntaxError, SyntaxResult},
};
use crate::span::Span;

/// A piece of a string, before `%{ if }` and `%{ for }` have found their ends.
#[derive(Debug)]
pub(super) struct StringPiece<'s> {
    pub kind: StringPieceKind<'s>,
    span: Span,
    /// `~` at its start: blanks before it go.
    strips_before: bool,
    /// `~` at its end: blanks behind it go, and the line's end.
    strips_behind: bool,
}

/// The kind of a [`StringPiece`].
#[derive(Debug)]
pub(super) enum StringPieceKind<'s> {
    Text(Cow<'s, str>),
    Hole(Expression<'s>, Cow<'s, str>),
    If(Expression<'s>),
    Else,
    EndIf,
    For(ForHead<'s>),
    EndFor,
}

impl<'s> StringPiece<'s> {
    pub fn text(text: impl Into<Cow<'s, str>>) -> Self {
        let kind = StringPieceKind::Text(text.into());
        Self { kind, span: Span::default(), strips_before: false, strips_behind: false }
    }
}

impl<'s> Cursor<'s, '_> {
    /// `"text ${hole}"`
    pub fn quoted(&mut self) -> SyntaxResult<Vec<StringPart<'s>>> {
        if let Some(plain) = self.plain_quoted() {
            return Ok(vec![StringPart::Text(Cow::Borrowed(plain))]);
        }
        let opened = Span::new(self.at, self.at + 1);
        self.at += 1;
        let (mut pieces, mut text) = (Vec::new(), String::new());
        loop {
            let plain = self.rest().find(['"', '\\', '$', '%', '\n']).unwrap_or(self.rest().len());
            text.push_str(&self.rest()[..plain]);
            self.at += plain;
            match self.peek() {
                Some('"') => break,
                Some('\\') => text.push(self.escape()?),
                None | Some('\n') => return Err(SyntaxError::at(opened, "string is not closed on its line")),
                Some(_) => self.marked(&mut pieces, &mut text)?,
            }
        }
        self.at += 1;
        pieces.push(StringPiece::text(text));
        self.template(pieces)
    }

    /// A string in which every character means itself, as most are.
    fn plain_quoted(&mut self) -> Option<&'s str> {
        let inside = self.rest().get(1..)?;
        let end = inside.find(['"', '\\', '$', '%', '\n'])?;
        if inside.as_bytes()[end] != b'"' {
            return None;
        }
        self.at += end + 2;
        Some(&inside[..end])
    }

    /// A string without holes, as labels are.
    pub fn plain_string(&mut self, what: &str) -> SyntaxResult<Cow<'s, str>> {
        let start = self.at;
        match self.quoted()?.as_mut_slice() {
            [StringPart::Text(text)] => Ok(std::mem::take(text)),
            _ => Err(SyntaxError::at(self.span_from(start), format!("{what} may not hold `${{...}}`"))),
        }
    }

    /// What `$` or `%` begins: a hole, an escaped one, or itself.
    pub fn marked(&mut self, pieces: &mut Vec<StringPiece<'s>>, text: &mut String) -> SyntaxResult<()> {
        match self.rest().as_bytes() {
            [b'$', b'$', b'{', ..] => {
                text.push_str(if self.escapes_for_agents() { "$${" } else { "${" });
                self.at += 3;
            }
            [b'%', b'%', b'{', ..] => {
                text.push_str("%{");
                self.at += 3;
            }
            [b'$' | b'%', b'{', ..] => {
                pieces.push(StringPiece::text(std::mem::take(text)));
                pieces.push(self.hole()?);
            }
            _ => {
                text.push_str(&self.rest()[..1]);
                self.at += 1;
            }
        }
        Ok(())
    }

    /// Whether the `$${` that stands here must reach the agent as it is: what it holds is not a shell's own variable,
    /// which agents leave alone, and without the escape the agent would replace it.
    fn escapes_for_agents(&self) -> bool {
        let inside = &self.rest()[3..];
        let name =
            &inside[..inside.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(inside.len())];
        name.is_empty() || name.starts_with("NOMAD_") || !inside[name.len()..].starts_with('}')
    }

    /// `${ ... }` or `%{ ... }`
    fn hole(&mut self) -> SyntaxResult<StringPiece<'s>> {
        let start = self.at;
        let is_directive = self.starts_with("%");
        self.at += 2;
        let strips_before = self.eat("~");
        let inner_start = self.at;
        let kind = self.nested(|c| {
            c.with_newlines(true, |c| {
                let kind = if is_directive {
                    c.directive()?
                } else {
                    StringPieceKind::Hole(c.expression()?, Cow::Borrowed(""))
                };
                c.skip_space()?;
                Ok(kind)
            })
        })?;
        let inner = &self.source[inner_start..self.at];
        let strips_behind = self.eat("~");
        self.expect("}", "after the expression in a string")?;
        let kind = match kind {
            StringPieceKind::Hole(expression, _) if strips_before || strips_behind => {
                StringPieceKind::Hole(expression, Cow::Owned(format!("${{{}}}", inner.trim())))
            }
            StringPieceKind::Hole(expression, _) => {
                StringPieceKind::Hole(expression, Cow::Borrowed(&self.source[start..self.at]))
            }
            directive => directive,
        };
        Ok(StringPiece { kind, span: self.span_from(start), strips_before, strips_behind })
    }

    /// `if condition`, `else`, `endif`, `for v in values`, `endfor`
    fn directive(&mut self) -> SyntaxResult<StringPieceKind<'s>> {
        self.skip_space()?;
        let start = self.at;
        Ok(match self.word() {
            "if" => StringPieceKind::If(self.expression()?),
            "else" => StringPieceKind::Else,
            "endif" => StringPieceKind::EndIf,
            "for" => {
                self.at = start;
                StringPieceKind::For(self.for_head()?)
            }
            "endfor" => StringPieceKind::EndFor,
            _ => {
                return Err(SyntaxError::at(
                    self.span_from(start),
                    "expected `if`, `for` or their end after `%{`",
                ));
            }
        })
    }

    /// The parts of a string whose pieces are known.
    pub fn template(&mut self, mut pieces: Vec<StringPiece<'s>>) -> SyntaxResult<Vec<StringPart<'s>>> {
        strip(&mut pieces);
        let mut pieces = VecDeque::from(pieces);
        let (parts, end) = self.parts(&mut pieces)?;
        match end {
            None => Ok(parts),
            Some(end) => Err(SyntaxError::at(end.span, "this ends nothing: no `if` or `for` is open here")),
        }
    }

    /// Parts up to the end of the string, or to a piece that ends or halves what is open.
    fn parts(
        &mut self,
        pieces: &mut VecDeque<StringPiece<'s>>,
    ) -> SyntaxResult<(Vec<StringPart<'s>>, Option<StringPiece<'s>>)> {
        let mut parts = Vec::new();
        while let Some(piece) = pieces.pop_front() {
            match piece.kind {
                StringPieceKind::Text(text)
                    if text.is_empty() && !(parts.is_empty() && pieces.is_empty()) => {}
                StringPieceKind::Text(text) => parts.push(StringPart::Text(text)),
                StringPieceKind::Hole(expression, source) => parts.push(StringPart::Hole(expression, source)),
                StringPieceKind::If(condition) => {
                    let (yes, no) = self.nested(|c| c.branches_of_if(pieces, piece.span))?;
                    parts.push(StringPart::If(Box::new((condition, yes, no))));
                }
                StringPieceKind::For(head) => {
                    let (inner, end) = self.nested(|c| c.parts(pieces))?;
                    if !matches!(end, Some(StringPiece { kind: StringPieceKind::EndFor, .. })) {
                        return Err(SyntaxError::at(piece.span, "`%{ for }` has no `%{ endfor }`"));
                    }
                    parts.push(StringPart::For(Box::new((head, inner))));
                }
                StringPieceKind::Else | StringPieceKind::EndIf | StringPieceKind::EndFor => {
                    return Ok((parts, Some(piece)));
                }
            }
        }
        Ok((parts, None))
    }

    fn branches_of_if(
        &mut self,
        pieces: &mut VecDeque<StringPiece<'s>>,
        opened: Span,
    ) -> SyntaxResult<(Vec<StringPart<'s>>, Vec<StringPart<'s>>)> {
        let (yes, mut end) = self.parts(pieces)?;
        let mut no = Vec::new();
        if let Some(StringPiece { kind: StringPieceKind::Else, .. }) = end {
            (no, end) = self.parts(pieces)?;
        }
        match end {
            Some(StringPiece { kind: StringPieceKind::EndIf, .. }) => Ok((yes, no)),
            _ => Err(SyntaxError::at(opened, "`%{ if }` has no `%{ endif }`")),
        }
    }

    fn escape(&mut self) -> SyntaxResult<char> {
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
        if character == Some('\0') {
            let help = "no argument, variable or path of a program can hold one";
            return Err(SyntaxError::at(at, "a string cannot hold a NUL").help(help));
        }
        character.ok_or_else(|| {
            SyntaxError::at(at, "unknown escape in a string")
                .help(r#"known are \n, \r, \t, \", \\, \uNNNN and \UNNNNNNNN"#)
        })
    }

    fn hexadecimal(&mut self, digits: usize) -> Option<char> {
        let text = self.rest().get(..digits).filter(|t| t.bytes().all(|b| b.is_ascii_hexdigit()))?;
        self.at += digits;
        u32::from_str_radix(text, 16).ok().and_then(char::from_u32)
    }
}

/// Takes away what `~` strips: blanks, and behind a piece the end of its line too.
fn strip(pieces: &mut [StringPiece<'_>]) {
    for i in 0..pieces.len() {
        let (before, behind) = (pieces[i].strips_before, pieces[i].strips_behind);
        if let Some(StringPieceKind::Text(text)) =
            i.checked_sub(1).filter(|_| before).map(|i| &mut pieces[i].kind)
        {
            *text = Cow::Owned(text.trim_end_matches([' ', '\t']).to_owned());
        }
        if let Some(StringPieceKind::Text(text)) =
            pieces.get_mut(i + 1).filter(|_| behind).map(|next| &mut next.kind)
        {
            let rest = text.trim_start_matches([' ', '\t', '\r']);
            *text = Cow::Owned(rest.strip_prefix('\n').unwrap_or(rest).to_owned());
        }
    }
}
