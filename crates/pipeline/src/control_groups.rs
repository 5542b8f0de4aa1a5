//! How much memory the control groups of this process leave it.
//!
//! A group may have a limit, and so may each of the groups that it is in. What files have in memory counts as used, although
//! the kernel gives it up when somebody needs the memory.

use std::fs::read_to_string;
use std::path::{Path, PathBuf};

/// How many bytes may be taken until the first of the groups that this process is in has used up what it may have; `None` if none of them
/// is limited.
pub(crate) fn free() -> Option<u64> {
    let groups = read_to_string("/proc/self/cgroup").unwrap_or_default();
    free_below(Path::new("/sys/fs/cgroup"), &groups)
}

/// The files of a group by which a version of the interface names its limit and its use, and the lines of `memory.stat` by which it names
/// what could be given up.
struct Version {
    limit: &'static str,
    used: &'static str,
    files: [&'static str; 2],
}

const FIRST: Version = Version {
    limit: "memory.limit_in_bytes",
    used: "memory.usage_in_bytes",
    files: ["total_inactive_file ", "total_active_file "],
};
const SECOND: Version =
    Version { limit: "memory.max", used: "memory.current", files: ["inactive_file ", "active_file "] };

/// `groups` names the groups as `/proc/self/cgroup` does.
fn free_below(mount: &Path, groups: &str) -> Option<u64> {
    let all = groups.lines().filter_map(|line| {
        let (_, line) = line.split_once(':')?;
        let (controllers, group) = line.split_once(':')?;
        let (version, root) = match controllers {
            "" => (&SECOND, mount.to_owned()),
            _ if controllers.split(',').any(|name| name == "memory") => (&FIRST, mount.join("memory")),
            _ => return None,
        };
        free_up_to(version, root, group.trim_matches('/'))
    });
    all.min()
}

/// The least that a group, or one that it is in, leaves free.
fn free_up_to(version: &Version, root: PathBuf, group: &str) -> Option<u64> {
    // In a container the groups may be named as seen from outside, while the one at the root is its own.
    let parents = Path::new(group).ancestors().map(|parent| root.join(parent));
    parents.filter_map(|folder| free_in(version, &folder)).min()
}

fn free_in(version: &Version, folder: &Path) -> Option<u64> {
    let number = |file: &str| read_to_string(folder.join(file)).ok()?.trim().parse::<u64>().ok();
    let limit = number(version.limit)?;
    let statistics = read_to_string(folder.join("memory.stat")).unwrap_or_default();
    let line = |name: &&str| statistics.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
    let in_files: u64 = version.files.iter().filter_map(line).sum();
    Some(limit.saturating_sub(number(version.used).unwrap_or(0).saturating_sub(in_files)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{create_dir_all, write};

    /// A hierarchy of groups as files.
    struct Mount(PathBuf);

    impl Mount {
        fn new(name: &str) -> Mount {
            let folder = std::env::temp_dir().join(format!("snag-groups-{name}-{}", std::process::id()));
            Mount(folder)
        }

        fn add(&self, group: &str, files: &[(&str, &str)]) -> &Mount {
            let folder = self.0.join(group);
            create_dir_all(&folder).expect("a folder can be made");
            for (name, text) in files {
                write(folder.join(name), text).expect("a file can be written");
            }
            self
        }
    }

    impl Drop for Mount {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_limit_of_any_group_around_this_one_counts_with_what_is_used_there() {
        let mount = Mount::new("second");
        mount
            .add("", &[("memory.current", "900\n")])
            .add("a", &[("memory.max", "1000\n"), ("memory.current", "700\n"), ("memory.stat", "anon 1\n")])
            .add("a/b", &[("memory.max", "max\n"), ("memory.current", "600\n")])
            .add("a/b/c", &[("memory.max", "800\n"), ("memory.current", "100\n")]);
        let free = |groups: &str| free_below(&mount.0, groups);
        assert_eq!(free("0::/a/b/c\n"), Some(300));
        assert_eq!(free("0::/a/b\n"), Some(300));
        assert_eq!(free("0::/\n"), None);
        // Named as seen from outside: there is no such folder here.
        assert_eq!(free("0::/elsewhere\n"), None);
        mount.add("", &[("memory.max", "1000\n")]);
        assert_eq!(free("0::/elsewhere\n"), Some(100));
        assert_eq!(free("0::/a/b/c\n"), Some(100));
    }

    #[test]
    fn what_files_have_in_memory_is_free() {
        let mount = Mount::new("files");
        let statistics = "anon 300\ninactive_file 250\nactive_file 150\n";
        mount.add("a", &[("memory.max", "1000\n"), ("memory.current", "700\n"), ("memory.stat", statistics)]);
        assert_eq!(free_below(&mount.0, "0::/a\n"), Some(700));
    }

    #[test]
    fn the_first_version_of_groups_counts_as_well() {
        let mount = Mount::new("first");
        let files = [("memory.limit_in_bytes", "1000\n"), ("memory.usage_in_bytes", "400\n")];
        mount.add("memory/a", &files).add("memory/a/b", &[("memory.limit_in_bytes", "9223372036854771712\n")]);
        assert_eq!(free_below(&mount.0, "12:cpu,cpuacct:/x\n4:memory:/a/b\n0::/\n"), Some(600));
    }
}
