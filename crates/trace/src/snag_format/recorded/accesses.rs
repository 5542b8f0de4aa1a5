//! The accesses, which are nearly all of a recording: what [`super::encode`] does, for them alone and in a few instructions.

use super::batch::{Access, Batch};
use super::encode::{Encoder, State};
use super::filling::Stream;
use super::guess::{Guess, Walk};
use super::{code, value_class};
use crate::op::Op;
use crate::snag_format::zigzag;

/// What the block knows about a spot.
#[derive(Clone, Copy, Default)]
pub(super) struct Known {
    /// Its site.
    site: u16,
    /// Bytes; 0 if it has no site yet.
    size: u8,
    /// Whether it is a plain write, and whether it reads.
    writes: bool,
    reads: bool,
    /// Which stream its values go to, and how many bytes each of them takes there.
    class: u8,
    bytes: u8,
}

impl Encoder {
    /// A batch comes, maybe with spots that were not there before.
    pub(super) fn expect(&mut self, batch: &Batch) {
        if self.batch != batch.identity {
            self.batch = batch.identity;
            self.known.clear();
        }
        self.known.resize(batch.spots.len(), Known::default());
    }

    /// The spot is this site of the block.
    pub(super) fn is_site(&mut self, access: &Access, batch: &Batch, site: u16) {
        let spot = batch.spots[access.spot.index()];
        let (class, bytes) = value_class(spot.size as u64);
        let (writes, reads) = (spot.op == Op::Write, spot.op.reads());
        self.known[access.spot.index()] =
            Known { site, size: spot.size, writes, reads, class: class as u8, bytes: bytes as u8 };
    }

    /// Adds accesses as long as they are those of the thread of the run, at sites that were declared; how many.
    pub(super) fn accesses(&mut self, accesses: &[Access]) -> usize {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("bmi2") && is_x86_feature_detected!("lzcnt") {
            // SAFETY: the processor has these instructions.
            return unsafe { self.accesses_with_bmi2(accesses) };
        }
        self.accesses_anywhere(accesses)
    }

    /// Shifts by variable amounts take one instruction instead of three.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "bmi2,lzcnt")]
    fn accesses_with_bmi2(&mut self, accesses: &[Access]) -> usize {
        self.accesses_anywhere(accesses)
    }

    #[inline(always)]
    fn accesses_anywhere(&mut self, accesses: &[Access]) -> usize {
        let thread = self.run.0;
        let known = &self.known[..];
        let State { guess, streams, .. } = &mut *self.state;
        let mut walk: Walk = *guess.walk(thread.0);
        let Guess { next, places, words, .. } = guess;
        let [control, _, _, sites, _, _, addresses, values @ .., _, _] = streams;
        let values: &mut [Stream; 4] = values;
        let mut control = control.pen();
        for access in accesses {
            let Access { address, value, .. } = *access;
            let Known { site, size, writes, reads, class, bytes } = known[access.spot.index()];
            if (access.thread != thread) | (size == 0) {
                break;
            }

            let mut how = 0;
            if std::mem::replace(next.after(&walk), site) != site {
                how = code::SITE_GIVEN;
                sites.put_short(site as u64);
            }
            walk.arrive(site);

            let place = places.at(thread.0, site);
            let (from_site, from_walk) = (address.wrapping_sub(place.last), address.wrapping_sub(walk.address));
            let (strides, near) = (from_site == place.stride, from_walk == place.offset);
            place.was(address, walk.address);
            walk.address = address;
            if !strides {
                how |= code::NEAR_THREAD << code::ADDRESS;
                if !near {
                    let (by_site, by_walk) = (zigzag(from_site as i64), zigzag(from_walk as i64));
                    how += (1 + (by_walk < by_site) as u8) << code::ADDRESS;
                    addresses.put_short(by_site.min(by_walk));
                }
            }

            let expected = place.expected_value(writes, &walk);
            place.value_was(value);
            walk.has_read_if(reads, value);
            let contents = words.exchange_few(address, size, value);
            if contents != value {
                let told = expected != value;
                values[class as usize % 4].put_word(value, bytes as usize * told as usize);
                how |= (code::VALUE_OF_SITE + told as u8) << code::VALUE;
            }
            control.put_word(how as u64, 1);
        }
        let done = control.count();
        control.done();
        *self.state.guess.walk(thread.0) = walk;
        done
    }
}
