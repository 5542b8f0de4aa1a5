//! Globals that missing methods access directly, declared by the user (the RDIT paper's caveat 5).
//!
//! What a missing method could reach is taken from its arguments. If its code uses a global variable or lock as well,
//! somebody has to say so.

use crate::text_format;
use snag_model::ids::ReachId;
use snag_model::op::Op;
use snag_model::tables::{Object, Space};
use snag_model::{Action, EventId, MethodId, Trace};
use std::collections::HashMap;

/// A method, and something that it could reach whatever its arguments are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Global {
    /// The name of the method.
    pub method: String,
    /// What it could reach, as it is written in a set of Snag's text format: `x`, `lock:l`, `0x1000:8`.
    pub object: String,
}

/// What the names of objects other than variables begin with.
const KINDS: [&str; 5] = ["lock:", "thread:", "condition:", "semaphore:", "barrier:"];

/// Reads declarations of the form `method=object`.
pub fn parse(declarations: &[String]) -> Result<Vec<Global>, String> {
    let parse = |text: &String| match text.split_once('=') {
        Some((method, object)) if !method.is_empty() && !object.is_empty() => {
            if KINDS.contains(&object) {
                return Err(format!("'{text}' declares no global: expected a name behind '{object}'"));
            }
            Ok(Global { method: method.to_owned(), object: object.to_owned() })
        }
        _ => Err(format!("'{text}' declares no global: expected METHOD=OBJECT, for example 'log=lock:out'")),
    };
    declarations.iter().map(parse).collect()
}

/// Adds globals to what the missing methods of a trace could reach.
pub fn declare(trace: &mut Trace, globals: &[Global]) -> Result<(), String> {
    let Some(Global { method, .. }) = globals.first() else { return Ok(()) };
    if !trace.events.ops().contains(&Op::MethodBegin) {
        return Err(format!("a global is declared for '{method}', and in this trace no method is missing"));
    }
    let mut more: HashMap<MethodId, Vec<Object>> = HashMap::new();
    for Global { method, object } in globals {
        let Some(id) = trace.tables.names(Space::Method).find(method) else {
            return Err(format!(
                "a global is declared for '{method}', and the trace has no missing method of that name"
            ));
        };
        // It need not occur in the trace: two methods may use something that nobody else does.
        let found =
            text_format::object(object, &mut trace.tables).map_err(|why| format!("global '{object}': {why}"))?;
        more.entry(MethodId::new(id)).or_default().push(found);
    }
    let mut known: HashMap<(MethodId, ReachId), ReachId> = HashMap::new();
    for index in 0..trace.len() {
        let Action::MethodBegin { method, reach } = trace.action(EventId::new(index)) else { continue };
        let Some(more) = more.get(&method) else { continue };
        let reach = *known.entry((method, reach)).or_insert_with(|| {
            let mut objects = trace.tables.reach_objects(reach).to_vec();
            objects.extend_from_slice(more);
            trace.tables.reach(objects)
        });
        trace.events.set_action(index, Action::MethodBegin { method, reach });
    }
    Ok(())
}
