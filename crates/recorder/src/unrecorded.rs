//! Why a program cannot be recorded, or was not: what its file says about it.

use object::elf;
use object::read::elf::{FileHeader, ProgramHeader};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

/// What a file is that somebody wants to have recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A text that begins with `#!`.
    Script,
    /// Neither that nor a program.
    Other,
    /// For 32 bits, and for which processor.
    Narrow(u16),
    /// For another processor.
    Foreign(u16),
    /// For this machine.
    Native {
        /// Whether the dynamic linker starts it.
        dynamic: bool,
        /// Whether it has a table of symbols.
        symbols: bool,
    },
}

fn kind(program: &Path) -> Option<Kind> {
    let mut file = std::fs::File::open(program).ok()?;
    let mut head = [0; 64];
    let mut length = 0;
    while length < head.len() {
        match file.read(&mut head[length..]).ok()? {
            0 => break,
            more => length += more,
        }
    }
    let head = &head[..length];
    if head.starts_with(b"#!") {
        return Some(Kind::Script);
    }
    if !head.starts_with(&elf::ELFMAG) || head.len() < 20 {
        return Some(Kind::Other);
    }
    let machine = match head[5] {
        elf::ELFDATA2MSB => u16::from_be_bytes([head[18], head[19]]),
        _ => u16::from_le_bytes([head[18], head[19]]),
    };
    match (head[4], machine) {
        (elf::ELFCLASS64, elf::EM_X86_64) => Some(native(program).unwrap_or(Kind::Other)),
        (elf::ELFCLASS32, machine) => Some(Kind::Narrow(machine)),
        (_, machine) => Some(Kind::Foreign(machine)),
    }
}

fn native(program: &Path) -> Option<Kind> {
    let file = object::ReadCache::new(std::fs::File::open(program).ok()?);
    let file = &file;
    let header = elf::FileHeader64::<object::Endianness>::parse(file).ok()?;
    let endian = header.endian().ok()?;
    let dynamic = header.program_headers(endian, file).ok()?.iter().any(|part| part.p_type(endian) == elf::PT_INTERP);
    let sections = header.sections(endian, file).ok();
    let symbols = sections.is_some_and(|sections| {
        sections.symbols(endian, file, elf::SHT_SYMTAB).is_ok_and(|symbols| !symbols.is_empty())
    });
    Some(Kind::Native { dynamic, symbols })
}

fn machine(number: u16) -> String {
    match number {
        elf::EM_386 => "x86".to_owned(),
        elf::EM_X86_64 => "x86-64".to_owned(),
        elf::EM_ARM => "ARM".to_owned(),
        elf::EM_AARCH64 => "AArch64".to_owned(),
        elf::EM_RISCV => "RISC-V".to_owned(),
        elf::EM_PPC64 => "PowerPC".to_owned(),
        elf::EM_S390 => "S/390".to_owned(),
        elf::EM_MIPS => "MIPS".to_owned(),
        other => format!("another processor (ELF machine {other})"),
    }
}

const ONLY: &str = "snag records 64-bit programs for x86-64";

/// Why nothing was recorded of a program that has run.
pub fn nothing_recorded(program: &Path) -> String {
    let why = match kind(program) {
        Some(Kind::Narrow(number) | Kind::Foreign(number)) => {
            return format!("it is a 32-bit program for {}; {ONLY}", machine(number));
        }
        Some(Kind::Script | Kind::Other) => {
            "it is a script, or some other text, and no program that it started is built with -fsanitize=thread"
        }
        Some(Kind::Native { dynamic: false, symbols: true }) => {
            "it is linked statically, and the runtime is loaded by the dynamic linker: link it without -static"
        }
        Some(Kind::Native { dynamic: false, symbols: false }) => {
            "it is linked statically and stripped, and the runtime is loaded by the dynamic linker: link it without -static"
        }
        Some(Kind::Native { dynamic: true, symbols: false }) if !names_runtime(program) => {
            "it is not built with -fsanitize=thread; or it is stripped and carries ThreadSanitizer's runtime inside, where \
             nothing tells where that is: do not strip it"
        }
        Some(Kind::Native { .. }) if names_runtime(program) => {
            "it ended before the runtime was loaded, or its own code keeps LD_PRELOAD from it"
        }
        _ => "it is not built with -fsanitize=thread",
    };
    why.to_owned()
}

fn names_runtime(program: &Path) -> bool {
    crate::runtime::wanted_name(program).is_some()
}

/// Why a program should not be started at all.
pub fn cannot_be_recorded(program: &Path) -> Option<String> {
    match kind(program) {
        // The C library would have a shell read it, as a script.
        Some(Kind::Foreign(number)) => Some(format!("it is a program for {}; {ONLY}", machine(number))),
        Some(Kind::Narrow(number)) if number != elf::EM_386 => {
            Some(format!("it is a 32-bit program for {}; {ONLY}", machine(number)))
        }
        _ => has_other_rights(program),
    }
}

/// With the rights of somebody else a program is not given our runtime.
fn has_other_rights(program: &Path) -> Option<String> {
    let data = std::fs::metadata(program).ok()?;
    let mode = data.permissions().mode();
    // SAFETY: plain system calls.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    const SET_USER: u32 = 0o4000;
    // Without the group's right to execute it means something else.
    const SET_GROUP: u32 = 0o2010;
    let what = if mode & SET_USER != 0 && data.uid() != user {
        "with the rights of its owner (setuid)"
    } else if mode & SET_GROUP == SET_GROUP && data.gid() != group {
        "with the rights of its group (setgid)"
    } else if has_capabilities(program) && user != 0 {
        "with capabilities of its own"
    } else {
        return None;
    };
    Some(format!(
        "it runs {what}, and then the dynamic linker loads no runtime that we ask for; record a copy without that"
    ))
}

fn has_capabilities(program: &Path) -> bool {
    use std::os::unix::ffi::OsStrExt;
    let Ok(path) = std::ffi::CString::new(program.as_os_str().as_bytes()) else { return false };
    let name = c"security.capability";
    // SAFETY: both texts end in a zero byte, and nothing is written.
    unsafe { libc::getxattr(path.as_ptr(), name.as_ptr(), std::ptr::null_mut(), 0) > 0 }
}
