//! By what a recording is known to have been made by the same user on the same machine: a code over all that decides what a replay
//! executes, which nobody can make who does not have the user's secret.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::fmt;

/// What is said about a recording: keys and values, in their order.
pub type Entries = [(String, String)];

/// The key of the entry that is the seal.
pub const SEAL: &str = "seal";

/// Makes seals, and knows them again.
#[derive(Clone)]
pub struct Seal {
    secret: [u8; 32],
    machine: String,
}

impl fmt::Debug for Seal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seal")
    }
}

/// Whose a recording is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sealed {
    /// Made with this secret on this machine, and what it says about itself is what was said then.
    Here,
    /// It has a seal, but not this one, or it was changed.
    Elsewhere,
    /// It has none.
    Never,
}

impl Seal {
    /// With the user's secret, for the machine of this name.
    pub fn new(secret: [u8; 32], machine: &str) -> Seal {
        Seal { secret, machine: machine.to_owned() }
    }

    fn code(&self, entries: &Entries) -> Hmac<Sha256> {
        let mut code = Hmac::<Sha256>::new_from_slice(&self.secret).expect("any length is right");
        // With their lengths, so that no two lists look alike.
        let mut add = |text: &str| {
            code.update(&(text.len() as u64).to_le_bytes());
            code.update(text.as_bytes());
        };
        add("snag recording 1");
        add(&self.machine);
        for (key, value) in entries.iter().filter(|(key, _)| key != SEAL) {
            add(key);
            add(value);
        }
        code
    }

    /// The seal of a recording.
    pub fn of(&self, entries: &Entries) -> String {
        self.code(entries).finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Whether a recording has this seal.
    pub fn on(&self, entries: &Entries) -> Sealed {
        let mut seals = entries.iter().filter(|(key, _)| key == SEAL).map(|(_, value)| value);
        let Some(seal) = seals.next() else { return Sealed::Never };
        let digits = seal.as_bytes().chunks(2).map(|pair| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok());
        let bytes: Option<Vec<u8>> = digits.collect();
        let fits = bytes.is_some_and(|bytes| self.code(entries).verify_slice(&bytes).is_ok());
        if fits && seals.next().is_none() { Sealed::Here } else { Sealed::Elsewhere }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(list: &[(&str, &str)]) -> Vec<(String, String)> {
        list.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect()
    }

    #[test]
    fn only_what_was_sealed_here_is_known_again() {
        let seal = Seal::new([7; 32], "this machine");
        let about =
            entries(&[("argument", "./prog"), ("argument", "a"), ("folder", "/home/me"), ("program", "/home/me/prog")]);
        let sealed = |entries: &Entries| [entries, &[(SEAL.to_owned(), seal.of(entries))]].concat();
        assert_eq!(seal.on(&sealed(&about)), Sealed::Here);
        assert_eq!(seal.on(&about), Sealed::Never);
        assert_eq!(Seal::new([8; 32], "this machine").on(&sealed(&about)), Sealed::Elsewhere);
        assert_eq!(Seal::new([7; 32], "another machine").on(&sealed(&about)), Sealed::Elsewhere);
        // Whatever is changed, left out, added or moved.
        for index in 0..about.len() {
            let mut changed = sealed(&about);
            changed[index].1.push('x');
            assert_eq!(seal.on(&changed), Sealed::Elsewhere);
            let mut less = sealed(&about);
            less.remove(index);
            assert_eq!(seal.on(&less), Sealed::Elsewhere);
            let mut more = sealed(&about);
            more.insert(index, ("argument".to_owned(), String::new()));
            assert_eq!(seal.on(&more), Sealed::Elsewhere);
            let mut moved = sealed(&about);
            let entry = moved.remove(index);
            moved.insert((index + 1) % about.len(), entry);
            assert_eq!(seal.on(&moved), Sealed::Elsewhere);
        }
        let last = [sealed(&about), entries(&[("argument", "; rm -r")])].concat();
        assert_eq!(seal.on(&last), Sealed::Elsewhere);
        // A seal is not made longer, shorter or double.
        for wrong in ["", "00", "zz", &(seal.of(&about) + "00"), &seal.of(&about)[..62]] {
            assert_eq!(seal.on(&[about.clone(), entries(&[(SEAL, wrong)])].concat()), Sealed::Elsewhere, "{wrong}");
        }
        assert_eq!(seal.on(&[sealed(&about), entries(&[(SEAL, "00")])].concat()), Sealed::Elsewhere);
        // Where one text ends and the next begins counts.
        let (one, other) = (entries(&[("argument", "a"), ("argument", "b")]), entries(&[("argument", "aargumentb")]));
        assert_ne!(seal.of(&one), seal.of(&other));
    }
}
