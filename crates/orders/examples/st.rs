use snag_trace::std_format::*;
use snag_trace::*;
fn main() {
    let file = std::env::args().nth(1).unwrap();
    let now = std::time::Instant::now();
    let mut r = TraceReader::new(Box::new(StdReader::new(std::fs::File::open(&file).unwrap())), None);
    let mut e = Events::new();
    let mut st = stats::Stats::new();
    while r.next_block(&mut e).unwrap() {
        st.add(&e, &r.tables);
    }
    eprintln!("{} {:?} {:.1}", st.events, now.elapsed(), now.elapsed().as_nanos() as f64 / st.events as f64);
}
