//! Statements.

use super::{DEEPEST, Parsed, Parser, sort_of};
use crate::ast::*;
use crate::error::{Mistake, Span};
use crate::lexer::Token;

impl Parser {
    pub(super) fn block(&mut self) -> Parsed<Vec<Statement>> {
        let open = self.expect("{")?;
        self.deeper()?;
        let mut all = Vec::new();
        while !self.eat("}") {
            if *self.peek() == Token::End {
                return Err(Mistake::new(open, "this '{' is never closed"));
            }
            all.push(self.statement()?);
        }
        self.depth -= 1;
        Ok(all)
    }

    pub(super) fn deeper(&mut self) -> Parsed<()> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(Mistake::new(self.span(), format!("nested deeper than {DEEPEST}")));
        }
        Ok(())
    }

    /// A block, or a single statement.
    pub(super) fn body(&mut self) -> Parsed<Vec<Statement>> {
        if self.is("{") {
            return self.block();
        }
        self.deeper()?;
        let statement = self.statement()?;
        self.depth -= 1;
        Ok(vec![statement])
    }

    pub(super) fn statement(&mut self) -> Parsed<Statement> {
        let span = self.span();
        let word = match self.peek() {
            Token::Word(word) => word.clone(),
            _ => String::new(),
        };
        let kind = match word.as_str() {
            "if" => {
                self.next();
                let condition = self.bracketed()?;
                let yes = self.body()?;
                let no = if self.eat("else") { self.body()? } else { Vec::new() };
                return Ok(Statement { kind: StatementKind::If { condition, yes, no }, span });
            }
            "while" => {
                self.next();
                let condition = self.bracketed()?;
                let body = self.body()?;
                return Ok(Statement { kind: StatementKind::While { condition, body }, span });
            }
            "for" => return self.for_loop(span),
            "break" => self.simple(StatementKind::Break),
            "continue" => self.simple(StatementKind::Continue),
            "return" => {
                self.next();
                let value = if self.is(";") { None } else { Some(self.expression()?) };
                StatementKind::Return(value)
            }
            "lock" | "unlock" => {
                self.next();
                let lock = self.bracketed()?;
                if word == "lock" { StatementKind::Lock(lock) } else { StatementKind::Unlock(lock) }
            }
            "wait" => {
                self.next();
                self.expect("(")?;
                let condition = self.name("the name of a condition variable")?;
                self.expect(",")?;
                let lock = self.expression()?;
                self.expect(")")?;
                StatementKind::Wait { condition, lock }
            }
            "notify" | "notifyall" => {
                self.next();
                self.expect("(")?;
                let condition = self.name("the name of a condition variable")?;
                self.expect(")")?;
                StatementKind::Notify { condition, all: word == "notifyall" }
            }
            "fork" => {
                self.next();
                let thread = self.name("the name of a thread")?;
                let arguments = if self.is("(") { self.arguments()? } else { Vec::new() };
                StatementKind::Fork { thread, arguments }
            }
            "join" => {
                self.next();
                StatementKind::Join(self.name("the name of a thread")?)
            }
            "assert" => {
                self.next();
                StatementKind::Assert(self.bracketed()?)
            }
            "print" => {
                self.next();
                StatementKind::Print(self.arguments()?)
            }
            "shared" => {
                let message = "a shared variable is declared outside of functions and threads";
                return Err(Mistake::new(span, message));
            }
            _ if self.is("{") => {
                return Ok(Statement { kind: StatementKind::Block(self.block()?), span });
            }
            _ => self.assignment_or_declaration()?,
        };
        self.expect(";")?;
        Ok(Statement { kind, span })
    }

    pub(super) fn simple(&mut self, kind: StatementKind) -> StatementKind {
        self.next();
        kind
    }

    pub(super) fn for_loop(&mut self, span: Span) -> Parsed<Statement> {
        self.next();
        self.expect("(")?;
        let part = |parser: &mut Parser| -> Parsed<Option<Box<Statement>>> {
            let span = parser.span();
            let kind = parser.assignment_or_declaration()?;
            Ok(Some(Box::new(Statement { kind, span })))
        };
        let first = if self.is(";") { None } else { part(self)? };
        self.expect(";")?;
        let condition = if self.is(";") { None } else { Some(self.expression()?) };
        self.expect(";")?;
        let step = if self.is(")") { None } else { part(self)? };
        self.expect(")")?;
        let body = self.body()?;
        Ok(Statement { kind: StatementKind::For { first, condition, step, body }, span })
    }

    /// Without the semicolon.
    pub(super) fn assignment_or_declaration(&mut self) -> Parsed<StatementKind> {
        let is_type = matches!(self.peek(), Token::Word(word) if sort_of(word).is_some());
        if is_type && !matches!(self.tokens.get(self.at + 1), Some((Token::Sign("("), _))) {
            let sort = self.a_sort()?;
            let name = self.name("the name of a variable")?;
            let length = self.length()?;
            let initial = self.initial(length)?;
            return Ok(StatementKind::Declare { name, sort, length, initial });
        }
        let target = self.expression()?;
        for (sign, operator) in [
            ("=", None),
            ("+=", Some("+")),
            ("-=", Some("-")),
            ("*=", Some("*")),
            ("/=", Some("/")),
            ("%=", Some("%")),
            ("&=", Some("&")),
            ("|=", Some("|")),
            ("^=", Some("^")),
            ("<<=", Some("<<")),
            (">>=", Some(">>")),
        ] {
            if self.eat(sign) {
                let value = self.expression()?;
                return Ok(StatementKind::Assign { target, operator, value });
            }
        }
        if self.is("++") || self.is("--") {
            let up = self.is("++");
            self.next();
            return Ok(StatementKind::Count { target, up });
        }
        Ok(StatementKind::Evaluate(target))
    }
}
