//! The accesses, which are nearly all of a recording: what [`super::encode`] does, for them alone and in a few instructions.
//!
//! In two steps, for some of them at a time: it is found out what has to be told about each, without branches; then that is told.

use super::batch::{Access, Batch};
use super::encode::{Encoder, State};
use super::filling::Stream;
use super::guess::Guess;
use super::{code, value_class};
use crate::snag_format::zigzag;
use snag_model::op::Op;

/// What the block knows about a spot.
#[derive(Clone, Copy, Default)]
#[repr(align(8))]
pub(super) struct Known {
    /// Its site.
    site: u16,
    /// Whether it is a plain write.
    writes: bool,
    /// [`READS`] if it reads.
    reads: u8,
    /// Which stream its values go to, and how many bytes each of them takes there; 0 if it has no site yet.
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
    /// Control bytes. Of addresses that are to be told they say that they are so from the site, of values that were not seen that they
    /// are guessed; and with [`READS`].
    control: [u8; GROUP],
    /// How far the addresses are from the last ones at the same sites.
    from_sites: [u64; GROUP],
}

/// In a control byte that is yet to be written: the access reads.
const READS: u8 = code::MORE;

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
        let (writes, reads) = (spot.op == Op::Write, if spot.op.reads() { READS } else { 0 });
        self.known[access.spot.index()] = Known { site, writes, reads, class: class as u8, bytes: bytes as u8 };
    }

    /// Adds accesses of the thread of the run, as long as they are at sites that were declared; how many. What was seen was
    /// seen in this block only if that is `trusted`.
    pub(super) fn accesses(&mut self, accesses: &[Access], trusted: bool) -> usize {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("bmi1") && is_x86_feature_detected!("bmi2") && is_x86_feature_detected!("lzcnt") {
            // SAFETY: the processor has these instructions.
            return unsafe { self.accesses_with_bmi2(accesses, trusted) };
        }
        self.accesses_anywhere(accesses, trusted)
    }

    /// Shifts by variable amounts take one instruction instead of three.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "bmi1,bmi2,lzcnt")]
    fn accesses_with_bmi2(&mut self, accesses: &[Access], trusted: bool) -> usize {
        self.accesses_anywhere(accesses, trusted)
    }

    #[inline(always)]
    fn accesses_anywhere(&mut self, accesses: &[Access], trusted: bool) -> usize {
        let mut done = 0;
        for group in accesses.chunks(GROUP) {
            let before = self.state.guess.walk(self.run.0.0).address;
            let some = self.find_out(group, trusted);
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
    fn find_out(&mut self, accesses: &[Access], trusted: bool) -> usize {
        let (thread, known) = (self.run.0, &self.known[..]);
        let State { guess, found, .. } = &mut *self.state;
        let mut walk = *guess.walk(thread.0);
        let Guess { next, places, .. } = guess;
        let mut done = 0;
        for ((access, control), from_site) in accesses.iter().zip(&mut found.control).zip(&mut found.from_sites) {
            let Access { address, noted, .. } = *access;
            let Known { site, reads, bytes, .. } = known[access.spot.index()];
            if bytes == 0 {
                break;
            }
            let given = std::mem::replace(next.after(&walk), site) != site;
            walk.arrive(site);

            let place = places.at(thread.0, site);
            *from_site = address.wrapping_sub(place.last);
            let (strides, near) = (*from_site == place.stride, address.wrapping_sub(walk.address) == place.offset);
            places.was(thread.0, site, address, walk.address);
            walk.address = address;
            let address_code = !strides as u32 + (!strides & !near) as u32;

            // No two of them have the same bits.
            let codes = given as u32 + (address_code << code::ADDRESS) + ((noted.unseen() as u32) << code::VALUE);
            *control = (codes + reads as u32) as u8;
            done += 1;
        }
        if !trusted {
            found.control.iter_mut().for_each(|control| *control |= code::VALUE_OF_SITE << code::VALUE);
        }
        found.control[done..].fill(0);
        *guess.walk(thread.0) = walk;
        done
    }

    /// Writes what was found out. The thread had touched this address before.
    #[inline(always)]
    fn tell(&mut self, accesses: &[Access], before: u64) {
        let (thread, known) = (self.run.0.0, &self.known[..]);
        let State { guess, found: Found { control, from_sites }, streams, .. } = &mut *self.state;
        let [controls, _, _, sites, _, _, addresses, values @ .., _, _] = streams;
        let values: &mut [Stream; 4] = values;
        for index in Ones(having(control, code::SITE_GIVEN)) {
            sites.put_prefixed(known[accesses[index].spot.index()].site as u64);
        }
        for index in Ones(having(control, code::FROM_SITE << code::ADDRESS)) {
            let last = index.checked_sub(1).map_or(before, |last| accesses[last].address);
            let from_walk = accesses[index].address.wrapping_sub(last);
            let (by_site, by_walk) = (zigzag(from_sites[index] as i64), zigzag(from_walk as i64));
            control[index] += ((by_walk < by_site) as u8) << code::ADDRESS;
            addresses.put_prefixed(by_site.min(by_walk));
        }
        let reads = having(control, READS);
        let read = &mut guess.walk(thread).read;
        let read_before = *read;
        // The last of these reads, or the one before them.
        let read_of = |reads: u64| reads.checked_ilog2().map_or(read_before, |last| accesses[last as usize].value);
        *read = read_of(reads);
        for index in Ones(having(control, code::VALUE_OF_SITE << code::VALUE)) {
            let Access { spot, value, .. } = accesses[index];
            let Known { site, writes, class, bytes, .. } = known[spot.index()];
            let growth = guess.growths.at(thread, site);
            let given = growth.expected(writes, read_of(reads & !(u64::MAX << index))) != value;
            growth.was(value);
            control[index] += (given as u8) << code::VALUE;
            values[class as usize % 4].put_word(value, if given { bytes as usize } else { 0 });
        }
        controls.put_bytes(&control.map(|control| control & !READS), accesses.len());
    }
}

const _: () = assert!(code::FROM_THREAD == code::FROM_SITE + 1);
const _: () = assert!(code::VALUE_OF_SITE == 1 && code::VALUE_GIVEN == 2);

/// Which of the bytes have the one bit of `flag`.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn having(bytes: &[u8; GROUP], flag: u8) -> u64 {
    use std::arch::x86_64::{__m128i, _mm_cvtsi32_si128, _mm_loadu_si128, _mm_movemask_epi8, _mm_sll_epi16};
    let sixteens = bytes.as_chunks::<16>().0.iter().rev();
    sixteens.fold(0, |ones, sixteen| {
        // SAFETY: every processor of this kind has these instructions, and there are sixteen bytes.
        let highest = unsafe {
            let bytes = _mm_loadu_si128(sixteen.as_ptr().cast::<__m128i>());
            _mm_movemask_epi8(_mm_sll_epi16(bytes, _mm_cvtsi32_si128(flag.leading_zeros() as i32)))
        };
        ones << 16 | highest as u64
    })
}

/// Which of the bytes have the one bit of `flag`.
#[cfg(not(target_arch = "x86_64"))]
fn having(bytes: &[u8; GROUP], flag: u8) -> u64 {
    bytes.iter().rev().fold(0, |ones, byte| ones << 1 | (byte & flag != 0) as u64)
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
