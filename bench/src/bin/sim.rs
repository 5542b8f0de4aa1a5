//! Scratch.
use snag_formats::reader::BlockReader;
use snag_formats::snag_format::SnagReader;
use snag_model::{Action, Events, Op, Tables, VarId, Variable};
use std::collections::{HashMap, HashSet};
use std::io::BufReader;

#[derive(Clone, Copy, Default)]
struct Word {
    mark: u32,
    first: u32,
    written: bool,
    readers: bool,
    contended: bool,
}

fn main() {
    let path = std::env::args().nth(1).unwrap();
    let mut reader = SnagReader::new(BufReader::new(std::fs::File::open(path).unwrap()));
    let mut tables = Tables::new();
    let mut events = Events::new();
    let mut words: HashMap<u64, Word> = HashMap::new();
    // segments: number -> (thread, index)
    let mut seg: Vec<(usize, u32)> = vec![(0, 0), (0, 0)];
    let mut cur: Vec<u32> = vec![1]; // by thread: current segment
    let mut knows: Vec<Vec<u32>> = vec![Vec::new()]; // thread -> other -> highest index+1
    let mut forked = false;
    let mut idx: Vec<u32> = vec![0];
    let mut notifies: HashMap<u32, (usize, u32, Vec<u32>)> = HashMap::new();
    let (mut n, mut acc, mut s, mut others, mut late, mut atom) = (0u64, 0u64, 0u64, 0u64, 0u64, 0u64);
    let mut diff: HashMap<u32, i64> = HashMap::new();
    let mut exact: HashSet<u32> = HashSet::new();
    let mut blooms: Vec<HashSet<u64>> = vec![];
    const B: u64 = 1 << 18;
    let mut why: HashMap<(u32, u8), (u64, HashSet<u32>)> = HashMap::new();
    let mut by_loc: HashMap<(u32, bool), u64> = HashMap::new();
    let mut first_touch = 0u64;
    let mut lastvisit: HashMap<u64, (u32, u32)> = HashMap::new();
    while reader.read_block(&mut tables, &mut events).unwrap() {
        for i in 0..events.len() {
            let e = events.get(i);
            let t = e.thread.index();
            if cur.len() <= t {
                cur.resize(t + 1, 0);
                knows.resize(t + 1, Vec::new());
                idx.resize(t + 1, 0);
            }
            if cur[t] == 0 {
                seg.push((t, 0));
                cur[t] = seg.len() as u32 - 1;
                idx[t] = 0;
            }
            let number = n;
            n += 1;
            let block = (number / B) as u32;
            while blooms.len() <= block as usize {
                blooms.push(HashSet::new());
            }
            let mut touch = |words: &mut HashMap<u64, Word>,
                             lo: u64,
                             hi: u64,
                             writes: bool,
                             seg: &Vec<(usize, u32)>,
                             cur: &Vec<u32>,
                             knows: &Vec<Vec<u32>>,
                             late: &mut u64,
                             diff: &mut HashMap<u32, i64>,
                             exact: &mut HashSet<u32>,
                             blooms: &mut Vec<HashSet<u64>>|
             -> bool {
                let mut any = false;
                for w in lo / 8..=(hi - 1) / 8 {
                    let word = words.entry(w).or_default();
                    if word.contended {
                        any = true;
                        continue;
                    }
                    let mine = cur[t];
                    if word.mark == 0 {
                        *word = Word { mark: mine, first: number as u32, written: writes, ..Default::default() };
                        blooms[block as usize].insert(w / 8);
                        continue;
                    }
                    if word.mark != mine {
                        let (o, i) = seg[word.mark as usize];
                        let initial = word.mark == 1;
                        let known = o == t || initial || knows[t].get(o).copied().unwrap_or(0) > i;
                        let mut cont = false;
                        if initial && (forked) {
                            word.written = false;
                            word.readers = false;
                        }
                        if word.readers {
                            // readers: nobody has written
                            if writes {
                                cont = true;
                            }
                        } else if known {
                            word.mark = mine;
                        } else if !writes && !word.written {
                            word.readers = true;
                            word.mark = mine;
                        } else {
                            cont = true;
                        }
                        if cont {
                            word.contended = true;
                            any = true;
                            let fb = word.first as u64 / B;
                            if fb as u32 != block || true {
                                *late += 1;
                                *diff.entry(fb as u32).or_default() += 1;
                                *diff.entry(block + 1).or_default() -= 1;
                                for b in fb as u32..=block {
                                    if blooms[b as usize].contains(&(w / 8)) {
                                        exact.insert(b);
                                        let x = why.entry((e.location.0, e.op as u8)).or_insert((0, HashSet::new()));
                                        x.0 += 1;
                                        x.1.insert(b);
                                    }
                                }
                            }
                            continue;
                        }
                    } else if word.readers && writes {
                        word.contended = true;
                        any = true;
                        *late += 1;
                        let fb = word.first as u64 / B;
                        *diff.entry(fb as u32).or_default() += 1;
                        *diff.entry(block + 1).or_default() -= 1;
                        for b in fb as u32..=block {
                            if blooms[b as usize].contains(&(w / 8)) {
                                exact.insert(b);
                                let x = why.entry((e.location.0, e.op as u8)).or_insert((0, HashSet::new()));
                                x.0 += 1;
                                x.1.insert(b);
                            }
                        }
                        continue;
                    }
                    word.written |= writes;
                    blooms[block as usize].insert(w / 8);
                }
                any
            };
            match e.op {
                Op::Read | Op::Write | Op::AtomicRead | Op::AtomicWrite | Op::Rmw => {
                    if let Variable::Range { address, size } = tables.variable(VarId(e.target)) {
                        let w = touch(
                            &mut words,
                            address,
                            address + size,
                            e.op.writes(),
                            &seg,
                            &cur,
                            &knows,
                            &mut late,
                            &mut diff,
                            &mut exact,
                            &mut blooms,
                        );
                        if size <= 8 && e.op != Op::Rmw {
                            acc += 1;
                            if matches!(e.op, Op::AtomicRead | Op::AtomicWrite) {
                                atom += 1;
                            }
                            let lv = lastvisit.entry(address / 8).or_insert((u32::MAX, 0));
                            if *lv != (block, cur[t]) {
                                *lv = (block, cur[t]);
                                first_touch += 1;
                            }
                            if w {
                                s += 1;
                                *by_loc.entry((e.location.0, e.op.writes())).or_default() += 1;
                            }
                        } else {
                            others += 1;
                        }
                    } else {
                        others += 1;
                    }
                }
                Op::Alloc | Op::Free => {
                    others += 1;
                    if let Variable::Range { address, size } = tables.variable(VarId(e.target)) {
                        if e.op == Op::Free {
                            // as a write, where something is known
                            for w in address / 8..=(address + size - 1) / 8 {
                                if words.contains_key(&w) {
                                    touch(
                                        &mut words,
                                        w * 8,
                                        w * 8 + 8,
                                        true,
                                        &seg,
                                        &cur,
                                        &knows,
                                        &mut late,
                                        &mut diff,
                                        &mut exact,
                                        &mut blooms,
                                    );
                                }
                            }
                        }
                        for w in address / 8..=(address + size - 1) / 8 {
                            if e.op == Op::Alloc && size < 1 << 26 {
                                words.insert(
                                    w,
                                    Word { mark: cur[t], first: number as u32, written: true, ..Default::default() },
                                );
                            } else {
                                words.remove(&w);
                            }
                        }
                    }
                }
                _ => {
                    others += 1;
                    let next = |seg: &mut Vec<(usize, u32)>, cur: &mut Vec<u32>, idx: &mut Vec<u32>, t: usize| {
                        idx[t] += 1;
                        seg.push((t, idx[t]));
                        cur[t] = seg.len() as u32 - 1;
                    };
                    let mut join = |to: usize, row: Vec<u32>, who: usize, i: u32, knows: &mut Vec<Vec<u32>>| {
                        if knows.len() <= to {
                            knows.resize(to + 1, Vec::new());
                        }
                        let k = &mut knows[to];
                        let len = k.len().max(row.len()).max(who + 1);
                        k.resize(len, 0);
                        for (a, b) in k.iter_mut().zip(row.iter()) {
                            *a = (*a).max(*b);
                        }
                        k[who] = k[who].max(i + 1);
                    };
                    match e.action() {
                        Action::Fork { thread: c, .. } => {
                            join(c.index(), knows[t].clone(), t, idx[t], &mut knows);
                            if !forked {
                                forked = true;
                                idx[t] = 0;
                                seg.push((t, 0));
                                cur[t] = seg.len() as u32 - 1;
                            }
                            next(&mut seg, &mut cur, &mut idx, t);
                        }
                        Action::Join { thread: c, .. } => {
                            let row = knows.get(c.index()).cloned().unwrap_or_default();
                            let i = idx.get(c.index()).copied().unwrap_or(0);
                            join(t, row, c.index(), i, &mut knows);
                        }
                        Action::Notify { .. } | Action::NotifyAll { .. } => {
                            notifies.insert(number as u32, (t, idx[t], knows[t].clone()));
                            next(&mut seg, &mut cur, &mut idx, t);
                        }
                        Action::Wake { by: Some(b), .. } => {
                            if let Some((w, i, row)) = notifies.get(&b.0).cloned() {
                                let _ = row;
                                join(t, Vec::new(), w, i, &mut knows);
                            }
                        }
                        _ => {}
                    }
                }
            }
        }
        {
            events = Events::new();
        }
    }
    let blocks = n.div_ceil(B);
    let mut flagged = 0;
    let mut depth = 0i64;
    for b in 0..blocks as u32 {
        depth += diff.get(&b).copied().unwrap_or(0);
        if depth > 0 {
            flagged += 1;
        }
    }
    println!(
        "{n} events, {acc} accesses, {atom} atomic, {s} shared ({:.2}%), {others} others ({:.2}%), late words {late}, blocks {blocks}, flagged by range {flagged}, by lines {}, segments {}, words {}, first touches {first_touch}",
        100.0 * s as f64 / n as f64,
        100.0 * others as f64 / n as f64,
        exact.len(),
        seg.len(),
        words.len()
    );
    let mut top: Vec<_> = by_loc.into_iter().collect();
    top.sort_by_key(|x| std::cmp::Reverse(x.1));
    for ((l, w), c) in top.into_iter().take(12) {
        println!("  {c} {} {}", if w { "w" } else { "r" }, tables.location_name(snag_model::LocId(l)));
    }
    let mut top: Vec<_> = why.into_iter().map(|(k, v)| (v.1.len(), v.0, k)).collect();
    top.sort_by_key(|x| std::cmp::Reverse(x.0));
    for (blocks, n, (l, op)) in top.into_iter().take(12) {
        println!("  late: {blocks} blocks {n} {} {}", op, tables.location_name(snag_model::LocId(l)));
    }
}
