//! From tokens to a program: recursive descent, one function for each rule of the grammar in `docs/rcp.md`.

use crate::ast::*;
use crate::error::{Mistake, Span};
use crate::lexer::{Token, tokens};
use snag_trace::symbolic::Sort;

type Parsed<T> = Result<T, Mistake>;

/// Expressions and blocks that nest deeper than this are refused, so that no input exhausts the stack.
const DEEPEST: usize = 100;

/// Longest array.
const LONGEST: i128 = 1 << 16;

/// Words that are not names.
const KEYWORDS: [&str; 31] = [
    "shared",
    "lock",
    "cond",
    "class",
    "object",
    "thread",
    "main",
    "void",
    "if",
    "else",
    "while",
    "for",
    "break",
    "continue",
    "return",
    "fork",
    "join",
    "assert",
    "print",
    "unlock",
    "wait",
    "notify",
    "notifyall",
    "new",
    "null",
    "this",
    "true",
    "false",
    "ref",
    "integer",
    "int",
];

/// Parses a program.
pub fn parse(text: &str) -> Parsed<Source> {
    let mut parser = Parser { tokens: tokens(text)?, at: 0, depth: 0 };
    parser.program()
}

/// The type that a word names, if any.
pub(crate) fn sort_of(word: &str) -> Option<Sort> {
    match word {
        "int" | "ref" => Some(Sort::DEFAULT),
        "integer" => Some(Sort::Int),
        "bool" => None,
        _ => Sort::from_word(word),
    }
}

struct Parser {
    tokens: Vec<(Token, Span)>,
    at: usize,
    depth: usize,
}

impl Parser {
    fn peek(&self) -> &Token {
        &self.tokens[self.at].0
    }

    fn span(&self) -> Span {
        self.tokens[self.at].1
    }

    fn is(&self, text: &str) -> bool {
        match self.peek() {
            Token::Word(word) => word == text,
            Token::Sign(sign) => *sign == text,
            _ => false,
        }
    }

    fn next(&mut self) -> (Token, Span) {
        let token = self.tokens[self.at].clone();
        if self.at + 1 < self.tokens.len() {
            self.at += 1;
        }
        token
    }

    fn eat(&mut self, text: &str) -> bool {
        let found = self.is(text);
        if found {
            self.next();
        }
        found
    }

    fn expect(&mut self, text: &str) -> Parsed<Span> {
        let span = self.span();
        if self.eat(text) { Ok(span) } else { Err(self.wrong(&format!("'{text}'"))) }
    }

    /// Something else was expected.
    fn wrong(&self, expected: &str) -> Mistake {
        // A forgotten sign is missing after what stands before, not where the next line begins.
        let found = self.peek().text();
        if expected == "';'" && self.at > 0 {
            let before = self.tokens[self.at - 1].1;
            if before.line < self.span().line {
                let span = Span { column: before.column + before.length, length: 1, ..before };
                return Mistake::new(span, format!("expected {expected} at the end of this line"));
            }
        }
        Mistake::new(self.span(), format!("expected {expected}, found {found}"))
    }

    fn name(&mut self, what: &str) -> Parsed<Name> {
        match self.peek().clone() {
            Token::Word(word) if KEYWORDS.contains(&word.as_str()) || sort_of(&word).is_some() => {
                Err(Mistake::new(self.span(), format!("expected {what}, found the keyword '{word}'")))
            }
            Token::Word(text) => Ok(Name { text, span: self.next().1 }),
            _ => Err(self.wrong(what)),
        }
    }

    fn sort(&mut self) -> Option<Sort> {
        let Token::Word(word) = self.peek() else { return None };
        let sort = sort_of(word)?;
        self.next();
        Some(sort)
    }

    fn a_sort(&mut self) -> Parsed<Sort> {
        self.sort().ok_or_else(|| self.wrong("a type"))
    }

    // Declarations.

    fn program(&mut self) -> Parsed<Source> {
        let mut source = Source::default();
        while *self.peek() != Token::End {
            let word = match self.peek() {
                Token::Word(word) => word.clone(),
                _ => return Err(self.declaration_expected()),
            };
            match word.as_str() {
                "shared" => self.shared(&mut source)?,
                "lock" => {
                    self.next();
                    loop {
                        let name = self.name("the name of a lock")?;
                        let length = self.length()?;
                        source.locks.push((name, length));
                        if !self.eat(",") {
                            break;
                        }
                    }
                    self.expect(";")?;
                }
                "cond" => {
                    self.next();
                    loop {
                        source.conditions.push(self.name("the name of a condition variable")?);
                        if !self.eat(",") {
                            break;
                        }
                    }
                    self.expect(";")?;
                }
                "class" => source.classes.push(self.class()?),
                "object" => {
                    self.next();
                    let name = self.name("the name of an object")?;
                    self.expect("=")?;
                    let class = self.name("the name of a class")?;
                    self.expect(";")?;
                    source.objects.push((name, class));
                }
                "thread" => {
                    self.next();
                    let name = self.name("the name of a thread")?;
                    let parameters = if self.is("(") { self.parameters()? } else { Vec::new() };
                    let body = self.block()?;
                    source.threads.push(Function { name, parameters, returns: None, body });
                }
                "main" => {
                    let span = self.next().1;
                    let body = self.block()?;
                    let name = Name { text: "main".to_owned(), span };
                    source.threads.push(Function { name, parameters: Vec::new(), returns: None, body });
                }
                _ => source.functions.push(self.function()?),
            }
        }
        Ok(source)
    }

    fn declaration_expected(&self) -> Mistake {
        self.wrong("a declaration")
            .help("a program consists of shared, lock, cond, class, object, functions, thread and main")
    }

    fn shared(&mut self, source: &mut Source) -> Parsed<()> {
        self.next();
        let sort = self.a_sort()?;
        loop {
            let name = self.name("the name of a shared variable")?;
            let length = self.length()?;
            let initial = self.initial(length)?;
            source.shared.push(Shared { name, sort, length, initial });
            if !self.eat(",") {
                break;
            }
        }
        self.expect(";").map(|_| ())
    }

    /// `[n]`, or nothing.
    fn length(&mut self) -> Parsed<Option<u32>> {
        if !self.eat("[") {
            return Ok(None);
        }
        let (token, span) = self.next();
        let length = match token {
            Token::Number(number) if (1..=LONGEST).contains(&number) => number as u32,
            _ => return Err(Mistake::new(span, format!("expected a length from 1 to {LONGEST}"))),
        };
        self.expect("]")?;
        Ok(Some(length))
    }

    /// `= e`, `= {e, …}`, or nothing.
    fn initial(&mut self, length: Option<u32>) -> Parsed<Vec<Expr>> {
        if !self.eat("=") {
            return Ok(Vec::new());
        }
        let Some(length) = length else { return Ok(vec![self.expression()?]) };
        let open = self.expect("{")?;
        let mut all = Vec::new();
        while !self.is("}") {
            all.push(self.expression()?);
            if !self.eat(",") {
                break;
            }
        }
        self.expect("}")?;
        if all.len() > length as usize {
            return Err(Mistake::new(open, format!("{} values for {length} elements", all.len())));
        }
        Ok(all)
    }

    fn class(&mut self) -> Parsed<Class> {
        self.next();
        let name = self.name("the name of a class")?;
        self.expect("{")?;
        let (mut fields, mut methods) = (Vec::new(), Vec::new());
        while !self.eat("}") {
            let returns = if self.eat("void") { None } else { Some(self.a_sort()?) };
            let member = self.name("the name of a field or method")?;
            if self.is("(") {
                let parameters = self.parameters()?;
                let body = self.block()?;
                methods.push(Function { name: member, parameters, returns, body });
            } else {
                let Some(sort) = returns else { return Err(self.wrong("'('")) };
                self.expect(";")?;
                fields.push((member, sort));
            }
        }
        Ok(Class { name, fields, methods })
    }

    fn function(&mut self) -> Parsed<Function> {
        let returns = match self.eat("void") {
            true => None,
            false => Some(self.sort().ok_or_else(|| self.declaration_expected())?),
        };
        let name = self.name("the name of a function")?;
        if !self.is("(") {
            let mistake = self.wrong("'('");
            return Err(mistake.help("a variable outside of functions is shared: 'shared int x;'"));
        }
        let parameters = self.parameters()?;
        let body = self.block()?;
        Ok(Function { name, parameters, returns, body })
    }

    fn parameters(&mut self) -> Parsed<Vec<(Name, Sort)>> {
        self.expect("(")?;
        let mut all = Vec::new();
        while !self.is(")") {
            let sort = self.a_sort()?;
            all.push((self.name("the name of a parameter")?, sort));
            if !self.eat(",") {
                break;
            }
        }
        self.expect(")")?;
        Ok(all)
    }

    // Statements.

    fn block(&mut self) -> Parsed<Vec<Statement>> {
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

    fn deeper(&mut self) -> Parsed<()> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(Mistake::new(self.span(), format!("nested deeper than {DEEPEST}")));
        }
        Ok(())
    }

    /// A block, or a single statement.
    fn body(&mut self) -> Parsed<Vec<Statement>> {
        if self.is("{") {
            return self.block();
        }
        self.deeper()?;
        let statement = self.statement()?;
        self.depth -= 1;
        Ok(vec![statement])
    }

    fn statement(&mut self) -> Parsed<Statement> {
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

    fn simple(&mut self, kind: StatementKind) -> StatementKind {
        self.next();
        kind
    }

    fn for_loop(&mut self, span: Span) -> Parsed<Statement> {
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
    fn assignment_or_declaration(&mut self) -> Parsed<StatementKind> {
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

    // Expressions.

    fn bracketed(&mut self) -> Parsed<Expr> {
        self.expect("(")?;
        let inside = self.expression()?;
        self.expect(")")?;
        Ok(inside)
    }

    fn arguments(&mut self) -> Parsed<Vec<Expr>> {
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

    fn expression(&mut self) -> Parsed<Expr> {
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

    fn binary(&mut self, level: usize) -> Parsed<Expr> {
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

    fn unary(&mut self) -> Parsed<Expr> {
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

    fn postfix(&mut self) -> Parsed<Expr> {
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

    fn primary(&mut self) -> Parsed<Expr> {
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
