//! Reading findings (`docs/json.md`) back, one claim at a time.
//!
//! A document may hold thousands of witnesses, each a list of millions of events, so it is
//! never in memory as a whole: [`entries`] reads what traces it speaks of, and
//! [`claims`] hands out what it claims about one of them, claim by claim. A document
//! that lacks a field of the format is refused.

use crate::witness_claim::WitnessClaim;
use serde::Deserialize;
use serde::de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::fmt;
use std::io::Read;
use std::ops::RangeInclusive;

/// The versions of the format that this program reads.
const VERSIONS: RangeInclusive<u64> = 1..=snag_report::VERSION;

/// What a document says about a trace before its findings.
#[derive(Deserialize)]
pub struct Entry {
    /// The trace as the user named it then.
    pub path: String,
    /// How many events it had.
    pub events: u64,
}

/// Something a document claims to be proved.
pub enum Claim {
    /// A race.
    Race(Box<RaceClaim>),
    /// A deadlock.
    Deadlock(DeadlockClaim),
    /// Something that went wrong in the recorded run.
    Fault(Box<FaultClaim>),
}

impl Claim {
    /// Its name in the document.
    pub fn id(&self) -> &str {
        match self {
            Claim::Race(race) => &race.id,
            Claim::Deadlock(deadlock) => &deadlock.id,
            Claim::Fault(fault) => &fault.id,
        }
    }

    /// Whether it was found with missing methods ignored.
    pub fn missing_ignored(&self) -> bool {
        match self {
            Claim::Race(race) => race.missing_ignored,
            Claim::Deadlock(deadlock) => deadlock.missing_ignored,
            Claim::Fault(_) => false,
        }
    }
}

/// A race as a document claims it.
#[derive(Deserialize)]
#[allow(dead_code)] // Fields that are only required to be there.
pub struct RaceClaim {
    /// Its name in the document.
    pub id: String,
    engine: String,
    /// What the witness is said to show; a race that needs no memory order to happen if nothing is said.
    #[serde(default)]
    pub kind: Option<String>,
    /// The level at which it is said to be proved.
    pub level: String,
    /// One access.
    pub first: AccessClaim,
    /// The other.
    pub second: AccessClaim,
    /// Locks held at the first access.
    pub locks_first: Vec<String>,
    /// Locks held at the second.
    pub locks_second: Vec<String>,
    /// The events before this one come first, as they were.
    #[serde(default)]
    pub as_observed: u32,
    /// The events before the pair.
    pub witness: WitnessClaim,
    /// The wake-ups among them that come for no reason.
    #[serde(default)]
    pub spurious: Vec<u32>,
    /// The branches among them that go the other way.
    #[serde(default)]
    pub diverging: Vec<u32>,
    /// The values that the reads among them take.
    pub reads: Vec<ReadClaim>,
    verified: bool,
    count: u64,
    /// Whether missing methods were ignored.
    #[serde(default)]
    pub missing_ignored: bool,
}

/// A read of a witness and the value that it takes.
#[derive(Deserialize)]
pub struct ReadClaim {
    /// Its number.
    pub event: u32,
    /// What it finds in memory.
    pub value: i64,
}

/// An access as a document describes it.
#[derive(Deserialize)]
#[allow(dead_code)]
pub struct AccessClaim {
    /// Its number.
    pub event: u32,
    /// Name of its thread.
    pub thread: String,
    /// Word for its operation.
    pub op: String,
    /// Name of what it accesses.
    pub variable: String,
    /// Its source location.
    pub location: String,
    stack: Vec<IgnoredAny>,
}

/// A deadlock as a document claims it.
#[derive(Deserialize)]
#[allow(dead_code)]
pub struct DeadlockClaim {
    /// Its name in the document.
    pub id: String,
    engine: String,
    /// The level at which it is said to be proved.
    pub level: String,
    /// The acquires that wait for each other.
    pub pending: Vec<PendingClaim>,
    /// The events before this one come first, as they were.
    #[serde(default)]
    pub as_observed: u32,
    /// The events before.
    pub witness: WitnessClaim,
    /// The wake-ups among them that come for no reason.
    #[serde(default)]
    pub spurious: Vec<u32>,
    reads: Vec<IgnoredAny>,
    verified: bool,
    /// Whether missing methods were ignored.
    #[serde(default)]
    pub missing_ignored: bool,
}

/// A fault as a document claims it.
#[derive(Deserialize)]
#[allow(dead_code)]
pub struct FaultClaim {
    /// Its name in the document.
    pub id: String,
    engine: String,
    /// What went wrong.
    pub kind: String,
    how: String,
    /// What made it wrong, if that is an event.
    #[serde(default)]
    pub first: Option<AccessClaim>,
    /// The event that was wrong.
    pub second: AccessClaim,
    /// At which level it is said to be proved, if it did not happen.
    #[serde(default)]
    pub level: Option<String>,
    /// What happens before, if it did not happen.
    #[serde(default)]
    pub witness: Option<WitnessClaim>,
    verified: bool,
    count: u64,
}

/// An acquire of a deadlock as a document describes it.
#[derive(Deserialize)]
#[allow(dead_code)]
pub struct PendingClaim {
    /// Its number.
    pub event: u32,
    /// Name of its thread.
    pub thread: String,
    /// Word for its operation.
    pub op: String,
    /// Name of the lock.
    pub lock: String,
    /// Its source location.
    pub location: String,
    stack: Vec<IgnoredAny>,
}

/// The traces a document speaks of.
pub fn entries(input: impl Read) -> Result<Vec<Entry>, String> {
    #[derive(Deserialize)]
    struct Document {
        snag: u64,
        traces: Vec<Entry>,
    }
    let document: Document = serde_json::from_reader(input).map_err(not_findings)?;
    match document.snag {
        version if VERSIONS.contains(&version) => Ok(document.traces),
        other => {
            let (oldest, newest) = VERSIONS.into_inner();
            Err(format!("findings of version {other}; this program reads versions {oldest} to {newest}"))
        }
    }
}

/// Hands out every claim about the trace with this index. What `each` refuses ends the reading.
pub fn claims(input: impl Read, index: usize, each: &mut dyn FnMut(Claim) -> Result<(), String>) -> Result<(), String> {
    // What is wrong with the text has a place in it; what is refused has none that helps.
    let mut refused = None;
    let mut each = |claim: Claim| {
        each(claim).map_err(|message| {
            refused = Some(message);
            String::new()
        })
    };
    let mut json = serde_json::Deserializer::from_reader(input);
    let read = Document { index, each: &mut each }.deserialize(&mut json).and_then(|()| json.end());
    match refused {
        Some(message) => Err(message),
        None => read.map_err(|error| error.to_string()),
    }
}

/// The file is not even roughly what it should be.
fn not_findings(error: serde_json::Error) -> String {
    match error.classify() {
        serde_json::error::Category::Io => format!("cannot read: {error}"),
        _ => format!(
            "not what 'snag check --format json' writes: {}",
            error.to_string().replace("struct Document", "an object")
        ),
    }
}

type Each<'a> = &'a mut dyn FnMut(Claim) -> Result<(), String>;

struct Document<'a> {
    index: usize,
    each: Each<'a>,
}

impl<'de> DeserializeSeed<'de> for Document<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Document<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("an object with findings")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "traces" => map.next_value_seed(Traces { index: self.index, each: &mut *self.each })?,
                _ => _ = map.next_value::<IgnoredAny>()?,
            }
        }
        Ok(())
    }
}

struct Traces<'a> {
    index: usize,
    each: Each<'a>,
}

impl<'de> DeserializeSeed<'de> for Traces<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Traces<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("an array of traces")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        for _ in 0..self.index {
            seq.next_element::<IgnoredAny>()?;
        }
        seq.next_element_seed(Findings { each: self.each })?;
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }
}

struct Findings<'a> {
    each: Each<'a>,
}

impl<'de> DeserializeSeed<'de> for Findings<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Findings<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("an object with the findings of a trace")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let (mut races, mut deadlocks, mut faults) = (false, false, false);
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "races" if !std::mem::replace(&mut races, true) => {
                    map.next_value_seed(List { make: Claim::Race, each: &mut *self.each })?;
                }
                "deadlocks" if !std::mem::replace(&mut deadlocks, true) => {
                    map.next_value_seed(List { make: Claim::Deadlock, each: &mut *self.each })?;
                }
                "faults" if !std::mem::replace(&mut faults, true) => {
                    let make = |fault| Claim::Fault(Box::new(fault));
                    map.next_value_seed(List { make, each: &mut *self.each })?;
                }
                "races" | "deadlocks" | "faults" => return Err(de::Error::custom(format!("'{key}' twice"))),
                _ => _ = map.next_value::<IgnoredAny>()?,
            }
        }
        match (races, deadlocks) {
            (false, _) => Err(de::Error::missing_field("races")),
            (_, false) => Err(de::Error::missing_field("deadlocks")),
            _ => Ok(()),
        }
    }
}

/// An array of claims of one kind.
struct List<'a, T> {
    make: fn(T) -> Claim,
    each: Each<'a>,
}

impl<'de, T: Deserialize<'de>> DeserializeSeed<'de> for List<'_, T> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_seq(self)
    }
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for List<'_, T> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("an array of findings")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while let Some(claim) = seq.next_element::<T>()? {
            (self.each)((self.make)(claim)).map_err(de::Error::custom)?;
        }
        Ok(())
    }
}
