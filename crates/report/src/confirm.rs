//! What replays of a recorded program have shown of its findings.

/// What the replay of a finding has shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Confirmation {
    /// All threads were seen in front of their accesses, or acquires, at the same time.
    Confirmed,
    /// They were not, and why.
    NotConfirmed(String),
}

impl Confirmation {
    /// Whether the threads were seen there.
    pub fn is_confirmed(&self) -> bool {
        *self == Confirmation::Confirmed
    }

    /// Why it is not confirmed, if it is not.
    pub fn why_not(&self) -> Option<&str> {
        match self {
            Confirmation::Confirmed => None,
            Confirmation::NotConfirmed(why) => Some(why),
        }
    }
}

/// One for each race and each deadlock of an analysis, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Confirmations {
    /// Those of races.
    pub races: Vec<Confirmation>,
    /// Those of deadlocks.
    pub deadlocks: Vec<Confirmation>,
}

impl Confirmations {
    /// That of the race with this number, counted from 1.
    pub(crate) fn race(&self, number: u64) -> Option<&Confirmation> {
        at(&self.races, number)
    }

    /// That of the deadlock with this number.
    pub(crate) fn deadlock(&self, number: u64) -> Option<&Confirmation> {
        at(&self.deadlocks, number)
    }
}

fn at(all: &[Confirmation], number: u64) -> Option<&Confirmation> {
    all.get(usize::try_from(number).ok()?.checked_sub(1)?)
}
