//! What random traces look like: how many of what, and which operations how often.
//!
//! The presets are themselves random, so that a run over many seeds sees many
//! shapes; all are biased towards conflict (1 to 3 variables, 1 to 3 locks).

use snag_synthesis::Rng;

/// How often each group of operations is tried, relative to the others. 0: never.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)]
pub struct Weights {
    pub plain: u32,
    pub atomics: u32,
    pub locks: u32,
    pub read_locks: u32,
    pub fork_join: u32,
    pub conditions: u32,
    pub semaphores: u32,
    pub barriers: u32,
    pub heap: u32,
    pub methods: u32,
    pub branches: u32,
    pub symbols: u32,
    /// `begin` and `end`.
    pub boundaries: u32,
    /// Attempts that fail, and looks at the count of a semaphore.
    pub probes: u32,
    /// What went wrong: uses of freed memory, locks given back by others, waits without an end.
    pub faults: u32,
    pub marks: u32,
}

/// What random traces look like.
#[derive(Clone, Debug)]
pub struct Shape {
    /// At most so many threads.
    pub threads: usize,
    /// At most so many events; fewer only if all threads are stuck.
    pub events: usize,
    /// Variables that are not heap blocks.
    pub variables: usize,
    /// Locks.
    pub locks: usize,
    /// Source locations; 0: no event has one.
    pub locations: usize,
    /// Which operations.
    pub weights: Weights,
    /// Holders acquire their locks again.
    pub reentrant: bool,
    /// Percentage of variables that are address ranges of 1, 2, 4 or 8 bytes, overlapping one another.
    pub ranges: u32,
    /// Percentage of accesses that carry a value, and of variables with a declared initial value.
    pub values: u32,
    /// Percentage of atomic operations that are fences.
    pub fences: u32,
    /// Percentage of values of eight bytes that are addresses in heap blocks. Only where there are some.
    pub pointers: u32,
    /// Percentage of reads with a value that memory does not hold.
    pub unexplained: u32,
    /// Percentage of steps in which a thread that holds a lock releases one, whatever the weights say.
    pub release: u32,
    /// Percentage of steps in which the same thread goes on.
    pub stay: u32,
    /// Threads come and go: few are there from the beginning, and they may be joined at any time.
    pub brief: bool,
}

impl Shape {
    /// Accesses, locks, fork and join: what RAPID's STD format can say.
    pub fn classic(rng: &mut Rng) -> Shape {
        Shape {
            threads: rng.between(2, 5),
            events: rng.between(8, 16),
            variables: rng.between(1, 3),
            locks: rng.between(1, 2),
            locations: rng.below(7),
            weights: Weights {
                plain: 10,
                locks: rng.pick(&[0, 4, 8]),
                fork_join: rng.pick(&[0, 2, 3]),
                ..Weights::default()
            },
            reentrant: rng.chance(30),
            ranges: 0,
            values: 0,
            fences: 15,
            pointers: 0,
            unexplained: 0,
            release: rng.pick(&[10, 30, 50]),
            stay: rng.pick(&[30, 60, 80]),
            brief: false,
        }
    }

    /// Many critical sections, nested and re-entrant; good for deadlocks.
    pub fn lock_heavy(rng: &mut Rng) -> Shape {
        Shape {
            threads: rng.between(2, 3),
            events: rng.between(10, 16),
            variables: rng.between(1, 2),
            locks: rng.between(2, 3),
            weights: Weights {
                plain: rng.pick(&[2, 6, 12]),
                locks: 12,
                read_locks: rng.pick(&[0, 0, 4, 8]),
                conditions: rng.pick(&[0, 0, 0, 4]),
                fork_join: rng.pick(&[0, 0, 0, 1]),
                ..Weights::default()
            },
            reentrant: rng.chance(30),
            release: 5,
            stay: rng.pick(&[50, 75]),
            ..Shape::classic(rng)
        }
    }

    /// Threads that meet all the time: nested, non-nested and re-entrant locks, wait and notify, fork and join, few accesses.
    pub fn meetings(rng: &mut Rng) -> Shape {
        Shape {
            locks: rng.between(1, 4),
            weights: Weights {
                plain: rng.pick(&[3, 6]),
                locks: 12,
                conditions: rng.pick(&[0, 0, 4, 8]),
                fork_join: rng.pick(&[0, 0, 2, 4]),
                ..Weights::default()
            },
            reentrant: rng.chance(40),
            release: rng.pick(&[5, 20, 40]),
            stay: rng.pick(&[30, 60]),
            ..Shape::classic(rng)
        }
    }

    /// Accesses with values, and branches: where the levels differ.
    pub fn with_values(rng: &mut Rng) -> Shape {
        Shape {
            weights: Weights {
                plain: 12,
                atomics: rng.pick(&[0, 0, 3, 6]),
                locks: rng.pick(&[0, 3]),
                fork_join: rng.below(3) as u32,
                branches: rng.pick(&[0, 2, 4]),
                methods: rng.pick(&[0, 0, 0, 2]),
                heap: rng.pick(&[0, 0, 2]),
                ..Weights::default()
            },
            ranges: rng.pick(&[0, 0, 50, 100]),
            values: rng.pick(&[60, 90, 100]),
            unexplained: rng.pick(&[0, 0, 10]),
            ..Shape::classic(rng)
        }
    }

    /// Blocks that are freed and allocated again, and addresses in them.
    pub fn with_pointers(rng: &mut Rng) -> Shape {
        Shape {
            variables: 1,
            weights: Weights {
                plain: 12,
                atomics: rng.pick(&[0, 0, 8]),
                locks: rng.pick(&[0, 3]),
                branches: rng.pick(&[0, 0, 2]),
                methods: rng.pick(&[0, 0, 0, 2]),
                heap: rng.pick(&[8, 12]),
                ..Weights::default()
            },
            ranges: 100,
            values: rng.pick(&[90, 100]),
            pointers: rng.pick(&[60, 90]),
            ..Shape::classic(rng)
        }
    }

    /// Atomics of every order, chains of read-modify-writes and fences, beside plain accesses and now and then a lock or an
    /// attempt that fails.
    pub fn weak(rng: &mut Rng) -> Shape {
        let mut maybe = |weight: u32| if rng.chance(20) { weight } else { 0 };
        let weights = Weights {
            plain: 8,
            atomics: 14,
            locks: maybe(4),
            read_locks: maybe(4),
            fork_join: maybe(3),
            conditions: maybe(4),
            semaphores: maybe(3),
            barriers: maybe(3),
            heap: maybe(4),
            methods: maybe(3),
            probes: maybe(6),
            ..Weights::default()
        };
        Shape {
            variables: rng.between(2, 4),
            weights,
            ranges: rng.pick(&[0, 0, 0, 50, 100]),
            values: rng.pick(&[0, 0, 100]),
            fences: rng.pick(&[0, 20, 40]),
            ..Shape::classic(rng)
        }
    }

    /// Any operation beside any other; each trace has a random choice of groups.
    pub fn everything(rng: &mut Rng) -> Shape {
        let all = rng.chance(15);
        let mut maybe = |weight: u32| if all || rng.chance(25) { weight } else { 0 };
        let weights = Weights {
            plain: 10,
            atomics: maybe(5),
            locks: maybe(6),
            read_locks: maybe(5),
            fork_join: maybe(3),
            conditions: maybe(6),
            semaphores: maybe(4),
            barriers: maybe(5),
            heap: maybe(5),
            methods: maybe(4),
            branches: maybe(3),
            symbols: maybe(3),
            boundaries: maybe(2),
            probes: maybe(4),
            faults: maybe(4),
            marks: maybe(1),
        };
        Shape {
            weights,
            reentrant: rng.chance(40),
            ranges: rng.pick(&[0, 0, 50, 100]),
            values: rng.pick(&[0, 50, 90, 100]),
            unexplained: rng.pick(&[0, 0, 5, 20]),
            ..Shape::classic(rng)
        }
    }

    /// Attempts that fail, beside all that they may rest on.
    pub fn with_attempts(rng: &mut Rng) -> Shape {
        let kinds = rng.below(3);
        Shape {
            threads: rng.between(2, 4),
            events: rng.between(8, 16),
            weights: Weights {
                plain: 8,
                locks: if kinds != 1 { 8 } else { rng.pick(&[0, 4]) },
                read_locks: if kinds == 0 { 6 } else { 0 },
                semaphores: if kinds == 1 { 8 } else { 0 },
                fork_join: if kinds == 2 { 4 } else { 0 },
                boundaries: if kinds == 2 { 4 } else { 0 },
                conditions: rng.pick(&[0, 0, 3]),
                branches: rng.pick(&[0, 0, 2]),
                methods: rng.pick(&[0, 0, 0, 2]),
                probes: rng.pick(&[6, 12]),
                ..Weights::default()
            },
            values: rng.pick(&[0, 90]),
            reentrant: rng.chance(30),
            release: rng.pick(&[5, 20]),
            ..Shape::classic(rng)
        }
    }

    /// What goes wrong in a run, beside all that it is about.
    pub fn with_faults(rng: &mut Rng) -> Shape {
        Shape {
            events: rng.between(10, 24),
            weights: Weights {
                plain: 4,
                locks: rng.pick(&[4, 8]),
                read_locks: rng.pick(&[0, 3]),
                conditions: rng.pick(&[0, 3]),
                semaphores: rng.pick(&[0, 3]),
                barriers: rng.pick(&[0, 3]),
                heap: rng.pick(&[4, 8]),
                faults: rng.pick(&[4, 8]),
                ..Weights::default()
            },
            ranges: rng.pick(&[0, 50, 100]),
            ..Shape::classic(rng)
        }
    }

    /// Many threads that live shortly: created by one another, joined by whoever is there, or by nobody.
    pub fn short_lived(rng: &mut Rng) -> Shape {
        let shape = Shape::any(rng);
        let weights = Weights { fork_join: rng.pick(&[6, 12, 20]), ..shape.weights };
        Shape { threads: rng.between(6, 24), weights, brief: true, ..shape }
    }

    /// One of the other presets.
    pub fn any(rng: &mut Rng) -> Shape {
        match rng.below(11) {
            0 => Shape::classic(rng),
            1 => Shape::lock_heavy(rng),
            2..=4 => Shape::with_values(rng),
            5 => Shape::with_pointers(rng),
            6 => Shape::with_attempts(rng),
            _ => Shape::everything(rng),
        }
    }
}
