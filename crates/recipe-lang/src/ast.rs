//! A program as it is written.

use crate::error::Span;
use snag_model::symbolic::Sort;

/// A whole program.
#[derive(Clone, Debug, Default)]
pub struct Source {
    /// Shared variables and arrays.
    pub shared: Vec<Shared>,
    /// Locks and arrays of locks: name, and how many if it is an array.
    pub locks: Vec<(Name, Option<u32>)>,
    /// Condition variables.
    pub conditions: Vec<Name>,
    /// Classes.
    pub classes: Vec<Class>,
    /// Objects: name and class.
    pub objects: Vec<(Name, Name)>,
    /// Functions.
    pub functions: Vec<Function>,
    /// Threads; `main` is among them if there is one.
    pub threads: Vec<Function>,
}

/// A name and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// The name.
    pub text: String,
    /// Where.
    pub span: Span,
}

/// A shared variable or array.
#[derive(Clone, Debug)]
pub struct Shared {
    /// Its name.
    pub name: Name,
    /// The type of its values.
    pub sort: Sort,
    /// Elements, if it is an array.
    pub length: Option<u32>,
    /// Initial values; what is missing is 0.
    pub initial: Vec<Expr>,
}

/// A class: fields and methods.
#[derive(Clone, Debug)]
pub struct Class {
    /// Its name.
    pub name: Name,
    /// Fields, which every object has.
    pub fields: Vec<(Name, Sort)>,
    /// Methods.
    pub methods: Vec<Function>,
}

/// A function, a method, or the body of a thread.
#[derive(Clone, Debug)]
pub struct Function {
    /// Its name.
    pub name: Name,
    /// Parameters.
    pub parameters: Vec<(Name, Sort)>,
    /// The type of what it returns, if anything.
    pub returns: Option<Sort>,
    /// What it does.
    pub body: Vec<Statement>,
}

/// A statement.
#[derive(Clone, Debug)]
pub struct Statement {
    /// What it does.
    pub kind: StatementKind,
    /// Where it stands.
    pub span: Span,
}

/// What a statement does.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum StatementKind {
    Declare {
        name: Name,
        sort: Sort,
        length: Option<u32>,
        initial: Vec<Expr>,
    },
    Assign {
        target: Expr,
        operator: Option<&'static str>,
        value: Expr,
    },
    /// `i++` and `i--`.
    Count {
        target: Expr,
        up: bool,
    },
    Evaluate(Expr),
    If {
        condition: Expr,
        yes: Vec<Statement>,
        no: Vec<Statement>,
    },
    While {
        condition: Expr,
        body: Vec<Statement>,
    },
    For {
        first: Option<Box<Statement>>,
        condition: Option<Expr>,
        step: Option<Box<Statement>>,
        body: Vec<Statement>,
    },
    Block(Vec<Statement>),
    Break,
    Continue,
    Return(Option<Expr>),
    Lock(Expr),
    Unlock(Expr),
    Wait {
        condition: Name,
        lock: Expr,
    },
    Notify {
        condition: Name,
        all: bool,
    },
    Fork {
        thread: Name,
        arguments: Vec<Expr>,
    },
    Join(Name),
    Assert(Expr),
    Print(Vec<Expr>),
}

/// An expression.
#[derive(Clone, Debug)]
pub struct Expr {
    /// What it is.
    pub kind: ExprKind,
    /// Where it stands.
    pub span: Span,
}

/// What an expression is.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum ExprKind {
    Number(i128),
    Variable(String),
    Index(Box<Expr>, Box<Expr>),
    Field(Box<Expr>, Name),
    Unary(&'static str, Box<Expr>),
    Binary(&'static str, Box<Expr>, Box<Expr>),
    Choose(Box<Expr>, Box<Expr>, Box<Expr>),
    Convert(Sort, Box<Expr>),
    Call(Name, Vec<Expr>),
    CallVirtual(Box<Expr>, Name, Vec<Expr>),
}
