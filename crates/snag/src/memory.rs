//! The memory of this process.

/// The most physical memory this process had at any time, where the system tells.
pub fn peak_bytes() -> Option<u64> {
    high_water_mark(&std::fs::read_to_string("/proc/self/status").ok()?)
}

/// `VmHWM` in the text of a `/proc/…/status`.
fn high_water_mark(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_high_water_mark_is_in_kibibytes() {
        assert_eq!(high_water_mark("Name:\tsnag\nVmHWM:\t    1234 kB\nVmRSS:\t  1 kB\n"), Some(1234 * 1024));
        assert_eq!(high_water_mark("Name:\tsnag\n"), None);
        assert_eq!(high_water_mark("VmHWM:\tmuch\n"), None);
    }
}
