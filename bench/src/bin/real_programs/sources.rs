//! Fetches sources and builds them.

use crate::programs::Program;
use std::path::Path;
use std::process::{Command, Stdio};

/// Builds a program both ways, unless that was done before. What is printed goes to `build.log`.
pub fn build(program: &Program, folder: &Path) -> Result<(), String> {
    let sources = folder.join("sources");
    for package in program.packages {
        if !sources.join(package).is_dir() {
            fetch(package, &sources)?;
        }
    }
    for (way, flags, sanitizer) in [("native", "-O2 -g", ""), ("sanitized", "-O2 -g -fsanitize=thread", "thread")] {
        let room = folder.join(program.name).join(way);
        if room.join(program.binary).is_file() {
            continue;
        }
        let _ = std::fs::remove_dir_all(&room);
        std::fs::create_dir_all(&room).map_err(|e| e.to_string())?;
        let log =
            std::fs::File::create(folder.join(program.name).join(format!("{way}.log"))).map_err(|e| e.to_string())?;
        let status = Command::new("sh")
            .args(["-e", "-c", program.build])
            .current_dir(&room)
            .env("SOURCES", &sources)
            .env("FLAGS", flags)
            .env("SANITIZER", sanitizer)
            .env("AS_IT_IS", "ACLOCAL=: AUTOMAKE=: AUTOCONF=: AUTOHEADER=: MAKEINFO=:")
            .stdin(Stdio::null())
            .stdout(log.try_clone().map_err(|e| e.to_string())?)
            .stderr(log)
            .status()
            .map_err(|e| e.to_string())?;
        if !status.success() || !room.join(program.binary).is_file() {
            return Err(format!("see {}", folder.join(program.name).join(format!("{way}.log")).display()));
        }
    }
    Ok(())
}

/// Fetches a source package with `apt-get source`. The machine's own list of places may have none for sources, so they
/// are derived from those for packages, in lists of our own.
fn fetch(package: &str, sources: &Path) -> Result<(), String> {
    let script = r#"
        mkdir -p lists/partial parts && cd parts
        for file in /etc/apt/sources.list.d/*.sources; do
            [ -f "$file" ] && sed 's/^Types:.*/Types: deb-src/' "$file" > "$(basename "$file")"
        done
        for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
            [ -f "$file" ] && sed -n 's/^deb /deb-src /p' "$file" > "$(basename "$file" .list).list"
        done
        cd ..
        apt="apt-get -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts=$PWD/parts \
             -o Dir::State::Lists=$PWD/lists -o Acquire::Languages=none -o APT::Sandbox::User="
        [ -f updated ] || $apt update || true
        touch updated
        $apt source --download-only "$PACKAGE"
        dpkg-source --no-check -x "$PACKAGE"_*.dsc "$PACKAGE"
    "#;
    std::fs::create_dir_all(sources).map_err(|e| e.to_string())?;
    let output = Command::new("sh")
        .args(["-c", script])
        .current_dir(sources)
        .env("PACKAGE", package)
        .stdin(Stdio::null())
        .output()
        .map_err(|e| e.to_string())?;
    match output.status.success() && sources.join(package).is_dir() {
        true => Ok(()),
        false => {
            let said = String::from_utf8_lossy(&output.stderr);
            Err(format!("{package} cannot be fetched: {}", said.lines().last().unwrap_or("")))
        }
    }
}
