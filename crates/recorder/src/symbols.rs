//! Names for addresses: source lines and functions for code, variables for data.
//!
//! Resolved once per address while the program runs, so that the trace can be read where the program is not.

use crate::code::Mapped;
use crate::functions::Functions;
use crate::layout::Layouts;
use addr2line::Loader;
use object::{Object, ObjectSegment, ObjectSymbol, SymbolKind};
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// One frame of a stack, innermost first; inlined functions are frames of their own.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Resolved {
    /// The function, demangled; empty if unknown.
    pub function: String,
    /// `path:line:column` as far as it is known, or `module+0xoffset`.
    pub place: String,
}

/// A variable that a symbol table names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// First byte, as mapped.
    pub address: u64,
    /// Bytes.
    pub size: u64,
    /// Its name, demangled.
    pub name: String,
}

/// A part of a file that is mapped.
struct Mapping {
    start: u64,
    end: u64,
    module: usize,
}

struct Module {
    path: PathBuf,
    /// What is added to the addresses in the file.
    bias: u64,
    /// The addresses that it takes when it is mapped.
    extent: Range<u64>,
    /// Debug information, once it was asked for.
    loader: Option<Option<Loader>>,
    /// Functions of its symbol table, once they were asked for.
    functions: Option<Functions>,
    /// Data symbols by address, once they were asked for.
    data: Option<Vec<(u64, u64, String)>>,
    /// What its variables consist of, once that was asked for.
    layouts: Option<Layouts>,
}

/// More files than any program has mapped.
const MOST_MODULES: usize = 1 << 14;

impl Module {
    fn new(path: &Path, start: u64, offset: u64) -> Module {
        let path = path.to_owned();
        if is_program(&path) {
            let (bias, extent) = extent(&path, start, offset);
            return Module { path, bias, extent, loader: None, functions: None, data: None, layouts: None };
        }
        // Nothing is looked up there.
        let (loader, functions) = (Some(None), Some(Functions::default()));
        let (data, layouts) = (Some(Vec::new()), Some(Layouts::default()));
        Module { path, bias: start.wrapping_sub(offset), extent: 0..0, loader, functions, data, layouts }
    }
}

/// Whether there is a program or library at a path. Only the program says that there is one; it may be a pipe that nobody
/// writes to, or a device without an end.
fn is_program(path: &Path) -> bool {
    use std::io::Read;
    use std::os::unix::fs::OpenOptionsExt;
    let file = std::fs::File::options().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path);
    let mut magic = [0; 4];
    file.is_ok_and(|mut file| {
        file.metadata().is_ok_and(|data| data.is_file()) && file.read_exact(&mut magic).is_ok() && magic == *b"\x7fELF"
    })
}

/// All that is mapped in the program.
#[derive(Default)]
pub struct Symbols {
    mappings: Vec<Mapping>,
    modules: Vec<Module>,
    /// Number of each module, by path.
    numbers: HashMap<PathBuf, usize>,
    /// Paths below this folder are shown relative to it.
    folder: Option<PathBuf>,
}

impl Symbols {
    /// Paths below `folder` are shortened.
    pub fn new(folder: Option<PathBuf>) -> Symbols {
        Symbols { folder, ..Symbols::default() }
    }

    /// Takes over the contents of `/proc/PID/maps`. Modules stay known after they are unloaded.
    pub fn map(&mut self, maps: &str) {
        self.mappings.clear();
        for line in maps.lines() {
            let mut fields = line.split_ascii_whitespace();
            let (Some(range), Some(_), Some(offset)) = (fields.next(), fields.next(), fields.next()) else { continue };
            let Some(path) = fields.nth(2).filter(|path| path.starts_with('/')) else { continue };
            let Some((start, end)) = range.split_once('-') else { continue };
            let hexadecimal = |text: &str| u64::from_str_radix(text, 16).ok();
            let (Some(start), Some(end), Some(offset)) = (hexadecimal(start), hexadecimal(end), hexadecimal(offset))
            else {
                continue;
            };
            let module = match self.numbers.get(Path::new(path)) {
                Some(&module) => module,
                None if self.modules.len() >= MOST_MODULES => continue,
                None => {
                    self.modules.push(Module::new(Path::new(path), start, offset));
                    self.numbers.insert(path.into(), self.modules.len() - 1);
                    self.modules.len() - 1
                }
            };
            self.mappings.push(Mapping { start, end, module });
        }
    }

    /// The files that were ever mapped, in the order in which they came.
    pub fn mapped(&self) -> impl Iterator<Item = Mapped> {
        self.modules.iter().map(|module| Mapped {
            path: module.path.clone(),
            bias: module.bias,
            extent: module.extent.clone(),
        })
    }

    fn module_at(&mut self, address: u64) -> Option<&mut Module> {
        let mapped = self.mappings.iter().find(|m| (m.start..m.end).contains(&address)).map(|m| m.module);
        // Memory that is zero at first has mappings without a name.
        let index = mapped.or_else(|| self.modules.iter().position(|m| m.extent.contains(&address)))?;
        Some(&mut self.modules[index])
    }

    /// What is at a return address: the call before it, innermost inlined function first. Never empty.
    pub fn code(&mut self, pc: u64) -> Vec<Resolved> {
        let folder = self.folder.clone();
        let Some(module) = self.module_at(pc) else {
            return vec![Resolved { function: String::new(), place: format!("{pc:#x}") }];
        };
        let address = pc.wrapping_sub(1).wrapping_sub(module.bias);
        let short = module.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let path = module.path.clone();
        let loader = module.loader.get_or_insert_with(|| Loader::new(&path).ok());
        let mut all = Vec::new();
        if let Some(loader) = loader
            && let Ok(mut frames) = loader.find_frames(address)
        {
            while let Ok(Some(frame)) = frames.next() {
                let function = frame.function.and_then(|f| f.raw_name().ok().map(|name| demangle(&name)));
                let place = frame.location.and_then(|location| {
                    let file = shorten(location.file?, folder.as_deref());
                    Some(match (location.line?, location.column) {
                        (line, Some(column)) if column > 0 => format!("{file}:{line}:{column}"),
                        (line, _) => format!("{file}:{line}"),
                    })
                });
                all.push((function, place));
            }
        }
        if all.is_empty() {
            all.push((None, None));
        }
        let functions = &mut module.functions;
        let mut symbol = || functions.get_or_insert_with(|| Functions::of_file(&path)).at(address).map(demangle);
        all.into_iter()
            .map(|(function, place)| Resolved {
                function: function.or_else(&mut symbol).unwrap_or_default(),
                place: place.unwrap_or_else(|| format!("{short}+{address:#x}")),
            })
            .collect()
    }

    /// The function that starts at an address.
    pub fn function(&mut self, address: u64) -> Option<String> {
        self.code(address.wrapping_add(1)).pop().map(|frame| frame.function).filter(|name| !name.is_empty())
    }

    /// The variable that holds an address.
    pub fn data(&mut self, address: u64) -> Option<Variable> {
        let module = self.module_at(address)?;
        let path = module.path.clone();
        let bias = module.bias;
        let data = module.data.get_or_insert_with(|| data_symbols(&path));
        let inside = address.wrapping_sub(bias);
        let index = data.partition_point(|symbol| symbol.0 <= inside).checked_sub(1)?;
        let (start, size, name) = &data[index];
        let is_inside = inside - start < *size;
        is_inside.then(|| Variable { address: start.wrapping_add(bias), size: *size, name: name.clone() })
    }
}

impl Symbols {
    /// What `size` bytes of a variable are called.
    pub fn part(&mut self, address: u64, size: u64) -> Option<String> {
        let variable = self.data(address)?;
        let module = self.module_at(address)?;
        let (path, bias) = (&module.path, module.bias);
        let layouts = module.layouts.get_or_insert_with(|| Layouts::of_file(path));
        let part = layouts.path(variable.address.wrapping_sub(bias), address - variable.address, size)?;
        Some(variable.name + &part)
    }

    /// What the variables consist of that start at the given addresses.
    pub fn layouts(&mut self, starts: &HashSet<u64>) -> Layouts {
        let mut all = Layouts::default();
        for module in &mut self.modules {
            let (path, bias, extent) = (&module.path, module.bias, &module.extent);
            if starts.iter().any(|start| extent.contains(start)) {
                let layouts = module.layouts.get_or_insert_with(|| Layouts::of_file(path));
                all.add(layouts, bias, |address| starts.contains(&address));
            }
        }
        all
    }

    /// The variables that have bytes in a range of addresses.
    pub fn data_in(&mut self, range: Range<u64>) -> Vec<Variable> {
        let mut all = Vec::new();
        for module in &mut self.modules {
            if module.extent.start >= range.end || module.extent.end <= range.start {
                continue;
            }
            let (path, bias) = (&module.path, module.bias);
            let data = module.data.get_or_insert_with(|| data_symbols(path));
            for (start, size, name) in data.iter() {
                let address = start.wrapping_add(bias);
                if address < range.end && address.saturating_add(*size) > range.start {
                    all.push(Variable { address, size: *size, name: name.clone() });
                }
            }
        }
        all
    }
}

/// Only names that are mangled: `m` alone would be demangled to a type.
pub fn demangle(name: &str) -> String {
    match name.starts_with("_Z") || name.starts_with("_R") {
        true => addr2line::demangle_auto(name.into(), None).into_owned(),
        false => name.to_owned(),
    }
}

fn shorten(file: &str, folder: Option<&Path>) -> String {
    // The sources of Rust's library, named after the compiler's version.
    if let Some((_, inside)) = file.strip_prefix("/rustc/").and_then(|rest| rest.split_once('/')) {
        return inside.to_owned();
    }
    let relative = folder.and_then(|folder| Path::new(file).strip_prefix(folder).ok());
    relative.unwrap_or(Path::new(file)).display().to_string()
}

/// The difference between where a file is mapped and the addresses in it; and all addresses that it takes.
fn extent(path: &Path, start: u64, offset: u64) -> (u64, Range<u64>) {
    let guess = start.wrapping_sub(offset);
    // Only the parts that are needed are read.
    let Ok(file) = std::fs::File::open(path).map(object::ReadCache::new) else { return (guess, 0..0) };
    let Ok(file) = object::File::parse(&file) else { return (guess, 0..0) };
    let page = |address: u64| address & !0xfff;
    let segment = file.segments().find(|segment| page(segment.file_range().0) == offset);
    let bias = segment.map_or(guess, |segment| start.wrapping_sub(page(segment.address())));
    let first = file.segments().map(|segment| segment.address()).min().unwrap_or(0);
    let end = file.segments().map(|segment| segment.address() + segment.size()).max().unwrap_or(0);
    (bias, first.wrapping_add(bias)..end.wrapping_add(bias))
}

fn data_symbols(path: &Path) -> Vec<(u64, u64, String)> {
    let Ok(file) = std::fs::File::open(path).map(object::ReadCache::new) else { return Vec::new() };
    let Ok(file) = object::File::parse(&file) else { return Vec::new() };
    let mut all: Vec<_> = file
        .symbols()
        .chain(file.dynamic_symbols())
        .filter(|symbol| symbol.kind() == SymbolKind::Data && symbol.size() > 0 && symbol.is_definition())
        .filter_map(|symbol| {
            let name = demangle(symbol.name().ok()?);
            Some((symbol.address(), symbol.size(), name))
        })
        .collect();
    all.sort();
    all.dedup_by_key(|symbol| symbol.0);
    all
}

/// Strings as numbers, each once.
#[derive(Default)]
pub struct Pool {
    ids: HashMap<String, u32>,
    /// In order of their numbers.
    pub all: Vec<String>,
}

impl Pool {
    /// The number of a string.
    pub fn id(&mut self, text: &str) -> u32 {
        if let Some(&id) = self.ids.get(text) {
            return id;
        }
        let id = self.all.len() as u32;
        self.ids.insert(text.to_owned(), id);
        self.all.push(text.to_owned());
        id
    }
}
