//! Witnesses as findings write them (`docs/json.md`), in each of their forms.

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use snag_model::{EventId, Schedule, ThreadCounts, ThreadId, Trace, Turns};
use std::collections::HashMap;
use std::fmt;

/// A witness as a document claims it.
pub enum WitnessClaim {
    /// Event by event.
    List(Vec<u32>),
    /// Of each thread so many events in the order of the trace, and then the rest.
    Compact {
        /// The threads by name.
        counts: Vec<(String, u64)>,
        /// What follows.
        rest: RestClaim,
    },
}

/// What follows the events that are counted.
pub enum RestClaim {
    /// Event by event.
    Then(Vec<u32>),
    /// The thread of each of these events runs on up to it, and it happens, too.
    Turns(Vec<u32>),
}

/// What a witness is about.
pub struct Claimed<'t> {
    trace: &'t Trace,
    threads: HashMap<&'t str, ThreadId>,
    counts: ThreadCounts<'t>,
}

impl<'t> Claimed<'t> {
    /// Witnesses about a trace.
    pub fn about(trace: &'t Trace) -> Claimed<'t> {
        let threads = (0..trace.tables.thread_count()).map(ThreadId::new);
        let threads = threads.map(|thread| (trace.tables.thread_name(thread), thread)).collect();
        Claimed { trace, threads, counts: ThreadCounts::new(trace) }
    }

    /// The schedule that a witness is, behind the events before `as_observed`; or why there is none in this trace.
    pub fn schedule(&self, as_observed: u32, witness: &WitnessClaim) -> Result<Schedule, String> {
        let (counts, rest) = match witness {
            WitnessClaim::List(events) if as_observed == 0 => return Ok(Schedule::List(self.events_of(events)?)),
            WitnessClaim::List(events) => {
                self.event(as_observed - 1)?;
                return Ok(Schedule::Continued { as_observed: EventId(as_observed), then: self.events_of(events)? });
            }
            WitnessClaim::Compact { .. } if as_observed > 0 => {
                return Err("a witness has 'as_observed' and 'counts'".to_owned());
            }
            WitnessClaim::Compact { counts, rest } => (counts, rest),
        };
        let mut ends = vec![EventId(0); self.trace.tables.thread_count()];
        for (name, count) in counts {
            let Some(&thread) = self.threads.get(name.as_str()) else {
                return Err(format!("there is no thread '{name}' in the trace"));
            };
            let behind = u32::try_from(*count).ok().and_then(|count| self.counts.behind(thread, count));
            ends[thread.index()] = behind.ok_or_else(|| {
                let known = self.counts.before(thread, EventId::new(self.trace.len()));
                format!("{count} events of thread '{name}' are out of range: the trace has {known}")
            })?;
        }
        match rest {
            RestClaim::Turns(turns) => Ok(Schedule::Turns { ends, turns: self.events_of(turns)? }),
            RestClaim::Then(events) => {
                let turns = self.events_of(events)?;
                // What was left out between events that were listed must not happen.
                match Turns::of(self.trace, &ends, &turns).eq(turns.iter().copied()) {
                    true => Ok(Schedule::Turns { ends, turns }),
                    false => {
                        let beginning = Schedule::Prefixes(ends);
                        Ok(Schedule::List(beginning.iter(self.trace).chain(turns).collect()))
                    }
                }
            }
        }
    }

    /// An event that the trace has.
    pub fn event(&self, number: u32) -> Result<EventId, String> {
        match self.trace.len() {
            events if number as usize >= events => {
                Err(format!("event {number} is out of range: the trace has {events} events"))
            }
            _ => Ok(EventId(number)),
        }
    }

    fn events_of(&self, numbers: &[u32]) -> Result<Vec<EventId>, String> {
        numbers.iter().map(|&number| self.event(number)).collect()
    }
}

impl<'de> Deserialize<'de> for WitnessClaim {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<WitnessClaim, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = WitnessClaim;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a list of events, or an object with 'counts'")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<WitnessClaim, A::Error> {
                Vec::deserialize(de::value::SeqAccessDeserializer::new(seq)).map(WitnessClaim::List)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<WitnessClaim, A::Error> {
                let (mut counts, mut rest) = (None, None);
                while let Some(key) = map.next_key::<String>()? {
                    match key.as_str() {
                        "counts" if counts.is_none() => counts = Some(map.next_value::<Counts>()?.0),
                        "then" if rest.is_none() => rest = Some(RestClaim::Then(map.next_value()?)),
                        "turns" if rest.is_none() => rest = Some(RestClaim::Turns(map.next_value()?)),
                        "counts" => return Err(de::Error::custom("'counts' twice")),
                        "then" | "turns" => return Err(de::Error::custom("more than one of 'then' and 'turns'")),
                        _ => _ = map.next_value::<de::IgnoredAny>()?,
                    }
                }
                let counts = counts.ok_or_else(|| de::Error::missing_field("counts"))?;
                let rest = rest.ok_or_else(|| de::Error::missing_field("then"))?;
                Ok(WitnessClaim::Compact { counts, rest })
            }
        }
        json.deserialize_any(Either)
    }
}

/// Numbers by name, no name twice.
struct Counts(Vec<(String, u64)>);

impl<'de> Deserialize<'de> for Counts {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Counts, D::Error> {
        struct ByName;
        impl<'de> Visitor<'de> for ByName {
            type Value = Counts;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("how many events of each thread happen")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Counts, A::Error> {
                let mut counts = Vec::new();
                let mut names = std::collections::HashSet::new();
                while let Some((name, count)) = map.next_entry::<String, u64>()? {
                    if !names.insert(name.clone()) {
                        return Err(de::Error::custom(format!("thread '{name}' twice")));
                    }
                    counts.push((name, count));
                }
                Ok(Counts(counts))
            }
        }
        json.deserialize_map(ByName)
    }
}
