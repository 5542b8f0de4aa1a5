//! The secret of the user by which recordings made here are known again.
//!
//! It is 32 random bytes in a file that only the user can read, in the user's folder for the state of programs.

use snag_recorder::seal::Seal;
use snag_recorder::unfollowed;
use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

const LENGTH: usize = 32;

/// What recordings of this user on this machine are sealed with. The secret is made if there is none.
pub fn seal() -> Result<Seal, String> {
    with(secret)
}

/// The same for those who only want to know a recording again.
pub fn known_seal() -> Result<Seal, String> {
    with(|_, path| read(path))
}

fn with(secret: impl FnOnce(&Path, &Path) -> io::Result<[u8; LENGTH]>) -> Result<Seal, String> {
    let folder = folder().ok_or("there is no home directory to keep a key in")?;
    let path = folder.join("key");
    let secret = secret(&folder, &path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(Seal::new(secret, &machine()))
}

fn folder() -> Option<PathBuf> {
    let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || std::env::home_dir().filter(|home| home.is_absolute()).map(|home| home.join(".local/state"));
    Some(state.or_else(home)?.join("snag"))
}

/// A home directory may be that of several machines.
fn machine() -> String {
    named_in(&["/etc/machine-id", "/var/lib/dbus/machine-id", "/proc/sys/kernel/hostname"]).unwrap_or_default()
}

/// What is in the first of these files that has something in it: images of systems have an empty one.
fn named_in<P: AsRef<Path>>(files: &[P]) -> Option<String> {
    let name = |path: &P| Some(std::fs::read_to_string(path).ok()?.trim().to_owned()).filter(|name| !name.is_empty());
    files.iter().find_map(name)
}

fn secret(folder: &Path, path: &Path) -> io::Result<[u8; LENGTH]> {
    match read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        result => return result,
    }
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let mine = std::fs::metadata(folder)?;
    if !is_ours(&mine) || mine.mode() & 0o022 != 0 {
        return Err(io::Error::other("other users can write into its folder"));
    }
    make(folder, path)?;
    read(path)
}

/// A file with the whole secret gets the name, unless another process was faster.
fn make(folder: &Path, path: &Path) -> io::Result<()> {
    let secret: [u8; LENGTH] = random()?;
    let name: [u8; 8] = random()?;
    let draft = folder.join(format!("key.{:016x}", u64::from_le_bytes(name)));
    let mut file =
        OpenOptions::new().write(true).create_new(true).mode(0o600).custom_flags(libc::O_NOFOLLOW).open(&draft)?;
    let written = file.write_all(&secret).and_then(|()| file.sync_all());
    let named = written.and_then(|()| std::fs::hard_link(&draft, path));
    let _ = std::fs::remove_file(&draft);
    match named {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        named => named,
    }
}

fn read(path: &Path) -> io::Result<[u8; LENGTH]> {
    let (mut file, data) = unfollowed::open(path)?;
    if !is_ours(&data) {
        return Err(io::Error::other(format!("the key belongs to another user (number {})", data.uid())));
    }
    if data.mode() & 0o077 != 0 || data.len() != LENGTH as u64 {
        return Err(io::Error::other("not a file of 32 bytes that only its owner can read or write; remove it"));
    }
    let mut secret = [0; LENGTH];
    file.read_exact(&mut secret)?;
    Ok(secret)
}

fn is_ours(data: &Metadata) -> bool {
    // SAFETY: it cannot fail.
    data.uid() == unsafe { libc::geteuid() }
}

fn random<const COUNT: usize>() -> io::Result<[u8; COUNT]> {
    let mut bytes = [0; COUNT];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// A folder that is gone after the test.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("snag-secret-{}-{name}", std::process::id()));
            let _ = std::fs::remove_dir_all(&path);
            std::fs::create_dir_all(&path).unwrap();
            Folder(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn the_key_is_made_once_for_its_owner_alone() {
        let base = Folder::new("once");
        let (folder, path) = (base.0.join("state/snag"), base.0.join("state/snag/key"));
        let many: Vec<_> = (0..8)
            .map(|_| {
                let (folder, path) = (folder.clone(), path.clone());
                std::thread::spawn(move || secret(&folder, &path).unwrap())
            })
            .collect();
        let all: Vec<_> = many.into_iter().map(|thread| thread.join().unwrap()).collect();
        assert!(all.iter().all(|one| *one == all[0] && *one != [0; LENGTH]), "{all:?}");
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(std::fs::metadata(&folder).unwrap().mode() & 0o777, 0o700);
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1, "nothing else is left there");
    }

    #[test]
    fn a_machine_without_a_number_has_its_name() {
        let base = Folder::new("machine");
        let [empty, name] = ["empty", "name"].map(|file| base.0.join(file));
        std::fs::write(&empty, "\n").unwrap();
        std::fs::write(&name, "host\n").unwrap();
        assert_eq!(named_in(&[&empty, &base.0.join("none"), &name]).as_deref(), Some("host"));
        assert_eq!(named_in(&[&empty]), None);
        assert!(!machine().is_empty());
    }

    #[test]
    fn the_key_of_another_user_is_said_to_be_one() {
        let base = Folder::new("another");
        let path = base.0.join("key");
        secret(&base.0, &path).unwrap();
        // Only the superuser can give a file to somebody else.
        if std::os::unix::fs::chown(&path, Some(65534), None).is_ok() {
            let why = secret(&base.0, &path).unwrap_err().to_string();
            assert!(why.contains("belongs to another user (number 65534)"), "{why}");
        }
    }

    #[test]
    fn a_key_that_others_may_have_touched_is_not_used() {
        let base = Folder::new("touched");
        let (folder, path) = (base.0.clone(), base.0.join("key"));
        secret(&folder, &path).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
        assert!(secret(&folder, &path).is_err(), "others can read it");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        assert!(secret(&folder, &path).is_ok());
        std::fs::rename(&path, base.0.join("moved")).unwrap();
        std::os::unix::fs::symlink(base.0.join("moved"), &path).unwrap();
        assert!(secret(&folder, &path).is_err(), "a link is not followed");
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "short").unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        assert!(secret(&folder, &path).is_err(), "too short");
        std::fs::remove_file(&path).unwrap();
        std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o777)).unwrap();
        assert!(secret(&folder, &path).is_err(), "anybody can write into the folder");
    }
}
