//! From a parsed program to one that is ready to run: names, types, instructions.

mod body;
mod expressions;
mod globals;
mod places;
mod statements;

use crate::ast::Source;
use crate::error::{Mistake, Span};
use crate::program::*;
use body::Body;
use globals::Globals;

type Compiled<T> = Result<T, Mistake>;

/// Most cells of shared memory, locks, and slots of a frame.
const MOST: usize = 1 << 20;

/// Makes a program ready to run; `file` is its name in locations.
pub fn compile(file: &str, source: &Source) -> Compiled<Program> {
    let mut globals = Globals::of(source)?;
    let mut functions = vec![Function::default(); globals.functions.len()];
    for (index, function) in source.functions.iter().enumerate() {
        functions[index] = Body::new(&mut globals, function.returns).compile(function, None)?;
    }
    let mut next = source.functions.len();
    for class in &source.classes {
        for method in &class.methods {
            functions[next] = Body::new(&mut globals, method.returns).compile(method, Some(&class.name.text))?;
            next += 1;
        }
    }
    let has_main = source.threads.iter().any(|thread| thread.name.text == "main");
    let mut threads = Vec::new();
    for (index, thread) in source.threads.iter().enumerate() {
        let arguments = globals.arguments[index].clone();
        let is_main = thread.name.text == "main";
        threads.push(ThreadCode {
            name: thread.name.text.clone(),
            function: functions.len(),
            arguments: arguments.clone(),
            starts: is_main || !has_main,
        });
        if !has_main && !arguments.is_empty() {
            let message = format!("thread {} has parameters, but nothing forks it", thread.name.text);
            return Err(Mistake::new(thread.name.span, message).help("add 'main { … }' that forks it"));
        }
        functions.push(Body::new(&mut globals, None).thread(thread, &arguments)?);
    }
    if threads.is_empty() {
        let start = Span { line: 1, column: 1, length: 1 };
        return Err(Mistake::new(start, "there is no thread").help("add 'main { … }' or 'thread T { … }'"));
    }
    let objects = globals.objects(source);
    Ok(Program {
        file: file.to_owned(),
        cells: globals.cells,
        locks: globals.lock_names,
        conditions: source.conditions.iter().map(|name| name.text.clone()).collect(),
        objects,
        functions,
        threads,
        members: globals.members,
    })
}
