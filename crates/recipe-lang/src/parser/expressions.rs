//! Expressions.

use super::{DEEPEST, Parsed, Parser, sort_of};
use crate::ast::*;
use crate::error::Mistake;
use crate::lexer::Token;

impl Parser {
    pub(super) fn bracketed(&mut self) -> Parsed<Expr> {
        self.expect("(")?;
        let inside = self.expression()?;
        self.expect(")")?;
        Ok(inside)
    }

    pub(super) fn arguments(&mut self) -> Parsed<Vec<Expr>> {
        self.expect("(")?;
        let mut all = Vec::new();
        while !self.is(")") {
            all.push(self.expression()?);
            if !self.eat(",") {
                break;
            }
        }
        self.expect(")")?;
        Ok(all)
    }

    pub(super) fn expression(&mut self) -> Parsed<Expr> {
        self.deeper()?;
        let condition = self.binary(0)?;
        let whole = if self.eat("?") {
            let yes = self.expression()?;
            self.expect(":")?;
            let no = self.expression()?;
            let span = condition.span;
            Expr { kind: ExprKind::Choose(Box::new(condition), Box::new(yes), Box::new(no)), span }
        } else {
            condition
        };
        self.depth -= 1;
        Ok(whole)
    }

    pub(super) fn binary(&mut self, level: usize) -> Parsed<Expr> {
        /// From weakest to strongest, as in C.
        const LEVELS: [&[&str]; 10] = [
            &["||"],
            &["&&"],
            &["|"],
            &["^"],
            &["&"],
            &["==", "!="],
            &["<", "<=", ">", ">="],
            &["<<", ">>"],
            &["+", "-"],
            &["*", "/", "%"],
        ];
        let Some(signs) = LEVELS.get(level) else { return self.unary() };
        let mut left = self.binary(level + 1)?;
        let mut operands = 1;
        while let Some(&sign) = signs.iter().find(|sign| self.is(sign)) {
            let span = self.next().1;
            operands += 1;
            if operands > DEEPEST {
                return Err(Mistake::new(span, format!("more than {DEEPEST} operands in a row")));
            }
            let right = self.binary(level + 1)?;
            left = Expr { kind: ExprKind::Binary(sign, Box::new(left), Box::new(right)), span };
        }
        Ok(left)
    }

    pub(super) fn unary(&mut self) -> Parsed<Expr> {
        let span = self.span();
        for sign in ["-", "!", "~"] {
            if self.eat(sign) {
                self.deeper()?;
                let operand = self.unary()?;
                self.depth -= 1;
                return Ok(Expr { kind: ExprKind::Unary(sign, Box::new(operand)), span });
            }
        }
        self.postfix()
    }

    pub(super) fn postfix(&mut self) -> Parsed<Expr> {
        let mut expr = self.primary()?;
        for _ in 0..DEEPEST {
            let span = expr.span;
            if self.eat("[") {
                let index = self.expression()?;
                self.expect("]")?;
                expr = Expr { kind: ExprKind::Index(Box::new(expr), Box::new(index)), span };
            } else if self.eat(".") {
                let member = self.name("a field or method")?;
                let kind = match self.is("(") {
                    true => ExprKind::CallVirtual(Box::new(expr), member, self.arguments()?),
                    false => ExprKind::Field(Box::new(expr), member),
                };
                expr = Expr { kind, span };
            } else {
                return Ok(expr);
            }
        }
        Err(Mistake::new(expr.span, format!("more than {DEEPEST} members or indices in a row")))
    }

    pub(super) fn primary(&mut self) -> Parsed<Expr> {
        let span = self.span();
        let kind = match self.peek().clone() {
            Token::Number(number) => {
                self.next();
                ExprKind::Number(number)
            }
            Token::Sign("(") => return self.bracketed(),
            Token::Word(word) => match word.as_str() {
                "true" | "false" | "null" => {
                    self.next();
                    ExprKind::Number((word == "true") as i128)
                }
                "this" => {
                    self.next();
                    ExprKind::Variable(word)
                }
                _ => match sort_of(&word) {
                    Some(sort) => {
                        self.next();
                        ExprKind::Convert(sort, Box::new(self.bracketed()?))
                    }
                    None => {
                        let name = self.name("an expression")?;
                        match self.is("(") {
                            true => ExprKind::Call(name, self.arguments()?),
                            false => ExprKind::Variable(name.text),
                        }
                    }
                },
            },
            _ => return Err(self.wrong("an expression")),
        };
        Ok(Expr { kind, span })
    }
}
