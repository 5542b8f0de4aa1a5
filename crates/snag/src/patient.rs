//! Input that may not come: standard input, pipes, devices. Nobody can wake a thread from a read, so another thread reads,
//! and who waits for it looks up now and then.

use crate::interrupt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

const PIECE: usize = 1 << 17;
const PIECES: usize = 8;
const GLANCE: Duration = Duration::from_millis(50);

/// Reads until the end of the input or until the user wants to stop.
pub struct Patient {
    pieces: Receiver<io::Result<Vec<u8>>>,
    piece: Vec<u8>,
    used: usize,
}

impl Patient {
    /// `-` is standard input.
    pub fn open(path: &Path) -> io::Result<Patient> {
        let (sender, pieces) = sync_channel(PIECES);
        let path = path.to_owned();
        // It ends with the input, or with the program.
        std::thread::Builder::new().name("reader".to_owned()).spawn(move || read_all(path, &sender))?;
        Ok(Patient { pieces, piece: Vec::new(), used: 0 })
    }

    /// Whether what a path names may let its reader wait.
    pub fn is_for(path: &Path) -> bool {
        path == Path::new("-") || std::fs::metadata(path).is_ok_and(|data| !data.is_file() && !data.is_dir())
    }
}

fn read_all(path: PathBuf, sender: &SyncSender<io::Result<Vec<u8>>>) {
    let input: io::Result<Box<dyn Read>> = match path == Path::new("-") {
        true => Ok(Box::new(io::stdin())),
        false => File::open(path).map(|file| Box::new(file) as Box<dyn Read>),
    };
    let mut input = match input {
        Ok(input) => input,
        Err(error) => {
            let _ = sender.send(Err(error));
            return;
        }
    };
    let mut buffer = vec![0; PIECE];
    loop {
        let piece = match input.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Ok(0) => return,
            Ok(count) => Ok(buffer[..count].to_vec()),
            Err(error) => Err(error),
        };
        let failed = piece.is_err();
        if sender.send(piece).is_err() || failed {
            return;
        }
    }
}

impl Read for Patient {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.used == self.piece.len() {
            match self.pieces.recv_timeout(GLANCE) {
                Ok(piece) => (self.piece, self.used) = (piece?, 0),
                Err(RecvTimeoutError::Timeout) if interrupt::interrupted() => {
                    return Err(io::Error::other("interrupted"));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(0),
            }
        }
        let count = out.len().min(self.piece.len() - self.used);
        out[..count].copy_from_slice(&self.piece[self.used..self.used + count]);
        self.used += count;
        Ok(count)
    }
}
