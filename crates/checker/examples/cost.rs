//! Measures what a check costs: `cargo run --release --example cost [events]`.

use snag_checker::{Checker, Violation};
use snag_formats::TraceReader;
use snag_model::{Cells, EventId, Trace};
use snag_model::{Level, Schedule};
use snag_synthesis::generate::{Generator, Shape};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

fn main() {
    let events = std::env::args().nth(1).map_or(10_000_000, |n| n.parse().expect("a number of events"));
    let shape = Shape { events, threads: 16, locks: 500, variables: 50_000, local_variables: 1000, ..Shape::default() };
    measure("few variables", Shape { events, ..Shape::default() });
    measure("many variables", shape.clone());
    measure("values and branches", Shape { values: true, branches: 0.2, ..shape });
}

fn measure(name: &str, shape: Shape) {
    let reader = TraceReader::new(Box::new(Generator::new(shape)), None);
    let (trace, _) = reader.read_all().expect("generated traces are well formed");
    let cells = Cells::of(&trace);
    let start = running_time();
    let checker = Checker::new(&trace, &cells);
    let facts = running_time() - start;
    let per_event = |time: Duration| time.as_nanos() as f64 / trace.len() as f64;
    println!("{name}: {} events, facts {:.1} ns/event", trace.len(), per_event(facts));
    for level in [Level::Writer, Level::Control] {
        let direct = best(|| checker.check_feasible((0..trace.len()).map(EventId::new), level));
        let prefixes = best(|| checker.check_feasible(prefixes(&trace).iter(&trace), level));
        println!("  {level}: {:.1} ns/event, {:.1} from prefixes", per_event(direct), per_event(prefixes));
    }
}

/// The shortest of some runs: the others were disturbed.
fn best(check: impl Fn() -> Result<(), Violation>) -> Duration {
    let time = |_| {
        let start = running_time();
        check().expect("the trace itself is feasible");
        running_time() - start
    };
    (0..7).map(time).min().expect("some runs")
}

/// How long this thread has run. Linux says so; elsewhere all time counts.
fn running_time() -> Duration {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    let statistics = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let on_processor = statistics.split(' ').next().and_then(|nanoseconds| nanoseconds.parse().ok());
    on_processor.map_or_else(|| START.elapsed(), Duration::from_nanos)
}

/// The whole trace as prefixes.
fn prefixes(trace: &Trace) -> Schedule {
    Schedule::Prefixes(vec![EventId::new(trace.len()); trace.tables.thread_count()])
}
