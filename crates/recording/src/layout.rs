//! How variables of a program are made up, so that bytes of one have the name that the source has for them:
//! `pool.jobs[3].state` instead of `pool[80..84]`.

mod dwarf;

use crate::beside::{Input, put, put_text};
use std::collections::HashMap;
use std::path::Path;

/// What a variable, or a part of one, consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Type {
    /// Bytes.
    pub size: u64,
    /// What is in them.
    pub shape: Shape,
}

/// What is in the bytes of a type. Types are meant by their numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A number, a pointer, or something that is not known.
    Plain,
    /// Members, in any order; they overlap in a union. One without a name lends its members their place.
    Members(Vec<Member>),
    /// One after the other, as many as fit.
    Elements(u32),
}

/// A member of a structure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Empty for a part that has none: a base class, an anonymous union.
    pub name: String,
    /// Bytes before it.
    pub offset: u64,
    /// What it is.
    pub of: u32,
}

/// A variable of which more is known than its symbol says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// What it is.
    pub of: u32,
    /// What to call it; empty if the symbol is good enough.
    pub name: String,
}

/// The variables of a program, or of one file of it, by their addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layouts {
    /// All types that occur in them.
    pub types: Vec<Type>,
    /// By first byte.
    pub variables: HashMap<u64, Known>,
}

/// Deeper than any type is nested.
const DEPTH: usize = 64;

impl Layouts {
    /// Reads the debug information of a file; empty if there is none.
    pub fn of_file(path: &Path) -> Layouts {
        std::fs::read(path).ok().and_then(|bytes| dwarf::read(&bytes)).unwrap_or_default()
    }

    /// What to append to the name of the variable at `start` to get the name of `size` bytes from `offset` on in it.
    pub fn path(&self, start: u64, offset: u64, size: u64) -> Option<String> {
        let mut path = String::new();
        let of = self.variables.get(&start)?.of;
        self.descend(of, offset, size, DEPTH, &mut path)?;
        Some(path)
    }

    /// The outermost part that is exactly these bytes; else the innermost that contains them, and which of its bytes.
    /// Whether it is exactly these.
    fn descend(&self, of: u32, offset: u64, size: u64, depth: usize, path: &mut String) -> Option<bool> {
        let Type { size: whole, shape } = self.types.get(of as usize)?;
        if offset.checked_add(size)? > *whole || depth == 0 {
            return None;
        }
        if (offset, size) == (0, *whole) {
            return Some(true);
        }
        match shape {
            Shape::Elements(element) => {
                let stride = self.types.get(*element as usize)?.size;
                let index = offset.checked_div(stride)?;
                if offset + size <= (index + 1) * stride {
                    path.push_str(&format!("[{index}]"));
                    return self.descend(*element, offset % stride, size, depth - 1, path);
                }
            }
            Shape::Members(members) => {
                // Members of a union overlap: one that is just these bytes is better than a part of another.
                let mut part = None;
                for member in members {
                    let Some(inside) = offset.checked_sub(member.offset) else { continue };
                    let mut name = if member.name.is_empty() { String::new() } else { format!(".{}", member.name) };
                    match self.descend(member.of, inside, size, depth - 1, &mut name) {
                        Some(true) => {
                            path.push_str(&name);
                            return Some(true);
                        }
                        Some(false) => _ = part.get_or_insert(name),
                        None => {}
                    }
                }
                if let Some(name) = part {
                    path.push_str(&name);
                    return Some(false);
                }
            }
            Shape::Plain => {}
        }
        path.push_str(&format!("[{offset}..{}]", offset + size));
        Some(false)
    }

    /// Adds variables of another file that is mapped `bias` bytes higher, those that are wanted.
    pub fn add(&mut self, other: &Layouts, bias: u64, wanted: impl Fn(u64) -> bool) {
        let mut numbers = HashMap::new();
        let mut variables: Vec<_> = other.variables.iter().map(|(at, known)| (at.wrapping_add(bias), known)).collect();
        variables.retain(|(address, _)| wanted(*address));
        variables.sort_unstable_by_key(|(address, _)| *address);
        for (address, known) in variables {
            let of = self.copy(other, known.of, &mut numbers);
            self.variables.insert(address, Known { of, name: known.name.clone() });
        }
    }

    fn copy(&mut self, other: &Layouts, of: u32, numbers: &mut HashMap<u32, u32>) -> u32 {
        if let Some(&number) = numbers.get(&of) {
            return number;
        }
        let Type { size, shape } = other.types[of as usize].clone();
        let number = self.types.len() as u32;
        numbers.insert(of, number);
        self.types.push(Type { size, shape: Shape::Plain });
        let shape = match shape {
            Shape::Plain => Shape::Plain,
            Shape::Elements(element) => Shape::Elements(self.copy(other, element, numbers)),
            Shape::Members(members) => Shape::Members(
                members.into_iter().map(|m| Member { of: self.copy(other, m.of, numbers), ..m }).collect(),
            ),
        };
        self.types[number as usize].shape = shape;
        number
    }

    /// As the contents of a block: see [`crate::beside`].
    pub fn write(&self, out: &mut Vec<u8>) {
        put(out, self.types.len() as u64);
        for Type { size, shape } in &self.types {
            put(out, *size);
            match shape {
                Shape::Plain => put(out, 0),
                Shape::Elements(element) => {
                    put(out, 1);
                    put(out, *element as u64);
                }
                Shape::Members(members) => {
                    put(out, 2 + members.len() as u64);
                    for Member { name, offset, of } in members {
                        put_text(out, name);
                        put(out, *offset);
                        put(out, *of as u64);
                    }
                }
            }
        }
        let mut variables: Vec<_> = self.variables.iter().collect();
        variables.sort_unstable_by_key(|(address, _)| **address);
        put(out, variables.len() as u64);
        for (address, Known { of, name }) in variables {
            put(out, *address);
            put(out, *of as u64);
            put_text(out, name);
        }
    }

    /// Reads the contents of a block.
    pub fn read(input: &mut Input) -> Option<Layouts> {
        let mut layouts = Layouts::default();
        for _ in 0..input.number()? {
            let size = input.number()?;
            let shape = match input.number()? {
                0 => Shape::Plain,
                1 => Shape::Elements(input.number()? as u32),
                more => {
                    let mut members = Vec::new();
                    for _ in 2..more {
                        let name = input.text()?;
                        members.push(Member { name, offset: input.number()?, of: input.number()? as u32 });
                    }
                    Shape::Members(members)
                }
            };
            layouts.types.push(Type { size, shape });
        }
        for _ in 0..input.number()? {
            let address = input.number()?;
            let of = input.number()? as u32;
            layouts.variables.insert(address, Known { of, name: input.text()? });
        }
        Some(layouts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(name: &str, offset: u64, of: u32) -> Member {
        Member { name: name.to_owned(), offset, of }
    }

    /// `struct { int n; struct { int state; char name[12]; union { int i; char b[4]; }; } jobs[8]; } pool`.
    fn pool() -> Layouts {
        let plain = |size| Type { size, shape: Shape::Plain };
        let types = vec![
            plain(4),
            plain(1),
            Type { size: 12, shape: Shape::Elements(1) },
            Type { size: 4, shape: Shape::Elements(1) },
            Type { size: 4, shape: Shape::Members(vec![member("b", 0, 3), member("i", 0, 0)]) },
            Type {
                size: 20,
                shape: Shape::Members(vec![member("state", 0, 0), member("name", 4, 2), member("", 16, 4)]),
            },
            Type { size: 160, shape: Shape::Elements(5) },
            Type { size: 164, shape: Shape::Members(vec![member("n", 0, 0), member("jobs", 4, 6)]) },
        ];
        Layouts { types, variables: HashMap::from([(100, Known { of: 7, name: String::new() })]) }
    }

    #[test]
    fn bytes_have_the_name_that_the_source_has_for_them() {
        let pool = pool();
        let path = |offset, size| pool.path(100, offset, size).unwrap();
        assert_eq!(path(0, 164), "");
        assert_eq!(path(0, 4), ".n");
        assert_eq!(path(4 + 3 * 20, 4), ".jobs[3].state");
        assert_eq!(path(4 + 3 * 20, 20), ".jobs[3]");
        assert_eq!(path(4 + 2 * 20 + 7, 1), ".jobs[2].name[3]");
        assert_eq!(path(4 + 2 * 20 + 16, 1), ".jobs[2].b[0]");
        // Not all of any part.
        assert_eq!(path(1, 2), ".n[1..3]");
        assert_eq!(path(4, 8), ".jobs[0][0..8]");
        assert_eq!(path(2, 4), "[2..6]");
        assert_eq!(pool.path(100, 160, 8), None);
        assert_eq!(pool.path(101, 0, 1), None);
    }

    #[test]
    fn layouts_are_read_as_they_were_written_and_no_damage_does_harm() {
        let mut out = Vec::new();
        pool().write(&mut out);
        assert_eq!(Layouts::read(&mut Input(&out)), Some(pool()));
        for length in 0..out.len() {
            assert_eq!(Layouts::read(&mut Input(&out[..length])), None);
        }
        for at in 0..out.len() {
            let mut damaged = out.clone();
            damaged[at] ^= 0x15;
            if let Some(layouts) = Layouts::read(&mut Input(&damaged)) {
                for offset in 0..170 {
                    layouts.path(100, offset, 4);
                }
            }
        }
    }

    #[test]
    fn variables_of_several_files_come_together() {
        let mut all = Layouts::default();
        all.add(&pool(), 1000, |_| true);
        all.add(&pool(), 5000, |address| address == 5100);
        all.add(&pool(), 9000, |_| false);
        assert_eq!(all.path(1100, 0, 4).as_deref(), Some(".n"));
        assert_eq!(all.path(5100, 4, 4).as_deref(), Some(".jobs[0].state"));
        assert_eq!(all.variables.len(), 2);
    }
}
