//! The few functions of libz3 that are needed, and a solver made of them.
//!
//! Written by hand, as a binding from a crate would bring a generator that needs clang. All these functions are part
//! of Z3's C interface since version 4.8 at the latest. A context is used by one thread at a time; only
//! [`Z3_interrupt`] may be, and is, called by another.
//!
//! The context counts references. Each solver keeps all terms that were made for it in a vector, from the moment when
//! they are made, and lets go of them together.

use crate::maximal::solver::{Outcome, Stop};
use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A pointer to one of Z3's objects.
type Raw = *mut c_void;
type ErrorHandler = extern "C" fn(context: Raw, code: c_int);

#[link(name = "z3")]
unsafe extern "C" {
    fn Z3_get_full_version() -> *const c_char;
    fn Z3_mk_config() -> Raw;
    fn Z3_del_config(config: Raw);
    fn Z3_mk_context_rc(config: Raw) -> Raw;
    fn Z3_del_context(context: Raw);
    fn Z3_set_error_handler(context: Raw, handler: Option<ErrorHandler>);
    fn Z3_get_error_code(context: Raw) -> c_int;
    fn Z3_get_error_msg(context: Raw, code: c_int) -> *const c_char;
    fn Z3_interrupt(context: Raw);
    fn Z3_mk_ast_vector(context: Raw) -> Raw;
    fn Z3_ast_vector_inc_ref(context: Raw, vector: Raw);
    fn Z3_ast_vector_dec_ref(context: Raw, vector: Raw);
    fn Z3_ast_vector_push(context: Raw, vector: Raw, term: Raw);
    fn Z3_mk_int_sort(context: Raw) -> Raw;
    fn Z3_mk_bool_sort(context: Raw) -> Raw;
    fn Z3_mk_int_symbol(context: Raw, number: c_int) -> Raw;
    fn Z3_mk_string_symbol(context: Raw, name: *const c_char) -> Raw;
    fn Z3_mk_const(context: Raw, symbol: Raw, sort: Raw) -> Raw;
    fn Z3_mk_lt(context: Raw, a: Raw, b: Raw) -> Raw;
    fn Z3_mk_eq(context: Raw, a: Raw, b: Raw) -> Raw;
    fn Z3_mk_not(context: Raw, a: Raw) -> Raw;
    fn Z3_mk_or(context: Raw, count: c_uint, parts: *const Raw) -> Raw;
    fn Z3_mk_and(context: Raw, count: c_uint, parts: *const Raw) -> Raw;
    fn Z3_mk_simple_solver(context: Raw) -> Raw;
    fn Z3_solver_inc_ref(context: Raw, solver: Raw);
    fn Z3_solver_dec_ref(context: Raw, solver: Raw);
    fn Z3_solver_from_string(context: Raw, solver: Raw, text: *const c_char);
    fn Z3_solver_assert(context: Raw, solver: Raw, formula: Raw);
    fn Z3_solver_push(context: Raw, solver: Raw);
    fn Z3_solver_pop(context: Raw, solver: Raw, count: c_uint);
    fn Z3_solver_check(context: Raw, solver: Raw) -> c_int;
    fn Z3_solver_get_model(context: Raw, solver: Raw) -> Raw;
    fn Z3_solver_set_params(context: Raw, solver: Raw, params: Raw);
    fn Z3_mk_params(context: Raw) -> Raw;
    fn Z3_params_inc_ref(context: Raw, params: Raw);
    fn Z3_params_dec_ref(context: Raw, params: Raw);
    fn Z3_params_set_uint(context: Raw, params: Raw, key: Raw, value: c_uint);
    fn Z3_model_inc_ref(context: Raw, model: Raw);
    fn Z3_model_dec_ref(context: Raw, model: Raw);
    fn Z3_model_eval(context: Raw, model: Raw, term: Raw, complete: bool, value: *mut Raw) -> bool;
    fn Z3_get_numeral_int64(context: Raw, term: Raw, value: *mut i64) -> bool;
}

/// The version of the library.
pub fn version() -> String {
    // SAFETY: a static string of the library.
    unsafe { CStr::from_ptr(Z3_get_full_version()) }.to_string_lossy().into_owned()
}

/// Which of Z3's solvers for integers to use.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Arithmetic {
    /// The one that Z3 takes by itself, for linear arithmetic. This is what RVPredict uses.
    General,
    /// The one for difference logic, ten times as fast on these formulas.
    #[default]
    Difference,
}

/// A formula or an integer: a pointer, and laid out as one. Lives as long as the solver it was made by.
#[derive(Clone, Copy, PartialEq, Debug)]
#[repr(transparent)]
pub(crate) struct Term(NonNull<c_void>);

/// What solvers are made in. Takes some milliseconds to make.
pub(crate) struct Context {
    raw: Raw,
    /// A solver was interrupted. It is not documented what works after that, so nothing is tried any more.
    interrupted: Cell<bool>,
}

// SAFETY: a context may move to another thread; it must not be used by two at once, and it is not `Sync`.
unsafe impl Send for Context {}

/// Errors are looked up where one can occur; without a handler the library ends the program.
extern "C" fn ignore(_: Raw, _: c_int) {}

impl Context {
    pub fn new() -> Context {
        // SAFETY: the configuration is not used after the context was made.
        unsafe {
            let config = Z3_mk_config();
            let raw = Z3_mk_context_rc(config);
            Z3_del_config(config);
            Z3_set_error_handler(raw, Some(ignore));
            Context { raw, interrupted: Cell::new(false) }
        }
    }

    pub fn was_interrupted(&self) -> bool {
        self.interrupted.get()
    }

    fn error(&self) -> Option<String> {
        // SAFETY: the context is alive; the message is copied before the next call.
        unsafe {
            match Z3_get_error_code(self.raw) {
                0 => None,
                code => Some(CStr::from_ptr(Z3_get_error_msg(self.raw, code)).to_string_lossy().into_owned()),
            }
        }
    }

    /// The formulas are well-typed, so an error while they are made is a lack of memory.
    fn exists(&self, raw: Raw) -> NonNull<c_void> {
        match (NonNull::new(raw), self.error()) {
            (Some(raw), None) => raw,
            (_, why) => panic!("Z3: {}", why.unwrap_or_default()),
        }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: solvers borrow the context, so there are none any more.
        unsafe { Z3_del_context(self.raw) }
    }
}

/// A solver, and the terms that were made for it.
pub(crate) struct Solver<'z> {
    owner: &'z Context,
    context: Raw,
    solver: Raw,
    terms: Raw,
    integers: Raw,
    booleans: Raw,
    /// How many constants have been named.
    names: c_int,
}

impl<'z> Solver<'z> {
    pub fn new(owner: &'z Context, arithmetic: Arithmetic) -> Solver<'z> {
        let context = owner.raw;
        // SAFETY: each object is referenced before the next one is made.
        unsafe {
            let solver = owner.exists(Z3_mk_simple_solver(context)).as_ptr();
            Z3_solver_inc_ref(context, solver);
            let terms = owner.exists(Z3_mk_ast_vector(context)).as_ptr();
            Z3_ast_vector_inc_ref(context, terms);
            let integers = Z3_mk_int_sort(context);
            Z3_ast_vector_push(context, terms, integers);
            let booleans = Z3_mk_bool_sort(context);
            Z3_ast_vector_push(context, terms, booleans);
            let all = Solver { owner, context, solver, terms, integers, booleans, names: 0 };
            if arithmetic == Arithmetic::Difference {
                // The number of the solver for difference logic; it must be chosen before anything is required.
                all.set(c"smt.arith.solver", 1);
            }
            all
        }
    }

    fn term(&self, raw: Raw) -> Term {
        let term = self.owner.exists(raw);
        // SAFETY: the newest term lives until the next call, and that is this one.
        unsafe { Z3_ast_vector_push(self.context, self.terms, raw) };
        Term(term)
    }

    fn constant(&mut self, sort: Raw) -> Term {
        self.names += 1;
        // SAFETY: the sort is one of this context.
        self.term(unsafe { Z3_mk_const(self.context, Z3_mk_int_symbol(self.context, self.names), sort) })
    }

    pub fn integer(&mut self) -> Term {
        self.constant(self.integers)
    }

    pub fn boolean(&mut self) -> Term {
        self.constant(self.booleans)
    }

    pub fn less(&self, a: Term, b: Term) -> Term {
        // SAFETY: the terms are of this solver, which keeps them.
        self.term(unsafe { Z3_mk_lt(self.context, a.0.as_ptr(), b.0.as_ptr()) })
    }

    pub fn equal(&self, a: Term, b: Term) -> Term {
        // SAFETY: the terms are of this solver, which keeps them.
        self.term(unsafe { Z3_mk_eq(self.context, a.0.as_ptr(), b.0.as_ptr()) })
    }

    pub fn not(&self, a: Term) -> Term {
        // SAFETY: the term is of this solver, which keeps it.
        self.term(unsafe { Z3_mk_not(self.context, a.0.as_ptr()) })
    }

    pub fn any(&self, parts: &[Term]) -> Term {
        // SAFETY: the terms are of this solver, which keeps them. A term is a pointer to the object, so a slice of terms is
        // what the library expects.
        self.term(unsafe { Z3_mk_or(self.context, parts.len() as c_uint, parts.as_ptr().cast()) })
    }

    pub fn all(&self, parts: &[Term]) -> Term {
        // SAFETY: as in `any`.
        self.term(unsafe { Z3_mk_and(self.context, parts.len() as c_uint, parts.as_ptr().cast()) })
    }

    /// Requires all that a text in SMT-LIB's language requires. What is wrong with it, if something is.
    pub fn read(&self, text: &CStr) -> Result<(), String> {
        // SAFETY: the text ends with a zero and is not kept.
        unsafe { Z3_solver_from_string(self.context, self.solver, text.as_ptr()) };
        self.owner.error().map_or(Ok(()), Err)
    }

    pub fn require(&self, formula: Term) {
        // SAFETY: the formula is of this solver, which keeps it.
        unsafe { Z3_solver_assert(self.context, self.solver, formula.0.as_ptr()) }
    }

    /// What is required from now on is forgotten at the matching [`Solver::pop`].
    pub fn push(&self) {
        // SAFETY: the solver is alive, and its context with it.
        unsafe { Z3_solver_push(self.context, self.solver) }
    }

    pub fn pop(&self) {
        // SAFETY: as in `push`; there is one level to leave, as callers pop what they have pushed.
        unsafe { Z3_solver_pop(self.context, self.solver, 1) }
    }

    /// Looks for values.
    pub fn check(&self, timeout: Option<Duration>, stop: Option<&Stop>) -> Outcome {
        // The largest number stands for none.
        self.set(c"timeout", timeout.map_or(c_uint::MAX, |time| time.as_millis().clamp(1, 0x7fff_ffff) as c_uint));
        let result = match stop {
            // SAFETY: the solver is alive, and nobody else uses its context.
            None => unsafe { Z3_solver_check(self.context, self.solver) },
            Some(stop) => self.check_watched(stop),
        };
        match result {
            1 => Outcome::Satisfiable,
            -1 => Outcome::Unsatisfiable,
            _ => Outcome::Stopped,
        }
    }

    fn set(&self, key: &CStr, value: c_uint) {
        // SAFETY: the parameters are referenced as long as they are used.
        unsafe {
            let params = Z3_mk_params(self.context);
            Z3_params_inc_ref(self.context, params);
            Z3_params_set_uint(self.context, params, Z3_mk_string_symbol(self.context, key.as_ptr()), value);
            Z3_solver_set_params(self.context, self.solver, params);
            Z3_params_dec_ref(self.context, params);
        }
    }

    /// Another thread asks every few milliseconds whether to stop.
    fn check_watched(&self, stop: &Stop) -> c_int {
        let (done, context) = (AtomicBool::new(false), Interruptible(self.context));
        let (done, context) = (&done, &context);
        std::thread::scope(|scope| {
            let watcher = scope.spawn(move || {
                while !done.load(Ordering::Acquire) {
                    if stop() {
                        context.interrupt();
                        return true;
                    }
                    std::thread::park_timeout(Duration::from_millis(5));
                }
                false
            });
            // SAFETY: the other thread does nothing but interrupt.
            let result = unsafe { Z3_solver_check(self.context, self.solver) };
            done.store(true, Ordering::Release);
            watcher.thread().unpark();
            // An interrupt that came too late makes the next call fail.
            let interrupted = watcher.join().unwrap_or(true);
            self.owner.interrupted.set(interrupted);
            if interrupted { 0 } else { result }
        })
    }

    /// The values of integers in what was found.
    pub fn values(&self, integers: &[Term]) -> Vec<i64> {
        // SAFETY: the model is referenced while it is used; each value is read before the next call.
        unsafe {
            let model = Z3_solver_get_model(self.context, self.solver);
            self.owner.exists(model);
            Z3_model_inc_ref(self.context, model);
            let value = |term: &Term| {
                let (mut value, mut number) = (null_mut(), 0);
                let known = Z3_model_eval(self.context, model, term.0.as_ptr(), true, &mut value)
                    && Z3_get_numeral_int64(self.context, value, &mut number);
                assert!(known, "Z3: a model without a value: {}", self.owner.error().unwrap_or_default());
                number
            };
            let values = integers.iter().map(value).collect();
            Z3_model_dec_ref(self.context, model);
            values
        }
    }
}

/// A context as the thread knows it that may stop its solver.
struct Interruptible(Raw);

// SAFETY: interrupting is what the library allows another thread to do.
unsafe impl Sync for Interruptible {}

impl Interruptible {
    fn interrupt(&self) {
        // SAFETY: the context lives until the thread that does this has been joined.
        unsafe { Z3_interrupt(self.0) }
    }
}

impl Drop for Solver<'_> {
    fn drop(&mut self) {
        // SAFETY: nothing uses the solver or its terms after this.
        unsafe {
            Z3_ast_vector_dec_ref(self.context, self.terms);
            Z3_solver_dec_ref(self.context, self.solver);
        }
    }
}
