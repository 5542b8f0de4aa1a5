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

/// So many parts are looked at to find a name: unions of unions have more ways through them than anybody can try.
const PARTS: usize = 1 << 16;

/// How much is still looked at.
struct Patience {
    depth: usize,
    parts: usize,
}

impl Layouts {
    /// Reads the debug information of a file; empty if there is none.
    pub fn of_file(path: &Path) -> Layouts {
        std::fs::read(path).ok().and_then(|bytes| dwarf::read(&bytes)).unwrap_or_default()
    }

    /// What to append to the name of the variable at `start` to get the name of `size` bytes from `offset` on in it.
    pub fn path(&self, start: u64, offset: u64, size: u64) -> Option<String> {
        let mut path = String::new();
        let of = self.variables.get(&start)?.of;
        let mut patience = Patience { depth: DEPTH, parts: PARTS };
        self.descend(of, offset, size, &mut patience, &mut path)?;
        Some(path)
    }

    /// The outermost part that is exactly these bytes; else the innermost that contains them, and which of its bytes.
    /// Whether it is exactly these.
    fn descend(&self, of: u32, offset: u64, size: u64, patience: &mut Patience, path: &mut String) -> Option<bool> {
        let Type { size: whole, shape } = self.types.get(of as usize)?;
        if offset.checked_add(size)? > *whole || patience.depth == 0 || patience.parts == 0 {
            return None;
        }
        patience.parts -= 1;
        patience.depth -= 1;
        let found = self.part_of(*whole, shape, offset, size, patience, path);
        patience.depth += 1;
        found
    }

    fn part_of(
        &self,
        whole: u64,
        shape: &Shape,
        offset: u64,
        size: u64,
        patience: &mut Patience,
        path: &mut String,
    ) -> Option<bool> {
        if (offset, size) == (0, whole) {
            return Some(true);
        }
        match shape {
            Shape::Elements(element) => {
                let stride = self.types.get(*element as usize)?.size;
                let index = offset.checked_div(stride)?;
                if offset % stride + size <= stride {
                    path.push_str(&format!("[{index}]"));
                    return self.descend(*element, offset % stride, size, patience, path);
                }
            }
            Shape::Members(members) => {
                // Members of a union overlap: one that is just these bytes is better than a part of another.
                let mut part = None;
                for member in members {
                    let Some(inside) = offset.checked_sub(member.offset) else { continue };
                    let mut name = if member.name.is_empty() { String::new() } else { format!(".{}", member.name) };
                    match self.descend(member.of, inside, size, patience, &mut name) {
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

    /// Reads the contents of a block; `take` is told how many bytes of memory each part takes, and may refuse.
    pub fn read(input: &mut Input, take: &mut impl FnMut(usize) -> Result<(), String>) -> Result<Layouts, String> {
        let mut layouts = Layouts::default();
        let count = input.number()?;
        // Types may be nested in any order.
        let known = usize::try_from(count).unwrap_or(usize::MAX);
        for _ in 0..count {
            take(size_of::<Type>())?;
            let size = input.number()?;
            let shape = match input.number()? {
                0 => Shape::Plain,
                1 => Shape::Elements(input.id("type", known)?),
                more => {
                    let mut members = Vec::new();
                    for _ in 2..more {
                        let name = input.text()?;
                        take(size_of::<Member>() + name.len())?;
                        members.push(Member { name, offset: input.number()?, of: input.id("type", known)? });
                    }
                    Shape::Members(members)
                }
            };
            layouts.types.push(Type { size, shape });
        }
        for _ in 0..input.number()? {
            let address = input.number()?;
            let of = input.id("type", known)?;
            let name = input.text()?;
            take(2 * size_of::<Known>() + name.len())?;
            layouts.variables.insert(address, Known { of, name });
        }
        input.end()?;
        layouts.check_nesting()?;
        Ok(layouts)
    }

    /// No type is part of itself.
    fn check_nesting(&self) -> Result<(), String> {
        // Of each type, in how many places it is nested that have not been passed.
        let mut inside = vec![0u32; self.types.len()];
        self.types.iter().for_each(|known| parts(&known.shape, |part| inside[part as usize] += 1));
        let mut outermost: Vec<usize> = (0..inside.len()).filter(|&of| inside[of] == 0).collect();
        let mut passed = 0;
        while let Some(of) = outermost.pop() {
            passed += 1;
            parts(&self.types[of].shape, |part| {
                inside[part as usize] -= 1;
                if inside[part as usize] == 0 {
                    outermost.push(part as usize);
                }
            });
        }
        if passed == self.types.len() { Ok(()) } else { Err("a type is part of itself".to_owned()) }
    }
}

/// The types that a shape is made of.
fn parts(shape: &Shape, mut each: impl FnMut(u32)) {
    match shape {
        Shape::Plain => {}
        Shape::Elements(element) => each(*element),
        Shape::Members(members) => members.iter().for_each(|member| each(member.of)),
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

    fn read(block: &[u8]) -> Result<Layouts, String> {
        Layouts::read(&mut Input(block), &mut |_| Ok(()))
    }

    #[test]
    fn layouts_are_read_as_they_were_written_and_no_damage_does_harm() {
        let mut out = Vec::new();
        pool().write(&mut out);
        assert_eq!(read(&out), Ok(pool()));
        for length in 0..out.len() {
            assert!(read(&out[..length]).is_err());
        }
        for at in 0..out.len() {
            let mut damaged = out.clone();
            damaged[at] ^= 0x15;
            if let Ok(layouts) = read(&damaged) {
                for offset in 0..170 {
                    layouts.path(100, offset, 4);
                }
            }
        }
    }

    #[test]
    fn a_type_that_is_part_of_itself_or_of_one_that_is_not_there_is_refused() {
        let with = |types: Vec<Type>| {
            let mut out = Vec::new();
            Layouts { types, variables: HashMap::from([(100, Known { of: 0, name: String::new() })]) }.write(&mut out);
            read(&out)
        };
        let holding = |of: u32| Type { size: 8, shape: Shape::Members(vec![member("m", 0, of)]) };
        let array = |of: u32| Type { size: 8, shape: Shape::Elements(of) };
        let plain = || Type { size: 4, shape: Shape::Plain };
        assert!(with(vec![holding(1), array(2), plain()]).is_ok());
        assert!(with(vec![plain(), array(0), holding(1)]).is_ok(), "in any order");
        for types in [vec![holding(0)], vec![plain(), array(1)], vec![holding(1), array(2), holding(0), plain()]] {
            let error = with(types).unwrap_err();
            assert!(error.contains("part of itself"), "{error}");
        }
        assert!(with(vec![holding(1)]).unwrap_err().contains("type 1 is not known"));
    }

    /// Forty unions of which each has the next one twice: a way through them for every number of forty bits.
    #[test]
    fn a_name_is_found_or_given_up_however_many_ways_there_are() {
        let union =
            |next: u32| Type { size: 8, shape: Shape::Members(vec![member("a", 0, next), member("b", 0, next)]) };
        let mut types: Vec<Type> = (1..=40).map(union).collect();
        types.push(Type { size: 8, shape: Shape::Plain });
        let layouts = Layouts { types, variables: HashMap::from([(100, Known { of: 0, name: String::new() })]) };
        let started = std::time::Instant::now();
        assert!(layouts.path(100, 0, 4).is_some());
        assert!(started.elapsed() < std::time::Duration::from_secs(5), "{:?}", started.elapsed());
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
