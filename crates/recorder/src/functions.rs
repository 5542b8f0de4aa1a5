//! The functions that a symbol table names, for code without debug information.

use object::{Object, ObjectSection, ObjectSymbol, SectionKind, SymbolKind};
use std::path::Path;

/// By address.
#[derive(Debug, Default)]
pub struct Functions(Vec<Function>);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Function {
    start: u64,
    /// First byte that is not part of it.
    end: u64,
    name: String,
}

impl Functions {
    /// Reads a file; none if it cannot be read.
    pub fn of_file(path: &Path) -> Functions {
        let Ok(file) = std::fs::File::open(path).map(object::ReadCache::new) else { return Functions::default() };
        let Ok(file) = object::File::parse(&file) else { return Functions::default() };
        let end_of_section = |symbol: &object::Symbol<'_, '_, _>| {
            let section = symbol.section_index().and_then(|index| file.section_by_index(index).ok());
            let code = section.filter(|section| section.kind() == SectionKind::Text);
            code.map_or(0, |section| section.address().saturating_add(section.size()))
        };
        let symbols = file.symbols().chain(file.dynamic_symbols());
        // Assembly does not always say what a symbol is.
        let kinds = [SymbolKind::Text, SymbolKind::Label, SymbolKind::Unknown];
        let text = symbols.filter(|symbol| symbol.is_definition() && kinds.contains(&symbol.kind()));
        let all = text.filter_map(|symbol| {
            let name = symbol.name().ok().filter(|name| !name.is_empty())?;
            Some((symbol.address(), symbol.size(), end_of_section(&symbol), name.to_owned()))
        });
        Functions::new(all)
    }

    /// From addresses, sizes, ends of sections and names. Those without a size, from assembly, reach up to the next one of their
    /// section; all others as far as they say.
    fn new(symbols: impl Iterator<Item = (u64, u64, u64, String)>) -> Functions {
        let mut symbols: Vec<_> = symbols.filter(|(start, .., section, _)| start < section).collect();
        symbols.sort();
        let starts: Vec<u64> = symbols.iter().map(|symbol| symbol.0).collect();
        let functions = symbols.into_iter().map(|(start, size, section, name)| {
            let next = starts.get(starts.partition_point(|&other| other <= start)).copied().unwrap_or(section);
            let end = if size == 0 { next.min(section) } else { start.saturating_add(size) };
            Function { start, end, name }
        });
        let mut functions: Vec<Function> = functions.collect();
        functions.sort();
        Functions(functions)
    }

    /// The function that an address lies in: of several, the one that begins last.
    pub fn at(&self, address: u64) -> Option<&str> {
        // One function in another is rare, a long row of them is not.
        const FAR: usize = 64;
        let before = self.0.partition_point(|function| function.start <= address);
        let found = self.0[..before].iter().rev().take(FAR).find(|function| address < function.end);
        found.map(|function| function.name.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_symbol_names_only_the_addresses_that_its_size_covers() {
        let symbols = [
            (0x1000, 0x20, 0x2000, "sized"),
            (0x1100, 0, 0x2000, "assembly"),
            (0x1180, 0, 0x2000, "more assembly"),
            (0x1200, 0x100, 0x2000, "outer"),
            (0x1240, 0x10, 0x2000, "inner"),
            (0x1fe0, 0, 0x2000, "last"),
            (0x3000, 0, 0x2000, "outside of its section"),
        ];
        let functions = Functions::new(symbols.iter().map(|&(at, size, end, name)| (at, size, end, name.to_owned())));
        let cases = [
            (0xfff, None),
            (0x1000, Some("sized")),
            (0x101f, Some("sized")),
            (0x1020, None),
            (0x10ff, None),
            (0x1100, Some("assembly")),
            (0x117f, Some("assembly")),
            (0x1180, Some("more assembly")),
            (0x11ff, Some("more assembly")),
            (0x123f, Some("outer")),
            (0x1240, Some("inner")),
            (0x1250, Some("outer")),
            (0x1300, None),
            (0x1fff, Some("last")),
            (0x2000, None),
            (0x3000, None),
        ];
        for (address, name) in cases {
            assert_eq!(functions.at(address), name, "{address:#x}");
        }
    }
}
