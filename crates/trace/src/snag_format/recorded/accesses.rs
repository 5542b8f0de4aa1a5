//! The accesses, which are nearly all of a recording: what [`super::encode`] does, for them alone and in a few instructions.
//!
//! In two steps, for some of them at a time: it is found out what has to be told about each, without branches; then that is told.

use super::batch::{Access, Batch};
use super::encode::{Encoder, State};
use super::filling::Stream;
use super::guess::{Guess, mask};
use super::{code, value_class};
use crate::op::Op;
use crate::snag_format::zigzag;

/// What the block knows about a spot.
#[derive(Clone, Copy, Default)]
pub(super) struct Known {
    /// The bits of its values.
    mask: u64,
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

/// How many accesses are looked at before what is to be told about them is written: as many as a word has bits.
///
/// Whether something is to be told is hard to predict, and a processor that has guessed wrong loses more time than all the rest
/// takes. So first it is only found out, without asking.
const GROUP: usize = 64;

/// What was found out about a group.
pub(super) struct Found {
    /// Control bytes; of addresses that are to be told they say that they are so from the site.
    control: [u8; GROUP],
    /// How far the addresses are from the last ones at the same sites.
    from_sites: [u64; GROUP],
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
        let (writes, reads, mask) = (spot.op == Op::Write, spot.op.reads(), mask(spot.size as u64));
        self.known[access.spot.index()] =
            Known { mask, site, size: spot.size, writes, reads, class: class as u8, bytes: bytes as u8 };
    }

    /// Adds accesses of the thread of the run, as long as they are at sites that were declared; how many.
    pub(super) fn accesses(&mut self, accesses: &[Access]) -> usize {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("bmi1") && is_x86_feature_detected!("bmi2") && is_x86_feature_detected!("lzcnt") {
            // SAFETY: the processor has these instructions.
            return unsafe { self.accesses_with_bmi2(accesses) };
        }
        self.accesses_anywhere(accesses)
    }

    /// Shifts by variable amounts take one instruction instead of three.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "bmi1,bmi2,lzcnt")]
    fn accesses_with_bmi2(&mut self, accesses: &[Access]) -> usize {
        self.accesses_anywhere(accesses)
    }

    #[inline(always)]
    fn accesses_anywhere(&mut self, accesses: &[Access]) -> usize {
        let mut done = 0;
        for group in accesses.chunks(GROUP) {
            let before = self.state.guess.walk(self.run.0.0).address;
            let some = self.find_out(group);
            self.tell(&group[..some], before);
            done += some;
            if some < group.len() {
                break;
            }
        }
        done
    }

    /// Looks at the accesses of a group, up to one at a site that was not declared; how many they are.
    #[inline(always)]
    fn find_out(&mut self, accesses: &[Access]) -> usize {
        let (thread, known) = (self.run.0, &self.known[..]);
        let State { guess, found, .. } = &mut *self.state;
        let mut walk = *guess.walk(thread.0);
        let Guess { next, places, words, .. } = guess;
        let mut done = 0;
        for ((access, control), from_site) in accesses.iter().zip(&mut found.control).zip(&mut found.from_sites) {
            let Access { address, value, .. } = *access;
            let Known { mask, site, size, writes, reads, .. } = known[access.spot.index()];
            if size == 0 {
                break;
            }
            let given = std::mem::replace(next.after(&walk), site) != site;
            walk.arrive(site);

            let place = places.at(thread.0, site);
            *from_site = address.wrapping_sub(place.last);
            let (strides, near) = (*from_site == place.stride, address.wrapping_sub(walk.address) == place.offset);
            place.was(address, walk.address);
            walk.address = address;
            let address_code = !strides as u8 + !(strides | near) as u8;

            let expected = place.expected_value(writes, &walk);
            place.value_was(value);
            walk.has_read_if(reads, value);
            let changed = words.exchange_few(address, size, mask, value) != value;
            let value_code = changed as u8 + (changed & (expected != value)) as u8;

            *control = given as u8 | address_code << code::ADDRESS | value_code << code::VALUE;
            done += 1;
        }
        found.control[done..].fill(0);
        *guess.walk(thread.0) = walk;
        done
    }

    /// Writes what was found out. The thread had touched this address before.
    #[inline(always)]
    fn tell(&mut self, accesses: &[Access], before: u64) {
        let known = &self.known[..];
        let State { found: Found { control, from_sites }, streams, .. } = &mut *self.state;
        let [controls, _, _, sites, _, _, addresses, values @ .., _, _] = streams;
        let values: &mut [Stream; 4] = values;
        for index in Ones(having(control, code::SITE_GIVEN)) {
            sites.put_short(known[accesses[index].spot.index()].site as u64);
        }
        for index in Ones(having(control, code::FROM_SITE << code::ADDRESS)) {
            let last = index.checked_sub(1).map_or(before, |last| accesses[last].address);
            let from_walk = accesses[index].address.wrapping_sub(last);
            let (by_site, by_walk) = (zigzag(from_sites[index] as i64), zigzag(from_walk as i64));
            control[index] += ((by_walk < by_site) as u8) << code::ADDRESS;
            addresses.put_short(by_site.min(by_walk));
        }
        for index in Ones(having(control, code::VALUE_GIVEN << code::VALUE)) {
            let Access { spot, value, .. } = accesses[index];
            let Known { class, bytes, .. } = known[spot.index()];
            values[class as usize % 4].put_word(value, bytes as usize);
        }
        controls.put_bytes(control, accesses.len());
    }
}

const _: () = assert!(code::FROM_THREAD == code::FROM_SITE + 1);

/// Which of the bytes have the one bit of `flag`.
#[inline(always)]
fn having(bytes: &[u8; GROUP], flag: u8) -> u64 {
    let eights = bytes.as_chunks::<8>().0.iter().rev();
    eights.fold(0, |ones, &eight| {
        let word = u64::from_le_bytes(eight) >> flag.trailing_zeros() & 0x0101_0101_0101_0101;
        // The lowest bits of the bytes end up side by side in the highest one.
        ones << 8 | word.wrapping_mul(0x0102_0408_1020_4080) >> 56
    })
}

/// Where a word has ones.
struct Ones(u64);

impl Iterator for Ones {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        let one = (self.0 != 0).then_some(self.0.trailing_zeros() as usize)?;
        self.0 &= self.0 - 1;
        Some(one)
    }
}
