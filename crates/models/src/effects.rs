//! Which effects there are, and what each one takes: one table for the parser, its messages, and the lists that users
//! read.

use crate::Function;
use snag_wire::models::{self as wire, effect, limit, success};

/// An effect, and what has to be said about it.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// What a file calls it.
    pub name: &'static str,
    /// What it does, for users.
    pub about: &'static str,
    /// Its number; see [`effect`].
    pub code: u8,
    /// What it always has of [`wire::Entry::flags`].
    pub flags: u8,
    /// The key of the argument that it is about, if there is one.
    pub object: Option<&'static str>,
    /// The key of a second argument, and whether it has to be there.
    pub second: Option<(&'static str, bool)>,
    /// What else it may take.
    pub options: &'static [Key],
}

/// What an effect may take besides arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// `mode`: "read" or "write".
    Mode,
    /// `bit`: the argument that tells locks at one address apart.
    Bit,
    /// `success`: see [`SUCCESS`].
    Success,
    /// One of [`LIMITS`]: the argument that says how long it may wait.
    Limit,
    /// `try`: a function that does the same without waiting.
    Try,
    /// `release`: a function that gives the lock back; it goes with `try`.
    Release,
    /// `bytes`: of an atomic access.
    Bytes,
    /// `done`: the value of an object that is initialised.
    Done,
    /// `entries`: of a table.
    Entries,
    /// `when`: an argument that is not 0 if it has the effect.
    When,
    /// The object may be `"library"`.
    OfLibrary,
}

/// How results say that a function did what it is there for.
pub const SUCCESS: [(&str, u8); 5] = [
    ("always", success::ALWAYS),
    ("nonzero", success::NONZERO),
    ("zero", success::ZERO),
    ("true", success::TRUE),
    ("pointer", success::POINTER),
];

/// How long functions may wait.
pub const LIMITS: [(&str, u8); 6] = [
    ("until-monotonic-us", limit::UNTIL_MONOTONIC_MICROSECONDS),
    ("for-us", limit::FOR_MICROSECONDS),
    ("for-ms", limit::FOR_MILLISECONDS),
    ("until-timeval", limit::UNTIL_TIMEVAL),
    ("until-timespec", limit::UNTIL_TIMESPEC),
    ("for-timespec", limit::FOR_TIMESPEC),
];

const fn shape(name: &'static str, code: u8, about: &'static str) -> Shape {
    Shape { name, about, code, flags: 0, object: None, second: None, options: &[] }
}

impl Shape {
    const fn on(self, object: &'static str) -> Shape {
        Shape { object: Some(object), ..self }
    }

    const fn with(self, key: &'static str) -> Shape {
        Shape { second: Some((key, true)), ..self }
    }

    const fn maybe_with(self, key: &'static str) -> Shape {
        Shape { second: Some((key, false)), ..self }
    }

    const fn takes(self, options: &'static [Key]) -> Shape {
        Shape { options, ..self }
    }

    const fn flagged(self, flags: u8) -> Shape {
        Shape { flags, ..self }
    }

    const fn never_waits(self) -> Shape {
        self.flagged(wire::NEVER_WAITS)
    }

    /// Keys that it takes, for messages.
    pub fn keys(&self) -> Vec<&'static str> {
        let named = self.object.into_iter().chain(self.second.map(|(key, _)| key));
        let options = self.options.iter().flat_map(|key| match key {
            Key::Mode => vec!["mode"],
            Key::Bit => vec!["bit"],
            Key::Success => vec!["success"],
            Key::Limit => LIMITS.iter().map(|(name, _)| *name).collect(),
            Key::Try => vec!["try"],
            Key::Release => vec!["release"],
            Key::Bytes => vec!["bytes"],
            Key::Done => vec!["done"],
            Key::Entries => vec!["entries"],
            Key::When => vec!["when"],
            Key::OfLibrary => vec![],
        });
        named.chain(options).collect()
    }
}

const WAITS: &[Key] = &[Key::Success, Key::Limit, Key::Try];
const LOCKS: &[Key] = &[Key::Mode, Key::Bit, Key::Success, Key::Limit, Key::Try];

/// All effects.
pub const EFFECTS: [Shape; 38] = [
    shape("unknown", effect::UNKNOWN, "nothing is known about it: for what a pattern does not mean"),
    shape("pure", effect::PURE, "shares nothing with other threads, and touches no memory that the program sees"),
    shape("arguments", effect::ARGUMENTS, "touches what its arguments lead to, and shares nothing else"),
    shape("acquire", effect::ACQUIRE, "takes a lock, waiting for it").on("lock").takes(LOCKS),
    shape("try-acquire", effect::ACQUIRE, "takes a lock if it is free")
        .on("lock")
        .takes(&[Key::Mode, Key::Bit, Key::Success])
        .never_waits(),
    shape("release", effect::RELEASE, "gives a lock back").on("lock").takes(&[Key::Bit]),
    shape("create-lock", effect::CREATE_LOCK, "initialises a lock").on("lock"),
    shape("destroy-lock", effect::DESTROY_LOCK, "ends a lock").on("lock"),
    shape("wait", effect::WAIT, "waits for a condition, without the lock meanwhile")
        .on("condition")
        .with("lock")
        .takes(&[Key::Success, Key::Limit, Key::Try, Key::Release]),
    shape("notify", effect::NOTIFY, "wakes one thread that waits for a condition").on("condition"),
    shape("notify-all", effect::NOTIFY_ALL, "wakes all of them").on("condition"),
    shape("create-condition", effect::CREATE_CONDITION, "initialises a condition").on("condition"),
    shape("destroy-condition", effect::DESTROY_CONDITION, "ends a condition").on("condition"),
    shape("take", effect::TAKE, "takes one from a semaphore, waiting for it").on("semaphore").takes(WAITS),
    shape("try-take", effect::TAKE, "takes one from a semaphore if there is one")
        .on("semaphore")
        .takes(&[Key::Success])
        .never_waits(),
    shape("post", effect::POST, "adds one to a semaphore").on("semaphore"),
    shape("create-semaphore", effect::CREATE_SEMAPHORE, "makes a semaphore").on("semaphore").with("count"),
    shape("destroy-semaphore", effect::DESTROY_SEMAPHORE, "ends a semaphore").on("semaphore"),
    shape("once", effect::ONCE, "calls a function unless that was done; so many bytes of the object have 'done' then")
        .on("object")
        .with("function")
        .takes(&[Key::Bytes, Key::Done]),
    shape("begin-once", effect::BEGIN_ONCE, "asks whether something is initialised; success: the caller has to do it")
        .on("object")
        .takes(&[Key::Success]),
    shape("end-once", effect::END_ONCE, "says that it is").on("object").with("value"),
    shape("atomic-read", effect::ATOMIC_READ, "reads atomically").on("object").takes(&[Key::Bytes]),
    shape("atomic-write", effect::ATOMIC_WRITE, "writes atomically").on("object").takes(&[Key::Bytes]),
    shape("atomic-update", effect::ATOMIC_UPDATE, "reads and writes atomically").on("object").takes(&[Key::Bytes]),
    shape("atomic-compare", effect::ATOMIC_COMPARE, "reads atomically, and writes if that succeeds")
        .on("object")
        .takes(&[Key::Bytes, Key::Success]),
    shape("push", effect::PUSH, "puts an item at the end of a queue").on("queue").with("item"),
    shape("push-anywhere", effect::PUSH, "puts an item into a queue, wherever")
        .on("queue")
        .with("item")
        .flagged(wire::ANYWHERE),
    shape("rearrange", effect::REARRANGE, "takes items out of a queue, or sorts them").on("queue"),
    shape("pop", effect::POP, "takes the first item of a queue, the result, waiting for one, maybe without a lock")
        .on("queue")
        .maybe_with("lock")
        .takes(&[Key::Limit, Key::Try]),
    shape("try-pop", effect::POP, "takes the first item of a queue, if there is one").on("queue").never_waits(),
    shape("look", effect::LOOK, "asks how many items are in a queue").on("queue"),
    shape("send", effect::SEND, "comes before whatever receives from the object later")
        .on("object")
        .takes(&[Key::OfLibrary]),
    shape("receive", effect::RECEIVE, "comes after whatever was sent by the object")
        .on("object")
        .takes(&[Key::OfLibrary]),
    shape("exchange", effect::EXCHANGE, "sends, and receives before it does anything")
        .on("object")
        .takes(&[Key::OfLibrary]),
    shape("run", effect::RUN, "sends before it does anything, and receives in the end")
        .on("object")
        .takes(&[Key::OfLibrary]),
    shape("call-later", effect::CALL_LATER, "has a function called later, maybe by another thread")
        .on("function")
        .maybe_with("data"),
    shape("call-later-table", effect::CALL_TABLE, "has the functions in a table of so many entries called later")
        .on("table")
        .takes(&[Key::Entries]),
    shape("await-calls", effect::AWAIT_CALLS, "comes after all functions that were called later; unless 'when' is 0")
        .takes(&[Key::When]),
];

/// What a function does, as one would write it into a file.
pub(crate) fn describe(function: &Function) -> String {
    let entry = &function.entry;
    let is_meant = |shape: &&Shape| {
        shape.code == entry.effect && shape.flags == entry.flags & (wire::NEVER_WAITS | wire::ANYWHERE)
    };
    let Some(shape) = EFFECTS.iter().find(is_meant) else { return String::new() };
    let mut parts = Vec::new();
    if entry.flags & wire::GLOBAL != 0 {
        parts.push("object \"library\"".to_owned());
    }
    let named =
        |names: &[(&'static str, u8)], code: u8| names.iter().find(|entry| entry.1 == code).map_or("", |entry| entry.0);
    let arguments = [
        (shape.object.unwrap_or(""), entry.object),
        (shape.second.map_or("", |(key, _)| key), entry.second),
        ("when", if shape.object.is_none() { entry.object } else { 0 }),
        (if shape.options.contains(&Key::Done) { "done" } else { "bit" }, entry.part),
        (named(&LIMITS, entry.unit), entry.limit),
        (if shape.options.contains(&Key::Entries) { "entries" } else { "bytes" }, entry.size),
    ];
    parts.extend(arguments.iter().filter(|(_, number)| *number != 0).map(|(key, number)| format!("{key} {number}")));
    match entry.flags & (wire::READS | wire::SHARED) {
        0 => {}
        wire::SHARED => parts.push("mode write".to_owned()),
        _ => parts.push("mode read".to_owned()),
    }
    if entry.success != success::ALWAYS {
        parts.push(format!("success {}", named(&SUCCESS, entry.success)));
    }
    parts.extend(function.attempt.iter().map(|name| format!("try {name}")));
    parts.extend(function.release.iter().map(|name| format!("release {name}")));
    match parts.is_empty() {
        true => shape.name.to_owned(),
        false => format!("{}: {}", shape.name, parts.join(", ")),
    }
}
