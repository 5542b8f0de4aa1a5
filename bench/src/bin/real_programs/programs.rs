//! The programs: how they are built, and what they are given to do.

use std::io::Read;
use std::path::{Path, PathBuf};

/// What a program does when it is measured.
pub enum Work {
    /// It reads a file and writes to standard output; `INPUT` in the arguments is the file.
    Filter(&'static [&'static str]),
    /// It serves a port: arguments with `PORT` in them, and how a client talks to it.
    Server(&'static [&'static str], Protocol),
}

/// How a client talks to a server.
#[derive(Clone, Copy)]
pub enum Protocol {
    Memcached,
    Redis,
}

/// A program of Debian.
pub struct Program {
    pub name: &'static str,
    /// Source packages it is made of.
    pub packages: &'static [&'static str],
    /// Shell commands that build it in a folder of its own. The sources lie in `$SOURCES/package`, `$FLAGS` are the
    /// compiler's flags, `$AS_IT_IS` keeps make from making configure scripts anew.
    pub build: &'static str,
    /// What comes of it.
    pub binary: &'static str,
    pub work: Work,
}

pub const PROGRAMS: &[Program] = &[
    Program {
        name: "zstd",
        packages: &["libzstd"],
        build: "cp -a $SOURCES/libzstd/. . && make -C programs zstd HAVE_ZLIB=0 HAVE_LZMA=0 HAVE_LZ4=0 \
                CFLAGS=\"$FLAGS\" LDFLAGS=\"$FLAGS\"",
        binary: "programs/zstd",
        work: Work::Filter(&["-q", "-T4", "-c", "INPUT"]),
    },
    Program {
        name: "xz",
        packages: &["xz-utils"],
        build: "cp -a $SOURCES/xz-utils/. . && ./configure --disable-shared --disable-nls --disable-doc \
                --disable-lzmainfo --disable-scripts CFLAGS=\"$FLAGS\" LDFLAGS=\"$FLAGS\" && \
                make $AS_IT_IS -C src/liblzma && make $AS_IT_IS -C src/xz",
        binary: "src/xz/xz",
        work: Work::Filter(&["-T4", "-1", "--block-size=300000", "-c", "INPUT"]),
    },
    Program {
        name: "pbzip2",
        packages: &["bzip2", "pbzip2"],
        build: "cp $SOURCES/bzip2/*.[ch] $SOURCES/pbzip2/*.cpp $SOURCES/pbzip2/*.h . && \
                gcc $FLAGS -c -D_FILE_OFFSET_BITS=64 blocksort.c huffman.c crctable.c randtable.c compress.c \
                decompress.c bzlib.c && g++ $FLAGS -w -I. -D_LARGEFILE64_SOURCE -D_FILE_OFFSET_BITS=64 -pthread \
                pbzip2.cpp BZ2StreamScanner.cpp ErrorContext.cpp *.o -o pbzip2",
        binary: "pbzip2",
        work: Work::Filter(&["-p4", "-1", "-b1", "-k", "-c", "INPUT"]),
    },
    Program {
        name: "memcached",
        packages: &["libevent", "memcached"],
        build: "(mkdir event && cd event && cp -a $SOURCES/libevent/. . && ./configure --disable-shared \
                --disable-openssl --disable-samples --disable-libevent-regress --prefix=$PWD/built \
                CFLAGS=\"$FLAGS\" LDFLAGS=\"$FLAGS\" && make $AS_IT_IS install) && \
                cp -a $SOURCES/memcached/. . && ./configure --with-libevent=$PWD/event/built CFLAGS=\"$FLAGS\" \
                LDFLAGS=\"$FLAGS\" && make $AS_IT_IS memcached",
        binary: "memcached",
        work: Work::Server(
            &["-u", "root", "-l", "127.0.0.1", "-A", "-U", "0", "-p", "PORT", "-t", "4", "-m", "16"],
            Protocol::Memcached,
        ),
    },
    Program {
        name: "redis",
        packages: &["redis"],
        build: "cp -a $SOURCES/redis/. . && make -C src MALLOC=libc OPTIMIZATION=-O2 \
                ${SANITIZER:+SANITIZER=$SANITIZER} redis-server",
        binary: "src/redis-server",
        work: Work::Server(
            &[
                "--port",
                "PORT",
                "--bind",
                "127.0.0.1",
                "--save",
                "",
                "--appendonly",
                "no",
                "--io-threads",
                "4",
                "--io-threads-do-reads",
                "yes",
                "--lazyfree-lazy-user-del",
                "yes",
                "--loglevel",
                "warning",
            ],
            Protocol::Redis,
        ),
    },
];

/// Bytes of the file that is compressed.
const INPUT: usize = 3_000_000;

/// A file to compress, made of what every machine has that can build programs: half text, half machine code.
pub fn input(folder: &Path) -> PathBuf {
    let path = folder.join("input");
    let mut bytes = Vec::new();
    for file in ["/usr/share/common-licenses/GPL-3", "/bin/bash", "/usr/bin/make", "/usr/bin/perl"] {
        if let Ok(file) = std::fs::File::open(file) {
            let _ = file.take(INPUT as u64).read_to_end(&mut bytes);
        }
    }
    assert!(!bytes.is_empty(), "there is something to compress");
    let bytes: Vec<u8> = bytes.iter().copied().cycle().take(INPUT).collect();
    std::fs::write(&path, bytes).expect("a file to compress");
    path
}
