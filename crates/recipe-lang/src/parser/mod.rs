//! From tokens to a program: recursive descent, one function for each rule of the grammar in `docs/rcp.md`.

mod expressions;
mod statements;

use crate::ast::*;
use crate::error::{Mistake, Span};
use crate::lexer::{Token, tokens};
use snag_model::symbolic::Sort;

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
}
