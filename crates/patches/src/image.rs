//! A program's file: its segments, its functions, and what the dynamic linker puts into its words.
//!
//! Addresses are those that the file names. Whatever a damaged file says, nothing here panics; what makes no sense is
//! as if it were not there.

use object::elf;
use object::read::elf::{Dyn, FileHeader, ProgramHeader, Rela, SectionHeader, Sym};
use object::{LittleEndian, ReadRef};
use std::collections::HashMap;
use std::ops::Range;

const ENDIAN: LittleEndian = LittleEndian;

type Header = elf::FileHeader64<LittleEndian>;

/// A function that a symbol names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Function<'a> {
    /// Where it begins.
    pub address: u64,
    /// Bytes, by the symbol.
    pub size: u64,
    /// Its name.
    pub name: &'a [u8],
    /// Whether another object's function of that name may take its place.
    pub is_weak: bool,
}

/// A part of the file that is loaded.
struct Segment<'a> {
    address: u64,
    /// What the file has; the rest, up to `size`, is zero.
    data: &'a [u8],
    size: u64,
    writable: bool,
    executable: bool,
}

impl Segment<'_> {
    fn range(&self) -> Range<u64> {
        self.address..self.address.saturating_add(self.size)
    }
}

/// A program or library for this processor.
pub struct Image<'a, R: ReadRef<'a>> {
    file: R,
    header: &'a Header,
    segments: Vec<Segment<'a>>,
    /// Only written before the program starts.
    settled: Vec<Range<u64>>,
}

impl<'a, R: ReadRef<'a>> Image<'a, R> {
    /// Reads a file; `None` if it is none that this machine's dynamic linker loads.
    pub fn read(file: R) -> Option<Image<'a, R>> {
        let header = Header::parse(file).ok()?;
        let is_ours = header.is_little_endian() && header.e_machine(ENDIAN) == elf::EM_X86_64;
        let kind = header.e_type(ENDIAN);
        if !is_ours || !matches!(kind, elf::ET_EXEC | elf::ET_DYN) {
            return None;
        }
        let (mut segments, mut settled) = (Vec::new(), Vec::new());
        for part in header.program_headers(ENDIAN, file).ok()? {
            let (address, size) = (part.p_vaddr(ENDIAN), part.p_memsz(ENDIAN));
            let has = |flag: u32| part.p_flags(ENDIAN) & flag != 0;
            match part.p_type(ENDIAN) {
                elf::PT_LOAD => segments.push(Segment {
                    address,
                    data: part.data(ENDIAN, file).ok()?,
                    size,
                    writable: has(elf::PF_W),
                    executable: has(elf::PF_X),
                }),
                elf::PT_GNU_RELRO => settled.push(address..address.saturating_add(size)),
                _ => {}
            }
        }
        Some(Image { file, header, segments, settled })
    }

    /// Where the kernel says that the program's headers are.
    pub fn headers(&self) -> Option<u64> {
        let headers = self.header.program_headers(ENDIAN, self.file).ok()?;
        let named = headers.iter().find(|part| part.p_type(ENDIAN) == elf::PT_PHDR);
        if let Some(named) = named {
            return Some(named.p_vaddr(ENDIAN));
        }
        let place = self.header.e_phoff(ENDIAN);
        let is_in = |part: &&elf::ProgramHeader64<LittleEndian>| {
            let start = part.p_offset(ENDIAN);
            part.p_type(ENDIAN) == elf::PT_LOAD && (start..start.saturating_add(part.p_filesz(ENDIAN))).contains(&place)
        };
        let part = headers.iter().find(is_in)?;
        Some((place - part.p_offset(ENDIAN)).wrapping_add(part.p_vaddr(ENDIAN)))
    }

    /// Whether it is loaded wherever there is room.
    pub fn is_movable(&self) -> bool {
        self.header.e_type(ENDIAN) == elf::ET_DYN
    }

    /// What can be executed.
    pub fn code(&self) -> impl Iterator<Item = Range<u64>> {
        self.segments.iter().filter(|segment| segment.executable).map(Segment::range)
    }

    /// So many bytes of the file as they are loaded at an address.
    pub fn bytes(&self, address: u64, size: u64) -> Option<&'a [u8]> {
        let segment = self.segments.iter().find(|segment| segment.range().contains(&address))?;
        let start = usize::try_from(address - segment.address).ok()?;
        segment.data.get(start..start.checked_add(usize::try_from(size).ok()?)?)
    }

    /// So many bytes of code at an address.
    pub fn instructions(&self, address: u64, size: u64) -> Option<&'a [u8]> {
        self.code().any(|code| code.contains(&address)).then(|| self.bytes(address, size)).flatten()
    }

    /// Whether the program can change a word while it runs.
    pub fn may_change(&self, address: u64) -> bool {
        let constant = |segment: &Segment| !segment.writable && segment.range().contains(&address);
        !self.segments.iter().any(constant) && !self.settled.iter().any(|range| range.contains(&address))
    }

    /// What a section holds.
    pub fn section(&self, name: &[u8]) -> Option<&'a [u8]> {
        let sections = self.header.sections(ENDIAN, self.file).ok()?;
        let (_, section) = sections.section_by_name(ENDIAN, name)?;
        section.data(ENDIAN, self.file).ok()
    }

    /// The functions of the full table of symbols; none if the file was stripped.
    pub fn functions(&self) -> Vec<Function<'a>> {
        self.functions_of(elf::SHT_SYMTAB)
    }

    /// The functions that the file offers to others.
    pub fn dynamic_functions(&self) -> Vec<Function<'a>> {
        self.functions_of(elf::SHT_DYNSYM)
    }

    fn functions_of(&self, table: u32) -> Vec<Function<'a>> {
        let Ok(sections) = self.header.sections(ENDIAN, self.file) else { return Vec::new() };
        let Ok(symbols) = sections.symbols(ENDIAN, self.file, table) else { return Vec::new() };
        // As a whole: name by name would be thousands of reads.
        let names = sections.section(symbols.string_section()).and_then(|names| names.data(ENDIAN, self.file));
        let Ok(names) = names else { return Vec::new() };
        let name = |start: u32| names.get(start as usize..)?.split(|&byte| byte == 0).next();
        let functions = symbols
            .iter()
            .filter(|symbol| symbol.st_type() == elf::STT_FUNC && symbol.st_shndx(ENDIAN) != elf::SHN_UNDEF);
        functions
            .filter_map(|symbol| {
                let name = name(symbol.st_name(ENDIAN))?;
                let is_weak = symbol.st_bind() == elf::STB_WEAK;
                Some(Function { address: symbol.st_value(ENDIAN), size: symbol.st_size(ENDIAN), name, is_weak })
            })
            .collect()
    }

    /// Where a section lies when it is loaded, and what it holds.
    pub fn loaded_section(&self, name: &[u8]) -> Option<(u64, &'a [u8])> {
        let sections = self.header.sections(ENDIAN, self.file).ok()?;
        let (_, section) = sections.section_by_name(ENDIAN, name)?;
        Some((section.sh_addr(ENDIAN), section.data(ENDIAN, self.file).ok()?))
    }

    /// What the program can change while it runs.
    pub fn variable(&self, address: u64) -> bool {
        let writable = |segment: &Segment| segment.writable && segment.range().contains(&address);
        self.segments.iter().any(writable) && self.may_change(address)
    }

    /// What the dynamic linker puts into words of the program, where that is an address in the program, and the names of
    /// what it looks up elsewhere.
    pub fn relocations(&self) -> Words<'_, 'a, R> {
        let mut words = HashMap::new();
        let mut imports = HashMap::new();
        let headers = self.header.program_headers(ENDIAN, self.file).unwrap_or(&[]);
        let dynamic = headers.iter().find_map(|part| part.dynamic(ENDIAN, self.file).ok().flatten()).unwrap_or(&[]);
        let value = |tag: u32| dynamic.iter().find(|entry| entry.tag32(ENDIAN) == Some(tag)).map(|e| e.d_val(ENDIAN));
        let symbols = value(elf::DT_SYMTAB);
        let symbol = |index: u32| -> Option<u64> {
            let bytes = self.bytes(symbols?.checked_add(24 * index as u64)?, 24)?;
            let symbol = bytes.read_at::<elf::Sym64<LittleEndian>>(0).ok()?;
            (symbol.st_shndx(ENDIAN) != elf::SHN_UNDEF).then(|| symbol.st_value(ENDIAN))
        };
        let names = value(elf::DT_STRTAB);
        let name = |index: u32| -> Option<&'a [u8]> {
            let bytes = self.bytes(symbols?.checked_add(24 * index as u64)?, 24)?;
            let symbol = bytes.read_at::<elf::Sym64<LittleEndian>>(0).ok()?;
            let start = names?.checked_add(symbol.st_name(ENDIAN) as u64)?;
            self.rest(start)?.split(|&byte| byte == 0).next()
        };
        for (table, size) in [(elf::DT_RELA, elf::DT_RELASZ), (elf::DT_JMPREL, elf::DT_PLTRELSZ)] {
            let (Some(table), Some(size)) = (value(table), value(size)) else { continue };
            let Some(bytes) = self.bytes(table, size) else { continue };
            let Ok(entries) = bytes.read_slice_at::<elf::Rela64<LittleEndian>>(0, bytes.len() / 24) else { continue };
            for entry in entries {
                let addend = entry.r_addend(ENDIAN);
                let target = match entry.r_type(ENDIAN, false) {
                    elf::R_X86_64_RELATIVE => Some(addend as u64),
                    elf::R_X86_64_64 => symbol(entry.r_sym(ENDIAN, false)).map(|at| at.wrapping_add_signed(addend)),
                    elf::R_X86_64_GLOB_DAT | elf::R_X86_64_JUMP_SLOT => symbol(entry.r_sym(ENDIAN, false)),
                    _ => None,
                };
                let kind = entry.r_type(ENDIAN, false);
                let by_name = matches!(kind, elf::R_X86_64_64 | elf::R_X86_64_GLOB_DAT | elf::R_X86_64_JUMP_SLOT);
                if target.is_none()
                    && by_name
                    && let Some(name) = name(entry.r_sym(ENDIAN, false))
                {
                    imports.insert(entry.r_offset(ENDIAN), name);
                }
                // What is somewhere else is nowhere here.
                words.insert(entry.r_offset(ENDIAN), target);
            }
        }
        // The dynamic linker calls what is in these tables, and nobody else reads them.
        let tables = [
            (elf::DT_PREINIT_ARRAY, elf::DT_PREINIT_ARRAYSZ),
            (elf::DT_INIT_ARRAY, elf::DT_INIT_ARRAYSZ),
            (elf::DT_FINI_ARRAY, elf::DT_FINI_ARRAYSZ),
        ];
        let table = |(start, size): &(u32, u32)| Some(value(*start)?..value(*start)?.checked_add(value(*size)?)?);
        Words { image: self, words, imports, of_linker: tables.iter().filter_map(table).collect() }
    }

    /// The bytes of the file from an address on.
    fn rest(&self, address: u64) -> Option<&'a [u8]> {
        let segment = self.segments.iter().find(|segment| segment.range().contains(&address))?;
        segment.data.get(usize::try_from(address - segment.address).ok()?..)
    }
}

/// See [`Image::relocations`].
pub struct Words<'i, 'a, R: ReadRef<'a>> {
    image: &'i Image<'a, R>,
    words: HashMap<u64, Option<u64>>,
    imports: HashMap<u64, &'a [u8]>,
    of_linker: Vec<Range<u64>>,
}

impl<'a, R: ReadRef<'a>> Words<'_, 'a, R> {
    /// The address in the program that a word of it holds when the program starts.
    pub fn at(&self, address: u64) -> Option<u64> {
        if let Some(known) = self.words.get(&address) {
            return *known;
        }
        let bytes = self.image.bytes(address, 8)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    }

    /// The name of what the dynamic linker looks up elsewhere for a word.
    pub fn import(&self, address: u64) -> Option<&'a [u8]> {
        self.imports.get(&address).copied()
    }

    /// Whether the dynamic linker looks up anything whose name begins so.
    pub fn imports(&self, prefix: &[u8]) -> bool {
        self.imports.values().any(|name| name.starts_with(prefix))
    }

    /// The words of data that get the address of something in the program, and that address.
    pub fn of_data(&self) -> impl Iterator<Item = (u64, u64)> {
        let words = self.words.iter().filter_map(|(&at, &target)| Some((at, target?)));
        words.filter(|(at, _)| !self.of_linker.iter().any(|table| table.contains(at)))
    }
}
