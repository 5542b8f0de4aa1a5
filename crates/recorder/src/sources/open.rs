//! Reading a file that somebody else named.

use crate::unfollowed;
use std::fs::File;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// What is in a regular file of up to so many bytes, if `may` allows it once it is told where the file really is. Does not wait for
/// anybody, whatever is at the path: a device is not opened, and a pipe or a link that takes the file's place meanwhile is noticed.
pub(super) fn regular(path: &Path, longest: u64, may: impl Fn(&Path) -> bool) -> Option<Vec<u8>> {
    let real = path.canonicalize().ok()?;
    let expected = real.symlink_metadata().ok()?;
    if !expected.is_file() || expected.len() > longest || !may(&real) {
        return None;
    }
    let (file, found) = unfollowed::open(&real).ok()?;
    let same = (found.dev(), found.ino()) == (expected.dev(), expected.ino());
    if !same || found.len() > longest || is_elsewhere(&file, &real) {
        return None;
    }
    let mut bytes = Vec::new();
    // It may grow, and some files of the system have no length.
    file.take(longest + 1).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 <= longest).then_some(bytes)
}

/// Whether a folder on the way was replaced before the file was opened, as far as the system says.
fn is_elsewhere(file: &File, real: &Path) -> bool {
    std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).is_ok_and(|opened| opened != real)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;
    use std::time::{Duration, Instant};

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("snag-open-{}-{name}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Folder(path.canonicalize().unwrap())
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn only_regular_files_of_moderate_length_are_read_and_nobody_waits() {
        let folder = Folder::new("regular");
        let at = |name: &str| folder.0.join(name);
        std::fs::write(at("file"), "text").unwrap();
        let pipe = std::ffi::CString::new(at("pipe").to_str().unwrap()).unwrap();
        // SAFETY: the name is a string that ends in a zero byte.
        assert_eq!(unsafe { libc::mkfifo(pipe.as_ptr(), 0o600) }, 0);
        std::os::unix::fs::symlink(at("pipe"), at("to_pipe")).unwrap();
        let started = Instant::now();
        assert_eq!(regular(&at("file"), 4, |_| true).as_deref(), Some(&b"text"[..]));
        assert_eq!(regular(&at("file"), 3, |_| true), None);
        assert_eq!(regular(&at("file"), 4, |_| false), None);
        for other in [at("pipe"), at("to_pipe"), folder.0.clone(), at("nothing"), "/dev/zero".into(), "/dev/tty".into()]
        {
            assert_eq!(regular(&other, 1 << 20, |_| true), None, "{}", other.display());
        }
        assert!(started.elapsed() < Duration::from_secs(5));
    }

    #[test]
    fn who_decides_is_told_where_a_file_really_is() {
        let folder = Folder::new("links");
        let at = |name: &str| folder.0.join(name);
        std::fs::create_dir_all(at("inside")).unwrap();
        std::fs::write(at("secret"), "text").unwrap();
        std::os::unix::fs::symlink(at("secret"), at("inside/link.c")).unwrap();
        let below = |real: &Path| real.starts_with(at("inside"));
        for path in [at("inside/link.c"), at("inside/../secret"), at("inside/./../secret")] {
            assert_eq!(regular(&path, 100, below), None, "{}", path.display());
            assert!(regular(&path, 100, |real| real == at("secret")).is_some());
        }
    }
}
