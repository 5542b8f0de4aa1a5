//! How much memory a program can have. Records that tell of more are not its own: following them would take memory without end.

/// The first address that no program has.
pub const END: u64 = (1 << 47) - 4096;

/// Address space of the program.
#[derive(Clone, Debug, Default)]
pub struct Extent {
    /// Whether there is a process to be asked, or has been. Else anything goes.
    is_known: bool,
    /// The process; 0 when it has ended.
    process: u32,
    /// The most that it was seen to have.
    most: u64,
}

/// So much any program may have; and for each thread, as each has a stack where no other had one.
const ROOM: u64 = 1 << 27;
const FOR_THREAD: u64 = 1 << 20;

impl Extent {
    /// The program is this process.
    pub fn is_of(&mut self, process: u32) {
        self.process = process;
        self.is_known |= process != 0;
    }

    /// Looks how much it has had so far.
    pub fn look(&mut self) {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process)).unwrap_or_default();
        let peak =
            status.lines().find_map(|line| line.strip_prefix("VmPeak:")?.trim().strip_suffix(" kB")?.parse().ok());
        self.most = self.most.max(peak.unwrap_or(0_u64).saturating_mul(1024));
    }

    /// The program has ended, and of the memory that it had touched so many bytes were there at once, whether looked at or not.
    pub fn ended(&mut self, resident: u64) {
        // Of each stretch of 64 kB that was touched there was at least a page.
        self.most = self.most.max(resident.saturating_mul(16));
        self.process = 0;
    }

    /// Whether the program, with so many threads, may have touched so many bytes, or stretches of memory that are as long together.
    #[inline]
    pub fn holds(&mut self, bytes: u64, threads: usize) -> bool {
        let room = ROOM + FOR_THREAD * threads as u64;
        bytes <= room || self.holds_much(bytes - room)
    }

    #[cold]
    fn holds_much(&mut self, bytes: u64) -> bool {
        // What is given back may be mapped again elsewhere.
        let holds = |most: u64| bytes <= most.saturating_add(most / 2);
        if !holds(self.most) && self.process != 0 {
            self.look();
        }
        !self.is_known || holds(self.most)
    }
}

/// Whether a program can touch these bytes. It may say that it is about to, and die of it.
#[inline]
pub fn is_possible(address: u64, size: u64) -> bool {
    address < END && size <= END - address
}
