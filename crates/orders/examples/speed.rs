use snag_orders::*;
use snag_trace::generate::*;
use snag_trace::std_format::*;
use snag_trace::*;
use std::time::Instant;
fn main() {
    let threads: usize = std::env::args().nth(1).unwrap().parse().unwrap();
    let many = std::env::args().nth(2).unwrap() == "many";
    let file = format!("/tmp/speed/{threads}-{many}.std");
    if !std::path::Path::new(&file).exists() {
        let mut s = Shape { events: 10_000_000, threads, ..Shape::default() };
        if many {
            s.locks = 32.max(threads * 4);
            s.variables = 11000;
            s.local_variables = 100;
        }
        let (t, _) = TraceReader::new(Box::new(Generator::new(s)), None).read_all().unwrap();
        let mut w = StdWriter::new(std::io::BufWriter::new(std::fs::File::create(&file).unwrap()));
        w.write(&t.events, &t.tables).unwrap();
        w.finish(&t.tables).unwrap();
    }
    let now = Instant::now();
    let mut r = TraceReader::new(Box::new(StdReader::new(std::fs::File::open(&file).unwrap())), None);
    let mut e = Events::new();
    let mut st = stats::Stats::new();
    while r.next_block(&mut e).unwrap() {
        st.add(&e, &r.tables);
    }
    println!("stats {:?}  {:.1} ns", now.elapsed(), now.elapsed().as_nanos() as f64 / st.events as f64);
    let now = Instant::now();
    let (t, _) =
        TraceReader::new(Box::new(StdReader::new(std::fs::File::open(&file).unwrap())), None).read_all().unwrap();
    let n = t.len() as f64;
    println!("parse {:?}  {:.1} ns", now.elapsed(), now.elapsed().as_nanos() as f64 / n);
    let cells = Cells::of(&t);
    for (o, v) in [
        (Order::Hb, Variant::Epochs),
        (Order::Shb, Variant::Epochs),
        (Order::Fhb, Variant::Epochs),
        (Order::Hb, Variant::Vectors),
        (Order::Shb, Variant::Vectors),
    ] {
        let now = Instant::now();
        let w = warnings(&t, &cells, o, v, None, &mut |_| true);
        let el = now.elapsed();
        let now = Instant::now();
        let p = pairs(&t, &cells, o, &w, None, Limits::default(), &mut |_| true);
        println!(
            "{o:?} {v:?} {} warnings {:.1} ns  {} MB; {} pairs {:?}",
            w.events.len(),
            el.as_nanos() as f64 / n,
            w.memory >> 20,
            p.pairs.len(),
            now.elapsed()
        );
    }
}
