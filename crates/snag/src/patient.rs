//! Input that may not come: standard input, pipes, devices. Nobody can wake a thread from a read, so another thread reads,
//! and who waits for it looks up now and then.

use crate::interrupt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

/// Bytes that are read at once, and how many such pieces may wait for whoever takes them.
const PIECE: usize = 1 << 16;
const PIECES: usize = 64;

/// How often somebody who waits looks whether the user wants to stop.
const GLANCE: Duration = Duration::from_millis(20);

/// Reads until the end of the input or until the user wants to stop.
pub struct Patient {
    pieces: Receiver<io::Result<Vec<u8>>>,
    waiting: Arc<AtomicUsize>,
    piece: Vec<u8>,
    used: usize,
}

/// What waiting for input has led to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Came {
    /// Something, which is in [`Patient::piece`].
    Piece,
    /// The end of the input.
    End,
    /// Nothing, and the user wants to stop.
    Interrupt,
}

type Input = Box<dyn Read + Send>;

impl Patient {
    /// `-` is standard input.
    pub fn open(path: &Path) -> io::Result<Patient> {
        if path == Path::new("-") {
            return Patient::reading(|| Ok(Box::new(io::stdin())));
        }
        let open = |path: &Path| -> io::Result<Input> {
            let file = File::open(path)?;
            match file.metadata()?.is_dir() {
                true => Err(io::ErrorKind::IsADirectory.into()),
                false => Ok(Box::new(file)),
            }
        };
        if Patient::is_for(path) {
            let path = path.to_owned();
            // It may take until somebody writes.
            return Patient::reading(move || open(&path));
        }
        let input = open(path)?;
        Patient::reading(move || Ok(input))
    }

    /// Whether what a path names may let its reader wait.
    pub fn is_for(path: &Path) -> bool {
        path == Path::new("-") || std::fs::metadata(path).is_ok_and(|data| !data.is_file() && !data.is_dir())
    }

    fn reading(open: impl FnOnce() -> io::Result<Input> + Send + 'static) -> io::Result<Patient> {
        let (sender, pieces) = sync_channel(PIECES);
        let waiting = Arc::new(AtomicUsize::new(0));
        let count = waiting.clone();
        // It ends with the input, or with the program.
        std::thread::Builder::new().name("reader".to_owned()).spawn(move || read_all(open(), &sender, &count))?;
        Ok(Patient { pieces, waiting, piece: Vec::new(), used: 0 })
    }

    /// How many pieces were read that nobody has taken yet.
    pub fn waiting(&self) -> Arc<AtomicUsize> {
        self.waiting.clone()
    }

    /// The piece that came last.
    pub fn piece(&self) -> &[u8] {
        &self.piece
    }

    /// Whether all of the piece that came last was taken.
    pub fn is_used(&self) -> bool {
        self.used == self.piece.len()
    }

    /// Waits for the next piece.
    pub fn next_piece(&mut self) -> io::Result<Came> {
        loop {
            match self.pieces.recv_timeout(GLANCE) {
                Ok(piece) => {
                    self.waiting.fetch_sub(1, Ordering::AcqRel);
                    (self.piece, self.used) = (piece?, 0);
                    return Ok(Came::Piece);
                }
                Err(RecvTimeoutError::Timeout) if interrupt::interrupted() || interrupt::is_enough() => {
                    return Ok(Came::Interrupt);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(Came::End),
            }
        }
    }

    /// Takes from the piece that came last.
    pub fn copy_into(&mut self, out: &mut [u8]) -> usize {
        let count = out.len().min(self.piece.len() - self.used);
        out[..count].copy_from_slice(&self.piece[self.used..self.used + count]);
        self.used += count;
        count
    }
}

fn read_all(input: io::Result<Input>, sender: &SyncSender<io::Result<Vec<u8>>>, waiting: &AtomicUsize) {
    let mut buffer = vec![0; PIECE];
    let mut read = |input: &mut Input| input.read(&mut buffer).map(|count| buffer[..count].to_vec());
    let (mut input, mut failed) = match input {
        Ok(input) => (input, None),
        Err(error) => (Box::new(io::empty()) as Input, Some(error)),
    };
    loop {
        let piece = match failed.take().map_or_else(|| read(&mut input), Err) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Ok(piece) if piece.is_empty() => return,
            piece => piece,
        };
        let is_last = piece.is_err();
        waiting.fetch_add(1, Ordering::AcqRel);
        if sender.send(piece).is_err() || is_last {
            return;
        }
    }
}

impl Read for Patient {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.is_used() {
            match self.next_piece()? {
                Came::Piece => {}
                Came::End => return Ok(0),
                Came::Interrupt => return Err(io::Error::other("interrupted")),
            }
        }
        Ok(self.copy_into(out))
    }
}
